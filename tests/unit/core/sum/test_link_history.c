/* Correlated noise over the link: what both servers keep adds up to the noise of a round, the next
 * round takes it back, and both leave out the same rounds. */
#include "link_pair.h"

enum { VALUES = 40 };

typedef struct past_rounds {
    world *w;
    int64_t got[W_ROUNDS][W_VALUES], total[W_ROUNDS][W_VALUES];
    bool kept;
} past_rounds;

static void begin(past_rounds *p, dp_filter f)
{
    *p = (past_rounds){ .w = world_new("pad", TASK_NOISE_JOINT, VALUES) };
    world_filter(p->w, f);
}

static sefl_status round_of(past_rounds *p, uint64_t r, const uint64_t cut[2], bool *was_cut)
{
    connection c;
    world_sum(p->w, r);
    memcpy(p->total[r], p->w->total, sizeof p->total[r]);
    connect_(&c, p->w, cut, cut && (cut[0] + cut[1]) % 2);
    sefl_status st = world_round(p->w, &c, r, &p->kept, p->got[r]);
    disconnect(&c);
    if (was_cut)
        *was_cut = c.wire[0].was_cut || c.wire[1].was_cut;
    return st;
}

static const sefl_buf *at_csp(past_rounds *p, uint64_t r)
{
    return &csp_memory_at(&p->w->c, r)->record[CSP_HISTORY];
}

/* The noise of a round from what both servers kept, in units of 2^-F. */
static int64_t noise_of(past_rounds *p, uint64_t r, size_t i)
{
    const sefl_buf *a = &p->w->a.history[r], *c = at_csp(p, r);
    assert_true(a->n == NOISE_ID + 8 * VALUES && c->n == a->n);
    assert_memory_equal(a->p, c->p, NOISE_ID);
    return (int64_t)(load_u64(a->p + NOISE_ID + 8 * i) + load_u64(c->p + NOISE_ID + 8 * i));
}

/* Round r took back gamma / 4096 of `before`'s noise in every value (NULL: nothing). */
static void must_take_back(past_rounds *p, uint64_t r, const int64_t *before, unsigned gamma)
{
    const pack *k = &p->w->t.ahe.pack;
    const unsigned F = 52 - k->k;
    for (size_t i = 0; i < VALUES; i++) {
        uint64_t back = (2 * (uint64_t)p->got[r][i] + 1) << (F - 1);
        back -= ((uint64_t)p->total[r][i] << (F - k->t)) + (uint64_t)noise_of(p, r, i);
        int64_t is = (int64_t)(back << 12) >> 12;
        int64_t want = before ? -(int64_t)((__int128)gamma * before[i] / 4096) : 0;
        assert_true(is - want >= -2 && is - want <= 2);
    }
}

static void noises(past_rounds *p, uint64_t r, int64_t out[VALUES])
{
    for (size_t i = 0; i < VALUES; i++)
        out[i] = noise_of(p, r, i);
}

static void rounds_take_back(void **state)
{
    (void)state;
    past_rounds p;
    int64_t first[VALUES], second[VALUES];
    begin(&p, (dp_filter){ .b = 1, .gamma = { 3000 } });
    CHECK_OK(round_of(&p, 1, NULL, NULL));
    must_take_back(&p, 1, NULL, 0);
    noises(&p, 1, first);
    CHECK_OK(round_of(&p, 2, NULL, NULL));
    must_take_back(&p, 2, first, 3000);
    noises(&p, 2, second);
    CHECK_OK(round_of(&p, 3, NULL, NULL));
    must_take_back(&p, 3, second, 3000);
    /* round 3 is over once the next header is signed: CSP keeps it, and nothing older */
    assert_true(csp_memory_at(&p.w->c, 3)->has[CSP_HISTORY]);
    assert_false(csp_memory_at(&p.w->c, 1)->has[CSP_HISTORY]);
    world_free(p.w);
}

/* One server lost its part, or has that of another reveal, or of a round that it skipped: both leave
 * the round out. */
static void lost_history_is_left_out(void **state)
{
    (void)state;
    for (int who = 0; who < 5; who++) {
        past_rounds p;
        begin(&p, (dp_filter){ .b = 1, .gamma = { 3000 } });
        CHECK_OK(round_of(&p, 1, NULL, NULL));
        sefl_buf *record = &p.w->c.round[1]->record[CSP_HISTORY];
        if (who == 0)
            buf_clear(&p.w->a.history[1]);
        else if (who == 1)
            p.w->c.round[1]->has[CSP_HISTORY] = false;
        else if (who == 2)
            record->p[0] ^= 1; /* the id */
        else if (who == 3)
            record->n--;
        else
            p.w->c.round[1]->row.state = CSP_SKIPPED;
        CHECK_OK(round_of(&p, 2, NULL, NULL));
        must_take_back(&p, 2, NULL, 0);
        int64_t second[VALUES];
        noises(&p, 2, second);
        CHECK_OK(round_of(&p, 3, NULL, NULL)); /* the next round takes back again */
        must_take_back(&p, 3, second, 3000);
        world_free(p.w);
    }
}

/* The stream is cut at every message of round 2. The next connection completes it with the noise of
 * round 1 taken back once; a repeated reveal gives the same numbers to keep. */
static void cuts_change_nothing(void **state)
{
    (void)state;
    unsigned cuts = 0, again = 0;
    for (int side = 0; side < 2; side++)
        for (uint64_t at = 1;; at++) {
            past_rounds p;
            int64_t first[VALUES], w[W_VALUES];
            uint64_t where[2] = { side ? 0 : at, side ? at : 0 };
            bool cut;
            begin(&p, (dp_filter){ .b = 1, .gamma = { 2500 } });
            CHECK_OK(round_of(&p, 1, NULL, NULL));
            noises(&p, 1, first);
            sefl_status st = round_of(&p, 2, where, &cut);
            if (cut) {
                assert_int_not_equal(st, SEFL_OK);
                CHECK_OK(round_of(&p, 2, NULL, NULL));
                again += p.kept;
                cuts++;
            }
            must_take_back(&p, 2, first, 2500);
            sefl_buf kept = { 0 };
            CHECK_OK(wr_raw(&kept, p.w->a.history[2].p, p.w->a.history[2].n));
            memcpy(w, p.got[2], sizeof w);
            CHECK_OK(round_of(&p, 2, NULL, NULL));
            assert_true(p.kept);
            assert_memory_equal(kept.p, p.w->a.history[2].p, kept.n);
            assert_memory_equal(w, p.got[2], VALUES * sizeof *w);
            buf_clear(&kept);
            world_free(p.w);
            if (!cut)
                break;
        }
    assert_true(cuts > 8 && again >= 1);
}

/* AS lost its part of round 1 after CSP used its own: the round is lost, not made up. */
static void lost_after_the_reply(void **state)
{
    (void)state;
    past_rounds p;
    begin(&p, (dp_filter){ .b = 1, .gamma = { 2500 } });
    CHECK_OK(round_of(&p, 1, NULL, NULL));
    CHECK_OK(round_of(&p, 2, NULL, NULL));
    buf_clear(&p.w->a.history[1]);
    CHECK_STATUS(round_of(&p, 2, NULL, NULL), SEFL_ESTATE);
    assert_int_equal(p.w->outcome, AS_LOST);
    world_free(p.w);
}

/* CSP has revealed the round, and AS learns it only from KEPT, after it has loaded its records: it
 * loads them again, and they still serve. */
static void kept_after_go_was_expected(void **state)
{
    (void)state;
    enum { OUTPUT = 8 }; /* CSP's messages: WELCOME, YES, KEY, HEADER, EARLY, VERDICT, GO, REPLY */
    past_rounds p;
    connection c;
    int64_t first[VALUES];
    bool cut, kept = false;
    begin(&p, (dp_filter){ .b = 1, .gamma = { 2500 } });
    CHECK_OK(round_of(&p, 1, NULL, NULL));
    noises(&p, 1, first);
    as_link *early = world_link(p.w, &c);
    assert_int_not_equal(round_of(&p, 2, (uint64_t[]){ 0, OUTPUT }, &cut), SEFL_OK);
    assert_int_equal(csp_memory_at(&p.w->c, 2)->row.state, CSP_REVEALED);
    assert_true(cut && as_link_peer(early)->revealed < 2);
    CHECK_OK(world_reveal(p.w, &c, early, 2, W_CLIENTS, NULL, &kept, p.got[2]));
    assert_true(kept);
    must_take_back(&p, 2, first, 2500);
    as_link_free(early);
    disconnect(&c);
    world_free(p.w);
}

/* AS skips a round that CSP has revealed: CSP wipes its record at once. */
static void given_up(void **state)
{
    (void)state;
    past_rounds p;
    connection c;
    begin(&p, (dp_filter){ .b = 2, .gamma = { 2500, 900 } });
    CHECK_OK(round_of(&p, 1, NULL, NULL));
    CHECK_OK(round_of(&p, 2, NULL, NULL));
    as_link *l = world_link(p.w, &c);
    CHECK_OK(as_link_skip(l, 2, 1));
    as_link_free(l);
    disconnect(&c);
    assert_false(csp_memory_at(&p.w->c, 2)->has[CSP_HISTORY]);
    assert_true(csp_memory_at(&p.w->c, 1)->has[CSP_HISTORY]); /* round 3 may take it back */
    world_free(p.w);
}

/* AS's store does not answer for a while: nothing is left out, and nothing is lost. */
static void silent_store(void **state)
{
    (void)state;
    past_rounds p;
    int64_t first[VALUES];
    begin(&p, (dp_filter){ .b = 1, .gamma = { 2500 } });
    CHECK_OK(round_of(&p, 1, NULL, NULL));
    noises(&p, 1, first);
    p.w->a.deaf = true;
    CHECK_STATUS(round_of(&p, 2, NULL, NULL), SEFL_EIO);
    p.w->a.deaf = false;
    CHECK_OK(round_of(&p, 2, NULL, NULL));
    must_take_back(&p, 2, first, 2500);
    p.w->a.deaf = true; /* after CSP's reply */
    CHECK_STATUS(round_of(&p, 2, NULL, NULL), SEFL_EIO);
    p.w->a.deaf = false;
    CHECK_OK(round_of(&p, 2, NULL, NULL));
    assert_true(p.kept);
    world_free(p.w);
}

/* AS has the record of round 1 in memory: it serves in place of the stored one, but only if it is
 * stored. */
static void fresh_records(void **state)
{
    (void)state;
    enum { FRESH, STORED, STORED_HERE_ONLY };
    for (int i = FRESH; i <= STORED_HERE_ONLY; i++) {
        past_rounds p;
        int64_t first[VALUES];
        const bool stored = i >= STORED, back = i == STORED;
        begin(&p, (dp_filter){ .b = 1, .gamma = { 2500 } });
        CHECK_OK(round_of(&p, 1, NULL, NULL));
        noises(&p, 1, first);
        p.w->fresh = (history_fresh){ .round = 1, .stored = stored, .record = p.w->a.history[1] };
        p.w->a.history[1] = (sefl_buf){ 0 };
        if (i == STORED_HERE_ONLY) /* GO names no round */
            p.w->c.round[1]->has[CSP_HISTORY] = false;
        CHECK_OK(round_of(&p, 2, NULL, NULL));
        must_take_back(&p, 2, back ? first : NULL, back ? 2500 : 0);
        world_free(p.w);
    }
}

/* The store: the record of round 5, or none. */
typedef struct one_record {
    sefl_span bytes;
    unsigned asked;
} one_record;

static sefl_status get_record(void *ctx, uint64_t round, sefl_buf *out)
{
    one_record *r = ctx;
    r->asked++;
    if (round == 5 && r->bytes.n > 0)
        return wr_raw(out, r->bytes.p, r->bytes.n);
    return sefl_fail(SEFL_ENOTFOUND, "test: no record");
}

/* A reveal takes a stored record out of the memory, writes over it, and never uses it twice; the
 * next attempt reads it from the store. */
static void records_are_taken(void **state)
{
    (void)state;
    for (unsigned b = 1; b <= 2; b++) { /* lag b alone; round r - b is in memory */
        past_rounds p;
        uint8_t record[NOISE_ID + 8 * VALUES], want[8 * VALUES], id[NOISE_ID] = { 9 };
        dp_filter f = { .b = b };
        f.gamma[b - 1] = 2000;
        begin(&p, f);
        const task *t = &p.w->t;
        const uint8_t *past[NOISE_LAGS] = { 0 };
        one_record store = { 0 };
        history h = { 0 };
        history_fresh fresh = { .round = 5 };
        for (size_t i = 0; i < sizeof record; i++)
            record[i] = (uint8_t)(i * i + 7);
        past[b - 1] = record + NOISE_ID;
        noise_filter_back(want, f.gamma, 1u << (b - 1), past, VALUES);
        CHECK_OK(wr_raw(&fresh.record, record, sizeof record));
        const uint8_t *place = fresh.record.p;
        CHECK_OK(history_load(&h, t, 5 + b, &fresh, get_record, &store)); /* not stored yet */
        assert_true(h.lags == 0 && store.asked == 1 && fresh.record.p == place);
        fresh.stored = true;
        CHECK_OK(history_load(&h, t, 6 + b, &fresh, get_record, &store)); /* too late for it */
        assert_true(h.lags == 0 && fresh.record.p == place);
        store.asked = 0;
        CHECK_OK(history_load(&h, t, 5 + b, &fresh, get_record, &store));
        assert_true(h.lags == 1u << (b - 1) && fresh.round == 0 && fresh.record.n == 0);
        assert_memory_equal(history_id(&h, b - 1), record, NOISE_ID);
        for (int i = 0; i < 2; i++) { /* in place; the second time changes nothing */
            CHECK_OK(history_begin(&h, t, id));
            assert_ptr_equal(history_memory(&h), place + NOISE_ID);
            assert_memory_equal(history_memory(&h), want, sizeof want);
        }
        history_clear(&h); /* the reveal fails, and is tried again */
        assert_int_equal(store.asked, 0);
        store.bytes = span_of(record, sizeof record);
        CHECK_OK(history_load(&h, t, 5 + b, &fresh, get_record, &store));
        assert_true(h.lags == 1u << (b - 1) && store.asked == 1);
        CHECK_OK(history_begin(&h, t, id));
        assert_memory_equal(history_memory(&h), want, sizeof want);
        history_take(&fresh, &h, 5 + b, 1);
        history_clear(&h);
        assert_true(fresh.round == 5 + b && !fresh.stored);
        assert_memory_equal(fresh.record.p, id, sizeof id);
        history_drop(&fresh);
        world_free(p.w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_take_back),
        cmocka_unit_test(lost_history_is_left_out),
        cmocka_unit_test(cuts_change_nothing),
        cmocka_unit_test(lost_after_the_reply),
        cmocka_unit_test(silent_store),
        cmocka_unit_test(fresh_records),
        cmocka_unit_test(records_are_taken),
        cmocka_unit_test(kept_after_go_was_expected),
        cmocka_unit_test(given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
