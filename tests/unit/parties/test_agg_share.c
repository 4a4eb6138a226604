/* One process of an AS that shares a PostgreSQL (share.h), with a real CSP over an in-memory pair.
 * The test itself plays the other process: it takes the lease. */
#include "agg_world.h"

#include "store/journal/lease.h"

static void make(agg_world *w, uint64_t lease_ms, const char *const *more)
{
    aw_make(w, more);
    w->shared = true;
    w->lease_ms = lease_ms;
}

/* Takes the lease away from its holder, as if that had expired. */
static void usurp(agg_world *w, uint64_t ttl_ms)
{
    lease_info i;
    lease l = { .fence = 0 };
    CHECK_OK(lease_look(w->own, "aggregator", &i));
    snprintf(l.name, sizeof l.name, "%s", i.name);
    l.fence = i.fence;
    CHECK_OK(lease_release(w->own, &l));
    sefl_status st = lease_take(w->own, "aggregator", "other:1", ttl_ms, &l);
    assert_true(st == SEFL_OK || st == SEFL_ESTATE); /* the process itself may be faster */
}

static unsigned led(agg_world *w)
{
    return aw_logged(w, "this process leads", "");
}

/* A process leads a whole task, loses the lease again and again, and takes it again. */
static void many_terms(void **state)
{
    (void)state;
    agg_world w;
    if (!store_is_pg())
        skip();
    make(&w, 300, (const char *const[]){ "rounds.enough=4", "rounds.count=4", NULL });
    aw_start(&w);
    for (uint64_t r = 1; r <= 4; r++) {
        assert_true(aw_wait(&w, r, AGG_COLLECTING));
        aw_upload_all(&w, r, 3);
        usurp(&w, 1);
        for (unsigned i = 0; led(&w) < r + 1 && i < test_ms(10000); i += 10)
            usleep(10000);
        aw_upload_all(&w, r, 12);
    }
    CHECK_OK(aw_join(&w));
    assert_int_equal(w.reports, 4);
    for (unsigned r = 0; r < 4; r++)
        assert_true(!w.report[r].skipped && w.report[r].clients == 4);
    assert_true(led(&w) >= 5);
    aw_check_model(&w, (const unsigned[]){ 15, 15, 15, 15 }, 4);
    aw_free(&w);
}

/* Another process leads, and this one does not know yet: its link breaks, and it asks the store
 * before it dials. Its lease is long, so nothing else tells it in time. */
static void asks_before_it_dials(void **state)
{
    (void)state;
    agg_world w;
    if (!store_is_pg())
        skip();
    make(&w, 60000, (const char *const[]){ "rounds.enough=4", NULL });
    w.cut[0] = 300; /* sends, one each 4 ms */
    aw_start(&w);
    assert_true(aw_wait(&w, 1, AGG_COLLECTING));
    usurp(&w, 60000);
    for (unsigned i = 0; aw_logged(&w, "no longer leads", "") == 0 && i < test_ms(10000); i += 10)
        usleep(10000);
    assert_int_equal(aw_logged(&w, "no longer leads", "other:1 has it"), 1);
    usleep(100000);
    rounds_stop(w.r);
    CHECK_STATUS(aw_join(&w), SEFL_ECANCELLED);
    assert_int_equal(w.dials, 1);
    aw_free(&w);
}

/* rounds.separation: a client waits for its next turn, whichever process took its last upload. */
static void clients_take_turns(void **state)
{
    (void)state;
    agg_world w;
    if (!store_is_pg())
        skip();
    make(&w, 60000, (const char *const[]){ "rounds.enough=2", "rounds.separation=2", NULL });
    aw_start(&w);
    assert_true(aw_wait(&w, 1, AGG_COLLECTING));
    aw_upload_all(&w, 1, 3);
    assert_true(aw_wait(&w, 2, AGG_COLLECTING));
    assert_int_not_equal(aw_upload(&w, 0, 2, SIZE_MAX), 200);
    aw_upload_all(&w, 2, 12);
    CHECK_OK(aw_join(&w));
    aw_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_terms),
        cmocka_unit_test(asks_before_it_dials),
        cmocka_unit_test(clients_take_turns),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
