#include "support/check.h"
#include "support/folder.h"

#include "model/file/exchange.h"

#include <math.h>
#include <string.h>

/* w is 2 x 3, b has 2 values and is not trained, s is one number: 9 dense values. */
static layout lay;

static int make(void **state)
{
    CHECK_OK(layout_add(&lay, "w", 2, (uint32_t[]){ 2, 3 }, 1));
    CHECK_OK(layout_add(&lay, "b", 1, (uint32_t[]){ 2 }, 1));
    CHECK_OK(layout_add(&lay, "s", 0, NULL, 1));
    CHECK_OK(layout_only(&lay, "w,s"));
    assert_int_equal(lay.dense, 9);
    return folder_make(state);
}

static int end(void **state)
{
    layout_clear(&lay);
    return folder_remove(state);
}

/* A file with this header and `values` floats: 1, 2, 3, ...; poison replaces the one at `at`. */
static sefl_status read_text(float *out, uint64_t *weight, const char *header, size_t values,
                             size_t at, float poison)
{
    sefl_buf b = { 0 };
    tensors *t = NULL;
    CHECK_OK(wr_u64(&b, strlen(header)));
    CHECK_OK(wr_raw(&b, header, strlen(header)));
    for (size_t i = 0; i < values; i++) {
        float x = i == at ? poison : (float)i + 1;
        CHECK_OK(wr_raw(&b, &x, sizeof x));
    }
    sefl_status st = tensors_over(&t, buf_span(&b), "test");
    if (st == SEFL_OK)
        st = exchange_read(t, &lay, out, weight);
    tensors_close(t);
    buf_clear(&b);
    return st;
}

#define W(type, shape, from, to) \
    "\"w\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" #from "," #to "]}"
#define S            "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[24,28]}"
#define B(shape, to) "\"b\":{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[28," #to "]}"
#define GOOD         "{" W("F32", "2,3", 0, 24) "," S "}"

static void there_and_back(void **state)
{
    (void)state;
    float values[9], got[9] = { 0 };
    uint64_t weight = 77;
    tensors *t = NULL;
    for (int i = 0; i < 9; i++)
        values[i] = (float)i - 4.5F;
    CHECK_OK(exchange_write(folder_path("m"), &lay, values));
    CHECK_OK(tensors_open(&t, folder_path("m")));
    assert_string_equal(tensors_meta(t, "format"), "pt");
    assert_int_equal(tensors_count(t), 3);
    assert_int_equal(tensors_find(t, "w")->shape[1], 3);
    assert_int_equal(tensors_find(t, "s")->rank, 0);
    CHECK_OK(exchange_read(t, &lay, got, &weight));
    tensors_close(t);
    assert_int_equal(weight, 77);
    assert_memory_equal(got, values, 6 * sizeof *got);
    assert_true(got[6] == 0 && got[7] == 0); /* not trained: not read */
    assert_true(got[8] == values[8]);
}

static void only_what_is_trained(void **state)
{
    (void)state;
    float got[9] = { 0 };
    uint64_t weight = 5;
    CHECK_OK(read_text(got, &weight, GOOD, 7, 99, 0));
    assert_true(got[0] == 1 && got[5] == 6 && got[6] == 0 && got[8] == 7);
    /* a tensor that is not trained may be there, whatever its values */
    CHECK_OK(
        read_text(got, &weight, "{" W("F32", "2,3", 0, 24) "," S "," B("2", 36) "}", 9, 8, NAN));
    assert_true(got[7] == 0);
}

static void refusals_name_the_tensor(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t values, at;
        float poison;
        const char *error;
    } cases[] = {
        { GOOD, 7, 4, NAN, "tensor \"w\": value 4 is not finite" },
        { GOOD, 7, 6, INFINITY, "tensor \"s\": value 0 is not finite" },
        { GOOD, 7, 0, -INFINITY, "tensor \"w\": value 0 is not finite" },
        { "{" W("F32", "2,3", 0, 24) "}", 6, 9, 0, "tensor \"s\" is missing" },
        { "{}", 0, 9, 0, "tensor \"w\" is missing" },
        { "{" W("F32", "3,2", 0, 24) "," S "}", 7, 9, 0,
          "tensor \"w\" has shape [3, 2] instead of [2, 3]" },
        { "{" W("F32", "6", 0, 24) "," S "}", 7, 9, 0,
          "tensor \"w\" has shape [6] instead of [2, 3]" },
        { "{" W("F32", "1,1,1,1,1,1,2,3", 0, 24) "," S "}", 7, 9, 0,
          "tensor \"w\" has shape [1, 1, 1, 1, 1, 1, 2, 3] instead of [2, 3]" },
        { "{" W("F32", "2,3", 0, 24) "," S "," B("1", 32) "}", 8, 9, 0,
          "tensor \"b\" has shape [1] instead of [2]" },
        { "{" W("I32", "2,3", 0, 24) "," S "}", 7, 9, 0,
          "tensor \"w\" has type I32 instead of F32" },
        { "{" W("F64", "3", 0, 24) "," S "}", 7, 9, 0, "tensor \"w\" has type F64 instead of F32" },
        { "{" W("F32", "2,3", 0, 24) "," S ",\"x\":{\"dtype\":\"F32\",\"shape\":[1],"
                                     "\"data_offsets\":[28,32]}}",
          8, 9, 0, "tensor \"x\" is not in the task's model" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float got[9];
        uint64_t weight = 5;
        CHECK_STATUS(
            read_text(got, &weight, cases[i].header, cases[i].values, cases[i].at, cases[i].poison),
            SEFL_EPROTO);
        assert_string_equal(sefl_last_error(), cases[i].error);
        assert_int_equal(weight, 5);
    }
}

static void weights(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t weight; /* 0: refused */
    } cases[] = {
        { "1", 1 },  { "600", 600 }, { "9007199254740992", UINT64_C(1) << 53 },
        { "0", 0 },  { "", 0 },      { "9007199254740993", 0 },
        { "-1", 0 }, { "1.5", 0 },   { "18446744073709551617", 0 },
        { " 7", 0 }, { "7 ", 0 },    { "nan", 0 },
        { "+7", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char header[512];
        float got[9];
        uint64_t weight = 5;
        snprintf(header, sizeof header, "{\"__metadata__\":{\"weight\":\"%s\"},%s", cases[i].text,
                 &GOOD[1]);
        sefl_status st = read_text(got, &weight, header, 7, 99, 0);
        CHECK_STATUS(st, cases[i].weight ? SEFL_OK : SEFL_EPROTO);
        assert_int_equal(weight, cases[i].weight ? cases[i].weight : 5);
        if (st != SEFL_OK)
            assert_non_null(strstr(sefl_last_error(), "\"weight\""));
    }
}

static void allocation_failures(void **state)
{
    (void)state;
    float values[9] = { 0 };
    TEST_FAULTS(FAULT_ALLOC, st = exchange_write(folder_path("f"), &lay, values), (void)0);
    TEST_FAULTS(FAULT_WRITE, st = exchange_write(folder_path("f"), &lay, values), (void)0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),           cmocka_unit_test(only_what_is_trained),
        cmocka_unit_test(refusals_name_the_tensor), cmocka_unit_test(weights),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, make, end);
}
