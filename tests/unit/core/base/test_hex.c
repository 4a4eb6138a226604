/* hex: digits written, read, and refused. */
#include "support/check.h"

#include "base/hex.h"

#include <string.h>

static const uint8_t bytes[4] = { 0x00, 0x9a, 0xf0, 0xff };

static void test_write(void **state)
{
    (void)state;
    char text[HEX_CHARS(sizeof bytes)];
    sefl_buf b = { 0 };
    assert_string_equal(hex_write(text, bytes, sizeof bytes), "009af0ff");
    assert_string_equal(hex_write(text, bytes, 0), "");
    CHECK_OK(wr_hex(&b, bytes, sizeof bytes));
    assert_int_equal(b.n, 8);
    assert_memory_equal(b.p, "009af0ff", 8);
    buf_clear(&b);
}

static void test_read(void **state)
{
    (void)state;
    static const uint8_t zero[4];
    static const char *const bad[] = { "",         "009af0f",   "009af0ff0",
                                       "009af0fg", "009af0f\n", "+09af0ff" };
    uint8_t got[4];
    assert_true(hex_read(got, sizeof got, "009af0ff"));
    assert_memory_equal(got, bytes, sizeof got);
    assert_true(hex_read_any(got, sizeof got, span_of_str("009AF0fF")));
    assert_memory_equal(got, bytes, sizeof got);
    assert_false(hex_read(got, sizeof got, "009AF0FF"));
    assert_memory_equal(got, zero, sizeof got);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memset(got, 1, sizeof got);
        assert_false(hex_read(got, sizeof got, bad[i]));
        assert_memory_equal(got, zero, sizeof got);
        memset(got, 1, sizeof got);
        assert_false(hex_read_any(got, sizeof got, span_of_str(bad[i])));
        assert_memory_equal(got, zero, sizeof got);
    }
    assert_false(hex_read_any(got, 2,
                              span_of("0\0"
                                      "00",
                                      4)));
}

static void test_digits(void **state)
{
    (void)state;
    static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    for (int c = -128; c < 128; c++) {
        const char *l = c ? strchr(lower, c) : NULL, *u = c ? strchr(upper, c) : NULL;
        int want = l ? (int)(l - lower) : u ? (int)(u - upper) : -1;
        assert_int_equal(hex_digit((char)c), want);
    }
    assert_int_equal(hex_length("00ffA"), 4);
    assert_int_equal(hex_length(""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
