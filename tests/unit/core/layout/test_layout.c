/* Layouts: counts and offsets, names and limits, which tensors are trained, text, dense form. */
#include "support/check.h"

#include "base/alloc.h"
#include "model/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void made(layout *l, const char *text)
{
    *l = (layout){ 0 };
    CHECK_OK(layout_parse(l, text, 1));
}

static void test_offsets(void **state)
{
    (void)state;
    layout l;
    made(&l, "conv=4x3x2x2, fc.weight=10x8/4, fc.bias=10, scale=scalar");
    const layout_tensor *t = l.tensor;
    assert_int_equal(l.n, 4);
    assert_true(t[0].rank == 4 && t[0].count == 48 && t[0].dense_count == 48 && t[0].block == 1);
    /* rows in blocks of 4, 4, 2; columns in two blocks of 4: (7 + 7 + 5) x 2 values */
    assert_true(t[1].rank == 2 && t[1].count == 38 && t[1].dense_count == 80 && t[1].block == 4);
    assert_true(t[1].offset == 48 && t[1].dense_offset == 48 && t[1].update_offset == 48);
    assert_true(t[2].offset == 86 && t[2].dense_offset == 128);
    assert_true(t[3].rank == 0 && t[3].count == 1 && t[3].offset == 96);
    assert_true(l.count == 97 && l.dense == 139 && l.trained == 97);
    assert_ptr_equal(layout_find(&l, "fc.bias"), &t[2]);
    assert_null(layout_find(&l, "fc"));
    layout_clear(&l);
    assert_true(l.n == 0 && l.tensor == NULL);
}

/* Names that are not allowed, twice, too long; shapes and blocks out of range. */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } bad[] = {
        { "a b=3", "a b" },
        { "a*=3", "letters, digits" },
        { "__metadata__=3", "letters, digits" },
        { "a=3, a=4", "occurs twice" },
        { "=3", "name=shape" },
        { "a", "name=shape" },
        { "a=3,,b=2", "name=shape" },
        { "a=", "not a shape" },
        { "a=0", "not a shape" },
        { "a=3x", "not a shape" },
        { "a=3x-1", "not a shape" },
        { "a=1x1x1x1x1", "not a shape" },
        { "a=4294967296", "not a shape" },
        { "a=3x4/0", "not a shape" },
        { "a=3x4/2/2", "not a shape" },
        { "a=3x4/5000", "from 1 to 4096" },
        { "a=12/2", "only a matrix" },
        { "a=3x4x2/2", "only a matrix" },
        { "a=20000000x2/2", "only a matrix" },
        { "a=65536x65536", "2^31" },
        { "a=2147483648, b=1", "2^31" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        layout l = { 0 };
        sefl_status st = layout_parse(&l, bad[i].text, 1);
        assert_true(st == SEFL_EINVAL || st == SEFL_ERANGE);
        if (!strstr(sefl_last_error(), bad[i].why))
            fail_msg("%s: %s", bad[i].text, sefl_last_error());
        layout_clear(&l);
    }
    char name[LAYOUT_NAME_MAX + 2] = { 0 };
    layout l = { 0 };
    memset(name, 'x', LAYOUT_NAME_MAX);
    CHECK_OK(layout_add(&l, name, 0, NULL, 1));
    name[LAYOUT_NAME_MAX] = 'x';
    CHECK_STATUS(layout_add(&l, name, 0, NULL, 1), SEFL_EINVAL);
    CHECK_STATUS(layout_add(&l, "", 0, NULL, 1), SEFL_EINVAL);
    for (size_t i = l.n; i < LAYOUT_TENSORS_MAX; i++) {
        snprintf(name, sizeof name, "t%zu", i);
        CHECK_OK(layout_add(&l, name, 0, NULL, 1));
    }
    CHECK_STATUS(layout_add(&l, "more", 0, NULL, 1), SEFL_ERANGE);
    assert_true(l.n == LAYOUT_TENSORS_MAX && l.count == LAYOUT_TENSORS_MAX);
    layout_clear(&l);
}

/* An update has the values of the trainable tensors; neighbours share a range. */
static void test_only(void **state)
{
    (void)state;
    layout l;
    made(&l, "base.a=2, base.b=3, lora.a=4, lora.b=5, head=6");
    CHECK_OK(layout_only(&l, "lora.*, base.a"));
    assert_int_equal(l.trained, 2 + 4 + 5);
    assert_true(l.tensor[0].trainable && !l.tensor[1].trainable && l.tensor[2].trainable &&
                l.tensor[3].trainable && !l.tensor[4].trainable);
    assert_true(l.tensor[2].update_offset == 2 && l.tensor[3].update_offset == 6);
    layout_range r = { 0 };
    assert_true(layout_next(&l, &r) && r.model == 0 && r.update == 0 && r.n == 2);
    assert_true(layout_next(&l, &r) && r.model == 5 && r.update == 2 && r.n == 9);
    assert_false(layout_next(&l, &r));

    nn_real v[20];
    for (int i = 0; i < 20; i++)
        v[i] = (nn_real)i;
    layout_select(&l, v, v); /* in place */
    for (int i = 0; i < 11; i++)
        assert_true(v[i] == (nn_real)(i < 2 ? i : i + 3));

    CHECK_STATUS(layout_only(&l, "lora.*, bias"), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "\"bias\""));
    assert_int_equal(l.trained, 11); /* unchanged */
    CHECK_STATUS(layout_only(&l, "head,,"), SEFL_EINVAL);
    CHECK_STATUS(layout_only(&l, "hea"), SEFL_EINVAL);
    CHECK_OK(layout_only(&l, "head"));
    r = (layout_range){ 0 };
    assert_true(layout_next(&l, &r) && r.model == 14 && r.update == 0 && r.n == 6);
    assert_false(layout_next(&l, &r));
    CHECK_OK(layout_only(&l, "*"));
    assert_int_equal(l.trained, 20);
    CHECK_OK(layout_only(&l, ""));
    r = (layout_range){ 0 };
    assert_true(layout_next(&l, &r) && r.n == 20 && !layout_next(&l, &r));
    layout_clear(&l);
}

static void test_text(void **state)
{
    (void)state;
    static const char text[] = "a/kernel:0=10x784/32,b-1_c.d=7,s=scalar,k=3x1x5x2";
    layout l, copy;
    sefl_buf out = { 0 };
    char shape[LAYOUT_SHAPE_BYTES];
    made(&l, text);
    CHECK_OK(layout_write(&l, &out));
    assert_int_equal(out.n, sizeof text - 1);
    assert_memory_equal(out.p, text, out.n);
    assert_string_equal(layout_shape(shape, &l.tensor[0]), "10x784/32");
    CHECK_OK(layout_only(&l, "s"));
    CHECK_OK(layout_copy(&copy, &l));
    assert_true(copy.n == l.n && copy.count == l.count && copy.trained == 1);
    assert_memory_equal(copy.tensor, l.tensor, l.n * sizeof *l.tensor);
    CHECK_OK(layout_add(&copy, "more", 1, (uint32_t[]){ 3 }, 1)); /* it has its own memory */
    layout_clear(&copy);
    layout_clear(&l);
    /* the usual block is for matrices that have no other and are large enough */
    CHECK_OK(layout_parse(&l, "m=8x9, n=8x9/1, o=7x9, v=64, c=8x8x8", 8));
    assert_true(l.tensor[0].block == 8 && l.tensor[1].block == 1 && l.tensor[2].block == 1 &&
                l.tensor[3].block == 1 && l.tensor[4].block == 1);
    layout_clear(&l);
    buf_clear(&out);
}

/* Expanding a projection of an expansion changes nothing; projection is linear. */
static void test_dense(void **state)
{
    (void)state;
    layout l;
    nn_real v[64], back[64], a[200], b[200], d[200], pa[64], pb[64], pd[64];
    made(&l, "m=9x10/4, v=3");
    const layout_tensor *m = &l.tensor[0];
    assert_true(m->count <= 64 && m->dense_count == 90);
    for (size_t i = 0; i < m->count; i++)
        v[i] = (nn_real)sin((double)i);
    layout_expand(m, a, v);
    assert_true(a[1] == a[10] && a[2] == a[11] && a[11] == a[20]); /* anti-diagonals */
    layout_project(m, back, a);
    assert_memory_equal(back, v, m->count * sizeof *v);
    for (size_t i = 0; i < m->dense_count; i++)
        a[i] = (nn_real)sin((double)i), b[i] = (nn_real)cos(3.0 * (double)i), d[i] = a[i] - b[i];
    layout_project(m, pa, a), layout_project(m, pb, b), layout_project(m, pd, d);
    for (size_t i = 0; i < m->count; i++)
        assert_true(fabs((double)(pa[i] - pb[i] - pd[i])) < 1e-6);
    layout_expand(&l.tensor[1], b, v); /* dense: a copy */
    assert_memory_equal(b, v, 3 * sizeof *v);
    layout_project(&l.tensor[1], back, b);
    assert_memory_equal(back, v, 3 * sizeof *v);
    layout_clear(&l);
}

/* The built-in models list their tensors, of which some may be trained. */
static void test_models(void **state)
{
    (void)state;
    lm_config cfg = { .body = "transformer", .vocab = 20, .embed = 8, .hidden = 8, .block = 4 };
    layout l;
    CHECK_OK(lm_config_layout(&cfg, &l));
    const size_t all = l.count;
    assert_true(l.trained == all && l.tensor[0].rank == 2 && l.tensor[0].shape[0] == 20);
    layout_clear(&l);
    cfg.only = "transformer_encoder.layers.1.*, decoder.bias";
    CHECK_OK(lm_config_layout(&cfg, &l));
    assert_true(l.count == all && l.trained < all && l.trained > 20);
    assert_true(!layout_find(&l, "transformer_encoder.layers.0.linear1.bias")->trainable);
    assert_true(layout_find(&l, "transformer_encoder.layers.1.linear1.bias")->trainable);
    layout_clear(&l);
    cfg.only = "encoder.wait";
    CHECK_STATUS(lm_config_layout(&cfg, &l), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "training.only"));
    assert_null(l.tensor);
}

static void test_faults(void **state)
{
    (void)state;
    layout l = { 0 }, copy = { 0 };
    TEST_FAULTS(FAULT_ALLOC, st = layout_parse(&l, "a=1, b=2, c=3", 1), layout_clear(&l));
    made(&l, "a=1, b=2");
    TEST_FAULTS(FAULT_ALLOC, st = layout_copy(&copy, &l), layout_clear(&copy));
    layout_clear(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offsets), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_only),    cmocka_unit_test(test_text),
        cmocka_unit_test(test_dense),   cmocka_unit_test(test_models),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
