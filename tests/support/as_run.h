/* as_run: AS in a test: the driver of the rounds (sum/as_rounds.h) with all uploads in memory and
 * virtual time. The test's own struct begins with the run. Its hooks see every step of the driver
 * and misbehave where the test wants that; the driver does all the rest.
 *
 *     struct me { as_run run; ... };
 *     me.run.c = (as_rounds_config){ .task = ..., .account = ..., .channel = ..., ... };
 *     me.run.under = as_disk_store(&disk);
 *     me.run.open = ...;                               // fills me.run.up
 *     CHECK_OK(as_run_until(&me.run, 2, AGG_SIGNING)); // round 1 is over
 *     CHECK_OK(as_run_all(&me.run));                   // a new driver continues from the store
 *
 * A hook `put` that fails is a crash before the record is stored: the run ends with its status. */
#ifndef SUPPORT_AS_RUN_H
#define SUPPORT_AS_RUN_H

#include "sum/as_memory.h"

#include <string.h>

typedef struct as_run {
    as_uploads_memory up; /* first: the driver's ports share ctx */
    as_rounds_config c;   /* the test sets task, envelope, key, coins, account, channel, ... */
    as_store under;       /* the store */
    uint32_t early;       /* heads that CSP gets before the set */
    int64_t *w;           /* gets the released integers; NULL: not wanted */
    uint32_t clients;     /* gets the number of clients of the last release */

    /* Hooks: `me` is the run. Only `open` is required. */
    void (*open)(void *me, const round_header *h); /* uploads of this round, even after a restart */
    sefl_status (*put)(void *me, as_record what, uint64_t round, uint64_t attempt, sefl_span bytes);
    sefl_status (*step)(void *me, const as_row *row);
    sefl_status (*get)(void *me, as_record what); /* fails: the store does not answer */
    void (*between)(void *me, as_link *link);     /* before every order; NULL: no link */
    void (*frozen)(void *me);                     /* between the early heads and the set */
    sefl_status (*release)(void *me, uint64_t round, const int64_t *w);
    void (*refused)(void *me, uint64_t round, const char *when, const head_refusal *r,
                    const uint8_t client[32], bool named);
    sefl_status (*take_off)(void *me, uint64_t round, const uint8_t client[32]);
    sefl_status (*sum)(void *me);  /* fails: there is no sum */
    sefl_status (*head)(void *me); /* fails: the head of an upload cannot be read */

    /* the run's own */
    as_store store; /* `under`, below `put` */
    as_uploads uploads, memory;
    as_rounds *rounds;
    sefl_clock wall, mono;
    uint64_t now_ms, until_round; /* until_round 0: until the task is over */
    agg_phase until;
    bool there;
} as_run;

/* Reads the header in a record AS_HEADER. */
static inline sefl_status as_run_header(round_header *h, sefl_span both)
{
    envelope env;
    SEFL_PASS(envelope_read(&env, both));
    return round_header_read(h, env.content);
}

/* Gives the driver's machine an event, from a hook. */
static inline sefl_status as_run_event(as_run *r, agg_event_kind kind)
{
    pthread_mutex_lock(as_rounds_lock(r->rounds));
    agg *a = as_rounds_agg(r->rounds);
    sefl_status st = agg_on(a, &(agg_event){ .kind = kind, .round = agg_round(a), .now = true },
                            clock_ms(&r->wall));
    pthread_mutex_unlock(as_rounds_lock(r->rounds));
    return st;
}

static inline bool as_run_is_at(as_run *r, uint64_t round, agg_phase phase)
{
    pthread_mutex_lock(as_rounds_lock(r->rounds));
    const agg *a = as_rounds_agg(r->rounds);
    bool is = agg_round(a) == round && agg_get_phase(a) == phase;
    pthread_mutex_unlock(as_rounds_lock(r->rounds));
    return is;
}

/* ---- ports: store ---------------------------------------------------------------------------- */

static inline sefl_status as_run_put(void *ctx, as_record what, uint64_t round, uint64_t attempt,
                                     sefl_span bytes)
{
    as_run *r = ctx;
    if (r->put)
        SEFL_PASS(r->put(r, what, round, attempt, bytes));
    return r->under.put(r->under.ctx, what, round, attempt, bytes);
}

static inline sefl_status as_run_get(void *ctx, as_record what, uint64_t round, sefl_buf *out)
{
    as_run *r = ctx;
    if (r->get)
        SEFL_PASS(r->get(r, what));
    return r->under.get(r->under.ctx, what, round, out);
}

static inline sefl_status as_run_row_put(void *ctx, const as_row *row)
{
    const as_store *s = &((as_run *)ctx)->under;
    return s->row_put(s->ctx, row);
}

static inline sefl_status as_run_row_get(void *ctx, uint64_t round, as_row *out)
{
    const as_store *s = &((as_run *)ctx)->under;
    return s->row_get(s->ctx, round, out);
}

static inline sefl_status as_run_step(void *ctx, const as_row *row, sefl_span memory,
                                      sefl_span model)
{
    as_run *r = ctx;
    sefl_status st = r->step ? r->step(r, row) : SEFL_OK;
    return st == SEFL_OK ? r->under.step(r->under.ctx, row, memory, model) : st;
}

static inline sefl_status as_run_wipe(void *ctx, uint64_t round)
{
    const as_store *s = &((as_run *)ctx)->under;
    return s->wipe(s->ctx, round);
}

static inline sefl_status as_run_history_keep(void *ctx, uint64_t from, uint64_t to)
{
    const as_store *s = &((as_run *)ctx)->under;
    return s->history_keep(s->ctx, from, to);
}

/* ---- ports: uploads -------------------------------------------------------------------------- */

/* All clients upload as soon as the round is open; it closes at its deadline. */
static inline sefl_status as_run_accept(void *ctx, const round_header *h, sefl_span both)
{
    as_run *r = ctx;
    (void)both;
    r->open(r, h);
    return agg_on(as_rounds_agg(r->rounds),
                  &(agg_event){ .kind = AGG_UPDATE, .round = h->round, .clients = r->up.clients },
                  clock_ms(&r->wall));
}

static inline sefl_status as_run_restore(void *ctx, uint64_t round, uint32_t *clients)
{
    as_run *r = ctx;
    sefl_buf both = { 0 };
    round_header h;
    sefl_status st = r->under.get(r->under.ctx, AS_HEADER, round, &both);
    if (st == SEFL_OK)
        st = as_run_header(&h, buf_span(&both));
    buf_clear(&both);
    SEFL_PASS(st);
    r->open(r, &h);
    *clients = r->up.clients;
    return SEFL_OK;
}

static inline sefl_status as_run_freeze(void *ctx, uint64_t round)
{
    as_run *r = ctx;
    (void)round;
    SEFL_PASS(as_rounds_send_heads(r->rounds));
    if (r->frozen)
        r->frozen(r);
    return SEFL_OK;
}

static inline bool as_run_arrived(void *ctx, uint64_t round, uint32_t i, round_entry *out)
{
    const as_run *r = ctx;
    (void)round;
    if (!r->up.heads || i >= r->early)
        return false;
    *out = r->up.set[i];
    return true;
}

static inline sefl_status as_run_forget(void *ctx, uint64_t round)
{
    (void)ctx, (void)round;
    return SEFL_OK;
}

static inline sefl_status as_run_sum(void *ctx, uint64_t round, ahe_sum **out)
{
    as_run *r = ctx;
    (void)round;
    *out = r->up.closed;
    return r->sum ? r->sum(r) : SEFL_OK;
}

static inline sefl_status as_run_head(void *ctx, uint64_t round, const round_entry *e, uint8_t *out)
{
    as_run *r = ctx;
    sefl_status st = r->head ? r->head(r) : SEFL_OK;
    return st == SEFL_OK ? r->memory.head(ctx, round, e, out) : st;
}

/* ---- ports: model, time, hooks --------------------------------------------------------------- */

static inline sefl_status as_run_release(void *ctx, const release_from *from, uint64_t round,
                                         const int64_t *w, uint32_t clients, release_made *out)
{
    as_run *r = ctx;
    (void)from;
    r->clients = clients;
    out->hash[0] = (uint8_t)round;
    if (r->w)
        memcpy(r->w, w, r->c.task->values * sizeof *w);
    return r->release ? r->release(r, round, w) : SEFL_OK;
}

static inline uint64_t as_run_wall(void *self)
{
    return ((const as_run *)self)->now_ms * 1000000;
}

static inline sefl_status as_run_wait(void *ctx, uint64_t until_ms)
{
    as_run *r = ctx;
    SEFL_NEED(until_ms != UINT64_MAX, SEFL_ESTATE, "test: AS waits for an event that never comes");
    r->now_ms = until_ms > r->now_ms ? until_ms : r->now_ms;
    return SEFL_OK;
}

static inline void as_run_between(void *ctx, as_link *link)
{
    as_run *r = ctx;
    if (r->between)
        r->between(r, link);
    if (r->until_round > 0 && as_run_is_at(r, r->until_round, r->until)) {
        r->there = true;
        as_rounds_stop(r->rounds);
    }
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* Runs until the machine is in this phase of this round. */
static inline sefl_status as_run_until(as_run *r, uint64_t round, agg_phase phase)
{
    static const as_model model = { .release = as_run_release };
    r->store = (as_store){ .ctx = r,
                           .place = r->under.place,
                           .put = as_run_put,
                           .get = as_run_get,
                           .row_put = as_run_row_put,
                           .row_get = as_run_row_get,
                           .step = as_run_step,
                           .wipe = as_run_wipe,
                           .history_keep = as_run_history_keep };
    r->uploads = as_uploads_memory_calls((as_uploads){ .accept = as_run_accept,
                                                       .restore = as_run_restore,
                                                       .freeze = as_run_freeze,
                                                       .forget = as_run_forget,
                                                       .refused = r->refused,
                                                       .take_off = r->take_off });
    r->memory = r->uploads;
    r->uploads.arrived = as_run_arrived;
    r->uploads.head = as_run_head;
    r->uploads.sum = as_run_sum;
    r->wall = (sefl_clock){ .now_ns = as_run_wall, .self = r };
    r->mono = clock_monotonic();
    r->now_ms = r->now_ms > 0 ? r->now_ms : 1;
    r->until_round = round, r->until = phase, r->there = false;
    r->c.ctx = r, r->c.store = &r->store, r->c.uploads = &r->uploads, r->c.model = &model;
    r->c.wait = as_run_wait, r->c.between = as_run_between;
    r->c.wall = &r->wall, r->c.mono = &r->mono;
    sefl_status st = as_rounds_new(&r->rounds, &r->c);
    if (st == SEFL_OK)
        st = as_rounds_run(r->rounds);
    as_rounds_free(r->rounds), r->rounds = NULL;
    if (st == SEFL_ECANCELLED && r->there)
        return SEFL_OK;
    return st == SEFL_OK && round > 0 ? sefl_fail(SEFL_ESTATE, "test: the task ended first") : st;
}

/* Runs until the task is over. */
static inline sefl_status as_run_all(as_run *r)
{
    return as_run_until(r, 0, AGG_DONE);
}

#endif
