#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "roles/own_cert.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { DAY = 86400 };
static const int64_t NOW = 1800000000;

static unsigned count(const char *path, const char *what)
{
    sefl_buf b = { 0 };
    unsigned n = 0;
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    for (const char *at = (const char *)b.p; (at = strstr(at, what)); at++)
        n++;
    buf_clear(&b);
    return n;
}

static void said_in_time_and_once_a_day(void **state)
{
    (void)state;
    const char *path = folder_path("log");
    int fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    assert_true(fd >= 0);
    sefl_log log = { .level = LOG_DEBUG, .fd = fd, .json = true };
    own_cert o = { 0 };
    const int64_t ends = NOW + 20 * DAY;
    assert_false(own_cert_look(&o, ends, NOW, &log));
    assert_false(own_cert_look(&o, ends, ends - 14 * DAY, &log));
    assert_true(own_cert_look(&o, ends, ends - 14 * DAY + 1, &log));
    assert_false(own_cert_look(&o, ends, ends - 14 * DAY + 2, &log));
    assert_false(own_cert_look(&o, ends, ends - 13 * DAY, &log));
    assert_true(own_cert_look(&o, ends, ends - 13 * DAY + 1, &log));
    assert_int_equal(count(path, "expires soon"), 2);
    assert_int_equal(count(path, "\"days\":13"), 1);
    assert_int_equal(count(path, "\"days\":12"), 1);
    /* renewed for a few days only: warns at once */
    assert_true(own_cert_look(&o, ends + DAY, ends - 13 * DAY + 2, &log));
    /* renewed for long */
    assert_false(own_cert_look(&o, ends + 300 * DAY, ends - 12 * DAY, &log));
    /* over */
    assert_int_equal(count(path, "has expired"), 0);
    assert_true(own_cert_look(&o, ends, ends, &log));
    assert_false(own_cert_look(&o, ends, ends + DAY - 1, &log));
    assert_true(own_cert_look(&o, ends, ends + DAY, &log));
    assert_int_equal(count(path, "has expired"), 2);
    /* a clock that was set back does not suppress the warning */
    assert_true(own_cert_look(&o, ends, ends - DAY, &log));
    close(fd);
}

static void a_wrong_clock_in_words(void **state)
{
    (void)state;
    char text[CLOCK_APART_TEXT];
    assert_false(clock_apart_text(text, 0));
    assert_false(clock_apart_text(text, CLOCK_APART_S));
    assert_false(clock_apart_text(text, -CLOCK_APART_S));
    assert_true(clock_apart_text(text, CLOCK_APART_S + 1));
    assert_non_null(strstr(text, "61 seconds ahead of the server's"));
    assert_true(clock_apart_text(text, -2 * 3600));
    assert_non_null(strstr(text, "2 hours behind the server's"));
    assert_true(clock_apart_text(text, 3 * 365 * 86400));
    assert_non_null(strstr(text, "1095 days ahead of"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_wrong_clock_in_words),
                                        cmocka_unit_test(said_in_time_and_once_a_day) };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
