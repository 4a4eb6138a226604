#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "roles/journal_as.h"
#include "roles/journal_csp.h"

#include <string.h>

static task the_task(void)
{
    return (task){ .id = { 1 }, .population = "people", .values = 100 };
}

static const uint8_t set_a[32] = { 1 }, set_b[32] = { 2 };
static const uint8_t id_a[NOISE_ID] = { 3 }, id_b[NOISE_ID] = { 4 }, digest[32] = { 5 };

/* ---- CSP ----------------------------------------------------------------------------------- */

typedef struct desk {
    journal *j;
    account *a;
    journal_csp *jc;
    csp_journal t;
    sefl_coins coins;
} desk;

static sefl_status desk_open(desk *d, const char *name)
{
    sefl_status st = SEFL_OK;
    char path[300];
    task t = the_task();
    *d = (desk){ .coins = coins_system() };
    snprintf(path, sizeof path, "%s.ledger", folder_path(name));
    if (!file_exists(path))
        SEFL_TRY(ledger_create(path, "people"));
    SEFL_TRY(journal_open(&d->j, folder_path(name), "csp", t.id));
    SEFL_TRY(account_open(&d->a, d->j, path, &t));
    SEFL_TRY(journal_csp_new(&d->jc, d->j, d->a, &d->coins));
    d->t = journal_csp_table(d->jc);
done:
    return st;
}

static void desk_close(desk *d)
{
    journal_csp_free(d->jc);
    account_close(d->a);
    journal_close(d->j);
    *d = (desk){ 0 };
}

static void desk_again(desk *d, const char *name)
{
    desk_close(d);
    CHECK_OK(desk_open(d, name));
}

static csp_round signed_round(uint64_t round)
{
    csp_round r = { .round = round, .state = CSP_SIGNED };
    r.header = (round_header){
        .task = { 1 }, .round = round, .model = { (uint8_t)round }, .step_nano = 7
    };
    return r;
}

static void check_highest(desk *d, uint64_t s, uint64_t o, uint64_t k)
{
    uint64_t a, b, c;
    CHECK_OK(d->t.highest(d->t.ctx, &a, &b, &c));
    assert_true(a == s && b == o && c == k);
}

static void check_kept(desk *d, uint64_t round, const char *want)
{
    uint8_t id[NOISE_ID], dig[32];
    sefl_buf b = { 0 };
    CHECK_OK(d->t.kept(d->t.ctx, round, id, &b, dig));
    assert_memory_equal(id, id_a, sizeof id);
    assert_memory_equal(dig, digest, sizeof dig);
    assert_int_equal(b.n, strlen(want));
    assert_memory_equal(b.p, want, b.n);
    buf_clear(&b);
}

static void csp_rounds(void **state)
{
    (void)state;
    desk d;
    csp_round r, one = signed_round(1), two = signed_round(2);
    sefl_buf b = { 0 };
    uint8_t id[NOISE_ID], dig[32];
    CHECK_OK(desk_open(&d, "csp"));
    void *x = d.t.ctx;
    sefl_span said = span_of_str("statement"), out = span_of_str("the output");
    check_highest(&d, 0, 0, 0);
    CHECK_OK(d.t.get(x, 1, &r));
    assert_true(r.state == CSP_NEW && r.round == 1);
    CHECK_OK(d.t.get(x, UINT64_MAX, &r));
    assert_true(r.state == CSP_NEW);
    CHECK_STATUS(d.t.open(x, 1, said, id_a, out, digest), SEFL_ESTATE); /* not signed */
    CHECK_STATUS((d.t.skip)(x, 1, 2), SEFL_ESTATE);
    CHECK_OK(d.t.sign(x, &one));
    CHECK_STATUS(d.t.sign(x, &one), SEFL_ESTATE);
    CHECK_STATUS(d.t.forget(x, 1), SEFL_ESTATE);
    CHECK_STATUS(d.t.kept(x, 1, id, &b, dig), SEFL_ENOTFOUND);
    CHECK_STATUS(d.t.open(x, 1, said, id_a, out, digest), SEFL_ESTATE); /* not charged */
    assert_non_null(strstr(sefl_last_error(), "not charged"));
    check_highest(&d, 1, 0, 0);

    desk_again(&d, "csp"), x = d.t.ctx;
    CHECK_OK(d.t.get(x, 1, &r));
    assert_memory_equal(&r, &one, sizeof r);
    CHECK_OK(d.t.may_charge(x, 1));
    CHECK_OK(d.t.charge(x, 1));
    CHECK_OK(d.t.charge(x, 1));
    CHECK_OK(d.t.open(x, 1, said, id_a, out, digest));
    CHECK_STATUS(d.t.open(x, 1, said, id_b, span_of_str("other"), digest), SEFL_ESTATE);
    CHECK_STATUS((d.t.skip)(x, 1, 2), SEFL_ESTATE);
    CHECK_STATUS(d.t.sign(x, &one), SEFL_ESTATE);
    check_kept(&d, 1, "the output");

    desk_again(&d, "csp"), x = d.t.ctx;
    check_kept(&d, 1, "the output");
    check_highest(&d, 1, 1, 0);
    CHECK_OK(journal_fact_get(d.j, 1, "statement", &b));
    assert_int_equal(b.n, 9);
    CHECK_OK(d.t.sign(x, &two));
    CHECK_OK(d.t.forget(x, 1));
    CHECK_OK(d.t.forget(x, 1));
    CHECK_STATUS(d.t.kept(x, 1, id, &b, dig), SEFL_ENOTFOUND);
    CHECK_OK(d.t.get(x, 1, &r));
    assert_int_equal(r.state, CSP_OPENED); /* the mark stays */
    CHECK_STATUS(d.t.open(x, 1, said, id_b, out, digest), SEFL_ESTATE);
    CHECK_OK((d.t.skip)(x, 2, 3));
    CHECK_STATUS((d.t.skip)(x, 2, 3), SEFL_ESTATE);
    CHECK_OK(d.t.charge(x, 2));
    CHECK_STATUS(d.t.open(x, 2, said, id_b, out, digest), SEFL_ESTATE);
    check_highest(&d, 2, 1, 2);

    ledger_mark m, ours;
    CHECK_OK(d.t.ledger(x, &m));
    CHECK_OK(account_mark(d.a, &ours));
    assert_memory_equal(&m, &ours, sizeof m);
    assert_int_equal(d.t.compare(x, &m), LEDGERS_AGREE);
    desk_close(&d);
    buf_clear(&b);
}

/* A crash between the next header and the erasing of the round before: done at the next start. */
static void csp_forgets_later(void **state)
{
    (void)state;
    desk d;
    csp_round one = signed_round(1), two = signed_round(2);
    uint8_t id[NOISE_ID], dig[32];
    sefl_buf b = { 0 };
    CHECK_OK(desk_open(&d, "later"));
    CHECK_OK(d.t.sign(d.t.ctx, &one));
    CHECK_OK(d.t.charge(d.t.ctx, 1));
    CHECK_OK(d.t.open(d.t.ctx, 1, span_of_str("s"), id_a, span_of_str("output"), digest));
    desk_again(&d, "later");
    check_kept(&d, 1, "output"); /* nobody has the next header yet */
    CHECK_OK(d.t.sign(d.t.ctx, &two));
    check_kept(&d, 1, "output");
    desk_again(&d, "later");
    CHECK_STATUS(d.t.kept(d.t.ctx, 1, id, &b, dig), SEFL_ENOTFOUND);
    desk_close(&d);
}

/* The journal deleted, or an old copy put back, while the ledger stays. */
static void csp_journal_lost(void **state)
{
    (void)state;
    desk d;
    csp_round one = signed_round(1), two = signed_round(2);
    char now[300], old[310];
    snprintf(now, sizeof now, "%s", folder_path("lost"));
    snprintf(old, sizeof old, "%s.old", now);
    CHECK_OK(desk_open(&d, "lost"));
    CHECK_OK(d.t.sign(d.t.ctx, &one));
    CHECK_OK(d.t.charge(d.t.ctx, 1));
    CHECK_OK(d.t.open(d.t.ctx, 1, span_of_str("s"), id_a, span_of_str("output"), digest));
    CHECK_OK(d.t.sign(d.t.ctx, &two));
    CHECK_OK(d.t.charge(d.t.ctx, 2)); /* and a crash before the mark: fine */
    desk_again(&d, "lost");
    desk_close(&d);
    assert_int_equal(rename(now, old), 0);
    CHECK_STATUS(desk_open(&d, "lost"), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "charged 2 rounds"));
    assert_non_null(strstr(sefl_last_error(), "old copy"));
    desk_close(&d);
    CHECK_STATUS(desk_open(&d, "lost"), SEFL_ESTATE); /* still */
    desk_close(&d);
}

/* The steps of round 1: each is what CSP's folder holds at one moment. */
enum { EMPTY, SIGNED, MARKED, CHARGED, OPENED, NEXT_SIGNED, STEPS };

static void one_step(desk *d, int step)
{
    csp_round one = signed_round(1), two = signed_round(2);
    if (step == SIGNED)
        CHECK_OK(d->t.sign(d->t.ctx, &one));
    else if (step == MARKED) /* as if it had died before the charge */
        CHECK_OK(journal_fact_put(d->j, 1, "charging", span_of("1", 1)));
    else if (step == CHARGED)
        CHECK_OK(d->t.charge(d->t.ctx, 1));
    else if (step == OPENED)
        CHECK_OK(d->t.open(d->t.ctx, 1, span_of_str("s"), id_a, span_of_str("output"), digest));
    else if (step == NEXT_SIGNED)
        CHECK_OK(d->t.sign(d->t.ctx, &two));
}

/* A copy of the state folder of every step, put back at every later one, while the ledger stays: the
 * task is refused, or the round is skipped for good, or it is open with the output that it had; only
 * where nothing was charged, or the copy knows of the charge and nothing was opened, is it opened. */
static void csp_old_copies(void **state)
{
    (void)state;
    char now[300], copy[STEPS][320];
    snprintf(now, sizeof now, "%s", folder_path("old"));
    for (int then = 0; then < STEPS; then++) {
        desk d;
        CHECK_OK(desk_open(&d, "old"));
        one_step(&d, then);
        desk_close(&d);
        snprintf(copy[then], sizeof copy[then], "%s-%d", now, then);
        folder_copy(copy[then], now);
        for (int from = 0; from < then; from++) {
            csp_round r;
            folder_copy(now, copy[from]);
            sefl_status st = desk_open(&d, "old");
            if (from == EMPTY && then >= CHARGED) {
                CHECK_STATUS(st, SEFL_ESTATE);
                assert_non_null(strstr(sefl_last_error(), "old copy"));
                desk_close(&d);
                continue;
            }
            CHECK_OK(st);
            CHECK_OK(d.t.get(d.t.ctx, 1, &r));
            if (from == OPENED) {
                assert_int_equal(r.state, CSP_OPENED);
                check_kept(&d, 1, "output");
            } else if (then >= OPENED || (then == CHARGED && from == SIGNED)) {
                assert_int_equal(r.state, CSP_SKIPPED);
                assert_int_equal(r.skip, CSP_SKIP_OLD_STATE);
                CHECK_OK(d.t.charge(d.t.ctx, 1));
                CHECK_STATUS(d.t.open(d.t.ctx, 1, span_of_str("s"), id_b, span_of_str("x"), digest),
                             SEFL_ESTATE);
            } else {
                assert_int_equal(r.state, from == EMPTY ? CSP_NEW : CSP_SIGNED);
            }
            desk_close(&d);
        }
        folder_copy(now, copy[then]);
    }
}

/* Died in the middle of an opening: after the charge it is opened then; after the note beside the
 * ledger it is open, with that output. */
static void csp_opening_interrupted(void **state)
{
    (void)state;
    desk d;
    csp_round r;
    journal_round row;
    CHECK_OK(desk_open(&d, "half"));
    for (int step = SIGNED; step <= CHARGED; step++) {
        one_step(&d, step);
        desk_again(&d, "half");
        CHECK_OK(d.t.get(d.t.ctx, 1, &r));
        assert_int_equal(r.state, CSP_SIGNED);
    }
    one_step(&d, OPENED);
    CHECK_OK(journal_round_get(d.j, 1, &row));
    row.state = CSP_SIGNED;
    CHECK_OK(journal_round_put(d.j, &row));
    desk_again(&d, "half");
    check_kept(&d, 1, "output");
    CHECK_OK(d.t.get(d.t.ctx, 1, &r));
    assert_int_equal(r.state, CSP_OPENED);
    desk_close(&d);
}

static sefl_status whole_round(desk *d, uint64_t round)
{
    sefl_status st = SEFL_OK;
    csp_round r = signed_round(round), now;
    SEFL_TRY(d->t.get(d->t.ctx, round, &now));
    if (now.state == CSP_NEW)
        SEFL_TRY(d->t.sign(d->t.ctx, &r));
    SEFL_TRY(d->t.charge(d->t.ctx, round));
    if (now.state != CSP_OPENED)
        SEFL_TRY(d->t.open(d->t.ctx, round, span_of_str("s"), id_a, span_of_str("output"), digest));
    SEFL_TRY(d->t.forget(d->t.ctx, round));
done:
    return st;
}

static void csp_faults(void **state)
{
    (void)state;
#if SEFL_FAULTS
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC, FAULT_READ };
    desk d;
    uint64_t round = 1;
    CHECK_OK(desk_open(&d, "faults"));
    for (size_t k = 0; k < 4; k++)
        for (uint64_t nth = 1;; nth++, round++) {
            csp_round now;
            fault_arm(kinds[k], nth);
            sefl_status st = whole_round(&d, round);
            bool hit = fault_was_hit();
            fault_disarm();
            assert_int_equal(hit, st != SEFL_OK);
            CHECK_OK(d.t.get(d.t.ctx, round, &now));
            CHECK_OK(whole_round(&d, round)); /* goes on */
            if (!hit)
                break;
        }
    desk_close(&d);
    for (size_t k = 0; k < 4; k++)
        TEST_FAULTS(kinds[k], st = desk_open(&d, "faults");
                    if (st != SEFL_OK) desk_close(&d), desk_close(&d));
#endif
}

/* ---- AS ------------------------------------------------------------------------------------ */

static void as_rounds(void **state)
{
    (void)state;
    journal *j;
    journal_as *ja;
    sefl_coins coins = coins_system();
    uint8_t seed[AHE_SEED_BYTES] = { 9 }, other[AHE_SEED_BYTES] = { 8 }, got[AHE_SEED_BYTES];
    uint64_t attempt;
    static uint32_t v[1000], w[1000];
    sefl_buf b = { 0 };
    for (size_t i = 0; i < 1000; i++)
        v[i] = (uint32_t)(i * 2654435761u);
    CHECK_OK(journal_open(&j, folder_path("as"), "aggregator", set_a));
    CHECK_OK(journal_as_new(&ja, j, &coins));
    as_journal t = journal_as_table(ja);
    CHECK_STATUS(t.masked(ja, 3, &attempt, got), SEFL_ENOTFOUND);
    CHECK_STATUS(t.sealed(ja, 3, id_a, &b, w, 1000), SEFL_ENOTFOUND);
    CHECK_STATUS(t.seal(ja, 3, id_a, span_of_str("bits"), v, 1000),
                 SEFL_ENOTFOUND); /* no mask yet */
    CHECK_OK(t.mask(ja, 3, 5, set_a, seed));
    CHECK_STATUS(t.mask(ja, 3, 5, set_a, other), SEFL_ESTATE);
    CHECK_STATUS(t.mask(ja, 3, 4, set_a, other), SEFL_ESTATE);
    CHECK_STATUS(t.mask(ja, 3, 6, set_b, other), SEFL_ESTATE); /* never on another set */
    CHECK_STATUS(t.mask(ja, 3, 6, set_a, seed), SEFL_ESTATE);  /* never twice */
    CHECK_OK(t.seal(ja, 3, id_a, span_of_str("bits"), v, 1000));
    CHECK_STATUS(t.seal(ja, 3, id_a, span_of_str("bits"), v, 1000), SEFL_ESTATE);
    journal_as_free(ja);
    journal_close(j);

    CHECK_OK(journal_open(&j, folder_path("as"), "aggregator", set_a));
    CHECK_OK(journal_as_new(&ja, j, &coins));
    CHECK_OK(t.masked(ja, 3, &attempt, got));
    assert_int_equal(attempt, 5);
    assert_memory_equal(got, seed, sizeof got);
    CHECK_STATUS(t.sealed(ja, 3, id_b, &b, w, 1000), SEFL_ENOTFOUND);
    CHECK_STATUS(t.sealed(ja, 3, id_a, &b, w, 999), SEFL_EINVAL);
    CHECK_OK(t.sealed(ja, 3, id_a, &b, w, 1000));
    assert_int_equal(b.n, 4);
    assert_memory_equal(b.p, "bits", 4);
    assert_memory_equal(w, v, sizeof v);
    CHECK_OK(t.mask(ja, 3, 6, set_a, other)); /* the next attempt */
    CHECK_OK(t.seal(ja, 3, id_b, span_of_str("b"), v, 1000));
    CHECK_STATUS(t.sealed(ja, 3, id_a, &b, w, 1000), SEFL_ENOTFOUND);
    CHECK_OK(t.masked(ja, 3, &attempt, got));
    assert_int_equal(attempt, 6);
    CHECK_OK(journal_round_wipe(j, 3));
    CHECK_STATUS(t.masked(ja, 3, &attempt, got), SEFL_ENOTFOUND);
    CHECK_STATUS(t.sealed(ja, 3, id_b, &b, w, 1000), SEFL_ENOTFOUND);
    journal_as_free(ja);
    journal_close(j);
    buf_clear(&b);
}

static void as_faults(void **state)
{
    (void)state;
#if SEFL_FAULTS
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC, FAULT_READ };
    journal *j;
    journal_as *ja;
    sefl_coins coins = coins_system();
    static uint32_t v[1000], w[1000];
    uint64_t round = 0, attempt;
    sefl_buf b = { 0 };
    CHECK_OK(journal_open(&j, folder_path("as-faults"), "aggregator", set_a));
    CHECK_OK(journal_as_new(&ja, j, &coins));
    as_journal t = journal_as_table(ja);
    for (size_t k = 0; k < 4; k++)
        for (uint64_t nth = 1, tries = 0;; nth++) {
            uint8_t seed[AHE_SEED_BYTES], id[NOISE_ID] = { 0 }, got[AHE_SEED_BYTES];
            memset(seed, (int)++tries, sizeof seed);
            store_u64(id, tries);
            fault_arm(kinds[k], nth);
            sefl_status st = t.mask(ja, round, tries, set_a, seed);
            if (st == SEFL_OK)
                st = t.seal(ja, round, id, span_of_str("bits"), v, 1000);
            if (st == SEFL_OK)
                st = t.masked(ja, round, &attempt, got);
            buf_clear(&b);
            if (st == SEFL_OK)
                st = t.sealed(ja, round, id, &b, w, 1000);
            bool hit = fault_was_hit();
            fault_disarm();
            assert_int_equal(hit, st != SEFL_OK);
            if (!hit) {
                round++;
                break;
            }
        }
    journal_as_free(ja);
    journal_close(j);
    buf_clear(&b);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csp_rounds),       cmocka_unit_test(csp_forgets_later),
        cmocka_unit_test(csp_journal_lost), cmocka_unit_test(csp_faults),
        cmocka_unit_test(csp_old_copies),   cmocka_unit_test(csp_opening_interrupted),
        cmocka_unit_test(as_rounds),        cmocka_unit_test(as_faults),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
