/* Records take turns, and none counts twice in a round. */
#include "support/check.h"

#include "roles/client/record_turns.h"

static void turns(void **state)
{
    (void)state;
    const task t = { .records_max = 4 };
    unsigned used[6] = { 0 };
    for (uint64_t round = 1; round <= 3; round++) {
        const record_turns d = record_turns_of(&t, round, 6);
        assert_int_equal(d.count, 4);
        for (size_t i = 0; i < d.count; i++) {
            assert_int_equal(record_turns_at(&d, i), ((round - 1) * 4 + i) % 6);
            used[record_turns_at(&d, i)]++;
        }
    }
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(used[i], 2);
    assert_true(record_turns_of(&t, UINT64_MAX, 6).from < 6);
    /* a small text is used whole */
    const record_turns whole = record_turns_of(&t, 5, 3);
    assert_true(whole.count == 3 && whole.from == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(turns) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
