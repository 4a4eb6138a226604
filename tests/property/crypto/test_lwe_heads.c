/* Sums of many heads: every coefficient of S is the sum of the clients' secrets, up to the largest
 * number of clients, where a coefficient may fill its 16-bit slot to the last value. */
#include "support/check.h"

#include "base/alloc.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/lwe_head.h"
#include "crypto/ahe/lwe_unit.h"
#include "crypto/ahe/paillier.h"

#include <string.h>

enum { BITS = 2048, HEADS = 8 };

static const uint8_t context[AHE_CONTEXT_BYTES] = { 7 };
static paillier_sec *sec;
static const paillier_pub *pub;

static int make(void **state)
{
    seeded gen;
    (void)state;
    test_seed(&gen, "lwe heads");
    sefl_rng rng = seeded_rng(&gen);
    CHECK_OK(paillier_keygen_vartime(&sec, BITS, &rng, NULL));
    pub = paillier_sec_pub(sec);
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    paillier_sec_free(sec);
    return 0;
}

/* A real head, and the secret in it: the first seed that the upload draws. */
static void real_head(const ahe_params *p, const ahe_enc *enc, uint8_t *head, int32_t s[LWE_N],
                      unsigned number)
{
    char stream[32];
    uint8_t seed[PRG_SEED];
    ahe_upload *u;
    snprintf(stream, sizeof stream, "head %u", number);
    seeded gen, same;
    test_seed(&gen, stream);
    same = gen;
    seeded_fill(&same, seed, sizeof seed);
    lwe_secret_sample(s, seed);
    sefl_rng rng = seeded_rng(&gen);
    CHECK_OK(ahe_upload_new(&u, p, enc, context, &rng));
    CHECK_OK(ahe_upload_head(p, u, head, NULL));
    ahe_upload_free(p, u);
}

/* `clients` heads, of `distinct` different ones in turn. */
static void sum_of(uint32_t clients, unsigned distinct)
{
    static int32_t s[HEADS][LWE_N], want[LWE_N], got[LWE_N];
    const size_t cipher = paillier_cipher_bytes(pub), plain = paillier_plain_bytes(pub);
    ahe_params p;
    pack packing = { .scheme = PACK_LWE, .k = 17, .w = 17, .clients = clients, .value_max = 1 };
    ahe_enc *enc;
    ahe_sum *sum;
    uint8_t *heads, *unit, *m;
    int32_t most = 0;
    CHECK_OK(lwe_choose(packing.w, clients, &packing.kappa, &packing.d));
    CHECK_OK(ahe_params_init(&p, &ahe_lwe, &packing, pub, 1));
    CHECK_OK(ahe_enc_new(&enc, pub, &p, NULL, NULL));
    CHECK_OK(ahe_sum_new(&sum, &p, pub));
    CHECK_OK(sefl_new(&heads, distinct, p.head_bytes));
    CHECK_OK(sefl_new(&unit, 1, p.unit_bytes));
    CHECK_OK(sefl_new(&m, p.head_bytes / cipher, plain));
    memset(want, 0, sizeof want);
    for (unsigned i = 0; i < distinct; i++) {
        real_head(&p, enc, heads + i * p.head_bytes, s[i], i);
        CHECK_OK(ahe_sum_check_head(&p, sum, heads + i * p.head_bytes));
    }
    for (uint32_t c = 0; c < clients; c++) {
        CHECK_OK(ahe_sum_add_head(&p, sum, heads + c % distinct * p.head_bytes));
        CHECK_OK(ahe_sum_add_units(&p, sum, 0, unit, 1, NULL));
        for (size_t k = 0; k < LWE_N; k++)
            want[k] += s[c % distinct][k];
    }
    CHECK_OK(ahe_sum_close(&p, sum));
    CHECK_OK(ahe_sum_write_head(&p, sum, heads));
    CHECK_OK(paillier_decrypt(sec, m, heads, p.head_bytes / cipher, NULL, NULL));
    for (size_t i = 0; i < p.head_bytes / cipher; i++)
        assert_true(lwe_head_decode(got, m + i * plain, i, paillier_modulus(pub), BITS));
    for (size_t k = 0; k < LWE_N; k++) {
        if (got[k] != want[k])
            fail_msg("coefficient %zu: %d, not %d", k, got[k], want[k]);
        int32_t size = want[k] < 0 ? -want[k] : want[k];
        most = size > most ? size : most;
    }
    if (distinct == 1)
        assert_int_equal(most, clients);
    sefl_free(heads);
    sefl_free(unit);
    sefl_free(m);
    ahe_sum_free(&p, sum);
    ahe_enc_free(&p, enc);
}

static void ten_thousand(void **state)
{
    (void)state;
    sum_of(10000, HEADS);
}

/* 32,767 times one secret: coefficients of both signs at the very end of their slot. */
static void as_many_as_there_may_be(void **state)
{
    (void)state;
    sum_of(LWE_CLIENTS_MAX, 1);
    if (test_count(0, 1))
        sum_of(LWE_CLIENTS_MAX, HEADS);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(ten_thousand),
                                        cmocka_unit_test(as_many_as_there_may_be) };
    return cmocka_run_group_tests(tests, make, unmake);
}
