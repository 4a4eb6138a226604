#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "fed/trainer.h"
#include "model/lm.h"
#include "paper/locals.h"
#include "paper/paper.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const lm_config tiny = { .body = "lstm",
                                .vocab = 13,
                                .embed = 8,
                                .hidden = 8,
                                .layers = 1,
                                .block = 4,
                                .batch = 2,
                                .steps = 3 };

/* Both bounds of kappa are reached. */
static void kappa_bounds(void **state)
{
    (void)state;
    layout l, *c = &l;
    CHECK_OK(lm_config_layout(&tiny, c));
    float *dense = calloc(c->dense, sizeof *dense), *v = calloc(c->count, sizeof *v);
    const layout_tensor *e = layout_find(c, "encoder.weight");
    assert_int_equal(e->shape[1], 8);
    dense[e->dense_offset] = 3; /* a corner: means and sums keep it */
    compress_project(c, v, dense);
    assert_true(compress_norm(v, c->count) == 3);
    compress_fold(c, v, dense);
    assert_true(compress_norm(v, c->count) == 3);
    memset(dense, 0, c->dense * sizeof *dense);
    for (size_t a = 0; a < 4; a++) /* the longest anti-diagonal of the first block */
        dense[e->dense_offset + a * 8 + 3 - a] = 1;
    compress_project(c, v, dense); /* one value, 1: kappa is 1/2 = 1/sqrt(l) */
    assert_true(compress_norm(v, c->count) == 1);
    compress_fold(c, v, dense); /* one value, 4: kappa is 2 = sqrt(l) */
    assert_true(compress_norm(v, c->count) == 4);
    assert_true(compress_norm(dense, c->dense) == 2);
    free(dense), free(v);
    layout_clear(c);
}

/* project is a projection, expand its right inverse, and kappa stays inside its bounds. */
static void properties(void **state)
{
    (void)state;
    layout l, *c = &l;
    seeded gen;
    test_seed(&gen, "compress");
    CHECK_OK(lm_config_layout(&tiny, c));
    assert_true(c->count < c->dense);
    float *dense = calloc(c->dense, sizeof *dense), *back = calloc(c->dense, sizeof *back);
    float *v = calloc(c->count, sizeof *v), *again = calloc(c->count, sizeof *again);
    for (int trial = 0; trial < 50; trial++) {
        for (size_t i = 0; i < c->dense; i++)
            dense[i] = (float)(seeded_unit(&gen) - 0.5);
        compress_project(c, v, dense);
        trainer_expand(back, c, v);
        compress_project(c, again, back);
        for (size_t i = 0; i < c->count; i++)
            assert_true(fabsf(v[i] - again[i]) < 1e-6f);
        const double norm = compress_norm(dense, c->dense);
        const double left = compress_norm(back, c->dense);
        double inner = 0; /* what is lost is orthogonal to what is left */
        for (size_t i = 0; i < c->dense; i++)
            inner += (double)back[i] * ((double)dense[i] - (double)back[i]);
        assert_true(left <= norm && fabs(inner) < 1e-4);
        const double kappa = compress_norm(v, c->count);
        assert_true(kappa <= left * (1 + 1e-6) && kappa >= left / 2 * (1 - 1e-6));
        compress_fold(c, again, dense);
        assert_true(compress_norm(again, c->count) <= 2 * norm * (1 + 1e-6));
    }
    free(dense), free(back), free(v), free(again);
    layout_clear(c);
    CHECK_STATUS(lm_config_layout(&(lm_config){ .body = "gru", .vocab = 10 }, c), SEFL_EINVAL);
    assert_null(c->tensor);
}

/* Reads a number of a line that begins with `start`. */
static double number(const char *csv, const char *start, int column)
{
    const char *line = strstr(csv, start);
    assert_non_null(line);
    for (int i = 0; i < column; i++)
        line = strchr(line, ',') + 1;
    return strtod(line, NULL);
}

static void figure(void **state)
{
    (void)state;
    char results[PATH_MAX], path[PATH_MAX];
    snprintf(results, sizeof results, "%s", folder_path("results"));
    paper_options o = {
        .quick = true, .results = results, .version = "1", .commit = "abc", .threads = 2
    };
    sefl_buf csv = { 0 };
    enum { PERPLEXITY = 7, KAPPA, KAPPA_MAX, SUM, SUM_MAX, ENERGY };
    CHECK_OK(paper_open(&o));
    CHECK_OK(paper_projection_draw(&o));
    CHECK_OK(paper_path(path, &o, "projection.csv"));
    assert_false(file_exists(path));
    CHECK_OK(paper_alone(&o, "projection", paper_projection));
    CHECK_OK(paper_alone(&o, "projection", paper_projection)); /* nothing is left to do */
    CHECK_OK(paper_projection_draw(&o));
    CHECK_OK(file_read(&csv, path, 100000));
    CHECK_OK(wr_u8(&csv, 0));
    const char *text = (const char *)csv.p;
    /* both methods start from the same model */
    const double a = number(text, "quick,8,compressed,1,2,0,", PERPLEXITY);
    const double b = number(text, "quick,8,projected,1,2,0,", PERPLEXITY);
    assert_true(fabs(a / b - 1) < 1e-4);
    assert_true(number(text, "quick,8,compressed,1,2,2,", PERPLEXITY) < a);
    assert_true(number(text, "quick,8,projected,1,2,2,", PERPLEXITY) < b);
    const double kappa = number(text, "quick,8,projected,1,2,2,", KAPPA);
    assert_true(kappa > 0 && kappa <= number(text, "quick,8,projected,1,2,2,", KAPPA_MAX));
    assert_true(number(text, "quick,8,projected,1,2,2,", KAPPA_MAX) <= 1);
    assert_true(number(text, "quick,8,projected,1,2,2,", SUM_MAX) <= sqrt(8));
    assert_true(number(text, "quick,8,projected,1,2,2,", ENERGY) < 1);
    assert_true(number(text, "quick,8,compressed,1,2,2,", ENERGY) == 1);
    assert_true(number(text, "quick,1,dense,1,2,2,", KAPPA) == 1);
    buf_clear(&csv);
    CHECK_OK(paper_path(path, &o, "projection-quick.svg"));
    assert_true(file_exists(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kappa_bounds),
        cmocka_unit_test(properties),
        cmocka_unit_test(figure),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
