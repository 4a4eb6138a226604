#include "support/check.h"

#include "base/json.h"
#include "base/log.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static const char *text_of(sefl_buf *b)
{
    CHECK_OK(wr_u8(b, 0));
    return (const char *)b->p;
}

static void json_nesting_and_escapes(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    json_key(&j, "a\"b"), json_str(&j, "line\n\\ tab\t\x7f \xc3\xa9 \xff \xc0\x80 \xed\xa0\x80");
    json_key(&j, "list"), json_open(&j, '[');
    json_u64(&j, UINT64_MAX), json_i64(&j, INT64_MIN), json_bool(&j, true), json_real(&j, NAN);
    json_open(&j, '['), json_close(&j, ']');
    json_open(&j, '{'), json_close(&j, '}');
    json_close(&j, ']');
    json_key(&j, "x"), json_real(&j, 0.1);
    json_key(&j, "nan"), json_real(&j, NAN);
    json_key(&j, "big"), json_real(&j, 1e300);
    json_close(&j, '}');
    CHECK_OK(json_end(&j));
    assert_string_equal(text_of(&b),
                        "{\"a\\\"b\":\"line\\u000a\\\\ tab\\u0009\\u007f \xc3\xa9 \xef\xbf\xbd "
                        "\xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\","
                        "\"list\":[18446744073709551615,-9223372036854775808,true,null,[],{}],"
                        "\"x\":0.1,\"nan\":null,\"big\":1e+300}");
    buf_clear(&b);
}

static void json_reports_the_first_failure(void **state)
{
    (void)state;
    sefl_buf b = { .max = 10 };
    json j = json_into(&b);
    json_open(&j, '[');
    json_str(&j, "longer than ten bytes");
    json_close(&j, ']');
    CHECK_STATUS(json_end(&j), SEFL_ERANGE);
    buf_clear(&b);
}

static uint64_t fixed_time(void *self)
{
    (void)self;
    return 1767268867123000000u; /* 2026-01-01T12:01:07.123Z */
}

static void read_back(int fd, char *out, size_t n)
{
    ssize_t got = read(fd, out, n - 1);
    assert_true(got >= 0);
    out[got] = 0;
}

static void log_forms(void **state)
{
    (void)state;
    int fd[2];
    char line[1024];
    const sefl_clock clock = { fixed_time, NULL };
    const uint8_t digest[32] = { 0xde, 0xad, 1, 2, 3, 4, 5, 6, 7 };
    assert_int_equal(pipe(fd), 0);
    sefl_log lg = log_open(fd[1], LOG_INFO, &clock);
    assert_true(lg.json); /* a pipe is not a terminal */
    log_debug(&lg, "not shown");
    log_info(&lg, "round closed", lf_u64("round", 12), lf_real("loss", 4.5), lf_i64("d", -1),
             lf_bool("ok", true), lf_hash("model", digest), lf_str("who", "a\nb"));
    read_back(fd[0], line, sizeof line);
    assert_string_equal(line, "{\"time\":\"2026-01-01T12:01:07.123Z\",\"level\":\"info\",\"event\":"
                              "\"round closed\",\"round\":12,\"loss\":4.5,\"d\":-1,\"ok\":true,"
                              "\"model\":\"dead010203040506\",\"who\":\"a\\u000ab\"}\n");
    log_info(&lg, "who", lf_key("key", digest), lf_key("nobody", (const uint8_t[32]){ 0 }));
    read_back(fd[0], line, sizeof line);
    assert_non_null(strstr(line, "\"key\":\"dead01020304050607000000000000000000000000000000"
                                 "0000000000000000\",\"nobody\":\"\"}\n"));
    lg.json = false;
    log_warn(&lg, "slow", lf_str("who", "x\n12:00:00 error forged"), lf_u64("n", 3));
    log_error(&lg, "bare");
    read_back(fd[0], line, sizeof line);
    assert_string_equal(line, "12:01:07 warn  slow  who=x\\x0a12:00:00 error forged n=3\n"
                              "12:01:07 error bare\n");
    lg.level = LOG_OFF;
    log_error(&lg, "never");
    log_error(NULL, "never");
    close(fd[0]);
    close(fd[1]);
}

static void log_counts_what_it_lost(void **state)
{
    (void)state;
    int fd = open("/dev/full", O_WRONLY);
    assert_true(fd >= 0);
    sefl_log lg = { .fd = fd, .json = true };
    log_info(&lg, "x");
    log_info(&lg, "y");
    assert_int_equal(lg.lost, 2);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_nesting_and_escapes),
        cmocka_unit_test(json_reports_the_first_failure),
        cmocka_unit_test(log_forms),
        cmocka_unit_test(log_counts_what_it_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
