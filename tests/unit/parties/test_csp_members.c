/* The CSP role: which clients' vouchers it accepts, and whose heads count. */
#define _GNU_SOURCE
#include "csp_site.h"

static void trust_sites(trust *t, const site *s, int which)
{
    trust_ca(t, s, "ca-sites", TRUST_CLIENT);
    trust_member_drop(t, trust_find(t, s->client[which].key));
}

static void distrust_sites(trust *t, const site *s, int arg)
{
    (void)s, (void)arg;
    for (size_t i = 0; i < t->issuers; i++)
        if (t->issuer[i].role == TRUST_CLIENT)
            t->issuer[i].state = TRUST_REVOKED;
}

static void drop_member(trust *t, const site *s, int which)
{
    trust_member_drop(t, trust_find(t, s->client[which].key));
}

/* CSP refused one client of the latest set. */
static void refused_is(site *s, uint32_t index, head_reason why)
{
    assert_int_equal(s->refusals, 1);
    assert_int_equal(s->refused.index, index);
    assert_int_equal(s->refused.reason, why);
    s->refusals = 0;
}

/* CSP accepts a voucher from a member, immediately after the list changes, or from a client whose
 * CA it trusts; it refuses others, old serials and a key that another client has. */
static void vouchers(void **state)
{
    (void)state;
    site s;
    as_link *l;
    sefl_buf b = { 0 };
    site_begin(&s, "vouchers", "none");
    change_list(&s, drop_member, 0);
    csp_up(&s);
    tls *t = dial(&s, s.id);
    CHECK_OK(greet(&s, &l, t));
    voucher_of(&b, &s, 0, 5);
    CHECK_STATUS(as_link_vouch(l, buf_span(&b)), SEFL_EAUTH);
    change_list(&s, admit, 0);
    CHECK_OK(as_link_vouch(l, buf_span(&b)));
    CHECK_OK(as_link_vouch(l, buf_span(&b))); /* sent again */
    b.p[100] ^= 1;
    CHECK_STATUS(as_link_vouch(l, buf_span(&b)), SEFL_EAUTH);
    sign_key *mine = s.client[0].upload;
    s.client[0].upload = s.client[1].upload; /* another key */
    voucher_of(&b, &s, 0, 4);
    CHECK_STATUS(as_link_vouch(l, buf_span(&b)), SEFL_EAUTH); /* an old serial */
    s.client[0].upload = mine;
    sign_key *hers = s.client[1].upload;
    s.client[1].upload = mine;
    voucher_of(&b, &s, 1, 9);
    CHECK_STATUS(as_link_vouch(l, buf_span(&b)), SEFL_EAUTH); /* another client's key */
    s.client[1].upload = hers;

    change_list(&s, drop_member, 2);
    voucher_of(&b, &s, 2, 1);
    CHECK_STATUS(as_link_vouch(l, buf_span(&b)), SEFL_EAUTH);
    change_list(&s, admit, 2);
    change_list(&s, trust_sites, 2);
    CHECK_OK(as_link_vouch(l, buf_span(&b)));
    CHECK_OK(as_link_ping(l));

    /* a client that a CA vouches for: an old voucher does not change what the newest one's
     * certificate said */
    sefl_buf newer = { 0 }, noted = { 0 };
    voucher_of(&newer, &s, 2, 3);
    CHECK_OK(as_link_vouch(l, buf_span(&newer)));
    as_link_free(l);
    tls_close(t);
    csp_down(&s, true);
    char name[80] = "vouched ";
    static const uint8_t mark[40] = { 1, 2, 3 };
    for (int i = 0; i < 32; i++)
        snprintf(name + 8 + 2 * i, 3, "%02x", s.client[2].key[i]);
    journal *j;
    CHECK_OK(journal_open(&j, s.cfg.state, "csp", s.t.id));
    CHECK_OK(journal_lasting_get(j, name, &noted)); /* it was recorded */
    CHECK_OK(journal_lasting_put(j, name, span_of(mark, sizeof mark)));
    journal_close(j);
    csp_up(&s);
    t = dial(&s, s.id);
    CHECK_OK(greet(&s, &l, t));
    CHECK_STATUS(as_link_vouch(l, buf_span(&b)), SEFL_EAUTH);
    as_link_free(l);
    tls_close(t);
    csp_down(&s, true);
    CHECK_OK(journal_open(&j, s.cfg.state, "csp", s.t.id));
    buf_clear(&noted);
    CHECK_OK(journal_lasting_get(j, name, &noted));
    assert_int_equal(noted.n, sizeof mark);
    assert_memory_equal(noted.p, mark, sizeof mark);
    journal_close(j);
    buf_clear(&newer);
    buf_clear(&noted);
    buf_clear(&b);
    site_end(&s);
}

/* The number of clients that the CA of client 2 has vouched for. */
static uint64_t vouching(const site *s, const uint64_t *set)
{
    char name[80] = "vouched ", ca[80] = "vouching ";
    sefl_buf b = { 0 };
    uint8_t bytes[8];
    journal *j;
    CHECK_OK(journal_open(&j, s->cfg.state, "csp", s->t.id));
    for (int i = 0; i < 32; i++)
        snprintf(name + 8 + 2 * i, 3, "%02x", s->client[2].key[i]);
    CHECK_OK(journal_lasting_get(j, name, &b));
    for (int i = 0; i < 32; i++)
        snprintf(ca + 9 + 2 * i, 3, "%02x", b.p[i]); /* begins with the issuer */
    if (set) {
        store_u64(bytes, *set);
        CHECK_OK(journal_lasting_put(j, ca, span_of(bytes, 8)));
    }
    buf_reset(&b);
    CHECK_OK(journal_lasting_get(j, ca, &b));
    assert_int_equal(b.n, 8);
    const uint64_t n = load_u64(b.p);
    buf_clear(&b);
    journal_close(j);
    return n;
}

/* A CA can create any number of clients: all of them together cannot fill the servers' disks. */
static void a_ca_has_only_so_many_clients(void **state)
{
    (void)state;
    site s;
    as_link *l;
    sefl_buf b = { 0 };
    const uint64_t all = 256; /* the task has 8 clients */
    site_begin(&s, "ca-clients", "none");
    change_list(&s, trust_sites, 2);
    change_list(&s, drop_member, 1);
    csp_up(&s);
    tls *t = dial(&s, s.id);
    CHECK_OK(greet(&s, &l, t));
    voucher_of(&b, &s, 2, 1);
    CHECK_OK(as_link_vouch(l, buf_span(&b)));
    CHECK_OK(as_link_vouch(l, buf_span(&b)));
    voucher_of(&b, &s, 2, 2);
    CHECK_OK(as_link_vouch(l, buf_span(&b)));
    as_link_free(l);
    tls_close(t);
    csp_down(&s, true);
    assert_int_equal(vouching(&s, NULL), 1);
    (void)vouching(&s, &all);

    csp_up(&s);
    t = dial(&s, s.id);
    CHECK_OK(greet(&s, &l, t));
    voucher_of(&b, &s, 1, 1);
    CHECK_STATUS(as_link_vouch(l, buf_span(&b)), SEFL_EAUTH); /* a new one */
    voucher_of(&b, &s, 2, 3);
    CHECK_OK(as_link_vouch(l, buf_span(&b))); /* an old one */
    voucher_of(&b, &s, 0, 1);
    CHECK_OK(as_link_vouch(l, buf_span(&b))); /* of the list */
    change_list(&s, admit, 1);
    voucher_of(&b, &s, 1, 1);
    CHECK_OK(as_link_vouch(l, buf_span(&b)));
    as_link_free(l);
    tls_close(t);
    csp_down(&s, true);
    assert_int_equal(vouching(&s, NULL), all);
    buf_clear(&b);
    site_end(&s);
}

static void revoke_1(void *me)
{
    change_list(me, put_out, 1);
    usleep(700000); /* reloaded several times per second */
}

static void lose_round_1(void *me, as_link *link)
{
    site *s = me;
    if (link && as_run_is_at(&s->run, 1, AGG_REVEALING))
        CHECK_OK(as_run_event(&s->run, AGG_LOST));
}

/* Revoked between EARLY and SET: the list in force at SET decides. A client of a trusted CA counts
 * as long as the CA is trusted. */
static void members_are_asked_for_each_head(void **state)
{
    (void)state;
    site s;
    site_begin(&s, "members", "none");
    change_list(&s, trust_sites, 2); /* client 2 is not a member: its CA vouches for it */
    csp_up(&s);
    s.run.early = 3;
    s.run.frozen = revoke_1;
    run_to_crash(&s, AS_VERDICT);
    assert_int_equal(s.refused_early, 0);
    refused_is(&s, 1, HEAD_MEMBER);
    csp_down(&s, true);

    csp_up(&s); /* the verdict stands: another set for the round is refused */
    s.made = 0; /* other bodies */
    s.run.frozen = NULL;
    CHECK_STATUS(as_run_until(&s.run, 2, AGG_SIGNING), SEFL_ESTATE);

    change_list(&s, admit, 1);
    change_list(&s, distrust_sites, 0);
    usleep(700000);
    s.run.early = 0;
    s.run.between = lose_round_1;
    CHECK_OK(as_run_until(&s.run, 3, AGG_SIGNING));
    refused_is(&s, 2, HEAD_MEMBER);
    check_counted(&s, 2);
    assert_true(s.client[1].counts && !s.client[2].counts);
    assert_memory_equal(s.got, s.total, s.t.values * sizeof *s.got);
    csp_down(&s, true);
    site_end(&s);
}

/* ---- a store that does not answer -------------------------------------------------------------- */

static as_record silent; /* this record cannot be read; AS_VERDICT: not after the release */
static bool released;

static sefl_status note_release(void *me, as_record what, uint64_t round, uint64_t attempt,
                                sefl_span bytes)
{
    released = released || what == AS_RELEASE;
    return before_record(me, what, round, attempt, bytes);
}

static sefl_status is_silent(void *me, as_record what)
{
    (void)me;
    return what == silent && (what != AS_VERDICT || released)
               ? sefl_fail(SEFL_EIO, "test: the connection was lost")
               : SEFL_OK;
}

/* AS must not take a record for missing because its store does not answer: it would reveal a round
 * again whose integers it has, or divide the sum by a number that counts refused clients. */
static void a_silent_store_is_not_an_empty_one(void **state)
{
    (void)state;
    site s;
    site_begin(&s, "silent", "none");
    csp_up(&s);
    s.run.early = 3;
    s.run.frozen = revoke_1;
    s.run.put = note_release;
    s.run.get = is_silent;
    silent = AS_RELEASE, released = false;
    CHECK_STATUS(as_run_until(&s.run, 2, AGG_SIGNING), SEFL_EIO);
    assert_false(released);
    s.run.frozen = NULL;
    silent = AS_VERDICT;
    CHECK_STATUS(as_run_until(&s.run, 2, AGG_SIGNING), SEFL_EIO);
    assert_true(released);
    assert_int_equal(s.run.clients, 0);
    s.run.get = NULL;
    CHECK_OK(as_run_until(&s.run, 2, AGG_SIGNING));
    assert_int_equal(s.run.clients, CLIENTS - 1);
    check_counted(&s, 1);
    csp_down(&s, true);
    site_end(&s);
}

static unsigned fails; /* 1: no verdict is stored, 2: no sum, 3: the sum is lost */

static sefl_status no_verdict(void *me, as_record what, uint64_t round, uint64_t attempt,
                              sefl_span bytes)
{
    if (what == AS_VERDICT && fails == 1)
        return sefl_fail(SEFL_EIO, "test: the connection was lost");
    return before_record(me, what, round, attempt, bytes);
}

static sefl_status no_sum(void *me)
{
    (void)me;
    return fails < 2 ? SEFL_OK : sefl_fail(fails == 2 ? SEFL_EIO : SEFL_ECRYPTO, "test: no sum");
}

/* Processes share the store: while it does not answer, the round waits for it, since its uploads are
 * acknowledged. Only a sum that is lost skips it. */
static void a_shared_store_comes_back(void **state)
{
    (void)state;
    site s;
    site_begin(&s, "back", "none");
    csp_up(&s);
    s.run.c.strict = false;
    s.run.c.shared = true;
    s.run.put = no_verdict;
    s.run.sum = no_sum;
    for (fails = 1; fails <= 2; fails++)
        CHECK_STATUS(as_run_until(&s.run, 2, AGG_SIGNING), SEFL_EIO);
    fails = 0;
    CHECK_OK(as_run_until(&s.run, 2, AGG_SIGNING));
    assert_int_equal(s.run.clients, CLIENTS);
    check_counted(&s, 1);
    fails = 3;
    CHECK_OK(as_run_until(&s.run, 3, AGG_SIGNING));
    assert_int_equal(s.peer.revealed, 1);
    csp_down(&s, true);
    site_end(&s);
}

enum { OWN = 7 };
static struct {
    as_record what; /* AS cannot store this */
    unsigned left;  /* for so many times */
    sefl_status st;
} own;

static sefl_status own_failure(void *me, as_record what, uint64_t round, uint64_t attempt,
                               sefl_span bytes)
{
    char why[AS_TROUBLE];
    const site *s = me;
    as_rounds_trouble(s->run.rounds, why); /* for the operator's page */
    if (what == own.what && own.left > 0 && own.left < OWN && own.st == SEFL_ENOMEM)
        assert_non_null(strstr(why, "AS's own failure"));
    if (what == AS_HEADER)
        assert_string_equal(why, "");
    if (what == own.what && own.left > 0) {
        own.left--;
        return sefl_fail(own.st, "test: AS's own failure");
    }
    return before_record(me, what, round, attempt, bytes);
}

static sefl_status no_head(void *me)
{
    (void)me;
    return own.left > 0 && own.left-- > 0 ? sefl_fail(own.st, "test: AS's own failure") : SEFL_OK;
}

static sefl_status no_step(void *me, const as_row *row)
{
    (void)me;
    if (row->state != AGG_REVEALING || row->attempt == 0 || own.left == 0)
        return SEFL_OK;
    own.left--;
    return sefl_fail(own.st, "test: AS's own failure");
}

/* CSP refuses nothing: AS's own failures lose no round, however many, before the charge or after. */
static void as_s_own_failures_lose_no_round(void **state)
{
    (void)state;
    site s;
    site_begin(&s, "own", "none");
    csp_up(&s);
    s.run.c.strict = false;
    s.run.put = own_failure;
    own.what = AS_VERDICT, own.left = OWN, own.st = SEFL_ENOMEM;
    CHECK_OK(as_run_until(&s.run, 2, AGG_SIGNING));
    check_counted(&s, 1);
    own.what = AS_MASK, own.left = OWN;
    CHECK_OK(as_run_until(&s.run, 3, AGG_SIGNING));
    check_counted(&s, 2);
    own.what = AS_VERDICT, own.left = OWN, own.st = SEFL_ESTATE;
    for (int i = 0; i < OWN; i++) /* the run ends; the next one continues */
        CHECK_STATUS(as_run_until(&s.run, 4, AGG_SIGNING), SEFL_ESTATE);
    CHECK_OK(as_run_until(&s.run, 4, AGG_SIGNING));
    check_counted(&s, 3);
    assert_int_equal(own.left, 0);
    s.run.put = NULL;
    s.run.head = no_head; /* it is there, and cannot be read now */
    own.left = OWN, own.st = SEFL_ENOMEM;
    CHECK_OK(as_run_until(&s.run, 5, AGG_SIGNING));
    check_counted(&s, 4);
    assert_int_equal(own.left, 0);
    s.run.step = no_step; /* the run goes on, although it cannot store the next attempt */
    own.left = OWN, own.st = SEFL_EIO;
    CHECK_OK(as_run_until(&s.run, 5, AGG_RELEASING));
    assert_int_equal(own.left, 0);
    csp_down(&s, true);
    site_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vouchers),
        cmocka_unit_test(a_ca_has_only_so_many_clients),
        cmocka_unit_test(members_are_asked_for_each_head),
        cmocka_unit_test(a_silent_store_is_not_an_empty_one),
        cmocka_unit_test(a_shared_store_comes_back),
        cmocka_unit_test(as_s_own_failures_lose_no_round),
    };
    return cmocka_run_group_tests(tests, site_keys, site_keys_free);
}
