/* Sealed rounds over the link: which heads count, one set and one reveal per round, wiped keys. */
#include "link_sets.h"

/* ---- keys and headers ------------------------------------------------------------------------ */

static void keys_of_rounds(void **state)
{
    (void)state;
    world *w = sealed_world();
    sefl_buf b = { 0 };
    connection c;
    uint8_t reason[4];
    verdict v;
    greet(&c, w);
    round_header h = world_header(w, 1), other = world_header(w, 2), none = h, again;
    put_header(&b, w, &h, w->as); /* no seal at all */
    assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_HEADER);
    none.suite = w->t.seal->id, none.key_bytes = (uint16_t)w->t.seal->pub_bytes;
    put_header(&b, w, &none, w->as); /* before KEY */
    assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_ORDER);
    assert_int_equal(ask_key(&c, &other), LINK_NO_HEADER); /* not its turn */
    assert_int_equal(ask_key(&c, &h), LINK_KEY);
    again = world_header(w, 1);
    assert_int_equal(ask_key(&c, &again), LINK_KEY);
    assert_memory_equal(h.key, again.key, h.key_bytes);
    for (size_t i = 0; i < h.key_bytes; i += 7) { /* a key that AS chose */
        other = h;
        other.key[i] ^= 1;
        put_header(&b, w, &other, w->as);
        assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_HEADER);
    }
    assert_int_equal(csp_seen_at(&w->c, 1).r.state, CSP_NEW);
    put_header(&b, w, &h, w->as);
    assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_HEADER);
    assert_int_equal(ask_key(&c, &again), LINK_KEY); /* the same, now that it is signed */
    assert_memory_equal(h.key, again.key, h.key_bytes);
    disconnect(&c);

    /* lost key, lost round: never generated again */
    csp_store j = csp_memory_store(&w->c);
    CHECK_OK(csp_store_key_wipe(&j, 1));
    greet(&c, w);
    assert_int_equal(ask_key(&c, &again), LINK_NO_KEY);
    put_head(&b, w, 0, &h);
    assert_int_equal(say_early(&c, 1, &b, reason, 1), LINK_NO_KEY);
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_NO_KEY);
    put_skip(&b, w, 1);
    assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
    assert_int_equal(ask_key(&c, &again), LINK_NO_SKIPPED);
    other = world_header(w, 2);
    assert_int_equal(ask_key(&c, &other), LINK_KEY);
    assert_memory_not_equal(other.key, h.key, h.key_bytes);
    disconnect(&c);
    world_free(w);

    /* the root of the key file is part of every key: the journal alone opens nothing */
    w = sealed_world();
    greet(&c, w);
    assert_int_equal(ask_key(&c, &h), LINK_KEY);
    disconnect(&c);
    w->root[5] ^= 1;
    greet(&c, w);
    assert_int_equal(ask_key(&c, &again), LINK_KEY);
    assert_memory_not_equal(again.key, h.key, h.key_bytes);
    disconnect(&c);
    buf_clear(&b);
    world_free(w);
}

/* ---- heads ----------------------------------------------------------------------------------- */

/* Heads that are not a member's of this round, in EARLY and in SET. */
static void heads_that_do_not_count(void **state)
{
    (void)state;
    enum { KINDS = 9 };
    static const uint8_t want[KINDS] = { HEAD_KEPT,      HEAD_SIGNATURE, HEAD_SIGNATURE,
                                         HEAD_SIGNATURE, HEAD_SEAL,      HEAD_MEMBER,
                                         HEAD_VOUCHER,   HEAD_FORM,      HEAD_SIGNATURE };
    for (int kind = 0; kind < KINDS; kind++) {
        world *w = sealed_world();
        sefl_buf b = { 0 }, bad = { 0 };
        connection c;
        uint8_t reason[4], bytes[HEAD_MAX];
        verdict v;
        greet(&c, w);
        round_header h = begin_round(&c, w, 1), x = h;
        w_client me = w->client[1];
        uint8_t id = w->t.id[0];
        switch (kind) {
        case 1: /* another client's name on it */
            memcpy(w->client[1].id, w->client[2].id, 32);
            world_head(w, 1, &h, bytes);
            memcpy(w->client[1].id, me.id, 32);
            memcpy(bytes + 8, me.id, 32);
            break;
        case 2: /* of another round */
            x.round = 2;
            world_head(w, 1, &x, bytes);
            break;
        case 3: /* of another task */
            w->t.id[0] ^= 1;
            world_head(w, 1, &h, bytes);
            w->t.id[0] = id;
            break;
        case 4: { /* sealed to another key, and signed */
            seal_key *other;
            CHECK_OK(seal_key_from(&other, w->t.seal, (const uint8_t[32]){ 9 }));
            memcpy(x.key, seal_key_pub(other).p, x.key_bytes);
            seal_key_free(other);
            world_head(w, 1, &x, bytes);
            break;
        }
        case 7: /* no head at all */
            world_head(w, 1, &h, bytes);
            bytes[0] ^= 1;
            break;
        case 8: /* signed by another member's key */
            w->client[1].key = w->client[2].key;
            world_head(w, 1, &h, bytes);
            w->client[1].key = me.key;
            break;
        default:
            world_head(w, 1, &h, bytes);
        }
        if (kind == 5)
            w->revoked = 2;
        if (kind == 6)
            memset(w->c.vouched.leaf[1].client, 0, 32);
        CHECK_OK(wr_raw(&bad, bytes, head_bytes(w->t.seal)));
        put_head(&b, w, 0, &h);
        CHECK_OK(wr_raw(&b, bad.p, bad.n));
        put_head(&b, w, 2, &h);
        assert_int_equal(say_early(&c, 1, &b, reason, 3), LINK_EARLY);
        assert_int_equal(reason[0] | reason[2], HEAD_KEPT);
        assert_int_equal(reason[1], want[kind]);
        disconnect(&c);
        greet(&c, w); /* the same in SET */
        put_head(&b, w, 0, &h);
        CHECK_OK(wr_raw(&b, bad.p, bad.n));
        put_head(&b, w, 2, &h);
        assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_VERDICT);
        assert_int_equal(v.kept, kind == 0 ? 3 : 2);
        assert_int_equal(v.reason[1], want[kind]);
        /* two of two: below the threshold CSP keeps nothing */
        disconnect(&c);
        world_reset(w);
        greet(&c, w);
        h = begin_round(&c, w, 1);
        put_head(&b, w, 0, &h);
        CHECK_OK(wr_raw(&b, bad.p, bad.n));
        if (kind == 6)
            memset(w->c.vouched.leaf[1].client, 0, 32);
        assert_int_equal(say_set(&c, w, 1, 2, &b, &v), kind == 0 ? LINK_VERDICT : LINK_NO_FEW);
        assert_int_equal(csp_seen_at(&w->c, 1).has_set, kind == 0);
        assert_int_equal(csp_seen_at(&w->c, 1).r.state, kind == 0 ? CSP_SIGNED : CSP_SKIPPED);
        assert_int_equal(csp_seen_at(&w->c, 1).has_key, kind == 0);
        assert_int_equal(w->book.charges, 0);
        disconnect(&c);
        buf_clear(&b);
        buf_clear(&bad);
        world_free(w);
    }
}

/* Too few clients end the round: skipped, key wiped, not charged, no second attempt on any
 * stream. */
static void too_few_end_the_round(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        world *w = sealed_world();
        sefl_buf b = { 0 };
        connection c;
        verdict v;
        uint32_t n =
            kind == 0 ? 1 : 10; /* L - 1 names; one name any number of times; early heads too */
        greet(&c, w);
        round_header h = begin_round(&c, w, 1);
        if (kind == 2) {
            uint8_t reason[1];
            put_head(&b, w, 0, &h);
            assert_int_equal(say_early(&c, 1, &b, reason, 1), LINK_EARLY);
        }
        for (uint32_t i = 0; i < n; i++)
            put_head(&b, w, 0, &h);
        assert_int_equal(say_set(&c, w, 1, n, &b, &v), LINK_NO_FEW);
        assert_true(csp_seen_at(&w->c, 1).r.state == CSP_SKIPPED &&
                    csp_seen_at(&w->c, 1).r.skip == CSP_SKIP_FEW);
        assert_false(csp_seen_at(&w->c, 1).has_set || csp_seen_at(&w->c, 1).has_key);
        for (int again = 0; again < 2; again++) {
            put_heads(&b, w, &h, 3); /* those would have been enough */
            assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_NO_SKIPPED);
            disconnect(&c);
            greet(&c, w);
        }
        put_skip(&b, w, 1); /* AS says so too */
        assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
        assert_int_equal(csp_seen_at(&w->c, 1).r.skip, CSP_SKIP_FEW);
        assert_int_equal(w->book.charges, 0);
        world_sum(w, 2); /* and the next round is normal */
        h = begin_round(&c, w, 2);
        put_heads(&b, w, &h, 3);
        assert_int_equal(say_set(&c, w, 2, 3, &b, &v), LINK_VERDICT);
        disconnect(&c);
        buf_clear(&b);
        world_free(w);
    }
}

/* One client twice, too many names, a client that has reached its limit of rounds. */
static void counts_and_limits(void **state)
{
    (void)state;
    world *w = sealed_world();
    sefl_buf b = { 0 };
    connection c;
    verdict v;
    greet(&c, w);
    round_header h = begin_round(&c, w, 1);
    for (int i = 0; i < 32; i++)
        put_head(&b, w, 0, &h);
    assert_int_equal(say_set(&c, w, 1, 32, &b, &v), LINK_NO_FEW); /* more than the most */
    assert_int_equal(csp_seen_at(&w->c, 1).r.state, CSP_SIGNED);  /* no set at all */
    assert_false(csp_seen_at(&w->c, 1).has_set);
    put_head(&b, w, 0, &h);
    put_head(&b, w, 1, &h);
    put_head(&b, w, 1, &h);
    put_head(&b, w, 2, &h);
    assert_int_equal(say_set(&c, w, 1, 4, &b, &v), LINK_VERDICT);
    assert_int_equal(v.kept, 3);
    assert_int_equal(v.reason[2], HEAD_TWICE);
    assert_int_equal(v.reason[0] | v.reason[1] | v.reason[3], HEAD_KEPT);
    disconnect(&c);

    world_reset(w);
    w->t.max_rounds_per_client = 1;
    greet(&c, w);
    h = begin_round(&c, w, 1);
    put_heads(&b, w, &h, 2);
    assert_int_equal(say_set(&c, w, 1, 2, &b, &v), LINK_VERDICT);
    CHECK_OK(ledger_pay(&w->a.ledger, 1)); /* charged and never revealed: it counts */
    put_skip(&b, w, 1);
    assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
    world_sum(w, 2);
    h = begin_round(&c, w, 2);
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_set(&c, w, 2, 3, &b, &v), LINK_NO_FEW); /* one of three has one left */
    w->t.max_rounds_per_client = 2;
    world_sum(w, 3);
    h = begin_round(&c, w, 3);
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_set(&c, w, 3, 3, &b, &v), LINK_VERDICT);
    assert_int_equal(v.kept, 3);
    disconnect(&c);

    /* clients that ignore rounds.separation, and an AS that lets them: CSP refuses their heads */
    world_reset(w);
    w->t.max_rounds_per_client = 0;
    w->t.separation = 3;
    greet(&c, w);
    h = begin_round(&c, w, 1);
    put_heads(&b, w, &h, 2); /* clients 0 and 1 */
    assert_int_equal(say_set(&c, w, 1, 2, &b, &v), LINK_VERDICT);
    CHECK_OK(ledger_pay(&w->a.ledger, 1));
    put_skip(&b, w, 1);
    assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
    for (uint64_t round = 2; round <= 4; round++) {
        world_sum(w, round);
        h = begin_round(&c, w, round);
        buf_reset(&b);
        put_heads(&b, w, &h, 3);
        const uint32_t kind = say_set(&c, w, round, 3, &b, &v);
        if (round < 4) {
            assert_int_equal(kind, LINK_NO_FEW); /* only client 2 is left */
            put_skip(&b, w, round);
            assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
        } else { /* three rounds later */
            assert_int_equal(kind, LINK_VERDICT);
            assert_int_equal(v.kept, 3);
        }
    }
    disconnect(&c);
    buf_clear(&b);
    world_free(w);
}

/* ---- one set per round ----------------------------------------------------------------------- */

static void one_set_a_round(void **state)
{
    (void)state;
    world *w = sealed_world();
    sefl_buf b = { 0 };
    connection c;
    verdict v, first;
    uint8_t reason[4];
    greet(&c, w);
    round_header h = begin_round(&c, w, 1);
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_set(&c, w, 1, 3, &b, &first), LINK_VERDICT);
    put_heads(&b, w, &h, 3); /* the same again */
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_VERDICT);
    assert_memory_equal(&v, &first, sizeof v);
    put_heads(&b, w, &h, 2); /* fewer */
    assert_int_equal(say_set(&c, w, 1, 2, &b, &v), LINK_NO_ORDER);
    put_head(&b, w, 0, &h);
    assert_int_equal(say_early(&c, 1, &b, reason, 1), LINK_NO_ORDER); /* it is fixed */
    disconnect(&c);

    greet(&c, w); /* on another stream */
    put_heads(&b, w, &h, 2);
    put_head(&b, w, 3, &h); /* somebody else */
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_NO_ORDER);
    w->tree_seed[0] ^= 1; /* another tree */
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_NO_ORDER);
    w->tree_seed[0] ^= 1;
    w->client[2].units[0] ^= 1; /* another upload */
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_NO_ORDER);
    w->client[2].units[0] ^= 1;
    w->revoked = 7; /* a verdict is final: nothing is checked again */
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_VERDICT);
    assert_memory_equal(&v, &first, sizeof v);
    disconnect(&c);
    w->revoked = 0;

    greet(&c, w); /* short forms of what EARLY brought are the same set */
    put_head(&b, w, 1, &h);
    assert_int_equal(say_early(&c, 1, &b, reason, 1), LINK_EARLY);
    for (int i = 0; i < 3; i++) {
        uint8_t brief[HEAD_PREFIX];
        head_short(brief, w->client[i].id, w->client[i].units);
        if (i == 1)
            CHECK_OK(wr_raw(&b, brief, sizeof brief));
        else
            put_head(&b, w, i, &h);
    }
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_VERDICT);
    assert_memory_equal(&v, &first, sizeof v);
    disconnect(&c);

    world_reset(w); /* a short form that EARLY did not bring */
    greet(&c, w);
    h = begin_round(&c, w, 1);
    put_heads(&b, w, &h, 2);
    uint8_t brief[HEAD_PREFIX];
    head_short(brief, w->client[2].id, w->client[2].units);
    CHECK_OK(wr_raw(&b, brief, sizeof brief));
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_VERDICT);
    assert_int_equal(v.reason[2], HEAD_FORM);
    assert_int_equal(v.kept, 2);
    disconnect(&c);

    world_reset(w); /* and one of another upload than EARLY brought */
    greet(&c, w);
    h = begin_round(&c, w, 1);
    put_head(&b, w, 2, &h);
    assert_int_equal(say_early(&c, 1, &b, reason, 1), LINK_EARLY);
    put_heads(&b, w, &h, 2);
    brief[HEAD_PREFIX - 1] ^= 1;
    CHECK_OK(wr_raw(&b, brief, sizeof brief));
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_VERDICT);
    assert_int_equal(v.reason[2], HEAD_FORM);
    assert_int_equal(v.kept, 2);
    disconnect(&c);
    buf_clear(&b);
    world_free(w);
}

/* AS has acknowledged an output of this round that CSP's store does not have: the store is an old
 * copy, and CSP skips the round for good, also on a stream that has its verdict. Of a round that CSP
 * has revealed the digest changes nothing. */
static void an_acknowledged_output_is_not_made_again(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        world *w = sealed_world();
        sefl_buf b = { 0 };
        connection c;
        verdict v;
        greet(&c, w);
        round_header h = begin_round(&c, w, 1);
        put_heads(&b, w, &h, 3);
        if (before)
            assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_VERDICT);
        memset(w->replied, 7, sizeof w->replied);
        for (int again = 0; again < 2; again++) {
            buf_reset(&b);
            put_heads(&b, w, &h, 3);
            assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_NO_SKIPPED);
            assert_int_equal(csp_seen_at(&w->c, 1).r.state, CSP_SKIPPED);
            assert_int_equal(csp_seen_at(&w->c, 1).r.skip, CSP_SKIP_OLD_STATE);
            assert_false(csp_seen_at(&w->c, 1).has_key);
            memset(w->replied, 0, sizeof w->replied);
        }
        put_skip(&b, w, 1);
        assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
        disconnect(&c);
        buf_clear(&b);
        world_free(w);
    }
    world *w = sealed_world();
    int64_t got[W_VALUES];
    sefl_buf b = { 0 };
    connection c;
    verdict v;
    bool kept;
    connect_(&c, w, NULL, false);
    CHECK_OK(world_round(w, &c, 1, &kept, got));
    disconnect(&c);
    greet(&c, w);
    round_header h = csp_seen_at(&w->c, 1).r.header;
    put_heads(&b, w, &h, 3);
    memset(w->replied, 7, sizeof w->replied);
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_VERDICT);
    assert_int_equal(csp_seen_at(&w->c, 1).reveals, 1);
    disconnect(&c);
    buf_clear(&b);
    world_free(w);
}

/* An invalid SET ends the stream; a refused one leaves it in sync. */
static void sets_out_of_form(void **state)
{
    (void)state;
    world *w = sealed_world();
    sefl_buf b = { 0 }, heads = { 0 };
    connection c;
    verdict v;
    greet(&c, w);
    round_header h = begin_round(&c, w, 1);
    for (int i = 0; i < 9; i++) {
        disconnect(&c);
        greet(&c, w);
        channel *raw = &c.wire[0].inner;
        buf_reset(&heads);
        put_heads(&heads, w, &h, 3);
        put_set(&b, w, 1, i == 0 ? 0 : i == 1 ? LINK_SET_MAX + 1 : i == 2 ? 2 : 3);
        if (i == 3)
            CHECK_OK(wr_u8(&b, 0));
        CHECK_OK(link_send(raw, LINK_SET, buf_span(&b)));
        buf_reset(&b);
        if (i == 4) { /* descending order */
            buf_reset(&heads);
            put_head(&heads, w, 1, &h);
            put_head(&heads, w, 0, &h);
            put_head(&heads, w, 2, &h);
        }
        (void)!msg_send(raw, i == 5 ? LINK_SUM : LINK_HEADS, i == 6, heads.p,
                        i == 7   ? heads.n - 1
                        : i == 8 ? 0
                                 : heads.n);
        (void)!channel_flush(raw);
        link_msg m = { 0 };
        assert_int_not_equal(link_recv(&c.ch[0], &m), SEFL_OK);
        buf_clear(&m.body);
        disconnect(&c);
        assert_int_equal(c.st, SEFL_EPROTO);
        assert_false(csp_seen_at(&w->c, 1).has_set);
        greet(&c, w);
    }
    buf_reset(&heads);
    put_heads(&heads, w, &h, 3);
    assert_int_equal(say_set(&c, w, 2, 3, &heads, &v), LINK_NO_HEADER); /* never signed */
    put_heads(&heads, w, &h, 3);
    assert_int_equal(say_set(&c, w, 1, 3, &heads, &v), LINK_VERDICT); /* in sync */
    disconnect(&c);
    buf_clear(&b);
    buf_clear(&heads);
    world_free(w);
}

/* ---- reveals --------------------------------------------------------------------------------- */

static void openings_need_the_verdict(void **state)
{
    (void)state;
    world *w = sealed_world();
    sefl_buf b = { 0 };
    connection c;
    verdict v;
    greet(&c, w);
    round_header h = begin_round(&c, w, 1);
    CHECK_OK(ledger_pay(&w->a.ledger, 1));
    round_statement s = statement(w, 1, 1, 3);
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_ORDER); /* no SET */
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_VERDICT);
    memcpy(s.set, v.root, 32);
    s.clients = 2;
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_ORDER); /* another count */
    s.clients = 10;
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_ORDER);
    s.clients = 3;
    s.set[31] ^= 1;
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_ORDER); /* another root */
    s.set[31] ^= 1;
    disconnect(&c);
    greet(&c, w); /* a verdict of another stream: its sum is not here */
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_ORDER);
    assert_int_equal(w->book.charges, 0);
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_VERDICT);
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_GO);
    assert_int_equal(w->book.charges, 1);
    disconnect(&c);
    assert_int_equal(csp_seen_at(&w->c, 1).reveals, 0);
    buf_clear(&b);
    world_free(w);
}

/* After the mark the key is gone from the journal and from memory: no head of that round opens
 * again, not even for a CSP whose state says that the round is not over. */
static void keys_are_wiped(void **state)
{
    (void)state;
    for (int skipped = 0; skipped < 2; skipped++) {
        world *w = sealed_world();
        sefl_buf b = { 0 };
        connection c;
        bool kept;
        int64_t got[W_VALUES];
        uint8_t reason[4];
        verdict v;
        round_header h;
        if (skipped) {
            greet(&c, w);
            h = begin_round(&c, w, 1);
            put_skip(&b, w, 1);
            assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
        } else {
            connect_(&c, w, NULL, false);
            CHECK_OK(world_round(w, &c, 1, &kept, got));
            assert_memory_equal(got, w->total, SEALED_VALUES * sizeof *got);
            h = csp_seen_at(&w->c, 1).r.header;
        }
        disconnect(&c);
        assert_true(!csp_seen_at(&w->c, 1).has_key && csp_seen_at(&w->c, 1).wiped == 1);
        greet(&c, w);
        put_head(&b, w, 0, &h);
        assert_int_equal(say_early(&c, 1, &b, reason, 1),
                         skipped ? LINK_NO_SKIPPED : LINK_NO_REVEALED);
        put_heads(&b, w, &h, 3); /* the set that was kept may be asked for again */
        assert_int_equal(say_set(&c, w, 1, 3, &b, &v), skipped ? LINK_NO_SKIPPED : LINK_VERDICT);
        disconnect(&c);
        w->c.round[1]->row.state =
            CSP_SIGNED; /* an old copy of the journal, without the key file */
        greet(&c, w);
        put_head(&b, w, 0, &h);
        assert_int_equal(say_early(&c, 1, &b, reason, 1), LINK_NO_KEY);
        put_heads(&b, w, &h, 3);
        assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_NO_KEY);
        disconnect(&c);
        buf_clear(&b);
        world_free(w);
    }
    /* a crash between the mark and the wipe: the next start does it */
    world *w = sealed_world();
    connection c;
    greet(&c, w);
    begin_round(&c, w, 1);
    disconnect(&c);
    w->c.round[1]->row.state = CSP_SKIPPED;
    assert_true(csp_seen_at(&w->c, 1).has_key);
    greet(&c, w);
    assert_false(csp_seen_at(&w->c, 1).has_key);
    disconnect(&c);
    world_free(w);
}

/* AS cannot keep a key alive by staying silent. */
static void keys_expire(void **state)
{
    (void)state;
    const uint64_t life = 1000 + 2 * 500 + 24 * 3600 * 1000;
    for (int how = 0; how < 3; how++) { /* at a question, when idle, at a start */
        world *w = sealed_world();
        sefl_buf b = { 0 };
        connection c;
        uint8_t reason[4];
        greet(&c, w);
        round_header h = begin_round(&c, w, 1);
        assert_int_equal(csp_seen_at(&w->c, 1).r.signed_ms, w->wall_ms);
        CHECK_OK(ledger_pay(&w->a.ledger, 1)); /* AS had charged it */
        w->boot_ms += life;
        put_head(&b, w, 0, &h);
        assert_int_equal(say_early(&c, 1, &b, reason, 1), LINK_EARLY); /* the last moment */
        if (how == 0) {
            w->boot_ms++;
            put_head(&b, w, 1, &h);
            assert_int_equal(say_early(&c, 1, &b, reason, 1), LINK_NO_SKIPPED);
        }
        disconnect(&c);
        if (how > 0) {
            w->boot_ms++;
            sefl_clock wall = { world_wall, w }, boot = { world_boot, w };
            csp *server;
            if (how == 1)
                w->boot_ms--;
            CHECK_OK(csp_new(&server, &(csp_config){ .task = &w->t,
                                                     .envelope = buf_span(&w->envelope),
                                                     .root = w->root,
                                                     .wall = &wall,
                                                     .boot = &boot,
                                                     .boot_id = { w->boot_id },
                                                     .vouch = world_voucher,
                                                     .member = world_member,
                                                     .key = w->csp,
                                                     .store = &c.journal,
                                                     .coins = &w->named[1] }));
            if (how == 1) {
                CHECK_OK(csp_expire(server));
                assert_true(csp_seen_at(&w->c, 1).has_key);
                w->boot_ms++;
                CHECK_OK(csp_expire(server));
            }
            csp_free(server);
        }
        assert_int_equal(csp_seen_at(&w->c, 1).r.state, CSP_SKIPPED);
        assert_int_equal(csp_seen_at(&w->c, 1).r.skip, CSP_SKIP_EXPIRED);
        assert_false(csp_seen_at(&w->c, 1).has_key);
        greet(&c, w); /* AS is one charge ahead for a round that CSP skipped: allowed */
        put_skip(&b, w, 1);
        assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
        assert_memory_equal(&w->a.ledger.mark[2], &w->book.mark[2], sizeof(ledger_head));
        begin_round(&c, w, 2);
        disconnect(&c);
        buf_clear(&b);
        world_free(w);
    }
}

/* A task that ends within a round leaves no key, neither that round's nor the next one's. */
static void the_end_of_a_task_wipes_keys(void **state)
{
    (void)state;
    for (int skipped = 0; skipped < 2; skipped++) {
        world *w = sealed_world();
        sefl_buf b = { 0 };
        connection c;
        greet(&c, w);
        begin_round(&c, w, 1);
        if (skipped) {
            round_header h = world_header(w, 2);
            put_skip(&b, w, 1);
            assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
            assert_int_equal(ask_key(&c, &h), LINK_KEY);
        }
        assert_true(csp_seen_at(&w->c, 1 + skipped).has_key);
        CHECK_OK(wr_u8(&b, 1));
        put_order(&b, w, 0, LINK_ORDER_OVER, w->as);
        assert_int_equal(say_buf(&c, LINK_BYE, &b), LINK_YES);
        disconnect(&c);
        assert_true(c.over && csp_memory_at(&w->c, 0)->has[CSP_OVER]);
        assert_int_equal(csp_seen_at(&w->c, 1).r.state, CSP_SKIPPED);
        assert_false(csp_seen_at(&w->c, 1 + skipped).has_key);
        assert_int_equal(w->book.charges, 0);
        buf_clear(&b);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_rounds),
        cmocka_unit_test(heads_that_do_not_count),
        cmocka_unit_test(too_few_end_the_round),
        cmocka_unit_test(counts_and_limits),
        cmocka_unit_test(one_set_a_round),
        cmocka_unit_test(an_acknowledged_output_is_not_made_again),
        cmocka_unit_test(sets_out_of_form),
        cmocka_unit_test(openings_need_the_verdict),
        cmocka_unit_test(keys_are_wiped),
        cmocka_unit_test(keys_expire),
        cmocka_unit_test(the_end_of_a_task_wipes_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
