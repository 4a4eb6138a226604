/* Lines of a log, read back; hostile text in them cannot reach a terminal. */
#include "support/check.h"

#include "base/log_line.h"

#include <stdio.h>
#include <string.h>

static const char *written;

static void keep(void *ctx, log_level level, const char *line)
{
    (void)level;
    snprintf(ctx, 1024, "%s", line);
    written = ctx;
}

static void test_a_line(void **state)
{
    (void)state;
    char text[1024];
    sefl_clock wall = clock_wall();
    sefl_log lg = { .json = true, .clock = &wall, .write = keep, .ctx = text };
    uint8_t key[32] = { 0xab, 0xcd, 0xef };
    log_line l = { 0 };
    log_warn(&lg, "peer \033[31mrefused", lf_u64("round", 12), lf_str("name", "site\033]0;x\a"),
             lf_key("key", key), lf_real("loss", 1.5));
    CHECK_OK(log_line_read(&l, span_of_str(written)));
    assert_true(l.level == LOG_WARN && l.has_round && l.round == 12);
    assert_true(l.time_ms > UINT64_C(1700000000000) && l.time_ms <= clock_ms(&wall));
    for (size_t i = 0; i < l.text.n; i++)
        assert_in_range(l.text.p[i], 0x20, 0x7e);
    CHECK_OK(wr_u8(&l.text, 0));
    assert_non_null(strstr((char *)l.text.p, "peer \\x1b[31mrefused  round=12  name=site\\x1b]0;"));
    assert_non_null(strstr((char *)l.text.p, "loss=1.5"));
    assert_true(log_line_names(&l, "abcdef00"));
    assert_true(log_line_names(&l, "site\\x1b]0;x\\x07"));
    assert_false(log_line_names(&l, "abc")); /* too short */
    assert_false(log_line_names(&l, "site"));
    assert_false(log_line_names(&l, "bcdef"));
    CHECK_OK(log_line_read(&l, span_of_str("{\"level\":\"info\",\"event\":\"x\",\"round\":-3}")));
    assert_true(!l.has_round && l.time_ms == 0);
    static const char *const bad[] = { "",
                                       "sefl csp: cannot open x",
                                       "{}",
                                       "[1]",
                                       "{\"level\":\"info\"}",
                                       "{\"level\":\"loud\",\"event\":1}",
                                       "{\"level\":\"info\",\"event\":\"x\"" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STATUS(log_line_read(&l, span_of_str(bad[i])), SEFL_EPROTO);
    log_line_clear(&l);
}

static void test_times(void **state)
{
    (void)state;
    uint64_t ms;
    assert_true(log_time_read(&ms, span_of_str("2026-01-01T12:01:07.123Z")));
    assert_true(ms == UINT64_C(1767268867123));
    assert_true(log_time_read(&ms, span_of_str("1970-01-01T00:00:01Z")) && ms == 1000);
    static const char *const bad[] = { "",
                                       "2026-01-01",
                                       "2026-01-01T12:01:07.123",
                                       "2026-01-01T12:01:07,123Z",
                                       "2026-01-01 12:01:07.123Z",
                                       "2o26-01-01T12:01:07.123Z",
                                       "1900-01-01T12:01:07.123Z" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(log_time_read(&ms, span_of_str(bad[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_a_line),
                                        cmocka_unit_test(test_times) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
