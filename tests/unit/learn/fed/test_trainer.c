/* The port of trainers that know only dense tensors. */
#include "fed/trainer.h"

#include "base/alloc.h"
#include "support/check.h"

#include <math.h>
#include <string.h>

/* a: block-Hankel 3 x 4 with block 2; b: frozen; c: dense */
static task with_tensors(void)
{
    task t = { 0 };
    CHECK_OK(layout_add(&t.layout, "a", 2, (uint32_t[]){ 3, 4 }, 2));
    CHECK_OK(layout_add(&t.layout, "b", 1, (uint32_t[]){ 5 }, 1));
    CHECK_OK(layout_add(&t.layout, "c", 1, (uint32_t[]){ 2 }, 1));
    CHECK_OK(layout_only(&t.layout, "a,c"));
    t.params = t.layout.count;
    t.weight_cap = 100;
    return t;
}

typedef struct seen {
    enum { ADD, NOT_FINITE, TOO_LARGE, FROZEN_NOT_FINITE, CANCEL } what;
    const layout *l;
    float scale;
} seen;

static sefl_status train(void *self, const dense_round *r, float *out, uint64_t *weight)
{
    const seen *s = self;
    assert_int_equal(r->count, s->l->dense);
    assert_int_equal(r->of->round, 7);
    assert_int_equal(*weight, 100);
    assert_memory_equal(out, r->values, r->count * sizeof *out);
    for (size_t i = 0; i < r->count; i++)
        out[i] += s->scale * (float)i;
    *weight = 30;
    if (s->what == NOT_FINITE)
        out[s->l->tensor[2].dense_offset + 1] = NAN;
    if (s->what == FROZEN_NOT_FINITE)
        out[s->l->tensor[1].dense_offset] = INFINITY;
    if (s->what == TOO_LARGE)
        out[0] = 3e38f;
    return s->what == CANCEL ? sefl_fail(SEFL_ECANCELLED, "stopped") : SEFL_OK;
}

static sefl_status run(const task *t, seen *s, const float *theta, float *v, uint64_t *weight)
{
    s->l = &t->layout;
    dense_trainer d = { .self = s, .train = train };
    train_port port = trainer_of_dense(&d);
    assert_null(port.records);
    *weight = t->weight_cap;
    return port.train(port.self, &(train_job){ .task = t, .round = 7, .theta = theta }, v, weight);
}

static void the_change_is_projected(void **state)
{
    (void)state;
    task t = with_tensors();
    const layout_tensor *a = &t.layout.tensor[0];
    float theta[64], v[64], dense[12], mean[64];
    uint64_t weight;
    assert_true(t.params <= 64 && a->count < a->dense_count);
    for (size_t i = 0; i < t.params; i++)
        theta[i] = (float)i / 8;
    seen s = { .what = ADD, .scale = 0.5f };
    CHECK_OK(run(&t, &s, theta, v, &weight));
    assert_int_equal(weight, 30);
    for (size_t i = 0; i < a->dense_count; i++)
        dense[i] = 0.5f * (float)i;
    layout_project(a, mean, dense);
    for (size_t i = 0; i < a->count; i++)
        assert_true(fabsf(v[i] - mean[i]) < 1e-5f);
    for (size_t i = 0; i < 5; i++) /* frozen, whatever the trainer says */
        assert_true(v[t.layout.tensor[1].offset + i] == 0);
    for (size_t i = 0; i < 2; i++)
        assert_true(v[t.layout.tensor[2].offset + i] == 0.5f * (float)(17 + i));

    /* in place, as client_update calls it; a trainer that changes nothing changes nothing */
    s.scale = 0;
    CHECK_OK(run(&t, &s, theta, theta, &weight));
    for (size_t i = 0; i < t.params; i++)
        assert_true(theta[i] == 0);
    layout_clear(&t.layout);
}

static void unusable_values_are_refused(void **state)
{
    (void)state;
    task t = with_tensors();
    float theta[64] = { 0 }, v[64];
    uint64_t weight;
    seen s = { .what = NOT_FINITE };
    CHECK_STATUS(run(&t, &s, theta, v, &weight), SEFL_ERANGE);
    assert_non_null(strstr(sefl_last_error(), "tensor c"));
    s.what = FROZEN_NOT_FINITE;
    CHECK_OK(run(&t, &s, theta, v, &weight));
    theta[0] = -3e38f;
    s.what = TOO_LARGE; /* finite, but its difference is not */
    CHECK_STATUS(run(&t, &s, theta, v, &weight), SEFL_ERANGE);
    assert_non_null(strstr(sefl_last_error(), "tensor a"));
    s.what = CANCEL;
    CHECK_STATUS(run(&t, &s, theta, v, &weight), SEFL_ECANCELLED);
    s.what = ADD, theta[0] = 0;
    TEST_FAULTS(FAULT_ALLOC, st = run(&t, &s, theta, v, &weight), (void)0);
    layout_clear(&t.layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_change_is_projected),
        cmocka_unit_test(unusable_values_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
