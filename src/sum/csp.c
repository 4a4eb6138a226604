/* Design:
 *  1. A handler answers its question, with NO at worst, and returns SEFL_OK: the stream goes on. What
 *     it returns otherwise ends the stream.
 *  2. Nothing is answered before the journal says that it is durable, and nothing is written before
 *     signature and ledgers are checked.
 *  3. When csp_serve returns, nothing of an attempt is left. */
#include "sum/csp.h"

#include "base/alloc.h"
#include "sum/csp_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint64_t csp_now(const csp *c)
{
    return c->c.clock ? clock_ns(c->c.clock) : 0;
}

sefl_status csp_no(csp *c, channel *ch, link_no code, const char *sentence)
{
    log_warn(c->c.log, "refused", lf_str("question", link_kind_name(c->m.kind)),
             lf_u64("code", code), lf_str("why", sentence ? sentence : link_no_text(code)));
    return link_send_no(ch, code, sentence);
}

sefl_status csp_fault(csp *c, channel *ch, sefl_status st, const char *what)
{
    sefl_status end = sefl_fail_at(st, "%s", what);
    log_error(c->c.log, "fault", lf_str("question", link_kind_name(c->m.kind)),
              lf_str("why", sefl_last_error()));
    if (link_send_no(ch, LINK_NO_FAULT, NULL) != SEFL_OK)
        log_warn(c->c.log, "fault not told", lf_str("why", sefl_last_error()));
    return end;
}

/* ---- ledgers --------------------------------------------------------------------------------- */

bool csp_ledgers_equal(csp *c, const ledger_head *peer)
{
    const csp_store *j = c->c.journal;
    return j->ledger.compare(j->ledger.ctx, peer) == LEDGER_SAME;
}

sefl_status csp_no_ledger(csp *c, channel *ch, const ledger_head *theirs)
{
    const csp_store *j = c->c.journal;
    ledger_head ours;
    char why[120];
    ledger_order v = j->ledger.compare(j->ledger.ctx, theirs);
    sefl_status st = j->ledger.head(j->ledger.ctx, &ours);
    if (st != SEFL_OK) /* it cannot be read, which is no disagreement */
        return csp_fault(c, ch, st, "ledger");
    snprintf(why, sizeof why, "AS's has %" PRIu64 " records, CSP's %" PRIu64 ": %s",
             theirs->records, ours.records,
             v == LEDGER_PEER_BEHIND  ? "AS's is an old copy"
             : v == LEDGER_PEER_AHEAD ? "CSP's is an old copy"
                                      : "they have different histories");
    return csp_no(c, ch, LINK_NO_LEDGER, why);
}

sefl_status csp_ledgers_fit(csp *c, const ledger_head *peer, bool *fit)
{
    sefl_status st = SEFL_OK;
    const csp_store *j = c->c.journal;
    csp_round last;
    uint64_t highest, opened, skipped;
    ledger_order v = j->ledger.compare(j->ledger.ctx, peer);
    *fit = v == LEDGER_SAME;
    if (v != LEDGER_PEER_AHEAD)
        goto done;
    SEFL_TRY(j->highest(j->ctx, &highest, &opened, &skipped));
    if (highest == 0)
        goto done;
    SEFL_TRY(j->get(j->ctx, highest, &last));
    if (last.state == CSP_SIGNED || last.state == CSP_SKIPPED)
        SEFL_TRY(csp_ledgers_after(c, peer, highest, fit));
done:
    return st;
}

sefl_status csp_ledgers_after(csp *c, const ledger_head *peer, uint64_t round, bool *equal)
{
    const csp_store *j = c->c.journal;
    ledger_head after;
    sefl_status st = j->ledger.head_after(j->ledger.ctx, round, &after);
    *equal = st == SEFL_OK && ledger_head_equal(&after, peer);
    return st == SEFL_EBUDGET ? SEFL_OK : st; /* what we would not charge is no legal difference */
}

sefl_status csp_answer_mark(csp *c, channel *ch, uint32_t kind, sefl_span more)
{
    sefl_status st = SEFL_OK;
    const csp_store *j = c->c.journal;
    ledger_head ours;
    st = j->ledger.head(j->ledger.ctx, &ours);
    if (st != SEFL_OK)
        return csp_fault(c, ch, st, "ledger");
    buf_reset(&c->out);
    SEFL_TRY(ledger_head_write(&c->out, &ours));
    SEFL_TRY(wr_raw(&c->out, more.p, more.n));
    SEFL_TRY(link_send(ch, kind, buf_span(&c->out)));
done:
    return st;
}

sefl_status csp_from_as(csp *c, channel *ch, const envelope *env, sign_kind kind, bool *ok)
{
    sefl_status st = envelope_check_one(env, kind, SIGNER_AS, c->c.task->servers.as);
    *ok = false;
    if (st == SEFL_EAUTH)
        return csp_no(c, ch, LINK_NO_SIGNATURE, sefl_last_error());
    if (st != SEFL_OK)
        return st;
    /* header and statement begin with the task's id; their readers check the length */
    if (env->content.n < TASK_ID || memcmp(env->content.p, c->c.task->id, TASK_ID) != 0)
        return csp_no(c, ch, LINK_NO_TASK, NULL);
    *ok = true;
    return SEFL_OK;
}

/* ---- questions --------------------------------------------------------------------------------- */

static sefl_status on_hello(csp *c, channel *ch, rd *r)
{
    sefl_status st = SEFL_OK;
    const csp_store *j = c->c.journal;
    uint16_t low, high;
    uint8_t id[TASK_ID], signature[SIGN_BYTES];
    ledger_head theirs, ours;
    uint64_t highest, opened, skipped;
    uint8_t pair[LINK_PAIR];
    sefl_rng rng;
    bool fit;
    const uint8_t *from = r->p;
    SEFL_TRY(rd_u16(r, &low));
    SEFL_TRY(rd_u16(r, &high));
    char why[VERSION_SENTENCE];
    uint16_t version = version_link(low, high, why);
    if (version == 0) /* the rest may have another form */
        return csp_no(c, ch, LINK_NO_VERSION, why);
    SEFL_TRY(ledger_head_read(r, &theirs));
    SEFL_TRY(rd_raw(r, id, sizeof id));
    sefl_span said = span_of(from, (size_t)(r->p - from));
    SEFL_TRY(rd_raw(r, signature, sizeof signature));
    SEFL_TRY(rd_end(r));
    if (memcmp(id, c->c.task->id, TASK_ID) != 0)
        return csp_no(c, ch, LINK_NO_TASK, NULL);
    st = sign_check(signature, c->c.task->servers.as, SIGN_LINK, said);
    if (st == SEFL_EAUTH) /* somebody who has AS's TLS key alone */
        return csp_no(c, ch, LINK_NO_SIGNATURE, sefl_last_error());
    SEFL_TRY(st);
    if ((st = csp_ledgers_fit(c, &theirs, &fit)) != SEFL_OK ||
        (st = j->ledger.head(j->ledger.ctx, &ours)) != SEFL_OK ||
        (st = j->highest(j->ctx, &highest, &opened, &skipped)) != SEFL_OK)
        return csp_fault(c, ch, st, "hello");
    if (!fit)
        return csp_no_ledger(c, ch, &theirs);
    buf_reset(&c->out);
    SEFL_TRY(wr_u16(&c->out, version));
    SEFL_TRY(ledger_head_write(&c->out, &ours));
    SEFL_TRY(wr_u64(&c->out, highest));
    SEFL_TRY(wr_u64(&c->out, opened));
    SEFL_TRY(wr_u64(&c->out, skipped));
    SEFL_TRY(coins_for(c->c.coins, &rng, "pair", highest, c->streams++));
    SEFL_TRY(rng_fill(&rng, pair, sizeof pair));
    SEFL_TRY(wr_raw(&c->out, pair, sizeof pair));
    if (c->c.paired)
        c->c.paired(c->c.lanes_ctx, pair); /* before its first lane can come */
    SEFL_TRY(link_send(ch, LINK_WELCOME, buf_span(&c->out)));
    c->phase = CSP_GREETED;
done:
    return st;
}

static sefl_status on_task(csp *c, channel *ch, rd *r)
{
    sefl_status st = SEFL_OK;
    envelope env;
    SEFL_TRY(envelope_read(&env, span_of(r->p, r->left)));
    if (env.content.n != c->own.content.n ||
        memcmp(env.content.p, c->own.content.p, env.content.n) != 0)
        return csp_no(c, ch, LINK_NO_TASK, NULL);
    st = envelope_check(&env, SIGN_TASK, &c->c.task->servers);
    if (st == SEFL_EAUTH)
        return csp_no(c, ch, LINK_NO_SIGNATURE, sefl_last_error());
    SEFL_TRY(st);
    SEFL_TRY(link_send(ch, LINK_YES, span_of(NULL, 0)));
    c->phase = CSP_READY;
done:
    return st;
}

sefl_status csp_in_turn(csp *c, channel *ch, uint64_t round, bool *ok)
{
    sefl_status st = SEFL_OK;
    const csp_store *j = c->c.journal;
    uint64_t highest, opened, skipped;
    csp_round before;
    ledger_head after;
    char why[120];
    *ok = false;
    if ((st = j->highest(j->ctx, &highest, &opened, &skipped)) != SEFL_OK)
        return csp_fault(c, ch, st, "header");
    if (round != highest + 1 || round > c->c.task->rounds) {
        snprintf(why, sizeof why,
                 "round %" PRIu64 " of %" PRIu64 ", but the last one signed here is %" PRIu64,
                 round, c->c.task->rounds, highest);
        return csp_no(c, ch, LINK_NO_HEADER, why);
    }
    if (highest > 0) {
        if ((st = j->get(j->ctx, highest, &before)) != SEFL_OK)
            return csp_fault(c, ch, st, "header");
        if (before.state != CSP_REVEALED && before.state != CSP_SKIPPED)
            return csp_no(c, ch, LINK_NO_HEADER,
                          "the round before is neither opened nor skipped here");
    }
    st = j->ledger.head_after(j->ledger.ctx, round, &after);
    if (st == SEFL_EBUDGET)
        return csp_no(c, ch, LINK_NO_BUDGET, sefl_last_error());
    if (st != SEFL_OK)
        return csp_fault(c, ch, st, "header");
    *ok = true;
    return st;
}

/* ---- expiry ------------------------------------------------------------------------------------ */

/* How long after its header a round's key lives: the longest that the round may take, and a day. */
static uint64_t life_ms(const task *t)
{
    return t->deadline_ms + t->extensions * t->extend_ms + UINT64_C(24) * 3600 * 1000;
}

void csp_set_live(csp *c, uint64_t round, uint64_t until_ms)
{
    c->live = round;
    atomic_store(&c->live_ms, until_ms);
}

uint64_t csp_expires_ms(const csp *c)
{
    return atomic_load(&c->live_ms);
}

/* From here on csp_expire looks at this round. */
static void watch(csp *c, const csp_round *r)
{
    if (!task_is_sealed(c->c.task) || r->state != CSP_SIGNED)
        return;
    csp_set_live(c, r->round, r->signed_ms + life_ms(c->c.task));
}

sefl_status csp_round_over(csp *c, uint64_t round)
{
    if (c->live == round)
        csp_set_live(c, 0, 0);
    gather_drop(c);
    return csp_key_done(c, round);
}

sefl_status csp_expire(csp *c)
{
    sefl_status st = SEFL_OK;
    const csp_store *j = c->c.journal;
    const uint64_t round = c->live;
    if (round == 0 || !c->c.wall || clock_ms(c->c.wall) <= csp_expires_ms(c))
        return SEFL_OK;
    SEFL_TRY(j->skip(j->ctx, round, CSP_SKIP_EXPIRED));
    SEFL_TRY(csp_round_over(c, round));
    log_error(c->c.log, "round key expired: round skipped", lf_u64("round", round),
              lf_str("why", CSP_EXPIRED_TEXT));
done:
    return st;
}

/* ---- headers and orders ------------------------------------------------------------------------ */

/* The release of the round before is out: what was kept of it can go. Not going is no reason to
 * stop: the next header tries again. */
static void forget(csp *c, uint64_t round)
{
    const csp_store *j = c->c.journal;
    csp_round before;
    if (round == 0 || j->get(j->ctx, round, &before) != SEFL_OK || before.state != CSP_REVEALED)
        return;
    if (j->forget(j->ctx, round) != SEFL_OK)
        log_warn(c->c.log, "output not erased", lf_u64("round", round),
                 lf_str("why", sefl_last_error()));
}

static sefl_status on_header(csp *c, channel *ch, rd *r)
{
    sefl_status st = SEFL_OK;
    const csp_store *j = c->c.journal;
    ledger_head theirs;
    envelope env;
    csp_round now = { 0 };
    round_header h;
    uint8_t a[HEADER_MAX], b[HEADER_MAX];
    size_t n;
    sefl_buf both = { 0 };
    bool ok;
    SEFL_TRY(ledger_head_read(r, &theirs));
    SEFL_TRY(envelope_read(&env, span_of(r->p, r->left)));
    SEFL_TRY(csp_from_as(c, ch, &env, SIGN_HEADER, &ok));
    if (!ok)
        goto done;
    SEFL_TRY(round_header_read(&h, env.content));
    if ((st = csp_ledgers_fit(c, &theirs, &ok)) != SEFL_OK ||
        (st = j->get(j->ctx, h.round, &now)) != SEFL_OK) {
        st = csp_fault(c, ch, st, "header");
        goto done;
    }
    if (!ok) {
        st = csp_no_ledger(c, ch, &theirs);
        goto done;
    }
    if (now.state == CSP_NEW) {
        SEFL_TRY(csp_in_turn(c, ch, h.round, &ok));
        if (ok)
            SEFL_TRY(csp_header_key(c, ch, &h, &ok));
        if (!ok)
            goto done;
        now = (csp_round){ .round = h.round,
                           .state = CSP_SIGNED,
                           .signed_ms = c->c.wall ? clock_ms(c->c.wall) : 0,
                           .header = h };
        if ((st = j->sign(j->ctx, &now)) != SEFL_OK) {
            st = csp_fault(c, ch, st, "header");
            goto done;
        }
        watch(c, &now);
        uint64_t most; /* its time is what counts here */
        if (c->c.members && c->c.members(c->c.enrol_ctx, h.round, true, &most) != SEFL_OK)
            log_warn(c->c.log, "members not counted", lf_str("why", sefl_last_error()));
        log_info(c->c.log, "header signed", lf_u64("round", h.round), lf_hash("model", h.model));
    }
    n = round_header_write(a, &now.header);
    if (round_header_write(b, &h) != n || memcmp(a, b, n) != 0) {
        st = csp_no(c, ch, LINK_NO_HEADER,
                    "AS asked with another model before, so its state is an old copy");
        goto done;
    }
    forget(c, h.round - 1);
    if (env.by[0].signer != SIGNER_AS) /* only what was checked, and ours */
        env.by[0] = env.by[1];
    env.count = 1;
    SEFL_TRY(envelope_sign(&env, SIGNER_CSP, c->c.key));
    SEFL_TRY(envelope_write(&both, &env));
    SEFL_TRY(csp_answer_mark(c, ch, LINK_HEADER, buf_span(&both)));
done:
    buf_clear(&both);
    return st;
}

/* The rest of the question is AS's signed order; answers NO unless it is (*ok false). */
static sefl_status read_order(csp *c, channel *ch, rd *r, uint8_t what, link_order *out, bool *ok)
{
    sefl_status st = SEFL_OK;
    envelope env;
    SEFL_TRY(envelope_read(&env, span_of(r->p, r->left)));
    SEFL_TRY(csp_from_as(c, ch, &env, SIGN_ORDER, ok));
    if (!*ok)
        goto done;
    SEFL_TRY(link_order_read(out, env.content));
    SEFL_CHECK(out->what == what, SEFL_EPROTO, "link: %s with order %u", link_kind_name(c->m.kind),
               out->what);
done:
    return st;
}

static sefl_status on_skip(csp *c, channel *ch, rd *r)
{
    sefl_status st = SEFL_OK;
    const csp_store *j = c->c.journal;
    ledger_head theirs;
    link_order order;
    csp_round now;
    bool ok, ahead = false;
    SEFL_TRY(ledger_head_read(r, &theirs));
    SEFL_TRY(read_order(c, ch, r, LINK_ORDER_SKIP, &order, &ok));
    if (!ok)
        goto done;
    const uint64_t round = order.round;
    if ((st = j->get(j->ctx, round, &now)) != SEFL_OK)
        return csp_fault(c, ch, st, "skip");
    if (now.state == CSP_NEW)
        return csp_no(c, ch, LINK_NO_HEADER, "a round whose header was never signed");
    /* AS charged it and the opening never came to us: the charge stands on both sides */
    if (!csp_ledgers_equal(c, &theirs) && now.state != CSP_REVEALED &&
        (st = csp_ledgers_after(c, &theirs, round, &ahead)) != SEFL_OK)
        return csp_fault(c, ch, st, "skip");
    if (!ahead && !csp_ledgers_equal(c, &theirs))
        return csp_no_ledger(c, ch, &theirs);
    if (ahead && (st = j->charge(j->ctx, round)) != SEFL_OK)
        return csp_fault(c, ch, st, "skip");
    if (now.state == CSP_SIGNED && (st = j->skip(j->ctx, round, order.reason)) != SEFL_OK)
        return csp_fault(c, ch, st, "skip");
    if ((st = csp_round_over(c, round)) != SEFL_OK)
        return csp_fault(c, ch, st, "skip");
    log_info(c->c.log, now.state == CSP_REVEALED ? "open round given up" : "round skipped",
             lf_u64("round", round), lf_u64("reason", order.reason));
    SEFL_TRY(link_send(ch, LINK_YES, span_of(NULL, 0)));
done:
    return st;
}

/* AS is told no more than yes or no: the reason is between this operator and the site. */
static sefl_status on_enrol(csp *c, channel *ch, rd *r)
{
    sefl_status st = SEFL_OK;
    enrol_claim claim;
    enrol_proof proof;
    uint8_t sig[SIGN_BYTES];
    SEFL_TRY(enrol_question_read(&claim, &proof, span_of(r->p, r->left)));
    st = enrol_proof_check(&proof, &claim);
    if (st == SEFL_OK && memcmp(&claim.servers, &c->c.task->servers, sizeof claim.servers) != 0)
        st = sefl_fail(SEFL_EAUTH, "the site knows other servers than this task's");
    if (st == SEFL_OK && !c->c.enrol)
        st = sefl_fail(SEFL_EAUTH, "this server has no trust list");
    if (st == SEFL_OK)
        st = c->c.enrol(c->c.enrol_ctx, &claim, &proof);
    if (st == SEFL_EAUTH) {
        log_warn(c->c.log, "enrolment refused", lf_str("name", claim.name),
                 lf_hash("key", claim.key), lf_str("why", sefl_last_error()));
        return csp_no(c, ch, LINK_NO_ENROL, NULL);
    }
    if (st == SEFL_OK)
        st = enrol_approve(sig, &claim, c->c.key);
    if (st != SEFL_OK) {
        (void)!csp_fault(c, ch, st, "enrolment"); /* list locked or damaged: rounds go on */
        return SEFL_OK;
    }
    log_info(c->c.log, "site enrolled", lf_str("name", claim.name), lf_hash("key", claim.key));
    SEFL_TRY(link_send(ch, LINK_APPROVED, span_of(sig, sizeof sig)));
done:
    return st;
}

static sefl_status on_ping(csp *c, channel *ch, rd *r)
{
    sefl_status st = rd_end(r);
    (void)c;
    return st == SEFL_OK ? link_send(ch, LINK_PONG, span_of(NULL, 0)) : st;
}

/* No round of this task is opened any more: no key of it stays, neither of a round that is signed nor of the
 * next one, if AS has asked for that. */
static sefl_status give_up_keys(csp *c, unsigned reason)
{
    sefl_status st = SEFL_OK;
    const csp_store *j = c->c.journal;
    uint64_t highest, opened, skipped;
    const uint64_t round = c->live;
    if (!task_is_sealed(c->c.task))
        return SEFL_OK;
    SEFL_TRY(j->highest(j->ctx, &highest, &opened, &skipped));
    if (round != 0) {
        SEFL_TRY(j->skip(j->ctx, round, reason));
        log_warn(c->c.log, "the task ends within a round: skipped", lf_u64("round", round));
        SEFL_TRY(csp_round_over(c, round));
    }
    SEFL_TRY(j->key_wipe(j->ctx, highest + 1));
done:
    return st;
}

static sefl_status on_bye(csp *c, channel *ch, rd *r)
{
    sefl_status st = SEFL_OK;
    const csp_store *j = c->c.journal;
    uint64_t highest, opened, skipped;
    link_order order;
    uint8_t over;
    bool ok;
    SEFL_TRY(rd_u8(r, &over));
    SEFL_CHECK(over <= 1, SEFL_EPROTO, "link: BYE %u, wanted 0 or 1", over);
    if (!over) {
        SEFL_TRY(rd_end(r));
        c->phase = CSP_BYE;
        goto done;
    }
    SEFL_TRY(read_order(c, ch, r, LINK_ORDER_OVER, &order, &ok));
    if (!ok)
        goto done;
    c->phase = CSP_BYE;
    if ((st = give_up_keys(c, order.reason)) != SEFL_OK ||
        (j->end && (st = j->end(j->ctx)) != SEFL_OK))
        return csp_fault(c, ch, st, "end");
    if (j->highest(j->ctx, &highest, &opened, &skipped) == SEFL_OK)
        forget(c, opened);
    c->over = true;
    SEFL_TRY(link_send(ch, LINK_YES, span_of(NULL, 0)));
done:
    return st;
}

static sefl_status too_soon(csp *c, channel *ch, rd *r)
{
    (void)r;
    return csp_no(c, ch, LINK_NO_ORDER, NULL);
}

/* ---- state x message -------------------------------------------------------------------------- */

typedef sefl_status handler(csp *c, channel *ch, rd *body);

#define AT(kind) [LINK_##kind - LINK_HELLO]
/* Nothing: CSP's own words, or pieces of a long part: the stream ends. */
static handler *const table[CSP_BYE][LINK_KINDS] = {
    [CSP_START] = { AT(HELLO) = on_hello, AT(TASK) = too_soon, AT(KEY) = too_soon,
                    AT(HEADER) = too_soon, AT(VOUCH) = too_soon, AT(EARLY) = too_soon,
                    AT(REVEAL) = too_soon, AT(SKIP) = too_soon, AT(PING) = too_soon,
                    AT(BYE) = too_soon, AT(ENROL) = too_soon },
    [CSP_GREETED] = { AT(HELLO) = too_soon, AT(TASK) = on_task, AT(KEY) = too_soon,
                      AT(HEADER) = too_soon, AT(VOUCH) = too_soon, AT(EARLY) = too_soon,
                      AT(REVEAL) = too_soon, AT(SKIP) = too_soon, AT(PING) = on_ping,
                      AT(BYE) = on_bye, AT(ENROL) = too_soon },
    [CSP_READY] = { AT(HELLO) = too_soon, AT(TASK) = too_soon, AT(KEY) = csp_on_key,
                    AT(HEADER) = on_header, AT(VOUCH) = csp_on_vouch, AT(EARLY) = csp_on_early,
                    AT(SET) = csp_on_set, AT(REVEAL) = csp_on_reveal, AT(SKIP) = on_skip,
                    AT(PING) = on_ping, AT(BYE) = on_bye, AT(ENROL) = on_enrol },
};
#undef AT

/* Has AS spoiled noise shares so often that the task is over? */
static bool is_spoiled(const csp *c)
{
    return c->c.checks && c->phase == CSP_READY &&
           (c->m.kind == LINK_HEADER || c->m.kind == LINK_REVEAL) &&
           c->c.checks(c->c.lanes_ctx) >= CSP_CHECKS_MAX;
}

sefl_status csp_serve(csp *c, channel *ch)
{
    sefl_status st = SEFL_OK;
    c->phase = CSP_START;
    while (c->phase != CSP_BYE) {
        SEFL_TRY(link_recv(ch, &c->m));
        handler *on = table[c->phase][c->m.kind - LINK_HELLO];
        SEFL_CHECK(on, SEFL_EPROTO, "link: %s is not for AS to say", link_kind_name(c->m.kind));
        rd r = rd_over(buf_span(&c->m.body));
        if ((st = csp_expire(c)) != SEFL_OK) {
            st = csp_fault(c, ch, st, "expiry");
            goto done;
        }
        if (is_spoiled(c))
            SEFL_TRY(csp_no(c, ch, LINK_NO_CHECKS, NULL));
        else
            SEFL_TRY(on(c, ch, &r));
    }
done:
    gather_drop(c);
    buf_clear(&c->m.body);
    buf_clear(&c->out);
    return st;
}

void csp_set_clear(csp_set *s)
{
    sefl_free(s->kept);
    sefl_free(s->refused);
    *s = (csp_set){ 0 };
}

bool csp_is_over(const csp *c)
{
    return c->over;
}

const csp_times *csp_get_times(const csp *c)
{
    return &c->times;
}

/* The journal found, when it was opened, that it is an old copy. */
static sefl_status say_old_state(csp *c)
{
    sefl_status st = SEFL_OK;
    const csp_store *j = c->c.journal;
    uint64_t highest, opened, skipped;
    csp_round last;
    SEFL_TRY(j->highest(j->ctx, &highest, &opened, &skipped));
    SEFL_TRY(j->get(j->ctx, highest, &last));
    if (last.state == CSP_SKIPPED && last.skip == CSP_SKIP_OLD_STATE)
        log_error(c->c.log, "an old copy of the state was put back: round skipped",
                  lf_u64("round", highest), lf_str("why", CSP_OLD_STATE_TEXT),
                  lf_str("remedy", "never restore the state folder; the charge of this round "
                                   "stands, the task goes on with the next one"));
done:
    return st;
}

/* Keys of rounds that are over, which a crash may have left behind; and the round that is not over. */
static sefl_status sweep_keys(csp *c)
{
    sefl_status st = SEFL_OK;
    const csp_store *j = c->c.journal;
    uint64_t highest, opened, skipped;
    csp_round r;
    if (!task_is_sealed(c->c.task))
        return SEFL_OK;
    SEFL_TRY(j->highest(j->ctx, &highest, &opened, &skipped));
    for (uint64_t i = 1; i <= highest; i++) {
        SEFL_TRY(j->get(j->ctx, i, &r));
        if (r.state == CSP_REVEALED || r.state == CSP_SKIPPED)
            SEFL_TRY(j->key_wipe(j->ctx, i));
        else
            watch(c, &r);
    }
    SEFL_TRY(csp_expire(c));
done:
    return st;
}

static sefl_status check_keys(const csp_config *cfg)
{
    sefl_status st = SEFL_OK;
    const task *t = cfg->task;
    if (task_is_sealed(t)) {
        SEFL_CHECK(cfg->root, SEFL_EINVAL, "csp: a sealed task needs a key file with a root");
        SEFL_CHECK(cfg->vouch && cfg->member, SEFL_EINVAL,
                   "csp: a sealed task needs a list of clients, and this server has none");
    } else {
        SEFL_CHECK(cfg->sec && paillier_pub_equal(paillier_sec_pub(cfg->sec), t->pub), SEFL_EINVAL,
                   "csp: the task's public key is not the one of our secret key");
    }
done:
    return st;
}

sefl_status csp_new(csp **out, const csp_config *cfg)
{
    sefl_status st = SEFL_OK;
    csp *c = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&c, 1, sizeof *c));
    c->c = *cfg;
    SEFL_TRY(envelope_read(&c->own, cfg->envelope));
    SEFL_TRY(envelope_check(&c->own, SIGN_TASK, &cfg->task->servers));
    SEFL_CHECK(memcmp(sign_key_pub(cfg->key), cfg->task->servers.csp, SIGN_PUB_BYTES) == 0,
               SEFL_EINVAL, "csp: the task names another signing key of CSP than ours");
    SEFL_TRY(check_keys(cfg));
    if (cfg->journal->ended)
        SEFL_TRY(cfg->journal->ended(cfg->journal->ctx, &c->over));
    SEFL_TRY(say_old_state(c));
    SEFL_TRY(sweep_keys(c));
    *out = c, c = NULL;
done:
    csp_free(c);
    return st;
}

void csp_free(csp *c)
{
    if (!c)
        return;
    gather_drop(c);
    buf_clear(&c->m.body);
    buf_clear(&c->out);
    sefl_free(c);
}
