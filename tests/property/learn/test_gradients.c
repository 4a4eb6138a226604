/* Every gradient of both models.
 *
 * Built twice. In double precision each parameter's gradient is compared with central differences
 * of the loss. The float build gets the gradients of the double build (--dump CASE) and compares
 * them with its own. Both use dropout and a carried state. */
#include "support/check.h"

#include "base/alloc.h"
#include "model/lm.h"
#include "model/nn/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct variant {
    lm_config cfg;
    double dropout;
    uint32_t steps, batch; /* of the batch, at most those planned */
} variant;

#define LSTM(v, e, h, n, l, t)                                                                  \
    {                                                                                           \
        .body = "lstm", .vocab = v, .embed = e, .hidden = h, .layers = n, .block = l, .tied = t \
    }
#define TRANS(v, e, h, n, k, l, t)                                                           \
    {                                                                                        \
        .body = "transformer", .vocab = v, .embed = e, .hidden = h, .layers = n, .heads = k, \
        .block = l, .tied = t                                                                \
    }

static const variant variants[] = {
    { LSTM(23, 6, 7, 2, 1, false), 0.2, 4, 3 },
    { LSTM(23, 6, 7, 2, 2, false), 0.2, 4, 3 },
    { LSTM(23, 9, 5, 1, 4, false), 0, 5, 2 },
    { LSTM(37, 9, 10, 2, 8, false), 0.5, 3, 7 },
    { LSTM(37, 8, 8, 2, 8, true), 0.2, 3, 2 },
    { LSTM(131, 35, 33, 1, 32, false), 0.2, 3, 2 },
    { LSTM(11, 3, 3, 3, 5, true), 0.3, 6, 11 },
    { TRANS(23, 6, 7, 2, 2, 1, false), 0.2, 4, 3 },
    { TRANS(23, 6, 7, 2, 3, 2, false), 0.2, 4, 3 },
    { TRANS(23, 9, 5, 1, 3, 4, false), 0, 5, 2 },
    { TRANS(37, 10, 9, 2, 2, 8, true), 0.4, 5, 6 },
    { TRANS(131, 34, 33, 1, 1, 32, false), 0.2, 3, 2 },
    { TRANS(11, 4, 3, 3, 1, 3, false), 0.1, 6, 4 },
    /* other block sizes for embedding and decoder */
    { { .body = "lstm",
        .vocab = 37,
        .embed = 9,
        .hidden = 10,
        .block = 2,
        .block_embed = 8,
        .block_decoder = 5 },
      0.2,
      4,
      3 },
    { { .body = "lstm", .vocab = 131, .embed = 35, .hidden = 33, .layers = 1, .block_decoder = 32 },
      0.2,
      3,
      2 },
    { { .body = "lstm",
        .vocab = 37,
        .embed = 8,
        .hidden = 8,
        .block_embed = 4,
        .block_decoder = 4,
        .tied = true },
      0.2,
      4,
      3 },
    { { .body = "transformer",
        .vocab = 131,
        .embed = 34,
        .hidden = 33,
        .layers = 1,
        .block = 8,
        .block_embed = 32 },
      0.2,
      3,
      2 },
};
#define VARIANTS (sizeof variants / sizeof variants[0])

typedef struct trial {
    lm *m;
    const variant *v;
    uint32_t words[2][128], next[2][128];
    nn_real *state;
    size_t state_n;
} trial;

static void trial_open(trial *t, size_t which, pool *p)
{
    seeded g;
    double loss;
    memset(t, 0, sizeof *t);
    t->v = &variants[which];
    lm_config cfg = t->v->cfg;
    cfg.batch = t->v->batch, cfg.steps = t->v->steps;
    CHECK_OK(lm_new(&t->m, &cfg, p));
    lm_init(t->m, 7);
    nn_real *theta = lm_theta(t->m);
    seeded_init(&g, which, "gradients");
    for (size_t i = 0; i < lm_count(t->m);
         i++) /* biases and gains moved off their special values */
        theta[i] += (nn_real)(0.6 * (seeded_unit(&g) - 0.5));
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < 128; i++) {
            t->words[k][i] = (uint32_t)seeded_below(&g, cfg.vocab);
            t->next[k][i] = (uint32_t)seeded_below(&g, cfg.vocab);
        }
    lm_state_reset(t->m); /* a first batch leaves a state */
    CHECK_OK(
        lm_loss(t->m, &(lm_batch){ t->words[0], t->next[0], t->v->steps, t->v->batch }, &loss));
    const nn_real *state = lm_state(t->m, &t->state_n);
    CHECK_OK(sefl_new(&t->state, t->state_n, sizeof *t->state));
    memcpy(t->state, state, t->state_n * sizeof *state);
}

static void trial_close(trial *t)
{
    lm_free(t->m);
    sefl_free(t->state);
}

static double trial_gradient(trial *t, bool add)
{
    double loss;
    size_t n;
    lm_batch b = { t->words[1], t->next[1], t->v->steps, t->v->batch, 1, add };
    memcpy(lm_state(t->m, &n), t->state, t->state_n * sizeof *t->state);
    CHECK_OK(lm_gradient(t->m, &b, &(nn_dropout){ .rate = t->v->dropout, .key = { 3 }, .step = 9 },
                         &loss));
    return loss;
}

#if SEFL_MODEL_DOUBLE

static double norm2(const double *a, size_t n)
{
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += a[i] * a[i];
    return s;
}

/* Per parameter: |numeric - analytic| < 1e-7 |analytic|. */
static void test_central_differences(void **state)
{
    (void)state;
    for (size_t which = 0; which < VARIANTS; which++) {
        trial t;
        trial_open(&t, which, NULL);
        const layout_tensor *param = lm_layout(t.m)->tensor;
        const size_t params = lm_layout(t.m)->n;
        size_t count = lm_count(t.m);
        double *theta = lm_theta(t.m), *grad, *diff;
        CHECK_OK(sefl_new(&grad, count, sizeof *grad));
        CHECK_OK(sefl_new(&diff, count, sizeof *diff));
        trial_gradient(&t, false);
        memcpy(grad, lm_grad(t.m), count * sizeof *grad);
        /* Fourth order: the error is h^4, that of rounding 1e-14 / h. ReLU has kinks, so the step
         * is shorter there. */
        const double h = strcmp(t.v->cfg.body, "lstm") == 0 ? 2e-3 : 1e-4;
        for (size_t i = 0; i < count; i++) {
            static const double at[4] = { 1, -1, 2, -2 }, weight[4] = { 8, -8, -1, 1 };
            double keep = theta[i], sum = 0;
            for (int k = 0; k < 4; k++) {
                theta[i] = keep + at[k] * h;
                sum += weight[k] * trial_gradient(&t, false);
            }
            theta[i] = keep;
            diff[i] = sum / (12 * h) - grad[i];
        }
        for (size_t i = 0; i < params; i++) {
            double size = norm2(grad + param[i].offset, param[i].count);
            double off = norm2(diff + param[i].offset, param[i].count);
            if (!(size > 0 && off < 1e-14 * size))
                fail_msg("case %zu, %s: relative error %.2e", which, param[i].name,
                         sqrt(off / size));
        }
        sefl_free(grad), sefl_free(diff);
        trial_close(&t);
    }
}

static int dump(const char *which)
{
    trial t;
    trial_open(&t, strtoul(which, NULL, 10), NULL);
    trial_gradient(&t, false);
    size_t n = lm_count(t.m);
    int rc = fwrite(lm_grad(t.m), sizeof(double), n, stdout) == n ? 0 : 1;
    trial_close(&t);
    return rc;
}

#else

/* Float against double, per parameter, below 1e-4 (measured: below 3e-6). */
static void test_float_is_double(void **state)
{
    (void)state;
    for (size_t which = 0; which < VARIANTS; which++) {
        trial t;
        char command[1024];
        double *want;
        trial_open(&t, which, NULL);
        const layout_tensor *param = lm_layout(t.m)->tensor;
        const size_t params = lm_layout(t.m)->n;
        size_t count = lm_count(t.m);
        const nn_real *grad = lm_grad(t.m);
        CHECK_OK(sefl_new(&want, count, sizeof *want));
        snprintf(command, sizeof command, "$SEFL_EMULATOR %s --dump %zu", GRADIENTS_DOUBLE, which);
        FILE *f = popen(command, "r");
        assert_non_null(f);
        assert_int_equal(fread(want, sizeof *want, count, f), count);
        assert_int_equal(pclose(f), 0);
        trial_gradient(&t, false);
        for (size_t i = 0; i < params; i++) {
            double size = 0, off = 0;
            for (size_t k = param[i].offset; k < param[i].offset + param[i].count; k++) {
                size += want[k] * want[k];
                off += (grad[k] - want[k]) * (grad[k] - want[k]);
            }
            if (!(size > 0 && sqrt(off / size) < 1e-4))
                fail_msg("case %zu, %s: relative error %.2e", which, param[i].name,
                         sqrt(off / size));
        }
        sefl_free(want);
        trial_close(&t);
    }
}

/* The same bytes for any number of threads, and on repetition. */
static void test_threads(void **state)
{
    (void)state;
    for (size_t which = 0; which < VARIANTS; which++) {
        nn_real *first = NULL;
        double loss = 0;
        for (unsigned threads = 1; threads <= 3; threads++) {
            pool *p = NULL;
            trial t;
            CHECK_OK(pool_new(&p, threads));
            trial_open(&t, which, p);
            size_t bytes = lm_count(t.m) * sizeof(nn_real);
            for (int again = 0; again < 2; again++) {
                double l = trial_gradient(&t, false);
                if (!first) {
                    CHECK_OK(sefl_new(&first, bytes, 1));
                    memcpy(first, lm_grad(t.m), bytes);
                    loss = l;
                }
                assert_memory_equal(first, lm_grad(t.m), bytes);
                assert_true(l == loss);
            }
            trial_close(&t);
            pool_free(p);
        }
        sefl_free(first);
    }
}

/* add: two equal gradients give twice one; spans cover everything that is not zero. */
static void test_add_and_spans(void **state)
{
    (void)state;
    for (size_t which = 0; which < VARIANTS; which++) {
        trial t;
        nn_real *once;
        trial_open(&t, which, NULL);
        size_t n = lm_count(t.m), spans;
        trial_gradient(&t, false);
        CHECK_OK(sefl_new(&once, n, sizeof *once));
        memcpy(once, lm_grad(t.m), n * sizeof *once);
        trial_gradient(&t, true);
        double scale = 0;
        for (size_t i = 0; i < n; i++)
            scale = fmax(scale, fabs((double)once[i]));
        for (size_t i = 0; i < n; i++)
            assert_true(fabs(lm_grad(t.m)[i] - 2.0 * once[i]) < 1e-5 * scale);
        const lm_span *s = lm_spans(t.m, &spans);
        size_t at = 0;
        for (size_t i = 0; i < spans; i++) {
            assert_true(s[i].offset >= at);
            for (; at < s[i].offset; at++)
                assert_true(once[at] == 0);
            at = s[i].offset + s[i].count;
        }
        for (; at < n; at++)
            assert_true(once[at] == 0);
        sefl_free(once);
        trial_close(&t);
    }
}

#endif

int main(int argc, char **argv)
{
#if SEFL_MODEL_DOUBLE
    if (argc == 3 && strcmp(argv[1], "--dump") == 0)
        return dump(argv[2]);
#endif
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
#if SEFL_MODEL_DOUBLE
        cmocka_unit_test(test_central_differences),
#else
        cmocka_unit_test(test_float_is_double),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_add_and_spans),
#endif
    };
    printf("kernels: %s\n", nn_kernels_get()->name);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
