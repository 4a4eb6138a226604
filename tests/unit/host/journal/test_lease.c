/* Leases, on both stores. With PostgreSQL two processes are two connections; with SQLite one journal
 * plays both, since one process has the folder. */
#include "support/check.h"
#include "support/folder.h"
#include "support/store_place.h"

#include "base/clock.h"
#include "store/journal/lease.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static const uint8_t task[32] = { 7 };

typedef struct two {
    journal *a, *b;
} two;

static two open_two(const char *name)
{
    two t;
    CHECK_OK(store_open(&t.a, folder_path(name), "csp", task));
    t.b = t.a;
    if (store_is_pg())
        CHECK_OK(store_open(&t.b, folder_path(name), "csp", task));
    return t;
}

static void close_two(two *t)
{
    if (t->b != t->a)
        journal_close(t->b);
    journal_close(t->a);
}

static void taken_once(void **state)
{
    (void)state;
    two t = open_two("once");
    lease a, b;
    lease_info i;
    CHECK_STATUS(lease_look(t.a, "work", &i), SEFL_ENOTFOUND);
    CHECK_OK(lease_take(t.a, "work", "first:1", 60000, &a));
    assert_int_equal(a.fence, 1);
    CHECK_STATUS(lease_take(t.b, "work", "second:2", 60000, &b), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "first:1"));
    assert_int_equal(b.fence, 0);
    CHECK_OK(lease_take(t.b, "other", "second:2", 60000, &b)); /* another name is free */
    CHECK_OK(lease_look(t.b, "work", &i));
    assert_string_equal(i.holder, "first:1");
    assert_true(i.left_ms > 50000 && i.left_ms <= 60000 && i.fence == 1);
    CHECK_OK(lease_renew(t.a, &a));
    CHECK_OK(lease_release(t.a, &a));
    CHECK_STATUS(lease_renew(t.a, &a), SEFL_ESTATE); /* released is lost */
    CHECK_OK(lease_release(t.a, &a));
    CHECK_OK(lease_take(t.b, "work", "second:2", 60000, &b));
    assert_int_equal(b.fence, 2);
    CHECK_STATUS(lease_renew(t.a, &a), SEFL_ESTATE);
    CHECK_OK(lease_release(t.a, &a)); /* does not touch the new holder's */
    CHECK_OK(lease_renew(t.b, &b));
    char longer[200];
    memset(longer, 'x', sizeof longer - 1), longer[sizeof longer - 1] = 0;
    CHECK_STATUS(lease_take(t.a, "", "x", 1, &a), SEFL_EINVAL);
    CHECK_STATUS(lease_take(t.a, longer, "x", 1, &a), SEFL_EINVAL);
    CHECK_STATUS(lease_take(t.a, "x", longer, 1, &a), SEFL_EINVAL);
    close_two(&t);
}

static void expires(void **state)
{
    (void)state;
    two t = open_two("expires");
    lease a, b;
    CHECK_OK(lease_take(t.a, "part 1", "first:1", 30, &a));
    clock_pause_ms(60);
    CHECK_OK(lease_renew(t.a, &a)); /* nobody took it */
    clock_pause_ms(60);
    CHECK_OK(lease_take(t.b, "part 1", "second:2", 60000, &b));
    assert_int_equal(b.fence, a.fence + 1);
    CHECK_STATUS(lease_renew(t.a, &a), SEFL_ESTATE);
    close_two(&t);
}

/* What the first holder tries to write after the second took over does not happen. */
static void fenced(void **state)
{
    (void)state;
    two t = open_two("fenced");
    lease a, b;
    bool has;
    uint8_t kem[JOURNAL_KEM] = { 1 };
    sefl_rng rng = rng_system();
    CHECK_STATUS(lease_check(t.a, &(lease){ .name = "work" }), SEFL_ESTATE); /* no transaction */
    CHECK_OK(lease_take(t.a, "work", "first:1", 1, &a));
    clock_pause_ms(5);
    CHECK_OK(journal_begin_shared(t.a)); /* expired, but nobody has it: still the holder */
    CHECK_OK(lease_check(t.a, &a));
    CHECK_OK(journal_fact_put(t.a, 1, "early", span_of_str("x")));
    CHECK_OK(journal_commit(t.a));
    journal_guard(t.a, &a);
    CHECK_OK(journal_fact_put(t.a, 1, "guarded", span_of_str("x")));
    journal_guard(t.a, NULL);

    CHECK_OK(lease_take(t.b, "work", "second:2", 60000, &b));
    CHECK_OK(journal_begin(t.a));
    CHECK_STATUS(lease_check(t.a, &a), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "second:2"));
    journal_rollback(t.a);
    journal_guard(t.a, &a);
    CHECK_STATUS(journal_begin(t.a), SEFL_ESTATE);
    CHECK_STATUS(journal_begin_shared(t.a), SEFL_ESTATE);
    CHECK_STATUS(journal_fact_put(t.a, 1, "late", span_of_str("x")), SEFL_ESTATE);
    CHECK_STATUS(journal_lasting_put(t.a, "late", span_of_str("x")), SEFL_ESTATE);
    CHECK_STATUS(journal_round_put(t.a, &(journal_round){ .round = 1 }), SEFL_ESTATE);
    CHECK_STATUS(journal_update_put(t.a, &(journal_update){ .round = 1 }), SEFL_ESTATE);
    if (store_is_pg()) { /* files of a folder are not guarded: one process has it */
        CHECK_STATUS(journal_secret_put(t.a, 1, "late", span_of_str("x"), &rng), SEFL_ESTATE);
        CHECK_STATUS(journal_file_put(t.a, 1, "late", span_of_str("x")), SEFL_ESTATE);
        CHECK_STATUS(journal_kem_put(t.a, 1, kem), SEFL_ESTATE);
    }
    CHECK_OK(journal_fact_has(t.a, 1, "guarded", &has)); /* reading is allowed */
    assert_true(has);
    journal_guard(t.a, NULL);
    CHECK_OK(journal_fact_has(t.b, 1, "late", &has));
    assert_false(has);
    journal_guard(t.b, &b);
    CHECK_OK(journal_fact_put(t.b, 1, "late", span_of_str("x")));
    journal_guard(t.b, NULL);
    close_two(&t);
}

/* Fencing numbers grow at every change of the lease, however the last one ended. */
static void numbers_grow(void **state)
{
    (void)state;
    two t = open_two("grow");
    lease l;
    for (uint64_t i = 1; i <= 20; i++) {
        CHECK_OK(lease_take(i % 3 ? t.a : t.b, "n", "x", i % 2 ? 1 : 60000, &l));
        assert_int_equal(l.fence, i);
        if (i % 2)
            clock_pause_ms(3);
        else
            CHECK_OK(lease_release(i % 3 ? t.a : t.b, &l));
    }
    close_two(&t);
}

typedef struct taker {
    journal *j;
    sefl_status st;
    lease l;
    atomic_bool done;
} taker;

static void *take_it(void *arg)
{
    taker *t = arg;
    t->st = lease_take(t->j, "long", "second:2", 60000, &t->l);
    atomic_store(&t->done, true);
    return NULL;
}

/* A long transaction with the lease: its own process renews meanwhile, another one waits. */
static void long_transactions(void **state)
{
    (void)state;
    if (!store_is_pg())
        skip();
    two t = open_two("long");
    taker other = { .j = t.b };
    lease l;
    pthread_t thread;
    CHECK_OK(lease_take(t.a, "long", "first:1", 1000, &l));
    CHECK_OK(journal_begin_shared(t.a));
    CHECK_OK(lease_check(t.a, &l));
    CHECK_OK(lease_renew(t.b, &l)); /* on another connection of the process, as share.c does */
    CHECK_OK(journal_fact_put(t.a, 1, "f", span_of_str("x")));
    CHECK_OK(journal_commit(t.a)); /* a wait of 5 s would have ended it */

    l.ttl_ms = 1;
    CHECK_OK(lease_renew(t.a, &l));
    clock_pause_ms(5);
    CHECK_OK(journal_begin_shared(t.a)); /* expired, but nobody has taken it */
    CHECK_OK(lease_check(t.a, &l));
    assert_int_equal(pthread_create(&thread, NULL, take_it, &other), 0);
    clock_pause_ms(300);
    assert_false(atomic_load(&other.done));
    CHECK_OK(journal_fact_put(t.a, 1, "f", span_of_str("y")));
    CHECK_OK(journal_commit(t.a));
    pthread_join(thread, NULL);
    CHECK_OK(other.st);
    CHECK_OK(journal_begin_shared(t.a));
    CHECK_STATUS(lease_check(t.a, &l), SEFL_ESTATE);
    journal_rollback(t.a);
    close_two(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_once),
        cmocka_unit_test(expires),
        cmocka_unit_test(fenced),
        cmocka_unit_test(numbers_grow),
        cmocka_unit_test(long_transactions),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
