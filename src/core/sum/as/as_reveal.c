/* REVEAL at AS. AS stores the digest of CSP's output before it asks for the output (ACK): from then
 * on AS completes this attempt, or skips the round, and never makes another attempt. AS reads the
 * output to its end before it uses it, so that it can skip a lost round on the same stream. */
#include "base/alloc.h"
#include "base/ct.h"
#include "protocol/modes/mode.h"
#include "sum/as_internal.h"

#include <stdio.h>
#include <string.h>

/* ---- the question ---------------------------------------------------------------------------- */

/* joint: takes shares that only this attempt uses. */
static sefl_status take_shares(as_link *l)
{
    sefl_status st = SEFL_OK;
    as_revealing *v = &l->revealing;
    const task *t = l->c.task;
    noise_params p = task_noise_params(t, v->o->round, v->o->attempt);
    shares_pool *shares = l->c.shares;
    const uint64_t count = t->values;
    uint8_t *x;
    v->safe = false;
    buf_clear(&v->x);
    SEFL_NEED(shares, SEFL_EINVAL, "joint noise needs a pool of noise shares");
    do {
        if (l->c.shares_wait) /* even if there are enough: an audit may be open */
            SEFL_PASS(l->c.shares_wait(l->c.shares_ctx, v->o->round, v->o->attempt, count));
        SEFL_NEED(shares_pool_have(shares) >= count, SEFL_ESTATE,
                  "there are no noise shares, and no lane makes them");
        st = shares_pool_pick(shares, &v->slice, count);
    } while (st == SEFL_ENOTFOUND && shares_pool_have(shares) < count);
    SEFL_PASS(st);
    shares_slice_hash(v->m.slice, &v->slice);
    SEFL_PASS(buf_extend(&v->x, &x, SHA256_BYTES + count * noise_share_bytes(&p)));
    memcpy(x, v->m.slice, SHA256_BYTES);
    return shares_pool_take(shares, &v->slice, x + SHA256_BYTES, noise_share_bytes(&p));
}

sefl_status as_keep_shares(as_link *l)
{
    as_revealing *v = &l->revealing;
    const as_store *s = v->o->store;
    if (v->safe)
        return SEFL_OK;
    SEFL_PASS(s->put(s->ctx, AS_SHARES, v->o->round, v->o->attempt, buf_span(&v->x)));
    v->safe = true;
    return SEFL_OK;
}

static sefl_status lost(as_link *l, const char *why)
{
    l->outcome = AS_LOST;
    return sefl_fail(SEFL_ESTATE, "%s: AS must skip the round, and its charge stands", why);
}

/* Checks, before AS draws a mask, that the attempt number is new, and that no output has left. */
static sefl_status check_attempt(as_link *l, const as_reveal *o, bool *first)
{
    as_mask m = { 0 };
    uint8_t digest[SHA256_BYTES];
    sefl_status st = as_store_reply(o->store, o->round, digest);
    if (st == SEFL_OK)
        return lost(l,
                    "AS has acknowledged an output of this round, and CSP does not know it: an old "
                    "copy of CSP's state was put back");
    if (st != SEFL_ENOTFOUND)
        return st;
    st = as_store_masked(o->store, o->round, &m);
    uint64_t used = m.attempt;
    as_mask_clear(&m);
    *first = st == SEFL_ENOTFOUND;
    if (*first)
        return SEFL_OK;
    if (st == SEFL_OK && o->attempt <= used)
        return sefl_fail(
            SEFL_EINVAL, "round %llu: attempt %llu, but attempt %llu already has a mask",
            (unsigned long long)o->round, (unsigned long long)o->attempt, (unsigned long long)used);
    return st;
}

static sefl_status get_history(void *ctx, uint64_t round, sefl_buf *out)
{
    const as_store *s = ctx;
    return s->get(s->ctx, AS_HISTORY, round, out);
}

/* Loads what this server kept in the rounds before. A record that is not stored is left out: after
 * a crash AS could not finish the reveal. */
static sefl_status load_history(as_link *l)
{
    as_revealing *v = &l->revealing;
    const as_reveal *o = v->o;
    return history_load(&v->past, l->c.task, o->round, o->fresh, get_history,
                        (void *)(uintptr_t)o->store);
}

/* Takes shares if the attempt needs them, and writes REVEAL to l->out. */
static sefl_status put_reveal(as_link *l)
{
    as_revealing *v = &l->revealing;
    const as_reveal *o = v->o;
    uint8_t bytes[STATEMENT_MAX];
    envelope env = { .kind = SIGN_STATEMENT };
    v->tries++;
    if (v->shares)
        SEFL_PASS(take_shares(l));
    round_statement s = {
        .round = o->round, .attempt = o->attempt, .clients = o->clients, .slice = v->slice
    };
    s.lags = v->past.lags;
    for (unsigned j = 0; j < NOISE_LAGS; j++)
        if (s.lags >> j & 1)
            memcpy(s.past[j], history_id(&v->past, j), sizeof s.past[j]);
    memcpy(s.task, l->c.task->id, sizeof s.task);
    memcpy(s.set, o->set, sizeof s.set);
    env.content = span_of(bytes, round_statement_write(bytes, &s));
    buf_reset(&l->out.body);
    SEFL_PASS(as_put_mark(l));
    SEFL_PASS(envelope_sign(&env, SIGNER_AS, l->c.key));
    return envelope_write(&l->out.body, &env);
}

sefl_status as_link_reveal(as_link *l, const as_reveal *o, bool *kept, int64_t *w)
{
    const task *t = l->c.task;
    as_revealing *v = &l->revealing;
    sefl_status st = as_begin(l);
    *kept = false;
    if (st != SEFL_OK) {
        sefl_wipe(w, t->values * sizeof *w);
        return st;
    }
    l->times = (as_times){ 0 };
    *v = (as_revealing){ .o = o, .kept = kept, .w = w, .again = l->peer.revealed >= o->round };
    v->shares = task_mode(t)->shares && !v->again;
    v->safe = !v->shares;
    if (!v->again) {
        SEFL_CHECK(o->sum, SEFL_EINVAL, "round %llu is not revealed yet: the reveal needs its sum",
                   (unsigned long long)o->round);
        SEFL_TRY(check_attempt(l, o, &v->first));
        SEFL_TRY(load_history(l));
    }
    v->since = as_now(l);
    SEFL_TRY(put_reveal(l));
    return as_ask(l, LINK_REVEAL);
done:
    return as_end(l, st);
}

sefl_status as_other_shares(as_link *l, sefl_status st)
{
    enum { TRIES = 3 };
    as_revealing *v = &l->revealing;
    log_warn(l->c.log, "CSP does not have these noise shares", lf_u64("round", v->o->round));
    shares_pool_drop(l->c.shares, &v->slice);
    if (v->tries == TRIES)
        return st;
    SEFL_PASS(put_reveal(l));
    as_queue(l, LINK_REVEAL);
    return SEFL_OK;
}

/* ---- GO, KEPT -------------------------------------------------------------------------------- */

static sefl_status draw_mask(as_link *l)
{
    as_revealing *v = &l->revealing;
    const as_reveal *o = v->o;
    sefl_rng rng;
    uint64_t began = as_now(l);
    SEFL_PASS(coins_for(l->c.coins, &rng, "mask", o->round, o->attempt));
    SEFL_PASS(rng_fill(&rng, v->m.seed, sizeof v->m.seed));
    if (v->shares)
        SEFL_PASS(rng_fill(&rng, v->m.coins, sizeof v->m.coins));
    else
        SEFL_PASS(as_store_coins(o->store, o->round, o->ahead, l->c.coins, v->m.coins));
    v->m.attempt = o->attempt;
    v->m.lags = v->past.lags;
    memcpy(v->m.set, o->set, sizeof v->m.set);
    SEFL_PASS(as_keep_shares(l));
    SEFL_PASS(as_store_mask(o->store, o->round, &v->m));
    l->times.mask = as_now(l) - began;
    return SEFL_OK;
}

sefl_status as_on_reveal(as_link *l, rd *r)
{
    as_revealing *v = &l->revealing;
    uint8_t lags = 0;
    SEFL_PASS(as_check_mark(l, r, true));
    l->times.ask = as_now(l) - v->since;
    *v->kept = l->got == LINK_KEPT;
    if (*v->kept) {
        SEFL_PASS(rd_raw(r, v->id, sizeof v->id));
        return as_on_digest(l, r);
    }
    SEFL_PASS(rd_u8(r, &lags));
    SEFL_PASS(rd_end(r));
    l->asked = LINK_SUM;
    l->phase = AS_SUM;
    SEFL_NEED(!v->again, SEFL_EPROTO, "CSP would reveal round %llu again",
              (unsigned long long)v->o->round);
    SEFL_NEED((lags & ~v->past.lags) == 0, SEFL_EPROTO,
              "CSP would use the noise of rounds that the statement does not list");
    history_only(&v->past, lags);
    link_plain_id(v->id, v->o->attempt, v->o->set);
    return draw_mask(l);
}

/* All threads write a piece while CSP works on the one before. */
sefl_status as_next_sum(as_link *l, const link_msg **out)
{
    as_revealing *v = &l->revealing;
    const ahe_params *p = &l->c.task->ahe;
    size_t n = link_sum_units(p);
    uint64_t t = as_now(l);
    uint8_t *bytes;
    if (v->unit > 0)
        l->times.send += t - v->since;
    v->since = t;
    if (v->unit == p->units) {
        l->phase = AS_WAIT;
        return history_begin(&v->past, l->c.task, v->id); /* while CSP makes its reply */
    }
    if (n > p->units - v->unit)
        n = p->units - v->unit;
    buf_reset(&l->out.body);
    SEFL_PASS(buf_extend(&l->out.body, &bytes, n * p->unit_bytes));
    SEFL_PASS(ahe_sum_write_units(p, v->o->sum, bytes, v->unit, n, v->m.seed, l->c.pool));
    l->out.kind = LINK_SUM, l->out.index++;
    v->unit += n;
    v->since = as_now(l);
    l->times.write += v->since - t;
    l->times.sent += MSG_HEADER + l->out.body.n;
    *out = &l->out;
    return SEFL_OK;
}

/* ---- the output ------------------------------------------------------------------------------ */

/* KEPT: loads the mask of that attempt from our store. */
static sefl_status load_mask(as_link *l)
{
    as_revealing *v = &l->revealing;
    uint8_t want[NOISE_ID];
    as_mask_clear(&v->m);
    sefl_status st = as_store_masked(v->o->store, v->o->round, &v->m);
    link_plain_id(want, v->m.attempt, v->o->set);
    if (st == SEFL_ENOTFOUND || (st == SEFL_OK && memcmp(v->id, want, NOISE_ID) != 0))
        return lost(l, "CSP has revealed a sum whose mask is not here (this server's state is "
                       "damaged, or an old copy)");
    return st;
}

/* CSP's mark and output are durable. AS makes the digest durable and asks for the output. A failure
 * of its own leaves the stream usable: CSP will answer KEPT. */
sefl_status as_on_digest(as_link *l, rd *r)
{
    as_revealing *v = &l->revealing;
    const as_reveal *o = v->o;
    bool same;
    if (!*v->kept)
        l->times.wait = as_now(l) - v->since;
    SEFL_PASS(rd_raw(r, v->digest, sizeof v->digest));
    SEFL_PASS(rd_end(r));
    l->in_step = true;
    if (l->peer.revealed < o->round)
        l->peer.revealed = o->round;
    as_forget_early(l);
    if (*v->kept)
        SEFL_PASS(load_mask(l));
    uint64_t began = as_now(l);
    SEFL_PASS(as_store_replied(o->store, o->round, v->m.attempt, v->digest, &same));
    if (!same)
        return lost(l, "CSP sends a different output than before");
    v->since = as_now(l);
    l->times.note = v->since - began;
    buf_reset(&l->out.body);
    SEFL_PASS(wr_u64(&l->out.body, o->round));
    SEFL_PASS(wr_raw(&l->out.body, v->digest, sizeof v->digest));
    as_queue(l, LINK_ACK);
    return SEFL_OK;
}

sefl_status as_output_form(const as_link *l, uint32_t *kind, size_t *bytes)
{
    *kind = task_mode(l->c.task)->reply ? LINK_REPLY : LINK_PLAIN;
    return task_output_bytes(bytes, l->c.task);
}

/* Computes from the output that answers v->m: w, and what AS keeps for later rounds. */
static sefl_status as_reveal_finish(as_link *l, sefl_span output)
{
    as_revealing *v = &l->revealing;
    const as_mask *m = &v->m;
    SEFL_PASS(history_begin(&v->past, l->c.task, v->id));
    mode_as in = { .round = v->o->round,
                   .attempt = m->attempt,
                   .seed = m->seed,
                   .coins = m->coins,
                   .drawn = v->o->ahead ? ahead_of(v->o->ahead, v->o->round, m->coins) : NULL,
                   .pool = l->c.pool,
                   .slice = m->slice,
                   .lags = m->lags,
                   .memory = history_memory(&v->past),
                   .shares = v->x.n > 0 ? span_of(v->x.p + SHA256_BYTES, v->x.n - SHA256_BYTES)
                                        : span_of(NULL, 0) };
    uint64_t began = as_now(l);
    sefl_status st = task_mode(l->c.task)->finish(v->w, l->c.task, output, &in);
    l->times.finish = as_now(l) - began;
    return st;
}

/* KEPT: finishes with the shares and the noise of that attempt from our store. */
static sefl_status finish_kept(as_link *l, sefl_span output)
{
    as_revealing *v = &l->revealing;
    if (task_mode(l->c.task)->shares) {
        sefl_status st = as_store_shares(v->o->store, v->o->round, &v->m, &v->x);
        if (st == SEFL_ENOTFOUND)
            return lost(l, "CSP has revealed a sum whose noise shares are not here");
        SEFL_PASS(st);
    }
    SEFL_PASS(load_history(l));
    history_only(&v->past, v->m.lags);
    if (v->past.lags != v->m.lags)
        return lost(l, "CSP has revealed a sum that takes back noise of earlier rounds, and this "
                       "server's part of it is not here");
    sefl_status st = as_reveal_finish(l, output);
    return st == SEFL_EPROTO ? lost(l, sefl_last_error()) : st;
}

sefl_status as_on_output(as_link *l, rd *r)
{
    as_revealing *v = &l->revealing;
    uint8_t is[SHA256_BYTES];
    uint32_t kind;
    size_t bytes;
    l->times.ack = as_now(l) - v->since;
    l->times.received = MSG_HEADER + r->left;
    SEFL_PASS(as_output_form(l, &kind, &bytes));
    SEFL_NEED(l->got == kind && r->left == bytes, SEFL_EPROTO,
              "CSP's output is %s of %zu bytes, expected %s of %zu", link_kind_name(l->got),
              r->left, link_kind_name(kind), bytes);
    sefl_span output = span_of(r->p, bytes);
    sha256_of(is, output);
    SEFL_NEED(memcmp(is, v->digest, sizeof is) == 0, SEFL_EPROTO, "CSP's output has changed");
    v->st = (*v->kept ? finish_kept : as_reveal_finish)(l, output);
    l->in_step = *v->kept || l->outcome == AS_LOST;
    if (!task_is_sealed(l->c.task) || (v->st != SEFL_OK && !l->in_step))
        return v->st;
    if (v->st != SEFL_OK)
        snprintf(v->why, sizeof v->why, "%s", sefl_last_error());
    l->asked = LINK_COUNTED;
    l->phase = AS_WAIT;
    return SEFL_OK;
}

/* Sealed tasks: CSP's signature on the counted clients. After an unusable output AS ignores it. */
sefl_status as_on_counted(as_link *l, rd *r)
{
    const as_revealing *v = &l->revealing;
    const as_reveal *o = v->o;
    envelope env;
    counted_statement s;
    l->in_step = v->st != SEFL_OK;
    if (l->in_step)
        return sefl_fail(v->st, "%s", v->why);
    SEFL_PASS(envelope_read(&env, span_of(r->p, r->left)));
    SEFL_PASS(envelope_check_one(&env, SIGN_COUNTED, SIGNER_CSP, l->c.task->servers.csp));
    SEFL_PASS(counted_statement_read(&s, env.content));
    SEFL_NEED(s.round == o->round && memcmp(s.task, l->c.task->id, sizeof s.task) == 0 &&
                  memcmp(s.root, o->set, sizeof s.root) == 0 &&
                  memcmp(s.id, v->id, sizeof s.id) == 0,
              SEFL_EPROTO, "CSP signed another set than it kept");
    return o->counted ? wr_raw(o->counted, r->p, r->left) : SEFL_OK;
}

void as_reveal_end(as_link *l, sefl_status st)
{
    as_revealing *v = &l->revealing;
    if (!v->o)
        return;
    if (st != SEFL_OK)
        sefl_wipe(v->w, l->c.task->values * sizeof *v->w);
    else if (l->peer.revealed < v->o->round)
        l->peer.revealed = v->o->round;
    if (st == SEFL_OK && v->o->fresh)
        history_take(v->o->fresh, &v->past, v->o->round, v->m.attempt);
    as_mask_clear(&v->m);
    buf_clear(&v->x);
    history_clear(&v->past);
    *v = (as_revealing){ 0 };
    buf_clear(&l->in.body); /* large, and no longer needed */
}
