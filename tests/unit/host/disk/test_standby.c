/* Two CSP processes over one PostgreSQL, as two connections here. Before each single write of the
 * active one's round, the other takes the lease and continues the round: whatever the first process
 * still tries fails, the round is charged once, and its first mark is the only one. (SQLite: one
 * process has the folder; tests/e2e/test_standby.sh does it with real processes.) */
#include "support/check.h"
#include "support/csp_desk.h"
#include "support/folder.h"
#include "support/store_place.h"

#include "base/clock.h"
#include "base/file.h"
#include "store/journal/lease.h"

#include <stdio.h>
#include <string.h>

static const uint8_t id_a[NOISE_ID] = { 1 }, id_b[NOISE_ID] = { 2 }, kem[CSP_KEY_BYTES] = { 3 };

typedef struct side {
    desk d;
    lease l;
} side;

static char state_a[300], state_b[300];

/* As a process starts: the lease first, then everything that reads the state. */
static void start(side *s, const char *store, const char *state, const char *who)
{
    char book[320];
    task t = desk_task();
    sefl_status st;
    *s = (side){ .d = { .coins = coins_system() } };
    snprintf(book, sizeof book, "%s.ledger", state);
    journal_place at = { .folder = state, .store = store_url(store), .root = store_root };
    CHECK_OK(journal_open_at(&s->d.j, &at, "csp", t.id));
    while ((st = lease_take(s->d.j, "csp", who, 1, &s->l)) == SEFL_ESTATE)
        clock_pause_ms(1);
    CHECK_OK(st);
    journal_guard(s->d.j, &s->l);
    CHECK_OK(account_disk_open(&s->d.a, s->d.j, book, &t));
    CHECK_OK(csp_disk_open(&s->d.jc, s->d.j, s->d.a, &s->d.coins));
    s->d.t = csp_disk_store(&s->d.jc);
}

/* ---- the active process, interrupted before its n-th write -------------------------------------- */

static struct {
    csp_store real;
    unsigned left; /* writes until the takeover; 0: it has happened */
    const char *store;
    side other;
} cut;

static void tick(void)
{
    if (cut.left > 0 && --cut.left == 0)
        start(&cut.other, cut.store, state_b, "other:2");
}

static sefl_status put(void *ctx, csp_record what, uint64_t round, sefl_span bytes)
{
    tick();
    return cut.real.put(ctx, what, round, bytes);
}
static sefl_status row_put(void *ctx, const csp_row *row)
{
    tick();
    return cut.real.row_put(ctx, row);
}
static sefl_status note(void *ctx, uint64_t round, const uint8_t digest[SHA256_BYTES])
{
    tick();
    return cut.real.note(ctx, round, digest);
}
static sefl_status charge(void *ctx, uint64_t round)
{
    tick();
    return cut.real.ledger.charge(ctx, round);
}

static sefl_status whole_round(const csp_store *s, const uint8_t id[NOISE_ID], const char *output)
{
    csp_round r = signed_round(1), now;
    SEFL_PASS(csp_store_get(s, 1, &now));
    if (now.state == CSP_NEW) {
        SEFL_PASS(csp_store_key_make(s, 1, kem));
        SEFL_PASS(csp_store_sign(s, &r));
    }
    SEFL_PASS(csp_store_charge(s, 1));
    if (now.state != CSP_REVEALED)
        SEFL_PASS(desk_reveal(s, 1, id, output));
    return SEFL_OK;
}

/* Returns false if the first process finished before its n-th write. */
static bool one_takeover(unsigned n)
{
    char store[32], book[320];
    side first;
    csp_round r;
    uint8_t id[NOISE_ID], digest[32];
    sefl_buf b = { 0 };
    task t = desk_task();
    snprintf(store, sizeof store, "standby-%u", n);
    snprintf(state_a, sizeof state_a, "%s-a", folder_path(store));
    snprintf(state_b, sizeof state_b, "%s-b", folder_path(store));
    snprintf(book, sizeof book, "%s.ledger", state_a);
    CHECK_OK(ledger_create(book, t.population));
    char key[200];
    snprintf(key, sizeof key, "%s", folder_path(store));
    start(&first, key, state_a, "first:1");
    cut.real = first.d.t;
    cut.left = n;
    cut.store = key;
    csp_store s = first.d.t;
    s.put = put, s.row_put = row_put, s.note = note, s.ledger.charge = charge;
    sefl_status st = whole_round(&s, id_a, "of the first");
    const bool taken = cut.left == 0;
    if (!taken) {
        CHECK_OK(st);
        desk_close(&first.d);
        return false;
    }
    CHECK_STATUS(st, SEFL_ESTATE); /* its next write failed, and it revealed nothing */
    CHECK_OK(csp_store_get(&cut.other.d.t, 1, &r));
    assert_true(r.state == CSP_NEW || r.state == CSP_SIGNED);
    CHECK_OK(whole_round(&cut.other.d.t, id_b, "of the other"));
    CHECK_STATUS(desk_reveal(&first.d.t, 1, id_a, "x"), SEFL_ESTATE);
    CHECK_STATUS(csp_store_charge(&first.d.t, 2), SEFL_ESTATE);
    CHECK_OK(csp_store_kept(&cut.other.d.t, 1, id, &b, digest));
    assert_memory_equal(id, id_b, sizeof id);
    assert_memory_equal(b.p, "of the other", b.n);
    ledger_total total;
    CHECK_OK(account_spent(cut.other.d.a, 0, &total));
    assert_int_equal(total.rounds, 1);
    buf_clear(&b);
    desk_close(&first.d);
    desk_close(&cut.other.d);
    /* and the first process, started again, finds the round as the other left it */
    start(&first, key, state_a, "first:3");
    CHECK_OK(csp_store_get(&first.d.t, 1, &r));
    assert_int_equal(r.state, CSP_REVEALED);
    desk_close(&first.d);
    return true;
}

static void before_each_write(void **state)
{
    (void)state;
    if (!store_is_pg())
        skip();
    unsigned n = 1;
    while (one_takeover(n))
        n++;
    printf("%u takeovers\n", n - 1);
    assert_true(n > 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(before_each_write) };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
