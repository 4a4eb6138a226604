/* The table of combinations: refusals, the sections that cover a set, the page. test_task.c tries
 * the pairs on tasks. */
#include "privacy/combinations.h"
#include "support/check.h"

#include <string.h>

static void pairs(void **state)
{
    (void)state;
    assert_null(combination_refused(0));
    assert_null(combination_refused(FEATURE(JOINT) | FEATURE(CLAIM) | FEATURE(RECORD)));
    const uint32_t wrong[] = {
        FEATURE(EXACT) | FEATURE(CLAIM),    FEATURE(FILTER) | FEATURE(OPEN),
        FEATURE(TRAINER) | FEATURE(RECORD), FEATURE(RANKS) | FEATURE(QUANTILE),
        FEATURE(TURNS) | FEATURE(MOST),     FEATURE(CARRIES) | FEATURE(AMPLIFIED),
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_non_null(combination_refused(wrong[i]));
        CHECK_STATUS(combination_check(wrong[i] | FEATURE(PAILLIER)), SEFL_EINVAL);
        for (unsigned f = 0; f < FEATURE_COUNT; f++) /* one of the two is no reason */
            if (wrong[i] >> f & 1)
                CHECK_OK(combination_check(UINT32_C(1) << f));
    }
    CHECK_STATUS(combination_check(FEATURE(GPU) | FEATURE(TRAINER)), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "set device: cpu"));
}

static void says(uint32_t set, const char *sections)
{
    sefl_buf b = { 0 };
    CHECK_OK(combination_sections(&b, set));
    assert_int_equal(b.n, strlen(sections));
    assert_memory_equal(b.p, sections, b.n);
    buf_clear(&b);
}

static void sections(void **state)
{
    (void)state;
    says(FEATURE(JOINT), "1");
    says(FEATURE(JOINT) | FEATURE(CLAIM), "1 and 4");
    says(FEATURE(OWN) | FEATURE(CLAIM) | FEATURE(FILTER) | FEATURE(SEPARATION), "1, 2, 5 and 11");
    says(FEATURE(JOINT) | FEATURE(CLAIM) | FEATURE(QUANTILE) | FEATURE(AMPLIFIED) | FEATURE(OPEN),
         "1, 2, 4 and 12");
}

/* A row per feature, a line per reason, and every reason is used. */
static void page(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    size_t lines = 0;
    char mark[16];
    CHECK_OK(combination_table(&b));
    CHECK_OK(wr_u8(&b, 0));
    const char *text = (const char *)b.p, *reasons = strstr(text, "| | why not |");
    assert_non_null(reasons);
    for (const char *p = text; p < reasons; p++)
        lines += *p == '\n';
    assert_int_equal(lines, FEATURE_COUNT + 3); /* head, rule, rows, blank */
    unsigned n = 0;
    for (const char *p = strstr(reasons, "\n| **"); p; p = strstr(p + 1, "\n| **"), n++) {
        snprintf(mark, sizeof mark, " **%c** |", 'a' + (int)n);
        const char *cell = strstr(text, mark);
        assert_true(cell && cell < reasons);
    }
    assert_true(n > 20 && n <= 26);
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs),
        cmocka_unit_test(sections),
        cmocka_unit_test(page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
