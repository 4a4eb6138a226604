/* The age of a round key when clocks jump, the machine restarts, or another one takes over. Other
 * tests cover a key that expires. */
#include "unit/core/sum/link_rounds.h"
#include "unit/core/sum/link_sets.h"

#include "support/folder.h"

enum { MINUTE = 60 * 1000, HOUR = 60 * MINUTE, LIFE = 1000 + 2 * 500 + 24 * HOUR };
#define THREE_YEARS (UINT64_C(3) * 365 * 24 * HOUR)

/* So that no clock goes below zero. */
static world *at_noon(void)
{
    world *w = sealed_world();
    w->wall_ms = w->as_ms = UINT64_C(1800000000000);
    return w;
}

static void pass(world *w, uint64_t ms)
{
    w->wall_ms += ms, w->as_ms += ms, w->boot_ms += ms;
}

/* The machine was off for so long. Its boot time begins again. */
static void off(world *w, uint64_t ms)
{
    pass(w, ms);
    w->boot_ms = 100 * MINUTE, w->boot_id++;
}

/* A round whose header CSP has signed; CSP has died since. */
static void signed_round(world *w)
{
    connection c;
    greet(&c, w);
    begin_round(&c, w, 1);
    disconnect(&c);
}

static uint32_t hello(connection *c, world *w)
{
    sefl_buf b = { 0 };
    connect_(c, w, NULL, false);
    put_hello(&b, w, &w->a.ledger, LINK_VERSION);
    uint32_t got = say_buf(c, LINK_HELLO, &b);
    buf_clear(&b);
    return got;
}

static void hello_gets(world *w, uint32_t want, bool key)
{
    connection c;
    assert_int_equal(hello(&c, w), want);
    disconnect(&c);
    assert_int_equal(csp_seen_at(&w->c, 1).has_key, key);
    assert_int_equal(csp_seen_at(&w->c, 1).r.state, key ? CSP_SIGNED : CSP_SKIPPED);
}

/* In one boot only boot time counts, whatever the wall clocks show. */
static void wall_clocks_that_jump(void **state)
{
    (void)state;
    for (int back = 0; back < 2; back++)
        for (int restart = 0; restart < 2; restart++) {
            world *w = at_noon();
            sefl_buf b = { 0 };
            connection c;
            uint8_t reason[4];
            greet(&c, w);
            round_header h = begin_round(&c, w, 1);
            pass(w, HOUR);
            w->wall_ms = back ? w->wall_ms - THREE_YEARS : w->wall_ms + THREE_YEARS;
            if (restart) {
                disconnect(&c);
                greet(&c, w);
            }
            put_head(&b, w, 0, &h);
            assert_int_equal(say_early(&c, 1, &b, reason, 1), LINK_EARLY);
            assert_true(csp_seen_at(&w->c, 1).has_key);
            pass(w, LIFE - HOUR); /* no time is lost, either */
            CHECK_OK(csp_expire(c.server));
            assert_true(csp_seen_at(&w->c, 1).has_key);
            pass(w, 1);
            put_head(&b, w, 1, &h);
            assert_int_equal(say_early(&c, 1, &b, reason, 1), LINK_NO_SKIPPED);
            assert_false(csp_seen_at(&w->c, 1).has_key);
            disconnect(&c);
            buf_clear(&b);
            world_free(w);
        }
}

/* Another boot or another machine (a standby), with clocks that agree: nothing stops, and the time
 * in between counts. */
static void a_reboot_with_right_clocks(void **state)
{
    (void)state;
    world *w = at_noon();
    connection c;
    signed_round(w);
    off(w, 10 * HOUR);
    w->as_ms += 59 * 1000; /* as good as equal */
    assert_int_equal(hello(&c, w), LINK_WELCOME);
    assert_false(csp_is_unsure(c.server));
    assert_int_equal(csp_expires_ms(c.server) - csp_key_time_ms(c.server), LIFE - 10 * HOUR);
    disconnect(&c);
    hello_gets(w, LINK_WELCOME, true); /* in the same boot again */
    off(w, LIFE - 10 * HOUR);
    hello_gets(w, LINK_WELCOME, true);
    off(w, 1);
    hello_gets(w, LINK_WELCOME, false);
    world_free(w);
}

/* A wrong clock after a reboot: CSP neither expires the key nor answers AS, until the clock is
 * right, or the operator says so. */
static void a_reboot_with_a_wrong_clock(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        world *w = at_noon();
        connection c;
        const bool ahead = how % 2 == 0, confirm = how / 2 == 0;
        signed_round(w);
        off(w, HOUR);
        const uint64_t right = w->wall_ms;
        w->wall_ms = ahead ? right + THREE_YEARS : right - THREE_YEARS;
        hello_gets(w, LINK_NO_CLOCK, true);
        pass(w, HOUR);
        hello_gets(w, LINK_NO_CLOCK, true);
        if (!confirm) {
            w->wall_ms = w->as_ms;
            assert_int_equal(hello(&c, w), LINK_WELCOME);
            assert_int_equal(csp_expires_ms(c.server) - csp_key_time_ms(c.server), LIFE - 2 * HOUR);
            disconnect(&c);
        } else {
            connection_init(&c, w);
            assert_true(csp_is_unsure(c.server));
            csp_confirm_clock(c.server);
            CHECK_OK(csp_expire(c.server)); /* without AS */
            assert_false(csp_is_unsure(c.server));
            csp_free(c.server);
            /* a confirmed clock that is ahead expires the key; one that is behind adds nothing */
            hello_gets(w, LINK_WELCOME, !ahead);
        }
        world_free(w);
    }
}

/* The clock of CSP's machine begins again, and AS lies: it shows the same wrong time, so that the
 * time that the machine was off would not count. CSP's own record contradicts both. */
static void as_lies_along(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        world *w = at_noon();
        connection c;
        signed_round(w);
        const uint64_t signed_at = w->wall_ms;
        off(w, UINT64_C(40) * 24 * HOUR);
        const uint64_t right = w->wall_ms;
        w->wall_ms = w->as_ms = how == 0 ? right - THREE_YEARS : signed_at - MINUTE - 1;
        hello_gets(w, LINK_NO_CLOCK, true);
        connection_init(&c, w); /* the running time moves both: it makes no wrong clock right */
        pass(w, HOUR);
        CHECK_OK(csp_expire(c.server));
        csp_free(c.server);
        hello_gets(w, LINK_NO_CLOCK, true);
        if (how == 0) { /* the right time: 40 days count */
            w->wall_ms = w->as_ms = right + HOUR;
            hello_gets(w, LINK_WELCOME, false);
        } else { /* as good as the record */
            w->wall_ms++, w->as_ms++;
            hello_gets(w, LINK_WELCOME, true);
        }
        world_free(w);
    }
}

/* AS disagrees, or does not come: the key still dies once CSP has run for its lifetime, over any
 * number of restarts. */
static void as_keeps_no_key_alive(void **state)
{
    (void)state;
    world *w = at_noon();
    connection c;
    signed_round(w);
    for (int i = 0; i < 24; i++) {
        off(w, HOUR);
        w->as_ms += THREE_YEARS;
        connection_init(&c, w);
        if (i % 2)
            csp_free(c.server);
        for (int m = 0; m < 60 && i % 2 == 0; m++) { /* it runs for an hour */
            pass(w, MINUTE);
            CHECK_OK(csp_expire(c.server));
        }
        if (i % 2 == 0)
            csp_free(c.server);
        assert_true(csp_seen_at(&w->c, 1).has_key);
    }
    /* 12 hours of running time are certain; and the rest is not forgotten */
    connection_init(&c, w);
    assert_true(csp_is_unsure(c.server));
    assert_int_equal(csp_expires_ms(c.server) - csp_key_time_ms(c.server), LIFE - 12 * HOUR);
    pass(w, LIFE - 12 * HOUR);
    CHECK_OK(csp_expire(c.server));
    assert_true(csp_seen_at(&w->c, 1).has_key);
    pass(w, 1);
    CHECK_OK(csp_expire(c.server));
    assert_false(csp_seen_at(&w->c, 1).has_key);
    assert_false(csp_is_unsure(c.server));
    csp_free(c.server);
    hello_gets(w, LINK_WELCOME, false); /* no key: no matter */
    world_free(w);
}

/* An unsure CSP that restarts still knows how long the machine was off. */
static void unsure_twice(void **state)
{
    (void)state;
    world *w = at_noon();
    connection c;
    signed_round(w);
    const uint64_t from = w->as_ms;
    for (int i = 0; i < 5; i++) {
        off(w, HOUR);
        w->as_ms += THREE_YEARS;
        hello_gets(w, LINK_NO_CLOCK, true);
        pass(w, 2 * MINUTE);
        w->as_ms -= THREE_YEARS;
    }
    off(w, HOUR);
    assert_int_equal(hello(&c, w), LINK_WELCOME);
    assert_int_equal(csp_expires_ms(c.server) - csp_key_time_ms(c.server),
                     LIFE - (w->as_ms - from));
    disconnect(&c);
    world_free(w);
}

/* A machine that does not tell its boot id: each start of the process is like a reboot. */
static void without_a_boot_id(void **state)
{
    (void)state;
    world *w = at_noon();
    w->boot_id = 0;
    signed_round(w);
    pass(w, HOUR);
    hello_gets(w, LINK_WELCOME, true);
    w->wall_ms += THREE_YEARS;
    hello_gets(w, LINK_NO_CLOCK, true);
    world_free(w);
}

static bool answer_is_lost;

static sefl_status row_put(void *ctx, const csp_row *row)
{
    const csp_store s = csp_memory_store(ctx);
    sefl_status st = s.row_put(s.ctx, row);
    return st == SEFL_OK && answer_is_lost ? sefl_fail(SEFL_EIO, "test: no answer") : st;
}

/* The header's row is durable, but the store says that the write failed: the key expires. */
static void a_header_whose_write_seems_to_fail(void **state)
{
    (void)state;
    world *w = at_noon();
    csp_store late = csp_memory_store(&w->c);
    connection c;
    sefl_buf b = { 0 };
    round_header h = world_header(w, 1);
    late.row_put = row_put;
    w->disk = &late;
    greet(&c, w);
    assert_int_equal(ask_key(&c, &h), LINK_KEY);
    put_header(&b, w, &h, w->as);
    answer_is_lost = true;
    assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_FAULT);
    answer_is_lost = false;
    assert_int_equal(say_buf(&c, LINK_PING, &b), 0); /* the stream has ended */
    assert_int_equal(csp_seen_at(&w->c, 1).r.state, CSP_SIGNED);
    pass(w, LIFE);
    CHECK_OK(csp_expire(c.server));
    assert_true(csp_seen_at(&w->c, 1).has_key);
    pass(w, 1);
    CHECK_OK(csp_expire(c.server));
    assert_false(csp_seen_at(&w->c, 1).has_key);
    disconnect(&c);
    buf_clear(&b);
    world_free(w);
}

/* ---- a header whose answer was lost ---------------------------------------------------------- */

static sefl_status crash_at_header(void *me, as_record what, uint64_t round, uint64_t attempt,
                                   sefl_span bytes)
{
    (void)me, (void)attempt, (void)bytes;
    return what == AS_HEADER && round == 1 ? sefl_fail(SEFL_EIO, "test: a crash") : SEFL_OK;
}

/* After WELCOME, before AS asks for the key again. */
static void key_expires(void *me, as_link *link)
{
    if (link && as_run_is_at(me, 1, AGG_SIGNING))
        pass(((world_run *)me)->w, LIFE + 1);
}

static void round_was_revealed(void *me, as_link *link)
{
    if (link)
        ((world_run *)me)->w->c.round[1]->row.state = CSP_REVEALED;
}

/* CSP has signed a header that AS lost in a crash. If the key of that round expires then, the round
 * is lost, and the task goes on; if CSP has revealed it, AS's state is an old copy. */
static void the_answer_to_a_header_is_lost(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        world *w = at_noon();
        world_run x;
        as_memory memory = { 0 };
        const char *book = folder_path(old ? "old" : "expired");
        snprintf(w->t.population, sizeof w->t.population, "people");
        world_run_init(&x, w);
        CHECK_OK(ledger_create(book, w->t.population));
        CHECK_OK(account_open(&x.run.c.account, NULL, book, &w->t));
        w->c.ledger = account_port(x.run.c.account); /* no round is charged here */
        x.run.under = as_memory_store(&memory);
        x.run.c.strict = false;
        x.run.put = crash_at_header;
        CHECK_STATUS(as_run_until(&x.run, 1, AGG_COLLECTING), SEFL_EIO);
        assert_int_equal(csp_seen_at(&w->c, 1).r.state, CSP_SIGNED);

        x.run.put = NULL;
        x.run.between = old ? round_was_revealed : key_expires;
        CHECK_STATUS(as_run_until(&x.run, 2, AGG_COLLECTING), old ? SEFL_ESTATE : SEFL_OK);
        if (!old) {
            assert_int_equal(csp_seen_at(&w->c, 1).r.skip, CSP_SKIP_EXPIRED);
            assert_int_equal(csp_seen_at(&w->c, 2).r.state, CSP_SIGNED);
        }
        w->c.ledger = mem_port(&w->book);
        account_close(x.run.c.account);
        as_memory_clear(&memory);
        world_free(w);
    }
}

static void the_systems_clocks(void **state)
{
    (void)state;
    uint8_t one[CLOCK_BOOT_ID], two[CLOCK_BOOT_ID], none[CLOCK_BOOT_ID] = { 0 };
    sefl_clock boot = clock_boot(), mono = clock_monotonic();
    assert_true(clock_ns(&boot) >= clock_ns(&mono) - 1000000000u);
    assert_int_equal(clock_boot_id(one), memcmp(one, none, sizeof one) != 0);
    assert_int_equal(clock_boot_id(two), memcmp(two, none, sizeof two) != 0);
    assert_memory_equal(one, two, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wall_clocks_that_jump),
        cmocka_unit_test(a_reboot_with_right_clocks),
        cmocka_unit_test(a_reboot_with_a_wrong_clock),
        cmocka_unit_test(as_lies_along),
        cmocka_unit_test(as_keeps_no_key_alive),
        cmocka_unit_test(unsure_twice),
        cmocka_unit_test(without_a_boot_id),
        cmocka_unit_test(a_header_whose_write_seems_to_fail),
        cmocka_unit_test(the_answer_to_a_header_is_lost),
        cmocka_unit_test(the_systems_clocks),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
