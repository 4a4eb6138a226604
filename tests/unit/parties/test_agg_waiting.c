#include "support/check.h"

#include "roles/waiting.h"

static void quick_rounds_add_no_lines(void **state)
{
    (void)state;
    waiting w = { 0 };
    for (uint64_t round = 1; round <= 5; round++)
        for (uint64_t s = 0; s < 9; s++)
            assert_false(waiting_due(
                &w, &(waiting_view){ .round = round, .arrived = (uint32_t)s, .linked = true },
                1000 * (20 * round + s)));
}

static void said_when_it_changes_and_not_too_often(void **state)
{
    (void)state;
    waiting w = { 0 };
    waiting_view v = { .round = 1, .linked = true };
    assert_false(waiting_due(&w, &v, 50000));
    assert_false(waiting_due(&w, &v, 59999));
    assert_true(waiting_due(&w, &v, 60000)); /* even if nobody came */
    assert_false(waiting_due(&w, &v, 90000));
    v.arrived = 2;
    assert_true(waiting_due(&w, &v, 90001));
    v.arrived = 3;
    assert_false(waiting_due(&w, &v, 95000));
    assert_true(waiting_due(&w, &v, 100001));
    v.linked = false;
    assert_true(waiting_due(&w, &v, 110001));
    v.round = 2;
    assert_false(waiting_due(&w, &v, 110002));
    assert_true(waiting_due(&w, &v, 120002));
}

static void a_line_has_what_arrived_is_needed_and_left(void **state)
{
    (void)state;
    char line[WAITING_LINE];
    waiting_line(line, &(waiting_view){ .round = 3,
                                        .rounds = 40,
                                        .arrived = 1,
                                        .needed = 3,
                                        .left_ms = 41001,
                                        .linked = true });
    assert_string_equal(line, "round 3/40  1 update, 3 needed; 42 s left");
    waiting_line(
        line,
        &(waiting_view){
            .round = 3, .rounds = 40, .arrived = 5, .needed = 3, .enough = 8, .extensions = 2 });
    assert_string_equal(line, "round 3/40  5 updates, 3 needed, closes at 8; 0 s left (extended 2 "
                              "times); no link to CSP");
    waiting_line(line, &(waiting_view){ .round = UINT64_MAX,
                                        .rounds = UINT64_MAX,
                                        .arrived = UINT32_MAX,
                                        .needed = UINT32_MAX,
                                        .enough = UINT32_MAX,
                                        .extensions = UINT32_MAX,
                                        .left_ms = UINT64_MAX });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_rounds_add_no_lines),
        cmocka_unit_test(said_when_it_changes_and_not_too_often),
        cmocka_unit_test(a_line_has_what_arrived_is_needed_and_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
