/* Sealing and opening with passphrase and contents marked secret. Not checked, for the reasons
 * given in crypto/sealed.c: Argon2id itself and libsodium's branch on the tag comparison. The test
 * also covers the range check of a client's values. */
#include "base/ct.h"
#include "crypto/ahe/pack.h"
#include "crypto/sealed.h"
#include "seeded/seeded.h"

#include <stdio.h>
#include <string.h>

static sefl_status sealed(void)
{
    sefl_status st = SEFL_OK;
    sealed_cost cheap = { .passes = 1, .kib = SEALED_KIB_MIN };
    sefl_buf file = { 0 };
    uint8_t pass[20], secret[200], out[200];
    sealed_lock lock = { SEALED_BY_PASSPHRASE, { pass, sizeof pass } };
    sealed_info info;
    seeded gen;
    seeded_init(&gen, 1, "ctime");
    sefl_rng rng = seeded_rng(&gen);

    memset(pass, 'x', sizeof pass);
    memset(secret, 's', sizeof secret);
    CT_SECRET(pass, sizeof pass);
    CT_SECRET(secret, sizeof secret);
    SEFL_TRY(sealed_write(&file, span_of_str("label"), span_of(secret, sizeof secret), &lock,
                          &cheap, &rng));
    SEFL_TRY(sealed_peek(&info, buf_span(&file)));
    SEFL_TRY(sealed_open(out, &info, &lock));
    uint64_t same = ct_eq_bytes(out, secret, sizeof out);
    CT_PUBLIC(&same, sizeof same); /* the test's answer */
    SEFL_CHECK(same, SEFL_ECRYPTO, "another secret came out");
    file.p[file.n - 1] ^= 1; /* also if it does not open */
    st = sealed_open(out, &info, &lock);
    SEFL_CHECK(st == SEFL_EAUTH, SEFL_ECRYPTO, "a changed file opened");
    st = SEFL_OK;
done:
    buf_clear(&file);
    return st;
}

/* The range check of a client's values reveals only whether they are valid. */
static sefl_status values(void)
{
    const pack p = { .value_max = 1000 };
    int64_t v[100];
    for (int i = 0; i < 100; i++)
        v[i] = 20 * i - 1000;
    CT_SECRET(v, sizeof v);
    return pack_check_values(&p, v, 100, 0);
}

int main(void)
{
    sefl_status st = sealed();
    if (st == SEFL_OK)
        st = values();
    printf("%s %s\n", sefl_status_name(st), st == SEFL_OK ? "" : sefl_last_error());
    return st != SEFL_OK;
}
