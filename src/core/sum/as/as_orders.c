/* Executes the orders of sum/agg.h. An order may be executed twice: its second result is the same,
 * or replaces the first one completely, and the machine continues only once the result is
 * durable. */
#include "sum/as_rounds_internal.h"
#include "sum/history.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "protocol/modes/mode.h"

#include <inttypes.h>
#include <string.h>

enum { REFUSALS_MAX = 5, BYE_TRIES = 3, BYE_PAUSE_MS = 1000 };

/* Nanoseconds since *t, which moves on to now. */
static uint64_t lap(const as_rounds *r, uint64_t *t)
{
    uint64_t now = clock_ns(r->c.mono), before = *t;
    *t = now;
    return now - before;
}

/* ---- the link -------------------------------------------------------------------------------- */

void as_rounds_hang_up(as_rounds *r)
{
    as_link_free(r->link);
    r->link = NULL;
    r->c.channel->hang_up(r->c.ctx);
}

sefl_status as_rounds_link_down(as_rounds *r, const char *what)
{
    bool stopping = as_rounds_stopping(r);
    if (!stopping)
        log_warn(r->c.log, "no link to CSP", lf_str("at", what), lf_str("why", sefl_last_error()));
    if (r->c.strict)
        return sefl_fail(stopping ? SEFL_ECANCELLED : SEFL_EPROTO, "%s: %s", what,
                         sefl_last_error());
    as_rounds_note(r, sefl_last_error());
    as_rounds_hang_up(r);
    return as_rounds_say(r, AGG_LINK_DOWN, 0);
}

/* True if CSP or an audit has ended the task: no more rounds are signed or revealed. */
static bool is_spoiled(const as_rounds *r, as_outcome outcome)
{
    return outcome == AS_SPOILED ||
           (r->c.channel && r->c.channel->ended && r->c.channel->ended(r->c.ctx));
}

static sefl_status open_link(as_rounds *r)
{
    channel *ch;
    const as_rounds_config *c = &r->c;
    SEFL_PASS(c->channel->dial(c->ctx, &ch));
    SEFL_PASS(as_link_new(&r->link, ch,
                          &(as_link_config){ .task = c->task,
                                             .envelope = c->envelope,
                                             .key = c->key,
                                             .coins = c->coins,
                                             .ledger = account_port(c->account),
                                             .pool = c->pool,
                                             .log = c->log,
                                             .clock = c->mono,
                                             .wall = c->wall,
                                             .shares = c->shares,
                                             .shares_wait = c->channel->shares_wait,
                                             .shares_ctx = c->ctx }));
    as_rounds_linked_now(r);
    r->early_round = 0; /* CSP has forgotten the heads of an earlier link */
    return SEFL_OK;
}

/* An error that waiting does not fix: the servers' states or ledgers do not match. */
static sefl_status cannot_go_on(void)
{
    return sefl_fail(SEFL_ESTATE, "%s; " ACCOUNT_REMEDY, sefl_last_error());
}

/* Compares CSP's WELCOME with our store, to detect a server that knows less than it told the other.
 * expired: CSP has skipped the current round by itself. */
static sefl_status compare_states(as_rounds *r, bool *expired)
{
    sefl_status st = SEFL_OK;
    const as_peer *p = as_link_peer(r->link);
    uint64_t ended = p->revealed > p->skipped ? p->revealed : p->skipped;
    as_mask mask = { 0 };
    pthread_mutex_lock(&r->lock);
    agg_memory m = agg_remember(r->a);
    pthread_mutex_unlock(&r->lock);
    *expired = task_is_sealed(r->t) && p->signed_ == m.round && p->skipped == m.round &&
               p->revealed < m.round && m.phase < AGG_REVEALING;
    if (*expired)
        return SEFL_OK;
    SEFL_CHECK(p->signed_ <= m.round && (ended < m.round || m.phase >= AGG_REVEALING), SEFL_ESTATE,
               "an old copy of this server's state was put back: it is in round %" PRIu64
               ", %s, but CSP has signed round %" PRIu64 " for it and ended round %" PRIu64,
               m.round, agg_phase_name(m.phase), p->signed_, ended);
    SEFL_CHECK(ended + 1 >= m.round && (p->signed_ >= m.round || m.phase < AGG_COLLECTING),
               SEFL_ESTATE,
               "an old copy of CSP's state was put back: it has signed round %" PRIu64
               " and ended round %" PRIu64 ", but this server is in round %" PRIu64 ", %s",
               p->signed_, ended, m.round, agg_phase_name(m.phase));
    /* AS draws a mask after CSP's charge and before CSP can reveal */
    st = as_store_masked(r->store, m.round, &mask);
    as_mask_clear(&mask);
    SEFL_CHECK(st != SEFL_OK || !p->behind, SEFL_ESTATE,
               "an old copy of CSP's state and ledger was put back: CSP had charged round %" PRIu64
               " before it took our masked sum, and its ledger does not have that charge",
               m.round);
    SEFL_CHECK(st != SEFL_ENOTFOUND || m.phase != AGG_REVEALING || p->revealed < m.round,
               SEFL_ESTATE,
               "an old copy of this server's state was put back: CSP has revealed round %" PRIu64
               ", and the mask of its sum is not here",
               m.round);
    SEFL_TRY(st == SEFL_ENOTFOUND ? SEFL_OK : st);
    if (m.phase < AGG_COLLECTING && p->signed_ == m.round)
        log_warn(r->c.log,
                 "CSP signed this round before: the link broke then, or this server's state is an "
                 "old copy and updates acknowledged since are lost",
                 lf_u64("round", m.round));
done:
    return st == SEFL_ESTATE ? cannot_go_on() : st;
}

static sefl_status order_dial(as_rounds *r, const agg_order *o)
{
    bool expired;
    pthread_mutex_lock(&r->lock);
    const bool reveals = agg_get_phase(r->a) == AGG_REVEALING;
    pthread_mutex_unlock(&r->lock);
    if (r->c.clear)
        return as_rounds_say(r, AGG_LINK_UP, 0);
    sefl_status st = open_link(r);
    if (st == SEFL_ESTATE) {
        st = cannot_go_on();
        r->c.channel->hang_up(r->c.ctx);
        return st;
    }
    if (st != SEFL_OK)
        return as_rounds_link_down(r, "dial");
    SEFL_PASS(compare_states(r, &expired));
    log_info(r->c.log, "link to CSP is up");
    if (!reveals) /* until the next attempt succeeds */
        as_rounds_note(r, "");
    if (r->c.channel->up)
        r->c.channel->up(r->c.ctx, as_link_peer(r->link));
    SEFL_PASS(as_rounds_say(r, AGG_LINK_UP, 0));
    if (!expired)
        return SEFL_OK;
    log_error(r->c.log,
              "CSP has skipped this round by itself: its key expired, too few of its heads were "
              "valid, or CSP's state is an old copy",
              lf_u64("round", o->round));
    return as_rounds_say(r, AGG_LOST, o->round);
}

/* ---- a round begins -------------------------------------------------------------------------- */

static sefl_status get_signed(as_rounds *r, sefl_buf *both, round_header *h, as_outcome *outcome)
{
    sefl_status st = SEFL_OK;
    if (r->c.clear) {
        ledger_port l = account_port(r->c.account);
        ledger_head after;
        st = l.head_after(l.ctx, h->round, &after);
        *outcome = as_outcome_of(st);
        return st == SEFL_OK ? r->c.clear->sign(r->c.ctx, both, h) : st;
    }
    if (task_is_sealed(r->t))
        st = as_link_key(r->link, h);
    if (st == SEFL_OK)
        st = as_link_header(r->link, both, h);
    *outcome = as_link_outcome(r->link, st);
    return st;
}

/* CSP's operator has paused or ended the task. */
static sefl_status held(as_rounds *r, uint64_t round, bool ended)
{
    pthread_mutex_lock(&r->lock);
    bool known = agg_is_paused(r->a, NULL);
    pthread_mutex_unlock(&r->lock);
    if (ended || !known)
        log_warn(r->c.log, ended ? "CSP's operator has ended the task" : "CSP has paused the task",
                 lf_u64("round", round));
    as_rounds_linked_now(r);
    return as_rounds_say(r, ended ? AGG_LEFT : AGG_PUT_OFF, round);
}

static sefl_status not_signed(as_rounds *r, uint64_t round, as_outcome outcome, sefl_status why)
{
    if (outcome == AS_PAUSED || outcome == AS_ENDED)
        return held(r, round, outcome == AS_ENDED);
    if (outcome == AS_BUDGET) {
        log_info(r->c.log, "budget", lf_u64("round", round), lf_str("why", sefl_last_error()));
        return as_rounds_say(r, AGG_BUDGET, round);
    }
    if (r->c.strict)
        return why;
    if (outcome == AS_LOST) {
        log_error(r->c.log, "round skipped before it began", lf_u64("round", round),
                  lf_str("why", sefl_last_error()));
        return as_rounds_say(r, AGG_LOST, round);
    }
    if (is_spoiled(r, outcome))
        return why;
    if (outcome == AS_APART) /* another header was signed, or the ledgers differ */
        return cannot_go_on();
    return as_rounds_link_down(r, "header"); /* a new connection compares task and ledgers again */
}

static sefl_status order_sign(as_rounds *r, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    sefl_buf both = { 0 };
    as_outcome outcome;
    round_header h = { .round = o->round, .step_nano = r->t->step_nano };
    memcpy(h.task, r->t->id, sizeof h.task);
    memcpy(h.model, r->model.hash, sizeof h.model);
    st = get_signed(r, &both, &h, &outcome);
    if (st != SEFL_OK) {
        st = not_signed(r, o->round, outcome, st);
        goto done;
    }
    SEFL_TRY(r->store->put(r->store->ctx, AS_HEADER, o->round, 0, buf_span(&both)));
    as_rounds_linked_now(r);
    r->refused = 0;
    r->parts = (round_parts){ 0 };

    pthread_mutex_lock(&r->lock);
    buf_clear(&r->header);
    r->header = both, both = (sefl_buf){ 0 };
    st = agg_on(r->a, &(agg_event){ .kind = AGG_SIGNED, .round = o->round }, as_rounds_wall_ms(r));
    if (st == SEFL_OK) {
        r->row =
            (as_row){ .round = o->round, .opened_ms = as_rounds_wall_ms(r), .has_model = true };
        memcpy(r->row.model, r->model.hash, sizeof r->row.model);
        st = r->c.uploads->accept(r->c.ctx, &h, buf_span(&r->header));
    }
    if (st == SEFL_OK)
        st = as_rounds_remember(r);
    pthread_mutex_unlock(&r->lock);
    SEFL_TRY(st);
    log_info(r->c.log, "round open", lf_u64("round", o->round),
             lf_u64("deadline_s", r->t->deadline_ms / 1000));
    as_rounds_changed(r);
done:
    buf_clear(&both);
    return st;
}

/* ---- a round closes -------------------------------------------------------------------------- */

static sefl_status order_freeze(as_rounds *r, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    const as_uploads *u = r->c.uploads;
    round_entry *set = NULL;
    uint8_t hash[SHA256_BYTES] = { 0 }, seed[COUNTED_SEED] = { 0 };
    uint32_t n;
    u->close(r->c.ctx); /* the machine no longer admits uploads */
    uint64_t t = clock_ns(r->c.mono);
    SEFL_TRY(u->freeze(r->c.ctx, o->round));
    SEFL_TRY(u->set(r->c.ctx, o->round, &set, &n));
    SEFL_CHECK(n > 0, SEFL_ESTATE, "round %" PRIu64 " froze without updates", o->round);
    if (set)
        SEFL_TRY(round_set_hash(hash, r->t->id, o->round, set, n));
    SEFL_TRY(
        r->store->put(r->store->ctx, AS_SET, o->round, 0, span_of(set, set ? n * sizeof *set : 0)));
    if (task_is_sealed(r->t) && !r->c.clear)
        SEFL_TRY(as_store_tree(r->store, o->round, r->c.coins, seed));
    r->parts.freeze = lap(r, &t);
    pthread_mutex_lock(&r->lock);
    r->row.has_set = true;
    memcpy(r->row.set, hash, sizeof hash);
    pthread_mutex_unlock(&r->lock);
    SEFL_TRY(
        as_rounds_tell(r, &(agg_event){ .kind = AGG_FROZEN, .round = o->round, .clients = n }));
    log_info(r->c.log, "round closed", lf_u64("round", o->round), lf_hash("set", hash));
done:
    sefl_wipe(seed, sizeof seed);
    sefl_free(set);
    return st;
}

/* ---- reveal ---------------------------------------------------------------------------------- */

/* Gives the round up: the uploads that AS acknowledged do not count. */
static sefl_status lose(as_rounds *r, uint64_t round, const char *what)
{
    log_error(r->c.log, what, lf_u64("round", round), lf_str("why", sefl_last_error()));
    as_rounds_note(r, "");
    SEFL_PASS(as_rounds_say(r, AGG_LOST, round));
    return r->link && as_link_dead(r->link) ? as_rounds_link_down(r, "reveal") : SEFL_OK;
}

/* Handles a failed attempt. The round is lost only if no attempt can succeed, or if CSP refuses,
 * for a reason of the protocol, every attempt. A disk that is full or broken, here or at CSP, or
 * missing memory, is no such reason: AS tries until it works, or until CSP's key expires. After any
 * other failure of AS itself the run ends, and the next one continues. */
static sefl_status not_revealed(as_rounds *r, const agg_order *o, as_outcome outcome,
                                sefl_status why)
{
    if (why == SEFL_ECANCELLED || is_spoiled(r, outcome))
        return why;
    log_warn(r->c.log, "round not revealed", lf_u64("round", o->round),
             lf_u64("attempt", o->attempt), lf_str("why", sefl_last_error()));
    if (outcome == AS_BUDGET)
        return as_rounds_say(r, AGG_BUDGET, o->round);
    if (r->c.strict)
        return why;
    if (outcome == AS_LOST)
        return lose(r, o->round, "round lost");
    const bool dead = r->link && as_link_dead(r->link);
    if (outcome == AS_FATAL || (r->c.shared && why == SEFL_EIO && !dead))
        return why; /* EIO: the database, so perhaps another process leads now */
    if (outcome != AS_AGAIN && ++r->refused >= REFUSALS_MAX)
        return lose(r, o->round, "round lost: every attempt failed");
    if (dead || why == SEFL_ECLOSED || why == SEFL_ETIMEOUT) /* the last two: of lanes */
        return as_rounds_link_down(r, "reveal");
    as_rounds_note(r, sefl_last_error());
    return as_rounds_say(r, AGG_REVEAL_FAILED, o->round);
}

/* Gets the closed sum of the set, unless CSP has already revealed this round. */
static sefl_status get_sum(as_rounds *r, as_reveal *o, as_outcome *outcome)
{
    if (as_link_peer(r->link)->revealed >= o->round)
        return SEFL_OK;
    sefl_status st = r->c.uploads->sum(r->c.ctx, o->round, &o->sum);
    if (st == SEFL_ECRYPTO || st == SEFL_EPROTO || st == SEFL_ERANGE)
        *outcome = AS_LOST;
    return st;
}

/* Gets w from CSP. After a failure, *outcome is what it means for the round; AS_GOT: nothing. */
static sefl_status reveal(as_rounds *r, as_reveal *o, int64_t *w, as_outcome *outcome)
{
    sefl_status st;
    const as_channel *ch = r->c.channel;
    bool kept;
    uint64_t t = clock_ns(r->c.mono);
    if (task_is_sealed(r->t) && !r->c.clear) {
        SEFL_PASS(as_rounds_set(r, o, outcome));
        r->parts.set = lap(r, &t);
    }
    if (!r->c.clear)
        SEFL_PASS(get_sum(r, o, outcome));
    r->parts.sum = lap(r, &t);
    st = account_charge(r->c.account, o->round); /* durable before the masked sum leaves */
    r->parts.charge = lap(r, &t);
    if (st == SEFL_EBUDGET)
        *outcome = AS_BUDGET;
    SEFL_PASS(st);
    if (r->c.clear)
        return r->c.clear->reveal(r->c.ctx, o->round, o->attempt, w);
    if (ch->revealing)
        ch->revealing(r->c.ctx, true);
    st = as_link_reveal(r->link, o, &kept, w);
    *outcome = as_link_outcome(r->link, st);
    if (ch->revealing)
        ch->revealing(r->c.ctx, false);
    r->parts.reveal = lap(r, &t);
    return st;
}

void as_rounds_drop_released(as_rounds *r)
{
    if (r->released_in > 0)
        sefl_wipe(r->released, r->t->values * sizeof *r->released);
    r->released_in = 0;
}

/* The memory is kept for later rounds. */
static sefl_status room_for_released(as_rounds *r)
{
    as_rounds_drop_released(r);
    return r->released ? SEFL_OK : sefl_new(&r->released, r->t->values, sizeof *r->released);
}

/* Mode own: draws AS's noise of this round while clients upload, or after a restart. */
static sefl_status draw_ahead(as_rounds *r, uint64_t round)
{
    uint8_t seed[AHEAD_SEED] = { 0 };
    if (round == 0 || r->c.clear || !task_mode(r->t)->draw || r->ahead.round == round)
        return SEFL_OK;
    sefl_status st = as_store_coins(r->store, round, NULL, r->c.coins, seed);
    if (st == SEFL_OK && ahead_draw(&r->ahead, r->t, round, seed, r->c.pool) != SEFL_OK)
        log_warn(r->c.log, "AS's noise is not drawn yet", lf_u64("round", round),
                 lf_str("why", sefl_last_error())); /* the result draws it */
    sefl_wipe(seed, sizeof seed);
    return st;
}

/* One attempt. On SEFL_OK the integers are durable; *outcome as for reveal. */
static sefl_status attempt(as_rounds *r, const agg_order *o, as_reveal *what, as_outcome *outcome)
{
    sefl_status st = SEFL_OK;
    const task *t = r->t;
    uint64_t began = clock_ns(r->c.mono), t0;
    SEFL_TRY(as_rounds_keep_history(r)); /* nothing to do if AS has waited for uploads */
    SEFL_TRY(draw_ahead(r, o->round));
    SEFL_TRY(room_for_released(r));
    r->released_in = o->round; /* to be wiped after a failure */
    /* after a crash between the integers and the machine's step, the stored integers are the
     * release: in mode own another reveal would draw AS's noise a second time */
    st = as_store_released(r->store, o->round, r->released, t->values);
    if (st == SEFL_OK || as_outcome_of(st) == AS_AGAIN) /* again: they may be there */
        goto done;
    SEFL_TRY(reveal(r, what, r->released, outcome));
    t0 = clock_ns(r->c.mono);
    if (what->counted)
        SEFL_TRY(r->store->put(r->store->ctx, AS_COUNTED, o->round, 0, buf_span(what->counted)));
    if (!r->c.clear) /* in the clear no restart reads them: a simulation repeats the round */
        SEFL_TRY(as_store_release(r->store, o->round, o->attempt, r->released, t->values));
    r->parts.store = lap(r, &t0);
    as_rounds_linked_now(r);
    r->reveal_ns = t0 - began;
    if (r->link)
        r->times = *as_link_times(r->link);
done:
    if (st != SEFL_OK)
        as_rounds_drop_released(r);
    return st;
}

static sefl_status order_reveal(as_rounds *r, const agg_order *o)
{
    as_outcome outcome = AS_GOT;
    sefl_buf counted = { 0 };
    as_reveal what = {
        .round = o->round,
        .attempt = o->attempt,
        .store = r->store,
        .counted = task_is_sealed(r->t) && !r->c.clear ? &counted : NULL,
        .fresh = &r->fresh,
        .ahead = &r->ahead,
    };
    pthread_mutex_lock(&r->lock);
    what.clients = agg_remember(r->a).clients;
    memcpy(what.set, r->row.set, sizeof what.set);
    bool has_set = r->row.has_set;
    pthread_mutex_unlock(&r->lock);
    SEFL_NEED(has_set, SEFL_ESTATE, "round %" PRIu64 " is to be revealed without a set", o->round);
    sefl_status st = attempt(r, o, &what, &outcome);
    buf_clear(&counted);
    if (st == SEFL_EIO && outcome == AS_GOT) /* this server's disk */
        outcome = AS_AGAIN;
    if (outcome != AS_GOT)
        return not_revealed(r, o, outcome, st);
    SEFL_PASS(st);
    as_rounds_note(r, "");
    return as_rounds_say(r, AGG_REVEALED, o->round);
}

/* ---- a round ends ---------------------------------------------------------------------------- */

static void report(as_rounds *r, rounds_report *p)
{
    ledger_total total;
    uint64_t now = as_rounds_wall_ms(r);
    if (r->row.opened_ms > 0 && now > r->row.opened_ms)
        p->seconds = 1e-3 * (double)(now - r->row.opened_ms);
    p->has_clients = r->t->publish_count;
    if (p->has_clients)
        p->up_bytes = (p->clients + p->refused) * (uint64_t)task_body_bytes(r->t);
    else
        p->clients = p->refused = 0;
    if (r->t->claim && account_spent(r->c.account, r->t->delta, &total) == SEFL_OK &&
        total.server.claimed && total.others.claimed) {
        p->has_epsilon = true;
        p->epsilon_server = total.server.epsilon;
        p->epsilon_others = total.others.epsilon;
        p->epsilon_target = r->t->epsilon;
    }
    if (r->c.report)
        r->c.report(r->c.ctx, p);
}

/* Deletes a round's uploads and secrets, which are no longer needed. */
static sefl_status forget_round(as_rounds *r, uint64_t round)
{
    ahead_drop(&r->ahead, r->t);
    sefl_status st = r->c.uploads->forget(r->c.ctx, round);
    return st == SEFL_OK ? r->store->wipe(r->store->ctx, round) : st;
}

/* Keeps the noise of the last released round only: if the release of a round failed or was
 * blocked, the model does not contain its noise, so no later round may take it back. */
sefl_status as_rounds_keep_history(as_rounds *r)
{
    history_fresh *f = &r->fresh;
    if (f->round == 0 || f->stored || f->round != r->model.round)
        return SEFL_OK;
    SEFL_PASS(r->store->put(r->store->ctx, AS_HISTORY, f->round, f->attempt, buf_span(&f->record)));
    f->stored = true;
    return SEFL_OK;
}

/* Correlated noise: destroys what no later round takes back. If the model does not contain the
 * noise of this round, no round does. */
static sefl_status forget_history(as_rounds *r, uint64_t round, bool released)
{
    const history_range keep = history_after(r->t, round, released);
    history_limit(&r->fresh, keep);
    return r->t->filter.b == 0 ? SEFL_OK
                               : r->store->history_keep(r->store->ctx, keep.from, keep.to);
}

/* Logs the result of the release check and stores what later rounds need. */
static sefl_status keep_check(as_rounds *r, uint64_t round, const release_made *made)
{
    const release_numbers *n = &made->numbers;
    double median;
    if (made->blocked) {
        log_error(r->c.log, "release blocked; the model stays unchanged", lf_u64("round", round),
                  lf_real("norm", n->norm), lf_real("bound", n->bound), lf_str("why", made->why));
        SEFL_PASS(forget_history(r, round, false));
        return r->store->put(r->store->ctx, AS_BLOCKED, round, 0, span_of_str(made->why));
    }
    if (n->bound == 0)
        return SEFL_OK;
    log_info(r->c.log, "release checked", lf_u64("round", round), lf_real("norm", n->norm),
             lf_real("bound", n->bound), lf_real("largest", n->largest),
             lf_real("signal", n->signal), lf_if(made->clip > 0, lf_real("clip", made->clip)));
    if (release_signals_add(&r->signals, r->t, round, n->signal, &median))
        log_warn(r->c.log, "the sum is much larger than in earlier rounds", lf_u64("round", round),
                 lf_real("signal", n->signal), lf_real("median", median));
    return as_store_signals_put(r->store, &r->signals);
}

static sefl_status order_release(as_rounds *r, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    const task *t = r->t;
    release_made made = { 0 };
    uint64_t began = clock_ns(r->c.mono);
    rounds_report p = { .round = o->round,
                        .open_seconds = 1e-9 * (double)r->reveal_ns,
                        .open_bytes = r->times.sent + r->times.received };
    if (r->released_in != o->round) { /* after a restart */
        SEFL_PASS(room_for_released(r));
        r->released_in = o->round;
        SEFL_TRY(as_store_released(r->store, o->round, r->released, t->values));
    }
    SEFL_TRY(as_rounds_kept(r, o->round, &p.clients, &p.refused));
    release_from from = r->model;
    SEFL_TRY(r->c.model->release(r->c.ctx, &from, o->round, r->released, p.clients, &made));
    SEFL_TRY(keep_check(r, o->round, &made));
    p.blocked = made.blocked;
    p.has_perplexity = made.has_perplexity;
    p.perplexity = made.perplexity;
    p.word_perplexity = made.word_perplexity;
    p.eval_seconds = made.eval_seconds;
    p.clip = made.clip;
    r->parts.release = lap(r, &began);
    p.parts = r->parts;
    p.release_seconds = 1e-9 * (double)r->parts.release;
    report(r, &p);

    pthread_mutex_lock(&r->lock);
    if (!made.blocked) { /* stored with the machine's step, in one transaction */
        r->model.round = o->round;
        memcpy(r->model.hash, made.hash, sizeof made.hash);
    }
    st = agg_on(r->a,
                &(agg_event){ .kind = made.blocked ? AGG_BLOCKED : AGG_RELEASED,
                              .round = o->round,
                              .has_perplexity = made.has_perplexity,
                              .perplexity = made.perplexity },
                as_rounds_wall_ms(r));
    if (st == SEFL_OK)
        st = as_rounds_remember(r);
    pthread_mutex_unlock(&r->lock);
    SEFL_TRY(st);
    as_rounds_changed(r);
    SEFL_TRY(forget_round(r, o->round));
    SEFL_TRY(forget_history(r, o->round, !made.blocked));
    if (r->c.model->settle)
        r->c.model->settle(r->c.ctx, r->model.round);
    r->reveal_ns = 0;
    r->times = (as_times){ 0 };
done:
    as_rounds_drop_released(r);
    return st;
}

static sefl_status order_skip(as_rounds *r, const agg_order *o)
{
    rounds_report p = { .round = o->round, .skipped = true };
    r->c.uploads->close(r->c.ctx);
    if (!r->c.clear && as_link_skip(r->link, o->round, (unsigned)(o->why & 0xff)) != SEFL_OK)
        return as_rounds_link_down(r, "skip");
    pthread_mutex_lock(&r->lock);
    const agg_memory m = agg_remember(r->a);
    p.clients = m.clients, p.dropped = m.drop;
    p.early = m.drop || as_rounds_wall_ms(r) < m.deadline_ms;
    as_row row = r->row;
    pthread_mutex_unlock(&r->lock);
    /* a charged round counts against max_rounds_per_client: CSP may have revealed it, and the
     * ledger counts it as a release of its clients */
    SEFL_PASS(account_has(r->c.account, o->round, &row.charged));
    row.skipped = true;
    row.state = AGG_SKIPPING;
    SEFL_PASS(r->store->row_put(r->store->ctx, &row));
    if (!p.early && m.clients < r->t->threshold) /* other reasons are logged already */
        log_warn(r->c.log, "round skipped: too few updates came by its deadline",
                 lf_u64("round", o->round), lf_u64("needed", r->t->threshold),
                 lf_if(r->t->publish_count, lf_u64("arrived", m.clients)));
    SEFL_PASS(forget_history(r, o->round, false));
    pthread_mutex_lock(&r->lock);
    r->row = row; /* the task may end with this round: its row is written once more */
    pthread_mutex_unlock(&r->lock);
    report(r, &p);
    SEFL_PASS(as_rounds_say(r, AGG_SKIPPED, o->round));
    return forget_round(r, o->round);
}

static sefl_status order_finish(as_rounds *r, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    log_info(r->c.log, "task over", lf_str("why", agg_why_text(o->why)));
    as_rounds_changed(r);
    history_drop(&r->fresh);
    if (r->t->filter.b > 0)
        SEFL_TRY(r->store->history_keep(r->store->ctx, 1, 0));
    bool known = r->c.clear || r->store->get(r->store->ctx, AS_BYE, 0, &b) == SEFL_OK;
    for (int i = 0; i < BYE_TRIES && !known && !as_rounds_stopping(r); i++) {
        if (!r->link && open_link(r) != SEFL_OK) {
            log_warn(r->c.log, "no link to CSP", lf_str("at", "end"),
                     lf_str("why", sefl_last_error()));
            as_rounds_hang_up(r);
            as_rounds_pause(r, BYE_PAUSE_MS);
            continue;
        }
        known = as_link_bye(r->link, true) == SEFL_OK;
        if (known)
            SEFL_TRY(r->store->put(r->store->ctx, AS_BYE, 0, 0, span_of("1", 1)));
        else
            as_rounds_hang_up(r);
    }
done:
    buf_clear(&b);
    return st;
}

static sefl_status order_wait(as_rounds *r, const agg_order *o)
{
    SEFL_PASS(as_rounds_keep_history(r));
    pthread_mutex_lock(&r->lock);
    agg_memory m = agg_remember(r->a);
    pthread_mutex_unlock(&r->lock);
    if (m.phase == AGG_COLLECTING)
        SEFL_PASS(draw_ahead(r, m.round));
    return as_rounds_idle(r, o->until_ms);
}

sefl_status as_rounds_execute(as_rounds *r, const agg_order *o)
{
    static sefl_status (*const orders[])(as_rounds *, const agg_order *) = {
        [AGG_WAIT] = order_wait,     [AGG_DIAL] = order_dial,     [AGG_SIGN] = order_sign,
        [AGG_FREEZE] = order_freeze, [AGG_REVEAL] = order_reveal, [AGG_RELEASE] = order_release,
        [AGG_SKIP] = order_skip,     [AGG_FINISH] = order_finish,
    };
    return orders[o->kind](r, o);
}
