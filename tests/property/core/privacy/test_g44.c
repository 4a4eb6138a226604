/* The law of the joint noise: compared with its circuit bit for bit, its moments, and the constant
 * of the accounting rule, recomputed from the exact probabilities. */
#include "support/check.h"

#include "base/alloc.h"
#include "mpc/circuits/plain.h"
#include "privacy/accountant/accountant.h"
#include "support/circ_blocks.h"
#include "support/g44.h"
#include "support/law.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double variance = 88.75 + 1.0 / 3 + 2 * 1984.0 / (1 << 18);

static void the_three_vectors(void **state)
{
    (void)state;
    uint64_t ones = (UINT64_C(1) << 34) - 1, pattern = 0;
    for (int i = 0; i < 34; i += 2)
        pattern |= UINT64_C(1) << i;
    assert_int_equal(g44_value(0), 16);
    assert_int_equal(g44_value(ones), 123);
    assert_int_equal((65535 + g44_value(pattern)) & 65535, 61);
}

static void exact_law(void **state)
{
    (void)state;
    uint64_t law[G44_VALUES], other[G44_VALUES];
    double mean = 0, var = 0, fourth = 0, total = ldexp(1, 34);
    uint64_t sum = 0;
    g44_law(law);
    for (int x = 0; x < G44_VALUES; x++) {
        assert_int_equal(law[x], law[G44_VALUES - 1 - x]); /* symmetric about 61.5 */
        sum += law[x];
        mean += x * (law[x] / total);
    }
    for (int x = 0; x < G44_VALUES; x++) {
        double d = x - 61.5, p = law[x] / total;
        var += d * d * p, fourth += d * d * d * d * p;
    }
    assert_true(sum == UINT64_C(1) << 34);
    assert_true(fabs(mean - 61.5) < 1e-12 && fabs(var - 88.75) < 1e-10);
    assert_true(fabs(fourth / (var * var) - 3 - 0.0416) < 5e-5);
    assert_true(law[0] > 0 && law[123] > 0);

    assert_int_equal(sampler_max(&sampler_g44) + 1, G44_VALUES);
    CHECK_OK(law_pmf(&sampler_g44, other));
    assert_memory_equal(law, other, sizeof law);

    double y2 = 0, y0 = 0, beyond = 0;
    for (int y = -20000; y <= 20000; y++) {
        y0 += g44_jump_probability(y), y2 += (double)y * y * g44_jump_probability(y);
        if (abs(y) > 1200)
            beyond += g44_jump_probability(y);
    }
    assert_true(fabs(y0 - 1) < 1e-12 && fabs(y2 - 1984.0 / (1 << 18)) < 1e-12);
    assert_true(beyond < DP_JOINT_CUT &&
                beyond > DP_JOINT_CUT * 0.95); /* the cut is the stated one */
    assert_true(fabs(sqrt(variance) - DP_G44_SIGMA) < 3e-6);
}

/* same random bits, same number: circuit evaluated in the clear, formula of support/law.h, and ours */
static void same_as_the_circuit(void **state)
{
    (void)state;
    seeded gen;
    circuit *c = NULL;
    plain *p = NULL;
    test_seed(&gen, "g44 circuit");
    for (unsigned k = 16; k <= 24; k += 4) {
        CHECK_OK(sampler_circuit(&c, &sampler_g44, k));
        CHECK_OK(plain_new(&p, c));
        uint64_t in[24 + 34][PLAIN_WORDS], out[24][PLAIN_WORDS];
        for (unsigned long run = 0; run < test_count(40, 4000); run++) {
            seeded_fill(&gen, in, (k + 34) * sizeof in[0]);
            for (unsigned i = 27; i < 33; i++) /* kicks in half of the copies */
                in[k + i][0] = in[k + i][1] = UINT64_MAX;
            plain_run(p, out, (const uint64_t(*)[PLAIN_WORDS])in);
            for (unsigned copy = 0; copy < PLAIN_COPIES; copy++) {
                uint64_t n = 0, r = 0, z = 0;
                uint8_t bits[34];
                for (unsigned i = 0; i < k; i++) {
                    n |= (in[i][copy / 64] >> copy % 64 & 1) << i;
                    z |= (out[i][copy / 64] >> copy % 64 & 1) << i;
                }
                for (unsigned i = 0; i < 34; i++) {
                    bits[i] = in[k + i][copy / 64] >> copy % 64 & 1;
                    r |= (uint64_t)bits[i] << i;
                }
                assert_true(((n + g44_value(r)) & ((UINT64_C(1) << k) - 1)) == z);
                assert_true(law_value_vartime(&sampler_g44, k, (uint32_t)n, bits) == z);
            }
        }
        plain_free(p);
        circuit_free(c);
    }
}

enum { CUT = 1500, KEPT = 1200 };

/* log of the law of N on a grid of 1/fine coarse steps; *n points. Jumps extend well beyond the
 * outcomes that are summed (KEPT), so that these have their true probability. */
static double *log_law(unsigned fine, size_t *n)
{
    uint64_t law[G44_VALUES];
    size_t coarse = G44_VALUES + 2 * CUT;
    double *xy = NULL, *out = NULL;
    g44_law(law);
    CHECK_OK(sefl_new(&xy, coarse, sizeof *xy));
    for (int y = -CUT; y <= CUT; y++) {
        double p = g44_jump_probability(y);
        for (int x = 0; x < G44_VALUES; x++)
            xy[x + y + CUT] += p * ldexp((double)law[x], -34);
    }
    *n = (coarse + 1) * fine;
    CHECK_OK(sefl_new(&out, *n, sizeof *out));
    for (size_t c = 0; c < coarse; c++)
        for (int j = -(int)fine + 1; j < (int)fine; j++) /* Tri: difference of two uniforms */
            out[c * fine + fine + j] += xy[c] * (fine - abs(j)) / ((double)fine * fine);
    for (size_t i = 0; i < *n; i++)
        out[i] = log(out[i]);
    sefl_free(xy);
    return out;
}

/* c_a * 2 sigma^2 / a for a shift of d grid points */
static double ratio(const double *lp, size_t n, unsigned fine, unsigned d, double a)
{
    double sum = 0, top = -INFINITY, shift = (double)d / fine;
    size_t middle = n / 2, reach = (size_t)(KEPT + 62) * fine;
    for (size_t i = middle - reach; i < middle + reach; i++) /* Q is P moved by d */
        top = fmax(top, a * lp[i] + (1 - a) * lp[i - d]);
    for (size_t i = middle - reach; i < middle + reach; i++)
        sum += exp(a * lp[i] + (1 - a) * lp[i - d] - top);
    return (top + log(sum)) / ((a - 1) * shift * shift) * 2 * variance / a;
}

static void the_constant(void **state)
{
    (void)state;
    static const double orders[] = { 1.01, 1.5, 2, 4, 8, 16, 32, 64, 128, 192, 256 };
    size_t n;
    double *lp = log_law(8, &n), top = 0, top_far = 0;
    unsigned every = test_count(7, 1);
    for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++)
        for (unsigned d = 1; d <= 302; d += d < 16 ? 1 : every) { /* up to 4 sigma */
            double r = ratio(lp, n, 8, d, orders[o]);
            top = fmax(top, r);
            if (d >= 16)
                top_far = fmax(top_far, r);
        }
    sefl_free(lp);
    /* a finer grid, where the limit of small shifts is nearer */
    lp = log_law(64, &n);
    double top_small = 0;
    for (size_t o = 1; o < sizeof orders / sizeof orders[0]; o += 2)
        for (unsigned d = 1; d <= 8; d *= 2)
            top_small = fmax(top_small, ratio(lp, n, 64, d, orders[o]));
    sefl_free(lp);
    print_message("Renyi curve over the Gaussian's: %.5f (grid 1/8), %.5f (shifts of 2 steps and "
                  "more), %.5f (grid 1/64, small shifts)\n",
                  top, top_far, top_small);
    assert_true(top < DP_JOINT_FACTOR && top > 1.0046);
    assert_true(top_small < DP_JOINT_FACTOR);
}

/* the whole path: mean, variance, and no dependence on the mask */
static void release_path(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "g44 release");
    sefl_rng rng = seeded_rng(&gen);
    dp_grid g;
    CHECK_OK(dp_grid_init(&g, &(dp_grid_config){ .z = 1, .clip = 1, .dim = 1000, .clients = 100 }));
    enum { N = 4096 };
    static int64_t sum[N], out[N];
    for (int64_t base = -3; base <= 3; base++) {
        double want = (double)base * 1234567.25, s = 0, s2 = 0;
        unsigned long runs = test_count(40, 1000);
        for (size_t i = 0; i < N; i++)
            sum[i] = (int64_t)floor(want);
        for (unsigned long r = 0; r < runs; r++) {
            CHECK_OK(g44_release_vartime(out, &g, sum, N, &rng));
            for (size_t i = 0; i < N; i++) {
                double e = (double)out[i] + 0.5 - (double)sum[i] / (1 << g.t);
                s += e, s2 += e * e;
            }
        }
        double n = (double)N * (double)runs, mean = s / n, var = s2 / n - mean * mean;
        assert_true(fabs(mean) < 5 * sqrt(variance / n));
        assert_true(fabs(var / variance - 1) < 6 * sqrt(2.05 / n));
    }
}

static void jumps_fail_with_their_generator(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "jumps");
    sefl_rng rng = seeded_rng(&gen);
    int32_t y[300];
    TEST_FAULTS(FAULT_RANDOM, st = g44_jumps_vartime(y, 300, &rng), (void)0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_three_vectors),   cmocka_unit_test(exact_law),
        cmocka_unit_test(same_as_the_circuit), cmocka_unit_test(the_constant),
        cmocka_unit_test(release_path),        cmocka_unit_test(jumps_fail_with_their_generator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
