/* AS's lanes. Invariants, all under `lock`:
 *   1. `generation` counts links; a lane that began under another one adds nothing to the pool.
 *   2. `pending` is the sum of the sessions under way, so lanes together do not overfill the pool.
 *   3. A lane's thread changes an open audit, and its fact in the journal, while it is `busy` with
 *      it. It writes the fact before it closes the audit, and after it opens one.
 *   4. A lane's own thread alone opens and closes its stream; others interrupt it. An interrupt
 *      before the stream exists is not lost: the lane checks the generation after it dials. */
#define _GNU_SOURCE
#include "roles/aggregator/lanes.h"

#include "base/alloc.h"
#include "base/cond.h"
#include "base/ct.h"
#include "base/sha256.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    RETRY_MS = 500,
    RETRY_STEPS = 7, /* doubled up to 64 s */
    LOOK_MS = 500,   /* how often a lane checks whether the pool needs more */
    SAY_MS = 5000,   /* how often a wait logs its progress */
    TRIES = 3,       /* of each lane, until a wait gives up */
};

typedef struct lane {
    lanes *l;
    unsigned i;
    pthread_t thread;
    channel *inner; /* the stream */
    channel held;   /* the same stream, paused during a reveal */
    uint64_t generation;
    uint8_t pair[LINK_PAIR];
    unsigned failures; /* consecutive */
    uint64_t retry_ms; /* earliest time of the next try */
} lane;

/* An audit of which AS does not have CSP's seed, or has not judged it. */
typedef struct open_audit {
    bool open, busy;
    audit_record r; /* without CSP's seed */
    uint8_t signature[SIGN_BYTES];
    uint64_t refused_ms; /* wall clock: CSP's first refusal; 0: none */
} open_audit;

enum { OPEN_BYTES = AUDIT_RECORD + SIGN_BYTES + 8 };

struct lanes {
    lanes_config c;
    uint64_t session, want; /* values per session; lanes fill the pool up to `want` */

    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool stop, bound, stale, revealing, waiting;
    uint64_t generation, pending, sessions;
    uint8_t pair[LINK_PAIR];
    unsigned failures;           /* of all lanes since the last successful session */
    char ended[200];             /* "": the task continues */
    lanes_work done;             /* since lanes_done */
    uint64_t recalled;           /* generation of the last recall */
    open_audit audit[LANES_MAX]; /* of the lane with this number */

    lane lane[LANES_MAX];
    unsigned started;
};

/* ---- waiting --------------------------------------------------------------------------------- */

/* Wakes the waiting threads and releases the lock. */
static void unlock_moved(lanes *l)
{
    pthread_cond_broadcast(&l->moved);
    pthread_mutex_unlock(&l->lock);
}

/* With the lock: an open audit; `idle`: only one with which no lane is busy. */
static open_audit *find_open(lanes *l, bool idle)
{
    for (unsigned i = 0; i < LANES_MAX; i++)
        if (l->audit[i].open && !(idle && l->audit[i].busy))
            return &l->audit[i];
    return NULL;
}

/* With the lock: true if lanes may run. */
static bool may_run(const lanes *l)
{
    return l->bound && !l->stale && !l->ended[0] && !(l->revealing && !l->waiting);
}

/* With the lock: true if the pool needs one more session. */
static bool wanted(lanes *l)
{
    return may_run(l) && shares_pool_have(l->c.pool) + l->pending < l->want;
}

/* With the lock: true if the lane belongs to the current link. */
static bool is_current(const lane *x)
{
    return !x->l->stop && x->l->bound && x->generation == x->l->generation;
}

/* Waits for work; false if the lane must end. */
static bool next(lane *x)
{
    lanes *l = x->l;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        if (x->generation != l->generation) /* a new link: try at once */
            x->generation = l->generation, x->retry_ms = x->failures = 0;
        uint64_t now = clock_ms(l->c.mono);
        bool work = wanted(l) || (may_run(l) && find_open(l, true));
        if (l->stop || (work && now >= x->retry_ms))
            break;
        cond_wait_ms(&l->moved, &l->lock,
                     x->retry_ms > now && x->retry_ms - now < LOOK_MS ? x->retry_ms - now
                                                                      : LOOK_MS);
    }
    memcpy(x->pair, l->pair, sizeof x->pair);
    bool go = !l->stop;
    pthread_mutex_unlock(&l->lock);
    return go;
}

/* ---- a stream that pauses during a reveal ---------------------------------------- */

static sefl_status clear_way(lane *x)
{
    lanes *l = x->l;
    pthread_mutex_lock(&l->lock);
    while (is_current(x) && l->revealing && !l->waiting)
        cond_wait_ms(&l->moved, &l->lock, LOOK_MS);
    bool go = is_current(x);
    pthread_mutex_unlock(&l->lock);
    return go ? SEFL_OK : sefl_fail(SEFL_ECLOSED, "lane: the link to CSP has ended");
}

static sefl_status held_send(void *self, const void *p, size_t n)
{
    sefl_status st = clear_way(self);
    return st == SEFL_OK ? channel_send(((lane *)self)->inner, p, n) : st;
}

static sefl_status held_recv(void *self, void *p, size_t n)
{
    sefl_status st = clear_way(self);
    return st == SEFL_OK ? channel_recv(((lane *)self)->inner, p, n) : st;
}

static sefl_status held_flush(void *self)
{
    return channel_flush(((lane *)self)->inner);
}

static const channel_ops held_ops = { held_send, held_recv, held_flush };

/* ---- ends ------------------------------------------------------------------------------------ */

/* With the lock: ends the task; logs it once and keeps the first reason. */
static void set_ended(lanes *l, const char *why)
{
    if (l->ended[0])
        return;
    snprintf(l->ended, sizeof l->ended, "%s", why);
    log_error(l->c.log, "no more noise shares: the task is over", lf_str("why", why));
}

static void end_task(lanes *l, const char *why)
{
    pthread_mutex_lock(&l->lock);
    set_ended(l, why);
    unlock_moved(l);
}

const char *lanes_ended(lanes *l)
{
    pthread_mutex_lock(&l->lock);
    const char *why = l->ended[0] ? l->ended : NULL; /* once set it stays */
    pthread_mutex_unlock(&l->lock);
    return why;
}

#define CAUGHT_TEXT  "CSP failed an audit; 'sefl audit' says what the record proves to others"
#define REFUSED_TEXT "CSP refused the seed of an audited session twice"

/* Writes the entry of an audit. Its record is a file already: `sefl verify` looks for it. */
static sefl_status enter(lanes *l, const shares_result *r)
{
    uint8_t bytes[AUDIT_RECORD], hash[SHA256_BYTES];
    if (r->outcome == SHARES_UNANSWERED) {
        audit_add(l->c.entries, "audited", lf_key("session", r->id),
                  lf_str("outcome", "unanswered"));
    } else {
        audit_record_write(bytes, &r->record);
        sha256_of(hash, span_of(bytes, sizeof bytes));
        audit_add(l->c.entries, "audited", lf_key("session", r->id),
                  lf_str("outcome", r->outcome == SHARES_AUDITED ? "honest" : "caught"),
                  lf_key("record", hash));
    }
    return audit_log_sync(l->c.entries);
}

static sefl_status put_fact(lanes *l, const char *name, sefl_span value)
{
    return l->c.journal ? journal_fact_put(l->c.journal, 0, name, value) : SEFL_OK;
}

/* What follows from an audit that CSP failed: the fact in the journal. */
static sefl_status condemn(lanes *l, const shares_result *r)
{
    if (r->outcome == SHARES_UNANSWERED)
        log_warn(l->c.log, "CSP did not answer an audit; AS asks again before it uses any noise",
                 lf_hash("id", r->id));
    if (r->outcome != SHARES_CAUGHT)
        return SEFL_OK;
    log_error(l->c.log, "CSP failed an audit", lf_hash("id", r->id), lf_str("why", r->found.why),
              lf_bool("proof_for_others", r->found.verdict == AUDIT_CHEATED));
    end_task(l, CAUGHT_TEXT);
    return put_fact(l, "caught", span_of(r->id, SHARES_ID));
}

/* Records the result of an audit, durably, before the lane continues. The fact comes first: a full
 * disk or a crash between the two must not let a caught CSP go on after a restart. The evidence is
 * kept even if the fact cannot be. */
static sefl_status judge(lanes *l, const shares_result *r)
{
    sefl_status st = condemn(l, r), kept = SEFL_OK;
    const bool shown = r->outcome == SHARES_AUDITED || r->outcome == SHARES_CAUGHT;
    if (shown && l->c.records)
        kept = audit_record_save(NULL, &r->record, l->c.records);
    if (kept == SEFL_OK && shown)
        kept = enter(l, r);
    if (kept == SEFL_OK && r->outcome == SHARES_AUDITED)
        log_info(l->c.log, "noise session audited: CSP followed the protocol",
                 lf_hash("id", r->id));
    return st != SEFL_OK ? st : kept;
}

/* ---- open audits ----------------------------------------------------------------------------- */

enum { OPEN_NAME = 16 };

static const char *open_name(char out[OPEN_NAME], unsigned i)
{
    snprintf(out, OPEN_NAME, "audit %u", i);
    return out;
}

static sefl_status write_open(lanes *l, unsigned i)
{
    char name[OPEN_NAME];
    uint8_t bytes[OPEN_BYTES];
    const open_audit *o = &l->audit[i];
    audit_record_write(bytes, &o->r);
    memcpy(bytes + AUDIT_RECORD, o->signature, SIGN_BYTES);
    store_u64(bytes + AUDIT_RECORD + SIGN_BYTES, o->refused_ms);
    return put_fact(l, open_name(name, i), span_of(bytes, sizeof bytes));
}

/* shares_params.owe. If the journal fails, AUDIT does not leave. */
static sefl_status open_own(void *ctx, const audit_record *r, const uint8_t signature[SIGN_BYTES])
{
    lane *x = ctx;
    open_audit *o = &x->l->audit[x->i];
    pthread_mutex_lock(&x->l->lock);
    *o = (open_audit){ .open = true, .busy = true, .r = *r };
    memcpy(o->signature, signature, SIGN_BYTES);
    pthread_mutex_unlock(&x->l->lock);
    return write_open(x->l, x->i);
}

static void leave_audit(lanes *l, unsigned i)
{
    pthread_mutex_lock(&l->lock);
    l->audit[i].busy = false;
    unlock_moved(l);
}

/* Draws the conclusion from an audit that ended with `st`; closes it if CSP was honest. */
static sefl_status conclude(lanes *l, unsigned i, sefl_status st, const shares_result *r)
{
    char why[300], name[OPEN_NAME]; /* the audit's message: judge may replace it */
    snprintf(why, sizeof why, "%s", st == SEFL_OK ? "" : sefl_last_error());
    SEFL_PASS(judge(l, r));
    if (r->outcome != SHARES_AUDITED)
        return sefl_fail(st, "%s", why);
    SEFL_PASS(put_fact(l, open_name(name, i), span_of("", 1)));
    pthread_mutex_lock(&l->lock);
    l->audit[i] = (open_audit){ .busy = true };
    unlock_moved(l);
    return SEFL_OK;
}

/* CSP answered LOST. */
static sefl_status refused(lanes *l, unsigned i)
{
    open_audit *o = &l->audit[i];
    const uint64_t now = clock_ms(l->c.wall);
    const bool first = o->refused_ms == 0;
    shares_result r = { .outcome = SHARES_UNANSWERED };
    audit_id(r.id, o->r.hello[0], o->r.hello[1]);
    if (first || now >= o->refused_ms + LANES_REFUSAL_MS) {
        log_error(l->c.log, "CSP refused the seed of an audited session", lf_hash("id", r.id),
                  lf_u64("refusal", first ? 1 : 2));
        if (first) {
            o->refused_ms = now;
            SEFL_PASS(write_open(l, i));
        } else {
            end_task(l, REFUSED_TEXT);
            SEFL_PASS(put_fact(l, "refused", span_of(r.id, SHARES_ID)));
        }
        SEFL_PASS(enter(l, &r));
    }
    return sefl_fail(SEFL_ESTATE, "CSP does not have the seed of a session that AS audits");
}

/* With the lock: true if the journal has this fact. */
static sefl_status recall_end(lanes *l, const char *name, const char *why)
{
    bool has;
    SEFL_PASS(journal_fact_has(l->c.journal, 0, name, &has));
    if (has)
        set_ended(l, why);
    return SEFL_OK;
}

static sefl_status recall_open(lanes *l, unsigned i)
{
    sefl_status st = SEFL_OK;
    char name[OPEN_NAME];
    sefl_buf b = { 0 };
    open_audit o = { .open = true };
    st = journal_fact_get(l->c.journal, 0, open_name(name, i), &b);
    if (st == SEFL_ENOTFOUND || (st == SEFL_OK && b.n == 1)) {
        l->audit[i].open = false;
        st = SEFL_OK;
        goto done;
    }
    SEFL_TRY(st);
    SEFL_CHECK(b.n == OPEN_BYTES, SEFL_EPROTO, "the journal's %s is damaged", name);
    SEFL_TRY(audit_record_read(&o.r, span_of(b.p, AUDIT_RECORD)));
    memcpy(o.signature, b.p + AUDIT_RECORD, SIGN_BYTES);
    o.refused_ms = load_u64(b.p + AUDIT_RECORD + SIGN_BYTES);
    l->audit[i] = o;
done:
    buf_clear(&b);
    return st;
}

/* Restores what earlier processes recorded, once per link: another process may have had the last
 * one. */
static sefl_status recall(lanes *l)
{
    sefl_status st = SEFL_OK;
    pthread_mutex_lock(&l->lock);
    if (!l->c.journal || l->recalled == l->generation)
        goto done;
    SEFL_TRY(recall_end(l, "caught", CAUGHT_TEXT));
    SEFL_TRY(recall_end(l, "refused", REFUSED_TEXT));
    for (unsigned i = 0; i < LANES_MAX; i++)
        if (!l->audit[i].busy)
            SEFL_TRY(recall_open(l, i));
    l->recalled = l->generation;
done:
    unlock_moved(l);
    return st;
}

/* ---- one lane -------------------------------------------------------------------------------- */

static sefl_status said_no(lane *x, uint16_t no)
{
    lanes *l = x->l;
    if (no == LINK_NO_CHECKS)
        end_task(l, "CSP ended the task: too many checks of AS's transfers failed");
    pthread_mutex_lock(&l->lock);
    if (no == LINK_NO_PAIR && x->generation == l->generation)
        l->stale = true;
    unlock_moved(l);
    return sefl_fail(SEFL_ESTATE, "CSP refused a lane: %s", link_no_text(no));
}

/* Waits for CSP's YES. */
static sefl_status hear_yes(lane *x)
{
    uint16_t no;
    sefl_status st = lane_hear(&x->held, NULL, &no);
    return st != SEFL_OK || no == 0 ? st : said_no(x, no);
}

/* Asks for the seed of an open audit, with which x is busy. */
static sefl_status ask_seed(lane *x, unsigned i)
{
    lanes *l = x->l;
    uint8_t body[SHARES_ID + SIGN_BYTES];
    audit_record r = l->audit[i].r;
    shares_result got = { 0 };
    uint16_t no;
    audit_id(body, r.hello[0], r.hello[1]);
    memcpy(body + SHARES_ID, l->audit[i].signature, SIGN_BYTES);
    SEFL_PASS(link_send(&x->held, LINK_SEED, span_of(body, sizeof body)));
    SEFL_PASS(lane_hear(&x->held, r.csp_seed, &no));
    if (no == LINK_NO_LOST)
        return refused(l, i);
    if (no != 0)
        return said_no(x, no);
    sefl_status st = shares_judge(&got, &r);
    return conclude(l, i, st, &got);
}

/* Asks for the seeds of all open audits with which no other lane is busy. The lane's own must be
 * closed before its next session: CSP keeps one seed for each lane. */
static sefl_status settle(lane *x)
{
    lanes *l = x->l;
    for (;;) {
        open_audit *o = NULL;
        pthread_mutex_lock(&l->lock);
        while (is_current(x) && !l->ended[0] && !(o = find_open(l, true)) && l->audit[x->i].open)
            cond_wait_ms(&l->moved, &l->lock, LOOK_MS);
        bool go = is_current(x) && !l->ended[0];
        if (o)
            o->busy = true;
        pthread_mutex_unlock(&l->lock);
        SEFL_NEED(go, SEFL_ECLOSED, "lane: the link to CSP has ended");
        if (!o)
            return SEFL_OK;
        const unsigned i = (unsigned)(o - l->audit);
        sefl_status st = ask_seed(x, i);
        leave_audit(l, i);
        SEFL_PASS(st);
    }
}

/* Runs one session, which `pending` includes already. */
static sefl_status session(lane *x, uint64_t *values, uint64_t serial)
{
    sefl_status st = SEFL_OK;
    lanes *l = x->l;
    const task *t = l->c.task;
    uint8_t count[8];
    shares_result got = { 0 };
    shares_params p = {
        .sign = l->c.key, .csp = t->servers.csp, .audit = l->c.audit, .ctx = x, .owe = open_own
    };
    sefl_rng rng;
    lane_params(&p, t, x->pair, l->session);
    store_u64(count, p.count);
    SEFL_TRY(link_send(&x->held, LINK_FILL, span_of(count, sizeof count)));
    SEFL_TRY(hear_yes(x));
    pthread_mutex_lock(&l->lock); /* coins may be a table of generators */
    st = coins_for(l->c.coins, &rng, "shares", serial, x->i);
    pthread_mutex_unlock(&l->lock);
    SEFL_TRY(st);
    uint64_t began = clock_ns(l->c.mono);
    st = shares_evaluate(&got, values, &x->held, &p, &rng);
    if (got.outcome != SHARES_KEPT) { /* before CSP's next answer */
        st = conclude(l, x->i, st, &got);
        leave_audit(l, x->i);
    }
    SEFL_TRY(st);
    SEFL_TRY(hear_yes(x));
    if (got.outcome != SHARES_KEPT)
        goto done;
    pthread_mutex_lock(&l->lock);
    st = is_current(x) ? shares_pool_add(l->c.pool, got.id, values, p.count, p.bits)
                       : sefl_fail(SEFL_ECLOSED, "lane: the link to CSP has ended");
    pthread_mutex_unlock(&l->lock);
    SEFL_TRY(st);
    log_debug(l->c.log, "noise shares made", lf_u64("values", p.count), lf_u64("lane", x->i),
              lf_real("seconds", 1e-9 * (double)(clock_ns(l->c.mono) - began)));
done:
    sefl_wipe(&got, sizeof got);
    return st;
}

/* Reserves one more session; false if the pool needs none now. */
static bool begin(lane *x, uint64_t *serial)
{
    lanes *l = x->l;
    pthread_mutex_lock(&l->lock);
    bool go = is_current(x) && wanted(l);
    if (go) {
        l->pending += l->session;
        *serial = l->sessions++;
    }
    pthread_mutex_unlock(&l->lock);
    return go;
}

static void end(lane *x, sefl_status st, const lanes_work *w)
{
    lanes *l = x->l;
    pthread_mutex_lock(&l->lock);
    l->done.bytes += w->bytes, l->done.seconds += w->seconds;
    l->pending -= l->session;
    if (st == SEFL_OK)
        x->failures = l->failures = 0;
    unlock_moved(l);
}

/* One stream, until the pool is full or something fails. */
static sefl_status visit(lane *x)
{
    sefl_status st = SEFL_OK;
    lanes *l = x->l;
    uint64_t *values = NULL, serial;
    uint8_t hello[LINK_PAIR + 1];
    memcpy(hello, x->pair, LINK_PAIR);
    hello[LINK_PAIR] = (uint8_t)x->i;
    SEFL_TRY(recall(l));
    SEFL_TRY(l->c.dial.dial(l->c.dial.ctx, x->i, &x->inner));
    x->held = (channel){ .ops = &held_ops, .self = x };
    SEFL_TRY(sefl_new(&values, l->session, sizeof *values));
    SEFL_TRY(link_send(&x->held, LINK_LANE, span_of(hello, sizeof hello)));
    SEFL_TRY(hear_yes(x));
    SEFL_TRY(settle(x));
    while (begin(x, &serial)) {
        uint64_t began = clock_ns(l->c.mono), bytes = x->held.sent + x->held.received;
        st = session(x, values, serial);
        end(x, st,
            &(lanes_work){ .bytes = x->held.sent + x->held.received - bytes,
                           .seconds = 1e-9 * (double)(clock_ns(l->c.mono) - began) });
        SEFL_TRY(st);
    }
done:
    sefl_free_secret(values, values ? l->session * sizeof *values : 0);
    l->c.dial.hang_up(l->c.dial.ctx, x->i);
    x->inner = NULL;
    return st;
}

static void failed(lane *x, sefl_status st)
{
    lanes *l = x->l;
    const unsigned first = l->c.retry_ms ? l->c.retry_ms : RETRY_MS;
    pthread_mutex_lock(&l->lock);
    if (is_current(x)) {
        log_warn(l->c.log, "a lane to CSP failed", lf_u64("lane", x->i),
                 lf_str("why", sefl_last_error()));
        if (st == SEFL_EPROTO || st == SEFL_ECRYPTO)
            shares_pool_clear(l->c.pool); /* the peer violates the protocol */
        l->failures++;
        x->retry_ms = clock_ms(l->c.mono) +
                      ((uint64_t)first << (x->failures < RETRY_STEPS ? x->failures : RETRY_STEPS));
        x->failures++;
    }
    unlock_moved(l);
}

static void *lanes_run(void *arg)
{
    lane *x = arg;
    lane_low_priority();
    while (next(x)) {
        sefl_status st = visit(x);
        if (st != SEFL_OK)
            failed(x, st);
    }
    return NULL;
}

/* ---- the driver's calls ---------------------------------------------------------------------- */

sefl_status lanes_new(lanes **out, const lanes_config *c)
{
    SEFL_MAKE(lanes, l, out);
    l->c = *c;
    l->c.count = c->count ? c->count : 1;
    l->session = c->session ? c->session : lanes_session(c->task);
    l->want = 2 * c->task->values;
    l->recalled = UINT64_MAX;
    pthread_mutex_init(&l->lock, NULL);
    cond_init(&l->moved);
    SEFL_CHECK(l->c.count <= LANES_MAX, SEFL_EINVAL, "%u lanes, at most %d", l->c.count, LANES_MAX);
    SEFL_TRY(recall(l));
    for (; l->started < l->c.count; l->started++) {
        lane *x = &l->lane[l->started];
        *x = (lane){ .l = l, .i = l->started };
        SEFL_TRY(thread_start(&x->thread, lanes_run, x));
    }
    SEFL_HAND_OVER(out, l, lanes_free);
}

static void interrupt_all(lanes *l)
{
    for (unsigned i = 0; i < l->c.count; i++)
        if (l->c.dial.interrupt)
            l->c.dial.interrupt(l->c.dial.ctx, i);
}

void lanes_stop(lanes *l)
{
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    unlock_moved(l);
    interrupt_all(l);
}

void lanes_free(lanes *l)
{
    if (!l)
        return;
    lanes_stop(l);
    for (unsigned i = 0; i < l->started; i++)
        pthread_join(l->lane[i].thread, NULL);
    pthread_cond_destroy(&l->moved);
    pthread_mutex_destroy(&l->lock);
    sefl_free(l);
}

void lanes_bind(lanes *l, const uint8_t *pair)
{
    pthread_mutex_lock(&l->lock);
    l->generation++;
    l->bound = pair != NULL;
    l->stale = false;
    l->failures = 0;
    memset(l->pair, 0, sizeof l->pair);
    if (pair)
        memcpy(l->pair, pair, sizeof l->pair);
    shares_pool_clear(l->c.pool);
    unlock_moved(l);
    interrupt_all(l); /* the previous link's lanes */
}

void lanes_hold(lanes *l, bool revealing)
{
    pthread_mutex_lock(&l->lock);
    l->revealing = revealing;
    unlock_moved(l);
}

lanes_work lanes_done(lanes *l)
{
    pthread_mutex_lock(&l->lock);
    lanes_work w = l->done;
    l->done = (lanes_work){ 0 };
    pthread_mutex_unlock(&l->lock);
    return w;
}

sefl_status lanes_wait(lanes *l, uint64_t count)
{
    sefl_status st = SEFL_OK;
    uint64_t began = clock_ms(l->c.mono), said = began;
    pthread_mutex_lock(&l->lock);
    l->waiting = true;
    pthread_cond_broadcast(&l->moved);
    for (;;) {
        uint64_t have = shares_pool_have(l->c.pool), now = clock_ms(l->c.mono);
        SEFL_CHECK(!l->stop, SEFL_ECANCELLED, "stopped on request");
        SEFL_CHECK(!l->ended[0], SEFL_ESTATE, "no noise shares: %s", l->ended);
        if (have >= count && !find_open(l, false))
            break;
        SEFL_CHECK(l->bound && !l->stale, SEFL_ECLOSED, "no noise shares: CSP has a new link");
        SEFL_CHECK(l->failures < TRIES * l->c.count, SEFL_ECLOSED,
                   "no noise shares: all lanes keep failing");
        if (now - said >= SAY_MS) {
            log_info(l->c.log, "waiting for noise shares", lf_u64("have", have),
                     lf_u64("want", count));
            said = now;
        }
        cond_wait_ms(&l->moved, &l->lock, LOOK_MS);
    }
done:
    l->waiting = false;
    pthread_mutex_unlock(&l->lock);
    return st;
}
