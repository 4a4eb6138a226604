/* Design.
 *  1. The machine is touched under `lock` only; long work (link, sum, release) is done without it.
 *  2. agg_next may change the machine (time passes): its memory is durable before the order is
 *     carried out. So an attempt's number is used once, whatever dies.
 *  3. Order of locks: this one, then the running sum's, then the journal's. */
#include "roles/aggregator/rounds_inside.h"

#include "base/alloc.h"
#include "protocol/head.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PING_MS = 10000, MEMORY_VERSION = 2 };

uint64_t rounds_wall_ms(const rounds *r)
{
    return clock_ms(r->c.wall);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static sefl_status memory_write(sefl_buf *b, const agg_memory *m)
{
    sefl_status st = SEFL_OK;
    uint64_t best;
    memcpy(&best, &m->best_perplexity, 8);
    SEFL_TRY(wr_u8(b, MEMORY_VERSION));
    SEFL_TRY(wr_u8(b, (uint8_t)m->phase));
    SEFL_TRY(wr_u8(b, (uint8_t)m->why));
    SEFL_TRY(wr_u64(b, m->round));
    SEFL_TRY(wr_u64(b, m->attempt));
    SEFL_TRY(wr_u64(b, m->deadline_ms));
    SEFL_TRY(wr_u32(b, m->extensions));
    SEFL_TRY(wr_u32(b, m->clients));
    SEFL_TRY(wr_u32(b, m->skipped_in_row));
    SEFL_TRY(wr_u32(b, m->blocked_in_row));
    SEFL_TRY(wr_u32(b, m->rounds_without_gain));
    SEFL_TRY(wr_u64(b, best));
done:
    return st;
}

static sefl_status memory_read(agg_memory *m, sefl_span in)
{
    sefl_status st = SEFL_OK;
    rd r = rd_over(in);
    uint8_t version, phase, why;
    uint64_t best;
    *m = (agg_memory){ 0 };
    SEFL_TRY(rd_u8(&r, &version));
    SEFL_CHECK(version >= 1 && version <= MEMORY_VERSION, SEFL_EUNSUPPORTED,
               "journal: memory of a round of version %u; this program knows 1 to %d", version,
               MEMORY_VERSION);
    SEFL_TRY(rd_u8(&r, &phase));
    SEFL_TRY(rd_u8(&r, &why));
    SEFL_TRY(rd_u64(&r, &m->round));
    SEFL_TRY(rd_u64(&r, &m->attempt));
    SEFL_TRY(rd_u64(&r, &m->deadline_ms));
    SEFL_TRY(rd_u32(&r, &m->extensions));
    SEFL_TRY(rd_u32(&r, &m->clients));
    SEFL_TRY(rd_u32(&r, &m->skipped_in_row));
    if (version >= 2)
        SEFL_TRY(rd_u32(&r, &m->blocked_in_row));
    SEFL_TRY(rd_u32(&r, &m->rounds_without_gain));
    SEFL_TRY(rd_u64(&r, &best));
    SEFL_TRY(rd_end(&r));
    m->phase = (agg_phase)phase, m->why = (agg_why)why;
    memcpy(&m->best_perplexity, &best, 8);
done:
    return st;
}

static sefl_status model_fact(rounds *r)
{
    uint8_t bytes[8 + SHA256_BYTES];
    store_u64(bytes, r->model.round);
    memcpy(bytes + 8, r->model.hash, SHA256_BYTES);
    return journal_fact_put(r->c.journal, 0, "model", span_of(bytes, sizeof bytes));
}

/* Only grows while the task goes on. */
static uint64_t step_of(const agg_memory *m)
{
    return m->round * 16 + m->phase;
}

sefl_status rounds_remember(rounds *r)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    agg_memory m = agg_remember(r->a);
    if (r->row.round != m.round)
        r->row = (journal_round){ .round = m.round };
    r->row.state = m.phase;
    r->row.attempt = m.attempt;
    r->row.deadline_ms = m.deadline_ms;
    r->row.clients = m.clients;
    r->row.extensions = m.extensions;
    SEFL_TRY(memory_write(&b, &m));
    SEFL_TRY(journal_begin(r->c.journal));
    SEFL_TRY(journal_fact_put(r->c.journal, 0, "agg", buf_span(&b)));
    SEFL_TRY(journal_round_put(r->c.journal, &r->row));
    SEFL_TRY(model_fact(r));
    SEFL_TRY(journal_commit(r->c.journal));
    r->stored = m;
    if (step_of(&m) != r->noted) {
        SEFL_TRY(account_note(r->c.account, step_of(&m), NULL));
        r->noted = step_of(&m);
    }
done:
    if (st != SEFL_OK)
        journal_rollback(r->c.journal);
    buf_clear(&b);
    return st;
}

/* Is the journal an old copy? Then the ledger, or the note beside it, knows more. */
static sefl_status check_age(rounds *r, const agg_memory *m)
{
    sefl_status st = SEFL_OK;
    uint8_t hash[SHA256_BYTES];
    bool charged;
    SEFL_TRY(account_knows(r->c.account, m->round));
    SEFL_TRY(account_has(r->c.account, m->round, &charged));
    SEFL_CHECK(!charged || m->phase >= AGG_REVEALING, SEFL_ESTATE,
               "an old copy of %s was put back: round %" PRIu64
               " is charged, and the journal says that it is still %s; " ACCOUNT_REMEDY,
               journal_folder(r->c.journal), m->round, agg_phase_name(m->phase));
    SEFL_TRY(account_noted(r->c.account, &r->noted, hash));
    SEFL_CHECK(r->noted <= step_of(m), SEFL_ESTATE,
               "an old copy of %s was put back: it stands at round %" PRIu64
               ", %s, but this server got to round %" PRIu64 ", %s; " ACCOUNT_REMEDY,
               journal_folder(r->c.journal), m->round, agg_phase_name(m->phase), r->noted / 16,
               agg_phase_name((agg_phase)(r->noted % 16)));
done:
    return st;
}

/* Counts while collecting are the journal's rows; the rest must be written. */
static bool memory_differs(const agg_memory *a, const agg_memory *b)
{
    return a->phase != b->phase || a->round != b->round || a->attempt != b->attempt ||
           a->deadline_ms != b->deadline_ms || a->extensions != b->extensions || a->why != b->why ||
           a->skipped_in_row != b->skipped_in_row || a->blocked_in_row != b->blocked_in_row ||
           a->rounds_without_gain != b->rounds_without_gain;
}

sefl_status rounds_tell(rounds *r, const agg_event *e)
{
    sefl_status st = SEFL_OK;
    pthread_mutex_lock(&r->lock);
    agg_phase before = agg_get_phase(r->a);
    SEFL_TRY(agg_on(r->a, e, rounds_wall_ms(r)));
    agg_memory m = agg_remember(r->a);
    if (memory_differs(&m, &r->stored))
        SEFL_TRY(rounds_remember(r));
done:
    before = before != agg_get_phase(r->a) ? AGG_PHASES : before;
    pthread_mutex_unlock(&r->lock);
    if (before == AGG_PHASES && r->c.changed)
        r->c.changed(r->c.ctx);
    return st;
}

/* ---- admission ------------------------------------------------------------------------------ */

static agg_verdict admission_admit(void *ctx, const agg_upload *u)
{
    rounds *r = ctx;
    return agg_admit(r->a, u, rounds_wall_ms(r));
}

static bool admission_has_body(void *ctx, const round_entry *m)
{
    rounds *r = ctx;
    bool before = false;
    if (journal_body_before(r->c.journal, agg_round(r->a), m->body, &before) != SEFL_OK)
        log_error(r->c.log, "bodies not looked up", lf_str("why", sefl_last_error()));
    return before || collect_has_body(r->collect, m);
}

/* Acknowledged: from here on it counts. Should the list not grow (memory), the sum is made from
 * the journal when the set is frozen. */
static void admission_took(void *ctx, uint64_t round, const round_entry *m, body_room *body)
{
    rounds *r = ctx;
    uint32_t given, summed;
    if (collect_add(r->collect, round, m, false, body) != SEFL_OK)
        log_error(r->c.log, "update not queued", lf_str("why", sefl_last_error()));
    collect_counts(r->collect, &given, &summed);
    agg_event e = { .kind = AGG_UPDATE, .round = round, .clients = given };
    if (agg_on(r->a, &e, rounds_wall_ms(r)) != SEFL_OK)
        log_error(r->c.log, "update not counted", lf_str("why", sefl_last_error()));
    r->events++;
    pthread_cond_signal(&r->event);
}

ingest_admission rounds_admission(rounds *r)
{
    return (ingest_admission){ .ctx = r,
                               .lock = &r->lock,
                               .body_pool = r->body_pool,
                               .admit = admission_admit,
                               .has_body = admission_has_body,
                               .took = admission_took };
}

void rounds_set_ingest(rounds *r, ingest *in)
{
    pthread_mutex_lock(&r->lock);
    r->ingest = in;
    if (in)
        ingest_only_round(in, agg_get_phase(r->a) == AGG_COLLECTING ? agg_round(r->a) : 0);
    pthread_mutex_unlock(&r->lock);
}

void rounds_accept_uploads(rounds *r, uint64_t round)
{
    collect_begin(r->collect, round);
    if (r->ingest)
        ingest_only_round(r->ingest, round);
}

void rounds_close_uploads(rounds *r)
{
    if (r->ingest)
        ingest_only_round(r->ingest, 0);
}

static sefl_status body_path(void *ctx, sefl_buf *out, uint64_t round, const round_entry *m)
{
    return ingest_body_path(((rounds *)ctx)->c.journal, out, round, m);
}

typedef struct refill {
    rounds *r;
    uint32_t index;     /* of the next one in the set */
    as_verdict verdict; /* zero: none yet */
    uint32_t refused;   /* of those in the verdict, so far */
} refill;

static sefl_status refill_one(void *ctx, const journal_update *u)
{
    refill *f = ctx;
    round_entry m = { 0 };
    memcpy(m.client, u->client, sizeof m.client);
    memcpy(m.body, u->body, sizeof m.body);
    uint32_t index = f->index++;
    if (f->refused < f->verdict.refused_n && f->verdict.refused[f->refused].index == index) {
        f->refused++;
        return SEFL_OK;
    }
    return collect_add(f->r->collect, u->round, &m, true, NULL);
}

sefl_status rounds_refill(rounds *r, uint64_t round)
{
    sefl_status st = SEFL_OK;
    refill f = { .r = r };
    st = rounds_verdict(r, round, &f.verdict);
    if (st == SEFL_ENOTFOUND)
        st = SEFL_OK;
    SEFL_TRY(st);
    collect_begin(r->collect, round);
    SEFL_TRY(journal_updates(r->c.journal, round, refill_one, &f));
done:
    as_verdict_clear(&f.verdict);
    return st;
}

/* ---- start and end --------------------------------------------------------------------------- */

static sefl_status restore_model(rounds *r)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    st = journal_fact_get(r->c.journal, 0, "model", &b);
    if (st == SEFL_ENOTFOUND) {
        r->model.round = 0;
        memcpy(r->model.hash, r->c.task->init_hash, SHA256_BYTES);
        st = SEFL_OK;
        goto done;
    }
    SEFL_TRY(st);
    SEFL_CHECK(b.n == 8 + SHA256_BYTES, SEFL_EPROTO, "journal: no mark of the latest model");
    r->model.round = load_u64(b.p);
    memcpy(r->model.hash, b.p + 8, SHA256_BYTES);
done:
    buf_clear(&b);
    return st;
}

static sefl_status restore_signals(rounds *r)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    release_signals *s = &r->signals;
    st = journal_fact_get(r->c.journal, 0, "signals", &b);
    if (st == SEFL_ENOTFOUND) {
        st = SEFL_OK;
        goto done;
    }
    SEFL_TRY(st);
    SEFL_CHECK(b.n % 16 == 0 && b.n / 16 <= RELEASE_SIGNALS, SEFL_EPROTO,
               "journal: %zu bytes of signals", b.n);
    for (; s->n < b.n / 16; s->n++) {
        uint64_t bits = load_u64(b.p + 16 * s->n + 8);
        s->round[s->n] = load_u64(b.p + 16 * s->n);
        memcpy(&s->signal[s->n], &bits, 8);
    }
done:
    buf_clear(&b);
    return st;
}

static sefl_status restore(rounds *r)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    agg_memory m = { 0 };
    SEFL_TRY(restore_model(r));
    SEFL_TRY(restore_signals(r));
    st = journal_fact_get(r->c.journal, 0, "agg", &b);
    if (st == SEFL_ENOTFOUND) {
        st = check_age(r, &m); /* a new task */
        goto done;
    }
    SEFL_TRY(st);
    SEFL_TRY(memory_read(&m, buf_span(&b)));
    SEFL_TRY(check_age(r, &m));
    if (m.phase == AGG_COLLECTING || m.phase == AGG_FREEZING)
        SEFL_TRY(journal_update_count(r->c.journal, m.round, &m.clients));
    st = journal_round_get(r->c.journal, m.round, &r->row);
    if (st != SEFL_OK && st != SEFL_ENOTFOUND)
        goto done;
    r->row.round = m.round;
    st = journal_fact_get(r->c.journal, m.round, "header", &r->header);
    if (st != SEFL_OK && st != SEFL_ENOTFOUND)
        goto done;
    SEFL_CHECK(m.phase != AGG_COLLECTING || r->header.n > 0, SEFL_EPROTO,
               "journal: round %" PRIu64 " collects without a header", m.round);
    SEFL_TRY(agg_restore(r->a, &m, rounds_wall_ms(r)));
    r->stored = m;
    if (m.phase >= AGG_COLLECTING && m.phase <= AGG_REVEALING)
        SEFL_TRY(rounds_refill(r, m.round));
    if (m.round > 1) /* died between its release and the wipe? */
        SEFL_TRY(journal_round_wipe(r->c.journal, m.round - 1));
    if (m.phase == AGG_DONE)
        SEFL_TRY(journal_round_wipe(r->c.journal, m.round));
    log_info(r->c.log, "taking up", lf_u64("round", m.round),
             lf_str("phase", agg_phase_name(m.phase)));
done:
    buf_clear(&b);
    return st;
}

sefl_status rounds_new(rounds **out, const rounds_config *c)
{
    sefl_status st = SEFL_OK;
    rounds *r = NULL;
    pthread_condattr_t attr;
    *out = NULL;
    SEFL_TRY(sefl_new(&r, 1, sizeof *r));
    r->c = *c;
    if (r->c.ping_ms == 0)
        r->c.ping_ms = PING_MS;
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->tree_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->event, &attr);
    pthread_condattr_destroy(&attr);
    SEFL_TRY(buckets_new(&r->tree_rate, &(buckets_rule){ .burst = 8, .per_s = 0.2 }));
    SEFL_TRY(agg_new(&r->a, c->task));
    SEFL_TRY(body_pool_new(&r->body_pool, task_body_bytes(c->task), BODY_POOL_BUDGET));
    SEFL_TRY(collect_new(&r->collect, &(collect_config){ .ahe = &c->task->ahe,
                                                         .pub = c->task->pub,
                                                         .skip = head_bytes(c->task->seal),
                                                         .clients_max = c->task->clients_max,
                                                         .threads = c->threads,
                                                         .path = body_path,
                                                         .ctx = r,
                                                         .body_pool = r->body_pool,
                                                         .log = c->log }));
    SEFL_TRY(restore(r));
    release_settle(c->releases, r->model.round); /* the settings may have changed */
    *out = r, r = NULL;
done:
    rounds_free(r);
    return st;
}

void rounds_free(rounds *r)
{
    if (!r)
        return;
    collect_free(r->collect);
    body_pool_free(r->body_pool);
    agg_free(r->a);
    buf_clear(&r->header);
    counted_tree_free(r->tree);
    buf_clear(&r->tree_envelope);
    buckets_free(r->tree_rate);
    pthread_mutex_destroy(&r->tree_lock);
    pthread_cond_destroy(&r->event);
    pthread_mutex_destroy(&r->lock);
    sefl_free(r);
}

void rounds_stop(rounds *r)
{
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->event);
    pthread_mutex_unlock(&r->lock);
    if (r->c.dial.interrupt)
        r->c.dial.interrupt(r->c.dial.ctx);
    if (r->c.lanes)
        lanes_stop(r->c.lanes);
}

/* Without the lock: collect asks with its own held, and takes it inside ours elsewhere. */
bool rounds_stopping(const rounds *r)
{
    return atomic_load(&r->stop);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* With the lock: waits for an event, at most so long. */
static void wait_ms(rounds *r, uint64_t ms)
{
    struct timespec ts;
    if (ms == 0 || r->stop)
        return;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    ts.tv_sec += (time_t)(ms / 1000);
    ts.tv_nsec += (long)(ms % 1000) * 1000000;
    if (ts.tv_nsec >= 1000000000)
        ts.tv_nsec -= 1000000000, ts.tv_sec++;
    pthread_cond_timedwait(&r->event, &r->lock, &ts);
}

void rounds_pause(rounds *r, unsigned ms)
{
    uint64_t end = clock_ms(r->c.mono) + ms, now;
    pthread_mutex_lock(&r->lock);
    while (!r->stop && (now = clock_ms(r->c.mono)) < end)
        wait_ms(r, end - now);
    pthread_mutex_unlock(&r->lock);
}

/* Nothing to do until `until` (wall clock) or an event; the link is kept alive meanwhile. */
static sefl_status idle(rounds *r, const agg_order *o)
{
    uint64_t early_ms;
    sefl_status st = rounds_early(r, &early_ms);
    if (st != SEFL_OK || early_ms == 0) /* it took its time: look again */
        return st;
    uint64_t now = rounds_wall_ms(r), mono = clock_ms(r->c.mono);
    uint64_t ms = o->until_ms > now ? o->until_ms - now : 0;
    ms = early_ms < ms ? early_ms : ms;
    if (ms > r->c.ping_ms)
        ms = r->c.ping_ms;
    if (r->link && r->ping_at_ms <= mono) {
        r->ping_at_ms = mono + r->c.ping_ms;
        return as_link_ping(r->link) == SEFL_OK ? SEFL_OK : rounds_link_down(r, "ping");
    }
    if (r->link && r->ping_at_ms - mono < ms)
        ms = r->ping_at_ms - mono;
    pthread_mutex_lock(&r->lock);
    if (r->events == r->seen && !r->errands)
        wait_ms(r, ms);
    pthread_mutex_unlock(&r->lock);
    return SEFL_OK;
}

static sefl_status carry_out(rounds *r, const agg_order *o)
{
    switch (o->kind) {
    case AGG_WAIT:
        return idle(r, o);
    case AGG_DIAL:
        return order_dial(r);
    case AGG_SIGN:
        return order_sign(r, o);
    case AGG_FREEZE:
        return order_freeze(r, o);
    case AGG_REVEAL:
        return order_reveal(r, o);
    case AGG_RELEASE:
        return order_release(r, o);
    case AGG_SKIP:
        return order_skip(r, o);
    case AGG_FINISH:
        return order_finish(r, o);
    }
    return sefl_fail(SEFL_ESTATE, "unknown order %d", (int)o->kind);
}

/* The next order, with everything that it rests on durable. */
static sefl_status next_order(rounds *r, agg_order *o)
{
    sefl_status st = SEFL_OK;
    bool changed = false;
    pthread_mutex_lock(&r->lock);
    SEFL_CHECK(!r->stop, SEFL_ECANCELLED, "stopped on request");
    agg_memory before = r->stored;
    r->seen = r->events;
    *o = agg_next(r->a, rounds_wall_ms(r));
    agg_memory m = agg_remember(r->a);
    if (memory_differs(&m, &r->stored)) {
        if (before.phase == AGG_COLLECTING && m.phase != AGG_COLLECTING) {
            r->row.closed_ms = rounds_wall_ms(r);
            rounds_close_uploads(r);
        }
        SEFL_TRY(rounds_remember(r));
        changed = m.phase != before.phase;
        if (m.extensions > before.extensions && m.round == before.round)
            log_warn(r->c.log, "round extended", lf_u64("round", m.round),
                     lf_u64("extension", m.extensions));
    }
done:
    pthread_mutex_unlock(&r->lock);
    if (changed && r->c.changed)
        r->c.changed(r->c.ctx);
    return st;
}

sefl_status rounds_run(rounds *r)
{
    sefl_status st = SEFL_OK;
    agg_order o = { .kind = AGG_WAIT };
    while (o.kind != AGG_FINISH) {
        SEFL_TRY(rounds_run_errands(r)); /* before: it may lose the link */
        SEFL_TRY(next_order(r, &o));
        SEFL_TRY(carry_out(r, &o));
    }
done:
    if (st != SEFL_OK && rounds_stopping(r))
        st = sefl_fail(SEFL_ECANCELLED, "stopped on request");
    if (r->link) {
        if (st == SEFL_ECANCELLED && !as_link_dead(r->link))
            (void)!as_link_bye(r->link, false); /* CSP need not wait for a ping */
        as_link_free(r->link);
        r->link = NULL;
        r->c.dial.hang_up(r->c.dial.ctx);
        if (r->c.lanes)
            lanes_unbind(r->c.lanes);
    }
    return st;
}

/* ---- questions ------------------------------------------------------------------------------- */

static round_word word_of(const rounds *r, uint64_t after)
{
    switch (agg_get_phase(r->a)) {
    case AGG_DONE:
        return ROUND_OVER;
    case AGG_COLLECTING:
        return agg_round(r->a) > after ? ROUND_OPEN : ROUND_WAITING;
    case AGG_STARTING:
    case AGG_SIGNING:
        return ROUND_WAITING;
    default:
        return ROUND_CLOSED;
    }
}

bool rounds_has_news(rounds *r, uint64_t after)
{
    pthread_mutex_lock(&r->lock);
    round_word w = word_of(r, after);
    pthread_mutex_unlock(&r->lock);
    return w == ROUND_OPEN || w == ROUND_OVER;
}

sefl_status rounds_news(rounds *r, uint64_t after, round_news *out, sefl_buf *header)
{
    sefl_status st = SEFL_OK;
    *out = (round_news){ 0 };
    pthread_mutex_lock(&r->lock);
    out->state = word_of(r, after);
    out->round = agg_round(r->a);
    if (out->state == ROUND_OPEN) {
        uint64_t now = rounds_wall_ms(r), end = agg_deadline_ms(r->a);
        out->left_ms = end > now ? end - now : 0;
        SEFL_TRY(wr_raw(header, r->header.p, r->header.n));
        out->header = buf_span(header);
    } else if (out->state == ROUND_OVER) {
        snprintf(out->why, sizeof out->why, "%s", agg_why_text(agg_remember(r->a).why));
    }
done:
    pthread_mutex_unlock(&r->lock);
    return st;
}

sefl_status rounds_model(rounds *r, uint64_t round, bool latest, sefl_buf *path,
                         uint8_t hash[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    release_from from;
    pthread_mutex_lock(&r->lock);
    uint64_t now = agg_round(r->a);
    from = r->model;
    pthread_mutex_unlock(&r->lock);
    SEFL_CHECK(latest || round == now, SEFL_ENOTFOUND, "round %" PRIu64 " is %s", round,
               round < now ? "over" : "not open yet");
    SEFL_TRY(release_path(r->c.releases, path, from.round));
    memcpy(hash, from.hash, SHA256_BYTES);
done:
    return st;
}

agg_phase rounds_phase(rounds *r, uint64_t *round, uint32_t *clients)
{
    pthread_mutex_lock(&r->lock);
    agg_memory m = agg_remember(r->a);
    pthread_mutex_unlock(&r->lock);
    if (round)
        *round = m.round;
    if (clients)
        *clients = m.clients;
    return m.phase;
}

bool rounds_linked(rounds *r)
{
    pthread_mutex_lock(&r->lock);
    bool linked = agg_is_linked(r->a);
    pthread_mutex_unlock(&r->lock);
    return linked;
}

bool rounds_over(rounds *r, agg_why *why)
{
    pthread_mutex_lock(&r->lock);
    agg_memory m = agg_remember(r->a);
    pthread_mutex_unlock(&r->lock);
    *why = m.why;
    return m.phase == AGG_DONE;
}
