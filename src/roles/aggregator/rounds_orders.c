/* What each order of sum/agg.h does. Every one may be carried out twice: what it makes is the
 * same again, or is replaced whole, and the machine moves on only after it is durable. */
#include "roles/aggregator/rounds_inside.h"

#include "base/alloc.h"
#include "base/ct.h"

#include <inttypes.h>
#include <string.h>

enum { REFUSALS_MAX = 5, BYE_TRIES = 3, BYE_PAUSE_MS = 1000, SUSPECTS_MAX = 1000 };

static agg_event event_of(agg_event_kind kind, uint64_t round)
{
    return (agg_event){ .kind = kind, .round = round };
}

static sefl_status tell(rounds *r, agg_event_kind kind, uint64_t round)
{
    agg_event e = event_of(kind, round);
    return rounds_tell(r, &e);
}

/* ---- the link -------------------------------------------------------------------------------- */

sefl_status rounds_link_down(rounds *r, const char *what)
{
    if (!rounds_stopping(r))
        log_warn(r->c.log, "no link to CSP", lf_str("at", what), lf_str("why", sefl_last_error()));
    as_link_free(r->link);
    r->link = NULL;
    r->c.dial.hang_up(r->c.dial.ctx);
    if (r->c.lanes)
        lanes_unbind(r->c.lanes);
    return tell(r, AGG_LINK_DOWN, 0);
}

static sefl_status wait_for_shares(void *ctx, uint64_t round, uint64_t attempt, uint64_t count)
{
    (void)round, (void)attempt;
    return lanes_wait(ctx, count);
}

/* CSP has ended the task, or an audit has: whatever we do, nothing more is signed or opened. */
static bool is_spoiled(rounds *r)
{
    return as_link_ended(r->link) || (r->c.lanes && lanes_ended(r->c.lanes));
}

static sefl_status open_link(rounds *r)
{
    sefl_status st = SEFL_OK;
    channel *ch;
    const rounds_config *c = &r->c;
    SEFL_TRY(c->dial.dial(c->dial.ctx, &ch));
    SEFL_TRY(as_link_new(&r->link, ch,
                         &(as_link_config){ .task = c->task,
                                            .envelope = c->envelope,
                                            .key = c->key,
                                            .coins = c->coins,
                                            .ledger = account_port(c->account),
                                            .pool = c->pool,
                                            .log = c->log,
                                            .clock = c->mono,
                                            .shares = c->shares,
                                            .shares_wait = c->lanes ? wait_for_shares : NULL,
                                            .shares_ctx = c->lanes }));
    r->ping_at_ms = clock_ms(c->mono) + c->ping_ms;
    r->early_round = 0; /* CSP has forgotten what came early over another link */
done:
    return st;
}

/* What waiting does not change: the servers' states or ledgers do not belong together. */
static sefl_status cannot_go_on(void)
{
    return sefl_fail(SEFL_ESTATE, "%s; " ACCOUNT_REMEDY, sefl_last_error());
}

/* CSP's WELCOME beside our journal: has one of us less than the other has told it? expired: CSP has
 * given up the present round, because nothing came for so long that its key had to go. */
static sefl_status compare_states(rounds *r, bool *expired)
{
    sefl_status st = SEFL_OK;
    const as_peer *p = as_link_peer(r->link);
    const as_store *j = r->c.as_store;
    uint64_t ended = p->opened > p->skipped ? p->opened : p->skipped;
    as_mask mask = { 0 };
    pthread_mutex_lock(&r->lock);
    agg_memory m = agg_remember(r->a);
    pthread_mutex_unlock(&r->lock);
    *expired = task_is_sealed(r->c.task) && p->signed_ == m.round && p->skipped == m.round &&
               p->opened < m.round && m.phase < AGG_REVEALING;
    if (*expired)
        return SEFL_OK;
    SEFL_CHECK(p->signed_ <= m.round && (ended < m.round || m.phase >= AGG_REVEALING), SEFL_ESTATE,
               "an old copy of this server's state was put back: it stands at round %" PRIu64
               ", %s, but CSP has signed round %" PRIu64 " for it and ended round %" PRIu64,
               m.round, agg_phase_name(m.phase), p->signed_, ended);
    SEFL_CHECK(ended + 1 >= m.round && (p->signed_ >= m.round || m.phase < AGG_COLLECTING),
               SEFL_ESTATE,
               "an old copy of CSP's state was put back: it has signed round %" PRIu64
               " and ended round %" PRIu64 ", but we stand at round %" PRIu64 ", %s",
               p->signed_, ended, m.round, agg_phase_name(m.phase));
    /* a mask is drawn after CSP's charge, and before CSP can open */
    st = j->masked(j->ctx, m.round, &mask);
    as_mask_clear(&mask);
    SEFL_CHECK(st != SEFL_OK || !p->behind, SEFL_ESTATE,
               "an old copy of CSP's state and ledger was put back: CSP had charged round %" PRIu64
               " before it took our masked sum, and its ledger does not have that charge",
               m.round);
    SEFL_CHECK(st != SEFL_ENOTFOUND || m.phase != AGG_REVEALING || p->opened < m.round, SEFL_ESTATE,
               "an old copy of this server's state was put back: CSP has opened round %" PRIu64
               ", and the mask of its sum is not here",
               m.round);
    if (st == SEFL_ENOTFOUND)
        st = SEFL_OK;
    SEFL_TRY(st);
    if (m.phase < AGG_COLLECTING && p->signed_ == m.round)
        log_warn(r->c.log,
                 "CSP signed this round before: the link broke then, or this server's state is an "
                 "old copy and updates acknowledged since are lost",
                 lf_u64("round", m.round));
done:
    return st == SEFL_ESTATE ? cannot_go_on() : st;
}

sefl_status order_dial(rounds *r)
{
    bool expired;
    uint64_t round;
    sefl_status st = open_link(r);
    if (st == SEFL_ESTATE) {
        st = cannot_go_on();
        r->c.dial.hang_up(r->c.dial.ctx);
        goto done;
    }
    if (st != SEFL_OK)
        return rounds_link_down(r, "dial");
    SEFL_TRY(compare_states(r, &expired));
    log_info(r->c.log, "link to CSP is up");
    if (r->c.lanes)
        lanes_bind(r->c.lanes, as_link_peer(r->link)->pair);
    SEFL_TRY(tell(r, AGG_LINK_UP, 0));
    if (expired) {
        rounds_phase(r, &round, NULL);
        log_error(r->c.log,
                  "CSP has skipped this round by itself: its key expired, too few of its heads "
                  "were good, or "
                  "CSP's state is an old copy",
                  lf_u64("round", round));
        SEFL_TRY(tell(r, AGG_LOST, round));
    }
done:
    return st;
}

/* ---- a round begins -------------------------------------------------------------------------- */

sefl_status order_sign(rounds *r, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    sefl_buf both = { 0 };
    round_header h = { .round = o->round, .step_nano = r->c.task->step_nano };
    bool changed = false;
    memcpy(h.task, r->c.task->id, sizeof h.task);
    memcpy(h.model, r->model.hash, sizeof h.model);
    if (task_is_sealed(r->c.task))
        st = as_link_key(r->link, &h);
    if (st == SEFL_OK)
        st = as_link_header(r->link, &both, &h);
    if (st == SEFL_ECRYPTO) {
        log_error(r->c.log, "round lost before it began", lf_u64("round", o->round),
                  lf_str("why", sefl_last_error()));
        st = tell(r, AGG_LOST, o->round);
        goto done;
    }
    if (st == SEFL_EBUDGET) {
        log_info(r->c.log, "budget", lf_u64("round", o->round), lf_str("why", sefl_last_error()));
        st = tell(r, AGG_BUDGET, o->round);
        goto done;
    }
    if (st != SEFL_OK && is_spoiled(r))
        goto done;
    if (st == SEFL_ESTATE) { /* another header was signed, or the ledgers differ */
        st = cannot_go_on();
        goto done;
    }
    if (st != SEFL_OK) { /* also a refusal: dialling anew compares task and ledgers again */
        st = rounds_link_down(r, "header");
        goto done;
    }
    SEFL_TRY(journal_fact_put(r->c.journal, o->round, "header", buf_span(&both)));
    r->ping_at_ms = clock_ms(r->c.mono) + r->c.ping_ms;
    r->refused = 0;

    pthread_mutex_lock(&r->lock);
    buf_clear(&r->header);
    r->header = both, both = (sefl_buf){ 0 };
    agg_event e = event_of(AGG_SIGNED, o->round);
    st = agg_on(r->a, &e, rounds_wall_ms(r));
    if (st == SEFL_OK) {
        r->row =
            (journal_round){ .round = o->round, .opened_ms = rounds_wall_ms(r), .has_model = true };
        memcpy(r->row.model, r->model.hash, sizeof r->row.model);
        rounds_accept_uploads(r, o->round);
        st = rounds_remember(r);
        changed = true;
    }
    pthread_mutex_unlock(&r->lock);
    SEFL_TRY(st);
    log_info(r->c.log, "round open", lf_u64("round", o->round),
             lf_u64("deadline_s", r->c.task->deadline_ms / 1000));
done:
    if (changed && r->c.changed)
        r->c.changed(r->c.ctx);
    buf_clear(&both);
    return st;
}

/* ---- a round closes -------------------------------------------------------------------------- */

/* The journal is what was acknowledged; the running sum must hold exactly that. */
static sefl_status settle_sum(rounds *r, uint64_t round)
{
    sefl_status st = SEFL_OK;
    uint32_t rows, given, summed;
    as_verdict v;
    SEFL_TRY(journal_update_count(r->c.journal, round, &rows));
    collect_counts(r->collect, &given, &summed);
    if (rounds_verdict(r, round, &v) == SEFL_OK) {
        rows -= v.refused_n;
        as_verdict_clear(&v);
    }
    if (rows != given)
        SEFL_TRY(rounds_refill(r, round));
done:
    return st;
}

sefl_status order_freeze(rounds *r, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    round_entry *set = NULL;
    sefl_buf b = { 0 };
    uint8_t hash[SHA256_BYTES], seed[COUNTED_SEED];
    uint32_t n;
    rounds_close_uploads(r); /* the machine admits nobody any more */
    SEFL_TRY(settle_sum(r, o->round));
    SEFL_TRY(collect_set(r->collect, o->round, &set, &n));
    SEFL_CHECK(n > 0, SEFL_ESTATE, "round %" PRIu64 " froze without updates", o->round);
    SEFL_TRY(round_set_hash(hash, r->c.task->id, o->round, set, n));
    for (uint32_t i = 0; i < n; i++) {
        SEFL_TRY(wr_raw(&b, set[i].client, sizeof set[i].client));
        SEFL_TRY(wr_raw(&b, set[i].body, sizeof set[i].body));
    }
    SEFL_TRY(journal_file_put(r->c.journal, o->round, "set", buf_span(&b)));
    if (task_is_sealed(r->c.task))
        SEFL_TRY(rounds_tree_seed(r, o->round, seed));
    pthread_mutex_lock(&r->lock);
    r->row.has_set = true;
    memcpy(r->row.set, hash, sizeof hash);
    pthread_mutex_unlock(&r->lock);
    agg_event e = event_of(AGG_FROZEN, o->round);
    e.clients = n;
    SEFL_TRY(rounds_tell(r, &e));
    log_info(r->c.log, "round closed", lf_u64("round", o->round), lf_hash("set", hash));
done:
    sefl_free(set);
    buf_clear(&b);
    return st;
}

static bool keep_waiting(void *self, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    return !rounds_stopping(self);
}

static sefl_status keep_release(rounds *r, const agg_order *o, const int64_t *w)
{
    sefl_status st = SEFL_OK;
    sefl_rng rng;
    uint8_t *bytes = NULL;
    size_t n = r->c.task->values;
    SEFL_TRY(coins_for(r->c.coins, &rng, "journal release", o->round, o->attempt));
    SEFL_TRY(sefl_new(&bytes, n, 8));
    for (size_t i = 0; i < n; i++)
        store_u64(bytes + 8 * i, (uint64_t)w[i]);
    SEFL_TRY(journal_secret_put(r->c.journal, o->round, "release", span_of(bytes, 8 * n), &rng));
done:
    sefl_free_secret(bytes, 8 * n);
    return st;
}

/* The sum of the frozen set, or NULL where CSP has opened this round already. */
static sefl_status sum_for(rounds *r, uint64_t round, ahe_sum **sum)
{
    sefl_status st = SEFL_OK;
    *sum = NULL;
    if (as_link_peer(r->link)->opened >= round)
        return SEFL_OK;
    SEFL_TRY(settle_sum(r, round));
    SEFL_TRY(collect_close(r->collect, round, sum,
                           &(sefl_progress){ .report = keep_waiting, .self = r }));
done:
    return st;
}

/* The opening went wrong: what now? */
static sefl_status not_opened(rounds *r, const agg_order *o, sefl_status why)
{
    if (why == SEFL_ECANCELLED || is_spoiled(r))
        return why;
    log_warn(r->c.log, "round not opened", lf_u64("round", o->round), lf_u64("attempt", o->attempt),
             lf_str("why", sefl_last_error()));
    if (why == SEFL_EBUDGET)
        return tell(r, AGG_BUDGET, o->round);
    if (why == SEFL_ECRYPTO)
        return tell(r, AGG_LOST, o->round);
    /* the last two: lanes do not get anywhere, so the link itself is dialled anew */
    if (as_link_dead(r->link) || why == SEFL_ECLOSED || why == SEFL_ETIMEOUT)
        return rounds_link_down(r, "open");
    if (++r->refused >= REFUSALS_MAX) /* CSP will not, whatever we do */
        return tell(r, AGG_LOST, o->round);
    return tell(r, AGG_REVEAL_FAILED, o->round);
}

/* SET got no verdict that the round can go on with. Nothing is charged yet. */
static sefl_status no_verdict(rounds *r, const agg_order *o, sefl_status why, bool few, bool lost)
{
    sefl_status st = SEFL_OK;
    if (why != SEFL_ECANCELLED && (few || lost)) {
        log_error(r->c.log, few ? "too few clients are left" : "heads lost",
                  lf_u64("round", o->round), lf_str("why", sefl_last_error()));
        if (as_link_dead(r->link))
            SEFL_TRY(rounds_link_down(r, "set"));
        return tell(r, AGG_LOST, o->round);
    }
    if (why == SEFL_EIO || why == SEFL_EPROTO) { /* our journal or spool, or CSP's words */
        if (as_link_dead(r->link))
            return rounds_link_down(r, "set");
        return tell(r, AGG_LOST, o->round);
    }
    return not_opened(r, o, why);
done:
    return st;
}

/* Died between the integers and the machine's step? They are the release: in mode own another opening
 * would draw our noise a second time. */
static bool has_release(rounds *r, uint64_t round)
{
    sefl_buf b = { 0 };
    bool has = journal_secret_get(r->c.journal, round, "release", &b) == SEFL_OK &&
               b.n == 8 * r->c.task->values;
    buf_clear(&b);
    return has;
}

sefl_status order_reveal(rounds *r, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    const task *t = r->c.task;
    int64_t *w = NULL;
    sefl_buf counted = { 0 };
    bool kept;
    uint64_t began = clock_ns(r->c.mono);
    as_reveal open = { .round = o->round, .attempt = o->attempt, .journal = r->c.as_store };
    pthread_mutex_lock(&r->lock);
    open.clients = agg_remember(r->a).clients;
    memcpy(open.set, r->row.set, sizeof open.set);
    bool has_set = r->row.has_set;
    pthread_mutex_unlock(&r->lock);
    SEFL_CHECK(has_set, SEFL_ESTATE, "round %" PRIu64 " is to be opened without a set", o->round);
    if (has_release(r, o->round))
        return tell(r, AGG_REVEALED, o->round);
    SEFL_TRY(sefl_new(&w, t->values, sizeof *w));

    if (task_is_sealed(t)) {
        bool few, lost;
        open.counted = &counted;
        st = rounds_set(r, o->round, &open, &few, &lost);
        if (st != SEFL_OK) {
            st = no_verdict(r, o, st, few, lost);
            goto done;
        }
    }
    st = sum_for(r, o->round, &open.sum);
    if (st == SEFL_EIO || st == SEFL_ECRYPTO || st == SEFL_EPROTO || st == SEFL_ERANGE) {
        log_error(r->c.log, "sum lost", lf_u64("round", o->round),
                  lf_str("why", sefl_last_error()));
        st = tell(r, AGG_LOST, o->round);
        goto done;
    }
    SEFL_TRY(st);
    st = account_charge(r->c.account, o->round); /* durable before the masked sum leaves */
    if (st == SEFL_EBUDGET) {
        st = not_opened(r, o, st);
        goto done;
    }
    SEFL_TRY(st);
    if (r->c.lanes)
        lanes_hold(r->c.lanes, true);
    st = as_link_reveal(r->link, &open, &kept, w);
    if (r->c.lanes)
        lanes_hold(r->c.lanes, false);
    if (st != SEFL_OK) {
        st = not_opened(r, o, st);
        goto done;
    }
    if (open.counted)
        SEFL_TRY(journal_fact_put(r->c.journal, o->round, "counted", buf_span(&counted)));
    SEFL_TRY(keep_release(r, o, w));
    r->ping_at_ms = clock_ms(r->c.mono) + r->c.ping_ms;
    r->open_ns = clock_ns(r->c.mono) - began;
    r->times = *as_link_times(r->link);
    SEFL_TRY(tell(r, AGG_REVEALED, o->round));
done:
    buf_clear(&counted);
    sefl_free_secret(w, t->values * sizeof *w);
    return st;
}

/* ---- a round ends ---------------------------------------------------------------------------- */

static void report(rounds *r, rounds_report *p)
{
    ledger_total total;
    if (r->row.opened_ms > 0 && rounds_wall_ms(r) > r->row.opened_ms)
        p->seconds = 1e-3 * (double)(rounds_wall_ms(r) - r->row.opened_ms);
    p->has_clients = r->c.task->publish_count;
    if (p->has_clients)
        p->up_bytes = (p->clients + p->refused) * (uint64_t)task_body_bytes(r->c.task);
    else
        p->clients = p->refused = 0;
    if (r->c.task->claim && account_spent(r->c.account, r->c.task->delta, &total) == SEFL_OK &&
        total.server.claimed && total.others.claimed) {
        p->has_epsilon = true;
        p->epsilon_server = total.server.epsilon;
        p->epsilon_others = total.others.epsilon;
        p->epsilon_target = r->c.task->epsilon;
    }
    if (r->c.report)
        r->c.report(r->c.ctx, p);
}

/* Nothing of this round is needed any more. */
static sefl_status forget_round(rounds *r, uint64_t round)
{
    collect_begin(r->collect, 0);
    return journal_round_wipe(r->c.journal, round);
}

/* The signal of a released round, durable, and a warning if it stands out. */
static sefl_status keep_signal(rounds *r, uint64_t round, double signal)
{
    uint8_t bytes[16 * RELEASE_SIGNALS];
    release_signals *s = &r->signals;
    double median;
    if (release_signals_add(s, r->c.task, round, signal, &median))
        log_warn(r->c.log, "the sum is much larger than those of the rounds before",
                 lf_u64("round", round), lf_real("signal", signal), lf_real("median", median));
    for (uint32_t i = 0; i < s->n; i++) {
        uint64_t bits;
        memcpy(&bits, &s->signal[i], 8);
        store_u64(bytes + 16 * i, s->round[i]);
        store_u64(bytes + 16 * i + 8, bits);
    }
    return journal_fact_put(r->c.journal, 0, "signals", span_of(bytes, (size_t)16 * s->n));
}

typedef struct suspect {
    uint8_t key[32];
    char name[65];
} suspect;

/* The clients that all rounds read so far share, by rising key. */
typedef struct suspects {
    suspect *at;
    size_t n;
    bool first; /* the round that is being read is the first one */
    size_t next,
        kept; /* otherwise: the next to compare, and how many of it are in this round too */
} suspects;

static sefl_status take_suspect(void *ctx, const journal_update *u)
{
    suspects *s = ctx;
    sefl_status st = SEFL_OK;
    if (s->first) {
        if ((s->n & (s->n - 1)) == 0) /* full at 0, 1, 2, 4, ... */
            SEFL_TRY(
                sefl_grow(&s->at, s->n * sizeof *s->at, (s->n ? 2 * s->n : 1) * sizeof *s->at));
        suspect *one = &s->at[s->n++];
        memcpy(one->key, u->client, sizeof one->key);
        memcpy(one->name, u->name, sizeof one->name);
        goto done;
    }
    while (s->next < s->n && memcmp(s->at[s->next].key, u->client, 32) < 0)
        s->next++;
    if (s->next < s->n && memcmp(s->at[s->next].key, u->client, 32) == 0)
        s->at[s->kept++] = s->at[s->next++];
done:
    return st;
}

/* A client that spoiled the latest three blocked rounds, in a row or not, is in the set of each: names
 * those that are. All may be honest: settings can make the validation loss explode, and hostile clients
 * can take turns. */
static sefl_status name_suspects(rounds *r, uint64_t latest)
{
    sefl_status st = SEFL_OK;
    suspects s = { .first = true };
    sefl_buf why = { 0 };
    unsigned found = 0;
    for (uint64_t n = latest; n >= 1 && found < AGG_BLOCKED_IN_ROW_MAX; n--) {
        buf_reset(&why);
        st = journal_fact_get(r->c.journal, n, "blocked", &why);
        if (st == SEFL_ENOTFOUND) {
            st = SEFL_OK;
            continue;
        }
        SEFL_TRY(st);
        s.next = s.kept = 0;
        SEFL_TRY(journal_updates(r->c.journal, n, take_suspect, &s));
        s.n = s.first ? s.n : s.kept;
        s.first = false;
        found++;
    }
    if (found < AGG_BLOCKED_IN_ROW_MAX)
        goto done;
    log_error(r->c.log,
              "clients that took part in the latest three blocked rounds: read why each was "
              "blocked before you revoke any (docs/OPERATING.md, incidents)",
              lf_u64("clients", s.n));
    for (size_t i = 0; i < s.n && i < SUSPECTS_MAX; i++)
        log_error(r->c.log, "client in all blocked rounds", lf_key("key", s.at[i].key),
                  lf_str("name", s.at[i].name));
    if (s.n > SUSPECTS_MAX)
        log_error(r->c.log, "more clients in all blocked rounds",
                  lf_u64("not_listed", s.n - SUSPECTS_MAX));
done:
    sefl_free(s.at);
    buf_clear(&why);
    return st;
}

/* What the release check saw: into the log, and into the journal what it must remember. */
static sefl_status keep_check(rounds *r, uint64_t round, const release_made *made)
{
    const release_numbers *n = &made->numbers;
    if (made->blocked) {
        log_error(r->c.log, "release blocked, the model stays as it was", lf_u64("round", round),
                  lf_real("norm", n->norm), lf_real("bound", n->bound), lf_str("why", made->why));
        sefl_status st = journal_fact_put(r->c.journal, round, "blocked", span_of_str(made->why));
        return st == SEFL_OK ? name_suspects(r, round) : st;
    }
    log_info(r->c.log, "release checked", lf_u64("round", round), lf_real("norm", n->norm),
             lf_real("bound", n->bound), lf_real("largest", n->largest),
             lf_real("signal", n->signal));
    return keep_signal(r, round, n->signal);
}

sefl_status order_release(rounds *r, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    const task *t = r->c.task;
    sefl_buf b = { 0 };
    int64_t *w = NULL;
    release_made made;
    uint64_t began = clock_ns(r->c.mono);
    rounds_report p = { .round = o->round,
                        .open_seconds = 1e-9 * (double)r->open_ns,
                        .open_bytes = r->times.sent + r->times.received };
    if (r->c.lanes) {
        lanes_work ahead = lanes_done(r->c.lanes);
        p.ahead_seconds = ahead.seconds, p.ahead_bytes = ahead.bytes;
    }
    SEFL_TRY(journal_secret_get(r->c.journal, o->round, "release", &b));
    SEFL_CHECK(b.n == 8 * t->values, SEFL_EPROTO, "journal: release of round %" PRIu64, o->round);
    SEFL_TRY(sefl_new(&w, t->values, sizeof *w));
    for (size_t i = 0; i < t->values; i++)
        w[i] = (int64_t)load_u64(b.p + 8 * i);
    p.clients = rounds_kept(r, o->round, &p.refused);
    pthread_mutex_lock(&r->lock);
    release_from from = r->model;
    pthread_mutex_unlock(&r->lock);
    SEFL_TRY(release_make(r->c.releases, &from, o->round, w, p.clients, &made));
    SEFL_TRY(keep_check(r, o->round, &made));
    p.blocked = made.blocked;
    p.has_perplexity = made.has_perplexity;
    p.perplexity = made.perplexity;
    p.release_seconds = 1e-9 * (double)(clock_ns(r->c.mono) - began);
    report(r, &p);

    pthread_mutex_lock(&r->lock);
    agg_event e = { .kind = made.blocked ? AGG_BLOCKED : AGG_RELEASED,
                    .round = o->round,
                    .has_perplexity = made.has_perplexity,
                    .perplexity = made.perplexity };
    if (!made.blocked) { /* with the machine's step, in one transaction */
        r->model.round = o->round;
        memcpy(r->model.hash, made.hash, sizeof made.hash);
    }
    st = agg_on(r->a, &e, rounds_wall_ms(r));
    if (st == SEFL_OK)
        st = rounds_remember(r);
    pthread_mutex_unlock(&r->lock);
    SEFL_TRY(st);
    if (r->c.changed)
        r->c.changed(r->c.ctx);
    SEFL_TRY(forget_round(r, o->round));
    release_settle(r->c.releases, r->model.round);
    r->open_ns = 0;
    r->times = (as_times){ 0 };
done:
    sefl_free_secret(w, t->values * sizeof *w);
    buf_clear(&b);
    return st;
}

sefl_status order_skip(rounds *r, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    rounds_report p = { .round = o->round, .skipped = true };
    rounds_close_uploads(r);
    st = as_link_skip(r->link, o->round, (unsigned)(o->why & 0xff));
    if (st != SEFL_OK) {
        st = rounds_link_down(r, "skip");
        goto done;
    }
    pthread_mutex_lock(&r->lock);
    p.clients = agg_remember(r->a).clients;
    journal_round row = r->row;
    pthread_mutex_unlock(&r->lock);
    /* a charged round counts against max_rounds_per_client: CSP may have opened it, and the ledger has
     * it among the releases that a client is in */
    SEFL_TRY(account_has(r->c.account, o->round, &row.charged));
    row.skipped = true;
    row.state = AGG_SKIPPING;
    SEFL_TRY(journal_round_put(r->c.journal, &row));
    pthread_mutex_lock(&r->lock);
    r->row = row; /* the task may end with this round: its row is written once more */
    pthread_mutex_unlock(&r->lock);
    report(r, &p);
    SEFL_TRY(tell(r, AGG_SKIPPED, o->round));
    SEFL_TRY(forget_round(r, o->round));
done:
    return st;
}

sefl_status order_finish(rounds *r, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    log_info(r->c.log, "task over", lf_str("why", agg_why_text(o->why)));
    if (r->c.changed)
        r->c.changed(r->c.ctx);
    if (journal_fact_get(r->c.journal, 0, "bye", &b) == SEFL_OK)
        goto done; /* CSP knows */
    for (int i = 0; i < BYE_TRIES && !rounds_stopping(r); i++) {
        if (!r->link && open_link(r) != SEFL_OK) {
            log_warn(r->c.log, "no link to CSP", lf_str("at", "end"),
                     lf_str("why", sefl_last_error()));
            as_link_free(r->link);
            r->link = NULL;
            r->c.dial.hang_up(r->c.dial.ctx);
            rounds_pause(r, BYE_PAUSE_MS);
            continue;
        }
        if (as_link_bye(r->link, true) == SEFL_OK) {
            SEFL_TRY(journal_fact_put(r->c.journal, 0, "bye", span_of("1", 1)));
            break;
        }
        as_link_free(r->link);
        r->link = NULL;
        r->c.dial.hang_up(r->c.dial.ctx);
    }
done:
    buf_clear(&b);
    return st;
}
