/* The reveal at CSP. This order ensures a single reveal (noise/online.h):
 *     ledgers compared -> shares taken, erased from the pool -> charge durable -> sum decrypted ->
 *     reply computed -> csp_store_reveal: output and mark durable -> the round key wiped ->
 *     DIGEST leaves -> ACK: AS has made the digest durable -> the first byte of the output leaves
 * Then CSP stores what it keeps for later rounds: losing that is safe (history.h). Shares that were
 * taken are lost if a later step fails.
 * After the mark CSP only repeats the output from the store. If csp_store_reveal fails after its
 * REVEAL, the next REVEAL of AS completes it. */
#include "base/alloc.h"
#include "base/ct.h"
#include "base/sha256.h"
#include "protocol/modes/mode.h"
#include "sum/csp_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* From GO to the last piece of the sum. */
struct csp_revealing {
    round_statement s;
    sefl_buf envelope; /* of the statement */
    ahe_dec *own;      /* of a task that is not sealed */
    size_t units;      /* decrypted so far */
    uint32_t pieces;   /* received so far */
    sefl_buf plain;    /* the masked plain units */
    uint8_t *x;        /* joint: shares, noise_share_bytes each */
    size_t x_bytes;
    history past;   /* correlated noise */
    uint64_t since; /* start of the wait for the next piece */
};

/* An output that is durable, from DIGEST or KEPT to ACK. */
struct csp_announced {
    uint64_t round;
    uint8_t id[NOISE_ID], root[SHA256_BYTES], digest[SHA256_BYTES];
    sefl_buf output;
};

void csp_announced_drop(csp *c)
{
    if (!c->announced)
        return;
    buf_clear(&c->announced->output);
    sefl_free(c->announced);
    c->announced = NULL;
}

void csp_revealing_drop(csp *c)
{
    csp_revealing *o = c->revealing;
    if (!o)
        return;
    c->revealing = NULL;
    buf_clear(&o->envelope);
    buf_clear(&o->plain);
    ahe_dec_free(&c->c.task->ahe, o->own);
    if (o->x)
        sefl_free_secret(o->x, o->x_bytes);
    history_clear(&o->past);
    sefl_free(o);
}

void csp_tell_over(csp *c, csp_round_state state)
{
    c->revealed = false;
    ahead_drop(&c->ahead, c->c.task);
    if (c->c.round_over)
        c->c.round_over(c->c.lanes_ctx, state, &c->times);
}

sefl_status csp_skip(csp *c, uint64_t round, unsigned reason)
{
    SEFL_PASS(csp_store_skip(c->c.store, round, reason));
    csp_forget_history(c, history_after(c->c.task, round, false));
    csp_tell_over(c, CSP_SKIPPED);
    return SEFL_OK;
}

/* ---- the output ------------------------------------------------------------------------------ */

static uint32_t output_kind(const csp *c)
{
    return task_mode(c->c.task)->reply ? LINK_REPLY : LINK_PLAIN;
}

/* Sealed tasks: queues CSP's signature on the counted clients; the same bytes every time. */
static sefl_status reply_counted(csp *c, uint64_t round, const uint8_t root[SHA256_BYTES],
                                 const uint8_t id[NOISE_ID])
{
    counted_statement s = { .round = round };
    uint8_t bytes[COUNTED_STATEMENT_BYTES];
    envelope env = { .kind = SIGN_COUNTED, .content = span_of(bytes, sizeof bytes) };
    if (!task_is_sealed(c->c.task))
        return SEFL_OK;
    memcpy(s.task, c->c.task->id, sizeof s.task);
    memcpy(s.root, root, sizeof s.root);
    memcpy(s.id, id, sizeof s.id);
    counted_statement_write(bytes, &s);
    SEFL_PASS(envelope_sign(&env, SIGNER_CSP, c->c.key));
    return envelope_write(csp_reply(c, LINK_COUNTED), &env);
}

/* Remembers a durable output, which it takes over, until AS acknowledges its digest. */
static sefl_status announce(csp *c, const csp_announced *a, sefl_buf *output)
{
    csp_announced_drop(c);
    SEFL_PASS(sefl_new(&c->announced, 1, sizeof *c->announced));
    *c->announced = *a;
    c->announced->output = *output, *output = (sefl_buf){ 0 };
    return SEFL_OK;
}

sefl_status csp_on_ack(csp *c, rd *r)
{
    csp_announced *a = c->announced;
    uint64_t round;
    uint8_t digest[SHA256_BYTES];
    SEFL_PASS(rd_u64(r, &round));
    SEFL_PASS(rd_raw(r, digest, sizeof digest));
    SEFL_PASS(rd_end(r));
    if (!a || a->round != round || memcmp(a->digest, digest, sizeof digest) != 0)
        return csp_no(c, LINK_NO_ORDER, "CSP has not announced this output on this stream");
    *csp_reply(c, output_kind(c)) = a->output, a->output = (sefl_buf){ 0 };
    SEFL_PASS(reply_counted(c, round, a->root, a->id));
    csp_announced_drop(c);
    return SEFL_OK;
}

static sefl_status reply_kept(csp *c, uint64_t round, const ledger_head *theirs)
{
    sefl_status st = SEFL_OK;
    sefl_buf output = { 0 };
    csp_set set = { 0 };
    csp_announced a = { .round = round };
    uint8_t both[NOISE_ID + SHA256_BYTES];
    ledger_order v;
    SEFL_PASS(csp_compare(c, theirs, &v));
    if (v != LEDGER_SAME)
        return csp_no_ledger(c, theirs);
    SEFL_PASS(csp_own(c, csp_round_over(c, round))); /* after a failure between mark and wipe */
    st = csp_store_kept(c->c.store, round, a.id, &output, a.digest);
    if (st == SEFL_OK && task_is_sealed(c->c.task))
        st = csp_store_set_get(c->c.store, round, &set);
    if (st == SEFL_ENOTFOUND || st == SEFL_EPROTO) { /* gone or damaged: for good */
        st = csp_no(c, LINK_NO_REVEALED, sefl_last_error());
        goto done;
    }
    SEFL_TRY(csp_own(c, st));
    memcpy(a.root, set.root, sizeof a.root);
    memcpy(both, a.id, NOISE_ID);
    memcpy(both + NOISE_ID, a.digest, SHA256_BYTES);
    SEFL_TRY(announce(c, &a, &output));
    log_info(c->c.log, "output announced again", lf_u64("round", round));
    SEFL_TRY(csp_reply_head(c, LINK_KEPT, span_of(both, sizeof both)));
done:
    csp_set_clear(&set);
    buf_clear(&output);
    return st;
}

/* Makes output and mark durable: from here on the round is revealed. Then announces the output and
 * takes ownership of it. */
static sefl_status keep_and_announce(csp *c, sefl_buf *output)
{
    csp_revealing *o = c->revealing;
    csp_announced a = { .round = o->s.round };
    uint64_t began = csp_now(c);
    link_plain_id(a.id, o->s.attempt, o->s.set);
    memcpy(a.root, o->s.set, sizeof a.root);
    sha256_of(a.digest, buf_span(output));
    sefl_status st = csp_store_reveal(c->c.store, a.round, buf_span(&o->envelope), a.id,
                                      buf_span(output), a.digest);
    if (st == SEFL_OK) {
        history_take(&c->fresh, &o->past, a.round, o->s.attempt);
        c->revealed = true;
        st = csp_key_done(c, a.round);
        if (st == SEFL_OK) /* else the key is wiped later: csp_round_over */
            csp_set_live(c, 0, 0);
    }
    c->times.store = csp_now(c) - began;
    if (st != SEFL_OK)
        log_error(c->c.log, "output not stored", lf_u64("round", a.round),
                  lf_str("why", sefl_last_error()));
    SEFL_PASS(csp_own(c, st));
    SEFL_PASS(announce(c, &a, output));
    return wr_raw(csp_reply(c, LINK_DIGEST), a.digest, sizeof a.digest);
}

static sefl_status begin_history(csp *c)
{
    csp_revealing *o = c->revealing;
    uint8_t id[NOISE_ID];
    link_plain_id(id, o->s.attempt, o->s.set);
    return history_begin(&o->past, c->c.task, id);
}

/* Mode own, sealed tasks: draws CSP's noise of a round, unless CSP has tried before. */
static sefl_status draw_ahead(csp *c, uint64_t round)
{
    uint8_t seed[AHEAD_SEED] = { 0 };
    sefl_rng rng;
    if (c->ahead.round == round)
        return SEFL_OK;
    sefl_status st = coins_for(c->c.coins, &rng, "noise", round, 0);
    if (st == SEFL_OK)
        st = rng_fill(&rng, seed, sizeof seed);
    if (st == SEFL_OK)
        st = ahead_draw(&c->ahead, c->c.task, round, seed, c->c.pool);
    sefl_wipe(seed, sizeof seed);
    return st;
}

/* Computes the reply; CSP draws its other coins only now that the masked sum is complete. */
static sefl_status make_reply(csp *c, sefl_buf *out)
{
    csp_revealing *o = c->revealing;
    uint8_t *reply, slice[SHA256_BYTES];
    size_t bytes;
    const bool own = task_mode(c->c.task)->draw && task_is_sealed(c->c.task);
    SEFL_PASS(begin_history(c));
    mode_csp in = { .round = o->s.round,
                    .attempt = o->s.attempt,
                    .plain = o->plain.p,
                    .slice = slice,
                    .shares = o->x,
                    .lags = o->past.lags,
                    .memory = history_memory(&o->past),
                    .pool = c->c.pool };
    uint64_t began = csp_now(c);
    shares_slice_hash(slice, &o->s.slice);
    SEFL_PASS(task_output_bytes(&bytes, c->c.task));
    SEFL_PASS(buf_reserve(out, bytes));
    SEFL_PASS(buf_extend(out, &reply, bytes));
    memset(reply, 0, bytes);
    SEFL_PASS(coins_for(c->c.coins, &in.rng, "reply", o->s.round, o->s.attempt));
    if (own) {
        SEFL_PASS(draw_ahead(c, o->s.round));
        in.noise = c->ahead.seed, in.drawn = c->ahead.e;
    }
    sefl_status st = task_mode(c->c.task)->reply(reply, c->c.task, &in);
    c->times.compute = csp_now(c) - began;
    return st;
}

/* ---- the masked sum -------------------------------------------------------------------------- */

/* Completes the reveal after the whole sum is decrypted. */
static sefl_status csp_reveal_finish(csp *c)
{
    sefl_status st = SEFL_OK;
    csp_revealing *o = c->revealing;
    sefl_buf output = { 0 };
    if (task_mode(c->c.task)->reply)
        SEFL_TRY(make_reply(c, &output));
    else
        output = o->plain, o->plain = (sefl_buf){ 0 };
    SEFL_TRY(keep_and_announce(c, &output));
    log_info(c->c.log, "round revealed", lf_u64("round", o->s.round),
             lf_u64("attempt", o->s.attempt), lf_u64("decrypt_ms", c->times.decrypt / 1000000),
             lf_u64("compute_ms", c->times.compute / 1000000),
             lf_u64("store_ms", c->times.store / 1000000));
    csp_revealing_drop(c);
    gather_drop(c); /* no longer needed */
    c->phase = CSP_READY;
done:
    buf_clear(&output);
    return st;
}

/* Decrypts the next piece of the masked sum. */
sefl_status csp_on_sum(csp *c, rd *r)
{
    csp_revealing *o = c->revealing;
    const ahe_params *p = &c->c.task->ahe;
    const size_t per = link_sum_units(p), left = p->units - o->units;
    const size_t n = left < per ? left : per;
    uint64_t came = csp_now(c);
    uint8_t *plain;
    c->times.receive += came - o->since;
    SEFL_NEED(c->index == ++o->pieces && r->left == n * p->unit_bytes, SEFL_EPROTO,
              "link: SUM %u of %zu bytes, expected SUM %u of %zu", c->index, r->left, o->pieces,
              n * p->unit_bytes);
    SEFL_PASS(buf_extend(&o->plain, &plain, n * p->plain_bytes));
    SEFL_PASS(ahe_dec_units(p, o->own ? o->own : gather_dec(c), plain, o->units, r->p, n, c->c.pool,
                            c->c.stop));
    o->units += n;
    o->since = csp_now(c);
    c->times.decrypt += o->since - came;
    if (o->units == p->units)
        SEFL_PASS(csp_reveal_finish(c));
    return SEFL_OK;
}

/* ---- REVEAL ---------------------------------------------------------------------------------- */

/* Removes the shares that the statement names from the pool. NO if they are not there. */
static sefl_status take_slice(csp *c)
{
    csp_revealing *o = c->revealing;
    const task *t = c->c.task;
    noise_params p = task_noise_params(t, o->s.round, o->s.attempt);
    bool joint = task_mode(t)->shares;
    if (shares_slice_count(&o->s.slice) != (joint ? t->values : 0))
        return csp_no(c, LINK_NO_SLICE, "the slice does not have the length of the vector");
    if (!joint)
        return SEFL_OK;
    const unsigned bytes = noise_share_bytes(&p);
    SEFL_PASS(sefl_new(&o->x, t->values, bytes));
    o->x_bytes = t->values * bytes;
    if (!c->c.shares || shares_pool_take(c->c.shares, &o->s.slice, o->x, bytes) != SEFL_OK)
        return csp_no(c, LINK_NO_SLICE, c->c.shares ? sefl_last_error() : NULL);
    return SEFL_OK;
}

static sefl_status get_history(void *ctx, uint64_t round, sefl_buf *out)
{
    const csp *c = ctx;
    const csp_store *s = c->c.store;
    csp_round then;
    SEFL_PASS(csp_store_get(s, round, &then));
    SEFL_NEED(then.state == CSP_REVEALED, SEFL_ENOTFOUND, "round %" PRIu64 " was never revealed",
              round);
    return s->get(s->ctx, CSP_HISTORY, round, out);
}

/* Loads what CSP kept in the rounds that the statement lists. Rounds that CSP does not have, or has
 * under another id, are left out: GO says which remain. A record in memory serves although storing
 * it may have failed: after a crash CSP replies anew, or repeats a stored output. */
static sefl_status load_history(csp *c)
{
    csp_revealing *o = c->revealing;
    SEFL_PASS(csp_own(c, history_load(&o->past, c->c.task, o->s.round, &c->fresh, get_history, c)));
    uint8_t both = o->s.lags & o->past.lags;
    for (unsigned j = 0; j < NOISE_LAGS; j++)
        if (both >> j & 1 && memcmp(history_id(&o->past, j), o->s.past[j], NOISE_ID) != 0)
            both &= (uint8_t) ~(1u << j);
    if (both != o->s.lags)
        log_warn(c->c.log, "the noise of an earlier round is left out", lf_u64("round", o->s.round),
                 lf_u64("listed", o->s.lags), lf_u64("used", both));
    history_only(&o->past, both);
    return SEFL_OK;
}

void csp_keep_history(csp *c)
{
    history_fresh *f = &c->fresh;
    const csp_store *s = c->c.store;
    if (c->live > 0 && task_mode(c->c.task)->draw && draw_ahead(c, c->live) != SEFL_OK)
        log_warn(c->c.log, "CSP's noise is not drawn yet", lf_u64("round", c->live),
                 lf_str("why", sefl_last_error())); /* the reply draws it */
    if (c->revealing && c->phase == CSP_SUM && begin_history(c) != SEFL_OK)
        log_warn(c->c.log, "what the round takes back is not computed yet",
                 lf_str("why", sefl_last_error())); /* make_reply tries again */
    if (f->round == 0 || f->stored)
        return;
    f->stored = true; /* one try */
    if (s->put(s->ctx, CSP_HISTORY, f->round, buf_span(&f->record)) != SEFL_OK)
        log_warn(c->c.log,
                 "the noise of a round is not stored: after a restart no round takes it back",
                 lf_u64("round", f->round), lf_str("why", sefl_last_error()));
}

void csp_forget_history(csp *c, history_range keep)
{
    const csp_store *s = c->c.store;
    history_limit(&c->fresh, keep);
    if (c->c.task->filter.b > 0 && s->history_keep(s->ctx, keep.from, keep.to) != SEFL_OK)
        log_warn(c->c.log, "noise of earlier rounds not erased", lf_str("why", sefl_last_error()));
}

/* NO if AS states more clients than this operator approved. */
static sefl_status members_must_fit(csp *c, const round_statement *s)
{
    uint64_t most = UINT64_MAX;
    char why[120];
    sefl_status st = c->c.members ? c->c.members(c->c.enrol_ctx, s->round, false, &most) : SEFL_OK;
    if (st != SEFL_OK || s->clients <= most)
        return csp_own(c, st);
    snprintf(why, sizeof why, "AS states %" PRIu32 " clients, the operator approved %" PRIu64,
             s->clients, most);
    return csp_no(c, LINK_NO_MEMBERS, why);
}

/* NO unless the statement is about a set that CSP may reveal. */
static sefl_status set_must_fit(csp *c, const round_statement *s)
{
    const task *t = c->c.task;
    if (s->clients < t->threshold || s->clients > t->clients_max)
        return csp_no(c, LINK_NO_FEW, NULL);
    if (!task_is_sealed(t))
        return members_must_fit(c, s);
    const csp_set *set = gather_verdict(c, s->round);
    if (!set)
        return csp_no(c, LINK_NO_ORDER, "AS must send SET first, on each stream");
    if (s->clients != set->kept_n || memcmp(s->set, set->root, sizeof s->set) != 0)
        return csp_no(c, LINK_NO_ORDER, "the statement does not match the set that CSP kept");
    return SEFL_OK;
}

/* NO unless CSP may charge the round and its ledger then equals AS's. Writes nothing. */
static sefl_status charge_must_fit(csp *c, uint64_t round, const ledger_head *theirs)
{
    const csp_store *s = c->c.store;
    ledger_head after;
    SEFL_PASS(csp_charged(c, s->ledger.head_after(s->ledger.ctx, round, &after)));
    /* else AS's difference is not this charge */
    return ledger_head_equal(&after, theirs) ? SEFL_OK : csp_no_ledger(c, theirs);
}

static sefl_status charge(csp *c, uint64_t round)
{
    c->times = (csp_times){ 0 };
    uint64_t began = csp_now(c);
    sefl_status st = csp_store_charge(c->c.store, round);
    c->times.charge = csp_now(c) - began;
    return csp_charged(c, st);
}

/* The round is charged: answers GO and expects the sum. */
static sefl_status expect_sum(csp *c)
{
    csp_revealing *o = c->revealing;
    const ahe_params *p = &c->c.task->ahe;
    uint8_t context[AHE_CONTEXT_BYTES];
    SEFL_PASS(buf_reserve(&o->plain, p->units * p->plain_bytes));
    if (!task_is_sealed(c->c.task)) { /* else the gatherer has the kept clients' pads */
        task_context(context, c->c.task, o->s.round);
        SEFL_PASS(ahe_dec_new(&o->own, p, c->c.sec, context));
    }
    SEFL_PASS(csp_reply_head(c, LINK_GO, span_of(&o->past.lags, 1)));
    o->since = csp_now(c);
    c->phase = CSP_SUM;
    return SEFL_OK;
}

sefl_status csp_on_reveal(csp *c, rd *r)
{
    ledger_head theirs;
    envelope env;
    csp_round now;
    round_statement s;
    SEFL_PASS(ledger_head_read(r, &theirs));
    SEFL_PASS(envelope_read(&env, span_of(r->p, r->left)));
    SEFL_PASS(csp_from_as(c, &env, SIGN_STATEMENT));
    SEFL_PASS(round_statement_read(&s, env.content));
    SEFL_PASS(csp_must_have(c, s.round, &now));
    SEFL_PASS(csp_own(c, csp_store_resume(c->c.store, &now)));
    if (now.state == CSP_REVEALED)
        return reply_kept(c, s.round, &theirs);
    SEFL_PASS(set_must_fit(c, &s));
    SEFL_PASS(charge_must_fit(c, s.round, &theirs));
    SEFL_PASS(sefl_new(&c->revealing, 1, sizeof *c->revealing));
    c->revealing->s = s;
    SEFL_PASS(wr_raw(&c->revealing->envelope, r->p, r->left));
    SEFL_PASS(load_history(c));
    SEFL_PASS(take_slice(c));
    SEFL_PASS(charge(c, s.round));
    return expect_sum(c);
}
