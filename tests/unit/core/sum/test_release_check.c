/* The release check's bounds: a sum just below passes, one just above is blocked, in every noise
 * mode; the weight slot; numbers that are not finite; the warning about an unusually large
 * signal. */
#include "protocol/modes/mode.h"
#include "sum/release_check.h"
#include "support/check.h"

#include <math.h>
#include <string.h>

enum { N = 120, CLIENTS = 7 };

static int64_t w[N];

static task of(task_noise noise, double z)
{
    task t = { .params = N,
               .values = N,
               .noise = noise,
               .clip = "2",
               .clients_max = 50,
               .publish_count = true };
    t.ahe.pack.q = 2.0 / (1 << 20);
    if (noise != TASK_NOISE_NONE) {
        CHECK_OK(
            dp_grid_init(&t.grid, &(dp_grid_config){ .z = z, .clip = 2, .dim = N, .clients = 50 }));
        t.ahe.pack.q = t.grid.q, t.ahe.pack.h = t.grid.h;
        t.sigma_steps = noise == TASK_NOISE_OWN ? z * sqrt((double)t.grid.s2) : 0;
    }
    return t;
}

/* All of the norm in one value, spread over two, or all values alike. */
static void fill(const task *t, double norm, size_t over)
{
    double step = task_value(t, 1) - task_value(t, 0), zero = task_value(t, 0);
    memset(w, 0, sizeof w);
    for (size_t i = 0; i < over; i++) {
        double v = norm / sqrt((double)over) * (i % 2 ? -1 : 1);
        w[i] = (int64_t)nearbyint((v - zero) / step);
    }
}

static void expect(const task *t, double bound)
{
    release_numbers n;
    /* one percent of margin: values are integers, and in mode joint no integer represents 0 */
    for (size_t over = 1; over <= N; over = over == 1 ? 2 : over == 2 ? N : N + 1) {
        fill(t, 0.99 * bound, over);
        CHECK_OK(release_check_sum(&n, t, w, CLIENTS));
        assert_true(fabs(n.bound / bound - 1) < 1e-12);
        assert_true(fabs(n.norm / bound - 0.99) < 0.005);
        assert_true(n.largest <= n.norm && n.largest >= 0.99 * n.norm / sqrt(N));
        fill(t, 1.01 * bound, over);
        CHECK_STATUS(release_check_sum(&n, t, w, CLIENTS), SEFL_ERANGE);
        assert_true(n.norm > n.bound);
        assert_non_null(strstr(sefl_last_error(), "norm"));
    }
}

static void bounds(void **state)
{
    (void)state;
    static const double zs[] = { 0.25, 1, 6 };
    for (size_t i = 0; i < sizeof zs / sizeof *zs; i++) {
        double z = zs[i], m = CLIENTS;
        task t = of(TASK_NOISE_JOINT, z);
        double d = t.grid.d_sens, root = sqrt(N);
        double joint = sqrt((root + 7.5) * (root + 7.5) + 20000), own = sqrt(2) * (root + 7.5);
        expect(&t, d * (m + z * joint));
        t.unit = TASK_UNIT_RECORD, t.records_max = 3;
        expect(&t, d * (3 * m + z * joint));
        t.publish_count = false; /* the count must stay secret, and the outcome is public */
        expect(&t, d * (3 * 50 + z * joint));
        t = of(TASK_NOISE_OWN, z);
        expect(&t, d * (m + z * own));
        t.publish_count = false;
        expect(&t, d * (50 + z * own));
    }
    task t = of(TASK_NOISE_NONE, 0);
    expect(&t, CLIENTS * (2 + t.ahe.pack.q * sqrt(N)));
    t.publish_count = false;
    expect(&t, 50 * (2 + t.ahe.pack.q * sqrt(N)));
}

static sefl_status weigh(const task *t, double clients)
{
    release_numbers n;
    double step = task_value(t, 1) - task_value(t, 0);
    memset(w, 0, sizeof w);
    w[N - 1] = (int64_t)floor(clients * 0.2 / step); /* a client's slot: a tenth of the clip */
    return release_check_sum(&n, t, w, CLIENTS);
}

static void the_weight_slot(void **state)
{
    (void)state;
    static const task_noise noises[] = { TASK_NOISE_JOINT, TASK_NOISE_OWN, TASK_NOISE_NONE };
    for (size_t i = 0; i < 3; i++) {
        task t = of(noises[i], 0.5);
        double sd = noises[i] == TASK_NOISE_JOINT ? t.grid.sigma
                    : noises[i] == TASK_NOISE_OWN ? sqrt(2) * 0.5 * t.grid.d_sens
                                                  : 0;
        double beyond = (noises[i] == TASK_NOISE_JOINT ? 60 : 10) * sd / 0.2, e = 0.001 + sd / 4;
        t.weights = TASK_CAPPED, t.weight_cap = 100, t.params = N - 1;
        CHECK_OK(weigh(&t, CLIENTS));
        CHECK_OK(weigh(&t, CLIENTS + beyond - e));
        CHECK_OK(weigh(&t, -beyond + e));
        CHECK_STATUS(weigh(&t, CLIENTS + beyond + e), SEFL_ERANGE);
        assert_non_null(strstr(sefl_last_error(), "weights"));
        CHECK_STATUS(weigh(&t, -beyond - e), SEFL_ERANGE);
    }
}

/* A client that cancels the others' weight makes the divisor small: the sum must be small as
 * well. */
static void little_weight(void **state)
{
    (void)state;
    release_numbers n;
    task t = of(TASK_NOISE_NONE, 0);
    t.weights = TASK_CAPPED, t.weight_cap = 100, t.params = N - 1;
    for (int clients = 1; clients <= CLIENTS; clients++) {
        memset(w, 0, sizeof w);
        w[N - 1] = (int64_t)(clients * 0.2 / t.ahe.pack.q);
        w[0] = (int64_t)(clients * 1.98 / t.ahe.pack.q);
        CHECK_OK(release_check_sum(&n, &t, w, CLIENTS));
        w[0] = (int64_t)(clients * 2.02 / t.ahe.pack.q);
        CHECK_STATUS(release_check_sum(&n, &t, w, CLIENTS), SEFL_ERANGE);
    }
    t = of(TASK_NOISE_OWN, 0.01); /* the slot's noise: W is 1 and 10 deviations */
    t.weights = TASK_CAPPED, t.weight_cap = 100, t.params = N - 1;
    memset(w, 0, sizeof w);
    w[N - 1] = (int64_t)(0.2 / t.ahe.pack.q);
    w[0] = (int64_t)(5.2 / t.ahe.pack.q);
    CHECK_OK(release_check_sum(&n, &t, w, CLIENTS));
    w[0] = (int64_t)(5.8 / t.ahe.pack.q);
    CHECK_STATUS(release_check_sum(&n, &t, w, CLIENTS), SEFL_ERANGE);
}

static void not_finite(void **state)
{
    (void)state;
    release_numbers n;
    task t = of(TASK_NOISE_NONE, 0);
    for (size_t i = 0; i < N; i++)
        w[i] = i % 2 ? INT64_MAX : INT64_MIN;
    CHECK_STATUS(release_check_sum(&n, &t, w, CLIENTS), SEFL_ERANGE);
    t.ahe.pack.q = 1e300; /* squares overflow */
    CHECK_STATUS(release_check_sum(&n, &t, w, CLIENTS), SEFL_ERANGE);
    t.ahe.pack.q = NAN;
    CHECK_STATUS(release_check_sum(&n, &t, w, CLIENTS), SEFL_ERANGE);

    CHECK_OK(release_check_loss(0.1));
    CHECK_OK(release_check_loss(50));
    CHECK_STATUS(release_check_loss(50.01), SEFL_ERANGE);
    CHECK_STATUS(release_check_loss(INFINITY), SEFL_ERANGE);
    CHECK_STATUS(release_check_loss(NAN), SEFL_ERANGE);
}

static void signals(void **state)
{
    (void)state;
    release_signals s = { 0 };
    double median;
    task t = of(TASK_NOISE_NONE, 0);
    /* too few to compare with */
    assert_false(release_signals_add(&s, &t, 1, 1, &median));
    assert_false(release_signals_add(&s, &t, 2, 100, &median));
    assert_false(release_signals_add(&s, &t, 3, 2, &median));
    assert_false(release_signals_add(&s, &t, 3, 1e9, &median)); /* executed twice: counts once */
    assert_int_equal(s.n, 3);
    assert_false(release_signals_add(&s, &t, 4, 8, &median)); /* 1, 2, 100 */
    assert_true(median == 2);
    assert_true(release_signals_add(&s, &t, 5, 20.01, &median)); /* 1, 2, 8, 100 */
    assert_true(median == 5);
    for (uint64_t r = 6; r < 30; r++)
        assert_false(release_signals_add(&s, &t, r, 3, &median));
    assert_int_equal(s.n, RELEASE_SIGNALS);
    assert_true(median == 3 && s.round[0] == 20 && s.round[9] == 29);

    /* with noise, the norm of the noise alone is not a signal */
    t = of(TASK_NOISE_OWN, 1);
    double floor = sqrt(2) * t.grid.d_sens * pow(2.0 * N, 0.25);
    s = (release_signals){ 0 };
    for (uint64_t r = 1; r < 5; r++)
        assert_false(release_signals_add(&s, &t, r, 0, &median));
    assert_false(release_signals_add(&s, &t, 5, 3.9 * floor, &median));
    assert_true(release_signals_add(&s, &t, 6, 4.1 * floor, &median));

    /* the estimate: a known vector without noise, and its noise taken off */
    release_numbers n;
    memset(w, 0, sizeof w);
    w[3] = 1 << 20, w[5] = -(1 << 20);
    t = of(TASK_NOISE_NONE, 0);
    CHECK_OK(release_check_sum(&n, &t, w, CLIENTS));
    assert_true(fabs(n.signal - 2 * sqrt(2)) < 1e-9 && fabs(n.largest - 2) < 1e-12);
    t = of(TASK_NOISE_OWN, 1);
    memset(w, 0, sizeof w);
    CHECK_OK(release_check_sum(&n, &t, w, CLIENTS));
    assert_true(n.signal == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds),        cmocka_unit_test(the_weight_slot),
        cmocka_unit_test(little_weight), cmocka_unit_test(not_finite),
        cmocka_unit_test(signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
