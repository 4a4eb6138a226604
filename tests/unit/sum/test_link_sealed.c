/* Sealed rounds over the link: which heads count, one set and one reveal per round, wiped keys,
 * vouchers, and AS's signature on every order. */
#include "link_sets.h"

#include "base/ct.h"

enum { VALUES = 40 };

static world *sealed_world(void)
{
    world *w = world_new("pad", TASK_NOISE_NONE, VALUES);
    world_sum(w, 1);
    return w;
}

/* ---- keys and headers -------------------------------------------------------------------------- */

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

/* ---- heads ------------------------------------------------------------------------------------- */

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
    buf_clear(&b);
    world_free(w);
}

/* ---- AS's TLS key alone ------------------------------------------------------------------------- */

/* A peer without AS's signing key gets no WELCOME, and without it CSP accepts no message, even if
 * the peer replays everything that AS has ever signed. */
static void a_thief_of_the_tls_key(void **state)
{
    (void)state;
    world *w = sealed_world();
    sefl_buf b = { 0 };
    connection c;
    verdict v;
    uint8_t reason[3];
    greet(&c, w); /* AS, in the middle of a round */
    round_header h = begin_round(&c, w, 1);
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_early(&c, 1, &b, reason, 3), LINK_EARLY);
    disconnect(&c);
    const unsigned calls = w->c.calls;
    struct {
        uint32_t kind, want;
        sefl_buf body;
    } ask[] = { { .kind = LINK_TASK, .want = LINK_NO_ORDER },
                { .kind = LINK_KEY, .want = LINK_NO_ORDER },
                { .kind = LINK_HEADER, .want = LINK_NO_ORDER },
                { .kind = LINK_VOUCH, .want = LINK_NO_ORDER },
                { .kind = LINK_EARLY, .want = LINK_NO_ORDER },
                { .kind = LINK_REVEAL, .want = LINK_NO_ORDER },
                { .kind = LINK_SKIP, .want = LINK_NO_ORDER },
                { .kind = LINK_ENROL, .want = LINK_NO_ORDER },
                { .kind = LINK_PING, .want = LINK_NO_ORDER },
                { .kind = LINK_BYE, .want = LINK_NO_ORDER },
                { .kind = LINK_SET }, /* 0: the stream ends, as with what lanes say */
                { .kind = LINK_LANE },
                { .kind = LINK_FILL } };
    enum { ASKED = sizeof ask / sizeof ask[0] };
    for (size_t i = 0; i < ASKED; i++) /* what AS itself would send now */
        switch (ask[i].kind) {
        case LINK_TASK:
            CHECK_OK(wr_raw(&ask[i].body, w->envelope.p, w->envelope.n));
            break;
        case LINK_HEADER:
            put_header(&ask[i].body, w, &h, w->as);
            break;
        case LINK_REVEAL: {
            round_statement s = statement(w, 1, 1, 3);
            put_open(&ask[i].body, w, &s, w->as);
            break;
        }
        case LINK_SKIP:
            put_skip(&ask[i].body, w, 1);
            break;
        case LINK_BYE:
            CHECK_OK(wr_u8(&ask[i].body, 1));
            put_order(&ask[i].body, w, 0, LINK_ORDER_OVER, w->as);
            break;
        default:
            CHECK_OK(wr_u64(&ask[i].body, 1));
        }
    for (int forged = 0; forged < 3; forged++)
        for (size_t i = 0; i < ASKED; i++) {
            connect_(&c, w, NULL, false);
            put_hello(&b, w, &w->a.ledger, LINK_VERSION);
            sefl_span said = span_of(b.p, b.n - SIGN_BYTES);
            if (forged == 0) /* of another server, of AS for something else, none */
                CHECK_OK(sign_make(b.p + said.n, w->csp, SIGN_LINK, said));
            else if (forged == 1)
                CHECK_OK(sign_make(b.p + said.n, w->as, SIGN_ORDER, said));
            else
                memset(b.p + said.n, 0, SIGN_BYTES);
            assert_int_equal(say_buf(&c, LINK_HELLO, &b), LINK_NO_SIGNATURE);
            assert_int_equal(say(&c, ask[i].kind, buf_span(&ask[i].body)), ask[i].want);
            disconnect(&c);
        }
    assert_int_equal(w->c.calls, calls); /* nothing was written */
    assert_true(csp_seen_at(&w->c, 1).r.state == CSP_SIGNED && csp_seen_at(&w->c, 1).has_key &&
                !csp_seen_at(&w->c, 1).has_set && !c.over);
    assert_int_equal(w->book.charges, 0);
    greet(&c, w); /* AS continues where it was */
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_VERDICT);
    disconnect(&c);
    for (size_t i = 0; i < ASKED; i++)
        buf_clear(&ask[i].body);
    buf_clear(&b);
    world_free(w);
}

/* ---- one set per round
 * ------------------------------------------------------------------------- */

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

/* ---- reveals
 * ----------------------------------------------------------------------------------- */

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
            assert_memory_equal(got, w->total, VALUES * sizeof *got);
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
        w->wall_ms += life;
        put_head(&b, w, 0, &h);
        assert_int_equal(say_early(&c, 1, &b, reason, 1), LINK_EARLY); /* the last moment */
        if (how == 0) {
            w->wall_ms++;
            put_head(&b, w, 1, &h);
            assert_int_equal(say_early(&c, 1, &b, reason, 1), LINK_NO_SKIPPED);
        }
        disconnect(&c);
        if (how > 0) {
            w->wall_ms++;
            sefl_clock wall = { world_wall, w };
            csp *server;
            if (how == 1)
                w->wall_ms--;
            CHECK_OK(csp_new(&server, &(csp_config){ .task = &w->t,
                                                     .envelope = buf_span(&w->envelope),
                                                     .root = w->root,
                                                     .wall = &wall,
                                                     .vouch = world_voucher,
                                                     .member = world_member,
                                                     .key = w->csp,
                                                     .store = &c.journal,
                                                     .coins = &w->named[1] }));
            if (how == 1) {
                CHECK_OK(csp_expire(server));
                assert_true(csp_seen_at(&w->c, 1).has_key);
                w->wall_ms++;
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

/* ---- EARLY and the sum ------------------------------------------------------------------------- */

/* The sum does not depend on which heads were sent early, nor on which of those were not in the
 * set. */
static void early_changes_nothing(void **state)
{
    (void)state;
    world *w = sealed_world();
    int64_t got[W_VALUES];
    connection c;
    bool kept;
    for (uint32_t early = 0; early < 16; early++) {
        world_reset(w);
        w->early = early & 7;
        if (early == 8)
            CHECK_OK(pool_new(&w->pool, 3));
        connect_(&c, w, NULL, false);
        CHECK_OK(world_round(w, &c, 1, &kept, got));
        disconnect(&c);
        assert_memory_equal(got, w->total, VALUES * sizeof *got);
    }
    pool_free(w->pool);
    world_free(w);

    /* five heads are sent early, one of them twice with another upload; the set has the other two
     * and one of these, and the task allows at most four at once */
    w = sealed_world();
    w->t.clients_max = 5, w->t.ahe.pack.clients = 5;
    for (int i = W_CLIENTS; i < W_ALL; i++)
        memset(w->client[i].units, i, 32);
    sefl_buf heads = { 0 };
    head_refusal refused[8];
    size_t refused_n;
    as_verdict v;
    as_link *l = world_link(w, &c);
    round_header h = world_signed(w, l, 1);
    w_client second = w->client[1];
    memset(w->client[1].units, 0x55, 32); /* an upload that is replaced */
    w->client[1].seed.seed[0] ^= 1;
    for (int i = 1; i < W_ALL; i++)
        put_head(&heads, w, i, &h);
    CHECK_OK(as_link_early(l, 1, buf_span(&heads), refused, &refused_n));
    assert_int_equal(refused_n, 0);
    w->client[1] = second;
    buf_reset(&heads);
    put_head(&heads, w, 1, &h);
    put_head(&heads, w, 1, &h); /* the same again changes nothing */
    CHECK_OK(as_link_early(l, 1, buf_span(&heads), refused, &refused_n));
    assert_int_equal(refused_n, 0);
    w_heads x = { .w = w, .h = h };
    round_entry leaves[W_CLIENTS];
    as_set set = world_set(&x, leaves);
    CHECK_OK(as_link_set(l, &set, &v, NULL));
    assert_int_equal(v.kept, 3);
    memcpy(w->set, v.root, 32);
    CHECK_OK(world_reveal(w, &c, l, 1, 3, NULL, &kept, got));
    assert_memory_equal(got, w->total, VALUES * sizeof *got);
    as_verdict_clear(&v);
    as_link_free(l);
    disconnect(&c);
    buf_clear(&heads);
    world_free(w);
}

/* A refused client: AS subtracts its body, and the sum is that of the others. */
static void refused_bodies_come_off(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        world *w = sealed_world();
        int64_t got[W_VALUES];
        connection c;
        bool kept, few;
        sefl_buf counted = { 0 }, path = { 0 }, heads = { 0 };
        as_verdict v;
        head_refusal refused[4];
        size_t n;
        envelope env;
        counted_statement said;
        as_link *l = world_link(w, &c);
        round_header h = world_signed(w, l, 1);
        if (early) {
            put_heads(&heads, w, &h, 3);
            CHECK_OK(as_link_early(l, 1, buf_span(&heads), refused, &n));
            assert_int_equal(n, 0);
        }
        w->revoked = 2; /* between EARLY and SET */
        w_heads x = { .w = w, .h = h };
        round_entry leaves[W_CLIENTS];
        as_set set = world_set(&x, leaves);
        CHECK_OK(as_link_set(l, &set, &v, &few));
        assert_true(!few && v.kept == 2 && v.refused_n == 1);
        assert_true(v.refused[0].index == 1 && v.refused[0].reason == HEAD_MEMBER);
        CHECK_OK(ahe_sum_take(&w->t.ahe, w->sum, 0, w->client[1].body, w->t.ahe.units, NULL));
        memcpy(w->set, v.root, 32);
        CHECK_OK(world_reveal(w, &c, l, 1, 2, &counted, &kept, got));
        /* the other two are the sum, whatever the third was */
        int64_t first = 0;
        for (size_t i = 0; i < VALUES; i++)
            first |= got[i] ^ w->total[i];
        assert_int_not_equal(first, 0);
        for (size_t i = 0; i < VALUES; i++)
            assert_true(got[i] <= 2 * w->t.ahe.pack.value_max &&
                        got[i] >= -2 * w->t.ahe.pack.value_max);

        /* CSP signed who is in it, and a client can check it */
        CHECK_OK(envelope_read(&env, buf_span(&counted)));
        CHECK_OK(envelope_check_one(&env, SIGN_COUNTED, SIGNER_CSP, w->t.servers.csp));
        CHECK_OK(counted_statement_read(&said, env.content));
        assert_memory_equal(said.root, v.root, 32);
        round_entry two[2] = { leaves[0], leaves[2] };
        counted_tree *tree;
        CHECK_OK(counted_tree_new(&tree, &(counted_facts){ .task = w->t.id,
                                                           .round = 1,
                                                           .tree_seed = w->tree_seed,
                                                           .clients_max = w->t.clients_max,
                                                           .leaves = two,
                                                           .n = 2 }));
        CHECK_OK(counted_tree_path(&path, tree, two[1].client));
        counted_tree_free(tree);
        unsigned depth = counted_depth(w->t.clients_max);
        CHECK_OK(counted_check(said.root, w->t.id, 1, depth, &leaves[2], buf_span(&path)));
        CHECK_STATUS(counted_check(said.root, w->t.id, 1, depth, &leaves[1], buf_span(&path)),
                     SEFL_EAUTH);
        as_verdict_clear(&v);
        as_link_free(l);
        disconnect(&c);
        buf_clear(&counted);
        buf_clear(&path);
        buf_clear(&heads);
        world_free(w);
    }
}

/* ---- thousands --------------------------------------------------------------------------------- */

enum { MANY = 5200, MANY_VALUES = 4 }; /* more heads than fit one HEADS, and many batches */

typedef struct population {
    const world *w;
    round_header h;
    round_entry *leaf;
    ahe_seed *seed;
    uint8_t *body;
    sign_key *key; /* in the test one key signs for all: CSP requires one voucher per client */
    seeded gen;
} population;

static bool not_every_seventh(void *ctx, const uint8_t client[32])
{
    (void)ctx;
    return client[31] % 7 != 0;
}

static sefl_status population_head(void *ctx, uint32_t i, uint8_t *out)
{
    population *x = ctx;
    sefl_rng rng = seeded_rng(&x->gen);
    return head_make(out,
                     &(head_facts){ .suite = x->w->t.seal,
                                    .task = x->w->t.id,
                                    .round = x->h.round,
                                    .client = x->leaf[i].client,
                                    .units = x->leaf[i].body },
                     span_of(x->h.key, x->h.key_bytes), x->seed[i].seed, x->key, &rng);
}

/* CSP's journal, but every client has the same upload key. */
static const uint8_t *one_key;

static sefl_status same_key(void *ctx, const uint8_t client[32], uint64_t *serial, uint8_t key[32])
{
    (void)ctx, (void)client;
    *serial = 1;
    memcpy(key, one_key, 32);
    return SEFL_OK;
}

static bool everybody(void *ctx, const uint8_t client[32])
{
    (void)ctx, (void)client;
    return true;
}

static int by_client(const void *a, const void *b)
{
    return memcmp(a, b, 32);
}

/* A third of the heads are sent early, and CSP refuses a seventh at the end: the sum is exactly
 * that of the others. */
static void a_crowd(void **state)
{
    (void)state;
    world *w = world_new("pad", TASK_NOISE_NONE, MANY_VALUES);
    pack p;
    CHECK_OK(pack_init(
        &p, &(pack_config){
                .scheme = PACK_PAD, .clients = MANY, .dimension = MANY_VALUES, .clip = PACK_ONE }));
    CHECK_OK(ahe_params_init(&w->t.ahe, &ahe_pad, &p, NULL, MANY_VALUES));
    w->t.clients_max = MANY;
    CHECK_OK(pool_new(&w->pool, 2));
    const ahe_params *a = &w->t.ahe;
    const size_t bytes = a->units * a->unit_bytes;
    population x = { .w = w,
                     .leaf = calloc(MANY, sizeof *x.leaf),
                     .seed = calloc(MANY, sizeof *x.seed),
                     .body = malloc(MANY * bytes),
                     .key = w->client[0].key };
    int64_t total[MANY_VALUES] = { 0 }, got[MANY_VALUES];
    seeded_init(&x.gen, 9, "a population");
    sefl_rng rng = seeded_rng(&x.gen);
    one_key = sign_key_pub(x.key);
    for (uint32_t i = 0; i < MANY; i++)
        seeded_fill(&x.gen, x.leaf[i].client, 32);
    qsort(x.leaf, MANY, sizeof *x.leaf, by_client);
    CHECK_OK(ahe_enc_new(&w->enc, NULL, a, NULL, NULL));
    CHECK_OK(ahe_sum_new(&w->sum, a, NULL));
    for (uint32_t i = 0; i < MANY; i++) {
        ahe_upload *up;
        uint8_t context[AHE_CONTEXT_BYTES], *body = x.body + i * bytes;
        int64_t v[2048] = { (int64_t)i % 9 - 4, -3, 5, (int64_t)(i % 3) };
        task_upload_context(context, &w->t, 1, x.leaf[i].client);
        CHECK_OK(ahe_upload_new(&up, a, w->enc, context, &rng));
        ahe_upload_seed(a, up, &x.seed[i]);
        CHECK_OK(ahe_upload_units(a, up, body, v, a->units, NULL, NULL));
        ahe_upload_free(a, up);
        blake3_of(x.leaf[i].body, span_of(body, bytes));
        CHECK_OK(ahe_sum_begin(a, w->sum));
        CHECK_OK(ahe_sum_add_units(a, w->sum, 0, body, a->units, NULL));
        for (int k = 0; k < MANY_VALUES && not_every_seventh(NULL, x.leaf[i].client); k++)
            total[k] += v[k];
    }
    connection c;
    as_link *l;
    sefl_buf early = { 0 };
    head_refusal *refused = calloc(MANY, sizeof *refused);
    size_t n;
    as_verdict v;
    bool kept;
    connect_(&c, w, NULL, false);
    c.journal.voucher_get = same_key;
    w->member = everybody;
    as_link_config cfg = world_as(w);
    CHECK_OK(as_link_new(&l, &c.ch[0], &cfg));
    x.h = world_signed(w, l, 1);
    for (uint32_t i = 0; i < MANY; i += 3) {
        uint8_t *at;
        CHECK_OK(buf_extend(&early, &at, head_bytes(w->t.seal)));
        CHECK_OK(population_head(&x, i, at));
    }
    CHECK_OK(as_link_early(l, 1, buf_span(&early), refused, &n));
    assert_int_equal(n, 0);
    w->member = not_every_seventh; /* what CSP asks from now on */
    as_set set = { .round = 1,
                   .clients = MANY,
                   .leaves = x.leaf,
                   .tree_seed = w->tree_seed,
                   .head = population_head,
                   .ctx = &x };
    CHECK_OK(as_link_set(l, &set, &v, NULL));
    assert_true(v.refused_n > MANY / 14 && v.refused_n < MANY / 3);
    for (uint32_t i = 0; i < v.refused_n; i++) {
        assert_true(v.refused[i].reason == HEAD_MEMBER);
        assert_int_equal(x.leaf[v.refused[i].index].client[31] % 7, 0);
        CHECK_OK(ahe_sum_take(a, w->sum, 0, x.body + v.refused[i].index * bytes, a->units, NULL));
    }
    CHECK_OK(ahe_sum_close(a, w->sum));
    memcpy(w->set, v.root, 32);
    CHECK_OK(world_reveal(w, &c, l, 1, v.kept, NULL, &kept, got));
    assert_memory_equal(got, total, sizeof got);
    as_verdict_clear(&v);
    as_link_free(l);
    disconnect(&c);
    buf_clear(&early);
    free(refused), free(x.leaf), free(x.seed), free(x.body);
    pool_free(w->pool);
    world_free(w);
}

/* Below the threshold: AS learns the reason, and the link continues. */
static void too_few_is_told(void **state)
{
    (void)state;
    world *w = sealed_world();
    connection c;
    as_verdict v;
    bool few = false;
    as_link *l = world_link(w, &c);
    round_header h = world_signed(w, l, 1);
    w->revoked = 6;
    w_heads x = { .w = w, .h = h };
    round_entry leaves[W_CLIENTS];
    as_set set = world_set(&x, leaves);
    CHECK_STATUS(as_link_set(l, &set, &v, &few), SEFL_ESTATE);
    assert_true(few && !as_link_dead(l));
    CHECK_OK(as_link_skip(l, 1, 1));
    assert_int_equal(w->book.charges, 0);
    as_link_free(l);
    disconnect(&c);
    world_free(w);
}

/* xwing, whole. */
static void the_other_suite(void **state)
{
    (void)state;
    world *w = sealed_world();
    int64_t got[W_VALUES];
    connection c;
    bool kept;
    w->t.seal = seal_suite_named("xwing");
    connect_(&c, w, NULL, false);
    CHECK_OK(world_round(w, &c, 1, &kept, got));
    disconnect(&c);
    assert_memory_equal(got, w->total, VALUES * sizeof *got);
    assert_int_equal(csp_seen_at(&w->c, 1).r.header.key_bytes, 1216);
    world_free(w);
}

/* ---- vouchers ---------------------------------------------------------------------------------- */

static void put_voucher(sefl_buf *b, const world *w, uint8_t spki, uint8_t key, uint64_t serial,
                        uint8_t good)
{
    voucher v = { .servers = w->t.servers,
                  .serial = serial,
                  .spki = span_of(&spki, 1),
                  .signature = span_of(&good, 1) };
    memset(v.key, key, sizeof v.key);
    CHECK_OK(voucher_write(b, &v));
}

static void vouchers(void **state)
{
    (void)state;
    world *w = sealed_world();
    sefl_buf b = { 0 };
    connection c;
    csp_store j = csp_memory_store(&w->c);
    uint8_t client[32], key[32];
    uint64_t serial;
    sha256_of(client, span_of("\1", 1));
    greet(&c, w);
    put_voucher(&b, w, 1, 11, 5, 0); /* not a member, or an invalid signature */
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_NO_ENROL);
    CHECK_STATUS(j.voucher_get(j.ctx, client, &serial, key), SEFL_ENOTFOUND);
    put_voucher(&b, w, 1, 11, 5, 1);
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_YES);
    put_voucher(&b, w, 1, 11, 5, 1); /* again, as at every start of a client */
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_YES);
    put_voucher(&b, w, 1, 12, 5, 1); /* another key, not newer */
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_NO_ENROL);
    put_voucher(&b, w, 1, 12, 4, 1);
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_NO_ENROL);
    put_voucher(&b, w, 2, 11, 9, 1); /* another client's key */
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_NO_ENROL);
    CHECK_OK(j.voucher_get(j.ctx, client, &serial, key));
    assert_true(serial == 5 && key[0] == 11);
    put_voucher(&b, w, 1, 12, 6, 1);
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_YES);
    CHECK_OK(j.voucher_get(j.ctx, client, &serial, key));
    assert_true(serial == 6 && key[0] == 12);
    w->t.servers.as[0] ^= 1; /* of another federation */
    put_voucher(&b, w, 1, 13, 7, 1);
    w->t.servers.as[0] ^= 1;
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_NO_ENROL);
    assert_int_equal(say(&c, LINK_VOUCH, span_of("abc", 3)), LINK_NO_ENROL);
    assert_int_equal(say(&c, LINK_PING, span_of("", 0)), LINK_PONG);
    disconnect(&c);
    buf_clear(&b);
    world_free(w);
}

/* ---- orders ------------------------------------------------------------------------------------ */

/* SKIP and BYE without AS's signature on them change nothing, and charge nothing. */
static void orders_are_signed(void **state)
{
    (void)state;
    static const char *const schemes[] = { "pad", "paillier" };
    for (int k = 0; k < 2; k++) {
        world *w = world_new(schemes[k], TASK_NOISE_NONE, VALUES);
        sefl_buf b = { 0 };
        connection c;
        greet(&c, w);
        if (k == 0)
            begin_round(&c, w, 1);
        else
            sign_round(&c, w, 1);
        CHECK_OK(ledger_pay(&w->a.ledger, 1)); /* a skip would charge */
        unsigned calls = w->c.calls;
        uint8_t id = w->t.id[0];
        for (int i = 0; i < 3; i++) {
            const sign_key *key = i == 0 ? w->csp : w->as; /* another key */
            for (uint8_t what = LINK_ORDER_SKIP; what <= LINK_ORDER_OVER; what++) {
                if (what == LINK_ORDER_SKIP)
                    put_mark(&b, &w->a.ledger);
                else
                    CHECK_OK(wr_u8(&b, 1));
                if (i == 1)
                    w->t.id[0] ^= 1; /* of another task */
                put_order(&b, w, what == LINK_ORDER_SKIP, what, key);
                w->t.id[0] = id;
                if (i == 2)
                    b.p[b.n - 1] ^= 1; /* a bit of the signature */
                assert_int_equal(say_buf(&c, what == LINK_ORDER_SKIP ? LINK_SKIP : LINK_BYE, &b),
                                 i == 1 ? LINK_NO_TASK : LINK_NO_SIGNATURE);
            }
        }
        disconnect(&c);
        for (int i = 0; i < 4; i++) { /* none at all, cut off, or one of the other kind */
            greet(&c, w);
            if (i == 0)
                CHECK_OK(wr_u8(&b, 1));
            if (i == 1 || i == 3)
                put_mark(&b, &w->a.ledger);
            if (i == 1)
                CHECK_OK(wr_u64(&b, 1));
            if (i == 2)
                CHECK_OK(wr_u8(&b, 1));
            if (i >= 2)
                put_order(&b, w, 1, i == 2 ? LINK_ORDER_SKIP : LINK_ORDER_OVER, w->as);
            assert_int_equal(say_buf(&c, i % 2 == 0 ? LINK_BYE : LINK_SKIP, &b), 0);
            disconnect(&c);
            assert_int_equal(c.st, SEFL_EPROTO);
            assert_false(c.over);
        }
        assert_int_equal(w->c.calls, calls); /* nothing was written */
        assert_int_equal(w->book.charges, 0);
        assert_int_equal(csp_seen_at(&w->c, 1).r.state, CSP_SIGNED);
        assert_false(csp_memory_at(&w->c, 0)->has[CSP_OVER]);

        /* a ledger that is ahead by another charge: nothing is charged before it is compared */
        mem_ledger fork = { 0 };
        CHECK_OK(ledger_pay(&fork, 2));
        greet(&c, w);
        put_mark(&b, &fork);
        put_order(&b, w, 1, LINK_ORDER_SKIP, w->as);
        assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_NO_LEDGER);
        assert_int_equal(w->c.calls, calls);
        assert_int_equal(w->book.charges, 0);
        put_skip(&b, w, 1);
        assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
        assert_int_equal(w->book.charges, 1);
        CHECK_OK(wr_u8(&b, 1));
        put_order(&b, w, 0, LINK_ORDER_OVER, w->as);
        assert_int_equal(say_buf(&c, LINK_BYE, &b), LINK_YES);
        disconnect(&c);
        assert_true(c.over && csp_memory_at(&w->c, 0)->has[CSP_OVER]);
        buf_clear(&b);
        world_free(w);
    }
}

/* ---- small readers ----------------------------------------------------------------------------- */

static void refusals_of_another_form(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        sefl_status st;
    } c[] = {
        { "", 0, SEFL_OK },
        { "\0\0\0\0\1", 5, SEFL_OK },
        { "\0\0\0\0\1\2\0\0\0\7", 10, SEFL_OK },
        { "\0\0\0\0\0", 5, SEFL_EPROTO },                      /* no reason */
        { "\3\0\0\0\1", 5, SEFL_EPROTO },                      /* no such head */
        { "\1\0\0\0\1\1\0\0\0\1", 10, SEFL_EPROTO },           /* twice */
        { "\1\0\0\0\1\0\0\0\0\1", 10, SEFL_EPROTO },           /* descending */
        { "\0\0\0\0", 4, SEFL_EPROTO },                        /* cut off */
        { "\0\0\0\0\1\1\0\0\0\1\2\0\0\0\1", 15, SEFL_EPROTO }, /* more than there is room */
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        head_refusal out[2];
        size_t n;
        rd r = rd_over(span_of(c[i].bytes, c[i].n));
        CHECK_STATUS(link_refusals_read(&r, out, 2, &n, 3), c[i].st);
        assert_int_equal(n, c[i].st == SEFL_OK ? c[i].n / 5 : 0);
    }
    uint8_t bytes[LINK_ORDER_BYTES + 1] = { [40] = LINK_ORDER_SKIP };
    link_order o;
    CHECK_OK(link_order_read(&o, span_of(bytes, LINK_ORDER_BYTES)));
    CHECK_STATUS(link_order_read(&o, span_of(bytes, LINK_ORDER_BYTES - 1)), SEFL_EPROTO);
    CHECK_STATUS(link_order_read(&o, span_of(bytes, LINK_ORDER_BYTES + 1)), SEFL_EPROTO);
    bytes[40] = 3;
    CHECK_STATUS(link_order_read(&o, span_of(bytes, LINK_ORDER_BYTES)), SEFL_EPROTO);
    bytes[40] = 0;
    CHECK_STATUS(link_order_read(&o, span_of(bytes, LINK_ORDER_BYTES)), SEFL_EPROTO);
    for (unsigned reason = HEAD_FORM; reason <= HEAD_NORM; reason++)
        assert_string_not_equal(head_reason_text(reason), head_reason_text(0));
}

/* Thousands of clients, many with the same first bytes. */
static void a_table_of_clients(void **state)
{
    (void)state;
    client_table t = { 0 };
    uint8_t client[32] = { 0 }, units[32] = { 0 };
    size_t at;
    assert_int_equal(client_table_find(&t, client), 0);
    for (int again = 0; again < 2; again++)
        for (uint32_t i = 0; i < 3000; i++) {
            store_u32(client, i % 7);
            store_u32(client + 20, i);
            store_u32(units, i + (uint32_t)again);
            CHECK_OK(client_table_put(&t, client, units, &at));
            assert_int_equal(at, i);
        }
    assert_int_equal(t.n, 3000);
    for (uint32_t i = 0; i < 3000; i++) {
        store_u32(client, i % 7);
        store_u32(client + 20, i);
        assert_int_equal(client_table_find(&t, client), i + 1);
        assert_int_equal(load_u32(t.leaf[i].body), i + 1);
    }
    store_u32(client + 20, 4711);
    assert_int_equal(client_table_find(&t, client), 0);
    client_table_clear(&t);
    TEST_FAULTS(FAULT_ALLOC, st = client_table_put(&t, client, units, &at), client_table_clear(&t));
    client_table_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_rounds),
        cmocka_unit_test(heads_that_do_not_count),
        cmocka_unit_test(a_thief_of_the_tls_key),
        cmocka_unit_test(too_few_end_the_round),
        cmocka_unit_test(counts_and_limits),
        cmocka_unit_test(one_set_a_round),
        cmocka_unit_test(sets_out_of_form),
        cmocka_unit_test(openings_need_the_verdict),
        cmocka_unit_test(keys_are_wiped),
        cmocka_unit_test(keys_expire),
        cmocka_unit_test(the_end_of_a_task_wipes_keys),
        cmocka_unit_test(early_changes_nothing),
        cmocka_unit_test(refused_bodies_come_off),
        cmocka_unit_test(a_crowd),
        cmocka_unit_test(too_few_is_told),
        cmocka_unit_test(the_other_suite),
        cmocka_unit_test(vouchers),
        cmocka_unit_test(orders_are_signed),
        cmocka_unit_test(refusals_of_another_form),
        cmocka_unit_test(a_table_of_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
