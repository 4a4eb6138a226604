/* Sealed rounds of the driver: heads that CSP refuses, verdicts across crashes, proofs of being
 * counted. */
#include "agg_world.h"

#include "protocol/http.h"
#include "roles/aggregator/rounds_inside.h"
#include "roles/client/proof.h"

#include <inttypes.h>

/* What AS answers client k about a round. */
static sefl_status proof(agg_world *w, unsigned k, uint64_t round)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    uint8_t me[32], units[32];
    aw_client(w, me, k);
    sefl_free(aw_body(w, k, round, units));
    SEFL_TRY(rounds_counted(w->r, round, me, &b));
    st = client_counted_check(&w->t, buf_span(&b), round, me, units);
done:
    buf_clear(&b);
    return st;
}

/* CSP refuses an unknown client in the SET; the others are in the release, and each gets a
 * proof. */
static void a_refused_head(void **state)
{
    (void)state;
    agg_world w;
    aw_make(&w, (const char *const[]){ "rounds.enough=4", NULL });
    aw_start(&w);
    assert_true(aw_wait(&w, 1, AGG_COLLECTING));
    w.put_out = 4;
    aw_upload_all(&w, 1, 15);
    assert_true(aw_wait(&w, 2, AGG_COLLECTING));
    for (unsigned k = 0; k < 4; k++)
        CHECK_STATUS(proof(&w, k, 1), k == 2 ? SEFL_EAUTH : SEFL_OK);
    CHECK_STATUS(proof(&w, 0, 2), SEFL_ENOTFOUND);
    assert_null(strstr(sefl_last_error(), HTTP_SKIPPED));
    w.put_out = 0;
    aw_upload_all(&w, 2, 15);
    CHECK_OK(aw_join(&w));
    aw_check_model(&w, (const unsigned[]){ 11, 15 }, 2);
    aw_check_ledgers(&w, 2);
    assert_int_equal(w.report[0].clients, 3);
    assert_int_equal(w.report[0].refused, 1);
    assert_int_equal(w.report[1].clients, 4);
    assert_int_equal(w.report[1].refused, 0);
    assert_true(aw_logged(&w, "CSP refuses a client's head", "\"at\":\"set\"") == 1);
    assert_int_equal(aw_logged(&w, "\"error\"", "more than 1 in 100"), 1);
    CHECK_OK(aw_try_open(&w)); /* and later */
    CHECK_OK(proof(&w, 0, 1));
    CHECK_OK(proof(&w, 2, 2));
    unsigned later = 0; /* one client asks about two rounds in turn: a tree is made for each */
    for (unsigned i = 0; i < 50; i++) {
        later += proof(&w, 1, 1) == SEFL_EBUDGET;
        CHECK_OK(proof(&w, 1, 2)); /* the answer for the newest round is never limited */
    }
    assert_true(later > 35 && later < 50);
    CHECK_OK(proof(&w, 3, 2));
    CHECK_OK(proof(&w, 3, 2)); /* there already */
    aw_free(&w);
}

/* Fewer than the threshold remain: the round is skipped without a charge. */
static void too_few_are_left(void **state)
{
    (void)state;
    agg_world w;
    aw_make(&w, (const char *const[]){ "rounds.enough=3", NULL });
    aw_start(&w);
    assert_true(aw_wait(&w, 1, AGG_COLLECTING));
    w.put_out = 3;
    aw_upload_all(&w, 1, 7);
    assert_true(aw_wait(&w, 2, AGG_COLLECTING));
    CHECK_STATUS(proof(&w, 2, 1), SEFL_ENOTFOUND);
    assert_non_null(strstr(sefl_last_error(), HTTP_SKIPPED));
    w.put_out = 0;
    aw_upload_all(&w, 2, 7);
    CHECK_OK(aw_join(&w));
    assert_true(w.report[0].skipped && !w.report[1].skipped);
    assert_int_equal(csp_seen_at(&w.mc, 1).reveals, 0);
    aw_check_ledgers(&w, 1);
    aw_check_model(&w, (const unsigned[]){ 0, 7 }, 2);
    aw_free(&w);
}

/* Stopped in each phase after the set is frozen, or cut at the n-th message: the same set, tree and
 * verdict, even if CSP's trust list has changed since. */
static void a_verdict_is_final(void **state)
{
    (void)state;
    for (agg_phase phase = AGG_FREEZING; phase <= AGG_RELEASING; phase++) {
        agg_world w;
        sefl_buf tree[2] = { { 0 }, { 0 } };
        aw_make(&w, (const char *const[]){ "rounds.enough=4", "rounds.count=1", NULL });
        w.stop_in = phase, w.stop_round = 1;
        aw_start(&w);
        assert_true(aw_wait(&w, 1, AGG_COLLECTING));
        w.put_out = 1;
        aw_upload_all(&w, 1, 15);
        assert_int_equal(aw_join(&w), SEFL_ECANCELLED);
        w.stop_in = AGG_PHASES;
        CHECK_OK(aw_try_open(&w));
        if (phase > AGG_FREEZING)
            CHECK_OK(journal_fact_get(w.j, 1, "tree", &tree[0]));
        aw_close(&w);
        if (phase == AGG_RELEASING) /* CSP has sent its verdict */
            w.put_out = 0;
        aw_start(&w);
        CHECK_OK(aw_join(&w));
        CHECK_OK(aw_try_open(&w));
        CHECK_OK(journal_fact_get(w.j, 1, "tree", &tree[1]));
        if (phase > AGG_FREEZING)
            assert_memory_equal(tree[0].p, tree[1].p, COUNTED_SEED);
        CHECK_STATUS(proof(&w, 0, 1), SEFL_EAUTH);
        CHECK_OK(proof(&w, 1, 1));
        aw_check_model(&w, (const unsigned[]){ 14 }, 1);
        aw_check_ledgers(&w, 1);
        buf_clear(&tree[0]);
        buf_clear(&tree[1]);
        aw_free(&w);
    }
    for (unsigned side = 0; side < 2; side++)
        for (uint64_t cut = 5; cut < 60; cut += test_count(4, 1)) {
            agg_world w;
            aw_make(&w, (const char *const[]){ "rounds.enough=4", "rounds.count=1", NULL });
            w.cut[side] = cut;
            w.put_out = 2;
            aw_start(&w);
            assert_true(aw_wait(&w, 1, AGG_COLLECTING));
            aw_upload_all(&w, 1, 15);
            CHECK_OK(aw_join(&w));
            bool was = w.wire[side].was_cut;
            assert_int_equal(csp_seen_at(&w.mc, 1).reveals, 1);
            assert_int_equal(w.report[0].refused, 1);
            aw_check_model(&w, (const unsigned[]){ 13 }, 1);
            aw_check_ledgers(&w, 1);
            CHECK_OK(aw_try_open(&w));
            CHECK_OK(proof(&w, 0, 1));
            CHECK_STATUS(proof(&w, 1, 1), SEFL_EAUTH);
            aw_free(&w);
            if (!was)
                break;
        }
}

/* AS sends heads to CSP while the round collects; refusals are in the log before the round
 * closes. */
static void heads_go_early(void **state)
{
    (void)state;
    agg_world w;
    aw_make(&w, (const char *const[]){ "rounds.enough=4", "rounds.count=1", NULL });
    aw_start(&w);
    assert_true(aw_wait(&w, 1, AGG_COLLECTING));
    w.put_out = 2;
    aw_upload_all(&w, 1, 3);
    for (int i = 0; i < 5000 && w.asked < 2; i++)
        usleep(1000);
    assert_int_equal(w.asked, 2);
    for (int i = 0; i < 5000 && aw_logged(&w, "CSP refuses", "\"at\":\"upload\"") == 0; i++)
        usleep(1000);
    assert_int_equal(aw_logged(&w, "CSP refuses a client's head", "\"at\":\"upload\""), 1);
    assert_int_equal(rounds_phase(w.r, NULL, NULL), AGG_COLLECTING);
    w.put_out = 0; /* only the SET counts */
    aw_upload_all(&w, 1, 12);
    CHECK_OK(aw_join(&w));
    assert_int_equal(w.report[0].clients, 4);
    aw_check_model(&w, (const unsigned[]){ 15 }, 1);
    aw_free(&w);
}

static sefl_status no_voucher(void *ctx, const uint8_t who[32], uint64_t *serial,
                              uint8_t key[SIGN_PUB_BYTES])
{
    (void)ctx, (void)who, (void)serial, (void)key;
    return sefl_fail(SEFL_ENOTFOUND, "test: no voucher");
}

/* CSP has lost its vouchers: AS asks the clients for them again. */
static void lost_vouchers(void **state)
{
    (void)state;
    agg_world w;
    aw_make(&w, (const char *const[]){ "rounds.enough=3", NULL });
    csp_store whole = w.csp_store;
    w.csp_store.voucher_get = no_voucher;
    aw_start(&w);
    assert_true(aw_wait(&w, 1, AGG_COLLECTING));
    aw_upload_all(&w, 1, 3);
    for (int i = 0; i < 5000 && aw_logged(&w, "CSP refuses", "\"at\":\"upload\"") < 2; i++)
        usleep(1000);
    aw_upload_all(&w, 1, 4);
    assert_true(aw_wait(&w, 2, AGG_COLLECTING)); /* too few clients remained */
    w.csp_store.voucher_get = whole.voucher_get;
    for (unsigned k = 0; k < 2; k++) {
        assert_int_equal(aw_upload(&w, k, 2, SIZE_MAX), 403);
        aw_vouched(&w, k);
    }
    aw_upload_all(&w, 2, 7);
    CHECK_OK(aw_join(&w));
    assert_true(w.report[0].skipped);
    aw_check_model(&w, (const unsigned[]){ 0, 7 }, 2);
    aw_free(&w);
}

/* A head that cannot be read any more: the round is lost and not charged. */
static void a_lost_head(void **state)
{
    (void)state;
    agg_world w;
    aw_make(&w, (const char *const[]){ "rounds.enough=2", NULL });
    w.stop_in = AGG_REVEALING, w.stop_round = 1;
    aw_start(&w);
    assert_true(aw_wait(&w, 1, AGG_COLLECTING));
    aw_upload_all(&w, 1, 3);
    assert_int_equal(aw_join(&w), SEFL_ECANCELLED);
    CHECK_OK(aw_try_open(&w));
    round_entry m;
    sefl_buf path = { 0 };
    aw_client(&w, m.client, 1);
    sefl_free(aw_body(&w, 1, 1, m.body));
    CHECK_OK(ingest_body_path(w.j, &path, 1, &m));
    assert_int_equal(truncate((const char *)path.p, 100), 0);
    buf_clear(&path);
    aw_close(&w);
    w.stop_in = AGG_PHASES;
    aw_start(&w);
    assert_true(aw_wait(&w, 2, AGG_COLLECTING));
    aw_upload_all(&w, 2, 3);
    CHECK_OK(aw_join(&w));
    assert_true(w.report[0].skipped && !w.report[1].skipped);
    assert_int_equal(aw_logged(&w, "round lost", "\"round\":1"), 1);
    aw_check_ledgers(&w, 1);
    aw_free(&w);
}

/* ---- disks that fail for a while ------------------------------------------------------------- */

/* The operation that fails, and how often from now on. More often than CSP may refuse a round. */
enum {
    CSP_PUTS_SET,
    CSP_GETS_KEY,
    CSP_CHARGES,
    CSP_MARKS,
    AS_PUTS_VERDICT,
    AS_GETS_TREE,
    AS_PUTS_MASK
};
enum { FAILING = AS_PUTS_MASK + 1, FAILURES = 6 };
static struct {
    unsigned which, left;
    csp_store csp;
    as_store as;
} disk;

static sefl_status fails(unsigned which)
{
    if (disk.which != which || disk.left == 0)
        return SEFL_OK;
    disk.left--;
    return sefl_fail(SEFL_EIO, "test: no space left");
}

static sefl_status set_put(void *ctx, uint64_t round, sefl_span set, const round_entry *kept,
                           uint32_t n)
{
    SEFL_PASS(fails(CSP_PUTS_SET));
    return disk.csp.set_put(ctx, round, set, kept, n);
}

static sefl_status key_get(void *ctx, const uint8_t who[32], uint64_t *serial,
                           uint8_t key[SIGN_PUB_BYTES])
{
    SEFL_PASS(fails(CSP_GETS_KEY));
    return disk.csp.voucher_get(ctx, who, serial, key);
}

static sefl_status csp_put(void *ctx, csp_record what, uint64_t round, sefl_span bytes)
{
    if (what == CSP_CHARGING)
        SEFL_PASS(fails(CSP_CHARGES));
    return disk.csp.put(ctx, what, round, bytes);
}

/* The mark is durable, and CSP does not know it. */
static sefl_status csp_row_put(void *ctx, const csp_row *row)
{
    SEFL_PASS(disk.csp.row_put(ctx, row));
    return row->state == CSP_REVEALED ? fails(CSP_MARKS) : SEFL_OK;
}

static sefl_status as_put(void *ctx, as_record what, uint64_t round, uint64_t attempt,
                          sefl_span bytes)
{
    if (what == AS_VERDICT || what == AS_MASK)
        SEFL_PASS(fails(what == AS_MASK ? AS_PUTS_MASK : AS_PUTS_VERDICT));
    return disk.as.put(ctx, what, round, attempt, bytes);
}

static sefl_status as_get(void *ctx, as_record what, uint64_t round, sefl_buf *out)
{
    SEFL_PASS(disk.as.get(ctx, what, round, out));
    return what == AS_TREE ? fails(AS_GETS_TREE) : SEFL_OK; /* once the set is frozen */
}

static void failing_journal(agg_world *w)
{
    disk.as = w->store;
    w->store.put = as_put, w->store.get = as_get;
}

/* The round's uploads are acknowledged: no failure of a disk, here or at CSP, discards them. */
static void a_full_disk_costs_no_round(void **state)
{
    (void)state;
    for (unsigned which = 0; which < FAILING; which++) {
        agg_world w;
        aw_make(&w, (const char *const[]){ "rounds.enough=3", "rounds.count=1", NULL });
        disk.which = which, disk.left = 0;
        disk.csp = w.csp_store;
        w.csp_store.set_put = set_put;
        w.csp_store.voucher_get = key_get;
        w.csp_store.put = csp_put;
        w.csp_store.row_put = csp_row_put;
        w.watch_journal = failing_journal;
        aw_start(&w);
        assert_true(aw_wait(&w, 1, AGG_COLLECTING));
        disk.left = which == 0 ? FAILURES : which == CSP_MARKS ? 1 : 2;
        aw_upload_all(&w, 1, 7);
        CHECK_OK(aw_join(&w));
        assert_int_equal(disk.left, 0);
        assert_false(w.report[0].skipped);
        assert_int_equal(w.report[0].clients, 3);
        assert_true(aw_logged(&w, "round not revealed", "") + aw_logged(&w, "no link", "") > 0);
        aw_check_model(&w, (const unsigned[]){ 7 }, 1);
        aw_check_ledgers(&w, 1);
        assert_int_equal(csp_seen_at(&w.mc, 1).reveals, 1);
        assert_true(csp_is_over(w.server)); /* nothing keeps CSP in the round */
        aw_free(&w);
    }
}

/* The file of an upload cannot be opened for a while: a head, then a body. */
static void an_upload_that_cannot_be_read_for_a_while(void **state)
{
    (void)state;
    agg_world w;
    sefl_buf path = { 0 };
    round_entry m;
    char moved[300];
    aw_make(&w, (const char *const[]){ "rounds.enough=2", "rounds.count=1", NULL });
    w.stop_in = AGG_REVEALING, w.stop_round = 1;
    aw_start(&w);
    assert_true(aw_wait(&w, 1, AGG_COLLECTING));
    aw_upload_all(&w, 1, 3);
    assert_int_equal(aw_join(&w), SEFL_ECANCELLED);
    CHECK_OK(aw_try_open(&w));
    aw_client(&w, m.client, 1);
    sefl_free(aw_body(&w, 1, 1, m.body));
    CHECK_OK(ingest_body_path(w.j, &path, 1, &m));
    aw_close(&w);
    /* a link to itself: open fails with ELOOP, also for root */
    assert_int_equal(rename((const char *)path.p, aw_path(&w, moved, "moved")), 0);
    assert_int_equal(symlink((const char *)path.p, (const char *)path.p), 0);
    w.stop_in = AGG_PHASES;
    aw_start(&w);
    for (int i = 0; i < 5000 && aw_logged(&w, "round not revealed", "cannot open") < 3; i++)
        usleep(1000);
    assert_int_equal(rename(moved, (const char *)path.p), 0);
    buf_clear(&path);
    CHECK_OK(aw_join(&w));
    assert_false(w.report[0].skipped);
    aw_check_model(&w, (const unsigned[]){ 3 }, 1);
    aw_check_ledgers(&w, 1);
    aw_free(&w);
}

/* CSP had to wipe the key while AS was unreachable: that round is skipped, the next one is
 * normal. */
static void an_expired_round(void **state)
{
    (void)state;
    agg_world w;
    aw_make(&w, (const char *const[]){ "rounds.enough=2", NULL });
    w.stop_in = AGG_COLLECTING, w.stop_round = 1;
    aw_start(&w);
    assert_int_equal(aw_join(&w), SEFL_ECANCELLED);
    CHECK_OK(csp_store_skip(&w.csp_store, 1, CSP_SKIP_EXPIRED));
    CHECK_OK(csp_store_key_wipe(&w.csp_store, 1));
    w.stop_in = AGG_PHASES;
    aw_start(&w);
    assert_true(aw_wait(&w, 2, AGG_COLLECTING));
    aw_upload_all(&w, 2, 3);
    CHECK_OK(aw_join(&w));
    assert_true(w.report[0].skipped && !w.report[1].skipped);
    assert_int_equal(aw_logged(&w, "its key expired", "\"round\":1"), 1);
    aw_check_ledgers(&w, 1);
    aw_check_model(&w, (const unsigned[]){ 0, 3 }, 2);
    aw_free(&w);
}

/* CSP signs no proofs of being counted if uploads are not sealed. */
static void no_proof_without_a_seal(void **state)
{
    (void)state;
    agg_world w;
    sefl_buf b = { 0 };
    uint8_t me[32];
    aw_make(&w, (const char *const[]){ "rounds.enough=2", "crypto.scheme=paillier",
                                       "rounds.count=1", NULL });
    aw_start(&w);
    assert_true(aw_wait(&w, 1, AGG_COLLECTING));
    aw_upload_all(&w, 1, 3);
    CHECK_OK(aw_join(&w));
    CHECK_OK(aw_try_open(&w));
    aw_client(&w, me, 0);
    CHECK_STATUS(rounds_counted(w.r, 1, me, &b), SEFL_ENOTFOUND);
    assert_int_equal(b.n, 0);
    aw_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_head),
        cmocka_unit_test(too_few_are_left),
        cmocka_unit_test(a_verdict_is_final),
        cmocka_unit_test(heads_go_early),
        cmocka_unit_test(lost_vouchers),
        cmocka_unit_test(a_lost_head),
        cmocka_unit_test(an_expired_round),
        cmocka_unit_test(no_proof_without_a_seal),
        cmocka_unit_test(a_full_disk_costs_no_round),
        cmocka_unit_test(an_upload_that_cannot_be_read_for_a_while),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
