#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "model/file/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A file from its header's text and data. */
static void make(sefl_buf *b, const char *header, const void *data, size_t n)
{
    buf_reset(b);
    CHECK_OK(wr_u64(b, strlen(header)));
    CHECK_OK(wr_raw(b, header, strlen(header)));
    CHECK_OK(wr_raw(b, data, n));
}

static const char two[] =
    "{\"__metadata__\":{\"kind\":\"lstm\",\"l\":\"32\"},\"b\":{\"dtype\":\"F32\",\"shape\":[2],"
    "\"data_offsets\":[4,12]},\"a\":{\"data_offsets\":[0,4],\"shape\":[1,1],\"dtype\":\"F32\"}}  ";

static void reading(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    tensors *t = NULL;
    const uint8_t data[12] = { 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0x40, 0x40 }; /* 1 -2 3 */
    float v[2];
    make(&b, two, data, sizeof data);
    CHECK_OK(tensors_over(&t, buf_span(&b), "m"));
    assert_int_equal(tensors_count(t), 2);
    assert_string_equal(tensors_at(t, 0)->name, "a"); /* in the order of the data */
    assert_string_equal(tensors_at(t, 1)->name, "b");
    assert_null(tensors_at(t, 2));
    assert_null(tensors_find(t, "c"));
    assert_int_equal(tensors_find(t, "a")->rank, 2);
    assert_string_equal(tensors_meta(t, "l"), "32");
    assert_null(tensors_meta(t, "none"));
    const char *key, *value;
    assert_true(tensors_meta_at(t, 0, &key, &value));
    assert_string_equal(key, "kind");
    assert_string_equal(value, "lstm");
    assert_false(tensors_meta_at(t, 2, &key, &value));
    CHECK_OK(tensors_read_f32(t, tensors_find(t, "b"), v, 2));
    assert_true(v[0] == -2 && v[1] == 3);
    CHECK_STATUS(tensors_read_f32(t, tensors_find(t, "b"), v, 1), SEFL_EPROTO);
    assert_string_equal(sefl_last_error(), "m: array \"b\" has 2 values instead of 1");
    tensors_close(t);
    buf_clear(&b);
}

#define ENTRY(type, shape, from, to) \
    "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

static void bad_headers(void **state)
{
    (void)state;
    static const uint8_t data[16];
    static const struct {
        const char *header;
        size_t data;
        const char *why;
    } bad[] = {
        { "", 0, "does not begin with '{'" },
        { " {}", 0, "does not begin with '{'" },
        { "[]", 0, "does not begin with '{'" },
        { "{", 0, "ends too early" },
        { "{} x", 0, "unexpected data after" },
        { "{\"a\":1}", 0, "expected an object" },
        { "{}", 4, "4 stray bytes" },
        { "{\"\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "a name of 0 bytes" },
        { "{\"a\":" ENTRY("F32", "[1]", 0, 4) "}", 3, "arrays have 4 bytes, the file holds 3" },
        { "{\"a\":" ENTRY("F32", "[1]", 0, 4) "}", 5, "1 stray bytes" },
        { "{\"a\":" ENTRY("F32", "[2]", 0, 4) "}", 4, "span 4 bytes, the shape needs 2 x 4" },
        { "{\"a\":" ENTRY("F32", "[0]", 4, 0) "}", 4, "run backwards" },
        { "{\"a\":" ENTRY("F33", "[1]", 0, 4) "}", 4, "unknown dtype \"F33\"" },
        { "{\"a\":" ENTRY("F32", "[1]", 4, 8) "}", 8, "4 unused bytes before array \"a\"" },
        { "{\"a\":" ENTRY("F32", "[2]", 0, 8) ",\"b\":" ENTRY("F32", "[2]", 4, 12) "}", 12,
          "array \"b\" overlaps" },
        { "{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"b\":" ENTRY("F32", "[1]", 0, 4) "}", 4,
          "overlaps" },
        { "{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"b\":" ENTRY("F32", "[1]", 8, 12) "}", 12,
          "4 unused bytes" },
        { "{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"a\":" ENTRY("F32", "[1]", 4, 8) "}", 8,
          "two arrays are named \"a\"" },
        { "{\"a\":" ENTRY("F32", "[4294967296,4294967296]", 0, 0) "}", 0, "too large" },
        { "{\"a\":" ENTRY("F32", "[4611686018427387904]", 0, 0) "}", 0, "span 0 bytes" },
        { "{\"a\":" ENTRY("F32", "[18446744073709551616]", 0, 0) "}", 0, "below 2^64" },
        { "{\"a\":" ENTRY("F32", "[1.0]", 0, 4) "}", 4, "a whole number" },
        { "{\"a\":" ENTRY("F32", "[-1]", 0, 4) "}", 4, "a whole number" },
        { "{\"a\":" ENTRY("F32", "[1e0]", 0, 4) "}", 4, "a whole number" },
        { "{\"a\":" ENTRY("F32", "[\"1\"]", 0, 4) "}", 4, "expected a number" },
        { "{\"a\":" ENTRY("F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, "more than 8 dimensions" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets is missing" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "a member occurs twice" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"more\":1,\"data_offsets\":[0,4]}}", 4,
          "unknown member" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "two numbers" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "two numbers" },
        { "{\"__metadata__\":{\"a\":1}}", 0, "expected a string" },
        { "{\"__metadata__\":[]}", 0, "expected an object" },
        { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "occurs twice" },
        { "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "two metadata entries are named" },
        { "{\"a\\u0000\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "NUL in a string" },
    };
    sefl_buf b = { 0 };
    tensors *t = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        make(&b, bad[i].header, data, bad[i].data);
        sefl_status st = tensors_over(&t, buf_span(&b), "m");
        if (st != SEFL_EPROTO || !strstr(sefl_last_error(), bad[i].why) ||
            strncmp(sefl_last_error(), "m: ", 3) != 0)
            fail_msg("%s: \"%s\", wanted \"%s\"", bad[i].header,
                     st ? sefl_last_error() : "accepted", bad[i].why);
        assert_null(t);
    }
    /* wrong lengths */
    make(&b, "{}", data, 0);
    store_u64(b.p, UINT64_MAX);
    CHECK_STATUS(tensors_over(&t, buf_span(&b), "m"), SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), "m: not a safetensors file"));
    store_u64(b.p, 3);
    CHECK_STATUS(tensors_over(&t, buf_span(&b), "m"), SEFL_EPROTO);
    CHECK_STATUS(tensors_over(&t, span_of(b.p, 7), "m"), SEFL_EPROTO);
    /* a long name */
    buf_reset(&b);
    char *name = malloc(TENSOR_NAME_MAX + 200);
    assert_non_null(name);
    memset(name, 'x', TENSOR_NAME_MAX + 3);
    memcpy(name, "{\"", 2);
    strcpy(name + TENSOR_NAME_MAX + 3, "\":" ENTRY("F32", "[0]", 0, 0) "}");
    make(&b, name, data, 0);
    CHECK_STATUS(tensors_over(&t, buf_span(&b), "m"), SEFL_EPROTO);
    free(name);
    buf_clear(&b);
}

/* Every shorter file is refused; so is every longer one. */
static void truncated(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    tensors *t = NULL;
    const uint8_t data[12] = { 0 };
    make(&b, two, data, sizeof data);
    for (size_t n = 0; n < b.n; n++) {
        uint8_t *exact = malloc(n + 1);
        assert_non_null(exact);
        memcpy(exact, b.p, n);
        CHECK_STATUS(tensors_over(&t, span_of(exact, n), "m"), SEFL_EPROTO);
        folder_put("cut", exact, n);
        CHECK_STATUS(tensors_open(&t, folder_path("cut")), SEFL_EPROTO);
        free(exact);
    }
    CHECK_OK(tensors_over(&t, buf_span(&b), "m"));
    tensors_close(t);
    t = NULL;
    CHECK_OK(wr_u8(&b, 0));
    CHECK_STATUS(tensors_over(&t, buf_span(&b), "m"), SEFL_EPROTO);
    buf_clear(&b);
    CHECK_STATUS(tensors_open(&t, folder_path("none")), SEFL_ENOTFOUND);
    CHECK_STATUS(tensors_open(&t, folder_path("")), SEFL_EINVAL);
}

static void other_types(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    tensors *t = NULL;
    float v[2];
    double d[2] = { 0.1, -1e300 };
    make(&b, "{\"d\":" ENTRY("F64", "[2]", 0, 16) "}", d, 16);
    CHECK_OK(tensors_over(&t, buf_span(&b), "m"));
    CHECK_OK(tensors_read_f32(t, tensors_find(t, "d"), v, 2));
    assert_true(v[0] == 0.1f && isinf(v[1]) && v[1] < 0);
    tensors_close(t);
    make(&b,
         "{\"h\":" ENTRY("F16", "[1]", 0, 2) ",\"g\":" ENTRY("BF16", "[1]", 2, 4) ",\"i\":" ENTRY(
             "I64", "[]", 4, 12) "}",
         "\x00\xc2\xc0\x3f\0\0\0\0\0\0\0\0", 12);
    CHECK_OK(tensors_over(&t, buf_span(&b), "m"));
    CHECK_OK(tensors_read_f32(t, tensors_find(t, "h"), v, 1));
    CHECK_OK(tensors_read_f32(t, tensors_find(t, "g"), v + 1, 1));
    assert_true(v[0] == -3 && v[1] == 1.5);
    CHECK_STATUS(tensors_read_f32(t, tensors_find(t, "i"), v, 1), SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), "has type I64"));
    tensors_close(t);
    buf_clear(&b);
    for (uint32_t h = 0; h < 65536; h++) { /* all halves against their definition */
        int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
        double want = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
        float got = tensor_from_f16((uint16_t)h), bf = tensor_from_bf16((uint16_t)h);
        if (e == 31)
            assert_true(m ? isnan(got) : isinf(got) && (got < 0) == (h >> 15));
        else
            assert_true((double)got == (h >> 15 ? -want : want) && !signbit(got) == !(h >> 15));
        uint32_t bits;
        memcpy(&bits, &bf, 4);
        assert_int_equal(bits, h << 16);
    }
}

/* The bytes of the format, by hand: header of 8k bytes, then the data. */
static void known_answer(void **state)
{
    (void)state;
    const float w[3] = { 1, -2, 0.5f };
    sefl_buf b = { 0 };
    const char *want = "{\"__metadata__\":{\"l\":\"8\"},\"w\":{\"dtype\":\"F32\",\"shape\":[3,1],"
                       "\"data_offsets\":[0,12]}}";
    CHECK_OK(tensors_write(folder_path("k"), &(tensor_out){ "w", 2, { 3, 1 }, w }, 1,
                           &(tensor_meta){ "l", "8" }, 1));
    CHECK_OK(file_read(&b, folder_path("k"), 1000));
    size_t n = (strlen(want) + 7) / 8 * 8;
    assert_int_equal(b.n, 8 + n + 12);
    assert_int_equal(load_u64(b.p), n);
    assert_memory_equal(b.p + 8, want, strlen(want));
    for (size_t i = 8 + strlen(want); i < 8 + n; i++)
        assert_int_equal(b.p[i], ' ');
    assert_memory_equal(b.p + 8 + n, "\0\0\x80\x3f\0\0\0\xc0\0\0\0\x3f", 12);
    buf_clear(&b);
}

static void refused_writes(void **state)
{
    (void)state;
    const float w[1] = { 0 };
    tensor_out twice[2] = { { "a", 1, { 1 }, w }, { "a", 1, { 1 }, w } };
    tensor_meta metas[2] = { { "k", "1" }, { "k", "2" } };
    tensor_out none = { "", 0, { 0 }, w }, meta = { "__metadata__", 0, { 0 }, w },
               huge = { "h", 2, { 1ull << 63, 4 }, w };
    CHECK_STATUS(tensors_write(folder_path("r"), twice, 2, NULL, 0), SEFL_EINVAL);
    CHECK_STATUS(tensors_write(folder_path("r"), twice, 1, metas, 2), SEFL_EINVAL);
    CHECK_STATUS(tensors_write(folder_path("r"), &none, 1, NULL, 0), SEFL_EINVAL);
    CHECK_STATUS(tensors_write(folder_path("r"), &meta, 1, NULL, 0), SEFL_EINVAL);
    CHECK_STATUS(tensors_write(folder_path("r"), &huge, 1, NULL, 0), SEFL_EINVAL);
    CHECK_STATUS(tensors_write(folder_path("no/r"), twice, 1, NULL, 0), SEFL_ENOTFOUND);
    assert_false(file_exists(folder_path("r")));
}

static sefl_status read_back(const char *path)
{
    sefl_status st = SEFL_OK;
    tensors *t = NULL;
    float v[3];
    SEFL_TRY(tensors_open(&t, path));
    SEFL_TRY(tensors_read_f32(t, tensors_find(t, "w"), v, 3));
done:
    tensors_close(t);
    return st;
}

static void faults(void **state)
{
    (void)state;
    const float w[3] = { 1, 2, 3 };
    tensor_out a = { "w", 1, { 3 }, w };
    tensor_meta m = { "k", "v" };
    const char *path = folder_path("faults");
    CHECK_OK(tensors_write(path, &a, 1, &m, 1));
    size_t before = folder_count();
    TEST_FAULTS(FAULT_ALLOC, st = tensors_write(path, &a, 1, &m, 1), (void)0);
    TEST_FAULTS(FAULT_WRITE, st = tensors_write(path, &a, 1, &m, 1), (void)0);
    TEST_FAULTS(FAULT_SYNC, st = tensors_write(path, &a, 1, &m, 1), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = read_back(path), (void)0);
    TEST_FAULTS(FAULT_READ, st = read_back(path), (void)0);
    CHECK_OK(read_back(path));
    assert_int_equal(folder_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading),      cmocka_unit_test(bad_headers),
        cmocka_unit_test(truncated),    cmocka_unit_test(other_types),
        cmocka_unit_test(known_answer), cmocka_unit_test(refused_writes),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
