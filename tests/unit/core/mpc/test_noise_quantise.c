/* The laws of one server's rounding and jumps. */
#include "support/check.h"

#include "mpc/noise/noise_quantise.h"
#include "support/chi.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void rounding_is_unbiased(void **state)
{
    (void)state;
    enum { N = 200000 };
    uint8_t seed[PRG_SEED] = { 4 };
    uint64_t *d = malloc(N * sizeof *d);
    prg g;
    prg_init(&g, seed, "t");
    double sum = 0;
    for (size_t i = 0; i < N; i++)
        d[i] = (uint64_t)70000 << 28 | (uint64_t)3 << 26; /* 70000.75 of the lattice, k = 16 */
    noise_quantise(d, N, 28, &g);
    for (size_t i = 0; i < N; i++) {
        assert_true(d[i] == 70000 || d[i] == 70001);
        sum += (double)d[i] - 70000;
    }
    assert_true(sum / N > 0.745 && sum / N < 0.755);
    free(d);
}

static void geometric_counts_draws(void **state)
{
    (void)state;
    uint8_t draws[JUMP_DRAWS];
    seeded g;
    test_seed(&g, "geometric");
    for (unsigned trial = 0; trial < 2000; trial++) {
        unsigned want = 0;
        seeded_fill(&g, draws, sizeof draws);
        if (trial == 0)
            memset(draws, 1, sizeof draws);
        if (trial == 1)
            draws[0] = 0xe0;
        while (want < JUMP_DRAWS && (draws[want] & 31))
            want++;
        assert_int_equal(noise_geometric(draws), want);
    }
}

/* Every candidate is geometric with ratio 31/32: chi-square over pooled cells. */
static void geometric_has_its_law(void **state)
{
    (void)state;
    enum { MAX = 1000 };
    static uint64_t seen[MAX];
    static double law[MAX];
    uint8_t seed[PRG_SEED] = { 6 }, draws[JUMP_DRAWS];
    unsigned n = (unsigned)test_count(20000, 1000000);
    double df;
    prg g;
    prg_init(&g, seed, "geometric");
    for (unsigned i = 0; i < MAX; i++)
        law[i] = pow(31.0 / 32, i) / 32;
    for (unsigned i = 0; i < n; i++) {
        prg_fill(&g, draws, sizeof draws);
        uint32_t x = noise_geometric(draws);
        assert_true(x < MAX); /* beyond: 2^-45 */
        seen[x]++;
    }
    double chi = chi_square(seen, law, MAX, n, &df);
    printf("geometric: chi-square %.1f, %.0f degrees\n", chi, df);
    assert_true(df > 80 && chi < chi_bound(df));
}

static void jumps_have_their_law(void **state)
{
    (void)state;
    uint8_t seed[PRG_SEED] = { 5 };
    int32_t y[JUMP_GROUP];
    unsigned groups = (unsigned)test_count(16000, 500000);
    double n = 0, var = 0, sum = 0;
    prg g;
    prg_init(&g, seed, "jumps");
    for (unsigned i = 0; i < groups; i++) {
        noise_jumps(y, JUMP_GROUP, &g);
        for (unsigned j = 0; j < JUMP_GROUP; j++)
            if (y[j]) {
                n++;
                sum += y[j];
                var += (double)y[j] * y[j];
            }
    }
    /* zero has probability (1/32)/(1 + 31/32) = 1/63 among jumps */
    double total = (double)groups * JUMP_GROUP, want = total * 0x1p-18 * 62 / 63;
    printf("%.0f jumps (%.0f), variance %.1f / 2^18 (1984)\n", n, want, var / total * 0x1p18);
    assert_true(fabs(n - want) < 5 * sqrt(want));
    /* var of y^2 is 5 * 2015^2 among those not zero (kurtosis 6); of their mean 2015/n */
    assert_true(fabs(var / n - 2015) < 5 * 2015 * sqrt(5 / n));
    assert_true(fabs(sum / n) < 5 * sqrt(2015 / n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_is_unbiased),
        cmocka_unit_test(geometric_counts_draws),
        cmocka_unit_test(geometric_has_its_law),
        cmocka_unit_test(jumps_have_their_law),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
