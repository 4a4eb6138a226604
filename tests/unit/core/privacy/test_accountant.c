#include "support/check.h"
#include "support/exact.h"

#include "base/alloc.h"
#include "privacy/accountant/accountant.h"
#include "privacy/accountant/fft.h"
#include "privacy/accountant/pld.h"
#include "privacy/accountant/special.h"

#include <math.h>
#include <string.h>

static double eps(const dp_event *ev, size_t n, double delta, dp_neighbours nb)
{
    dp_claim c;
    CHECK_OK(dp_epsilon(&c, ev, n, &(dp_question){ .delta = delta, .neighbours = nb }));
    assert_true(c.claimed && isfinite(c.epsilon));
    return c.epsilon;
}

static void special_functions(void **state)
{
    (void)state;
    assert_true(fabs(log_erfc(20) - log_erfc(19.999999999)) < 1e-7);
    assert_true(fabs(log_erfc(25) - log(erfc(25))) < 1e-12);
    assert_true(fabs(log_erfc(100) - (-10000 - log(100 * sqrt(M_PI)) - 0.5e-4)) < 1e-8);
    assert_true(fabs(log_ndtr(0) - log(0.5)) < 1e-15);
    assert_true(fabs(normal_mass(-1, 1) - erf(M_SQRT1_2)) < 1e-15);
    assert_true(fabs(normal_mass(8, 9) / normal_mass(-9, -8) - 1) < 1e-12);
    assert_true(fabs(log_add(-1000, -1000) - (-1000 + log(2))) < 1e-12);
    assert_true(log_sub(3, 3) == -INFINITY && log_sub(3, -INFINITY) == 3);
}

static void sum_and_integral_agree(void **state)
{
    (void)state;
    static const double z[] = { 0.25, 0.5, 1, 3, 20 }, q[] = { 1e-6, 1e-3, 0.05, 0.5, 0.99 };
    static const unsigned a[] = { 2, 3, 7, 32, 256 };
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++)
            for (int k = 0; k < 5; k++) {
                double s = rdp_sampled_sum(a[k], z[i], q[j]);
                double t = rdp_sampled_integral(a[k], z[i], q[j]);
                if (fabs(s / t - 1) > 1e-9)
                    fail_msg("order %u z %g q %g: sum %.15g integral %.15g", a[k], z[i], q[j], s,
                             t);
                /* monotone in the order, below the unsampled one, above its small-rate limit */
                assert_true(s <= rdp_gauss(a[k], z[i]) * (1 + 1e-12));
                assert_true(rdp_sampled(a[k] - 0.5, z[i], q[j]) <= s);
            }
    /* leading term for small rates: a q^2 (e^{1/z^2} - 1) / 2 */
    assert_true(fabs(rdp_sampled(2.5, 1, 1e-7) / (2.5e-14 * expm1(1) / 2) - 1) < 1e-5);
}

static void conversions(void **state)
{
    (void)state;
    for (double a = 1.1; a < 300; a *= 1.3) {
        double e1 = rdp_to_epsilon(DP_CONVERT_CKS, a, 0.7, 1e-6);
        double e2 = rdp_to_epsilon(DP_CONVERT_MIRONOV, a, 0.7, 1e-6);
        assert_true(e1 < e2);
        assert_true(fabs(rdp_to_delta(DP_CONVERT_CKS, a, 0.7, e1) / 1e-6 - 1) < 1e-6);
        assert_true(fabs(rdp_to_delta(DP_CONVERT_MIRONOV, a, 0.7, e2) / 1e-6 - 1) < 1e-6);
        /* the form of Canonne et al.: eps = tau + log((a-1)/a) - (log delta + log a)/(a-1) */
        double form = 0.7 + log((a - 1) / a) - (log(1e-6) + log(a)) / (a - 1);
        assert_true(fabs(e1 - form) < 1e-9 * form);
    }
    assert_true(rdp_to_epsilon(DP_CONVERT_CKS, 2, 0, 0.9) == 0);
    assert_true(fabs(gauss_delta(1, gauss_epsilon(1, 1e-7)) / 1e-7 - 1) < 1e-9);
    assert_true(fabs(dp_classic(1e-5) - sqrt(2 * log(1.25e5))) < 1e-12);
    /* true for one round below 1, and not a total: 100 rounds of it cost far more */
    double z = dp_classic(1e-5) / 0.5;
    assert_true(gauss_epsilon(z, 1e-5) < 0.5 && gauss_epsilon(z / 10, 1e-5) > 4);
}

static void joint_rule(void **state)
{
    (void)state;
    const double f = sqrt(1.0048);
    for (double z = 0.25; z < 20; z *= 1.5) {
        dp_event j = { .noise = DP_NOISE_JOINT, .z = z, .rate = 1, .count = 10, .dim = 945510 };
        dp_event g = { .noise = DP_NOISE_GAUSS, .z = z / f, .rate = 1, .count = 10 };
        double a = eps(&j, 1, 1e-6, DP_ZERO_OUT), b = eps(&g, 1, 1e-6, DP_ZERO_OUT);
        assert_true(a >= b * (1 - 1e-12));
        dp_claim c;
        CHECK_OK(dp_epsilon(&c, &g, 1, &(dp_question){ .delta = 1e-6 }));
        if (c.order < 256) /* same order, same number */
            assert_true(fabs(a / b - 1) < 1e-6);
        /* sampled: the moment formula at whole orders, lines between: never below the Gaussian's */
        j.rate = g.rate = 0.01;
        a = eps(&j, 1, 1e-6, DP_ZERO_OUT), b = eps(&g, 1, 1e-6, DP_ZERO_OUT);
        CHECK_OK(dp_epsilon(&c, &g, 1, &(dp_question){ .delta = 1e-6 }));
        assert_true(a >= b * (1 - 1e-9) && (z < 0.5 || c.order >= 256 || a < b * 1.03));
        assert_true(
            a <= eps(
                     &(dp_event){
                         .noise = DP_NOISE_JOINT, .z = z, .rate = 1, .count = 10, .dim = 945510 },
                     1, 1e-6, DP_ZERO_OUT));
        double order7 = dp_divergence(&j, 1, DP_ZERO_OUT, 7);
        assert_true(fabs(order7 / (10 * rdp_sampled_sum(7, z / f, 0.01)) - 1) < 1e-12);
        assert_true(dp_divergence(&j, 1, DP_ZERO_OUT, 257) == INFINITY);
        assert_true(dp_divergence(&j, 1, DP_ZERO_OUT, 1.001) == INFINITY);
    }
    dp_claim c;
    dp_event low = { .noise = DP_NOISE_JOINT, .z = 0.2499, .rate = 1, .count = 1, .dim = 10 };
    CHECK_OK(dp_epsilon(&c, &low, 1, &(dp_question){ .delta = 1e-5 }));
    assert_true(!c.claimed && c.epsilon == INFINITY && strstr(c.why_not, "0.25"));
    assert_true(dp_divergence(&low, 1, DP_ZERO_OUT, 2) == INFINITY);
    /* delta' = delta - T d 1.1e-22 */
    dp_event big = {
        .noise = DP_NOISE_JOINT, .z = 1, .rate = 1, .count = 1000000, .dim = 14000000
    };
    CHECK_OK(dp_epsilon(&c, &big, 1, &(dp_question){ .delta = 1.5e-9 }));
    assert_true(!c.claimed);
    CHECK_OK(dp_epsilon(&c, &big, 1, &(dp_question){ .delta = 1.6e-9 }));
    assert_true(c.claimed);
    dp_event none[2] = { { .noise = DP_NOISE_GAUSS, .z = 1, .rate = 1, .count = 1 },
                         { .noise = DP_NOISE_NONE, .count = 1 } };
    CHECK_OK(dp_epsilon(&c, none, 2, &(dp_question){ .delta = 1e-5 }));
    assert_true(!c.claimed && c.epsilon == INFINITY);
    CHECK_OK(dp_epsilon(&c, none, 0, &(dp_question){ .delta = 1e-5 }));
    assert_true(c.claimed && c.epsilon == 0);
}

static void neighbours(void **state)
{
    (void)state;
    /* unsampled Gaussian: exactly the sensitivity doubled */
    dp_event g = { .noise = DP_NOISE_GAUSS, .z = 3, .rate = 1, .count = 5 };
    dp_event h = { .noise = DP_NOISE_GAUSS, .z = 1.5, .rate = 1, .count = 5 };
    assert_true(fabs(eps(&g, 1, 1e-6, DP_REPLACE) / eps(&h, 1, 1e-6, DP_ZERO_OUT) - 1) < 1e-9);
    /* sampled: more than zero-out, less than unsampled replacement */
    g.rate = 0.01, h.rate = 1, g.count = h.count = 300;
    double r = eps(&g, 1, 1e-6, DP_REPLACE);
    assert_true(r > eps(&g, 1, 1e-6, DP_ZERO_OUT) && r < eps(&h, 1, 1e-6, DP_ZERO_OUT));
    /* joint below 0.5: 2D has no rule of its own, the detour over zero has */
    dp_event j = { .noise = DP_NOISE_JOINT, .z = 0.3, .rate = 1, .count = 1, .dim = 100 };
    assert_true(eps(&j, 1, 1e-6, DP_REPLACE) > eps(&j, 1, 1e-6, DP_ZERO_OUT));
    /* composition is by divergence: two halves are the whole */
    dp_event parts[2] = { g, g };
    parts[0].count = 100, parts[1].count = 200;
    assert_true(fabs(eps(parts, 2, 1e-6, DP_ZERO_OUT) / eps(&g, 1, 1e-6, DP_ZERO_OUT) - 1) < 1e-9);
    /* hardly any noise: large, but quick, and in order */
    dp_event tiny = { .noise = DP_NOISE_GAUSS, .z = 0.001, .rate = 0.5, .count = 3 };
    double e1 = eps(&tiny, 1, 1e-6, DP_REPLACE);
    tiny.z = 0.0999;
    double e2 = eps(&tiny, 1, 1e-6, DP_REPLACE);
    tiny.z = 0.1;
    assert_true(e1 > e2 && e2 > eps(&tiny, 1, 1e-6, DP_REPLACE));
    /* discrete noise on a fine grid costs what the Gaussian costs */
    dp_event d = g;
    d.noise = DP_NOISE_DISCRETE, d.sigma_steps = 38662;
    double a = eps(&d, 1, 1e-6, DP_ZERO_OUT), b = eps(&g, 1, 1e-6, DP_ZERO_OUT);
    assert_true(a >= b && a < b * 1.000001);
}

static void finds_the_multiplier(void **state)
{
    (void)state;
    static const dp_noise kind[] = { DP_NOISE_JOINT, DP_NOISE_DISCRETE, DP_NOISE_GAUSS };
    for (int k = 0; k < 3; k++)
        for (double target = 0.3; target < 20; target *= 4) {
            dp_event ev = { .noise = kind[k], .rate = k == 2 ? 0.05 : 1, .count = 50, .dim = 1000 };
            dp_question q = { .delta = 1e-6 };
            double z;
            CHECK_OK(dp_find_z(&z, &ev, target, &q));
            ev.z = z, ev.sigma_steps = 38662;
            assert_true(eps(&ev, 1, 1e-6, DP_ZERO_OUT) <= target);
            ev.z = z * 0.9999;
            assert_true(eps(&ev, 1, 1e-6, DP_ZERO_OUT) > target);
        }
    double z;
    dp_event ev = { .noise = DP_NOISE_JOINT, .rate = 1, .count = 1, .dim = 10 };
    CHECK_OK(dp_find_z(&z, &ev, 1000, &(dp_question){ .delta = 1e-6 }));
    assert_true(z == 0.25); /* never below what is proven */
    ev.count = UINT64_C(1) << 40;
    CHECK_STATUS(dp_find_z(&z, &ev, 1e-3, &(dp_question){ .delta = 1e-6 }), SEFL_EBUDGET);
}

static void bad_values_are_named(void **state)
{
    (void)state;
    static const struct {
        dp_event ev;
        double delta;
        const char *name;
    } bad[] = {
        { { .noise = DP_NOISE_GAUSS, .z = -1, .rate = 1, .count = 1 }, 1e-5, "z " },
        { { .noise = DP_NOISE_GAUSS, .z = 0, .rate = 1, .count = 1 }, 1e-5, "z " },
        { { .noise = DP_NOISE_GAUSS, .z = NAN, .rate = 1, .count = 1 }, 1e-5, "z " },
        { { .noise = DP_NOISE_GAUSS, .z = INFINITY, .rate = 1, .count = 1 }, 1e-5, "z " },
        { { .noise = DP_NOISE_GAUSS, .z = 1, .rate = 1.01, .count = 1 }, 1e-5, "rate" },
        { { .noise = DP_NOISE_GAUSS, .z = 1, .rate = 0, .count = 1 }, 1e-5, "rate" },
        { { .noise = DP_NOISE_GAUSS, .z = 1, .rate = NAN, .count = 1 }, 1e-5, "rate" },
        { { .noise = DP_NOISE_GAUSS, .z = 1, .rate = 1, .count = 1 }, 0, "delta" },
        { { .noise = DP_NOISE_GAUSS, .z = 1, .rate = 1, .count = 1 }, 1, "delta" },
        { { .noise = DP_NOISE_GAUSS, .z = 1, .rate = 1, .count = 1 }, NAN, "delta" },
        { { .noise = DP_NOISE_GAUSS, .z = 1, .rate = 1, .count = 1 }, -1e-5, "delta" },
        { { .noise = DP_NOISE_JOINT, .z = 1, .rate = 1, .count = 1 }, 1e-5, "dim" },
        { { .noise = DP_NOISE_DISCRETE, .z = 1, .rate = 1, .count = 1 }, 1e-5, "sigma_steps" },
        { { .noise = (dp_noise)9, .z = 1, .rate = 1, .count = 1 }, 1e-5, "noise" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        dp_claim c;
        CHECK_STATUS(dp_epsilon(&c, &bad[i].ev, 1, &(dp_question){ .delta = bad[i].delta }),
                     SEFL_EINVAL);
        assert_true(!c.claimed && c.epsilon == INFINITY);
        assert_non_null(strstr(sefl_last_error(), bad[i].name));
    }
    double z;
    dp_event ev = { .noise = DP_NOISE_GAUSS, .rate = 1, .count = 1 };
    CHECK_STATUS(dp_find_z(&z, &ev, -1, &(dp_question){ .delta = 1e-5 }), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "epsilon"));
    CHECK_STATUS(dp_find_z(&z, &ev, INFINITY, &(dp_question){ .delta = 1e-5 }), SEFL_EINVAL);
}

static void fft_is_the_transform(void **state)
{
    (void)state;
    enum { N = 64 };
    cplx x[N], y[N];
    seeded gen;
    fft_plan plan;
    test_seed(&gen, "fft");
    CHECK_OK(fft_init(&plan, 6));
    for (int i = 0; i < N; i++)
        y[i] = x[i] = (cplx){ seeded_unit(&gen), seeded_unit(&gen) };
    fft_forward(&plan, y);
    for (int k = 0; k < N; k++) {
        cplx s = { 0 };
        for (int j = 0; j < N; j++) {
            double a = -2 * M_PI * j * k / N;
            cplx t = cplx_mul(x[j], (cplx){ cos(a), sin(a) });
            s.re += t.re, s.im += t.im;
        }
        assert_true(hypot(s.re - y[k].re, s.im - y[k].im) < 1e-12);
    }
    fft_inverse(&plan, y);
    for (int i = 0; i < N; i++)
        assert_true(hypot(x[i].re - y[i].re, x[i].im - y[i].im) < 1e-14);
    fft_clear(&plan);
    TEST_FAULTS(FAULT_ALLOC, st = fft_init(&plan, 6), fft_clear(&plan));
}

static void pld_rules(void **state)
{
    (void)state;
    pld_interval a, b;
    dp_event joint = { .noise = DP_NOISE_JOINT, .z = 1, .rate = 1, .count = 1, .dim = 10 };
    CHECK_STATUS(dp_pld_epsilon(&a, &joint, 1, 1e-5), SEFL_EUNSUPPORTED);
    assert_true(a.upper == INFINITY); /* a caller that ignores the status gets nothing */
    joint.noise = DP_NOISE_NONE;
    CHECK_STATUS(dp_pld_epsilon(&a, &joint, 1, 1e-5), SEFL_EUNSUPPORTED);

    /* two kinds of step together; the order does not matter; parts are the whole */
    pld_step s[2] = { { .noise = PLD_GAUSS, .z = 1, .rate = 0.02, .count = 300 },
                      { .noise = PLD_GAUSS, .z = 5, .rate = 1, .count = 4 } };
    pld_step t[3] = { s[1], s[0], s[0] };
    t[1].count = 100, t[2].count = 200;
    CHECK_OK(pld_epsilon(&a, s, 2, 1e-6));
    CHECK_OK(pld_epsilon(&b, t, 3, 1e-6));
    assert_true(a.lower <= b.upper && b.lower <= a.upper && a.upper / a.lower < 1.01);
    pld_interval one;
    CHECK_OK(pld_epsilon(&one, s, 1, 1e-6));
    assert_true(one.upper < a.upper);

    /* a discrete Gaussian of 50 steps is nearly the continuous one; of 1 step it is not worse than
     * its Renyi bound */
    pld_step d = { .noise = PLD_DISCRETE, .sigma = 50, .shift = 50, .rate = 1, .count = 5 };
    pld_step c = { .noise = PLD_GAUSS, .z = 1, .rate = 1, .count = 5 };
    CHECK_OK(pld_epsilon(&a, &d, 1, 1e-6));
    CHECK_OK(pld_epsilon(&b, &c, 1, 1e-6));
    assert_true(fabs(a.upper / b.upper - 1) < 0.003 && a.upper / a.lower < 1.01);
    double exact = gauss_epsilon(1 / sqrt(5), 1e-6);
    assert_true(b.lower <= exact && exact <= b.upper);
    d.sigma = 1, d.shift = 1;
    CHECK_OK(pld_epsilon(&a, &d, 1, 1e-6));
    dp_event g = { .noise = DP_NOISE_GAUSS, .z = 1, .rate = 1, .count = 5 };
    assert_true(a.lower <= a.upper && a.lower < eps(&g, 1, 1e-6, DP_ZERO_OUT));

    CHECK_STATUS(pld_epsilon(&a, &c, 1, 1e-13), SEFL_EINVAL);
    /* losses of thousands: e^loss exceeds the range of double */
    for (uint64_t count = 100; count < 260; count += 99) {
        pld_step far = { .noise = PLD_GAUSS, .z = 0.2, .rate = 1, .count = count };
        CHECK_OK(pld_epsilon(&a, &far, 1, 1e-6));
        exact = gauss_epsilon(0.2 / sqrt((double)count), 1e-6);
        assert_true(a.lower <= exact && exact <= a.upper && a.upper / a.lower < 1.01);
    }
    /* more releases than double precision can follow at such a delta: refused, not wrong */
    static const struct {
        double z, delta;
        uint64_t count;
    } much[] = { { 100, 1e-11, 100000 }, { 30, 1e-12, 10000 } };
    for (size_t i = 0; i < sizeof much / sizeof much[0]; i++) {
        pld_step m = { .noise = PLD_GAUSS, .z = much[i].z, .rate = 1, .count = much[i].count };
        CHECK_STATUS(pld_epsilon(&a, &m, 1, much[i].delta), SEFL_ERANGE);
        assert_non_null(strstr(sefl_last_error(), "round-off"));
        assert_true(a.upper == INFINITY);
    }
    c.rate = 1.5;
    CHECK_STATUS(pld_epsilon(&a, &c, 1, 1e-5), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "rate"));
    c.rate = 1, c.z = -2;
    CHECK_STATUS(pld_epsilon(&a, &c, 1, 1e-5), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "z is"));
    CHECK_OK(pld_epsilon(&a, NULL, 0, 1e-5));
    assert_true(a.lower == 0 && a.upper == 0);
}

static void memory_runs_out(void **state)
{
    (void)state;
    dp_event ev[2] = { { .noise = DP_NOISE_JOINT, .z = 1, .rate = 0.1, .count = 3, .dim = 9 },
                       { .noise = DP_NOISE_GAUSS, .z = 1, .rate = 1, .count = 3 } };
    dp_claim c;
    dp_question q = { .delta = 1e-5 };
    pld_interval p;
    TEST_FAULTS(FAULT_ALLOC, st = dp_epsilon(&c, ev, 2, &q), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = dp_pld_epsilon(&p, ev + 1, 1, 1e-5), (void)0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_functions),
        cmocka_unit_test(sum_and_integral_agree),
        cmocka_unit_test(conversions),
        cmocka_unit_test(joint_rule),
        cmocka_unit_test(neighbours),
        cmocka_unit_test(finds_the_multiplier),
        cmocka_unit_test(bad_values_are_named),
        cmocka_unit_test(fft_is_the_transform),
        cmocka_unit_test(pld_rules),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
