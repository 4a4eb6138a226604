#include "support/check.h"

#include "net/https_form.h"

#include <string.h>

static const char *field(const char *name, size_t n, const char *value, size_t value_n)
{
    https_form f = { 0 };
    https_form_field(&f, span_of(name, n), span_of(value, value_n));
    return f.why;
}

/* Every character in a name and in a value, at the start, inside and at the end. */
static void every_character(void **state)
{
    (void)state;
    static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "!#$%&'*+-.^_`|~";
    for (int c = 0; c < 256; c++) {
        for (size_t at = 0; at < 3; at++) {
            char word[3] = { 'a', 'b', 'c' };
            word[at] = (char)c;
            bool name = c != 0 && strchr(token, c) != NULL;
            bool value = c == '\t' || (c >= 0x20 && c != 0x7f);
            assert_int_equal(!field(word, 3, "v", 1), name);
            assert_int_equal(!field("n", 1, word, 3), value);
            https_form f = { 0 }, g = { 0 };
            https_form_argument(&f, span_of(word, 3), span_of("v", 1));
            https_form_argument(&g, span_of("n", 1), span_of(word, 3));
            assert_int_equal(!f.why, c >= 0x20 && c != 0x7f);
            assert_int_equal(!g.why, c >= 0x20 && c != 0x7f);
        }
    }
    assert_non_null(field("", 0, "v", 1));
    assert_null(field("n", 1, NULL, 0));
}

static void repeated(void **state)
{
    (void)state;
    static const char *const names[] = { "Host", "hOST", "Content-Length", "content-length" };
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            https_form f = { 0 };
            https_form_field(&f, span_of_str(names[a]), span_of_str("5"));
            https_form_field(&f, span_of_str("Accept"), span_of_str("5"));
            https_form_field(&f, span_of_str("Accept"), span_of_str("5"));
            assert_null(f.why);
            https_form_field(&f, span_of_str(names[b]), span_of_str("5"));
            assert_int_equal(f.why != NULL, a / 2 == b / 2);
        }
}

static void unescaping(void **state)
{
    (void)state;
    static const char *const t[][2] = {
        { "/a%00b", "/a\x01"
                    "b" },
        { "%00%00", "\x01\x01" },
        { "%2500", "%00" },
        { "%0", "%0" },
        { "a%20b%41", "a bA" },
        { "", "" },
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        char text[16];
        strcpy(text, t[i][0]);
        assert_int_equal(https_form_unescape(NULL, NULL, text), strlen(t[i][1]));
        assert_string_equal(text, t[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character),
        cmocka_unit_test(repeated),
        cmocka_unit_test(unescaping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
