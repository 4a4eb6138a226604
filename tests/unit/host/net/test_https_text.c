#include "support/check.h"

#include "net/https_text.h"

#include <string.h>

static void numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = { { "0", 0 },
                 { "7", 7 },
                 { "007", 7 },
                 { "18446744073709551", UINT64_C(18446744073709551) },
                 { "0000000000000000001", 1 },
                 { "9999999999999999999", UINT64_C(9999999999999999999) } };
    static const char *const bad[] = {
        "",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1,1",
        "0x1",
        "1e3",
        "a",
        "00000000000000000001",
        "10000000000000000000",
        "18446744073709551615",
        "18446744073709551616",
    };
    uint64_t v;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(https_number_read(&v, span_of_str(good[i].text)));
        assert_int_equal(v, good[i].value);
    }
    v = 77;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (https_number_read(&v, span_of_str(bad[i])) || v != 77)
            fail_msg("\"%s\" is read as %llu", bad[i], (unsigned long long)v);
    assert_false(https_number_read(&v, span_of("1\0", 2)));
}

static void paths(void **state)
{
    (void)state;
    static const char *const good[] = { "/",     "/a",      "/v1/round/3/update/00ff",
                                        "/a/./", "/.a/b.c", "/~!$&'()*+,;=:@%" };
    static const char *const bad[] = { "",      "a",      "a/b",    "..",       "/..",   "/a/../b",
                                       "/a..b", "//",     "/a//b",  "/a b",     "/a\tb", "/a\nb",
                                       "/a\\b", "/a\x7f", "/a\x80", "/\xc3\xa4" };
    char text[HTTPS_PATH_MAX + 2];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!https_path_check(span_of_str(good[i])))
            fail_msg("%s is refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (https_path_check(span_of_str(bad[i])))
            fail_msg("%s is taken", bad[i]);
    assert_false(https_path_check(span_of("/a\0b", 4)));
    memset(text, 'a', sizeof text);
    text[0] = '/';
    assert_true(https_path_check(span_of(text, HTTPS_PATH_MAX)));
    assert_false(https_path_check(span_of(text, HTTPS_PATH_MAX + 1)));
}

/* Every single character after a slash: the printable characters of the C locale, except two. */
static void every_character(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        const char path[] = { '/', (char)c };
        bool want = c > ' ' && c < 0x7f && c != '\\' && c != '/';
        assert_int_equal(https_path_check(span_of(path, 2)), want);
    }
}

static void the_open_path(void **state)
{
    (void)state;
    const char *open = "/v1/enroll";
    assert_true(https_is_open("POST", "/v1/enroll", open));
    assert_false(https_is_open("GET", "/v1/enroll", open));
    assert_false(https_is_open("post", "/v1/enroll", open));
    assert_false(https_is_open("POSTS", "/v1/enroll", open));
    assert_false(https_is_open("POST", "/v1/enroll/", open));
    assert_false(https_is_open("POST", "/v1/Enroll", open));
    assert_false(https_is_open("POST", "/v1/enrol", open));
    assert_false(https_is_open("POST", "/v1/enroll", NULL));
}

/* The first error is reported: each header here also has the errors of those after it. */
static void the_order_of_a_head(void **state)
{
    (void)state;
    const sefl_span good = span_of_str("/a"), bad = span_of_str("a"), none = { 0 },
                    coding = span_of_str("chunked"), text = span_of_str("-1"),
                    large = span_of_str("11"), fits = span_of_str("10");
    const struct {
        https_said h;
        unsigned status;
        https_event event;
        const char *why;
    } t[] = {
        { { HTTPS_HEAD_MAX + 1, bad, coding, text }, 431, HTTPS_EVENT_HEADERS, "32768 bytes" },
        { { SIZE_MAX, good, none, none }, 431, HTTPS_EVENT_HEADERS, "32768 bytes" },
        { { HTTPS_HEAD_MAX, bad, coding, text, "odd" }, 400, HTTPS_EVENT_PATH, "bad path" },
        { { 100, good, coding, text, "odd" }, 400, HTTPS_EVENT_FORM, "odd" },
        { { 100, good, coding, text }, 411, HTTPS_EVENT_LENGTH, "needs Content-Length" },
        { { 100, good, coding, fits }, 411, HTTPS_EVENT_LENGTH, "needs Content-Length" },
        { { 100, good, none, text }, 400, HTTPS_EVENT_LENGTH, "bad Content-Length" },
        { { 100, good, none, span_of_str("") }, 400, HTTPS_EVENT_LENGTH, "bad Content-Length" },
        { { 100, good, none, large }, 413, HTTPS_EVENT_TOO_LARGE, "11 bytes, at most 10" },
    };
    https_refusal no;
    uint64_t n = 77;
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        assert_false(https_said_check(&no, &n, &t[i].h, 10));
        assert_int_equal(no.status, t[i].status);
        assert_int_equal(no.event, t[i].event);
        if (!strstr(no.why, t[i].why))
            fail_msg("\"%s\" does not say \"%s\"", no.why, t[i].why);
        assert_int_equal(n, 77);
    }
    assert_true(
        https_said_check(&no, &n, &(https_said){ .bytes = 100, .path = good, .length = fits }, 10));
    assert_int_equal(n, 10);
    assert_true(https_said_check(&no, &n, &(https_said){ .bytes = 100, .path = good }, 0));
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(paths),
        cmocka_unit_test(every_character),
        cmocka_unit_test(the_open_path),
        cmocka_unit_test(the_order_of_a_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
