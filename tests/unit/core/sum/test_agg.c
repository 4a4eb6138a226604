/* The aggregation server's decisions: every phase with every event, then rounds, deadlines, ends. */
#include "unit/core/protocol/task_sample.h"

#include "sum/agg.h"

#include <math.h>

static task t;

static int setup(void **state)
{
    (void)state;
    sample_begin();
    /* 5 rounds, threshold 3 of 8, 1000 ms, twice 500 ms more */
    return sample_task(&t, "rounds.deadline_ms=1000", "rounds.extend_ms=500", "rounds.extensions=2",
                       NULL);
}

static int teardown(void **state)
{
    (void)state;
    task_clear(&t);
    sample_end();
    return 0;
}

static sefl_status on(agg *a, agg_event_kind kind, uint64_t now)
{
    return agg_on(a, &(agg_event){ .kind = kind, .round = agg_round(a), .clients = 4 }, now);
}

static sefl_status update(agg *a, uint32_t clients, uint64_t now)
{
    return agg_on(a, &(agg_event){ .kind = AGG_UPDATE, .round = agg_round(a), .clients = clients },
                  now);
}

static void expect(agg *a, agg_order_kind kind, uint64_t now)
{
    agg_order o = agg_next(a, now);
    if (o.kind != kind)
        fail_msg("order %d instead of %d at %llu while %s", o.kind, kind, (unsigned long long)now,
                 agg_phase_name(agg_get_phase(a)));
}

/* Field by field, because padding is undefined. */
static bool same_memory(const agg_memory *a, const agg_memory *b)
{
    return a->phase == b->phase && a->round == b->round && a->attempt == b->attempt &&
           a->deadline_ms == b->deadline_ms && a->extensions == b->extensions &&
           a->clients == b->clients && a->skipped_in_row == b->skipped_in_row &&
           a->blocked_in_row == b->blocked_in_row && a->why == b->why &&
           a->rounds_without_gain == b->rounds_without_gain &&
           a->best_perplexity == b->best_perplexity && a->paused == b->paused && a->drop == b->drop;
}

static agg *in_phase(const task *task_, agg_phase phase)
{
    agg *a = NULL;
    agg_memory m = { .phase = phase, .round = 2, .attempt = 3, .clients = 4 };
    m.deadline_ms = phase == AGG_COLLECTING ? 2000 : 0;
    m.why = phase == AGG_DONE ? AGG_WHY_STOPPED : AGG_WHY_NONE;
    CHECK_OK(agg_new(&a, task_));
    CHECK_OK(agg_restore(a, &m, 1000));
    assert_int_equal(agg_get_phase(a), phase);
    return a;
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { NO = -1 }; /* SEFL_ESTATE */

/* The next phase for each event in each phase, written by hand from the manual. */
static void test_every_phase_with_every_event(void **state)
{
    (void)state;
    static const int to[AGG_PHASES][AGG_EVENTS] = {
        /* UP, DOWN, SIGNED, UPDATE, FROZEN, OPENED, REVEAL_FAILED, LOST, BUDGET, RELEASED, BLOCKED,
         * SKIPPED, PUT_OFF, LEFT, STOP, PAUSE, RESUME, CLOSE, EXPECT; the operator's end after the round */
        [AGG_STARTING] = { AGG_SIGNING, AGG_STARTING, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
                           NO, AGG_DONE, AGG_STARTING, AGG_STARTING, AGG_STARTING, AGG_STARTING },
        [AGG_SIGNING] = { AGG_SIGNING, AGG_SIGNING, AGG_COLLECTING, NO, NO, NO, NO, AGG_SKIPPING,
                          AGG_DONE, NO, NO, NO, AGG_SIGNING, AGG_DONE, AGG_DONE, AGG_SIGNING,
                          AGG_SIGNING, AGG_SIGNING, AGG_SIGNING },
        [AGG_COLLECTING] = { AGG_COLLECTING, AGG_COLLECTING, NO, AGG_COLLECTING, NO, NO, NO,
                             AGG_SKIPPING, AGG_SKIPPING, NO, NO, NO, NO, NO, AGG_COLLECTING,
                             AGG_COLLECTING, AGG_COLLECTING, AGG_FREEZING, AGG_COLLECTING },
        [AGG_FREEZING] = { AGG_FREEZING, AGG_FREEZING, NO, AGG_FREEZING, AGG_REVEALING, NO, NO,
                           AGG_FREEZING, NO, NO, NO, NO, NO, NO, AGG_FREEZING, AGG_FREEZING,
                           AGG_FREEZING, AGG_FREEZING, AGG_FREEZING },
        [AGG_REVEALING] = { AGG_REVEALING, AGG_REVEALING, NO, NO, NO, AGG_RELEASING, AGG_REVEALING,
                            AGG_SKIPPING, AGG_SKIPPING, NO, NO, NO, NO, NO, AGG_REVEALING,
                            AGG_REVEALING, AGG_REVEALING, AGG_REVEALING, AGG_REVEALING },
        [AGG_RELEASING] = { AGG_RELEASING, AGG_RELEASING, NO, NO, NO, NO, NO, NO, NO, AGG_SIGNING,
                            AGG_SIGNING, NO, NO, NO, AGG_RELEASING, AGG_RELEASING, AGG_RELEASING,
                            AGG_RELEASING, AGG_RELEASING },
        [AGG_SKIPPING] = { AGG_SKIPPING, AGG_SKIPPING, NO, NO, NO, NO, NO, AGG_SKIPPING, NO, NO, NO,
                           AGG_SIGNING, NO, NO, AGG_SKIPPING, AGG_SKIPPING, AGG_SKIPPING,
                           AGG_SKIPPING, AGG_SKIPPING },
        [AGG_DONE] = { AGG_DONE, AGG_DONE, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, AGG_DONE,
                       AGG_DONE, AGG_DONE, AGG_DONE, AGG_DONE },
    };
    for (int p = 0; p < AGG_PHASES; p++)
        for (int e = 0; e < AGG_EVENTS; e++) {
            agg *a = in_phase(&t, (agg_phase)p);
            agg_memory before = agg_remember(a);
            sefl_status st = on(a, (agg_event_kind)e, 1001);
            agg_memory after = agg_remember(a);
            if (to[p][e] == NO) {
                if (st != SEFL_ESTATE || !same_memory(&before, &after))
                    fail_msg("event %d while %s: %s", e, agg_phase_name((agg_phase)p),
                             sefl_status_name(st));
            } else if (st != SEFL_OK || after.phase != (agg_phase)to[p][e]) {
                fail_msg("event %d while %s: %s, to %s", e, agg_phase_name((agg_phase)p),
                         sefl_status_name(st), agg_phase_name(after.phase));
            }
            /* the same of another round: nothing happens */
            if (e != AGG_LINK_UP && e != AGG_LINK_DOWN && e < AGG_STOP) {
                agg *b = in_phase(&t, (agg_phase)p);
                CHECK_OK(agg_on(b, &(agg_event){ .kind = (agg_event_kind)e, .round = 1 }, 1001));
                after = agg_remember(b);
                assert_true(same_memory(&before, &after));
                agg_free(b);
            }
            agg_free(a);
        }
    agg *a = in_phase(&t, AGG_FREEZING);
    CHECK_STATUS(agg_on(a, &(agg_event){ .kind = AGG_FROZEN, .round = 2 }, 0), SEFL_EINVAL);
    CHECK_STATUS(agg_on(a, &(agg_event){ .kind = AGG_EVENTS, .round = 2 }, 0), SEFL_EINVAL);
    agg_free(a);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void test_a_whole_task(void **state)
{
    (void)state;
    agg *a = NULL;
    uint64_t now = 100;
    CHECK_OK(agg_new(&a, &t));
    expect(a, AGG_DIAL, now);
    expect(a, AGG_WAIT, now); /* given once */
    CHECK_OK(on(a, AGG_LINK_UP, now));
    for (uint64_t r = 1; r <= 5; r++) {
        assert_int_equal(agg_round(a), r);
        expect(a, AGG_SIGN, now);
        expect(a, AGG_WAIT, now);
        CHECK_OK(on(a, AGG_SIGNED, now));
        assert_int_equal(agg_deadline_ms(a), now + 1000);
        agg_order o = agg_next(a, now);
        assert_int_equal(o.kind, AGG_WAIT);
        assert_int_equal(o.until_ms, now + 1000);
        CHECK_OK(update(a, 1, now + 10));
        CHECK_OK(update(a, 4, now + 30));
        expect(a, AGG_WAIT, now + 999);
        expect(a, AGG_FREEZE, now + 1000);
        expect(a, AGG_WAIT, now + 1000);
        CHECK_OK(on(a, AGG_FROZEN, now + 1001));
        o = agg_next(a, now + 1001);
        assert_int_equal(o.kind, AGG_REVEAL);
        assert_int_equal(o.attempt, 1);
        assert_int_equal(o.round, r);
        CHECK_OK(on(a, AGG_REVEALED, now + 1100));
        expect(a, AGG_RELEASE, now + 1100);
        expect(a, AGG_WAIT, now + 1100);
        CHECK_OK(on(a, AGG_RELEASED, now + 1200));
        now += 1200;
    }
    agg_order o = agg_next(a, now);
    assert_int_equal(o.kind, AGG_FINISH);
    assert_int_equal(o.why, AGG_WHY_ROUNDS);
    o = agg_next(a, now);
    assert_int_equal(o.kind, AGG_WAIT);
    assert_true(o.until_ms == UINT64_MAX);
    agg_free(a);
}

static void test_extensions_then_skip(void **state)
{
    (void)state;
    agg *a = in_phase(&t, AGG_SIGNING);
    CHECK_OK(on(a, AGG_LINK_UP, 0));
    CHECK_OK(on(a, AGG_SIGNED, 0));
    CHECK_OK(update(a, 2, 10)); /* one below the threshold */
    expect(a, AGG_WAIT, 1000);
    assert_int_equal(agg_deadline_ms(a), 1500);
    expect(a, AGG_WAIT, 1499);
    assert_int_equal(agg_deadline_ms(a), 1500);
    expect(a, AGG_WAIT, 1700); /* late check: the extension counts from now */
    assert_int_equal(agg_deadline_ms(a), 2200);
    expect(a, AGG_SKIP, 2200); /* none left */
    assert_int_equal(agg_deadline_ms(a), 0);
    CHECK_STATUS(on(a, AGG_REVEALED, 2200), SEFL_ESTATE);
    CHECK_STATUS(on(a, AGG_FROZEN, 2200), SEFL_ESTATE);
    CHECK_OK(on(a, AGG_SKIPPED, 2300));
    assert_int_equal(agg_round(a), 3);
    assert_int_equal(agg_get_phase(a), AGG_SIGNING);
    agg_free(a);

    /* a client that arrives during an extension saves the round, which closes at once */
    a = in_phase(&t, AGG_SIGNING);
    CHECK_OK(on(a, AGG_SIGNED, 0));
    CHECK_OK(update(a, 2, 10));
    (void)agg_next(a, 1000);
    assert_int_equal(agg_closes_at(a), 3);
    CHECK_OK(update(a, 3, 1100));
    assert_int_equal(agg_get_phase(a), AGG_FREEZING);
    agg_free(a);

    /* an update that is durable by the deadline counts, even if the clock is read later */
    a = in_phase(&t, AGG_SIGNING);
    CHECK_OK(on(a, AGG_SIGNED, 0));
    CHECK_OK(update(a, 2, 10));
    CHECK_OK(update(a, 3, 1000));
    assert_int_equal(agg_get_phase(a), AGG_FREEZING);
    agg_free(a);
}

static void test_too_small_a_set_is_never_opened(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 12; n++) {
        agg *a = in_phase(&t, AGG_FREEZING);
        CHECK_OK(agg_on(a, &(agg_event){ .kind = AGG_FROZEN, .round = 2, .clients = n }, 0));
        assert_int_equal(agg_get_phase(a), n >= 3 && n <= 8 ? AGG_REVEALING : AGG_SKIPPING);
        agg_free(a);
    }
    agg *a = NULL;
    CHECK_OK(agg_new(&a, &t));
    agg_memory m = { .phase = AGG_REVEALING, .round = 1, .clients = 2 };
    CHECK_STATUS(agg_restore(a, &m, 0), SEFL_EINVAL);
    agg_free(a);
}

static void test_enough(void **state)
{
    (void)state;
    task o;
    CHECK_OK(sample_task(&o, "rounds.enough=5", NULL));
    agg *a = in_phase(&o, AGG_SIGNING);
    CHECK_OK(on(a, AGG_SIGNED, 0));
    CHECK_OK(update(a, 4, 10));
    assert_int_equal(agg_get_phase(a), AGG_COLLECTING);
    CHECK_OK(update(a, 5, 20));
    assert_int_equal(agg_get_phase(a), AGG_FREEZING);
    agg_free(a);
    task_clear(&o);
}

static sefl_status expect_clients(agg *a, uint64_t round, uint32_t clients)
{
    return agg_on(a, &(agg_event){ .kind = AGG_EXPECT, .round = round, .clients = clients }, 20);
}

/* A round waits for no more clients than can send an update, but for the threshold. */
static void test_enough_without_the_missing(void **state)
{
    (void)state;
    task o;
    CHECK_OK(sample_task(&o, "rounds.enough=6", NULL)); /* threshold 3 */
    agg *a = in_phase(&o, AGG_SIGNING);
    CHECK_OK(on(a, AGG_SIGNED, 0));
    assert_int_equal(agg_closes_at(a), 6);
    CHECK_OK(expect_clients(a, 1, 3)); /* of an earlier round */
    CHECK_OK(expect_clients(a, 2, 8));
    assert_int_equal(agg_closes_at(a), 6); /* never above enough */
    CHECK_OK(expect_clients(a, 2, 1));
    assert_int_equal(agg_closes_at(a), 3); /* never below the threshold */
    CHECK_OK(update(a, 2, 10));
    assert_int_equal(agg_get_phase(a), AGG_COLLECTING);
    CHECK_OK(expect_clients(a, 2, 5)); /* two are back */
    CHECK_OK(update(a, 4, 20));
    assert_int_equal(agg_get_phase(a), AGG_COLLECTING);
    CHECK_OK(expect_clients(a, 2, 4)); /* and one is revoked */
    assert_int_equal(agg_get_phase(a), AGG_FREEZING);
    agg_free(a);

    a = in_phase(&o, AGG_SKIPPING); /* the next round begins with all of them */
    CHECK_OK(expect_clients(a, 2, 4));
    CHECK_OK(on(a, AGG_SKIPPED, 30));
    assert_int_equal(agg_closes_at(a), 6);
    agg_free(a);
    task_clear(&o);
}

static sefl_status close_round(agg *a, uint64_t round)
{
    return agg_on(a, &(agg_event){ .kind = AGG_CLOSE, .round = round }, 20);
}

static void test_the_operator_closes_a_round(void **state)
{
    (void)state;
    agg *a = in_phase(&t, AGG_SIGNING);
    CHECK_OK(close_round(a, 2)); /* it is not open */
    CHECK_OK(on(a, AGG_SIGNED, 0));
    assert_int_equal(agg_get_phase(a), AGG_COLLECTING);
    CHECK_OK(update(a, 2, 10));
    CHECK_OK(close_round(a, 2)); /* below the threshold */
    assert_int_equal(agg_get_phase(a), AGG_COLLECTING);
    CHECK_OK(update(a, 3, 10));
    CHECK_OK(close_round(a, 1)); /* an old order */
    assert_int_equal(agg_get_phase(a), AGG_COLLECTING);
    CHECK_OK(close_round(a, 2));
    assert_int_equal(agg_get_phase(a), AGG_FREEZING);
    agg_free(a);

    /* where the number of updates must stay unknown, it closes nothing, not even an extended round */
    task o;
    CHECK_OK(
        sample_task(&o, "privacy.sampling=open", "privacy.rate=0.5", "rounds.extensions=1", NULL));
    assert_true(o.amplified && !agg_may_close(&o));
    a = in_phase(&o, AGG_SIGNING);
    CHECK_OK(on(a, AGG_SIGNED, 0));
    CHECK_OK(update(a, 3, 10));
    CHECK_OK(close_round(a, 2));
    assert_int_equal(agg_get_phase(a), AGG_COLLECTING);
    CHECK_OK(update(a, 2, 10));
    (void)agg_next(a, o.deadline_ms);
    CHECK_OK(update(a, 3, o.deadline_ms + 1));
    assert_int_equal(agg_get_phase(a), AGG_COLLECTING);
    agg_free(a);
    task_clear(&o);
}

/* An attempt that did not begin has used no number. */
static void test_attempt_not_begun(void **state)
{
    (void)state;
    agg *a = in_phase(&t, AGG_REVEALING);
    CHECK_OK(on(a, AGG_LINK_UP, 1000));
    agg_order o = agg_next(a, 1000);
    assert_int_equal(o.attempt, 4);
    const agg_event e = { .kind = AGG_REVEAL_FAILED, .round = 2, .now = true };
    CHECK_OK(agg_on(a, &e, 1000));
    CHECK_OK(agg_on(a, &e, 1000)); /* counts once */
    assert_int_equal(agg_remember(a).attempt, 3);
    expect(a, AGG_WAIT, 1499);
    o = agg_next(a, 1500);
    assert_int_equal(o.kind, AGG_REVEAL);
    assert_int_equal(o.attempt, 4);
    agg_free(a);
}

static void test_opening_again(void **state)
{
    (void)state;
    agg *a = in_phase(&t, AGG_REVEALING); /* restored: attempt 3 may have been used */
    expect(a, AGG_DIAL, 1000);
    CHECK_OK(on(a, AGG_LINK_UP, 1000));
    agg_order o = agg_next(a, 1000);
    assert_int_equal(o.kind, AGG_REVEAL);
    assert_int_equal(o.attempt, 4);
    CHECK_OK(on(a, AGG_REVEAL_FAILED, 1000));
    CHECK_OK(on(a, AGG_REVEAL_FAILED, 1000)); /* reported twice: counts once */
    o = agg_next(a, 1000);
    assert_int_equal(o.kind, AGG_WAIT);
    assert_int_equal(o.until_ms, 1500);
    o = agg_next(a, 1500);
    assert_int_equal(o.kind, AGG_REVEAL);
    assert_int_equal(o.attempt, 5);
    /* the link breaks in the middle: AS reconnects after a longer pause, then makes a new
     * attempt */
    CHECK_OK(on(a, AGG_LINK_DOWN, 1600));
    CHECK_OK(on(a, AGG_REVEAL_FAILED, 1600));
    expect(a, AGG_WAIT, 2599);
    expect(a, AGG_DIAL, 2600);
    CHECK_OK(on(a, AGG_LINK_DOWN, 2700)); /* nobody there */
    expect(a, AGG_WAIT, 3199);
    expect(a, AGG_DIAL, 3200);
    CHECK_OK(on(a, AGG_LINK_UP, 3200));
    o = agg_next(a, 3200);
    assert_int_equal(o.kind, AGG_REVEAL);
    assert_int_equal(o.attempt, 6);
    CHECK_OK(on(a, AGG_LOST, 3300));
    expect(a, AGG_SKIP, 3300);
    agg_free(a);

    /* pauses double up to 64 s */
    a = in_phase(&t, AGG_REVEALING);
    uint64_t now = 0, pause = 500;
    CHECK_OK(on(a, AGG_LINK_UP, now));
    for (int i = 0; i < 12; i++) {
        expect(a, AGG_REVEAL, now);
        CHECK_OK(on(a, AGG_REVEAL_FAILED, now));
        assert_int_equal(agg_next(a, now).until_ms, now + pause);
        now += pause;
        pause = pause < 64000 ? 2 * pause : pause;
    }
    agg_free(a);
}

static void test_the_link_while_collecting(void **state)
{
    (void)state;
    agg *a = in_phase(&t, AGG_SIGNING);
    CHECK_OK(on(a, AGG_LINK_UP, 0));
    expect(a, AGG_SIGN, 0);
    CHECK_OK(on(a, AGG_SIGNED, 0));
    expect(a, AGG_WAIT, 10);
    CHECK_OK(on(a, AGG_LINK_DOWN, 20)); /* an idle link: reconnects at once */
    expect(a, AGG_DIAL, 20);
    /* the round closes while AS connects; the reveal waits for it */
    CHECK_OK(update(a, 5, 40));
    expect(a, AGG_FREEZE, 1000);
    CHECK_OK(on(a, AGG_FROZEN, 1001));
    expect(a, AGG_WAIT, 1001);
    CHECK_OK(on(a, AGG_LINK_UP, 1100));
    agg_order o = agg_next(a, 1100);
    assert_int_equal(o.kind, AGG_REVEAL);
    assert_int_equal(o.attempt, 4); /* in_phase has 3 */
    agg_free(a);

    /* a skip waits for the link */
    a = in_phase(&t, AGG_SIGNING);
    CHECK_OK(on(a, AGG_LINK_UP, 0));
    expect(a, AGG_SIGN, 0);
    CHECK_OK(on(a, AGG_SIGNED, 0));
    CHECK_OK(on(a, AGG_LINK_DOWN, 0));
    expect(a, AGG_DIAL, 0);
    expect(a, AGG_WAIT, 1000);
    expect(a, AGG_WAIT, 1500);
    expect(a, AGG_WAIT, 2000);
    assert_int_equal(agg_get_phase(a), AGG_SKIPPING);
    CHECK_OK(on(a, AGG_LINK_UP, 2100));
    expect(a, AGG_SKIP, 2100);
    agg_free(a);
}

static void test_ends(void **state)
{
    (void)state;
    /* ten skipped rounds in a row; a released one in between resets the count */
    task o;
    CHECK_OK(sample_task(&o, "rounds.count=100", NULL));
    agg *a = NULL;
    CHECK_OK(agg_new(&a, &o));
    CHECK_OK(
        agg_restore(a, &(agg_memory){ .phase = AGG_SKIPPING, .round = 1, .skipped_in_row = 8 }, 0));
    CHECK_OK(on(a, AGG_SKIPPED, 0));
    agg_memory m = agg_remember(a);
    assert_int_equal(m.skipped_in_row, 9);
    m.phase = AGG_RELEASING;
    CHECK_OK(agg_restore(a, &m, 0));
    CHECK_OK(on(a, AGG_RELEASED, 0));
    assert_int_equal(agg_remember(a).skipped_in_row, 0);
    m = agg_remember(a);
    m.phase = AGG_SKIPPING, m.skipped_in_row = 9;
    CHECK_OK(agg_restore(a, &m, 0));
    CHECK_OK(on(a, AGG_SKIPPED, 0));
    assert_int_equal(agg_next(a, 0).why, AGG_WHY_TOO_FEW);
    agg_free(a);
    task_clear(&o);

    /* three blocked rounds in a row: a skipped one between them does not count, a released one
     * resets the count; the best validation loss is unchanged */
    static const agg_event_kind walk[] = { AGG_BLOCKED, AGG_BLOCKED, AGG_RELEASED, AGG_BLOCKED,
                                           AGG_SKIPPED, AGG_BLOCKED, AGG_BLOCKED };
    static const uint32_t blocked[] = { 1, 2, 0, 1, 1, 2, 3 };
    CHECK_OK(sample_task(&o, "rounds.count=100", "rounds.patience=2", NULL));
    CHECK_OK(agg_new(&a, &o));
    m = (agg_memory){ .round = 1, .rounds_without_gain = 1 };
    for (size_t i = 0; i < sizeof walk / sizeof *walk; i++) {
        m.phase = walk[i] == AGG_SKIPPED ? AGG_SKIPPING : AGG_RELEASING;
        CHECK_OK(agg_restore(a, &m, 0)); /* died in between: the count is remembered */
        CHECK_OK(on(a, walk[i], 0));
        m = agg_remember(a);
        assert_int_equal(m.blocked_in_row, blocked[i]);
        assert_int_equal(m.skipped_in_row, walk[i] == AGG_SKIPPED);
        assert_int_equal(m.rounds_without_gain, 1);
    }
    assert_int_equal(m.phase, AGG_DONE);
    assert_int_equal(agg_next(a, 0).why, AGG_WHY_BLOCKED);
    CHECK_OK(agg_restore(a, &m, 0)); /* and so is the reason */
    assert_int_equal(agg_next(a, 0).why, AGG_WHY_BLOCKED);
    agg_free(a);
    task_clear(&o);

    /* convergence: two rounds without improvement */
    CHECK_OK(sample_task(&o, "rounds.count=100", "rounds.patience=2", NULL));
    static const double perplexity[] = { 500, 400, 401, 399, 399, INFINITY };
    CHECK_OK(agg_new(&a, &o));
    CHECK_OK(agg_restore(a, &(agg_memory){ .phase = AGG_RELEASING, .round = 1 }, 0));
    for (size_t i = 0; i < 6; i++) {
        m = agg_remember(a);
        m.phase = AGG_RELEASING;
        assert_int_equal(agg_round(a), i + 1);
        CHECK_OK(agg_restore(a, &m, 0));
        CHECK_OK(agg_on(a,
                        &(agg_event){ .kind = AGG_RELEASED,
                                      .round = i + 1,
                                      .has_perplexity = true,
                                      .perplexity = perplexity[i] },
                        0));
    }
    assert_int_equal(agg_next(a, 0).why, AGG_WHY_CONVERGED);
    assert_true(agg_remember(a).best_perplexity == 399);
    agg_free(a);
    task_clear(&o);

    /* the budget: no header, or a round that is skipped and the last one */
    a = in_phase(&t, AGG_SIGNING);
    CHECK_OK(on(a, AGG_BUDGET, 0));
    assert_int_equal(agg_next(a, 0).why, AGG_WHY_BUDGET);
    agg_free(a);
    a = in_phase(&t, AGG_REVEALING);
    CHECK_OK(on(a, AGG_LINK_UP, 0));
    expect(a, AGG_REVEAL, 0);
    CHECK_OK(on(a, AGG_BUDGET, 0));
    expect(a, AGG_SKIP, 0);
    CHECK_OK(on(a, AGG_SKIPPED, 0));
    agg_order end = agg_next(a, 0);
    assert_int_equal(end.kind, AGG_FINISH);
    assert_int_equal(end.why, AGG_WHY_BUDGET);
    agg_free(a);

    /* stop: a frozen round is brought to its end */
    a = in_phase(&t, AGG_FREEZING);
    CHECK_OK(on(a, AGG_STOP, 0));
    CHECK_OK(on(a, AGG_FROZEN, 0));
    CHECK_OK(on(a, AGG_REVEALED, 0));
    CHECK_OK(on(a, AGG_RELEASED, 0));
    assert_int_equal(agg_next(a, 0).why, AGG_WHY_STOPPED);
    agg_free(a);
    for (int w = 0; w < AGG_WHYS; w++)
        assert_string_not_equal(agg_why_text((agg_why)w), "?");
}

/* ---- operators ------------------------------------------------------------------------------- */

static sefl_status order(agg *a, agg_event_kind kind, bool at_once, uint64_t now)
{
    return agg_on(a, &(agg_event){ .kind = kind, .now = at_once }, now);
}

/* Brings a linked machine from its phase to the end of its round, without the time passing. */
static void finish_round(agg *a, uint64_t now)
{
    if (agg_get_phase(a) == AGG_COLLECTING) {
        CHECK_OK(update(a, 4, now));
        expect(a, AGG_FREEZE, now + 1000);
    }
    if (agg_get_phase(a) == AGG_FREEZING)
        CHECK_OK(on(a, AGG_FROZEN, now));
    if (agg_get_phase(a) == AGG_REVEALING)
        CHECK_OK(on(a, AGG_REVEALED, now));
    if (agg_get_phase(a) == AGG_RELEASING)
        CHECK_OK(on(a, AGG_RELEASED, now));
    if (agg_get_phase(a) == AGG_SKIPPING)
        CHECK_OK(on(a, AGG_SKIPPED, now));
}

/* In every phase: the round in progress ends (or is dropped), and no other begins until RESUME. */
static void test_pause(void **state)
{
    (void)state;
    for (int p = 0; p < AGG_DONE; p++)
        for (int now = 0; now < 2; now++)
            for (int restart = 0; restart < 2; restart++) {
                agg *a = in_phase(&t, (agg_phase)p), *b = NULL;
                CHECK_OK(order(a, AGG_PAUSE, now, 1001));
                assert_int_equal(agg_get_phase(a), now && p == AGG_COLLECTING ? AGG_SKIPPING : p);
                if (restart) {
                    agg_memory m = agg_remember(a);
                    CHECK_OK(agg_new(&b, &t));
                    CHECK_OK(agg_restore(b, &m, 1001));
                    agg_free(a);
                    a = b;
                    CHECK_OK(order(a, AGG_PAUSE, now, 1001)); /* the order's file is still there */
                }
                CHECK_OK(on(a, AGG_LINK_UP, 1001));
                finish_round(a, 1001);
                assert_int_equal(agg_get_phase(a), AGG_SIGNING);
                assert_int_equal(agg_round(a), p >= AGG_COLLECTING ? 3 : 2);
                assert_true(agg_is_paused(a, NULL));
                /* a dropped round is not one of the ten that end a task */
                assert_int_equal(agg_remember(a).skipped_in_row, p == AGG_SKIPPING);
                agg_order o = agg_next(a, 1u << 30);
                assert_true(o.kind == AGG_WAIT && o.until_ms == UINT64_MAX); /* for weeks */
                CHECK_OK(on(a, AGG_LINK_DOWN, 1u << 30));
                expect(a, AGG_DIAL, 1u << 30); /* the link stays up */
                CHECK_OK(on(a, AGG_LINK_UP, 1u << 30));
                expect(a, AGG_WAIT, 1u << 30);
                CHECK_OK(order(a, AGG_RESUME, false, 1u << 30));
                assert_false(agg_is_paused(a, NULL));
                expect(a, AGG_SIGN, 1u << 30);
                CHECK_OK(on(a, AGG_SIGNED, 1u << 30));
                assert_int_equal(agg_deadline_ms(a), (1u << 30) + 1000); /* all of its time */
                agg_free(a);
            }
    agg *a = in_phase(&t, AGG_DONE);
    CHECK_OK(order(a, AGG_PAUSE, true, 0));
    CHECK_OK(order(a, AGG_RESUME, false, 0));
    assert_int_equal(agg_next(a, 0).kind, AGG_FINISH);
    agg_free(a);
}

/* While a header is being signed: the order counts for the round that it opens. */
static void test_orders_while_signing(void **state)
{
    (void)state;
    for (int kind = AGG_STOP; kind <= AGG_PAUSE; kind++)
        for (int now = 0; now < 2; now++)
            for (int answer = 0; answer < 3; answer++) {
                static const agg_event_kind answers[] = { AGG_SIGNED, AGG_LINK_DOWN, AGG_PUT_OFF };
                agg *a = in_phase(&t, AGG_SIGNING);
                CHECK_OK(on(a, AGG_LINK_UP, 0));
                expect(a, AGG_SIGN, 0);
                CHECK_OK(order(a, (agg_event_kind)kind, now, 0));
                assert_int_equal(agg_get_phase(a), AGG_SIGNING);
                CHECK_OK(on(a, answers[answer], 0));
                agg_phase phase = agg_get_phase(a);
                if (answer > 0)
                    assert_int_equal(phase, kind == AGG_STOP ? AGG_DONE : AGG_SIGNING);
                else
                    assert_int_equal(phase, now ? AGG_SKIPPING : AGG_COLLECTING);
                CHECK_OK(on(a, AGG_LINK_UP, 0));
                finish_round(a, 0);
                phase = agg_get_phase(a);
                assert_int_equal(phase, kind == AGG_STOP ? AGG_DONE : AGG_SIGNING);
                if (kind == AGG_PAUSE)
                    expect(a, AGG_WAIT, 1u << 30);
                agg_free(a);
            }
    /* resumed before CSP's answer: the round opens after all */
    agg *a = in_phase(&t, AGG_SIGNING);
    CHECK_OK(on(a, AGG_LINK_UP, 0));
    expect(a, AGG_SIGN, 0);
    CHECK_OK(order(a, AGG_PAUSE, true, 0));
    CHECK_OK(order(a, AGG_RESUME, false, 0));
    CHECK_OK(on(a, AGG_SIGNED, 0));
    assert_int_equal(agg_get_phase(a), AGG_COLLECTING);
    agg_free(a);
}

/* `end` in every phase, after a pause too; RESUME does not undo it. */
static void test_end(void **state)
{
    (void)state;
    for (int p = 0; p < AGG_DONE; p++)
        for (int i = 0; i < 8; i++) {
            const bool now = i & 1, paused = i & 2, restart = i & 4;
            agg *a = in_phase(&t, (agg_phase)p), *b = NULL;
            if (paused)
                CHECK_OK(order(a, AGG_PAUSE, false, 1001));
            CHECK_OK(order(a, AGG_STOP, now, 1001));
            CHECK_OK(order(a, AGG_RESUME, false, 1001));
            agg_memory m = agg_remember(a);
            assert_int_equal(m.phase, p < AGG_COLLECTING           ? AGG_DONE
                                      : now && p == AGG_COLLECTING ? AGG_SKIPPING
                                                                   : (agg_phase)p);
            if (restart) {
                CHECK_OK(agg_new(&b, &t));
                CHECK_OK(agg_restore(b, &m, 1001));
                agg_free(a);
                a = b;
            }
            CHECK_OK(on(a, AGG_LINK_UP, 1001));
            finish_round(a, 1001);
            agg_order o = agg_next(a, 1001);
            assert_int_equal(o.kind, AGG_FINISH);
            assert_int_equal(o.why, AGG_WHY_STOPPED);
            assert_int_equal(agg_round(a), 2);
            agg_free(a);
        }
}

/* CSP's operator pauses the task, resumes it, and ends it. */
static void test_csp_puts_off(void **state)
{
    (void)state;
    bool by_csp;
    uint64_t now = 0, delay = 500;
    agg *a = in_phase(&t, AGG_SIGNING);
    CHECK_OK(on(a, AGG_LINK_UP, now));
    for (int i = 0; i < 8; i++) {
        expect(a, AGG_SIGN, now);
        CHECK_OK(on(a, AGG_PUT_OFF, now));
        CHECK_OK(on(a, AGG_PUT_OFF, now)); /* reported twice: counts once */
        assert_true(agg_is_paused(a, &by_csp) && by_csp);
        assert_int_equal(agg_next(a, now).until_ms, now + delay);
        now += delay;
        delay = delay < 8000 ? 2 * delay : 8000;
    }
    expect(a, AGG_SIGN, now);
    CHECK_OK(on(a, AGG_PUT_OFF, now));
    CHECK_OK(order(a, AGG_RESUME, false, now)); /* asks CSP again at once */
    assert_false(agg_is_paused(a, NULL));
    expect(a, AGG_SIGN, now);
    CHECK_OK(on(a, AGG_SIGNED, now));
    assert_false(agg_is_paused(a, NULL));
    finish_round(a, now);
    expect(a, AGG_SIGN, now);
    CHECK_OK(on(a, AGG_LEFT, now));
    assert_int_equal(agg_next(a, now).why, AGG_WHY_CSP);
    agg_free(a);
}

static void test_restore(void **state)
{
    (void)state;
    agg *a = NULL;
    CHECK_OK(agg_new(&a, &t));
    static const agg_memory bad[] = {
        { .phase = AGG_PHASES, .round = 1 },
        { .phase = AGG_SIGNING, .round = 0 },
        { .phase = AGG_SIGNING, .round = 6 },
        { .phase = AGG_DONE, .round = 5 },
        { .phase = AGG_SIGNING, .round = 1, .why = AGG_WHYS },
        { .phase = AGG_REVEALING, .round = 1, .clients = 9 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_STATUS(agg_restore(a, &bad[i], 0), SEFL_EINVAL);
    assert_int_equal(agg_get_phase(a), AGG_STARTING);
    CHECK_OK(agg_restore(a, &(agg_memory){ 0 }, 0));
    assert_int_equal(agg_round(a), 1);
    expect(a, AGG_DIAL, 0);
    /* the deadline passed while AS was down */
    CHECK_OK(agg_restore(
        a, &(agg_memory){ .phase = AGG_COLLECTING, .round = 2, .deadline_ms = 50, .clients = 3 },
        1000));
    assert_int_equal(agg_get_phase(a), AGG_FREEZING);
    CHECK_OK(agg_restore(
        a, &(agg_memory){ .phase = AGG_COLLECTING, .round = 2, .deadline_ms = 50, .clients = 2 },
        1000));
    assert_int_equal(agg_deadline_ms(a), 1500);
    /* the clock was set back */
    CHECK_OK(agg_restore(
        a, &(agg_memory){ .phase = AGG_COLLECTING, .round = 2, .deadline_ms = 9000000 }, 1000));
    assert_int_equal(agg_deadline_ms(a), 2000);
    agg_free(a);
    TEST_FAULTS(FAULT_ALLOC, st = agg_new(&a, &t), agg_free(a));
}

/* ---- uploads --------------------------------------------------------------------------------- */

static void test_admission(void **state)
{
    (void)state;
    task o;
    CHECK_OK(sample_task(&o, "rounds.max_per_client=2", "rounds.deadline_ms=1000",
                         "rounds.extend_ms=500", "rounds.extensions=1", "rounds.clients_max=6",
                         NULL));
    agg *a = in_phase(&o, AGG_COLLECTING); /* round 2, until 2000, 4 clients */
    agg_upload u = { .round = 2, .bytes = task_body_bytes(&o) }, v;
    assert_int_equal(agg_admit(a, &u, 1500), AGG_ADMIT);
    v = u, v.round = 1;
    assert_int_equal(agg_admit(a, &v, 1500), AGG_LATE);
    v = u, v.round = 3;
    assert_int_equal(agg_admit(a, &v, 1500), AGG_EARLY);
    v = u, v.bytes++;
    assert_int_equal(agg_admit(a, &v, 1500), AGG_SIZE);
    v = u, v.rounds_taken = 1;
    assert_int_equal(agg_admit(a, &v, 1500), AGG_ADMIT);
    v.rounds_taken = 2;
    assert_int_equal(agg_admit(a, &v, 1500), AGG_LIMIT);
    v = u, v.rounds_taken = 1, v.last_taken = 1;
    assert_int_equal(agg_admit(a, &v, 1500), AGG_ADMIT);
    o.separation = 2; /* a client that ignores its turn: round 1 was one round ago */
    assert_int_equal(agg_admit(a, &v, 1500), AGG_SOON);
    v.last_taken = 0;
    assert_int_equal(agg_admit(a, &v, 1500), AGG_ADMIT);
    o.separation = 1;
    assert_int_equal(agg_admit(a, &u, 1999), AGG_ADMIT);
    assert_int_equal(agg_admit(a, &u, 2000), AGG_LATE); /* enough have arrived: it closes now */
    CHECK_OK(update(a, 2, 1500));
    assert_int_equal(agg_admit(a, &u, 2000), AGG_ADMIT); /* it will be extended */
    CHECK_OK(update(a, 6, 1500));
    assert_int_equal(agg_admit(a, &u, 1500), AGG_FULL);
    v = u, v.have = true;
    assert_int_equal(agg_admit(a, &v, 1500), AGG_HAVE);
    v.body[31] ^= 1;
    assert_int_equal(agg_admit(a, &v, 1500), AGG_OTHER);
    agg_free(a);

    static const agg_verdict want[AGG_PHASES] = { AGG_EARLY, AGG_EARLY, AGG_ADMIT, AGG_LATE,
                                                  AGG_LATE,  AGG_LATE,  AGG_LATE,  AGG_OVER };
    for (int p = 0; p < AGG_PHASES; p++) {
        a = in_phase(&o, (agg_phase)p);
        assert_int_equal(agg_admit(a, &u, 1001), want[p]);
        v = u, v.have = true; /* its receipt again, whenever it asks */
        assert_int_equal(agg_admit(a, &v, 1001), AGG_HAVE);
        agg_free(a);
    }
    task_clear(&o);
    for (int i = 0; i <= AGG_OVER; i++)
        assert_string_not_equal(agg_verdict_text((agg_verdict)i), "?");
}

/* ---- random walks ---------------------------------------------------------------------------- */

/* Every possible event occurs, even to a state machine restored from storage. */
static void test_random_walks(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "agg walks");
    static const char *const noises[] = { "privacy.noise=joint", "privacy.noise=own" };
    static const char *const enoughs[] = { "rounds.enough=0", "rounds.enough=4" };
    unsigned long ends[AGG_WHYS] = { 0 }, opens = 0, restores = 0, skips = 0;
    task o = { 0 };
    for (unsigned long walk = 0; walk < test_count(400, 20000); walk++) {
        if (walk % 4 == 0) {
            task_clear(&o);
            CHECK_OK(sample_task(&o, noises[walk / 4 % 2], enoughs[walk / 8 % 2],
                                 walk / 16 % 2 ? "rounds.patience=2" : "rounds.patience=0",
                                 "rounds.count=12", NULL));
        }
        agg *a = NULL;
        CHECK_OK(agg_new(&a, &o));
        uint64_t now = 1000, last_round = 1, open_attempt = 0, frozen_round = 0, skip_round = 0;
        uint32_t clients = 0, frozen_clients = 0;
        bool linked = false, freezing = false, over = false;
        for (int step = 0; step < 2000 && !over; step++) {
            agg_memory before = agg_remember(a);
            uint64_t asked = now;
            agg_order ord = agg_next(a, now);
            agg_memory kept = agg_remember(a); /* durable before the order is executed */
            assert_true(kept.round >= last_round &&
                        kept.attempt >= (kept.round == before.round ? before.attempt : 0));
            if (kept.round != last_round) {
                last_round = kept.round;
                open_attempt = 0;
                clients = frozen_clients = 0;
                freezing = false;
            }
            agg_event e = { .kind = AGG_EVENTS, .round = ord.round };
            uint64_t dice = seeded_below(&g, 10);
            switch (ord.kind) {
            case AGG_WAIT:
                now += seeded_below(&g, 400);
                if (ord.until_ms != UINT64_MAX && dice < 3 && ord.until_ms > now)
                    now = ord.until_ms;
                if (kept.phase == AGG_COLLECTING && dice < 5 && clients < o.clients_max)
                    e = (agg_event){ AGG_UPDATE, ord.round, ++clients };
                break;
            case AGG_DIAL:
                assert_false(linked);
                linked = dice < 8;
                e.kind = linked ? AGG_LINK_UP : AGG_LINK_DOWN;
                break;
            case AGG_SIGN:
                assert_true(linked);
                assert_false(kept.paused);
                e.kind = dice < 8 ? AGG_SIGNED : dice < 9 ? AGG_PUT_OFF : AGG_LINK_DOWN;
                break;
            case AGG_FREEZE:
                assert_false(freezing); /* never two of a round without a restart */
                assert_true(skip_round != ord.round);
                freezing = true;
                frozen_round = ord.round;
                assert_true(clients >= o.threshold);
                frozen_clients = clients;
                e = (agg_event){ AGG_FROZEN, ord.round, clients };
                break;
            case AGG_REVEAL:
                assert_true(linked && frozen_round == ord.round && skip_round != ord.round);
                assert_true(frozen_clients >= o.threshold && frozen_clients <= o.clients_max);
                assert_true(ord.attempt > open_attempt);
                open_attempt = ord.attempt;
                opens++;
                e.kind = dice < 6   ? AGG_REVEALED
                         : dice < 8 ? AGG_REVEAL_FAILED
                         : dice < 9 ? AGG_LINK_DOWN
                                    : (walk % 3 == 0 ? AGG_LOST : AGG_REVEAL_FAILED);
                if (walk % 50 == 7 && dice == 9)
                    e.kind = AGG_BUDGET;
                break;
            case AGG_RELEASE:
                assert_int_equal(frozen_round, ord.round);
                e.kind = dice < 5 ? AGG_RELEASED : AGG_BLOCKED;
                e.has_perplexity = true;
                e.perplexity = 100 + (double)seeded_below(&g, 100);
                break;
            case AGG_SKIP:
                assert_true(linked);
                skip_round = ord.round;
                skips++;
                e.kind = dice < 9 ? AGG_SKIPPED : AGG_LINK_DOWN;
                break;
            case AGG_FINISH:
                assert_true(ord.why != AGG_WHY_NONE && kept.phase == AGG_DONE);
                ends[ord.why]++;
                over = true;
                break;
            }
            if (kept.phase == AGG_SKIPPING)
                skip_round = kept.round;
            if (seeded_below(&g, 25) ==
                0) { /* kill -9: the answer may or may not have been noted */
                agg *b = NULL;
                CHECK_OK(agg_new(&b, &o));
                if (e.kind != AGG_EVENTS && seeded_below(&g, 2))
                    CHECK_OK(agg_on(a, &e, now));
                kept = agg_remember(a);
                kept.clients = kept.phase == AGG_COLLECTING ? clients : kept.clients;
                CHECK_OK(agg_restore(b, &kept, now));
                agg_free(a);
                a = b;
                linked = freezing = false;
                restores++;
                over = false;
                continue;
            }
            if (e.kind != AGG_EVENTS) {
                /* a state machine restored now would behave the same */
                agg *twin = NULL;
                CHECK_OK(agg_new(&twin, &o));
                CHECK_OK(agg_restore(twin, &kept, asked));
                CHECK_OK(agg_on(a, &e, now));
                CHECK_OK(agg_on(twin, &e, now));
                agg_memory x = agg_remember(a), y = agg_remember(twin);
                assert_true(x.phase == y.phase && x.round == y.round && x.attempt == y.attempt &&
                            x.deadline_ms == y.deadline_ms && x.extensions == y.extensions &&
                            x.clients == y.clients && x.skipped_in_row == y.skipped_in_row &&
                            x.blocked_in_row == y.blocked_in_row &&
                            x.rounds_without_gain == y.rounds_without_gain &&
                            x.best_perplexity == y.best_perplexity && x.why == y.why);
                agg_free(twin);
            }
            if (e.kind == AGG_LINK_DOWN)
                linked = false;
            if (seeded_below(&g, 1500) == 0)
                CHECK_OK(order(a, AGG_STOP, seeded_below(&g, 2), now));
            if (seeded_below(&g, 40) == 0)
                CHECK_OK(order(a, AGG_PAUSE, seeded_below(&g, 2), now));
            if (seeded_below(&g, 20) == 0)
                CHECK_OK(order(a, AGG_RESUME, false, now));
        }
        if (!over)
            fail_msg("walk %lu never ended: %s", walk, agg_phase_name(agg_get_phase(a)));
        agg_free(a);
    }
    task_clear(&o);
    /* the walks covered the interesting events */
    assert_true(opens > 1000 && restores > 500 && skips > 100);
    assert_true(ends[AGG_WHY_ROUNDS] > 0 && ends[AGG_WHY_CONVERGED] > 0 &&
                ends[AGG_WHY_STOPPED] > 0 && ends[AGG_WHY_BUDGET] > 0 && ends[AGG_WHY_BLOCKED] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_phase_with_every_event),
        cmocka_unit_test(test_a_whole_task),
        cmocka_unit_test(test_extensions_then_skip),
        cmocka_unit_test(test_too_small_a_set_is_never_opened),
        cmocka_unit_test(test_enough),
        cmocka_unit_test(test_enough_without_the_missing),
        cmocka_unit_test(test_the_operator_closes_a_round),
        cmocka_unit_test(test_attempt_not_begun),
        cmocka_unit_test(test_opening_again),
        cmocka_unit_test(test_the_link_while_collecting),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_orders_while_signing),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_csp_puts_off),
        cmocka_unit_test(test_restore),
        cmocka_unit_test(test_admission),
        cmocka_unit_test(test_random_walks),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
