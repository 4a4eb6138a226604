#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "paper/compress.h"
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

static size_t matrix_of(const compress *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->dense[i].name, name) == 0)
            return i;
    fail_msg("no parameter %s", name);
    return 0;
}

/* Both bounds of kappa are reached. */
static void kappa_bounds(void **state)
{
    (void)state;
    compress *c;
    CHECK_OK(compress_new(&c, &tiny));
    float *dense = calloc(c->dense_count, sizeof *dense), *v = calloc(c->hankel_count, sizeof *v);
    const lm_param *e = &c->dense[matrix_of(c, "encoder.weight")];
    assert_int_equal(e->shape.cols, 8);
    dense[e->offset] = 3; /* a corner: means and sums keep it */
    compress_project(c, v, dense);
    assert_true(compress_norm(v, c->hankel_count) == 3);
    compress_fold(c, v, dense);
    assert_true(compress_norm(v, c->hankel_count) == 3);
    memset(dense, 0, c->dense_count * sizeof *dense);
    for (size_t a = 0; a < 4; a++) /* the longest anti-diagonal of the first block */
        dense[e->offset + a * 8 + 3 - a] = 1;
    compress_project(c, v, dense); /* one value, 1: kappa is 1/2 = 1/sqrt(l) */
    assert_true(compress_norm(v, c->hankel_count) == 1);
    compress_fold(c, v, dense); /* one value, 4: kappa is 2 = sqrt(l) */
    assert_true(compress_norm(v, c->hankel_count) == 4);
    assert_true(compress_norm(dense, c->dense_count) == 2);
    free(dense), free(v);
    compress_free(c);
}

/* project is a projection, expand its right inverse, and kappa stays inside its bounds. */
static void properties(void **state)
{
    (void)state;
    compress *c;
    seeded gen;
    test_seed(&gen, "compress");
    CHECK_OK(compress_new(&c, &tiny));
    assert_true(c->hankel_count < c->dense_count);
    float *dense = calloc(c->dense_count, sizeof *dense),
          *back = calloc(c->dense_count, sizeof *back);
    float *v = calloc(c->hankel_count, sizeof *v), *again = calloc(c->hankel_count, sizeof *again);
    for (int trial = 0; trial < 50; trial++) {
        for (size_t i = 0; i < c->dense_count; i++)
            dense[i] = (float)(seeded_unit(&gen) - 0.5);
        compress_project(c, v, dense);
        compress_expand(c, back, v);
        compress_project(c, again, back);
        for (size_t i = 0; i < c->hankel_count; i++)
            assert_true(fabsf(v[i] - again[i]) < 1e-6f);
        const double norm = compress_norm(dense, c->dense_count);
        const double left = compress_norm(back, c->dense_count);
        double inner = 0; /* what is lost is orthogonal to what is left */
        for (size_t i = 0; i < c->dense_count; i++)
            inner += (double)back[i] * ((double)dense[i] - (double)back[i]);
        assert_true(left <= norm && fabs(inner) < 1e-4);
        const double kappa = compress_norm(v, c->hankel_count);
        assert_true(kappa <= left * (1 + 1e-6) && kappa >= left / 2 * (1 - 1e-6));
        compress_fold(c, again, dense);
        assert_true(compress_norm(again, c->hankel_count) <= 2 * norm * (1 + 1e-6));
    }
    free(dense), free(back), free(v), free(again);
    compress_free(c);
    CHECK_STATUS(compress_new(&c, &(lm_config){ .body = "gru", .vocab = 10 }), SEFL_EINVAL);
    assert_null(c);
}

/* The dense model has no block-Hankel matrix, whatever block sizes the other one has. */
static void own_blocks(void **state)
{
    (void)state;
    lm_config cfg = tiny;
    compress *c;
    cfg.block_embed = 8, cfg.block_decoder = 2;
    CHECK_OK(compress_new(&c, &cfg));
    for (size_t i = 0; i < c->n; i++)
        assert_int_equal(c->dense[i].shape.block, 1);
    assert_int_equal(c->hankel[matrix_of(c, "encoder.weight")].shape.block, 8);
    assert_int_equal(c->hankel[matrix_of(c, "decoder.weight")].shape.block, 2);
    compress_free(c);
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
    CHECK_OK(paper_projection(&o));
    CHECK_OK(paper_projection(&o)); /* nothing is left to do */
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
        cmocka_unit_test(own_blocks),
        cmocka_unit_test(figure),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
