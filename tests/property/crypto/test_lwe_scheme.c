/* The whole scheme through ahe.h with a real (2048-bit) key: sums, masks, digits, own noise; coins;
 * pools; malformed heads; faults. */
#include "support/check.h"

#include "base/alloc.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/lwe.h"
#include "crypto/ahe/paillier.h"

#include <stdlib.h>
#include <string.h>

enum { VALUES = 5000, CLIENTS = 6 }; /* three units, the last one short */

static paillier_sec *sec;
static const paillier_pub *pub;
static ahe_params p;
static ahe_enc *enc;
static pool *threads;
static const uint8_t context[AHE_CONTEXT_BYTES] = "task 1, round 7";

static pack packing(uint32_t clients)
{
    pack k = { .scheme = PACK_LWE, .k = 16, .t = 12, .w = 28, .clients = clients };
    CHECK_OK(lwe_choose(28, clients, &k.kappa, &k.d));
    k.value_max = (((int64_t)1 << 27) - 1) / clients;
    return k;
}

static int setup(void **state)
{
    (void)state;
    static seeded gen;
    seeded_init(&gen, 1, "key of test_lwe_scheme");
    sefl_rng rng = seeded_rng(&gen);
    pack k = packing(CLIENTS);
    CHECK_OK(pool_new(&threads, 2));
    CHECK_OK(paillier_keygen_vartime(&sec, 2048, &rng, NULL));
    pub = paillier_sec_pub(sec);
    CHECK_OK(ahe_params_init(&p, &ahe_lwe, &k, pub, VALUES));
    CHECK_OK(ahe_enc_new(&enc, pub, &p, threads, NULL));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ahe_enc_free(&p, enc);
    paillier_sec_free(sec);
    pool_free(threads);
    return 0;
}

static void upload(uint8_t *body, const int64_t *values, const sefl_rng *rng, pool *with)
{
    ahe_upload *u = NULL;
    CHECK_OK(ahe_upload_new(&u, &p, enc, context, rng));
    CHECK_OK(ahe_upload_head(&p, u, body, with));
    CHECK_OK(ahe_upload_units(&p, u, body + p.head_bytes, values, 1, with, NULL));
    CHECK_OK(ahe_upload_units(&p, u, body + p.head_bytes + p.unit_bytes, values + p.unit_values,
                              p.units - 1, with, NULL));
    CHECK_STATUS(ahe_upload_units(&p, u, body, values, 1, with, NULL), SEFL_ESTATE);
    ahe_upload_free(&p, u);
}

static void sizes(void **state)
{
    (void)state;
    ahe_params q;
    pack k = packing(10000);
    CHECK_OK(ahe_params_init(&q, &ahe_lwe, &k, pub, 945510));
    assert_int_equal(q.unit_values, 2048);
    assert_int_equal(q.units, 462);
    assert_int_equal(q.unit_bytes, 9728); /* 38 bits a value: 4.75 bytes */
    assert_int_equal(q.sum_unit_bytes, 10752);
    assert_int_equal(q.plain_bytes, 7168);
    assert_int_equal(q.head_bytes, 17 * 512);
    k.kappa = 55;
    CHECK_STATUS(ahe_params_init(&q, &ahe_lwe, &k, pub, 1), SEFL_EINVAL);
    k = packing(10000), k.d = 5; /* too noisy */
    CHECK_STATUS(ahe_params_init(&q, &ahe_lwe, &k, pub, 1), SEFL_EINVAL);
    k = packing(10000), k.g = 16;
    CHECK_STATUS(ahe_params_init(&q, &ahe_lwe, &k, pub, 1), SEFL_EINVAL);
}

typedef struct round_state {
    uint8_t *body, *sum, *plain, *mask;
    int64_t *values, *total, *got;
    uint64_t *digits, *mask_digits;
} round_state;

static void round_new(round_state *r)
{
    size_t n = p.units * p.unit_values;
    CHECK_OK(sefl_new(&r->body, ahe_body_bytes(&p), 1));
    CHECK_OK(sefl_new(&r->sum, ahe_sum_bytes(&p), 1));
    CHECK_OK(sefl_new(&r->plain, p.units, p.plain_bytes));
    CHECK_OK(sefl_new(&r->mask, p.units, p.plain_bytes));
    CHECK_OK(sefl_new(&r->values, n, sizeof *r->values));
    CHECK_OK(sefl_new(&r->total, n, sizeof *r->total));
    CHECK_OK(sefl_new(&r->got, n, sizeof *r->got));
    CHECK_OK(sefl_new(&r->digits, n, sizeof *r->digits));
    CHECK_OK(sefl_new(&r->mask_digits, n, sizeof *r->mask_digits));
}

static void round_free(round_state *r)
{
    void *all[] = { r->body,  r->sum, r->plain,  r->mask,       r->values,
                    r->total, r->got, r->digits, r->mask_digits };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        sefl_free(all[i]);
}

static void decrypt(round_state *r, const uint8_t *sum)
{
    ahe_dec *d = NULL;
    CHECK_OK(ahe_dec_new(&d, &p, sec, context));
    CHECK_OK(ahe_dec_head(&p, d, sum, threads));
    /* last unit first: the order is free */
    const uint8_t *units = sum + p.sum_head_bytes;
    CHECK_OK(ahe_dec_units(&p, d, r->plain + (p.units - 1) * p.plain_bytes, p.units - 1,
                           units + (p.units - 1) * p.sum_unit_bytes, 1, NULL, NULL));
    CHECK_OK(ahe_dec_units(&p, d, r->plain, 0, units, p.units - 1, threads, NULL));
    ahe_dec_free(&p, d);
}

static void whole_round(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "round");
    sefl_rng rng = seeded_rng(&gen);
    round_state r;
    ahe_sum *s = NULL;
    uint8_t seed[AHE_SEED_BYTES];
    round_new(&r);
    CHECK_OK(ahe_sum_new(&s, &p, pub));
    for (unsigned j = 0; j < CLIENTS; j++) {
        for (size_t i = 0; i < VALUES; i++) {
            int64_t max = p.pack.value_max;
            r.values[i] = i % 3 == 0   ? max
                          : i % 3 == 1 ? -max
                                       : (int64_t)seeded_below(&gen, 2 * (uint64_t)max + 1) - max;
            r.total[i] += r.values[i];
        }
        upload(r.body, r.values, &rng, threads);
        CHECK_OK(ahe_sum_check_head(&p, s, r.body));
        CHECK_OK(ahe_sum_check_units(&p, s, r.body + p.head_bytes, p.units));
        CHECK_OK(ahe_sum_add_head(&p, s, r.body));
        CHECK_OK(ahe_sum_add_units(&p, s, 1, r.body + p.head_bytes + p.unit_bytes, p.units - 1,
                                   threads));
        CHECK_OK(ahe_sum_add_units(&p, s, 0, r.body + p.head_bytes, 1, NULL));
    }
    CHECK_STATUS(ahe_sum_add_head(&p, s, r.body), SEFL_ERANGE);
    CHECK_OK(ahe_sum_close(&p, s));
    seeded_fill(&gen, seed, sizeof seed);
    CHECK_OK(ahe_sum_write_head(&p, s, r.sum));
    CHECK_OK(ahe_sum_write_units(&p, s, r.sum + p.sum_head_bytes, 0, p.units, seed, threads));
    /* the same bytes piece by piece */
    uint8_t *one = NULL;
    CHECK_OK(sefl_new(&one, p.sum_unit_bytes, 1));
    for (size_t u = 0; u < p.units; u++) {
        CHECK_OK(ahe_sum_write_units(&p, s, one, u, 1, seed, NULL));
        assert_memory_equal(one, r.sum + p.sum_head_bytes + u * p.sum_unit_bytes, p.sum_unit_bytes);
    }
    sefl_free(one);
    ahe_sum_free(&p, s);

    decrypt(&r, r.sum);
    CHECK_OK(ahe_mask_units(&p, r.mask, 0, p.units, seed));
    ahe_plain_unmask(&p, r.got, r.plain, r.mask, p.units);
    assert_memory_equal(r.got, r.total, p.units * p.unit_values * sizeof *r.got);

    /* digits are the slots themselves (no guard bits): their difference is the sum modulo 2^w */
    ahe_plain_digits(&p, r.digits, r.plain, p.units);
    ahe_plain_digits(&p, r.mask_digits, r.mask, p.units);
    uint64_t ones = 0, zeros = 0;
    for (size_t i = 0; i < p.units * p.unit_values; i++) {
        uint64_t m = ((uint64_t)1 << 28) - 1;
        assert_true(r.digits[i] <= m && r.mask_digits[i] <= m);
        assert_true(((r.digits[i] - r.mask_digits[i]) & m) == ((uint64_t)r.total[i] & m));
        ones |= r.mask_digits[i], zeros |= ~r.mask_digits[i];
    }
    assert_true((ones & zeros & 0xfffffff) == 0xfffffff); /* the mask uses every bit of a slot */

    /* own noise on top, of either sign */
    for (size_t i = 0; i < p.units * p.unit_values; i++) {
        r.values[i] = (int64_t)seeded_below(&gen, 2001) - 1000;
        r.total[i] += r.values[i];
        r.total[i] = (int64_t)((uint64_t)r.total[i] << 36) >> 36; /* the extremes may wrap */
    }
    ahe_plain_add(&p, r.plain, r.values, p.units);
    ahe_plain_unmask(&p, r.got, r.plain, r.mask, p.units);
    assert_memory_equal(r.got, r.total, p.units * p.unit_values * sizeof *r.got);
    round_free(&r);
}

/* Same coins, one thread or two: the same bytes. Other coins: nothing in common, unit by unit. */
static void coins(void **state)
{
    (void)state;
    round_state r;
    uint8_t *other = NULL;
    const size_t bytes = ahe_body_bytes(&p);
    round_new(&r);
    CHECK_OK(sefl_new(&other, bytes, 1));
    for (int again = 0; again < 2; again++) {
        seeded gen;
        seeded_init(&gen, 11, "coins");
        sefl_rng rng = seeded_rng(&gen);
        upload(again ? other : r.body, r.values, &rng, again ? NULL : threads);
    }
    assert_memory_equal(r.body, other, bytes);
    seeded gen;
    seeded_init(&gen, 12, "coins");
    sefl_rng rng = seeded_rng(&gen);
    upload(other, r.values, &rng, threads);
    /* all values are zero: any run of 16 equal bytes would be a repeated coin */
    for (size_t i = 0; i + 16 <= bytes; i += 16)
        assert_memory_not_equal(r.body + i, other + i, 16);
    /* and two units of one upload share none either: a_i and e_i are both fresh */
    for (size_t i = 0; i + 16 <= p.unit_bytes; i += 16)
        assert_memory_not_equal(other + p.head_bytes + i, other + p.head_bytes + p.unit_bytes + i,
                                16);
    sefl_free(other);
    round_free(&r);
}

static void bad_values(void **state)
{
    (void)state;
    seeded gen;
    seeded_init(&gen, 1, "bad values");
    sefl_rng rng = seeded_rng(&gen);
    round_state r;
    ahe_upload *u = NULL;
    round_new(&r);
    CHECK_OK(ahe_upload_new(&u, &p, enc, context, &rng));
    r.values[4097] = p.pack.value_max + 1;
    CHECK_STATUS(ahe_upload_units(&p, u, r.body, r.values, p.units, NULL, NULL), SEFL_ERANGE);
    assert_non_null(strstr(sefl_last_error(), "4097"));
    r.values[4097] = p.pack.value_max;
    r.values[VALUES] = INT64_MAX; /* beyond the vector: not read */
    CHECK_OK(ahe_upload_units(&p, u, r.body, r.values, p.units, NULL, NULL));
    ahe_upload_free(&p, u);
    round_free(&r);
}

static void bad_heads(void **state)
{
    (void)state;
    seeded gen;
    seeded_init(&gen, 1, "bad heads");
    sefl_rng rng = seeded_rng(&gen);
    round_state r;
    ahe_sum *s = NULL;
    ahe_dec *d = NULL;
    const size_t cipher = paillier_cipher_bytes(pub), last = (p.head_bytes / cipher - 1) * cipher;
    round_new(&r);
    upload(r.body, r.values, &rng, threads);
    CHECK_OK(ahe_sum_new(&s, &p, pub));
    CHECK_OK(ahe_dec_new(&d, &p, sec, context));
    uint8_t *head = NULL;
    CHECK_OK(sefl_new(&head, p.head_bytes, 1));
    for (int kind = 0; kind < 4; kind++) {
        memcpy(head, r.body, p.head_bytes);
        memset(head + last, kind == 1 ? 0xff : 0, cipher); /* zero; above N^2 */
        if (kind == 2)                                     /* a multiple of N */
            memcpy(head + last, paillier_modulus(pub), paillier_plain_bytes(pub));
        if (kind == 3) { /* N * 256 */
            memcpy(head + last + 1, paillier_modulus(pub), paillier_plain_bytes(pub));
        }
        CHECK_STATUS(ahe_sum_check_head(&p, s, head), SEFL_EPROTO);
        CHECK_STATUS(ahe_dec_head(&p, d, head, NULL), SEFL_EPROTO);
    }
    CHECK_OK(ahe_dec_head(&p, d, r.body, NULL));
    sefl_free(head);
    ahe_dec_free(&p, d);
    ahe_sum_free(&p, s);
    round_free(&r);
}

/* A client that seals nonsense (a plaintext no secret gives) spoils the round; the service goes
 * on. */
static void crooked_client(void **state)
{
    (void)state;
    seeded gen;
    seeded_init(&gen, 1, "crooked");
    sefl_rng rng = seeded_rng(&gen);
    round_state r;
    ahe_sum *s = NULL;
    paillier_enc *raw = NULL;
    uint8_t seed[32];
    const size_t count = p.head_bytes / paillier_cipher_bytes(pub);
    uint8_t *m = NULL;
    round_new(&r);
    upload(r.body, r.values, &rng, threads);
    CHECK_OK(sefl_new(&m, count, paillier_plain_bytes(pub)));
    for (size_t i = 0; i < count; i++) { /* N - 1 - something: a very negative plaintext */
        uint8_t *at = m + i * paillier_plain_bytes(pub);
        memcpy(at, paillier_modulus(pub), paillier_plain_bytes(pub));
        at[paillier_plain_bytes(pub) - 1] /= 2;
    }
    seeded_fill(&gen, seed, sizeof seed);
    CHECK_OK(paillier_enc_new(&raw, pub, count, threads, NULL));
    CHECK_OK(paillier_encrypt_vartime(raw, r.body, m, count, seed, 0, threads, NULL));
    CHECK_OK(ahe_sum_new(&s, &p, pub));
    CHECK_OK(ahe_sum_check_head(&p, s, r.body));
    CHECK_OK(ahe_sum_add_head(&p, s, r.body));
    memset(r.body + p.head_bytes, 0xff, p.units * p.unit_bytes);
    CHECK_OK(ahe_sum_check_units(&p, s, r.body + p.head_bytes, p.units));
    CHECK_OK(ahe_sum_add_units(&p, s, 0, r.body + p.head_bytes, p.units, threads));
    CHECK_OK(ahe_sum_close(&p, s));
    CHECK_OK(ahe_sum_write_head(&p, s, r.sum));
    CHECK_OK(ahe_sum_write_units(&p, s, r.sum + p.sum_head_bytes, 0, p.units, seed, threads));
    decrypt(&r, r.sum);
    paillier_enc_free(raw);
    ahe_sum_free(&p, s);
    sefl_free(m);
    round_free(&r);
}

/* Every allocation and every random read fails once. */
static sefl_status all_of_it(round_state *r, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    ahe_upload *u = NULL;
    ahe_sum *s = NULL;
    ahe_dec *d = NULL;
    static const uint8_t seed[AHE_SEED_BYTES] = { 9 };
    SEFL_TRY(ahe_upload_new(&u, &p, enc, context, rng));
    SEFL_TRY(ahe_upload_head(&p, u, r->body, NULL));
    SEFL_TRY(ahe_upload_units(&p, u, r->body + p.head_bytes, r->values, p.units, NULL, NULL));
    SEFL_TRY(ahe_sum_new(&s, &p, pub));
    SEFL_TRY(ahe_sum_add_head(&p, s, r->body));
    SEFL_TRY(ahe_sum_add_units(&p, s, 0, r->body + p.head_bytes, p.units, NULL));
    SEFL_TRY(ahe_sum_close(&p, s));
    SEFL_TRY(ahe_sum_write_head(&p, s, r->sum));
    SEFL_TRY(ahe_sum_write_units(&p, s, r->sum + p.sum_head_bytes, 0, p.units, seed, NULL));
    SEFL_TRY(ahe_dec_new(&d, &p, sec, context));
    SEFL_TRY(ahe_dec_head(&p, d, r->sum, NULL));
    SEFL_TRY(ahe_dec_units(&p, d, r->plain, 0, r->sum + p.sum_head_bytes, p.units, NULL, NULL));
done:
    ahe_upload_free(&p, u);
    ahe_sum_free(&p, s);
    ahe_dec_free(&p, d);
    return st;
}

static void faults(void **state)
{
    (void)state;
    sefl_rng rng = rng_system();
    round_state r;
    round_new(&r);
    TEST_FAULTS(FAULT_ALLOC, st = all_of_it(&r, &rng), (void)0);
    TEST_FAULTS(FAULT_RANDOM, st = all_of_it(&r, &rng), (void)0);
    TEST_FAULTS(FAULT_ALLOC, ahe_enc *e = NULL; st = ahe_enc_new(&e, pub, &p, NULL, NULL);
                ahe_enc_free(&p, e), (void)0);
    round_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),     cmocka_unit_test(whole_round),
        cmocka_unit_test(coins),     cmocka_unit_test(bad_values),
        cmocka_unit_test(bad_heads), cmocka_unit_test(crooked_client),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
