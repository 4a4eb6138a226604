/* A client's decisions. Invariants:
 *   1. A client flips a round's coin once and trains it at most once; rounds only grow (`done`).
 *   2. Once TRAINED, the only order is to UPLOAD those bytes, until a receipt or a refusal.
 *   3. The client retries every failure after a pause; only a signed end and the task's own limits
 *      stop it. */
#include "protocol/participant.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

typedef enum phase { P_POLL, P_MODEL, P_TRAIN, P_UPLOAD, P_STOPPED, PHASES } phase;

enum {
    BACKOFF_MS = 1000, /* doubled with each failure, and between half and all of it drawn */
    BACKOFF_STEPS = 8, /* up to 256 s */
    POLL_PAUSE_MS = 250,
};

struct participant {
    const task *t;
    sefl_rng jitter;
    phase phase;
    uint64_t round;       /* MODEL, TRAIN, UPLOAD */
    uint64_t done;        /* highest round that is dealt with */
    uint64_t deadline_ms; /* of `round`; UINT64_MAX: not known */
    uint64_t rounds_done; /* rounds that this client is in */
    bool stays;           /* waits for the end when it is spent */
    uint64_t coin_round;  /* the coin of this round ... */
    bool drawn;           /* ... */
    unsigned failures;
    uint64_t retry_ms;
    char why[128];
};

/* ---- moves ----------------------------------------------------------------------------------- */

static void stopped(participant *m, const char *why)
{
    m->phase = P_STOPPED;
    snprintf(m->why, sizeof m->why, "%s", why);
}

/* Draws a time from ms / 2 to ms, so that clients that failed together do not retry together. */
static sefl_status pause_ms(participant *m, uint64_t ms, uint64_t now)
{
    uint64_t extra = 0;
    sefl_status st = rng_below(&m->jitter, &extra, ms / 2 + 1);
    m->retry_ms = now + ms / 2 + extra;
    return st;
}

static sefl_status back_off(participant *m, uint64_t now)
{
    unsigned n = m->failures < BACKOFF_STEPS ? m->failures : BACKOFF_STEPS;
    m->failures++;
    return pause_ms(m, (uint64_t)BACKOFF_MS << n, now);
}

static void worked(participant *m, phase next)
{
    m->failures = 0;
    m->retry_ms = 0;
    m->phase = next;
}

static void done_with_round(participant *m)
{
    m->done = m->round > m->done ? m->round : m->done;
    worked(m, P_POLL);
}

/* ---- events ---------------------------------------------------------------------------------- */

static sefl_status not_accepted(participant *m, sefl_status why, uint64_t now)
{
    sefl_status st = back_off(m, now);
    return st != SEFL_OK ? st : why;
}

/* Whatever else the news says, only AS's signature under the end of this task ends it. */
static sefl_status over(participant *m, const participant_event *e, uint64_t now)
{
    round_end end;
    sefl_status st = e->checked ? SEFL_OK : participant_end_check(m->t, &end, e->news->header);
    if (st != SEFL_OK)
        return not_accepted(m, st, now);
    stopped(m, e->news->why[0] ? e->news->why : "the task is over");
    return SEFL_OK;
}

static sefl_status open_round(participant *m, const participant_event *e, uint64_t now)
{
    const round_news *n = e->news;
    const task *t = m->t;
    round_header h;
    if (n->round <= m->done || n->left_ms == 0)
        return pause_ms(m, POLL_PAUSE_MS, now);
    sefl_status st = e->checked ? SEFL_OK : participant_header_check(t, &h, n->header, n->round);
    if (st != SEFL_OK)
        return not_accepted(m, st, now);
    if (participant_is_spent(m) && !m->stays) {
        stopped(m, "this client has taken part in as many rounds as the task allows");
        return SEFL_OK;
    }
    if (participant_is_spent(m)) {
        m->round = n->round;
        done_with_round(m);
        return SEFL_OK;
    }
    if (m->coin_round != n->round) { /* a coin is flipped once */
        m->coin_round = n->round;
        m->drawn = e->drawn || (t->sampling == TASK_ALL && t->separation <= 1);
    }
    m->round = n->round;
    if (!m->drawn) { /* not selected, or not its turn */
        done_with_round(m);
        return SEFL_OK;
    }
    m->deadline_ms = n->left_ms < UINT64_MAX - now ? now + n->left_ms : UINT64_MAX;
    worked(m, P_MODEL);
    return SEFL_OK;
}

static sefl_status got_news(participant *m, const participant_event *e, uint64_t now)
{
    switch (e->news->state) {
    case ROUND_OPEN:
        return open_round(m, e, now);
    case ROUND_OVER:
        return over(m, e, now);
    case ROUND_WAITING:
    case ROUND_CLOSED:
    case ROUND_PAUSED:
        break;
    }
    worked(m, P_POLL);
    return pause_ms(m, POLL_PAUSE_MS, now); /* in case AS answers at once */
}

/* Each phase: its order, its name, and the events that it accepts. */
#define ON(event) (1u << PARTICIPANT_##event)
static const struct {
    participant_order_kind order;
    const char *name;
    unsigned events;
} phases[PHASES] = {
    [P_POLL] = { PARTICIPANT_POLL, "polling", ON(GOT_NEWS) | ON(FAILED) },
    [P_MODEL] = { PARTICIPANT_FETCH_MODEL, "fetching a model",
                  ON(GOT_MODEL) | ON(REFUSED) | ON(FAILED) },
    [P_TRAIN] = { PARTICIPANT_TRAIN, "training", ON(TRAINED) | ON(REFUSED) | ON(FAILED) },
    [P_UPLOAD] = { PARTICIPANT_UPLOAD, "uploading", ON(GOT_RECEIPT) | ON(REFUSED) | ON(FAILED) },
    [P_STOPPED] = { PARTICIPANT_STOP, "stopped", 0 },
};

sefl_status participant_on(participant *m, const participant_event *e, uint64_t now_ms)
{
    SEFL_NEED((unsigned)e->kind <= PARTICIPANT_FAILED, SEFL_EINVAL, "unknown event %d",
              (int)e->kind);
    SEFL_NEED(e->kind != PARTICIPANT_GOT_NEWS || e->news, SEFL_EINVAL, "the news are missing");
    SEFL_NEED(phases[m->phase].events >> e->kind & 1, SEFL_ESTATE, "event %d is invalid while %s",
              (int)e->kind, phases[m->phase].name);
    switch (e->kind) {
    case PARTICIPANT_GOT_NEWS:
        return got_news(m, e, now_ms);
    case PARTICIPANT_GOT_MODEL:
        worked(m, P_TRAIN);
        break;
    case PARTICIPANT_TRAINED:
        worked(m, P_UPLOAD);
        break;
    case PARTICIPANT_GOT_RECEIPT:
        m->rounds_done++;
        done_with_round(m);
        break;
    case PARTICIPANT_REFUSED:
        /* before UPLOAD nothing has left, and a charge without its body was counted at the start */
        m->rounds_done += m->phase == P_UPLOAD && e->charged;
        done_with_round(m);
        break;
    case PARTICIPANT_FAILED:
        return back_off(m, now_ms);
    }
    return SEFL_OK;
}

/* ---- orders ---------------------------------------------------------------------------------- */

participant_order participant_next(participant *m, uint64_t now_ms)
{
    if ((m->phase == P_MODEL || m->phase == P_TRAIN) && now_ms >= m->deadline_ms)
        worked(m, P_POLL); /* this round again if it was extended; nothing of it was encrypted */
    if (m->retry_ms > now_ms + ((uint64_t)BACKOFF_MS << BACKOFF_STEPS))
        m->retry_ms = now_ms; /* the clock was set back */
    participant_order o = { .kind = phases[m->phase].order };
    if (m->phase == P_STOPPED) {
        o.why = m->why;
    } else if (now_ms < m->retry_ms) {
        o.kind = PARTICIPANT_SLEEP;
        o.until_ms = m->retry_ms;
    }
    o.round = m->phase == P_POLL ? m->done : m->round;
    return o;
}

/* ---- objects --------------------------------------------------------------------------------- */

sefl_status participant_new(participant **out, const task *t, uint64_t rounds_done,
                            const sefl_rng *jitter)
{
    participant *m = NULL;
    SEFL_PASS(sefl_make(out, &m));
    m->t = t;
    m->jitter = *jitter;
    m->rounds_done = rounds_done;
    m->deadline_ms = UINT64_MAX;
    *out = m;
    return SEFL_OK;
}

void participant_free(participant *m)
{
    sefl_free(m);
}

void participant_stay(participant *m)
{
    m->stays = true;
}

bool participant_is_spent(const participant *m)
{
    const uint64_t most = m->t->max_rounds_per_client;
    return most > 0 && m->rounds_done >= most;
}

void participant_restore(participant *m, uint64_t round, bool receipt)
{
    if (receipt) {
        m->done = round > m->done ? round : m->done;
        return;
    }
    m->round = round;
    m->done = round > 0 ? round - 1 : 0;
    m->deadline_ms = UINT64_MAX; /* AS knows whether it is late */
    m->phase = P_UPLOAD;
}

sefl_status participant_header_check(const task *t, round_header *out, sefl_span bytes,
                                     uint64_t round)
{
    envelope env;
    round_header h;
    *out = (round_header){ 0 };
    SEFL_PASS(envelope_read(&env, bytes));
    SEFL_PASS(envelope_check(&env, SIGN_HEADER, &t->servers));
    SEFL_PASS(round_header_read(&h, env.content));
    SEFL_NEED(memcmp(h.task, t->id, sizeof h.task) == 0, SEFL_EAUTH,
              "the header of round %llu belongs to another task", (unsigned long long)round);
    SEFL_NEED(h.round == round, SEFL_EAUTH, "header of round %llu, but round %llu was announced",
              (unsigned long long)h.round, (unsigned long long)round);
    SEFL_NEED(h.round <= t->rounds, SEFL_EAUTH,
              "header of round %llu, but the task has %llu rounds", (unsigned long long)h.round,
              (unsigned long long)t->rounds);
    SEFL_NEED(h.step_nano == t->step_nano, SEFL_EAUTH,
              "the header of round %llu has another step size than the task",
              (unsigned long long)round);
    SEFL_NEED(h.suite == (t->seal ? t->seal->id : 0), SEFL_EAUTH,
              "the header of round %llu has no key of CSP for the seal that the task names (%s)",
              (unsigned long long)round, t->seal ? t->seal->name : "none");
    *out = h;
    return SEFL_OK;
}

sefl_status participant_end_check(const task *t, round_end *out, sefl_span bytes)
{
    envelope env;
    round_end e;
    *out = (round_end){ 0 };
    SEFL_PASS(envelope_read(&env, bytes));
    SEFL_PASS(envelope_check_one(&env, SIGN_END, SIGNER_AS, t->servers.as));
    SEFL_PASS(round_end_read(&e, env.content));
    SEFL_NEED(memcmp(e.task, t->id, sizeof e.task) == 0, SEFL_EAUTH,
              "the end belongs to another task");
    SEFL_NEED(e.round <= t->rounds, SEFL_EAUTH,
              "the end names round %llu, but the task has %llu rounds", (unsigned long long)e.round,
              (unsigned long long)t->rounds);
    *out = e;
    return SEFL_OK;
}
