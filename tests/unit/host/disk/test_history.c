/* Correlated noise: the record HISTORY of both roles in the store. It outlives the wipe of its round
 * and a restart, is replaced whole or not at all, goes when it is no longer kept, and in a database
 * opens only with the root and is written only with the lease. */
#include "support/check.h"
#include "support/folder.h"
#include "support/store_place.h"

#include "base/alloc.h"
#include "base/fault.h"
#include "store/disk/as_disk.h"
#include "store/disk/csp_disk.h"
#include "store/journal/lease.h"

#include <string.h>

enum { BYTES = (2 << 20) + 5 }; /* several pieces of a database */
static const uint8_t task_a[32] = { 1 }, task_b[32] = { 2 };

typedef struct role {
    bool csp;
    journal *j;
    sefl_coins coins;
    as_disk a;
    csp_disk c;
    as_store as;
    csp_store cs;
} role;

static const char *place_of(bool csp)
{
    return folder_path(csp ? "csp" : "as");
}

static void begin(role *r, bool csp, const uint8_t *id, const uint8_t *root)
{
    *r = (role){ .csp = csp, .coins = coins_system() };
    journal_place at = { .folder = place_of(csp), .root = root };
    at.store = store_is_pg() ? store_url(place_of(csp)) : NULL;
    CHECK_OK(journal_open_at(&r->j, &at, csp ? "csp" : "aggregator", id));
    r->a = (as_disk){ .j = r->j, .coins = &r->coins };
    r->c = (csp_disk){ .j = r->j, .coins = &r->coins };
    r->as = as_disk_store(&r->a);
    r->cs = (csp_store){ .ctx = &r->c };
    if (csp)
        r->cs = csp_disk_store(&r->c);
}

/* The record number `what`. */
static void fill(uint8_t *p, unsigned what)
{
    for (size_t i = 0; i < BYTES; i++)
        p[i] = (uint8_t)(what + (i >> 12));
}

static sefl_status put(role *r, uint64_t round, unsigned what)
{
    uint8_t *p;
    SEFL_PASS(sefl_new(&p, BYTES, 1));
    fill(p, what);
    const sefl_span s = span_of(p, BYTES);
    sefl_status st = r->csp ? r->cs.put(r->cs.ctx, CSP_HISTORY, round, s)
                            : r->as.put(r->as.ctx, AS_HISTORY, round, 1, s);
    sefl_free(p);
    return st;
}

static sefl_status get(role *r, uint64_t round, sefl_buf *out)
{
    return r->csp ? r->cs.get(r->cs.ctx, CSP_HISTORY, round, out)
                  : r->as.get(r->as.ctx, AS_HISTORY, round, out);
}

static sefl_status keep(role *r, uint64_t from, uint64_t to)
{
    return r->csp ? r->cs.history_keep(r->cs.ctx, from, to)
                  : r->as.history_keep(r->as.ctx, from, to);
}

static bool is(role *r, uint64_t round, unsigned what)
{
    sefl_buf b = { 0 };
    uint8_t *want;
    CHECK_OK(sefl_new(&want, BYTES, 1));
    fill(want, what);
    CHECK_OK(get(r, round, &b));
    bool same = b.n == BYTES && memcmp(b.p, want, BYTES) == 0;
    buf_clear(&b);
    sefl_free(want);
    return same;
}

static void is_gone(role *r, uint64_t round)
{
    sefl_buf b = { 0 };
    CHECK_STATUS(get(r, round, &b), SEFL_ENOTFOUND);
    buf_clear(&b);
}

static void lives_and_goes(void **state)
{
    (void)state;
    for (int csp = 0; csp < 2; csp++) {
        role r;
        begin(&r, csp, task_a, store_root);
        is_gone(&r, 1);
        for (uint64_t n = 1; n <= 4; n++)
            CHECK_OK(put(&r, n, (unsigned)n));
        CHECK_OK(put(&r, 4, 40)); /* another attempt */
        const sefl_rng rng = rng_system();
        CHECK_OK(journal_secret_put(r.j, 4, "mask", span_of_str("m"), &rng));
        CHECK_OK(journal_round_wipe(r.j, 4));
        journal_close(r.j);

        begin(&r, csp, task_a, store_root);
        assert_true(is(&r, 1, 1) && is(&r, 3, 3) && is(&r, 4, 40));
        CHECK_OK(keep(&r, 3, 4));
        is_gone(&r, 1);
        is_gone(&r, 2);
        assert_true(is(&r, 3, 3) && is(&r, 4, 40));
        if (store_is_pg()) {
            assert_int_equal(store_count(place_of(csp), "round_key WHERE kind = 2"), 2);
            assert_int_equal(store_count(place_of(csp), "file"), 2 * 3);
            /* each record has thousands of bytes 0x42, one after another: encrypted */
            assert_int_equal(store_count(place_of(csp),
                                         "file WHERE position(decode(repeat('42', 64), 'hex') IN "
                                         "bytes) > 0"),
                             0);
        }
        journal_close(r.j);

        begin(&r, csp, task_b, store_root); /* the next task destroys what the one before left */
        is_gone(&r, 3);
        CHECK_OK(put(&r, 1, 7));
        CHECK_OK(keep(&r, 1, 1));
        assert_true(is(&r, 1, 7));
        journal_close(r.j);
        begin(&r, csp, task_a, store_root);
        is_gone(&r, 3);
        is_gone(&r, 4);
        CHECK_OK(keep(&r, 1, 0));
        journal_close(r.j);
        if (store_is_pg()) {
            assert_int_equal(store_count(place_of(csp), "round_key"), 0);
            assert_int_equal(store_count(place_of(csp), "file"), 0);
        }
    }
}

/* The store fails in the middle: the record is the old one or the new one. */
static void whole_or_not(void **state)
{
    (void)state;
#if SEFL_FAULTS
    static const fault_kind kinds[] = { FAULT_WRITE, FAULT_SYNC };
    for (int csp = 0; csp < 2; csp++) {
        role r;
        unsigned now = 1, failed = 0;
        begin(&r, csp, task_a, store_root);
        CHECK_OK(put(&r, 1, now));
        for (size_t k = 0; k < 2; k++)
            for (uint64_t nth = 1;; nth++) {
                fault_arm(kinds[k], nth);
                sefl_status st = put(&r, 1, now + 1);
                bool hit = fault_was_hit();
                fault_disarm();
                assert_true(hit || st == SEFL_OK);
                assert_true(st == SEFL_OK ? is(&r, 1, now + 1)
                                          : is(&r, 1, now) || is(&r, 1, now + 1));
                now = is(&r, 1, now + 1) ? now + 1 : now;
                failed += st != SEFL_OK;
                if (!hit)
                    break;
            }
        assert_true(failed >= 2);
        CHECK_OK(keep(&r, 1, 0));
        journal_close(r.j);
    }
#endif
}

/* Without the root the rows open nothing; without the lease a process neither writes nor destroys. */
static void root_and_lease(void **state)
{
    (void)state;
    static const uint8_t other_root[32] = "another root";
    if (!store_is_pg())
        skip();
    for (int csp = 0; csp < 2; csp++) {
        role r, thief;
        lease l, next;
        sefl_buf b = { 0 };
        begin(&r, csp, task_a, store_root);
        CHECK_OK(put(&r, 1, 1));
        begin(&thief, csp, task_a, other_root);
        CHECK_STATUS(get(&thief, 1, &b), SEFL_ECRYPTO);
        assert_int_equal(b.n, 0);
        journal_close(thief.j);
        CHECK_OK(lease_take(r.j, "x", "me", 60000, &l));
        journal_guard(r.j, &l);
        CHECK_OK(put(&r, 2, 2));
        CHECK_OK(lease_release(r.j, &l));
        CHECK_OK(lease_take(r.j, "x", "other", 60000, &next));
        CHECK_STATUS(put(&r, 2, 3), SEFL_ESTATE);
        CHECK_STATUS(put(&r, 3, 3), SEFL_ESTATE);
        CHECK_STATUS(keep(&r, 1, 0), SEFL_ESTATE);
        assert_true(is(&r, 1, 1) && is(&r, 2, 2));
        is_gone(&r, 3);
        journal_close(r.j);
        buf_clear(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(lives_and_goes),
                                        cmocka_unit_test(whole_or_not),
                                        cmocka_unit_test(root_and_lease) };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
