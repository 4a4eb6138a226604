#include "paper/svg.h"
#include "support/check.h"

#include <math.h>
#include <string.h>

/* Labels that are text, whatever they hold, and bars that show a spread. */
static void test_labels(void **state)
{
    (void)state;
    static const double y[] = { 100, 120 }, low[] = { 90, NAN }, high[] = { 115, NAN };
    static const char *const text[] = { "0 <%>", "25 %" };
    svg_chart c = { .title = "t",
                    .unit = "",
                    .n = 2,
                    .x_text = text,
                    .x_name = "dropout",
                    .series = { { .name = "a", .y = y, .low = low, .high = high } },
                    .count = 1 };
    sefl_buf b = { 0 };
    CHECK_OK(svg_write(&b, &c));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, ">0 &lt;%&gt;</text>"));
    assert_non_null(strstr((char *)b.p, ">dropout</text>"));
    assert_non_null(strstr((char *)b.p, "<title>dropout 25 %, a: 120</title>"));
    const char *bar = strstr((char *)b.p, "<line class=\"line s0\"");
    assert_non_null(bar);
    assert_null(strstr(bar + 1, "<line class=\"line s0\"")); /* none where it is unknown */
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_labels) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
