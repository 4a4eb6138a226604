#include "fed/step.h"

#include "base/alloc.h"
#include "base/file.h"
#include "support/check.h"
#include "support/folder.h"

#include <math.h>
#include <string.h>

enum { N = 4 };

static layout_tensor parts[] = {
    { .name = "a", .rank = 1, .shape = { 3 }, .block = 1, .trainable = true, .count = 3 },
    { .name = "b",
      .rank = 1,
      .shape = { 1 },
      .block = 1,
      .trainable = true,
      .offset = 3,
      .count = 1 },
};

static task small(task_server kind)
{
    task t = { .params = N,
               .values = N,
               .noise = TASK_NOISE_NONE,
               .server = kind,
               .server_lr = 0.5,
               .clip = "2",
               .sampling = TASK_ALL,
               .rate = 1,
               .enrolled = 8,
               .publish_count = true,
               .layout = { .tensor = parts, .n = 2, .count = N, .trained = N } };
    t.ahe.pack.q = 0.25;
    t.ahe.pack.h = 4;
    return t;
}

static void integers_become_averages(void **state)
{
    (void)state;
    double avg[N];
    const int64_t w[N + 1] = { 8, -16, 0, 3, 40 };
    task t = small(TASK_AVERAGE);
    CHECK_OK(step_average(avg, &t, 0, w, 4, NULL));
    const double plain[N] = { 0.5, -1, 0, 0.1875 };
    assert_memory_equal(avg, plain, sizeof plain);

    t.noise = TASK_NOISE_OWN; /* the same form */
    CHECK_OK(step_average(avg, &t, 0, w, 4, NULL));
    assert_memory_equal(avg, plain, sizeof plain);

    t.noise = TASK_NOISE_JOINT; /* (w + 1/2) h: the mean of the noise is 61.5, AS subtracts 62 */
    CHECK_OK(step_average(avg, &t, 0, w, 4, NULL));
    const double joint[N] = { 8.5, -15.5, 0.5, 3.5 };
    assert_memory_equal(avg, joint, sizeof joint);

    /* weights: the slot's sum, 40 * 0.25 = 10, over a tenth of the clip, 0.2: a total of 50 */
    t = small(TASK_AVERAGE);
    t.weights = TASK_CAPPED;
    t.weight_cap = 100;
    t.values = N + 1;
    CHECK_OK(step_average(avg, &t, 0, w, 4, NULL));
    assert_true(fabs(avg[0] - 2.0 / 50) < 1e-15 && fabs(avg[1] + 4.0 / 50) < 1e-15);
    const int64_t noisy[N + 1] = { 8, -16, 0, 3, -40 }; /* a total below one client's: 1 */
    CHECK_OK(step_average(avg, &t, 0, noisy, 4, NULL));
    assert_true(avg[0] == 2 && avg[1] == -4);

    t = small(TASK_AVERAGE);
    CHECK_STATUS(step_average(avg, &t, 0, w, 0, NULL), SEFL_ERANGE);
}

static void known_steps(void **state)
{
    (void)state;
    const double a1[N] = { 0.5, -1, 0, 0.25 }, a2[N] = { 0.5, 1, 0, 0 };
    step_state s;

    task t = small(TASK_AVERAGE);
    float theta[N] = { 1, 2, 3, 4 };
    CHECK_OK(step_new(&s, &t));
    CHECK_OK(step_apply(&s, &t, theta, a1, NULL));
    assert_memory_equal(theta, ((float[]){ 1.25f, 1.5f, 3, 4.125f }), sizeof theta);
    CHECK_OK(step_apply(&s, &t, theta, a2, NULL));
    assert_memory_equal(theta, ((float[]){ 1.5f, 2, 3, 4.125f }), sizeof theta);
    step_clear(&s);

    t = small(TASK_MOMENTUM);
    t.server_optim.momentum = 0.5;
    float mom[N] = { 0 };
    CHECK_OK(step_new(&s, &t));
    CHECK_OK(step_apply(&s, &t, mom, a1, NULL)); /* m = a1 */
    assert_memory_equal(mom, ((float[]){ 0.25f, -0.5f, 0, 0.125f }), sizeof mom);
    CHECK_OK(step_apply(&s, &t, mom, a2, NULL)); /* m = a1/2 + a2 = .75, .5, 0, .125 */
    assert_memory_equal(mom, ((float[]){ 0.625f, -0.25f, 0, 0.1875f }), sizeof mom);
    step_clear(&s);

    /* Adam's first step is lr * sign (except for eps), whatever the size */
    t = small(TASK_ADAM);
    float ad[N] = { 0 };
    CHECK_OK(step_new(&s, &t));
    CHECK_OK(step_apply(&s, &t, ad, a1, NULL));
    assert_true(fabsf(ad[0] - 0.5f) < 1e-6f && fabsf(ad[1] + 0.5f) < 1e-6f && ad[2] == 0 &&
                fabsf(ad[3] - 0.5f) < 1e-6f);
    CHECK_OK(step_apply(&s, &t, ad, a2, NULL));
    double m = (0.9 * 0.1 * -1 + 0.1 * 1) / (1 - 0.81); /* by hand, value 1 */
    double v = (0.999 * 0.001 + 0.001) / (1 - 0.998001);
    assert_true(fabs(ad[1] - (-0.5 + 0.5 * m / (sqrt(v) + 1e-8))) < 1e-6);
    step_clear(&s);
}

static void too_far(void **state)
{
    (void)state;
    task t = small(TASK_AVERAGE);
    step_state s;
    float theta[N] = { 3e38f, 0, 0, 0 };
    const double a[N] = { 1e38, 0, 0, 0 };
    CHECK_OK(step_new(&s, &t));
    CHECK_STATUS(step_apply(&s, &t, theta, a, NULL), SEFL_ERANGE);
    step_clear(&s);
    task other = small(TASK_ADAM);
    CHECK_OK(step_new(&s, &other));
    CHECK_STATUS(step_apply(&s, &t, theta, a, NULL), SEFL_EINVAL);
    step_clear(&s);
}

/* After a crash between release and model, the repeated step gives the same bytes. */
static void the_memory_survives(void **state)
{
    (void)state;
    const double a[2][N] = { { 0.5, -1, 1e-9, 0.25 }, { 0.3, 1, 0, 0 } };
    for (int kind = TASK_AVERAGE; kind <= TASK_ADAM; kind++) {
        task t = small((task_server)kind);
        step_state s, back;
        float once[N] = { 0 }, twice[N] = { 0 };
        char path[4096];
        snprintf(path, sizeof path, "%s", folder_path("optimiser"));
        CHECK_OK(step_new(&s, &t));
        CHECK_OK(step_apply(&s, &t, once, a[0], NULL));
        s.round = 3;
        CHECK_OK(step_write(&s, path));
        CHECK_STATUS(step_read(&back, path, &t, 2), SEFL_ESTATE);
        CHECK_OK(step_read(&back, path, &t, 3));
        memcpy(twice, once, sizeof once);
        CHECK_OK(step_apply(&s, &t, once, a[1], NULL));
        CHECK_OK(step_apply(&back, &t, twice, a[1], NULL));
        assert_memory_equal(once, twice, sizeof once);
        assert_int_equal(back.steps, 2);
        step_clear(&back);

        sefl_buf b = { 0 };
        CHECK_OK(file_read(&b, path, 1 << 20));
        for (size_t i = 0; i < b.n; i++) { /* any changed byte is detected */
            b.p[i] ^= 0x10;
            CHECK_OK(file_write_atomic(path, buf_span(&b), 0600));
            assert_int_not_equal(step_read(&back, path, &t, 3), SEFL_OK);
            b.p[i] ^= 0x10;
        }
        CHECK_OK(file_write_atomic(path, span_of(b.p, b.n - 1), 0600));
        CHECK_STATUS(step_read(&back, path, &t, 3), SEFL_EPROTO);
        buf_clear(&b);
        CHECK_OK(step_write(&s, path));
        t.server = kind == TASK_ADAM ? TASK_AVERAGE : TASK_ADAM;
        assert_int_not_equal(step_read(&back, path, &t, 3), SEFL_OK);
        TEST_FAULTS(FAULT_ALLOC, st = step_write(&s, path), (void)0);
        step_clear(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_become_averages),
        cmocka_unit_test(known_steps),
        cmocka_unit_test(too_far),
        cmocka_unit_test(the_memory_survives),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
