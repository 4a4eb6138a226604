/* Design:
 *  1. A handler answers one message; csp_internal.h lists how it can end.
 *  2. CSP answers only after its writes are durable, and writes only after it has verified the
 *     signature and compared the ledgers.
 *  3. csp_restart drops all state of an attempt; csp_serve ends with it. */
#include "sum/csp.h"

#include "base/alloc.h"
#include "crypto/ahe/paillier.h"
#include "sum/csp_set.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint64_t csp_now(const csp *c)
{
    return c->c.clock ? clock_ns(c->c.clock) : 0;
}

/* ---- replies --------------------------------------------------------------------------------- */

void csp_replies_clear(csp_replies *r)
{
    for (unsigned i = 0; i < r->n; i++)
        buf_clear(&r->m[i].body);
    r->n = 0;
}

sefl_buf *csp_reply(csp *c, uint32_t kind)
{
    csp_replies *r = c->out;
    assert(r->n < CSP_REPLIES_MAX);
    r->m[r->n] = (link_msg){ .kind = kind };
    return &r->m[r->n++].body;
}

sefl_status csp_reply_yes(csp *c)
{
    (void)csp_reply(c, LINK_YES);
    return SEFL_OK;
}

sefl_status csp_reply_head(csp *c, uint32_t kind, sefl_span more)
{
    const csp_store *s = c->c.store;
    ledger_head ours;
    SEFL_PASS(csp_own(c, s->ledger.head(s->ledger.ctx, &ours)));
    sefl_buf *out = csp_reply(c, kind);
    SEFL_PASS(ledger_head_write(out, &ours));
    return wr_raw(out, more.p, more.n);
}

sefl_status csp_no(csp *c, link_no code, const char *sentence)
{
    LOG_AT(c->c.log, code == LINK_NO_PAUSED ? LOG_DEBUG : LOG_WARN, /* AS asks every few seconds */
           "refused", lf_str("question", link_kind_name(c->asked)), lf_u64("code", code),
           lf_str("why", sentence ? sentence : link_no_text(code)));
    csp_replies_clear(c->out);
    sefl_status st = link_no_write(csp_reply(c, LINK_NO), code, sentence);
    c->refused = st == SEFL_OK;
    return st == SEFL_OK ? SEFL_ESTATE : st;
}

sefl_status csp_own(csp *c, sefl_status st)
{
    c->fault |= st != SEFL_OK;
    return st;
}

static void note_compared(csp *c, bool equal)
{
    const int64_t ms = c->c.wall ? (int64_t)clock_ms(c->c.wall) : 1;
    atomic_store(&c->compared_ms, equal ? ms : -ms);
}

int64_t csp_compared_ms(const csp *c)
{
    return atomic_load(&c->compared_ms);
}

sefl_status csp_no_ledger(csp *c, const ledger_head *theirs)
{
    const csp_store *s = c->c.store;
    ledger_head ours;
    char why[120];
    ledger_order v;
    SEFL_PASS(csp_compare(c, theirs, &v));
    SEFL_PASS(csp_own(c, s->ledger.head(s->ledger.ctx, &ours)));
    note_compared(c, false);
    snprintf(why, sizeof why, "AS's has %" PRIu64 " records, CSP's %" PRIu64 ": %s",
             theirs->records, ours.records,
             v == LEDGER_PEER_BEHIND  ? "AS's is an old copy"
             : v == LEDGER_PEER_AHEAD ? "CSP's is an old copy"
             : v == LEDGER_SAME       ? "AS has not charged this round"
                                      : "they have different histories");
    return csp_no(c, LINK_NO_LEDGER, why);
}

/* ---- conditions: NO unless they are met ------------------------------------------------------ */

sefl_status csp_must_have(csp *c, uint64_t round, csp_round *now)
{
    SEFL_PASS(csp_own(c, csp_store_get(c->c.store, round, now)));
    if (now->state == CSP_NEW)
        return csp_no(c, LINK_NO_HEADER, CSP_NEVER_SIGNED);
    return now->state == CSP_SKIPPED ? csp_no(c, LINK_NO_SKIPPED, csp_skip_text(now->skip))
                                     : SEFL_OK;
}

sefl_status csp_in_turn(csp *c, uint64_t round)
{
    const csp_store *s = c->c.store;
    csp_highest top;
    csp_round before;
    ledger_head after;
    char why[120];
    csp_hold hold = c->c.hold ? c->c.hold(c->c.enrol_ctx) : CSP_GOES_ON;
    if (hold != CSP_GOES_ON)
        return csp_no(c, hold == CSP_PAUSED ? LINK_NO_PAUSED : LINK_NO_ENDED, NULL);
    SEFL_PASS(csp_own(c, csp_store_highest(s, &top)));
    if (round != top.header + 1 || round > c->c.task->rounds) {
        snprintf(why, sizeof why,
                 "round %" PRIu64 " of %" PRIu64 ", but the last one signed here is %" PRIu64,
                 round, c->c.task->rounds, top.header);
        return csp_no(c, LINK_NO_HEADER, why);
    }
    if (top.header > 0) {
        SEFL_PASS(csp_own(c, csp_store_get(s, top.header, &before)));
        if (before.state != CSP_REVEALED && before.state != CSP_SKIPPED)
            return csp_no(c, LINK_NO_HEADER,
                          "CSP has neither revealed nor skipped the previous round");
    }
    return csp_charged(c, s->ledger.head_after(s->ledger.ctx, round, &after));
}

sefl_status csp_charged(csp *c, sefl_status st)
{
    return st == SEFL_EBUDGET ? csp_no(c, LINK_NO_BUDGET, sefl_last_error()) : csp_own(c, st);
}

/* NO if a signature is invalid: st is the result of its check. */
static sefl_status must_be_signed(csp *c, sefl_status st)
{
    return st == SEFL_EAUTH ? csp_no(c, LINK_NO_SIGNATURE, sefl_last_error()) : st;
}

sefl_status csp_from_as(csp *c, const envelope *env, sign_kind kind)
{
    SEFL_PASS(must_be_signed(c, envelope_check_one(env, kind, SIGNER_AS, c->c.task->servers.as)));
    /* header and statement begin with the task's id; their readers check the length */
    if (env->content.n < TASK_ID || memcmp(env->content.p, c->c.task->id, TASK_ID) != 0)
        return csp_no(c, LINK_NO_TASK, NULL);
    return SEFL_OK;
}

sefl_status csp_compare(csp *c, const ledger_head *peer, ledger_order *out)
{
    const csp_store *s = c->c.store;
    *out = s->ledger.compare(s->ledger.ctx, peer);
    return csp_own(c, *out == LEDGER_UNREADABLE ? SEFL_EIO : SEFL_OK);
}

/* Sets *equal to whether the ledgers would be equal after CSP's charge of this round. Writes
 * nothing. */
static sefl_status equal_after(csp *c, const ledger_head *peer, uint64_t round, bool *equal)
{
    const csp_store *s = c->c.store;
    ledger_head after;
    sefl_status st = s->ledger.head_after(s->ledger.ctx, round, &after);
    *equal = st == SEFL_OK && ledger_head_equal(&after, peer);
    return st == SEFL_EBUDGET ? SEFL_OK
                              : st; /* a charge that CSP refuses cannot explain the difference */
}

/* NO unless the ledgers are equal, or AS has charged the round that CSP has not revealed yet (or
 * has skipped by itself). */
static sefl_status ledgers_must_fit(csp *c, const ledger_head *peer)
{
    const csp_store *s = c->c.store;
    csp_round last;
    csp_highest top = { 0 };
    ledger_order v;
    SEFL_PASS(csp_compare(c, peer, &v));
    bool fit = v == LEDGER_SAME;
    if (v == LEDGER_PEER_AHEAD)
        SEFL_PASS(csp_own(c, csp_store_highest(s, &top)));
    if (top.header > 0) {
        SEFL_PASS(csp_own(c, csp_store_get(s, top.header, &last)));
        if (last.state == CSP_SIGNED || last.state == CSP_SKIPPED)
            SEFL_PASS(csp_own(c, equal_after(c, peer, top.header, &fit)));
    }
    if (!fit)
        return csp_no_ledger(c, peer);
    note_compared(c, true);
    return SEFL_OK;
}

/* ---- greeting -------------------------------------------------------------------------------- */

/* NO unless AS signed HELLO for this task. */
static sefl_status check_hello(csp *c, const csp_hello *h)
{
    if (h->version == 0)
        return csp_no(c, LINK_NO_VERSION, h->why);
    if (memcmp(h->task, c->c.task->id, TASK_ID) != 0)
        return csp_no(c, LINK_NO_TASK, NULL);
    /* not a peer that has AS's TLS key alone */
    return must_be_signed(c, csp_hello_check(h, c->c.task, c->binding));
}

static sefl_status on_hello(csp *c, rd *r)
{
    const csp_store *s = c->c.store;
    csp_hello h;
    ledger_head ours;
    csp_highest top;
    uint8_t pair[LINK_PAIR];
    sefl_rng rng;
    SEFL_PASS(csp_hello_read(&h, span_of(r->p, r->left)));
    SEFL_PASS(check_hello(c, &h));
    SEFL_PASS(csp_clock_compare(c, h.wall_ms));
    SEFL_PASS(csp_own(c, csp_expire(c))); /* with the age that is certain now */
    SEFL_PASS(ledgers_must_fit(c, &h.head));
    SEFL_PASS(csp_own(c, s->ledger.head(s->ledger.ctx, &ours)));
    SEFL_PASS(csp_own(c, csp_store_highest(s, &top)));
    SEFL_PASS(coins_for(c->c.coins, &rng, "pair", top.header, c->streams++));
    SEFL_PASS(rng_fill(&rng, pair, sizeof pair));
    sefl_buf *out = csp_reply(c, LINK_WELCOME);
    SEFL_PASS(wr_u16(out, h.version));
    SEFL_PASS(ledger_head_write(out, &ours));
    SEFL_PASS(wr_u64(out, top.header));
    SEFL_PASS(wr_u64(out, top.revealed));
    SEFL_PASS(wr_u64(out, top.skipped));
    SEFL_PASS(wr_raw(out, pair, sizeof pair));
    if (c->c.paired)
        c->c.paired(c->c.lanes_ctx, pair); /* before its first lane can come */
    c->phase = CSP_GREETED;
    return SEFL_OK;
}

static sefl_status on_task(csp *c, rd *r)
{
    envelope env;
    SEFL_PASS(envelope_read(&env, span_of(r->p, r->left)));
    if (env.content.n != c->own.content.n ||
        memcmp(env.content.p, c->own.content.p, env.content.n) != 0)
        return csp_no(c, LINK_NO_TASK, NULL);
    SEFL_PASS(must_be_signed(c, envelope_check(&env, SIGN_TASK, &c->c.task->servers)));
    c->phase = CSP_READY;
    return csp_reply_yes(c);
}

/* ---- expiry ---------------------------------------------------------------------------------- */

/* Lifetime of a round key from its header on: the maximum duration of the round, and a day. */
static uint64_t life_ms(const task *t)
{
    return t->deadline_ms + t->extensions * t->extend_ms + UINT64_C(24) * 3600 * 1000;
}

void csp_set_live(csp *c, uint64_t round, uint64_t until_ms)
{
    c->live = round;
    atomic_store(&c->live_ms, until_ms);
    if (round == 0)
        atomic_store(&c->clock.unsure, false);
}

uint64_t csp_expires_ms(const csp *c)
{
    return atomic_load(&c->live_ms);
}

/* Makes csp_expire watch this round. */
static void watch(csp *c, const csp_round *r)
{
    if (task_is_sealed(c->c.task) && r->state == CSP_SIGNED)
        csp_set_live(c, r->round, r->signed_ms + life_ms(c->c.task));
}

sefl_status csp_round_over(csp *c, uint64_t round)
{
    if (c->ahead.round == round)
        ahead_drop(&c->ahead, c->c.task);
    gather_drop(c);
    SEFL_PASS(csp_key_done(c, round)); /* the round stays live until its key is wiped */
    if (c->live == round)
        csp_set_live(c, 0, 0);
    return SEFL_OK;
}

/* Skips the live round, unless it is revealed: a failed write may have hidden the mark. */
static sefl_status skip_live(csp *c, unsigned reason, const char *why)
{
    const uint64_t round = c->live;
    csp_round now;
    SEFL_PASS(csp_store_get(c->c.store, round, &now));
    if (now.state == CSP_SIGNED) {
        SEFL_PASS(csp_skip(c, round, reason));
        log_error(c->c.log, why, lf_u64("round", round));
    }
    return csp_round_over(c, round);
}

sefl_status csp_expire(csp *c)
{
    csp_clock_look(c);
    if (c->live == 0 || !c->c.wall || csp_key_time_ms(c) <= csp_expires_ms(c))
        return SEFL_OK;
    return skip_live(c, CSP_SKIP_EXPIRED, "round key expired: round skipped");
}

/* ---- headers and orders ---------------------------------------------------------------------- */

/* Erases the stored output of a round that AS has released. Ignores a failure: the next header
 * tries again. */
static void forget(csp *c, uint64_t round)
{
    const csp_store *s = c->c.store;
    csp_round before;
    if (round == 0 || csp_store_get(s, round, &before) != SEFL_OK || before.state != CSP_REVEALED)
        return;
    csp_forget_history(c, history_after(c->c.task, round, true));
    if (csp_store_forget(s, round) != SEFL_OK)
        log_warn(c->c.log, "output not erased", lf_u64("round", round),
                 lf_str("why", sefl_last_error()));
}

/* A new round: its header becomes durable. */
static sefl_status begin_round(csp *c, const round_header *h, csp_round *now)
{
    uint64_t most; /* unused: the call records that the round began */
    SEFL_PASS(csp_in_turn(c, h->round));
    SEFL_PASS(csp_header_key(c, h));
    if (c->live > 0 && c->live < h->round) /* it is over, and its key could not be wiped then */
        SEFL_PASS(csp_own(c, csp_round_over(c, c->live)));
    if (task_is_sealed(c->c.task))
        SEFL_PASS(csp_own(c, csp_clock_begin(c)));
    *now = (csp_round){ .round = h->round,
                        .state = CSP_SIGNED,
                        .signed_ms = c->c.wall ? clock_ms(c->c.wall) : 0,
                        .header = *h };
    watch(c, now); /* a write that fails may have stored the header */
    SEFL_PASS(csp_own(c, csp_store_sign(c->c.store, now)));
    if (c->c.members && c->c.members(c->c.enrol_ctx, h->round, true, &most) != SEFL_OK)
        log_warn(c->c.log, "members not counted", lf_str("why", sefl_last_error()));
    log_info(c->c.log, "header signed", lf_u64("round", h->round), lf_hash("model", h->model));
    return SEFL_OK;
}

static sefl_status on_header(csp *c, rd *r)
{
    sefl_status st = SEFL_OK;
    ledger_head theirs;
    envelope env;
    csp_round now = { 0 };
    round_header h;
    uint8_t a[HEADER_MAX], b[HEADER_MAX];
    sefl_buf both = { 0 };
    SEFL_TRY(ledger_head_read(r, &theirs));
    SEFL_TRY(envelope_read(&env, span_of(r->p, r->left)));
    SEFL_TRY(csp_from_as(c, &env, SIGN_HEADER));
    SEFL_TRY(round_header_read(&h, env.content));
    SEFL_TRY(ledgers_must_fit(c, &theirs));
    SEFL_TRY(csp_own(c, csp_store_get(c->c.store, h.round, &now)));
    if (now.state == CSP_NEW)
        SEFL_TRY(begin_round(c, &h, &now));
    size_t n = round_header_write(a, &now.header);
    if (round_header_write(b, &h) != n || memcmp(a, b, n) != 0)
        return csp_no(c, LINK_NO_HEADER,
                      "AS asked with another model before, so its state is an old copy");
    forget(c, h.round - 1);
    if (env.by[0].signer != SIGNER_AS) /* only the verified signature, and ours */
        env.by[0] = env.by[1];
    env.count = 1;
    SEFL_TRY(envelope_sign(&env, SIGNER_CSP, c->c.key));
    SEFL_TRY(envelope_write(&both, &env));
    SEFL_TRY(csp_reply_head(c, LINK_HEADER, buf_span(&both)));
done:
    buf_clear(&both);
    return st;
}

/* Reads an order, the rest of the question; NO unless AS signed it. */
static sefl_status read_order(csp *c, rd *r, uint8_t what, link_order *out)
{
    envelope env;
    SEFL_PASS(envelope_read(&env, span_of(r->p, r->left)));
    SEFL_PASS(csp_from_as(c, &env, SIGN_ORDER));
    SEFL_PASS(link_order_read(out, env.content));
    SEFL_NEED(out->what == what, SEFL_EPROTO, "link: %s with order %u", link_kind_name(c->asked),
              out->what);
    return SEFL_OK;
}

static sefl_status on_skip(csp *c, rd *r)
{
    const csp_store *s = c->c.store;
    ledger_head theirs;
    ledger_order v;
    link_order order;
    csp_round now;
    bool ahead = false;
    SEFL_PASS(ledger_head_read(r, &theirs));
    SEFL_PASS(read_order(c, r, LINK_ORDER_SKIP, &order));
    const uint64_t round = order.round;
    SEFL_PASS(csp_own(c, csp_store_get(s, round, &now)));
    if (now.state == CSP_NEW)
        return csp_no(c, LINK_NO_HEADER, CSP_NEVER_SIGNED);
    /* AS charged it and its REVEAL never arrived: the charge stands on both sides */
    SEFL_PASS(csp_compare(c, &theirs, &v));
    const bool equal = v == LEDGER_SAME;
    if (!equal && now.state != CSP_REVEALED)
        SEFL_PASS(csp_own(c, equal_after(c, &theirs, round, &ahead)));
    if (!ahead && !equal)
        return csp_no_ledger(c, &theirs);
    if (ahead)
        SEFL_PASS(csp_own(c, csp_store_charge(s, round)));
    if (now.state == CSP_SIGNED)
        SEFL_PASS(csp_own(c, csp_skip(c, round, order.reason)));
    else if (now.state == CSP_REVEALED) /* the model will not contain its noise */
        csp_forget_history(c, history_after(c->c.task, round, false));
    SEFL_PASS(csp_own(c, csp_round_over(c, round)));
    log_info(c->c.log, now.state == CSP_REVEALED ? "revealed round given up" : "round skipped",
             lf_u64("round", round), lf_u64("reason", order.reason));
    return csp_reply_yes(c);
}

/* AS learns only yes or no; the reason is for this operator and the site. */
static sefl_status on_enrol(csp *c, rd *r)
{
    enrol_claim claim;
    enrol_proof proof;
    uint8_t sig[SIGN_BYTES];
    SEFL_PASS(enrol_question_read(&claim, &proof, span_of(r->p, r->left)));
    sefl_status st = enrol_proof_check(&proof, &claim);
    if (st == SEFL_OK && memcmp(&claim.servers, &c->c.task->servers, sizeof claim.servers) != 0)
        st = sefl_fail(SEFL_EAUTH, "the site's request names other servers than this task's");
    if (st == SEFL_OK && !c->c.enrol)
        st = sefl_fail(SEFL_EAUTH, "this server has no trust list");
    if (st == SEFL_OK)
        st = c->c.enrol(c->c.enrol_ctx, &claim, &proof);
    if (st == SEFL_EAUTH) {
        log_warn(c->c.log, "enrolment refused", lf_str("name", claim.name),
                 lf_hash("key", claim.key), lf_str("why", sefl_last_error()));
        return csp_no(c, LINK_NO_ENROL, NULL);
    }
    if (st == SEFL_OK)
        st = enrol_approve(sig, &claim, c->c.key);
    if (st != SEFL_OK) { /* the list is locked or damaged: rounds go on */
        log_error(c->c.log, "enrolment failed", lf_str("why", sefl_last_error()));
        return csp_no(c, LINK_NO_FAULT, NULL);
    }
    log_info(c->c.log, "site enrolled", lf_str("name", claim.name), lf_hash("key", claim.key));
    return wr_raw(csp_reply(c, LINK_APPROVED), sig, sizeof sig);
}

static sefl_status on_ping(csp *c, rd *r)
{
    (void)csp_reply(c, LINK_PONG);
    return rd_end(r);
}

/* Ends the task: wipes the key of a signed round, and of the next one if AS has asked for it. */
static sefl_status give_up_keys(csp *c, unsigned reason)
{
    const csp_store *s = c->c.store;
    csp_highest top;
    if (!task_is_sealed(c->c.task))
        return SEFL_OK;
    SEFL_PASS(csp_store_highest(s, &top));
    if (c->live != 0)
        SEFL_PASS(skip_live(c, reason, "the task ends during a round: round skipped"));
    return csp_store_key_wipe(s, top.header + 1);
}

static sefl_status on_bye(csp *c, rd *r)
{
    const csp_store *s = c->c.store;
    csp_highest top;
    link_order order;
    uint8_t over;
    SEFL_PASS(rd_u8(r, &over));
    SEFL_NEED(over <= 1, SEFL_EPROTO, "link: BYE %u, expected 0 or 1", over);
    if (!over) {
        SEFL_PASS(rd_end(r));
        c->phase = CSP_BYE;
        return SEFL_OK;
    }
    SEFL_PASS(read_order(c, r, LINK_ORDER_OVER, &order));
    c->phase = CSP_BYE;
    SEFL_PASS(csp_own(c, give_up_keys(c, order.reason)));
    SEFL_PASS(csp_own(c, s->put(s->ctx, CSP_OVER, 0, span_of("1", 1))));
    if (csp_store_highest(s, &top) == SEFL_OK)
        forget(c, top.revealed);
    csp_forget_history(c, (history_range){ 1, 0 });
    c->over = true;
    return csp_reply_yes(c);
}

/* ---- phase x message ------------------------------------------------------------------------- */

#define IN(phase) (1u << CSP_##phase)

/* AS's messages, and the phases that accept them. */
static const struct question {
    uint32_t kind;
    unsigned phases;
    sefl_status (*on)(csp *c, rd *body);
    bool has_pieces; /* out of turn it ends the stream: CSP cannot parse what follows */
} questions[] = {
    { LINK_HELLO, IN(START), on_hello },
    { LINK_TASK, IN(GREETED), on_task },
    { LINK_PING, IN(GREETED) | IN(READY), on_ping },
    { LINK_BYE, IN(GREETED) | IN(READY), on_bye },
    { LINK_KEY, IN(READY), csp_on_key },
    { LINK_HEADER, IN(READY), on_header },
    { LINK_VOUCH, IN(READY), csp_on_vouch },
    { LINK_EARLY, IN(READY), csp_on_early },
    { LINK_SET, IN(READY), csp_on_set, .has_pieces = true },
    { LINK_HEADS, IN(HEADS), csp_on_heads, .has_pieces = true },
    { LINK_REVEAL, IN(READY), csp_on_reveal },
    { LINK_SUM, IN(SUM), csp_on_sum, .has_pieces = true },
    { LINK_ACK, IN(READY), csp_on_ack },
    { LINK_SKIP, IN(READY), on_skip },
    { LINK_ENROL, IN(READY), on_enrol },
};
#undef IN

/* True if so many checks of noise shares have failed that the task is over. */
static bool is_spoiled(const csp *c)
{
    return c->c.checks && c->phase == CSP_READY &&
           (c->asked == LINK_HEADER || c->asked == LINK_REVEAL) &&
           c->c.checks(c->c.lanes_ctx) >= CSP_CHECKS_MAX;
}

static sefl_status answer(csp *c, const link_msg *in)
{
    const struct question *q = questions, *end = q + sizeof questions / sizeof *questions;
    const bool pieces = c->phase == CSP_HEADS || c->phase == CSP_SUM;
    rd r = rd_over(buf_span(&in->body));
    while (q < end && q->kind != in->kind)
        q++;
    const bool now = q < end && (q->phases & 1u << c->phase);
    SEFL_NEED(now || (q < end && !q->has_pieces && !pieces), SEFL_EPROTO,
              "link: AS may not send %s%s", link_kind_name(in->kind), q < end ? " now" : "");
    if (!pieces)
        SEFL_PASS(csp_own(c, csp_expire(c)));
    if (!now)
        return csp_no(c, LINK_NO_ORDER, NULL);
    if (is_spoiled(c))
        return csp_no(c, LINK_NO_CHECKS, NULL);
    return q->on(c, &r);
}

sefl_status csp_on(csp *c, const link_msg *in, csp_replies *out)
{
    csp_keep_history(c); /* the replies to the last message have left */
    csp_replies_clear(out);
    if (in->kind != LINK_ACK)
        csp_announced_drop(c);
    c->out = out;
    c->asked = in->kind, c->index = in->index;
    c->refused = c->fault = false;
    sefl_status st = answer(c, in);
    if (st != SEFL_OK) {
        csp_revealing_drop(c);
        csp_reading_drop(c);
        if (c->phase == CSP_HEADS || c->phase == CSP_SUM)
            c->phase = CSP_READY;
    }
    if (st == SEFL_OK || c->refused)
        return SEFL_OK;
    csp_replies_clear(out);
    if (c->fault) {
        log_error(c->c.log, "fault", lf_str("question", link_kind_name(c->asked)),
                  lf_str("why", sefl_last_error()));
        if (link_no_write(csp_reply(c, LINK_NO), LINK_NO_FAULT, NULL) != SEFL_OK)
            csp_replies_clear(out);
    }
    return st;
}

bool csp_is_done(const csp *c)
{
    return c->phase == CSP_BYE;
}

void csp_restart(csp *c)
{
    csp_revealing_drop(c);
    csp_reading_drop(c);
    csp_announced_drop(c);
    gather_drop(c);
    c->phase = CSP_START;
    c->binding = span_of(NULL, 0);
}

/* ---- the loop over a channel ----------------------------------------------------------------- */

static sefl_status receive(const csp *c, channel *ch, link_msg *in)
{
    const ahe_params *p = &c->c.task->ahe;
    if (c->phase == CSP_HEADS)
        return link_recv_piece(ch, in, LINK_HEADS, LINK_HEADS_PIECE);
    if (c->phase == CSP_SUM)
        return link_recv_piece(ch, in, LINK_SUM, link_sum_units(p) * p->unit_bytes);
    return link_recv(ch, in);
}

static sefl_status send_replies(channel *ch, const csp_replies *out)
{
    for (unsigned i = 0; i < out->n; i++)
        SEFL_PASS(link_send_msg(ch, &out->m[i]));
    return SEFL_OK;
}

sefl_status csp_serve(csp *c, channel *ch)
{
    return csp_serve_from(c, ch, NULL);
}

sefl_status csp_serve_from(csp *c, channel *ch, link_msg *first)
{
    sefl_status st = SEFL_OK;
    link_msg in = { 0 };
    csp_replies out = { 0 };
    csp_restart(c);
    c->binding = span_of(ch->binding, ch->binding_n);
    if (first)
        in = *first, *first = (link_msg){ 0 };
    while (st == SEFL_OK && !csp_is_done(c)) {
        if (in.kind == 0)
            SEFL_TRY(receive(c, ch, &in));
        st = csp_on(c, &in, &out);
        uint64_t began = csp_now(c);
        sefl_status sent = send_replies(ch, &out);
        if (in.kind == LINK_ACK)
            c->times.output = csp_now(c) - began;
        if (c->revealed && !c->announced)
            csp_tell_over(c, CSP_REVEALED);
        in.kind = 0;             /* it is answered */
        csp_replies_clear(&out); /* wiped as soon as it has left */
        csp_keep_history(c);
        st = st == SEFL_OK ? sent : st;
    }
done:
    csp_restart(c);
    if (c->revealed)
        csp_tell_over(c, CSP_REVEALED);
    csp_replies_clear(&out);
    buf_clear(&in.body);
    return st;
}

bool csp_is_over(const csp *c)
{
    return c->over;
}

const csp_times *csp_get_times(const csp *c)
{
    return &c->times;
}

/* ---- the object ------------------------------------------------------------------------------ */

void csp_log_old_state(const csp *c, uint64_t round)
{
    log_error(c->c.log, "an old copy of the state was put back: round skipped",
              lf_u64("round", round), lf_str("why", csp_skip_text(CSP_SKIP_OLD_STATE)),
              lf_str("remedy", "never restore the state folder; the charge of this round stands, "
                               "and the task continues with the next round"));
}

/* Logs that the store detected, at open, that it is an old copy. */
static sefl_status report_old_state(csp *c)
{
    const csp_store *s = c->c.store;
    csp_highest top;
    csp_round last;
    SEFL_PASS(csp_store_highest(s, &top));
    SEFL_PASS(csp_store_get(s, top.header, &last));
    if (last.state == CSP_SKIPPED && last.skip == CSP_SKIP_OLD_STATE)
        csp_log_old_state(c, top.header);
    return SEFL_OK;
}

/* Wipes keys that a crash may have left for finished rounds; watches the round that is not over. */
static sefl_status sweep_keys(csp *c)
{
    const csp_store *s = c->c.store;
    csp_highest top;
    csp_round r;
    if (!task_is_sealed(c->c.task))
        return SEFL_OK;
    SEFL_PASS(csp_store_highest(s, &top));
    for (uint64_t i = 1; i <= top.header; i++) {
        SEFL_PASS(csp_store_get(s, i, &r));
        if (r.state == CSP_REVEALED || r.state == CSP_SKIPPED)
            SEFL_PASS(csp_store_key_wipe(s, i));
        else
            watch(c, &r);
        if (c->live == i)
            SEFL_PASS(csp_clock_restore(c, &r));
    }
    return csp_expire(c);
}

/* Destroys what CSP kept of rounds that no later one takes back, and of other tasks. */
static sefl_status sweep_history(csp *c)
{
    const csp_store *s = c->c.store;
    csp_highest top;
    SEFL_PASS(csp_store_highest(s, &top));
    const uint64_t b = c->over ? 0 : c->c.task->filter.b;
    if (b == 0)
        return s->history_keep(s->ctx, 1, 0);
    return s->history_keep(s->ctx, top.header > b ? top.header - b : 1, top.header);
}

static sefl_status check_keys(const csp_config *cfg)
{
    const task *t = cfg->task;
    if (task_is_sealed(t)) {
        SEFL_NEED(cfg->root, SEFL_EINVAL, "csp: a sealed task needs a key file with a root");
        SEFL_NEED(cfg->vouch && cfg->member, SEFL_EINVAL,
                  "csp: a sealed task needs a list of clients, and this server has none");
    } else {
        SEFL_NEED(cfg->sec && paillier_pub_equal(paillier_sec_pub(cfg->sec), t->pub), SEFL_EINVAL,
                  "csp: the task's public key does not belong to CSP's secret key");
    }
    return SEFL_OK;
}

sefl_status csp_new(csp **out, const csp_config *cfg)
{
    SEFL_MAKE(csp, c, out);
    c->c = *cfg;
    SEFL_TRY(envelope_read(&c->own, cfg->envelope));
    SEFL_TRY(envelope_check(&c->own, SIGN_TASK, &cfg->task->servers));
    SEFL_CHECK(memcmp(sign_key_pub(cfg->key), cfg->task->servers.csp, SIGN_PUB_BYTES) == 0,
               SEFL_EINVAL, "csp: the task names another signing key for CSP than `sign_key`");
    SEFL_TRY(check_keys(cfg));
    SEFL_TRY(csp_store_has(cfg->store, CSP_OVER, 0, &c->over));
    SEFL_TRY(report_old_state(c));
    SEFL_TRY(sweep_history(c));
    SEFL_TRY(sweep_keys(c));
    SEFL_HAND_OVER(out, c, csp_free);
}

void csp_free(csp *c)
{
    if (!c)
        return;
    csp_restart(c);
    csp_keep_history(c);
    history_drop(&c->fresh);
    ahead_drop(&c->ahead, c->c.task);
    sefl_free(c);
}
