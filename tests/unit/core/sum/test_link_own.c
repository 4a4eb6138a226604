/* Mode own over the link: where the seed of a server's noise is, and where it is not. Rounds with
 * several attempts are in test_link.c. */
#include "link_rounds.h"

#include "support/folder.h"

#include <unistd.h>

/* CSP ends after the header of round 1 (with set: after its verdict), and goes on from this copy of
 * its store, with a generator of its own as every process has. *stored: its secret bytes there. */
static void restored(bool set, uint64_t seed, int64_t noise[W_VALUES], sefl_buf *stored)
{
    world *w = world_new("pad", TASK_NOISE_OWN, W_VALUES);
    connection c;
    sefl_buf both = { 0 };
    bool kept;
    world_sum(w, 1);
    as_link *l = world_link(w, &c);
    round_header h = world_header(w, 1);
    CHECK_OK(world_sign(w, l, &h, &both));
    if (set)
        CHECK_OK(world_verdict(w, l, &h));
    as_link_free(l);
    disconnect(&c);
    const sefl_buf *key = &csp_memory_at(&w->c, 1)->record[CSP_KEY];
    CHECK_OK(wr_raw(stored, key->p, key->n));
    w->coins[1].seed = seed;
    connect_(&c, w, NULL, false);
    CHECK_OK(world_round(w, &c, 1, &kept, noise));
    disconnect(&c);
    for (size_t i = 0; i < W_VALUES; i++)
        noise[i] -= w->total[i];
    buf_clear(&both);
    world_free(w);
}

/* If CSP's noise followed from its store, an AS that cheats would get it twice from one copy, with
 * two sets of clients: the difference of the outputs would be one client's update. */
static void a_copied_store_has_no_noise(void **state)
{
    (void)state;
    for (int set = 0; set < 2; set++) {
        int64_t noise[3][W_VALUES];
        sefl_buf stored[3] = { 0 };
        size_t same = 0;
        for (int i = 0; i < 3; i++)
            restored(set, i == 2 ? 8 : 9, noise[i], &stored[i]);
        assert_true(stored[0].n == CSP_KEY_BYTES && stored[2].n == stored[0].n);
        assert_memory_equal(stored[0].p, stored[2].p, stored[0].n);
        assert_memory_equal(noise[0], noise[1], sizeof noise[0]); /* AS's noise is the same */
        for (size_t i = 0; i < W_VALUES; i++)
            same += noise[0][i] == noise[2][i];
        assert_true(same < W_VALUES / 2);
        for (int i = 0; i < 3; i++)
            buf_clear(&stored[i]);
    }
}

/* A server that is short of memory tries once a round to draw ahead, and keeps the seed. */
static void no_room_for_noise(void **state)
{
    (void)state;
    static const uint8_t seed[AHEAD_SEED] = { 7 };
    world *w = world_new("pad", TASK_NOISE_OWN, W_VALUES);
    task large = w->t;
    noise_ahead a = { 0 };
    large.values = SIZE_MAX / 4;
    assert_int_not_equal(ahead_draw(&a, &large, 1, seed, NULL), SEFL_OK);
    assert_int_equal(a.round, 1);
    assert_null(ahead_of(&a, 1, seed));
    assert_memory_equal(a.seed, seed, sizeof seed);
    ahead_drop(&a, &large);
    world_free(w);
}

/* ---- AS's driver ----------------------------------------------------------------------------- */

typedef struct driven {
    world_run x; /* first */
    world *w;
    as_memory memory;
    account *books[2];
} driven;

/* The wires look for the mask and the digest. */
static sefl_status show_wires(void *me, as_record what, uint64_t round, uint64_t attempt,
                              sefl_span bytes)
{
    world *w = ((world_run *)me)->w;
    if (what != AS_MASK && what != AS_REPLY)
        return SEFL_OK;
    w->attempt = attempt;
    return ma_put(&w->a, what, round, attempt, bytes);
}

/* Round 1, whose integers go to `got`. */
static void driven_begin(driven *d, const char *name, int64_t got[W_VALUES])
{
    world *w = world_new("pad", TASK_NOISE_OWN, W_VALUES);
    *d = (driven){ .w = w };
    snprintf(w->t.population, sizeof w->t.population, "people");
    for (int k = 0; k < 2; k++) {
        char book[32];
        snprintf(book, sizeof book, "ledger-%s-%d", name, k);
        CHECK_OK(ledger_create(folder_path(book), w->t.population));
        CHECK_OK(account_open(&d->books[k], NULL, folder_path(book), &w->t));
    }
    w->c.ledger = account_port(d->books[1]);
    world_sum(w, 1);
    world_run_init(&d->x, w);
    d->x.run.under = as_memory_store(&d->memory);
    d->x.run.c.account = d->books[0];
    d->x.run.put = show_wires;
    d->x.run.up.closed = w->sum;
    d->x.run.w = got;
}

static void driven_end(driven *d)
{
    d->w->c.ledger = mem_port(&d->w->book);
    account_close(d->books[0]);
    account_close(d->books[1]);
    as_memory_clear(&d->memory);
    world_free(d->w);
}

static sefl_status crash_before_release(void *me, const as_row *row)
{
    (void)me;
    return row->state == AGG_RELEASING ? sefl_fail(SEFL_EIO, "test: a crash") : SEFL_OK;
}

static sefl_status cannot_read_release(void *me, as_record what)
{
    (void)me;
    return what == AS_RELEASE ? sefl_fail(SEFL_ENOMEM, "test: no memory") : SEFL_OK;
}

/* Once its integers are stored, AS does not reveal the round again, even if it cannot read them. */
static void stored_integers_are_the_release(void **state)
{
    (void)state;
    int64_t got[W_VALUES] = { 0 };
    driven d;
    driven_begin(&d, "stored", got);
    d.x.run.step = crash_before_release;
    CHECK_STATUS(as_run_until(&d.x.run, 2, AGG_SIGNING), SEFL_EIO);
    d.x.run.step = NULL, d.x.run.get = cannot_read_release;
    CHECK_STATUS(as_run_until(&d.x.run, 2, AGG_SIGNING), SEFL_ENOMEM);
    d.x.run.get = NULL;
    CHECK_OK(as_run_until(&d.x.run, 2, AGG_SIGNING));
    assert_int_equal(csp_seen_at(&d.w->c, 1).reveals, 1);
    driven_end(&d);
}

#if SEFL_FAULTS
/* AS looks for the coins of the open round, and draws ahead next. CSP drew when it had sent the
 * header. */
static sefl_status short_of_memory(void *me, as_record what)
{
    if (what == AS_MASK && as_run_is_at(me, 1, AGG_COLLECTING) && !fault_was_hit()) {
        usleep(50000);
        fault_arm(FAULT_ALLOC, 1);
    }
    return SEFL_OK;
}

/* In a round while clients upload: the round goes on without the memory, and has the noise of the
 * seed. */
static void no_room_at_the_driver(void **state)
{
    (void)state;
    int64_t got[2][W_VALUES];
    for (int i = 0; i < 2; i++) {
        driven d;
        driven_begin(&d, i ? "short" : "plain", got[i]);
        d.x.run.get = i ? short_of_memory : NULL;
        const sefl_status st = as_run_until(&d.x.run, 2, AGG_SIGNING);
        const bool hit = fault_was_hit();
        fault_disarm();
        CHECK_OK(st);
        assert_int_equal(hit, i);
        driven_end(&d);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copied_store_has_no_noise),
        cmocka_unit_test(no_room_for_noise),
        cmocka_unit_test(stored_integers_are_the_release),
#if SEFL_FAULTS
        cmocka_unit_test(no_room_at_the_driver),
#endif
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
