/* Stochastic rounding: unbiased, and rejected as rarely as the bound promises. */
#include "support/check.h"
#include "support/squares.h"

#include "base/alloc.h"
#include "privacy/mechanism/quantise.h"

#include <math.h>

/* The mean of every coordinate over many roundings, against its exact value: sum of squared
 * standard scores, which is chi-square. */
static void unbiased(void **state)
{
    (void)state;
    enum { N = 400 };
    static float v[N];
    static int64_t X[N];
    static double sum[N];
    seeded gen;
    test_seed(&gen, "unbiased");
    sefl_rng rng = seeded_rng(&gen);
    dp_grid g;
    CHECK_OK(dp_grid_init(&g, &(dp_grid_config){ .z = 300, .clip = 1, .dim = N, .clients = 10 }));
    for (int i = 0; i < N; i++)
        v[i] = (float)((seeded_unit(&gen) - 0.5) * 40 * g.q);
    unsigned long runs = test_count(10000, 1000000), again = 0;
    dp_quantise_info info;
    for (unsigned long r = 0; r < runs; r++) {
        CHECK_OK(dp_quantise(X, &info, &g, v, N, NULL, &rng));
        again += info.attempts > 1;
        for (int i = 0; i < N; i++)
            sum[i] += (double)X[i];
    }
    double chi2 = 0;
    for (int i = 0; i < N; i++) {
        double x = v[i] * info.scale / g.q, f = x - floor(x), n = (double)runs;
        double score = (sum[i] / n - x) / sqrt((f * (1 - f) + 1e-9) / n);
        assert_true(fabs(score) < 5.5);
        chi2 += score * score;
    }
    assert_true(fabs(chi2 - N) < 5 * sqrt(2.0 * N));
    assert_int_equal(again, 0);
}

/* How far below S2 the sum of squares stays for vectors of the full norm, in standard deviations:
 * 4.9 and more means a rejection rate below 2^-20 for a normal tail. Small and large dimensions,
 * fractions all one half (the worst case of d/4) and random ones. */
static void rejection_rate(void **state)
{
    (void)state;
    static const struct {
        double z;
        uint64_t d;
    } c[] = { { 1, 1 },     { 1, 10 },     { 0.25, 1000 }, { 16, 1000 },
              { 300, 300 }, { 1, 100000 }, { 4, 200000 },  { 50, 100000 } };
    seeded gen;
    test_seed(&gen, "rejection rate");
    sefl_rng rng = seeded_rng(&gen);
    for (size_t k = 0; k < sizeof c / sizeof c[0]; k++)
        for (int halves = 0; halves < 2; halves++) {
            dp_grid g;
            float *v = NULL;
            int64_t *X = NULL;
            size_t n = c[k].d;
            CHECK_OK(dp_grid_init(
                &g, &(dp_grid_config){ .z = c[k].z, .clip = 1, .dim = n, .clients = 10 }));
            CHECK_OK(sefl_new(&v, n, sizeof *v));
            CHECK_OK(sefl_new(&X, n, sizeof *X));
            /* values (m + 1/2) steps whose norm is close to R, or any vector of norm above R */
            double typical = g.r / sqrt((double)n);
            for (size_t i = 0; i < n; i++)
                v[i] = halves ? (float)((floor(typical) + 0.5) * g.q)
                              : (float)((seeded_unit(&gen) - 0.5) * 8 * (typical + 1) * g.q);
            unsigned long runs = test_count(n > 5000 ? 40 : 4000, n > 5000 ? 2000 : 200000);
            double s = 0, s2 = 0, top = 0;
            unsigned long again = 0;
            for (unsigned long r = 0; r < runs; r++) {
                dp_quantise_info info;
                uint64_t hi;
                CHECK_OK(dp_quantise(X, &info, &g, v, n, NULL, &rng));
                again += info.attempts > 1;
                double q = (double)sum_of_squares(&hi, X, n) - g.r * g.r;
                s += q, s2 += q * q, top = fmax(top, q);
            }
            double mean = s / (double)runs, sd = sqrt(fmax(0, s2 / (double)runs - mean * mean));
            double room = ((double)g.s2 - g.r * g.r - mean) / (sd + 1e-9);
            print_message("z %-4g d %-7zu %s: room %.1f deviations, rejected %lu of %lu\n", c[k].z,
                          n, halves ? "halves" : "random", room, again, runs);
            assert_int_equal(again, 0);
            assert_true(room > 4.9);
            sefl_free(v);
            sefl_free(X);
        }
}

/* the design's largest size: 14 M values at z = 4, one pass */
static void large(void **state)
{
    (void)state;
    size_t n = test_count(1400000, 14000000);
    seeded gen;
    test_seed(&gen, "large");
    sefl_rng rng = seeded_rng(&gen);
    dp_grid g;
    float *v = NULL;
    int64_t *X = NULL;
    CHECK_OK(dp_grid_init(&g, &(dp_grid_config){ .z = 4, .clip = 1, .dim = n, .clients = 100 }));
    CHECK_OK(sefl_new(&v, n, sizeof *v));
    CHECK_OK(sefl_new(&X, n, sizeof *X));
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(seeded_unit(&gen) - 0.5);
    for (int r = 0; r < 3; r++) {
        dp_quantise_info info;
        CHECK_OK(dp_quantise(X, &info, &g, v, n, NULL, &rng));
        assert_int_equal(info.attempts, 1);
    }
    sefl_free(v);
    sefl_free(X);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unbiased),
        cmocka_unit_test(rejection_rate),
        cmocka_unit_test(large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
