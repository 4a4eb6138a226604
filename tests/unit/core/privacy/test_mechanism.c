#include "support/check.h"
#include "support/squares.h"

#include "base/alloc.h"
#include "privacy/mechanism/dgauss.h"
#include "privacy/mechanism/quantise.h"
#include "support/g44.h"

#include <math.h>
#include <string.h>

static dp_grid grid_for(double z, double clip, uint64_t dim, uint64_t clients)
{
    dp_grid g;
    CHECK_OK(dp_grid_init(
        &g, &(dp_grid_config){ .z = z, .clip = clip, .dim = dim, .clients = clients }));
    return g;
}

static void grid_numbers(void **state)
{
    (void)state;
    dp_grid g = grid_for(1, 2.5, 945510, 1000);
    assert_int_equal(g.t, 12);
    assert_int_equal(g.k, 16);
    double b = 9.43919 * 4096;
    assert_true(g.s2 == (uint64_t)(b * b) && floor(sqrt((double)g.s2)) == 38662);
    assert_true(g.sigma / g.d_sens >= 1 && g.sigma / g.d_sens < 1.00001);
    /* the bound covers a vector of norm R */
    for (double z = 0.25; z < 300; z *= 1.7)
        for (uint64_t d = 1; d < 20000000; d *= 9) {
            dp_grid h;
            dp_grid_config c = { .z = z, .clip = 1, .dim = d, .clients = 10 };
            if (dp_grid_init(&h, &c) != SEFL_OK) {
                assert_true((double)d / 4 > 0.7 * pow(9.43919 * 16384 / z, 2));
                continue;
            }
            assert_true(floor(h.r * h.r + d / 4.0 + 5.27 * (h.r + sqrt((double)d) / 2)) <=
                        (double)h.s2);
            assert_true(h.sigma >= z * h.d_sens);
        }
    /* 14 M values at z = 4 */
    g = grid_for(4, 1, 14000000, 10000);
    assert_int_equal(g.t, 14);
    assert_int_equal(g.k, 16); /* K <= 3457 z */
    g = grid_for(1, 1, 945510, 10000);
    assert_int_equal(g.k, 18);
    CHECK_OK(dp_grid_init(
        &g, &(dp_grid_config){ .z = 0.5, .clip = 1, .dim = 945510, .clients = 10000 }));
    assert_int_equal(g.k, 19);
}

static void grid_refuses(void **state)
{
    (void)state;
    static const struct {
        dp_grid_config c;
        sefl_status want;
        const char *name;
    } bad[] = {
        { { .z = -1, .clip = 1, .dim = 1, .clients = 1 }, SEFL_EINVAL, "z " },
        { { .z = NAN, .clip = 1, .dim = 1, .clients = 1 }, SEFL_EINVAL, "z " },
        { { .z = 1, .clip = 0, .dim = 1, .clients = 1 }, SEFL_EINVAL, "clip" },
        { { .z = 1, .clip = INFINITY, .dim = 1, .clients = 1 }, SEFL_EINVAL, "clip" },
        { { .z = 1, .clip = NAN, .dim = 1, .clients = 1 }, SEFL_EINVAL, "clip" },
        { { .z = 1, .clip = 1e-320, .dim = 4, .clients = 10 }, SEFL_EINVAL, "clip" },
        { { .z = 1, .clip = 1e-305, .dim = 4, .clients = 10 }, SEFL_EINVAL, "clip" },
        { { .z = 4, .clip = 1.7e308, .dim = 14000000, .clients = 10 }, SEFL_EINVAL, "clip" },
        { { .z = 1, .clip = 1, .dim = 0, .clients = 1 }, SEFL_EINVAL, "dim" },
        { { .z = 1, .clip = 1, .dim = 1, .clients = 0 }, SEFL_EINVAL, "clients" },
        { { .z = 900, .clip = 1, .dim = 1000000, .clients = 1 }, SEFL_ERANGE, "coordinates" },
        { { .z = 0.25, .clip = 1, .dim = 10, .clients = 1 << 24 }, SEFL_ERANGE, "overflow" },
    };
    dp_grid g;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(dp_grid_init(&g, &bad[i].c), bad[i].want);
        assert_non_null(strstr(sefl_last_error(), bad[i].name));
    }
}

static void rounding_keeps_its_bounds(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "rounding");
    sefl_rng rng = seeded_rng(&gen);
    enum { N = 20000 };
    float *v = NULL;
    int64_t *X = NULL;
    CHECK_OK(sefl_new(&v, N, sizeof *v));
    CHECK_OK(sefl_new(&X, N + 1, sizeof *X));
    for (int shape = 0; shape < 5; shape++)
        for (double z = 0.25; z <= 64; z *= 4) {
            dp_grid g = grid_for(z, 0.7, N, 50);
            memset(v, 0, N * sizeof *v);
            for (int i = 0; i < N; i++)
                v[i] = shape == 0   ? (float)(seeded_unit(&gen) - 0.5)
                       : shape == 1 ? (i == 7 ? -100 : 0)
                       : shape == 2 ? 0
                       : shape == 3 ? 1e-30f
                                    : (float)((0.5 + i % 3) * g.q); /* halves of a step */
            dp_quantise_info info;
            uint64_t hi;
            CHECK_OK(dp_quantise(X, &info, &g, v, N, NULL, &rng));
            assert_true(sum_of_squares(&hi, X, N) <= g.s2 && hi == 0);
            assert_int_equal(info.attempts, 1);
            for (int i = 0; i < N; i++) {
                assert_true(X[i] <= g.value_max && X[i] >= -g.value_max);
                assert_true(fabs((double)X[i] - v[i] * info.scale / g.q) < 1.0001);
            }
            if (shape == 2)
                for (int i = 0; i < N; i++)
                    assert_int_equal(X[i], 0);
        }
    /* the weight slot: inside the clip */
    dp_grid g = grid_for(1, 0.7, N + 1, 50);
    for (int i = 0; i < N; i++)
        v[i] = (float)(seeded_unit(&gen) - 0.5);
    for (uint64_t items = 0; items <= 30; items += 10) {
        CHECK_OK(dp_quantise(X, NULL, &g, v, N, &(dp_weight){ items, 20 }, &rng));
        double w = items > 20 ? 1 : (double)items / 20;
        assert_true(fabs((double)X[N] * g.q / (0.07) - w) < 1e-3);
        double s = 0;
        for (int i = 0; i < N; i++)
            s += (double)X[i] * (double)X[i];
        assert_true(fabs(sqrt(fmax(0, s - N / 6.0)) * g.q - w * 0.7 * sqrt(0.99)) < 2e-3);
    }
    assert_true(dp_weight_total(0.07 * 3, 0.7, 1) > 2.999 && dp_weight_total(-5, 0.7, 1) == 1);
    /* bad input */
    v[17] = NAN;
    CHECK_STATUS(dp_quantise(X, NULL, &g, v, N, &(dp_weight){ 1, 1 }, &rng), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "coordinate 17"));
    CHECK_STATUS(dp_quantise(X, NULL, &g, v, N, NULL, &rng), SEFL_EINVAL);
    v[17] = 0;
    CHECK_STATUS(dp_quantise(X, NULL, &g, v, N, &(dp_weight){ 1, 0 }, &rng), SEFL_EINVAL);
    TEST_FAULTS(FAULT_RANDOM, st = dp_quantise(X, NULL, &g, v, N, &(dp_weight){ 1, 1 }, &rng),
                (void)0);
    sefl_free(v);
    sefl_free(X);
}

/* A bound that is too tight on purpose: the vector is re-rounded, then shrunk, and in the end fits.
 */
static void rejection_rules(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "rejection");
    sefl_rng rng = seeded_rng(&gen);
    enum { N = 1000 };
    static float v[N];
    static int64_t X[N];
    dp_grid g = grid_for(64, 1, N, 5);
    for (int i = 0; i < N; i++)
        v[i] = (float)(seeded_unit(&gen) - 0.5);
    g.s2 = (uint64_t)(g.r * g.r * 0.98);
    dp_quantise_info info;
    CHECK_OK(dp_quantise(X, &info, &g, v, N, NULL, &rng));
    assert_true(info.attempts > 2);
    uint64_t hi;
    assert_true(sum_of_squares(&hi, X, N) <= g.s2);
    assert_true(fabs(info.scale * info.norm - pow(0.999, info.attempts - 2)) < 1e-9);
}

/* whatever floating point does, no integer beyond the bound comes out */
static void no_value_out_of_nothing(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "nothing");
    sefl_rng rng = seeded_rng(&gen);
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    dp_grid g = grid_for(1, 1, 4, 10);
    int64_t X[4];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        float v[4] = { 0, 0, bad[i], 0 };
        CHECK_STATUS(dp_quantise(X, NULL, &g, v, 4, NULL, &rng), SEFL_EINVAL);
        assert_non_null(strstr(sefl_last_error(), "coordinate 2"));
    }
    float zero[4] = { 0 };
    g.q = 1e-320; /* no grid has it: 0 times infinity */
    CHECK_STATUS(dp_quantise(X, NULL, &g, zero, 4, NULL, &rng), SEFL_EINVAL);
    assert_true(X[0] == 0 && X[3] == 0);
}

static void records_add_up(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "records");
    sefl_rng rng = seeded_rng(&gen);
    enum { N = 300 };
    float v[N];
    int64_t sum[N] = { 0 }, scratch[N], before[N];
    dp_grid g = grid_for(1, 1, N, 5);
    for (int r = 0; r < 8; r++) {
        memcpy(before, sum, sizeof sum);
        for (int i = 0; i < N; i++)
            v[i] = (float)(seeded_unit(&gen) * 100);
        CHECK_OK(dp_quantise(scratch, NULL, &g, v, N, NULL, &rng));
        CHECK_OK(dp_add_record(sum, scratch, N, 8 * g.value_max));
        double s = 0; /* one record moves the sum by at most sqrt(S2) */
        for (int i = 0; i < N; i++)
            s += (double)((sum[i] - before[i]) * (sum[i] - before[i]));
        assert_true(s > 0 && s <= (double)g.s2);
    }
    memcpy(before, sum, sizeof sum);
    CHECK_OK(dp_quantise(scratch, NULL, &g, v, N, NULL, &rng));
    CHECK_STATUS(dp_add_record(sum, scratch, N, sum[0]), SEFL_ERANGE);
    assert_memory_equal(before, sum, sizeof sum);
}

/* chi-square by Wilson and Hilferty: standard normal under the null hypothesis */
static double chi_score(double chi2, double dof)
{
    return (cbrt(chi2 / dof) - (1 - 2 / (9 * dof))) / sqrt(2 / (9 * dof));
}

static void discrete_gauss_law(void **state)
{
    (void)state;
    static const struct {
        uint64_t num, den;
    } var[] = { { 1, 1 }, { 1, 3 }, { 7, 2 }, { 1000, 1 }, { 2000001, 2 } };
    enum { N = 1 << 16 };
    static int64_t x[N];
    seeded gen;
    test_seed(&gen, "discrete gauss");
    sefl_rng rng = seeded_rng(&gen);
    for (size_t c = 0; c < sizeof var / sizeof var[0]; c++) {
        dgauss g;
        CHECK_OK(dgauss_init(&g, var[c].num, var[c].den));
        double s2 = (double)var[c].num / (double)var[c].den, sigma = sqrt(s2), norm = 0;
        int64_t step = sigma > 8 ? (int64_t)(sigma / 8) : 1, half = (int64_t)(4 * sigma / step) + 1;
        double expect[256] = { 0 }, count[256] = { 0 }, sum = 0, sq = 0, far = 0, far_want = 0;
        int64_t reach = (int64_t)(40 * sigma) + 40;
        for (int64_t k = -reach; k <= reach; k++)
            norm += exp(-(double)(k * k) / (2 * s2));
        unsigned long runs = test_count(4, 100);
        double n = (double)N * (double)runs, mu2 = 0;
        for (int64_t k = -reach; k <= reach; k++) {
            double p = exp(-(double)(k * k) / (2 * s2)) / norm;
            int64_t cell = (k >= 0 ? k / step : -((-k + step - 1) / step)) + half;
            expect[cell < 0 ? 0 : cell > 2 * half ? 2 * half : cell] += n * p;
            mu2 += p * (double)k * (double)k;
            far_want += fabs((double)k) > 3.5 * sigma ? n * p : 0;
        }
        for (unsigned long r = 0; r < runs; r++) {
            CHECK_OK(dgauss_fill_vartime(&g, x, N, &rng));
            for (int i = 0; i < N; i++) {
                int64_t k = x[i], cell = (k >= 0 ? k / step : -((-k + step - 1) / step)) + half;
                count[cell < 0 ? 0 : cell > 2 * half ? 2 * half : cell]++;
                sum += (double)k, sq += (double)k * (double)k;
                far += fabs((double)k) > 3.5 * sigma;
            }
        }
        double chi2 = 0, dof = -1, rest = 0, rest_want = 0;
        for (int64_t i = 0; i <= 2 * half; i++) {
            if (expect[i] < 8) {
                rest += count[i], rest_want += expect[i];
                continue;
            }
            chi2 += (count[i] - expect[i]) * (count[i] - expect[i]) / expect[i], dof++;
        }
        if (rest_want > 0)
            chi2 += (rest - rest_want) * (rest - rest_want) / rest_want, dof++;
        assert_true(fabs(chi_score(chi2, dof)) < 4.5);
        assert_true(fabs(sum / n) < 5 * sqrt(mu2 / n));
        assert_true(fabs(sq / n / mu2 - 1) < 6 * sqrt(2 / n) + 6 / sqrt(n * mu2));
        assert_true(fabs(far - far_want) < 6 * sqrt(far_want) + 4);
    }
    dgauss g;
    CHECK_STATUS(dgauss_init(&g, 0, 1), SEFL_EINVAL);
    CHECK_STATUS(dgauss_init(&g, 1, 0), SEFL_EINVAL);
    CHECK_STATUS(dgauss_init(&g, UINT64_MAX, 1), SEFL_EINVAL);
    dp_grid grid = grid_for(1, 1, 945510, 100);
    CHECK_OK(dgauss_for_grid(&g, &grid));
    assert_true((double)g.num >= grid.z * grid.z * (double)grid.s2 && g.t == 38663);
    TEST_FAULTS(FAULT_RANDOM, st = dgauss_fill_vartime(&g, x, 1000, &rng), (void)0);
}

static void g44_sampler_law(void **state)
{
    (void)state;
    uint64_t law[G44_VALUES];
    double count[G44_VALUES] = { 0 }, chi2 = 0, dof = -1, rest = 0, rest_want = 0;
    unsigned long n = test_count(2000000, 50000000);
    seeded gen;
    test_seed(&gen, "g44 law");
    g44_law(law);
    for (unsigned long i = 0; i < n; i++)
        count[g44_value(seeded_u64(&gen) >> 30)]++;
    for (int x = 0; x < G44_VALUES; x++) {
        double want = ldexp((double)law[x], -34) * (double)n;
        if (want < 8) {
            rest += count[x], rest_want += want;
            continue;
        }
        chi2 += (count[x] - want) * (count[x] - want) / want, dof++;
    }
    chi2 += (rest - rest_want) * (rest - rest_want) / rest_want, dof++;
    assert_true(fabs(chi_score(chi2, dof)) < 4.5);

    /* the jumps: how many, how wide (the geometric law against its exact mean and variance) */
    enum { M = 1 << 16 };
    static int32_t y[M];
    sefl_rng rng = seeded_rng(&gen);
    double jumps = 0, sum = 0, sq = 0, runs = (double)test_count(160, 4000);
    for (double r = 0; r < runs; r++) {
        CHECK_OK(g44_jumps_vartime(y, M, &rng));
        for (int i = 0; i < M; i++)
            jumps += y[i] != 0, sum += y[i], sq += (double)y[i] * y[i];
    }
    double trials = runs * M, p = 1 - g44_jump_probability(0), want = trials * p;
    assert_true(fabs(jumps - want) < 5 * sqrt(want));
    assert_true(fabs(sum) < 5 * sqrt(trials * 1984 / (1 << 18)));
    /* sum of squares: fourth moment of a double geometric is about 6 times the square */
    double per = 1984.0;
    assert_true(fabs(sq - trials * per / (1 << 18)) < 5 * sqrt(trials / (1 << 18) * 6 * per * per));
}

/* Without noise: clip, bound of a coordinate, mean and weight slot; no S2. */
static void rounding_without_noise(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "plain");
    sefl_rng rng = seeded_rng(&gen);
    enum { N = 2000 };
    static float v[N];
    static int64_t X[N + 1];
    dp_plain_grid g = { .clip = 2, .q = ldexp(2, -16), .value_max = 1 << 16 };
    for (int i = 0; i < N; i++)
        v[i] = (float)(seeded_unit(&gen) - 0.5); /* norm about 13 */
    CHECK_OK(dp_quantise_plain(X, &g, v, N, NULL, &rng));
    double norm = 0, square = 0;
    for (int i = 0; i < N; i++)
        norm += (double)v[i] * v[i], square += (double)X[i] * (double)X[i];
    norm = sqrt(norm);
    assert_true(fabs(sqrt(square) * g.q - 2) < 1e-3);
    for (int i = 0; i < N; i++) {
        double x = v[i] * 2 / norm / g.q;
        assert_true(X[i] == (int64_t)floor(x) || X[i] == (int64_t)floor(x) + 1);
    }
    /* all of the clip in one coordinate: exactly value_max; a bound below cuts it */
    memset(v, 0, sizeof v);
    v[5] = -1e6f;
    CHECK_OK(dp_quantise_plain(X, &g, v, N, NULL, &rng));
    assert_int_equal(X[5], -(1 << 16));
    g.value_max = 1000;
    CHECK_OK(dp_quantise_plain(X, &g, v, N, NULL, &rng));
    assert_int_equal(X[5], -1000);
    g.value_max = 1 << 16;
    /* the slot as in dp_quantise */
    CHECK_OK(dp_quantise_plain(X, &g, v, N, &(dp_weight){ 10, 20 }, &rng));
    assert_true(fabs((double)X[N] * g.q - 0.5 * 0.1 * 2) < 2 * g.q);
    assert_true(fabs((double)X[5] * g.q + 0.5 * 2 * sqrt(0.99)) < 2 * g.q);
    /* the mean stays */
    v[5] = 0, v[9] = (float)(g.q * 0.25);
    int64_t sum = 0;
    for (int k = 0; k < 4000; k++) {
        CHECK_OK(dp_quantise_plain(X, &g, v + 9, 1, NULL, &rng));
        sum += X[0];
    }
    assert_true(sum > 850 && sum < 1150); /* 1000, standard deviation 27 */
    v[3] = INFINITY;
    CHECK_STATUS(dp_quantise_plain(X, &g, v, N, NULL, &rng), SEFL_EINVAL);
    v[3] = 0, g.q = 0;
    CHECK_STATUS(dp_quantise_plain(X, &g, v, N, NULL, &rng), SEFL_EINVAL);
    g.q = 1;
    TEST_FAULTS(FAULT_RANDOM, st = dp_quantise_plain(X, &g, v, N, NULL, &rng), (void)0);
}

/* The norm bit: its sign says whether the scaled vector was within the clip, and vector and bit keep
 * the bound S2 that the charge depends on, whatever the scale. */
static void norm_bit(void **state)
{
    (void)state;
    enum { N = 40 };
    dp_grid g;
    seeded gen;
    float v[N];
    int64_t X[N + 1];
    seeded_init(&gen, 5, "norm bit");
    sefl_rng rng = seeded_rng(&gen);
    CHECK_OK(dp_grid_init(&g, &(dp_grid_config){ .z = 1, .clip = 2, .dim = N + 1, .clients = 9 }));
    for (size_t i = 0; i < N; i++)
        v[i] = i % 2 ? 0.3F : -0.3F; /* norm 1.897 */
    static const double scales[] = { 1e-3, 1, 1.04, 1.06, 50, 1024 };
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
        const dp_weight bit = { .scale = scales[k] };
        dp_quantise_info info;
        CHECK_OK(dp_quantise(X, &info, &g, v, N, &bit, &rng));
        const double norm = 0.3 * sqrt(N) * scales[k], most = sqrt(0.99) * 2;
        const double slot = (double)X[N] * g.q / 0.2;
        assert_true(fabs(slot - (norm > most ? -1 : 1)) < 0.01);
        assert_true(fabs(info.norm / norm - 1) < 1e-6);
        const double first = norm > most ? 0.3 * scales[k] * most / norm : 0.3 * scales[k];
        assert_true(fabs((double)X[1] * g.q - first) < 2 * g.q);
        uint64_t hi, square = sum_of_squares(&hi, X, N + 1);
        assert_true(hi == 0 && square <= g.s2);
    }
    const dp_weight huge = { .scale = 1e308 };
    for (size_t i = 0; i < N; i++)
        v[i] = 1e30F;
    CHECK_STATUS(dp_quantise(X, NULL, &g, v, N, &huge, &rng), SEFL_EINVAL);
    assert_true(dp_norm_share(0.2 * 5, 2, 10) == 0.75 && dp_norm_share(-9, 2, 10) == 0);
    assert_true(dp_norm_share(9, 2, 10) == 1);
}

/* The law of floor(y + U) + X at x: X a discrete Gaussian, U uniform on [0, 1). */
static double quantised(double x, double y, double variance)
{
    const double whole = floor(y), part = y - whole;
    return (1 - part) * exp(-pow(x - whole, 2) / (2 * variance)) +
           part * exp(-pow(x - whole - 1, 2) / (2 * variance));
}

/* docs/PRIVACY.md, section 5: two inputs that differ by a whole number m of steps and a carry of at
 * most eta. The moment of order a is at most e^(c m^2) (1 + eta (e^(c (2m + 1)) - 1)). */
static void carries(void **state)
{
    (void)state;
    static const double orders[] = { 2, 8, 32 }, parts[] = { 0, 0.01, 0.3, 0.99 };
    const double variance = 150, eta = 1.0 / 64;
    double norm = 0, closest = 0;
    for (double x = -400; x <= 400; x++)
        norm += quantised(x, 0, variance);
    for (size_t o = 0; o < 3; o++)
        for (size_t f = 0; f < 4; f++)
            for (int m = 0; m <= 12; m += 3)
                for (int carry = -1; carry <= 1; carry++) {
                    const double a = orders[o], c = a * (a - 1) / (2 * variance);
                    const double y = parts[f], other = y + m + carry * eta;
                    double moment = 0;
                    for (double x = -400; x <= 400; x++)
                        moment += exp(a * log(quantised(x, other, variance)) +
                                      (1 - a) * log(quantised(x, y, variance))) /
                                  norm;
                    const double bound = c * m * m + log1p(eta * expm1(c * (2 * m + 1)));
                    assert_true(log(moment) <= bound + 1e-9);
                    closest = fmax(closest, log(moment) / bound);
                }
    assert_true(closest > 0.9); /* the bound says something */
    /* the two estimates of the logarithm, with eta = 2^-15 */
    for (double x = 0.001; x < 200; x += 0.001) {
        const double h = log1p(ldexp(expm1(x), -15));
        assert_true(h <= (x <= 1 ? 1.72 * ldexp(x, -15) : 0.0241 * x * x));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carries),
        cmocka_unit_test(norm_bit),
        cmocka_unit_test(grid_numbers),
        cmocka_unit_test(grid_refuses),
        cmocka_unit_test(rounding_keeps_its_bounds),
        cmocka_unit_test(rejection_rules),
        cmocka_unit_test(no_value_out_of_nothing),
        cmocka_unit_test(records_add_up),
        cmocka_unit_test(rounding_without_noise),
        cmocka_unit_test(discrete_gauss_law),
        cmocka_unit_test(g44_sampler_law),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
