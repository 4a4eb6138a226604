/* Sealing and opening a secret key with key and passphrase marked secret; what is left out of the
 * sealing itself is named in ct_sealed.c. */
#include "base/ct.h"
#include "crypto/ahe/keyfile.h"
#include "seeded/seeded.h"

#include <stdio.h>
#include <string.h>

static const sealed_cost cheap = { .passes = 1, .kib = SEALED_KIB_MIN };

static sefl_status key_file(void)
{
    sefl_status st = SEFL_OK;
    paillier_sec *made = NULL, *read = NULL;
    sefl_buf raw = { 0 }, file = { 0 }, again = { 0 };
    uint8_t pass[20], label[35] = { 1, 0x00, 0x08 };
    sealed_lock lock = { SEALED_BY_PASSPHRASE, { pass, sizeof pass } };
    seeded gen;
    seeded_init(&gen, 1, "ctime");
    sefl_rng rng = seeded_rng(&gen);

    memset(pass, 'x', sizeof pass);
    SEFL_TRY(paillier_keygen_vartime(&made, 2048, &rng, NULL)); /* not constant-time, not marked */
    SEFL_TRY(paillier_sec_write(made, &raw));
    paillier_pub_fingerprint(paillier_sec_pub(made), label + 3);

    CT_SECRET(pass, sizeof pass);
    CT_SECRET(raw.p, raw.n);
    SEFL_TRY(
        sealed_write(&file, span_of(label, sizeof label), buf_span(&raw), &lock, &cheap, &rng));
    SEFL_TRY(keyfile_sec_read(&read, buf_span(&file), &lock, NULL));
    SEFL_TRY(keyfile_sec_write(&again, read, &lock, &cheap, &rng));
    SEFL_CHECK(again.n == file.n, SEFL_ECRYPTO, "another length");
done:
    paillier_sec_free(made);
    paillier_sec_free(read);
    buf_clear(&raw);
    buf_clear(&file);
    buf_clear(&again);
    return st;
}

int main(void)
{
    sefl_status st = key_file();
    printf("%s %s\n", sefl_status_name(st), st == SEFL_OK ? "" : sefl_last_error());
    return st != SEFL_OK;
}
