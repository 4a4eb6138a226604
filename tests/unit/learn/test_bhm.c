/* Block-Hankel matrices: counts, layout, products, and the fast paths against the plain ones. */
#include "support/bhm_ref.h"
#include "support/check.h"

#include "base/alloc.h"
#include "model/bhm/bhm.h"
#include "model/bhm/hankel.h"

#include <math.h>
#include <string.h>

static nn_real *reals(size_t n, seeded *g)
{
    nn_real *p;
    CHECK_OK(sefl_new(&p, n, sizeof *p));
    for (size_t i = 0; g && i < n; i++)
        p[i] = (nn_real)(2 * seeded_unit(g) - 1);
    return p;
}

static size_t total(const bhm *shapes, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += bhm_count(shapes[i]);
    return sum;
}

/* The counts of the design, for the vocabulary of WikiText-2. */
static void test_counts(void **state)
{
    (void)state;
    for (uint32_t l = 1; l <= 32; l += 31) {
        bhm lstm[] = { { 33278, 200, l }, { 800, 200, l }, { 800, 200, l },
                       { 800, 200, l },   { 800, 200, l }, { 33278, 200, l } };
        bhm tr[] = { { 33278, 200, l }, { 600, 200, l },  { 200, 200, l }, { 200, 200, l },
                     { 200, 200, l },   { 600, 200, l },  { 200, 200, l }, { 200, 200, l },
                     { 200, 200, l },   { 33278, 200, l } };
        size_t a = total(lstm, 6) + 4 * 800 + 33278;
        size_t b = total(tr, 10) + 2 * (600 + 3 * 200 + 4 * 200) + 33278;
        assert_int_equal(a, l == 1 ? 13987678 : 945510);
        assert_int_equal(b, l == 1 ? 13828478 : 936850);
    }
}

static const bhm shapes[] = { { 1, 1, 1 },     { 5, 7, 1 },     { 7, 5, 2 },      { 9, 9, 3 },
                              { 16, 16, 4 },   { 33, 19, 8 },   { 40, 8, 8 },     { 70, 50, 16 },
                              { 131, 67, 32 }, { 128, 64, 32 }, { 300, 130, 64 }, { 10, 10, 64 } };
#define SHAPES (sizeof shapes / sizeof shapes[0])

/* Each dense entry is the value of its anti-diagonal; every value is used; project inverts expand;
 * fold counts. */
static void test_layout(void **state)
{
    seeded g;
    (void)state;
    test_seed(&g, "bhm layout");
    for (size_t k = 0; k < SHAPES; k++) {
        bhm s = shapes[k];
        size_t n = bhm_count(s), ld = s.cols + 3;
        nn_real *v = reals(n, &g), *w = reals(n, NULL), *d = reals(s.rows * ld, NULL);
        bhm_expand(s, d, ld, v, 0, s.rows);
        for (uint32_t i = 0; i < s.rows; i++)
            for (uint32_t j = 0; j < s.cols; j++)
                assert_true(
                    d[i * ld + j] ==
                    v[bhm_block_at(s, i / s.block, j / s.block) + i % s.block + j % s.block]);
        bhm_project(s, w, d, ld);
        for (size_t i = 0; i < n; i++)
            assert_true(fabs(w[i] - v[i]) < 1e-6);
        for (size_t i = 0; i < s.rows * ld; i++)
            d[i] = 1;
        memset(w, 0, n * sizeof *w);
        bhm_fold(s, w, d, ld, 0, s.rows);
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            assert_true(w[i] >= 1); /* no value without an entry */
            sum += w[i];
        }
        assert_true(sum == (double)s.rows * s.cols);
        sefl_free(v), sefl_free(w), sefl_free(d);
    }
}

static double worst(const nn_real *a, const nn_real *b, size_t n)
{
    double scale = 1e-30, diff = 0;
    for (size_t i = 0; i < n; i++) {
        scale = fmax(scale, fabs((double)b[i]));
        diff = fmax(diff, fabs((double)a[i] - (double)b[i]));
    }
    return diff / scale;
}

/* The frequency-domain kernels of every instruction set against the plain products. */
static void fast_is_plain(const nn_kernels *k, bhm s, size_t n, seeded *g)
{
    const unsigned l = s.block, width = k->width, nj = bhm_cols_of_blocks(s);
    const uint32_t ni = bhm_rows_of_blocks(s);
    hankel_dims d = hankel_dims_of(k, s, n);
    size_t nv = bhm_count(s), tokens = (size_t)d.groups * width;
    const double tolerance = sizeof(nn_real) == 8 ? 1e-13 : 2e-5;
    nn_real *v = reals(nv, g), *x = reals(n * s.cols, g), *gy = reals(n * s.rows, g);
    nn_real *y = reals(n * s.rows, NULL), *dx = reals(n * s.cols, NULL), *dv = reals(nv, NULL);
    nn_real *got_y = reals(n * s.rows, NULL), *got_dx = reals(n * s.cols, NULL);
    nn_real *got_dv = reals(nv, NULL);
    nn_real *ws = reals(ni * hankel_row_size(s), NULL), *dws = reals(ni * hankel_row_size(s), NULL);
    nn_real *xs = reals(tokens * hankel_row_size(s), NULL);
    nn_real *dxs = reals(tokens * hankel_row_size(s), NULL);
    nn_real *ys = reals(tokens * ni * l, NULL),
            *gs = reals(NN_BACK_ROWS * tokens * (2 * l + 1), NULL);
    nn_real *dxt = reals(tokens * nj * l, NULL), *c = reals(tokens, NULL);
    nn_real *db = reals(ni * l * width, NULL);
    uint32_t *target;
    CHECK_OK(sefl_new(&target, tokens, sizeof *target));

    bhm_mul_ref(s, y, x, n, v);
    bhm_mul_dx_ref(s, dx, gy, n, v);
    bhm_mul_dw_ref(s, dv, gy, x, n);

    hankel_prepare(k, s, ws, v, 0, ni);
    hankel_tokens(k, s, xs, x, s.cols, n, 0, d.groups);
    k->hankel_mul(d, ys, xs, ws, ni);
    for (size_t t = 0; t < n; t++)
        for (uint32_t i = 0; i < s.rows; i++)
            got_y[t * s.rows + i] = ys[(t / width * ni * l + i) * width + t % width];
    assert_true(worst(got_y, y, n * s.rows) < tolerance);

    memset(ys, 0, tokens * ni * l * sizeof *ys);
    for (size_t t = 0; t < n; t++)
        for (uint32_t i = 0; i < s.rows; i++)
            ys[(t / width * ni * l + i) * width + t % width] = gy[t * s.rows + i];
    for (size_t t = 0; t < tokens; t++) { /* y * 4 - 1 at the target is the gradient wanted */
        c[t] = t < n ? 4 : 0;
        target[t] = (uint32_t)(t % s.rows);
        for (uint32_t i = 0; i < s.rows && t < n; i++) {
            nn_real *at = &ys[(t / width * ni * l + i) * width + t % width];
            *at = (*at + (i == target[t])) / 4;
        }
        if (t >= n)
            target[t] = UINT32_MAX / 2;
    }
    hankel_grad grad = { ys, c, target, 1, db };
    k->hankel_back(d, dxs, dws, gs, &grad, xs, ws, ni);
    for (uint32_t i = 0; i < s.rows; i++) {
        double want = 0, got = 0;
        for (size_t t = 0; t < n; t++)
            want += gy[t * s.rows + i];
        for (unsigned lane = 0; lane < width; lane++)
            got += db[i * width + lane];
        assert_true(fabs(want - got) < 1e-4);
    }
    hankel_tokens_back(k, s, dxt, dxs, d.groups);
    for (size_t t = 0; t < n; t++)
        for (uint32_t j = 0; j < s.cols; j++)
            got_dx[t * s.cols + j] = dxt[(t / width * nj * l + j) * width + t % width];
    assert_true(worst(got_dx, dx, n * s.cols) < tolerance);
    hankel_fold(k, s, got_dv, dws, 0, ni);
    assert_true(worst(got_dv, dv, nv) < tolerance);

    nn_real *all[] = { v,  x,   gy, y,   dx, dv, got_y, got_dx, got_dv,
                       ws, dws, xs, dxs, ys, gs, dxt,   c,      db };
    sefl_free(target);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        sefl_free(all[i]);
}

static void test_fast_paths(void **state)
{
    static const bhm fits[] = {
        { 32, 8, 8 },    { 37, 43, 8 },    { 64, 16, 16 },  { 100, 50, 16 },
        { 131, 67, 32 }, { 160, 200, 32 }, { 128, 32, 32 }, { 259, 130, 64 }
    };
    seeded g;
    (void)state;
    test_seed(&g, "bhm fast");
    for (const nn_kernels *const *k = nn_kernels_all(); *k; k++)
        for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++) {
            assert_true(hankel_fits(fits[i]));
            fast_is_plain(*k, fits[i], 1, &g);
            fast_is_plain(*k, fits[i], 37, &g);
        }
    assert_false(hankel_fits((bhm){ 1000, 200, 1 }));
    assert_false(hankel_fits((bhm){ 1000, 200, 33 }));
    assert_false(hankel_fits((bhm){ 1000, 4, 8 }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_fast_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
