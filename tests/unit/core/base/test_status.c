#include "support/check.h"

#include <pthread.h>
#include <string.h>

static void names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(sefl_status_name(SEFL_OK), "SEFL_OK");
    assert_string_equal(sefl_status_name(SEFL_EBUDGET), "SEFL_EBUDGET");
    assert_string_equal(sefl_status_name((sefl_status)999), "SEFL_?");
    assert_true(strlen(sefl_status_text(SEFL_EPROTO)) > 10);
    assert_string_equal(sefl_status_text((sefl_status)999), "unknown status");
}

static sefl_status inner(int n)
{
    sefl_status st = SEFL_OK;
    SEFL_CHECK(n < 3, SEFL_ERANGE, "n is %d, at most 2", n);
done:
    return st;
}

static sefl_status outer(int n, int *reached)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(inner(n));
    *reached = 1;
done:
    return st;
}

static void try_and_check_jump(void **state)
{
    (void)state;
    int reached = 0;
    CHECK_OK(outer(2, &reached));
    assert_int_equal(reached, 1);
    reached = 0;
    CHECK_STATUS(outer(3, &reached), SEFL_ERANGE);
    assert_int_equal(reached, 0);
    assert_string_equal(sefl_last_error(), "n is 3, at most 2");
}

static void sentence_can_quote_itself_and_is_cut(void **state)
{
    (void)state;
    char big[2000];
    (void)sefl_fail(SEFL_EIO, "disk full");
    assert_int_equal(sefl_fail_at(SEFL_EIO, "%s", "a.txt"), SEFL_EIO);
    assert_string_equal(sefl_last_error(), "a.txt: disk full");
    (void)sefl_fail(SEFL_EIO, "again: %s", sefl_last_error());
    assert_string_equal(sefl_last_error(), "again: a.txt: disk full");
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    (void)sefl_fail(SEFL_EIO, "%s", big);
    assert_int_equal(strlen(sefl_last_error()), 511);
    (void)sefl_fail_at(SEFL_EIO, "%s", big);
    assert_int_equal(strlen(sefl_last_error()), 511);
    for (size_t n = 500; n < 520; n++) { /* every border of the buffer */
        (void)sefl_fail(SEFL_EIO, "tail");
        (void)sefl_fail_at(SEFL_EIO, "%.*s", (int)n, big);
        assert_true(strlen(sefl_last_error()) <= 511);
    }
}

static void *other_thread(void *arg)
{
    (void)sefl_fail(SEFL_EIO, "from the other thread");
    return arg;
}

static void sentence_is_per_thread(void **state)
{
    (void)state;
    pthread_t id;
    (void)sefl_fail(SEFL_EIO, "mine");
    assert_int_equal(pthread_create(&id, NULL, other_thread, NULL), 0);
    pthread_join(id, NULL);
    assert_string_equal(sefl_last_error(), "mine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_texts),
        cmocka_unit_test(try_and_check_jump),
        cmocka_unit_test(sentence_can_quote_itself_and_is_cut),
        cmocka_unit_test(sentence_is_per_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
