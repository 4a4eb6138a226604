#include "support/check.h"

#include "privacy/dp_filter.h"
#include "privacy/dp_grid.h"

#include <math.h>
#include <string.h>

static dp_filter filter_of(unsigned b, unsigned g1, unsigned g2, unsigned g3, unsigned g4)
{
    return (dp_filter){ b, { (uint16_t)g1, (uint16_t)g2, (uint16_t)g3, (uint16_t)g4 } };
}

static void admissible(void **state)
{
    (void)state;
    const dp_filter good[] = {
        filter_of(0, 0, 0, 0, 0),
        filter_of(1, 1, 0, 0, 0),
        filter_of(1, 4096, 0, 0, 0),
        filter_of(2, 2048, 1, 0, 0),
        filter_of(4, 2048, 512, 256, 160),
        /* C_2 = C_1: 1/4 + 1/4 */
        filter_of(2, 2048, 1024, 0, 0),
    };
    const struct {
        dp_filter f;
        const char *says;
    } bad[] = {
        { filter_of(1, 0, 0, 0, 0), "ends with 0" },
        { filter_of(2, 100, 0, 0, 0), "ends with 0" },
        { filter_of(1, 100, 1, 0, 0), "after its last" },
        { filter_of(0, 0, 0, 0, 7), "after its last" },
        { filter_of(1, 4097, 0, 0, 0), "adds up to 4097" },
        { filter_of(2, 4096, 1, 0, 0), "adds up to 4097" },
        { filter_of(4, 65535, 65535, 65535, 65535), "adds up to 262140" },
        { filter_of(2, 2048, 1025, 0, 0), "rises 2 rounds later" },
        { filter_of(2, 4095, 1, 0, 0), "rises 2 rounds later" }, /* by 6e-8 */
        { filter_of(2, 0, 1, 0, 0), "rises 2 rounds later" },
        { filter_of(4, 2048, 512, 256, 1024), "rises 4 rounds later" },
        { filter_of(5, 1, 1, 1, 1), "at most 4" },
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK_OK(dp_filter_check(&good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_STATUS(dp_filter_check(&bad[i].f), SEFL_EINVAL);
        assert_non_null(strstr(sefl_last_error(), bad[i].says));
    }
}

/* The rule of the first b entries against the column itself, for many filters. */
static void rises(void **state)
{
    (void)state;
    enum { N = 40 };
    size_t refused = 0, taken = 0;
    for (unsigned a = 0; a <= 4096; a += 227)
        for (unsigned b = 1; a + b <= 4096; b += 191)
            for (unsigned c = 0; a + b + c <= 4096; c += 1021) {
                dp_filter f = filter_of(c ? 3 : 2, a, b, c, 0);
                double col[N];
                bool rise = false;
                dp_filter_column(col, N, &f);
                for (size_t i = 1; i < N; i++)
                    rise = rise || col[i] > col[i - 1] * (1 + 1e-12);
                assert_int_equal(dp_filter_check(&f) != SEFL_OK, rise);
                refused += rise, taken += !rise;
            }
    assert_true(refused > 100 && taken > 30);
}

enum { T = 11 };

/* C as the inverse of B, by solving B x = e_i: independent of the recursion in dp_filter.c. */
static void inverse(double C[T][T], const dp_filter *f)
{
    double B[T][T] = { 0 };
    for (int r = 0; r < T; r++)
        for (int c = 0; c <= r; c++)
            B[r][c] = r == c ? 1 : r - c <= (int)f->b ? -f->gamma[r - c - 1] / 4096.0 : 0;
    for (int i = 0; i < T; i++)
        for (int r = 0; r < T; r++) {
            double v = r == i;
            for (int c = 0; c < r; c++)
                v -= B[r][c] * C[c][i];
            C[r][i] = v;
        }
}

static bool allowed(unsigned pattern, unsigned n, uint64_t most, uint64_t apart)
{
    uint64_t count = 0;
    int last = -1000;
    for (int r = 0; r < (int)n; r++)
        if (pattern >> r & 1) {
            if (r - last < (int)apart)
                return false;
            last = r;
            count++;
        }
    return count <= most;
}

/* S is the largest norm over all patterns of rounds, and over all subsets of a lost history. */
static void all_patterns(void **state)
{
    (void)state;
    const dp_filter filters[] = { filter_of(1, 3000, 0, 0, 0), filter_of(1, 4096, 0, 0, 0),
                                  filter_of(2, 2500, 600, 0, 0),
                                  filter_of(4, 2048, 512, 256, 160) };
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        double C[T][T];
        inverse(C, &filters[i]);
        for (uint64_t most = 1; most <= 5; most++)
            for (uint64_t apart = 1; apart <= 5; apart++)
                for (unsigned n = 1; n <= T; n++) {
                    double worst = 0;
                    for (unsigned p = 1; p < 1u << n; p++) {
                        double sum = 0;
                        uint64_t rounds[T];
                        size_t count = 0;
                        for (unsigned r = 0; r < n; r++) {
                            double v = 0;
                            for (unsigned c = 0; c < n; c++)
                                v += p >> c & 1 ? C[r][c] : 0;
                            sum += v * v;
                            if (p >> r & 1)
                                rounds[count++] = r + 1;
                        }
                        double of = dp_filter_s_of(&filters[i], n, rounds, count);
                        assert_true(of >= sqrt(sum) && of < sqrt(sum) * (1 + 3e-9));
                        if (allowed(p, n, most, apart))
                            worst = fmax(worst, sum);
                    }
                    double s = dp_filter_s(&filters[i], n, &(dp_turns){ most, apart });
                    assert_true(s >= sqrt(worst) && s < sqrt(worst) * (1 + 3e-9));
                }
    }
}

/* Without a filter, S is the square root of the number of turns; S never falls. */
static void turns(void **state)
{
    (void)state;
    const dp_filter none = { 0 }, f = filter_of(1, 3700, 0, 0, 0);
    assert_int_equal(dp_turns_in(&(dp_turns){ 0, 0 }, 7), 7);
    assert_int_equal(dp_turns_in(&(dp_turns){ 3, 0 }, 7), 3);
    assert_int_equal(dp_turns_in(&(dp_turns){ 0, 3 }, 7), 3);
    assert_int_equal(dp_turns_in(&(dp_turns){ 2, 3 }, 7), 2);
    assert_int_equal(dp_turns_in(&(dp_turns){ 2, 3 }, 0), 0);
    assert_int_equal(dp_turns_in(&(dp_turns){ 9, UINT64_MAX }, UINT64_MAX), 1);
    assert_int_equal(dp_turns_apart(0, 7), 1);
    assert_int_equal(dp_turns_apart(9, 7), 1);
    for (uint64_t most = 1; most <= 40; most++) { /* each round has a group with a turn left */
        const uint64_t apart = dp_turns_apart(most, 40);
        assert_in_range(most * apart, 40, UINT64_MAX);
        assert_true(apart == 1 || most * (apart - 1) < 40);
    }
    assert_true(fabs(dp_filter_s(&none, 100, &(dp_turns){ 0, 4 }) - 5) < 1e-8);
    assert_true(dp_filter_s(&none, 0, &(dp_turns){ 0, 4 }) == 0);
    assert_true(dp_filter_s(&f, 0, &(dp_turns){ 0, 4 }) == 0);
    double before = 0;
    for (uint64_t n = 1; n < 200; n++) {
        double s = dp_filter_s(&f, n, &(dp_turns){ 3, 40 });
        assert_true(s > before);
        before = s;
    }
    /* one turn: the geometric series */
    double l = 3700 / 4096.0, exact = sqrt((1 - pow(l, 400)) / (1 - l * l));
    assert_true(fabs(dp_filter_s(&f, 200, &(dp_turns){ 1, 1 }) / exact - 1) < 2e-9);
}

static void slack(void **state)
{
    (void)state;
    const dp_filter none = { 0 }, f = filter_of(1, 4096, 0, 0, 0);
    const double units = dp_filter_units(DP_FILTER_SUM_BITS - 16);
    assert_true(units == DP_FILTER_SIGMA * 0x1p36 && DP_FILTER_SIGMA < DP_G44_SIGMA);
    assert_true(dp_filter_slack(&none, 100, 945510, 3, units) == 0);
    double got = dp_filter_slack(&f, 100, 945510, 3, units);
    assert_true(fabs(got / (3 / units * 100 * sqrt(100 * 945510.0)) - 1) < 2e-9);
    assert_true(got < 1e-5); /* the design's bound at k = 16 */
    assert_true(dp_filter_slack(&f, 400, 14000000, 8, units) < 1e-3);
}

/* ---- the gain -------------------------------------------------------------------------------- */

/* dp_filter_models against the matrix: the noise of every round in every model. */
static void models(void **state)
{
    (void)state;
    const dp_filter f = filter_of(3, 2000, 500, 300, 0);
    const double momentum = 0.6;
    double noise[T][T] = { 0 }, steps[T][T] = { 0 }, all = 0, last = 0; /* [round][source] */
    for (int r = 0; r < T; r++)
        for (int c = 0; c <= r; c++) {
            double b = r == c ? 1 : r - c <= 3 ? -f.gamma[r - c - 1] / 4096.0 : 0;
            steps[r][c] = (r > 0 ? momentum * steps[r - 1][c] : 0) + b;
            noise[r][c] = (r > 0 ? noise[r - 1][c] : 0) + steps[r][c];
        }
    for (int r = 0; r < T; r++) {
        last = 0;
        for (int c = 0; c < T; c++)
            last += noise[r][c] * noise[r][c];
        all += last;
    }
    const dp_model_noise got = dp_filter_models(&f, T, momentum);
    assert_true(fabs(got.last - sqrt(last)) < 1e-12 && fabs(got.mean - sqrt(all / T)) < 1e-12);
}

/* The table of docs/PRIVACY.md: the gain of the b = 1 filter that is best for the mean model, and of
 * the one that dp_filter_best chooses. */
static void gains(void **state)
{
    (void)state;
    const struct {
        unsigned rounds, most;
        double gain[3][2]; /* momentum 0, 0.7, 0.9: last, mean */
        unsigned lags[3];  /* that dp_filter_best chooses */
        double more[2];    /* its gain at momentum 0 */
    } rows[] = {
        { 20, 1, { { 1.97, 1.70 }, { 2.67, 2.22 }, { 2.82, 2.34 } }, { 3, 1, 1 }, { 2.11, 1.77 } },
        { 20, 5, { { 1.60, 1.48 }, { 1.79, 1.65 }, { 1.78, 1.65 } }, { 1, 1, 1 }, { 1.60, 1.48 } },
        { 100, 1, { { 3.01, 2.59 }, { 4.44, 3.75 }, { 5.57, 4.59 } }, { 4, 1, 1 }, { 3.50, 2.92 } },
        { 100, 5, { { 2.82, 2.50 }, { 3.55, 3.21 }, { 3.88, 3.52 } }, { 3, 1, 1 }, { 2.98, 2.63 } },
        { 400, 1, { { 4.29, 3.70 }, { 6.51, 5.56 }, { 8.54, 7.21 } }, { 4, 4, 1 }, { 5.14, 4.36 } },
        { 400, 5, { { 4.26, 3.69 }, { 5.94, 5.28 }, { 6.95, 6.27 } }, { 4, 1, 1 }, { 4.94, 4.27 } },
    };
    const double momentum[3] = { 0, 0.7, 0.9 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int m = 0; m < 3; m++) {
            const unsigned n = rows[i].rounds, p = rows[i].most;
            const dp_turns who = { p, n / p };
            const dp_model_noise plain = dp_filter_models(&(dp_filter){ 0 }, n, momentum[m]);
            double best[2] = { 0, 0 };
            for (unsigned g = 1; g <= 4096; g++) {
                dp_filter f = filter_of(1, g, 0, 0, 0);
                const double s = dp_filter_s(&f, n, &who) / sqrt(p);
                const dp_model_noise with = dp_filter_models(&f, n, momentum[m]);
                if (plain.mean / (with.mean * s) > best[1])
                    best[0] = plain.last / (with.last * s), best[1] = plain.mean / (with.mean * s);
            }
            const dp_filter found = dp_filter_best(n, &who, momentum[m]);
            const double s = dp_filter_s(&found, n, &who) / sqrt(p);
            const dp_model_noise with = dp_filter_models(&found, n, momentum[m]);
            const double mean = plain.mean / (with.mean * s);
            CHECK_OK(dp_filter_check(&found));
            assert_int_equal(found.b, rows[i].lags[m]);
            assert_true(found.b == 1 ? fabs(mean - best[1]) < 1e-12 : mean > 1.02 * best[1]);
            if (m == 0) {
                assert_true(fabs(plain.last / (with.last * s) - rows[i].more[0]) < 0.0151);
                assert_true(fabs(mean - rows[i].more[1]) < 0.0051);
            }
            /* the optimum is flat: the next gamma moves the gain in the last model */
            assert_true(fabs(best[0] - rows[i].gain[m][0]) < 0.0151);
            assert_true(fabs(best[1] - rows[i].gain[m][1]) < 0.0051);
        }
    /* everybody in every round: no filter gains anything */
    const dp_model_noise plain = dp_filter_models(&(dp_filter){ 0 }, 100, 0);
    for (unsigned g = 1; g <= 4096; g += 64) {
        dp_filter f = filter_of(1, g, 0, 0, 0);
        const dp_model_noise with = dp_filter_models(&f, 100, 0);
        const double s = dp_filter_s(&f, 100, &(dp_turns){ 100, 1 });
        assert_true(with.last * s >= plain.last * 10 * 0.9999999);
    }
    assert_int_equal(dp_filter_best(100, &(dp_turns){ 100, 1 }, 0).b, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admissible), cmocka_unit_test(rises), cmocka_unit_test(all_patterns),
        cmocka_unit_test(turns),      cmocka_unit_test(slack), cmocka_unit_test(models),
        cmocka_unit_test(gains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
