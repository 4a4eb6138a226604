/* Decoder, softmax and cross-entropy in tiles against the plain computation: several slices and
 * tiles, every block path, every instruction set, any number of threads. */
#include "support/bhm_ref.h"
#include "support/check.h"

#include "base/alloc.h"
#include "model/nn/nn_head.h"

#include <math.h>
#include <string.h>

typedef struct problem {
    bhm w;
    size_t n, count;
    nn_real *v, *bias, *x, *dv, *dbias, *dx;
    uint32_t *target;
    double loss;
} problem;

static void *zeros(size_t n, size_t size)
{
    void *p;
    CHECK_OK(sefl_new(&p, n, size));
    return p;
}

/* Logits, loss and gradients by the plain computation. */
static void problem_open(problem *p, bhm w, size_t n, double scale, seeded *g)
{
    *p = (problem){ .w = w, .n = n, .count = bhm_count(w) };
    p->v = zeros(p->count, sizeof *p->v);
    p->bias = zeros(w.rows, sizeof *p->bias);
    p->x = zeros(n * w.cols, sizeof *p->x);
    p->dv = zeros(p->count, sizeof *p->dv);
    p->dbias = zeros(w.rows, sizeof *p->dbias);
    p->dx = zeros(n * w.cols, sizeof *p->dx);
    p->target = zeros(n, sizeof *p->target);
    for (size_t i = 0; i < p->count; i++)
        p->v[i] = (nn_real)(scale * (2 * seeded_unit(g) - 1));
    for (size_t i = 0; i < w.rows; i++)
        p->bias[i] = (nn_real)(2 * seeded_unit(g) - 1);
    for (size_t i = 0; i < n * w.cols; i++)
        p->x[i] = (nn_real)(2 * seeded_unit(g) - 1);
    for (size_t i = 0; i < n; i++)
        p->target[i] = (uint32_t)seeded_below(g, w.rows);
    nn_real *y = zeros(n * w.rows, sizeof *y);
    bhm_mul_ref(w, y, p->x, n, p->v);
    for (size_t t = 0; t < n; t++) {
        nn_real *row = y + t * w.rows;
        double top = -1e300, sum = 0;
        for (uint32_t i = 0; i < w.rows; i++) {
            row[i] += p->bias[i];
            top = fmax(top, row[i]);
        }
        for (uint32_t i = 0; i < w.rows; i++)
            sum += exp(row[i] - top);
        p->loss += top + log(sum) - row[p->target[t]];
        for (uint32_t i = 0; i < w.rows; i++)
            row[i] = (nn_real)((exp(row[i] - top) / sum - (i == p->target[t])) / (double)n);
        for (uint32_t i = 0; i < w.rows; i++)
            p->dbias[i] += row[i];
    }
    bhm_mul_dx_ref(w, p->dx, y, n, p->v);
    bhm_mul_dw_ref(w, p->dv, y, p->x, n);
    sefl_free(y);
}

static void problem_close(problem *p)
{
    void *all[] = { p->v, p->bias, p->x, p->dv, p->dbias, p->dx, p->target };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        sefl_free(all[i]);
}

static double off(const nn_real *a, const nn_real *b, size_t n)
{
    double d = 0, s = 1e-30;
    for (size_t i = 0; i < n; i++)
        d += (a[i] - b[i]) * (double)(a[i] - b[i]), s += b[i] * (double)b[i];
    return sqrt(d / s);
}

/* Runs the head; its results are in *out (dv, dbias, dx, loss), with p's sizes. */
static void solve(const problem *p, problem *out, unsigned threads, const nn_kernels *k, bool dense)
{
    pool *pl = NULL;
    uint8_t *memory = NULL;
    nn_plan plan = { 0 };
    nn_head h = { 0 };
    CHECK_OK(pool_new(&pl, threads));
    nn_head_layout(&h, p->w, p->n, threads, k, dense, &plan);
    CHECK_OK(nn_plan_get(&plan, &memory));
    nn_head_layout(&h, p->w, p->n, threads, k, dense, &plan);
    memset(out->dv, 0x7f, p->count * sizeof *out->dv); /* must be overwritten */
    nn_head_job job = { .x = p->x,
                        .n = p->n,
                        .target = p->target,
                        .v = p->v,
                        .bias = p->bias,
                        .loss = &out->loss,
                        .dx = out->dx,
                        .dv = out->dv,
                        .dbias = out->dbias,
                        .scale = (nn_real)(1 / (double)p->n) };
    CHECK_OK(nn_head_run(&h, pl, &job));
    double forward;
    job.loss = &forward, job.dx = NULL;
    CHECK_OK(nn_head_run(&h, pl, &job));
    assert_true(forward == out->loss);
    p->target[p->n - 1] = p->w.rows; /* a word beyond the vocabulary */
    CHECK_STATUS(nn_head_run(&h, pl, &job), SEFL_EINVAL);
    p->target[p->n - 1] = 0;
    sefl_free(memory);
    pool_free(pl);
}

static void compare(bhm w, size_t n, double scale, seeded *g)
{
    problem p, got, again;
    problem_open(&p, w, n, scale, g);
    problem_open(&got, w, 1, scale, g);
    problem_open(&again, w, 1, scale, g);
    sefl_free(got.dx), got.dx = zeros(n * w.cols, sizeof *got.dx);
    sefl_free(again.dx), again.dx = zeros(n * w.cols, sizeof *again.dx);
    uint32_t last = p.target[n - 1];
    for (const nn_kernels *const *k = nn_kernels_all(); *k; k++)
        for (int dense = 0; dense < 2; dense++) {
            p.target[n - 1] = last;
            solve(&p, &got, 1, *k, dense);
            if (!(fabs(got.loss - p.loss) < 2e-6 * fabs(p.loss) + 1e-4 &&
                  off(got.dx, p.dx, n * w.cols) < 1e-5 && off(got.dv, p.dv, p.count) < 1e-5 &&
                  off(got.dbias, p.dbias, w.rows) < 1e-5))
                fail_msg("%s %ux%u l=%u dense=%d: loss %g/%g dx %g dv %g db %g", (*k)->name, w.rows,
                         w.cols, w.block, dense, got.loss, p.loss, off(got.dx, p.dx, n * w.cols),
                         off(got.dv, p.dv, p.count), off(got.dbias, p.dbias, w.rows));
            p.target[n - 1] = last;
            solve(&p, &again, 3, *k, dense);
            assert_true(again.loss == got.loss);
            assert_memory_equal(again.dx, got.dx, n * w.cols * sizeof *got.dx);
            assert_memory_equal(again.dv, got.dv, p.count * sizeof *got.dv);
            assert_memory_equal(again.dbias, got.dbias, w.rows * sizeof *got.dbias);
        }
    problem_close(&p), problem_close(&got), problem_close(&again);
}

static void test_against_plain(void **state)
{
    seeded g;
    (void)state;
    test_seed(&g, "head");
    compare((bhm){ 7, 3, 1 }, 5, 1, &g);
    compare((bhm){ 1100, 12, 1 }, 400, 1, &g); /* two slices, two tiles */
    compare((bhm){ 1100, 12, 3 }, 30, 1, &g);
    compare((bhm){ 1100, 12, 8 }, 130, 1, &g);
    compare((bhm){ 2100, 35, 32 }, 37, 1, &g);
    compare((bhm){ 300, 70, 64 }, 20, 1, &g);
    compare((bhm){ 50, 9, 2000 }, 20, 1, &g); /* one block larger than the matrix */
}

/* Logits of thousands: the sum of exponentials must not overflow, nor the loss vanish. */
static void test_large_logits(void **state)
{
    seeded g;
    (void)state;
    test_seed(&g, "head large");
    compare((bhm){ 1100, 12, 1 }, 20, 300, &g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_plain),
        cmocka_unit_test(test_large_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
