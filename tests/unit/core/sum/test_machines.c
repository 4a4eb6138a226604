/* AS's end and CSP's end of the link are machines: here they run in one thread, without a channel.
 * The test carries each message from one to the other. */
#include "link_pair.h"

static void digest_msg(sha256 *to, const link_msg *m)
{
    uint8_t frame[MSG_HEADER];
    store_u32(frame, m->kind), store_u32(frame + 4, m->index);
    store_u64(frame + 8, m->body.n);
    sha256_add(to, span_of(frame, sizeof frame));
    sha256_add(to, buf_span(&m->body));
}

typedef struct pair {
    connection c;
    as_link *l;
    sha256 said[2]; /* by AS, by CSP */
} pair;

/* Carries messages until AS's question has ended. */
static sefl_status carry(pair *p)
{
    sefl_status st = SEFL_OK;
    csp_replies from_csp = { 0 };
    while (!as_link_is_idle(p->l)) {
        const link_msg *out;
        SEFL_TRY(as_link_next(p->l, &out));
        if (out) {
            digest_msg(&p->said[0], out);
            SEFL_TRY(csp_on(p->c.server, out, &from_csp));
            continue;
        }
        assert_true(from_csp.n > 0);
        for (unsigned i = 0; i < from_csp.n; i++) {
            digest_msg(&p->said[1], &from_csp.m[i]);
            SEFL_TRY(as_link_on(p->l, &from_csp.m[i]));
        }
        csp_replies_clear(&from_csp);
    }
done:
    csp_replies_clear(&from_csp);
    return st;
}

#define ASK(p, call)          \
    do {                      \
        CHECK_OK(call);       \
        CHECK_OK(carry((p))); \
    } while (0)

static void pair_new(pair *p, world *w)
{
    connection_init(&p->c, w);
    csp_restart(p->c.server);
    as_link_config cfg = world_as(p->c.w);
    for (int i = 0; i < 2; i++)
        sha256_init(&p->said[i]);
    ASK(p, as_link_new(&p->l, NULL, &cfg));
}

static void pair_free(pair *p)
{
    as_link_free(p->l);
    csp_free(p->c.server);
}

/* The questions of world_round. */
static void ask_round(pair *p, int64_t *got, bool *kept)
{
    world *w = p->c.w;
    round_header h = world_header(w, 1);
    sefl_buf both = { 0 };
    const bool is_open = as_link_peer(p->l)->revealed >= 1, sealed = task_is_sealed(&w->t);
    if (sealed && !is_open)
        ASK(p, as_link_key(p->l, &h));
    if (!sealed || !is_open)
        ASK(p, as_link_header(p->l, &both, &h));
    if (sealed && !is_open) {
        w_heads x = { .w = w, .h = h };
        round_entry leaves[W_CLIENTS];
        as_set set = world_set(&x, leaves);
        as_verdict v;
        uint8_t early[HEAD_MAX];
        head_refusal refused;
        size_t n;
        world_head(w, 0, &h, early);
        ASK(p, as_link_early(p->l, 1, span_of(early, head_bytes(w->t.seal)), &refused, &n));
        assert_int_equal(n, 0);
        ASK(p, as_link_set(p->l, &set, &v));
        assert_int_equal(v.kept, W_CLIENTS);
        memcpy(w->set, v.root, sizeof w->set);
        as_verdict_clear(&v);
    }
    CHECK_OK(ledger_pay(&w->a.ledger, 1));
    as_reveal o = {
        .round = 1, .attempt = ++w->attempt, .clients = W_CLIENTS, .sum = w->sum, .store = &p->c.as
    };
    memcpy(o.set, w->set, sizeof o.set);
    buf_reset(&both);
    o.counted = &both;
    ASK(p, as_link_reveal(p->l, &o, kept, got));
    assert_int_equal(both.n > 0, sealed);
    buf_clear(&both);
}

/* The same coins over a channel and without one: the same result and the same bytes. */
static void no_channel_is_needed(void **state)
{
    (void)state;
    static const char *const schemes[] = { "pad", "paillier" };
    static const task_noise modes[] = { TASK_NOISE_NONE, TASK_NOISE_OWN, TASK_NOISE_JOINT };
    for (int i = 0; i < 6; i++) {
        world *w = world_new(schemes[i / 3], modes[i % 3], W_VALUES);
        int64_t want[W_VALUES], got[W_VALUES];
        uint8_t over[2][SHA256_BYTES], without[SHA256_BYTES];
        connection c;
        pair p;
        bool kept;
        world_sum(w, 1);
        for (int again = 0; again < 2; again++) { /* the reveal, and the output that CSP kept */
            connect_(&c, w, NULL, false);
            CHECK_OK(world_round(w, &c, 1, &kept, want));
            disconnect(&c);
            assert_int_equal(kept, again);
            if (again == 0)
                for (int side = 0; side < 2; side++)
                    sha256_end(&c.wire[side].transcript, over[side]);
        }
        world_reset(w);
        for (int again = 0; again < 2; again++) {
            pair_new(&p, w);
            ask_round(&p, got, &kept);
            assert_int_equal(kept, again);
            assert_memory_equal(got, want, sizeof got);
            for (int side = 0; side < 2 && again == 0; side++) {
                sha256_end(&p.said[side], without);
                assert_memory_equal(without, over[side], sizeof without);
            }
            if (again == 1) {
                ASK(&p, as_link_bye(p.l, true));
                assert_true(as_link_dead(p.l) && csp_is_done(p.c.server));
            }
            pair_free(&p);
        }
        world_free(w);
    }
}

/* One question at a time; a message that AS does not wait for ends the stream. */
static void out_of_turn(void **state)
{
    (void)state;
    world *w = world_new("pad", TASK_NOISE_NONE, 40);
    const link_msg *out, pong = { .kind = LINK_PONG }, numbered = { .kind = LINK_PONG, .index = 1 };
    round_header h = world_header(w, 1);
    pair p;
    for (int i = 0; i < 5; i++) {
        pair_new(&p, w);
        assert_true(as_link_is_idle(p.l));
        CHECK_OK(as_link_next(p.l, &out));
        assert_null(out);
        if (i > 0)
            CHECK_OK(as_link_ping(p.l));
        assert_int_equal(as_link_is_idle(p.l), i == 0);
        if (i > 1) {
            CHECK_STATUS(as_link_key(p.l, &h), SEFL_ESTATE);
            CHECK_OK(as_link_next(p.l, &out));
            assert_int_equal(out->kind, LINK_PING);
            CHECK_OK(as_link_next(p.l, &out));
            assert_null(out);
        }
        /* unasked, before PING has left, with an index, once, twice */
        CHECK_STATUS(as_link_on(p.l, i == 2 ? &numbered : &pong), i < 3 ? SEFL_EPROTO : SEFL_OK);
        assert_int_equal(as_link_dead(p.l), i < 3);
        if (i == 4) {
            CHECK_STATUS(as_link_on(p.l, &pong), SEFL_EPROTO);
            assert_true(as_link_dead(p.l));
        }
        assert_true(as_link_is_idle(p.l));
        CHECK_STATUS(as_link_ping(p.l), i == 3 ? SEFL_OK : SEFL_ECLOSED);
        pair_free(&p);
    }
    world_free(w);
}

/* A link that ends in the middle of a reveal leaves no integers behind. */
static void an_abandoned_reveal(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_NONE, 40);
    const link_msg *out;
    int64_t got[W_VALUES];
    bool kept;
    pair p;
    world_sum(w, 1);
    pair_new(&p, w);
    memset(got, 1, sizeof got);
    CHECK_OK(ledger_pay(&w->a.ledger, 1));
    as_reveal o = { .round = 1, .attempt = 1, .clients = 3, .sum = w->sum, .store = &p.c.as };
    CHECK_OK(as_link_reveal(p.l, &o, &kept, got));
    CHECK_OK(as_link_next(p.l, &out));
    assert_int_equal(out->kind, LINK_REVEAL);
    pair_free(&p);
    for (size_t i = 0; i < w->t.values; i++)
        assert_int_equal(got[i], 0);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_channel_is_needed),
        cmocka_unit_test(out_of_turn),
        cmocka_unit_test(an_abandoned_reveal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
