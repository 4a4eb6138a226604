/* Sums of many ring-LWE units without heads: the secrets' sum is handed over in the clear, so that
 * ten thousand real clients cost a second (their Paillier heads would cost minutes: those are
 * summed with fewer clients in test_lwe_scheme.c, and the arithmetic of a full slot in
 * test_lwe_head.c). */
#include "support/check.h"

#include "base/alloc.h"
#include "crypto/ahe/lwe_unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    lwe_plan plan;
    lwe_work work;
    lwe_spectrum f;
    uint64_t sum[LWE_N];
    int32_t s[LWE_N], total_s[LWE_N];
    int64_t values[LWE_N], total[LWE_N];
    uint8_t unit[LWE_N * 8], row[LWE_N * 8], mask[LWE_N * 8], plain[LWE_N * 8];
    prg pub;
} fixture;

static fixture *fx;

static int setup(void **state)
{
    (void)state;
    return sefl_new(&fx, 1, sizeof *fx) != SEFL_OK;
}

static int teardown(void **state)
{
    (void)state;
    sefl_free(fx);
    return 0;
}

/* What client j sends at coefficient i: the extremes, all of one sign, mixed, and random. */
static int64_t value_of(seeded *gen, uint32_t j, size_t i, int64_t max)
{
    switch (i % 5) {
    case 0:
        return max;
    case 1:
        return -max;
    case 2:
        return j % 2 ? max : -max;
    case 3:
        return 0;
    default:
        return (int64_t)seeded_below(gen, 2 * (uint64_t)max + 1) - max;
    }
}

static void add_clients(seeded *gen, uint32_t clients, int64_t max, uint64_t unit)
{
    uint8_t context[32];
    seeded_fill(gen, context, sizeof context);
    prg_init(&fx->pub, context, LWE_PUBLIC);
    memset(fx->sum, 0, sizeof fx->sum);
    memset(fx->total, 0, sizeof fx->total);
    memset(fx->total_s, 0, sizeof fx->total_s);
    for (uint32_t j = 0; j < clients; j++) {
        uint8_t seed[32];
        prg err;
        seeded_fill(gen, seed, sizeof seed);
        lwe_secret_sample(fx->s, seed);
        lwe_ring_spectrum(&fx->plan.ring, &fx->f, fx->s, true);
        prg_init(&err, seed, LWE_ERROR);
        for (size_t i = 0; i < LWE_N; i++) {
            fx->values[i] = value_of(gen, j, i, max);
            fx->total[i] += fx->values[i];
            fx->total_s[i] += fx->s[i];
        }
        lwe_unit_encrypt(&fx->plan, fx->unit, fx->values, LWE_N, unit, &fx->pub, &err, &fx->f,
                         &fx->work);
        lwe_unit_add(&fx->plan, fx->sum, fx->unit);
    }
    for (size_t i = 0; i < LWE_N; i++)
        fx->total_s[i] = -fx->total_s[i];
    lwe_ring_spectrum(&fx->plan.ring, &fx->f, fx->total_s, false);
}

static int64_t signed_slot(uint64_t x, unsigned w)
{
    return (int64_t)(x << (64 - w)) >> (64 - w);
}

/* Closes with a random mask for `stated` clients, decrypts, takes the mask off; returns the number
 * of coefficients that are not the true sum. */
static size_t wrong_values(seeded *gen, uint32_t stated, uint64_t unit)
{
    uint64_t got[LWE_N], v[LWE_N];
    size_t wrong = 0;
    seeded_fill(gen, fx->mask, lwe_bits_bytes(&fx->plan.plain_row, LWE_N));
    lwe_unit_close(&fx->plan, fx->row, fx->sum, stated, fx->mask, &fx->work);
    lwe_unit_decrypt(&fx->plan, fx->plain, fx->row, unit, &fx->pub, &fx->f, &fx->work);
    lwe_bits_unpack(&fx->plan.plain_row, got, fx->plain, LWE_N);
    lwe_bits_unpack(&fx->plan.plain_row, v, fx->mask, LWE_N);
    for (size_t i = 0; i < LWE_N; i++)
        wrong += signed_slot(got[i] - v[i], fx->plan.w) != fx->total[i];
    return wrong;
}

/* Standard deviation and mean of what is left beside Delta * sum. */
static void noise_of(uint32_t clients, uint64_t unit, double *mean, double *deviation)
{
    const unsigned up = fx->plan.kappa - fx->plan.w;
    double s1 = 0, s2 = 0;
    memset(fx->mask, 0, sizeof fx->mask);
    lwe_unit_close(&fx->plan, fx->row, fx->sum, clients, fx->mask, &fx->work);
    uint64_t x[LWE_N], a[LWE_N];
    lwe_bits_unpack(&fx->plan.public_row, x, fx->row, LWE_N);
    prg_read(&fx->pub, fx->row, lwe_bits_bytes(&fx->plan.public_row, LWE_N), unit, 0);
    lwe_bits_unpack(&fx->plan.public_row, a, fx->row, LWE_N);
    lwe_ring_mul_add_ref(x, a, fx->total_s); /* holds -S */
    for (size_t i = 0; i < LWE_N; i++) {
        int64_t e = signed_slot(x[i] - ((uint64_t)fx->total[i] << up), fx->plan.kappa);
        s1 += (double)e, s2 += (double)e * (double)e;
    }
    *mean = s1 / LWE_N;
    *deviation = sqrt(s2 / LWE_N - *mean * *mean);
}

/* The design point: w = 28, ten thousand clients, each with a secret and errors of its own, at the
 * largest values that fit, truncated as uploaded. Every coefficient of the sum is exact, and the
 * noise is what docs/PARAMETERS.md computes. With the plain portable paths: fewer clients. */
static void ten_thousand(void **state)
{
    (void)state;
    const bool fast = lwe_path_best() != LWE_PORTABLE && aes_path_best() != AES_SOFT;
    const uint32_t clients = fast ? 10000 : 300;
    const int64_t max = (((int64_t)1 << 27) - 1) / clients;
    unsigned kappa, d;
    seeded gen;
    test_seed(&gen, "ten thousand");
    CHECK_OK(lwe_choose(28, 10000, &kappa, &d));
    assert_int_equal(kappa, 42);
    assert_int_equal(d, 4);
    lwe_plan_init(&fx->plan, 28, kappa, d, lwe_path_best());
    add_clients(&gen, clients, max, 5);
    assert_int_equal(wrong_values(&gen, clients, 5), 0);

    double mean, deviation;
    double expected = sqrt(clients * (10.5 + (pow(4, d) - 1) / 12));
    noise_of(clients, 5, &mean, &deviation);
    print_message("%u clients: noise mean %.1f, deviation %.1f, expected %.1f\n", clients, mean,
                  deviation, expected);
    assert_true(fabs(deviation / expected - 1) < 0.08); /* 2048 samples: 1.6 % each */
    assert_true(fabs(mean) < 5 * expected / sqrt(LWE_N));

    if (fast) { /* the classic mistake: without the restoring term every coefficient is wrong */
        assert_int_equal(wrong_values(&gen, 0, 5), LWE_N);
        assert_int_equal(wrong_values(&gen, clients / 2, 5), LWE_N);
    }
}

/* Other widths and numbers of clients, as lwe_choose prices them. */
static void all_widths(void **state)
{
    (void)state;
    static const struct {
        unsigned w;
        uint32_t clients;
    } cases[] = { { 2, 1 },   { 3, 3 },   { 8, 20 },   { 16, 1 },  { 20, 100 },
                  { 28, 1 },  { 28, 2 },  { 28, 400 }, { 32, 50 }, { 36, 100 },
                  { 40, 30 }, { 44, 10 }, { 45, 1 } };
    const bool fast = aes_path_best() != AES_SOFT;
    seeded gen;
    test_seed(&gen, "widths");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (unsigned path = 0; path < LWE_PATHS; path++) {
            unsigned kappa, d;
            uint32_t k = fast || cases[i].clients < 10 ? cases[i].clients : 10;
            if (!lwe_path_has(path))
                continue;
            CHECK_OK(lwe_choose(cases[i].w, cases[i].clients, &kappa, &d));
            lwe_plan_init(&fx->plan, cases[i].w, kappa, d, path);
            add_clients(&gen, k, (((int64_t)1 << (cases[i].w - 1)) - 1) / cases[i].clients, i);
            if (wrong_values(&gen, k, i) != 0)
                fail_msg("w %u, %u clients, %s: wrong sum", cases[i].w, k, lwe_path_name(path));
        }
}

/* Tiny slots exhaustively: every message under every mask at w = 3. */
static void tiny_slots(void **state)
{
    (void)state;
    unsigned kappa, d;
    seeded gen;
    test_seed(&gen, "tiny");
    CHECK_OK(lwe_choose(3, 1, &kappa, &d));
    lwe_plan_init(&fx->plan, 3, kappa, d, lwe_path_best());
    uint8_t seed[32], context[32];
    uint64_t v[LWE_N], got[LWE_N];
    prg err;
    seeded_fill(&gen, seed, sizeof seed);
    seeded_fill(&gen, context, sizeof context);
    prg_init(&err, seed, LWE_ERROR);
    prg_init(&fx->pub, context, LWE_PUBLIC);
    lwe_secret_sample(fx->s, seed);
    lwe_ring_spectrum(&fx->plan.ring, &fx->f, fx->s, true);
    for (size_t i = 0; i < LWE_N; i++) {
        fx->values[i] = (int64_t)(i % 8) - 4;
        v[i] = i / 8 % 8;
    }
    lwe_unit_encrypt(&fx->plan, fx->unit, fx->values, LWE_N, 0, &fx->pub, &err, &fx->f, &fx->work);
    memset(fx->sum, 0, sizeof fx->sum);
    lwe_unit_add(&fx->plan, fx->sum, fx->unit);
    lwe_bits_pack(&fx->plan.plain_row, fx->mask, v, LWE_N, 0, 0);
    lwe_unit_close(&fx->plan, fx->row, fx->sum, 1, fx->mask, &fx->work);
    for (size_t i = 0; i < LWE_N; i++)
        fx->s[i] = -fx->s[i];
    lwe_ring_spectrum(&fx->plan.ring, &fx->f, fx->s, false);
    lwe_unit_decrypt(&fx->plan, fx->plain, fx->row, 0, &fx->pub, &fx->f, &fx->work);
    lwe_bits_unpack(&fx->plan.plain_row, got, fx->plain, LWE_N);
    for (size_t i = 0; i < LWE_N; i++)
        assert_true(got[i] == (((uint64_t)fx->values[i] + v[i]) & 7));
}

/* What CSP sees beside M + v does not depend on the messages: same coins, other messages, a mask
 * that makes up for them, and the masked sum is the same bytes. */
static void view_of_csp(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "view");
    lwe_plan_init(&fx->plan, 28, 42, 4, lwe_path_best());
    uint8_t seed[32], context[32], first[LWE_N * 8];
    uint64_t v[LWE_N];
    prg err;
    seeded_fill(&gen, seed, sizeof seed);
    seeded_fill(&gen, context, sizeof context);
    prg_init(&err, seed, LWE_ERROR);
    prg_init(&fx->pub, context, LWE_PUBLIC);
    lwe_secret_sample(fx->s, seed);
    lwe_ring_spectrum(&fx->plan.ring, &fx->f, fx->s, true);
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < LWE_N; i++) {
            fx->values[i] = (int64_t)seeded_below(&gen, 1 << 28) - (1 << 27);
            v[i] = i * 77777 - (uint64_t)fx->values[i];
        }
        lwe_unit_encrypt(&fx->plan, fx->unit, fx->values, LWE_N, 9, &fx->pub, &err, &fx->f,
                         &fx->work);
        memset(fx->sum, 0, sizeof fx->sum);
        lwe_unit_add(&fx->plan, fx->sum, fx->unit);
        lwe_bits_pack(&fx->plan.plain_row, fx->mask, v, LWE_N, 0, 0);
        lwe_unit_close(&fx->plan, turn ? fx->row : first, fx->sum, 1, fx->mask, &fx->work);
    }
    assert_memory_equal(first, fx->row, lwe_bits_bytes(&fx->plan.public_row, LWE_N));
}

/* Errors: 42 coins less 21; secrets: uniform ternary. Five sigmas of the sampling error. */
static void distributions(void **state)
{
    (void)state;
    enum { UNITS = 50 };
    double mean = 0, variance = 0, counts[3] = { 0 };
    seeded gen;
    test_seed(&gen, "distributions");
    lwe_plan_init(&fx->plan, 16, 36, 0, lwe_path_best());
    memset(fx->s, 0, sizeof fx->s);
    lwe_ring_spectrum(&fx->plan.ring, &fx->f, fx->s, true); /* no secret: the errors show */
    double histogram[43] = { 0 };
    for (uint64_t u = 0; u < UNITS; u++) {
        uint8_t seed[32];
        uint64_t x[LWE_N];
        prg err;
        seeded_fill(&gen, seed, sizeof seed);
        prg_init(&fx->pub, seed, LWE_PUBLIC);
        prg_init(&err, seed, LWE_ERROR);
        lwe_unit_encrypt(&fx->plan, fx->unit, NULL, 0, u, &fx->pub, &err, &fx->f, &fx->work);
        lwe_bits_unpack(&fx->plan.upload_row, x, fx->unit, LWE_N);
        for (size_t i = 0; i < LWE_N; i++) {
            int64_t e = signed_slot(x[i], 36);
            assert_true(e >= -21 && e <= 21);
            histogram[e + 21]++;
            mean += (double)e, variance += (double)(e * e);
        }
        lwe_secret_sample(fx->s, seed);
        for (size_t i = 0; i < LWE_N; i++) {
            assert_true(fx->s[i] >= -1 && fx->s[i] <= 1);
            counts[fx->s[i] + 1]++;
        }
    }
    const double n = (double)UNITS * LWE_N;
    assert_true(fabs(mean / n) < 5 * sqrt(10.5 / n));
    assert_true(fabs(variance / n - 10.5) < 5 * 10.5 * sqrt(2 / n));
    for (int i = 0; i < 3; i++)
        assert_true(fabs(counts[i] - n / 3) < 5 * sqrt(n * 2 / 9));
    double p = ldexp(1, -42); /* binomial probabilities, as long as 20 are expected */
    for (int e = 0; e <= 42; e++) {
        if (p * n > 20)
            assert_true(fabs(histogram[e] - p * n) < 6 * sqrt(p * n));
        p = p * (42 - e) / (e + 1);
    }
}

/* Every path gives the same bytes. */
static void same_bytes(void **state)
{
    (void)state;
    static const unsigned kappas[] = { 42, 50, 54 };
    for (size_t k = 0; k < 3; k++) {
        uint8_t unit[LWE_N * 8], row[LWE_N * 8], plain[LWE_N * 8];
        for (unsigned path = 0; path < LWE_PATHS; path++) {
            if (!lwe_path_has(path))
                continue;
            seeded gen;
            seeded_init(&gen, 3, "same bytes");
            lwe_plan_init(&fx->plan, kappas[k] - 14, kappas[k], 4, path);
            add_clients(&gen, 3, 1 << 12, 77);
            assert_int_equal(wrong_values(&gen, 3, 77), 0);
            if (path == LWE_PORTABLE) {
                memcpy(unit, fx->unit, sizeof unit);
                memcpy(row, fx->row, sizeof row);
                memcpy(plain, fx->plain, sizeof plain);
            }
            assert_memory_equal(unit, fx->unit, lwe_bits_bytes(&fx->plan.upload_row, LWE_N));
            assert_memory_equal(row, fx->row, lwe_bits_bytes(&fx->plan.public_row, LWE_N));
            assert_memory_equal(plain, fx->plain, lwe_bits_bytes(&fx->plan.plain_row, LWE_N));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand),  cmocka_unit_test(all_widths),
        cmocka_unit_test(tiny_slots),    cmocka_unit_test(view_of_csp),
        cmocka_unit_test(distributions), cmocka_unit_test(same_bytes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
