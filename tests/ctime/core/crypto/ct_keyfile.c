/* Sealing and opening a root and a secret key, with key and passphrase marked secret. ct_sealed.c
 * lists the parts of sealing that are not checked. */
#include "base/ct.h"
#include "crypto/keyfile.h"
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

static sefl_status root_file(void)
{
    sefl_status st = SEFL_OK;
    uint8_t root[KEYFILE_ROOT_BYTES], got[KEYFILE_ROOT_BYTES], pass[20];
    sealed_lock lock = { SEALED_BY_PASSPHRASE, { pass, sizeof pass } };
    sefl_buf file = { 0 };
    seeded gen;
    seeded_init(&gen, 2, "ctime");
    sefl_rng rng = seeded_rng(&gen);

    memset(pass, 'x', sizeof pass);
    SEFL_TRY(rng_fill(&rng, root, sizeof root));
    CT_SECRET(pass, sizeof pass);
    CT_SECRET(root, sizeof root);
    SEFL_TRY(keyfile_root_write(&file, root, &lock, &cheap, &rng));
    SEFL_TRY(keyfile_root_read(got, buf_span(&file), &lock));
    uint64_t same = ct_eq_bytes(got, root, sizeof root);
    CT_PUBLIC(&same, sizeof same); /* the test's verdict */
    SEFL_CHECK(same, SEFL_ECRYPTO, "another root");
done:
    buf_clear(&file);
    return st;
}

int main(void)
{
    sefl_status st = key_file();
    if (st == SEFL_OK)
        st = root_file();
    printf("%s %s\n", sefl_status_name(st), st == SEFL_OK ? "" : sefl_last_error());
    return st != SEFL_OK;
}
