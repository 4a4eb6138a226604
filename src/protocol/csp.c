/* Design:
 *  1. A handler answers its question, with NO at worst, and returns SEFL_OK: the stream goes on. What
 *     it returns otherwise ends the stream.
 *  2. Nothing is answered before the journal says that it is durable.
 *  3. When csp_serve returns, nothing of an attempt is left. */
#include "protocol/csp.h"

#include "base/alloc.h"
#include "protocol/csp_internal.h"

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

bool csp_ledgers_equal(csp *c, const ledger_mark *peer)
{
    const csp_journal *j = c->c.journal;
    return j->compare(j->ctx, peer) == LEDGERS_AGREE;
}

sefl_status csp_no_ledger(csp *c, channel *ch, const ledger_mark *theirs)
{
    const csp_journal *j = c->c.journal;
    ledger_mark ours;
    char why[120];
    ledger_verdict v = j->compare(j->ctx, theirs);
    sefl_status st = j->ledger(j->ctx, &ours);
    if (st != SEFL_OK) /* it cannot be read, which is no disagreement */
        return csp_fault(c, ch, st, "ledger");
    snprintf(why, sizeof why, "AS's has %" PRIu64 " records, CSP's %" PRIu64 ": %s",
             theirs->records, ours.records,
             v == LEDGERS_PEER_BEHIND  ? "AS's is an old copy"
             : v == LEDGERS_PEER_AHEAD ? "CSP's is an old copy"
                                       : "they have different histories");
    return csp_no(c, ch, LINK_NO_LEDGER, why);
}

sefl_status csp_ledgers_fit(csp *c, const ledger_mark *peer, bool *fit)
{
    sefl_status st = SEFL_OK;
    const csp_journal *j = c->c.journal;
    ledger_mark ours;
    csp_round last;
    uint64_t highest, opened, skipped;
    ledger_verdict v = j->compare(j->ctx, peer);
    *fit = v == LEDGERS_AGREE;
    if (v != LEDGERS_PEER_AHEAD)
        goto done;
    SEFL_TRY(j->ledger(j->ctx, &ours));
    SEFL_TRY(j->highest(j->ctx, &highest, &opened, &skipped));
    if (highest == 0 || !link_one_charge(&ours, peer, v))
        goto done;
    SEFL_TRY(j->get(j->ctx, highest, &last));
    *fit = last.state == CSP_SIGNED;
done:
    return st;
}

sefl_status csp_answer_mark(csp *c, channel *ch, uint32_t kind, sefl_span more)
{
    sefl_status st = SEFL_OK;
    const csp_journal *j = c->c.journal;
    ledger_mark ours;
    st = j->ledger(j->ctx, &ours);
    if (st != SEFL_OK)
        return csp_fault(c, ch, st, "ledger");
    buf_reset(&c->out);
    SEFL_TRY(link_mark_write(&c->out, &ours));
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
    const csp_journal *j = c->c.journal;
    uint16_t low, high;
    uint8_t id[TASK_ID];
    ledger_mark theirs, ours;
    uint64_t highest, opened, skipped;
    uint8_t pair[LINK_PAIR];
    sefl_rng rng;
    bool fit;
    SEFL_TRY(rd_u16(r, &low));
    SEFL_TRY(rd_u16(r, &high));
    SEFL_TRY(link_mark_read(r, &theirs));
    SEFL_TRY(rd_raw(r, id, sizeof id));
    SEFL_TRY(rd_end(r));
    char why[VERSION_SENTENCE];
    uint16_t version = version_link(low, high, why);
    if (version == 0)
        return csp_no(c, ch, LINK_NO_VERSION, why);
    if (memcmp(id, c->c.task->id, TASK_ID) != 0)
        return csp_no(c, ch, LINK_NO_TASK, NULL);
    if ((st = csp_ledgers_fit(c, &theirs, &fit)) != SEFL_OK ||
        (st = j->ledger(j->ctx, &ours)) != SEFL_OK ||
        (st = j->highest(j->ctx, &highest, &opened, &skipped)) != SEFL_OK)
        return csp_fault(c, ch, st, "hello");
    if (!fit)
        return csp_no_ledger(c, ch, &theirs);
    buf_reset(&c->out);
    SEFL_TRY(wr_u16(&c->out, version));
    SEFL_TRY(link_mark_write(&c->out, &ours));
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

/* May this header be signed for the first time? NO is answered if not. */
static sefl_status header_in_turn(csp *c, channel *ch, const round_header *h, bool *ok)
{
    sefl_status st = SEFL_OK;
    const csp_journal *j = c->c.journal;
    uint64_t highest, opened, skipped;
    csp_round before;
    char why[120];
    *ok = false;
    if ((st = j->highest(j->ctx, &highest, &opened, &skipped)) != SEFL_OK)
        return csp_fault(c, ch, st, "header");
    if (h->round != highest + 1 || h->round > c->c.task->rounds) {
        snprintf(why, sizeof why,
                 "round %" PRIu64 " of %" PRIu64 ", but the last one signed here is %" PRIu64,
                 h->round, c->c.task->rounds, highest);
        return csp_no(c, ch, LINK_NO_HEADER, why);
    }
    if (highest > 0) {
        if ((st = j->get(j->ctx, highest, &before)) != SEFL_OK)
            return csp_fault(c, ch, st, "header");
        if (before.state != CSP_OPENED && before.state != CSP_SKIPPED)
            return csp_no(c, ch, LINK_NO_HEADER,
                          "the round before is neither opened nor skipped here");
    }
    st = j->may_charge(j->ctx, h->round);
    if (st == SEFL_EBUDGET)
        return csp_no(c, ch, LINK_NO_BUDGET, sefl_last_error());
    if (st != SEFL_OK)
        return csp_fault(c, ch, st, "header");
    *ok = true;
    return st;
}

/* The release of the round before is out: what was kept of it can go. Not going is no reason to
 * stop: the next header tries again. */
static void forget(csp *c, uint64_t round)
{
    const csp_journal *j = c->c.journal;
    csp_round before;
    if (round == 0 || j->get(j->ctx, round, &before) != SEFL_OK || before.state != CSP_OPENED)
        return;
    if (j->forget(j->ctx, round) != SEFL_OK)
        log_warn(c->c.log, "output not erased", lf_u64("round", round),
                 lf_str("why", sefl_last_error()));
}

static sefl_status on_header(csp *c, channel *ch, rd *r)
{
    sefl_status st = SEFL_OK;
    const csp_journal *j = c->c.journal;
    ledger_mark theirs;
    envelope env;
    csp_round now = { 0 };
    round_header h;
    uint8_t a[HEADER_MAX], b[HEADER_MAX];
    size_t n;
    sefl_buf both = { 0 };
    bool ok;
    SEFL_TRY(link_mark_read(r, &theirs));
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
        SEFL_TRY(header_in_turn(c, ch, &h, &ok));
        if (!ok)
            goto done;
        now = (csp_round){ .round = h.round, .state = CSP_SIGNED, .header = h };
        if ((st = j->sign(j->ctx, &now)) != SEFL_OK) {
            st = csp_fault(c, ch, st, "header");
            goto done;
        }
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

static sefl_status on_skip(csp *c, channel *ch, rd *r)
{
    sefl_status st = SEFL_OK;
    const csp_journal *j = c->c.journal;
    ledger_mark theirs, ours;
    csp_round now;
    uint64_t round;
    uint8_t reason;
    SEFL_TRY(link_mark_read(r, &theirs));
    SEFL_TRY(rd_u64(r, &round));
    SEFL_TRY(rd_u8(r, &reason));
    SEFL_TRY(rd_end(r));
    if ((st = j->get(j->ctx, round, &now)) != SEFL_OK || (st = j->ledger(j->ctx, &ours)) != SEFL_OK)
        return csp_fault(c, ch, st, "skip");
    if (now.state == CSP_NEW)
        return csp_no(c, ch, LINK_NO_HEADER, "a round whose header was never signed");
    if (now.state == CSP_SIGNED && link_one_charge(&ours, &theirs, j->compare(j->ctx, &theirs)) &&
        theirs.records > ours.records) {
        /* AS charged it and the opening never came to us: the charge stands on both sides */
        st = j->charge(j->ctx, round);
        if (st != SEFL_OK && st != SEFL_EBUDGET)
            return csp_fault(c, ch, st, "skip");
    }
    if (!csp_ledgers_equal(c, &theirs))
        return csp_no_ledger(c, ch, &theirs);
    if (now.state == CSP_SIGNED && (st = j->skip(j->ctx, round, reason)) != SEFL_OK)
        return csp_fault(c, ch, st, "skip");
    log_info(c->c.log, now.state == CSP_OPENED ? "open round given up" : "round skipped",
             lf_u64("round", round), lf_u64("reason", reason));
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

static sefl_status on_bye(csp *c, channel *ch, rd *r)
{
    sefl_status st = SEFL_OK;
    const csp_journal *j = c->c.journal;
    uint64_t highest, opened, skipped;
    uint8_t over;
    SEFL_TRY(rd_u8(r, &over));
    SEFL_TRY(rd_end(r));
    SEFL_CHECK(over <= 1, SEFL_EPROTO, "link: BYE %u, wanted 0 or 1", over);
    c->phase = CSP_BYE;
    if (!over)
        goto done;
    if (j->end && (st = j->end(j->ctx)) != SEFL_OK)
        return csp_fault(c, ch, st, "end");
    if (j->highest(j->ctx, &highest, &opened, &skipped) == SEFL_OK)
        forget(c, opened);
    c->over = true;
    SEFL_TRY(link_send(ch, LINK_YES, span_of(NULL, 0)));
done:
    return st;
}

static sefl_status on_early(csp *c, channel *ch, rd *r)
{
    (void)r;
    return csp_no(c, ch, LINK_NO_ORDER, NULL);
}

/* ---- state x message -------------------------------------------------------------------------- */

typedef sefl_status handler(csp *c, channel *ch, rd *body);

#define AT(kind) [LINK_##kind - LINK_HELLO]
/* Nothing: CSP's own words, or pieces of a long part: the stream ends. */
static handler *const table[CSP_BYE][LINK_KINDS] = {
    [CSP_START] = { AT(HELLO) = on_hello, AT(TASK) = on_early, AT(HEADER) = on_early,
                    AT(PREPARE) = on_early, AT(OPEN) = on_early, AT(SKIP) = on_early,
                    AT(PING) = on_early, AT(BYE) = on_early, AT(ENROL) = on_early },
    [CSP_GREETED] = { AT(HELLO) = on_early, AT(TASK) = on_task, AT(HEADER) = on_early,
                      AT(PREPARE) = on_early, AT(OPEN) = on_early, AT(SKIP) = on_early,
                      AT(PING) = on_ping, AT(BYE) = on_bye, AT(ENROL) = on_early },
    [CSP_READY] = { AT(HELLO) = on_early, AT(TASK) = on_early, AT(HEADER) = on_header,
                    AT(PREPARE) = csp_on_prepare, AT(OPEN) = csp_on_open, AT(SKIP) = on_skip,
                    AT(PING) = on_ping, AT(BYE) = on_bye, AT(ENROL) = on_enrol },
};
#undef AT

/* Has AS spoiled noise shares so often that the task is over? */
static bool is_spoiled(const csp *c)
{
    return c->c.checks && c->phase == CSP_READY &&
           (c->m.kind == LINK_HEADER || c->m.kind == LINK_OPEN) &&
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
        if (is_spoiled(c))
            SEFL_TRY(csp_no(c, ch, LINK_NO_CHECKS, NULL));
        else
            SEFL_TRY(on(c, ch, &r));
    }
done:
    if (c->own_shares)
        shares_pool_clear(c->own_shares); /* the peer's go with its stream too */
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

sefl_status csp_expire(csp *c)
{
    (void)c;
    return sefl_fail(SEFL_EUNSUPPORTED, "not yet");
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
    const csp_journal *j = c->c.journal;
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
    SEFL_CHECK(!cfg->task->pub || paillier_pub_equal(paillier_sec_pub(cfg->sec), cfg->task->pub),
               SEFL_EINVAL, "csp: the task's public key is not the one of our secret key");
    if (cfg->journal->ended)
        SEFL_TRY(cfg->journal->ended(cfg->journal->ctx, &c->over));
    SEFL_TRY(say_old_state(c));
    if (!cfg->shares) {
        c->shares_rng = rng_system(); /* of keys that hide what waits in memory */
        SEFL_TRY(shares_pool_new(&c->own_shares, 0, &c->shares_rng));
    }
    c->shares = cfg->shares ? cfg->shares : c->own_shares;
    *out = c, c = NULL;
done:
    csp_free(c);
    return st;
}

void csp_free(csp *c)
{
    if (!c)
        return;
    shares_pool_free(c->own_shares);
    buf_clear(&c->m.body);
    buf_clear(&c->out);
    sefl_free(c);
}
