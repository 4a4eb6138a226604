/* Design.
 *  1. The driver uses the machine only under `lock`, and does long work (link, sum, release)
 *     without it.
 *  2. agg_next may change the machine (time passes): its memory is durable before the driver
 *     executes the order.
 *  3. Order of locks: this one, then those of the ports. */
#include "sum/as_rounds_internal.h"

#include "base/alloc.h"
#include "base/cond.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PING_MS = 10000 };

uint64_t as_rounds_wall_ms(const as_rounds *r)
{
    return clock_ms(r->c.wall);
}

void as_rounds_linked_now(as_rounds *r)
{
    r->ping_at_ms = clock_ms(r->c.mono) + r->c.ping_ms;
}

void as_rounds_changed(as_rounds *r)
{
    if (r->c.changed)
        r->c.changed(r->c.ctx);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Only grows while the task goes on. */
static uint64_t step_of(const agg_memory *m)
{
    return m->round * 16 + m->phase;
}

static sefl_status note_step(as_rounds *r, const agg_memory *m)
{
    if (step_of(m) == r->noted)
        return SEFL_OK;
    SEFL_PASS(account_note(r->c.account, step_of(m), NULL));
    r->noted = step_of(m);
    return SEFL_OK;
}

sefl_status as_rounds_remember(as_rounds *r)
{
    agg_memory m = agg_remember(r->a);
    if (r->row.round != m.round)
        r->row = (as_row){ .round = m.round };
    if (r->stored.phase == AGG_COLLECTING && m.phase != AGG_COLLECTING) {
        r->row.closed_ms = as_rounds_wall_ms(r);
        r->c.uploads->close(r->c.ctx);
    }
    r->row.state = m.phase;
    r->row.attempt = m.attempt;
    r->row.deadline_ms = m.deadline_ms;
    r->row.clients = m.clients;
    r->row.extensions = m.extensions;
    SEFL_PASS(as_store_step(r->store, &r->row, &m, &r->model));
    r->stored = m;
    return note_step(r, &m);
}

/* Refuses an old copy of the store: the ledger, or the note beside it, is further ahead. A note
 * that a crash left behind the store catches up, so that it also notices a copy put back later. */
static sefl_status check_age(as_rounds *r, const agg_memory *m)
{
    uint8_t hash[SHA256_BYTES];
    bool charged;
    SEFL_PASS(account_knows(r->c.account, m->round));
    SEFL_PASS(account_has(r->c.account, m->round, &charged));
    SEFL_NEED(!charged || m->phase >= AGG_REVEALING, SEFL_ESTATE,
              "an old copy of %s was put back: round %" PRIu64
              " is charged, but this server's store still has it as %s; " ACCOUNT_REMEDY,
              r->store->place, m->round, agg_phase_name(m->phase));
    SEFL_PASS(account_noted(r->c.account, &r->noted, hash));
    SEFL_NEED(r->noted <= step_of(m), SEFL_ESTATE,
              "an old copy of %s was put back: it stands at round %" PRIu64
              ", %s, but this server got to round %" PRIu64 ", %s; " ACCOUNT_REMEDY,
              r->store->place, m->round, agg_phase_name(m->phase), r->noted / 16,
              agg_phase_name((agg_phase)(r->noted % 16)));
    return note_step(r, m);
}

/* True if the memory must be written. The number of clients is not compared: uploads have it. */
static bool memory_differs(const agg_memory *a, const agg_memory *b)
{
    return a->phase != b->phase || a->round != b->round || a->attempt != b->attempt ||
           a->deadline_ms != b->deadline_ms || a->extensions != b->extensions || a->why != b->why ||
           a->skipped_in_row != b->skipped_in_row || a->blocked_in_row != b->blocked_in_row ||
           a->rounds_without_gain != b->rounds_without_gain || a->paused != b->paused ||
           a->drop != b->drop;
}

sefl_status as_rounds_tell(as_rounds *r, const agg_event *e)
{
    sefl_status st = SEFL_OK;
    pthread_mutex_lock(&r->lock);
    agg_phase before = agg_get_phase(r->a);
    SEFL_TRY(agg_on(r->a, e, as_rounds_wall_ms(r)));
    agg_memory m = agg_remember(r->a);
    if (memory_differs(&m, &r->stored))
        SEFL_TRY(as_rounds_remember(r));
done:;
    bool changed = before != agg_get_phase(r->a);
    pthread_mutex_unlock(&r->lock);
    if (changed)
        as_rounds_changed(r);
    return st;
}

sefl_status as_rounds_say(as_rounds *r, agg_event_kind kind, uint64_t round)
{
    return as_rounds_tell(r, &(agg_event){ .kind = kind, .round = round });
}

/* ---- start and end --------------------------------------------------------------------------- */

static sefl_status or_none(sefl_status st)
{
    return st == SEFL_ENOTFOUND ? SEFL_OK : st;
}

/* Loads the row and the header of the current round. */
static sefl_status load_round(as_rounds *r, const agg_memory *m)
{
    const as_store *s = r->store;
    r->row = (as_row){ 0 };
    SEFL_PASS(or_none(s->row_get(s->ctx, m->round, &r->row)));
    r->row.round = m->round;
    buf_reset(&r->header);
    SEFL_PASS(or_none(s->get(s->ctx, AS_HEADER, m->round, &r->header)));
    SEFL_NEED(m->phase != AGG_COLLECTING || r->header.n > 0, SEFL_EPROTO,
              "store: round %" PRIu64 " collects without a header", m->round);
    return SEFL_OK;
}

/* Restores the machine and the current round from the store. */
static sefl_status restore_round(as_rounds *r, agg_memory *m)
{
    const as_store *s = r->store;
    uint32_t clients;
    SEFL_PASS(load_round(r, m));
    if (m->phase >= AGG_COLLECTING && m->phase <= AGG_REVEALING) {
        SEFL_PASS(r->c.uploads->restore(r->c.ctx, m->round, &clients));
        m->clients = m->phase == AGG_REVEALING ? m->clients : clients;
    }
    SEFL_PASS(agg_restore(r->a, m, as_rounds_wall_ms(r)));
    r->stored = *m;
    if (m->round > 1) /* died between its release and the wipe? */
        SEFL_PASS(s->wipe(s->ctx, m->round - 1));
    if (m->phase == AGG_DONE)
        SEFL_PASS(s->wipe(s->ctx, m->round));
    log_info(r->c.log, "resuming", lf_u64("round", m->round),
             lf_str("phase", agg_phase_name(m->phase)));
    return SEFL_OK;
}

/* Correlated noise: destroys what is left of rounds that no later one takes back, and of other
 * tasks. */
static sefl_status sweep_history(const as_rounds *r, const agg_memory *m)
{
    const as_store *s = r->store;
    const uint64_t b = m->phase == AGG_DONE ? 0 : r->t->filter.b;
    if (b == 0)
        return s->history_keep(s->ctx, 1, 0);
    return s->history_keep(s->ctx, m->round > b ? m->round - b : 1, m->round);
}

static sefl_status restore(as_rounds *r)
{
    sefl_status st = SEFL_OK;
    agg_memory m = { 0 };
    SEFL_PASS(as_store_model(r->store, &r->model, r->t->init_hash));
    SEFL_PASS(as_store_signals(r->store, &r->signals));
    st = as_store_memory(r->store, &m);
    bool is_new = st == SEFL_ENOTFOUND;
    SEFL_PASS(or_none(st));
    SEFL_PASS(check_age(r, &m));
    SEFL_PASS(sweep_history(r, &m));
    if (!is_new)
        SEFL_PASS(restore_round(r, &m));
    if (r->c.model->settle) /* the settings may have changed */
        r->c.model->settle(r->c.ctx, r->model.round);
    return SEFL_OK;
}

/* With the lock. */
static sefl_status follow(as_rounds *r, uint32_t clients, bool *changed)
{
    const agg_memory before = r->stored; /* the machine itself goes on with the time */
    agg_memory m = { 0 };
    sefl_status st = as_store_memory(r->store, &m);
    if (st == SEFL_ENOTFOUND)
        return SEFL_OK; /* no process has led yet */
    SEFL_PASS(st);
    *changed = m.phase != before.phase || m.round != before.round;
    if (*changed || m.deadline_ms != before.deadline_ms) {
        SEFL_PASS(as_store_model(r->store, &r->model, r->t->init_hash));
        SEFL_PASS(load_round(r, &m));
    }
    m.clients = m.phase == AGG_COLLECTING ? clients : m.clients;
    SEFL_PASS(agg_restore(r->a, &m, as_rounds_wall_ms(r)));
    r->stored = m;
    return SEFL_OK;
}

sefl_status as_rounds_follow(as_rounds *r, uint32_t clients)
{
    bool changed = false;
    pthread_mutex_lock(&r->lock);
    sefl_status st = follow(r, clients, &changed);
    pthread_mutex_unlock(&r->lock);
    if (st == SEFL_OK && changed)
        as_rounds_changed(r);
    return st;
}

sefl_status as_rounds_new(as_rounds **out, const as_rounds_config *c)
{
    SEFL_MAKE(as_rounds, r, out);
    r->c = *c;
    r->t = c->task;
    r->store = c->store;
    if (r->c.ping_ms == 0)
        r->c.ping_ms = PING_MS;
    pthread_mutex_init(&r->lock, NULL);
    cond_init(&r->event);
    SEFL_TRY(agg_new(&r->a, c->task));
    if (!c->shared)
        SEFL_TRY(restore(r));
    SEFL_HAND_OVER(out, r, as_rounds_free);
}

void as_rounds_free(as_rounds *r)
{
    if (!r)
        return;
    as_rounds_drop_released(r);
    history_drop(&r->fresh);
    ahead_drop(&r->ahead, r->t);
    sefl_free(r->released);
    agg_free(r->a);
    buf_clear(&r->header);
    pthread_cond_destroy(&r->event);
    pthread_mutex_destroy(&r->lock);
    sefl_free(r);
}

void as_rounds_stop(as_rounds *r)
{
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->event);
    pthread_mutex_unlock(&r->lock);
}

/* Works without the lock: ports call it with their own lock held. */
bool as_rounds_stopping(const as_rounds *r)
{
    return atomic_load(&r->stop) || !progress_report(r->c.stop, 0, 0);
}

void as_rounds_wake(as_rounds *r)
{
    r->events++;
    pthread_cond_signal(&r->event);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* With the lock: waits for an event, at most this long. */
static void wait_ms(as_rounds *r, uint64_t ms)
{
    if (ms == 0 || r->stop)
        return;
    cond_wait_ms(&r->event, &r->lock, ms);
}

void as_rounds_pause(as_rounds *r, unsigned ms)
{
    uint64_t end = clock_ms(r->c.mono) + ms, now;
    pthread_mutex_lock(&r->lock);
    while (!r->stop && (now = clock_ms(r->c.mono)) < end)
        wait_ms(r, end - now);
    pthread_mutex_unlock(&r->lock);
}

sefl_status as_rounds_idle(as_rounds *r, uint64_t until_ms)
{
    uint64_t early_ms;
    if (r->c.wait)
        return r->c.wait(r->c.ctx, until_ms);
    sefl_status st = as_rounds_early(r, &early_ms);
    if (st != SEFL_OK || early_ms == 0) /* it took its time: look again */
        return st;
    uint64_t now = as_rounds_wall_ms(r), mono = clock_ms(r->c.mono);
    uint64_t ms = until_ms > now ? until_ms - now : 0;
    ms = early_ms < ms ? early_ms : ms;
    if (ms > r->c.ping_ms)
        ms = r->c.ping_ms;
    if (r->link && r->ping_at_ms <= mono) {
        r->ping_at_ms = mono + r->c.ping_ms;
        return as_link_ping(r->link) == SEFL_OK ? SEFL_OK : as_rounds_link_down(r, "ping");
    }
    if (r->link && r->ping_at_ms - mono < ms)
        ms = r->ping_at_ms - mono;
    pthread_mutex_lock(&r->lock);
    if (r->events == r->seen)
        wait_ms(r, ms);
    pthread_mutex_unlock(&r->lock);
    return SEFL_OK;
}

void as_rounds_command(as_rounds *r, const as_command *c)
{
    pthread_mutex_lock(&r->lock);
    if (r->command.id == 0 || r->command.event != AGG_STOP || c->event == AGG_STOP)
        r->command = *c;
    as_rounds_wake(r);
    pthread_mutex_unlock(&r->lock);
}

uint64_t as_rounds_commanded(as_rounds *r)
{
    pthread_mutex_lock(&r->lock);
    uint64_t id = r->commanded;
    pthread_mutex_unlock(&r->lock);
    return id;
}

void as_rounds_note(as_rounds *r, const char *why)
{
    pthread_mutex_lock(&r->lock);
    snprintf(r->trouble, sizeof r->trouble, "%s", why);
    pthread_mutex_unlock(&r->lock);
}

void as_rounds_trouble(as_rounds *r, char out[AS_TROUBLE])
{
    pthread_mutex_lock(&r->lock);
    memcpy(out, r->trouble, AS_TROUBLE);
    pthread_mutex_unlock(&r->lock);
}

/* Obeys the operator. The machine's memory is durable before `commanded` says so. */
static sefl_status obey(as_rounds *r, const as_command *c)
{
    const agg_event e = { .kind = c->event, .round = c->round, .now = c->now };
    pthread_mutex_lock(&r->lock);
    const agg_phase before = agg_get_phase(r->a);
    pthread_mutex_unlock(&r->lock);
    SEFL_PASS(as_rounds_tell(r, &e));
    pthread_mutex_lock(&r->lock);
    r->commanded = c->id;
    agg_memory m = agg_remember(r->a);
    pthread_mutex_unlock(&r->lock);
    if (c->event == AGG_CLOSE && m.phase == before)
        return SEFL_OK; /* that round is over, as after a restart, or has too few updates */
    log_info(r->c.log,
             c->event == AGG_STOP    ? "ended by the operator"
             : c->event == AGG_CLOSE ? "the operator closes the round with the updates it has"
             : m.why != AGG_WHY_NONE ? "the task ends: the operator's order changes nothing"
             : c->event == AGG_PAUSE ? "paused by the operator: no other round begins"
                                     : "resumed by the operator",
             lf_u64("round", m.round), lf_str("phase", agg_phase_name(m.phase)),
             lf_bool("drops_round", m.drop));
    return SEFL_OK;
}

/* Lets the operator decide, and the caller ask CSP other questions, which may lose the link. */
static sefl_status between(as_rounds *r)
{
    pthread_mutex_lock(&r->lock);
    r->seen = r->events;
    const as_command order = r->command;
    r->command = (as_command){ 0 };
    pthread_mutex_unlock(&r->lock);
    if (order.id != 0)
        SEFL_PASS(obey(r, &order));
    if (r->c.between)
        r->c.between(r->c.ctx, r->link);
    return r->link && as_link_dead(r->link) ? as_rounds_link_down(r, "request") : SEFL_OK;
}

/* With the lock. The machine's memory could not be stored, so the reveal does not begin: the
 * attempt has failed. */
static sefl_status put_off(as_rounds *r, agg_order *o)
{
    const uint64_t now = as_rounds_wall_ms(r);
    log_warn(r->c.log, "round not revealed", lf_u64("round", o->round),
             lf_u64("attempt", o->attempt), lf_str("why", sefl_last_error()));
    snprintf(r->trouble, sizeof r->trouble, "%s", sefl_last_error());
    SEFL_PASS(agg_on(
        r->a, &(agg_event){ .kind = AGG_REVEAL_FAILED, .round = o->round, .now = true }, now));
    *o = agg_next(r->a, now);
    return SEFL_OK;
}

/* Gets the next order, after the machine's memory is durable. */
static sefl_status next_order(as_rounds *r, agg_order *o)
{
    sefl_status st = SEFL_OK;
    bool changed = false;
    pthread_mutex_lock(&r->lock);
    SEFL_CHECK(!as_rounds_stopping(r), SEFL_ECANCELLED, "stopped on request");
    agg_memory before = r->stored;
    *o = agg_next(r->a, as_rounds_wall_ms(r));
    agg_memory m = agg_remember(r->a);
    if (memory_differs(&m, &r->stored)) {
        st = as_rounds_remember(r);
        if (st == SEFL_EIO && o->kind == AGG_REVEAL && !r->c.strict && !r->c.shared)
            st = put_off(r, o);
        SEFL_TRY(st);
        changed = m.phase != before.phase;
        if (m.extensions > before.extensions && m.round == before.round)
            log_warn(r->c.log, "round extended", lf_u64("round", m.round),
                     lf_u64("extension", m.extensions));
    }
done:
    pthread_mutex_unlock(&r->lock);
    if (changed)
        as_rounds_changed(r);
    return st;
}

sefl_status as_rounds_run(as_rounds *r)
{
    sefl_status st = SEFL_OK;
    agg_order o = { .kind = AGG_WAIT };
    if (r->c.shared) {
        pthread_mutex_lock(&r->lock);
        st = restore(r);
        pthread_mutex_unlock(&r->lock);
        SEFL_TRY(st);
        as_rounds_changed(r);
    }
    while (o.kind != AGG_FINISH) {
        SEFL_TRY(between(r));
        SEFL_TRY(next_order(r, &o));
        SEFL_TRY(as_rounds_execute(r, &o));
    }
done:
    if (st != SEFL_OK && as_rounds_stopping(r))
        st = sefl_fail(SEFL_ECANCELLED, "stopped on request");
    if (st == SEFL_ECANCELLED && as_rounds_keep_history(r) != SEFL_OK)
        log_warn(r->c.log,
                 "the noise of the last round is not stored: no later round takes it back",
                 lf_str("why", sefl_last_error()));
    if (r->link) {
        if (st == SEFL_ECANCELLED && !as_link_dead(r->link))
            (void)!as_link_bye(r->link, false); /* CSP need not wait for a ping */
        as_rounds_hang_up(r);
    }
    if (r->c.shared) { /* as_rounds_follow loads everything again, and another process may lead */
        history_drop(&r->fresh);
        ahead_drop(&r->ahead, r->t);
        pthread_mutex_lock(&r->lock);
        r->stored = (agg_memory){ 0 };
        pthread_mutex_unlock(&r->lock);
    }
    return st;
}

/* ---- looking --------------------------------------------------------------------------------- */

pthread_mutex_t *as_rounds_lock(as_rounds *r)
{
    return &r->lock;
}

agg *as_rounds_agg(as_rounds *r)
{
    return r->a;
}

sefl_span as_rounds_header(const as_rounds *r)
{
    return buf_span(&r->header);
}

release_from as_rounds_model(const as_rounds *r)
{
    return r->model;
}

as_link *as_rounds_link(as_rounds *r)
{
    return r->link;
}

sefl_status as_rounds_kept(as_rounds *r, uint64_t round, uint32_t *kept, uint32_t *refused)
{
    as_verdict v;
    *kept = *refused = 0;
    sefl_status st = task_is_sealed(r->t) ? as_store_verdict_get(r->store, round, &v)
                                          : SEFL_ENOTFOUND; /* as in the clear */
    if (st == SEFL_OK) {
        *kept = v.kept;
        *refused = v.refused_n;
        as_verdict_clear(&v);
        return SEFL_OK;
    }
    SEFL_PASS(or_none(st));
    pthread_mutex_lock(&r->lock);
    *kept = agg_remember(r->a).clients;
    pthread_mutex_unlock(&r->lock);
    return SEFL_OK;
}
