/* The aggregation server's decisions.
 *
 * Two things can be under way at a time: one order that uses the link to CSP (DIAL, SIGN, REVEAL,
 * SKIP) and one that does not (FREEZE, RELEASE, FINISH). Invariants:
 *   1. The machine gives an order once, and again only after the event that ended it (LINK_DOWN,
 *      REVEAL_FAILED), or after agg_restore in another object.
 *   2. Rounds and, within a round, attempts only grow: every REVEAL has a new attempt number,
 *      unless the one before did not begin.
 *   3. REVEAL is given only for a set that was frozen with at least `threshold` clients.
 *   4. A round that was in SKIPPING is never revealed: SKIPPING leads to the next round or to DONE.
 *   5. `why` is set before DONE when the task ends after the current round.
 *   6. While `paused`, no SIGN is given; `drop` is set only for a round in progress. */
#include "sum/agg.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

enum {
    SKIPPED_IN_ROW_MAX = 10,
    BACKOFF_MS = 500,  /* doubled with each failure */
    BACKOFF_STEPS = 7, /* up to 64 s */
    PUT_OFF_MS = 8000, /* longest delay while CSP's operator pauses the task */
};

struct agg {
    const task *t;
    agg_memory m;
    bool linked, finished;
    bool put_off; /* CSP refused the latest SIGN because its operator has paused the task */
    agg_order_kind link_busy, local_busy;  /* AGG_WAIT: nothing */
    unsigned dial_failures, work_failures; /* in a row */
    uint64_t retry_ms;                     /* no order on the link before this */
    uint32_t expected;                     /* clients in this round; UINT32_MAX: not known */
    const agg_event *event;                /* that agg_on handles */
    uint64_t now;                          /* its time */
};

const char *agg_why_text(agg_why w)
{
    static const char *const texts[AGG_WHYS] = {
        [AGG_WHY_NONE] = "not over",
        [AGG_WHY_ROUNDS] = "all rounds are done",
        [AGG_WHY_BUDGET] = "the privacy budget is spent",
        [AGG_WHY_CONVERGED] = "the model no longer improves on the validation text",
        [AGG_WHY_TOO_FEW] = "too many rounds in a row were skipped",
        [AGG_WHY_STOPPED] = "stopped by its operator",
        [AGG_WHY_BLOCKED] = "the release check blocked three rounds in a row",
        [AGG_WHY_CSP] = "ended by CSP's operator",
    };
    return (unsigned)w < AGG_WHYS ? texts[w] : "?";
}

const char *agg_verdict_text(agg_verdict v)
{
    static const char *const texts[] = {
        [AGG_ADMIT] = "welcome",
        [AGG_HAVE] = "AS already has this update",
        [AGG_OTHER] = "this client has already uploaded another update in this round",
        [AGG_LATE] = "this round is closed",
        [AGG_EARLY] = "this round is not open yet",
        [AGG_SIZE] = "the upload does not have the size of this task's updates",
        [AGG_LIMIT] = "this client has taken part in as many rounds as the task allows",
        [AGG_SOON] = "this client took part too few rounds ago: the task lets clients take turns",
        [AGG_FULL] = "this round already has the maximum number of clients",
        [AGG_OVER] = "the task is over",
        [AGG_COPIED] = "another update has the same bytes",
    };
    return (unsigned)v < sizeof texts / sizeof *texts ? texts[v] : "?";
}

/* ---- moves ----------------------------------------------------------------------------------- */

static void back_off(agg *a, unsigned *failures)
{
    unsigned steps = *failures < BACKOFF_STEPS ? *failures : BACKOFF_STEPS;
    a->retry_ms = a->now + ((uint64_t)BACKOFF_MS << steps);
    (*failures)++;
}

/* An order on the link succeeded. */
static void worked(agg *a)
{
    a->work_failures = 0;
    a->retry_ms = 0;
}

static void agg_finish(agg *a, agg_why why)
{
    a->m.phase = AGG_DONE;
    a->m.why = why;
}

bool agg_may_close(const task *t)
{
    return !t->amplified;
}

uint32_t agg_closes_at(const agg *a)
{
    const task *t = a->t;
    if (a->m.phase == AGG_COLLECTING && a->m.extensions > 0 && agg_may_close(t))
        return t->threshold;
    if (t->enough == 0 || a->expected >= t->enough)
        return t->enough;
    return a->expected > t->threshold ? a->expected : t->threshold;
}

/* True if the open round need not wait for its deadline. */
static bool has_enough(const agg *a)
{
    const uint32_t n = agg_closes_at(a);
    return n > 0 && a->m.clients >= n;
}

/* After a round was released, blocked or skipped. */
static void next_round(agg *a)
{
    a->m.drop = false;
    a->expected = UINT32_MAX;
    if (a->m.why != AGG_WHY_NONE) {
        agg_finish(a, a->m.why);
    } else if (a->m.skipped_in_row >= SKIPPED_IN_ROW_MAX) {
        agg_finish(a, AGG_WHY_TOO_FEW);
    } else if (a->m.blocked_in_row >= AGG_BLOCKED_IN_ROW_MAX) {
        agg_finish(a, AGG_WHY_BLOCKED);
    } else if (a->t->patience > 0 && a->m.rounds_without_gain >= a->t->patience) {
        agg_finish(a, AGG_WHY_CONVERGED);
    } else if (a->m.round >= a->t->rounds) {
        agg_finish(a, AGG_WHY_ROUNDS);
    } else {
        a->m.round++;
        a->m.attempt = 0;
        a->m.deadline_ms = 0;
        a->m.extensions = a->m.clients = 0;
        a->m.phase = AGG_SIGNING;
    }
}

/* Applies what follows from the time alone. */
static void tick(agg *a, uint64_t now)
{
    const task *t = a->t;
    uint64_t longest = t->deadline_ms > t->extend_ms ? t->deadline_ms : t->extend_ms;
    /* a clock that was set back must not lengthen a wait */
    if (a->retry_ms > now + ((uint64_t)BACKOFF_MS << BACKOFF_STEPS))
        a->retry_ms = now;
    if (a->m.phase < AGG_COLLECTING && a->m.why != AGG_WHY_NONE && a->link_busy != AGG_SIGN)
        agg_finish(a, a->m.why); /* no round is in progress */
    if (a->m.phase != AGG_COLLECTING)
        return;
    if (a->m.drop) {
        a->m.phase = AGG_SKIPPING;
        return;
    }
    if (a->m.deadline_ms > now + longest)
        a->m.deadline_ms = now + longest;
    if (has_enough(a)) {
        a->m.phase = AGG_FREEZING;
    } else if (now < a->m.deadline_ms) {
        return;
    } else if (a->m.clients >= t->threshold) {
        a->m.phase = AGG_FREEZING;
    } else if (a->m.extensions < t->extensions) {
        a->m.extensions++;
        a->m.deadline_ms = now + t->extend_ms;
    } else {
        a->m.phase = AGG_SKIPPING;
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static void link_up(agg *a)
{
    a->linked = true;
    a->dial_failures = 0;
    if (a->link_busy == AGG_DIAL)
        a->link_busy = AGG_WAIT;
    if (a->m.phase == AGG_STARTING)
        a->m.phase = AGG_SIGNING;
}

/* Ends the order that was under way on the link. */
static void link_down(agg *a)
{
    if (a->link_busy == AGG_DIAL)
        back_off(a, &a->dial_failures);
    else if (a->link_busy != AGG_WAIT)
        back_off(a, &a->work_failures);
    a->linked = false;
    a->link_busy = AGG_WAIT;
}

static void signed_(agg *a)
{
    a->link_busy = AGG_WAIT;
    a->put_off = false;
    worked(a);
    a->m.phase = AGG_COLLECTING;
    a->m.clients = a->m.extensions = 0;
    a->m.deadline_ms = a->now + a->t->deadline_ms;
}

static void update(agg *a)
{
    if (a->m.phase == AGG_COLLECTING) /* later FROZEN reports the number in the set */
        a->m.clients = a->event->clients;
}

static void frozen(agg *a)
{
    a->local_busy = AGG_WAIT;
    a->m.clients = a->event->clients;
    bool fits = a->m.clients >= a->t->threshold && a->m.clients <= a->t->clients_max;
    a->m.phase = fits ? AGG_REVEALING : AGG_SKIPPING;
}

static void revealed(agg *a)
{
    if (a->link_busy == AGG_REVEAL)
        a->link_busy = AGG_WAIT;
    worked(a);
    a->m.phase = AGG_RELEASING;
}

static void reveal_failed(agg *a)
{
    if (a->link_busy != AGG_REVEAL)
        return; /* LINK_DOWN ended it */
    a->link_busy = AGG_WAIT;
    a->m.attempt -= a->event->now;
    back_off(a, &a->work_failures);
}

static void lost(agg *a)
{
    if (a->m.phase == AGG_FREEZING || a->m.phase == AGG_SKIPPING)
        return; /* the round closed while the driver dialled; CSP answers the SET accordingly */
    if (a->link_busy == AGG_REVEAL || a->link_busy == AGG_SIGN)
        a->link_busy = AGG_WAIT;
    a->m.phase = AGG_SKIPPING;
}

static void budget(agg *a)
{
    a->link_busy = AGG_WAIT;
    a->m.why = AGG_WHY_BUDGET;
    a->m.phase = a->m.phase == AGG_SIGNING ? AGG_DONE : AGG_SKIPPING;
}

static void released(agg *a)
{
    double perplexity = a->event->perplexity;
    a->local_busy = AGG_WAIT;
    a->m.skipped_in_row = a->m.blocked_in_row = 0;
    if (a->event->has_perplexity) {
        bool better = isfinite(perplexity) && perplexity > 0 &&
                      (a->m.best_perplexity == 0 || perplexity < a->m.best_perplexity);
        if (better)
            a->m.best_perplexity = perplexity;
        a->m.rounds_without_gain = better ? 0 : a->m.rounds_without_gain + 1;
    }
    next_round(a);
}

static void blocked(agg *a)
{
    a->local_busy = AGG_WAIT;
    a->m.skipped_in_row = 0;
    a->m.blocked_in_row++;
    next_round(a);
}

static void skipped(agg *a)
{
    a->link_busy = AGG_WAIT;
    worked(a);
    a->m.skipped_in_row += !a->m.drop;
    next_round(a);
}

static void put_off(agg *a)
{
    if (a->link_busy != AGG_SIGN)
        return; /* LINK_DOWN ended it */
    a->link_busy = AGG_WAIT;
    a->put_off = true;
    back_off(a, &a->work_failures);
    if (a->retry_ms > a->now + PUT_OFF_MS)
        a->retry_ms = a->now + PUT_OFF_MS;
}

static void left(agg *a)
{
    a->link_busy = AGG_WAIT;
    agg_finish(a, a->m.why == AGG_WHY_NONE ? AGG_WHY_CSP : a->m.why);
}

/* With `now`: drops the round in progress, unless its set is frozen. tick does the rest. */
static void drop(agg *a)
{
    bool open = a->m.phase == AGG_COLLECTING || a->link_busy == AGG_SIGN;
    if (a->event->now && open)
        a->m.drop = true;
}

static void stop(agg *a)
{
    if (a->m.phase == AGG_DONE)
        return;
    if (a->m.why == AGG_WHY_NONE)
        a->m.why = AGG_WHY_STOPPED;
    drop(a);
}

static void pause_(agg *a)
{
    if (a->m.phase == AGG_DONE)
        return;
    a->m.paused = true;
    drop(a);
}

static void resume(agg *a)
{
    a->m.paused = false;
    if (a->put_off)
        worked(a); /* asks CSP again at once */
    a->put_off = false;
    if (a->m.phase == AGG_SIGNING && a->m.why == AGG_WHY_NONE)
        a->m.drop = false; /* a header is being signed: the round may open after all */
}

static void close_(agg *a)
{
    if (a->m.phase == AGG_COLLECTING && a->event->round == a->m.round && !a->m.drop &&
        a->m.clients >= a->t->threshold && agg_may_close(a->t))
        a->m.phase = AGG_FREEZING;
}

static void expect(agg *a)
{
    if (a->event->round == a->m.round)
        a->expected = a->event->clients;
}

#define IN(phase) (1u << AGG_##phase)

/* The handler of each event, and the phases that accept it. */
static const struct {
    void (*handle)(agg *a);
    unsigned phases;
} table[AGG_EVENTS] = {
    [AGG_LINK_UP] = { link_up, ~0u },
    [AGG_LINK_DOWN] = { link_down, ~0u },
    [AGG_STOP] = { stop, ~0u },
    [AGG_PAUSE] = { pause_, ~0u },
    [AGG_RESUME] = { resume, ~0u },
    [AGG_CLOSE] = { close_, ~0u },
    [AGG_EXPECT] = { expect, ~0u },
    [AGG_PUT_OFF] = { put_off, IN(SIGNING) },
    [AGG_LEFT] = { left, IN(SIGNING) },
    [AGG_SIGNED] = { signed_, IN(SIGNING) },
    [AGG_UPDATE] = { update, IN(COLLECTING) | IN(FREEZING) },
    [AGG_FROZEN] = { frozen, IN(FREEZING) },
    [AGG_REVEALED] = { revealed, IN(REVEALING) },
    [AGG_REVEAL_FAILED] = { reveal_failed, IN(REVEALING) },
    [AGG_LOST] = { lost,
                   IN(SIGNING) | IN(COLLECTING) | IN(FREEZING) | IN(REVEALING) | IN(SKIPPING) },
    [AGG_BUDGET] = { budget, IN(SIGNING) | IN(COLLECTING) | IN(REVEALING) },
    [AGG_RELEASED] = { released, IN(RELEASING) },
    [AGG_BLOCKED] = { blocked, IN(RELEASING) },
    [AGG_SKIPPED] = { skipped, IN(SKIPPING) },
};

static const char *const phase_names[AGG_PHASES] = { "starting", "signing",   "collecting",
                                                     "freezing", "revealing", "releasing",
                                                     "skipping", "done" };

const char *agg_phase_name(agg_phase phase)
{
    return (unsigned)phase < AGG_PHASES ? phase_names[phase] : "?";
}

sefl_status agg_on(agg *a, const agg_event *e, uint64_t now_ms)
{
    SEFL_NEED((unsigned)e->kind < AGG_EVENTS, SEFL_EINVAL, "unknown event %d", (int)e->kind);
    bool any_round = table[e->kind].phases == ~0u;
    if (!any_round && e->round != a->m.round)
        return SEFL_OK;
    SEFL_NEED(table[e->kind].phases & (1u << a->m.phase), SEFL_ESTATE,
              "event %d does not belong to the phase %s", (int)e->kind, agg_phase_name(a->m.phase));
    SEFL_NEED(e->kind != AGG_FROZEN || e->clients > 0, SEFL_EINVAL,
              "FROZEN needs the number of clients in the set");
    a->event = e, a->now = now_ms;
    table[e->kind].handle(a);
    a->event = NULL;
    tick(a, now_ms);
    return SEFL_OK;
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* What each phase wants from CSP, and from this server; AGG_WAIT (0): nothing. */
static const struct {
    agg_order_kind link, local;
} wishes[AGG_PHASES] = {
    [AGG_STARTING] = { .link = AGG_DIAL },    [AGG_SIGNING] = { .link = AGG_SIGN },
    [AGG_COLLECTING] = { .link = AGG_DIAL },  [AGG_FREEZING] = { .local = AGG_FREEZE },
    [AGG_REVEALING] = { .link = AGG_REVEAL }, [AGG_RELEASING] = { .local = AGG_RELEASE },
    [AGG_SKIPPING] = { .link = AGG_SKIP },    [AGG_DONE] = { .local = AGG_FINISH },
};

static agg_order_kind link_wish(const agg *a)
{
    bool idle = a->m.phase == AGG_COLLECTING || (a->m.phase == AGG_SIGNING && a->m.paused);
    bool only_there = idle && a->linked; /* the link is up: enough */
    return only_there ? AGG_WAIT : wishes[a->m.phase].link;
}

static agg_order_kind local_wish(const agg *a)
{
    return a->m.phase == AGG_DONE && a->finished ? AGG_WAIT : wishes[a->m.phase].local;
}

agg_order agg_next(agg *a, uint64_t now_ms)
{
    tick(a, now_ms);
    agg_order o = { .kind = AGG_WAIT, .round = a->m.round, .until_ms = UINT64_MAX };
    agg_order_kind local = local_wish(a), wish = link_wish(a);

    if (local != AGG_WAIT && a->local_busy == AGG_WAIT) {
        o.kind = a->local_busy = local;
        o.attempt = a->m.attempt;
        o.why = a->m.phase == AGG_DONE ? a->m.why : AGG_WHY_NONE;
        if (local == AGG_FINISH) /* no event ends it */
            a->finished = true, a->local_busy = AGG_WAIT;
        return o;
    }
    if (wish != AGG_WAIT && a->link_busy == AGG_WAIT && now_ms >= a->retry_ms) {
        o.kind = a->link_busy = a->linked ? wish : AGG_DIAL;
        if (o.kind == AGG_REVEAL)
            a->m.attempt++;
        o.attempt = a->m.attempt;
        return o;
    }
    if (wish != AGG_WAIT && a->link_busy == AGG_WAIT)
        o.until_ms = a->retry_ms;
    if (a->m.phase == AGG_COLLECTING && a->m.deadline_ms < o.until_ms)
        o.until_ms = a->m.deadline_ms;
    return o;
}

/* ---- objects --------------------------------------------------------------------------------- */

sefl_status agg_new(agg **out, const task *t)
{
    agg *a = NULL;
    SEFL_PASS(sefl_make(out, &a));
    a->t = t;
    a->m.round = 1;
    a->expected = UINT32_MAX;
    a->link_busy = a->local_busy = AGG_WAIT;
    *out = a;
    return SEFL_OK;
}

void agg_free(agg *a)
{
    sefl_free(a);
}

sefl_status agg_restore(agg *a, const agg_memory *m, uint64_t now_ms)
{
    if (m->phase == AGG_STARTING && m->round == 0)
        return SEFL_OK; /* a new task */
    SEFL_NEED((unsigned)m->phase < AGG_PHASES && m->round >= 1 && m->round <= a->t->rounds &&
                  (unsigned)m->why < AGG_WHYS && (m->phase != AGG_DONE || m->why != AGG_WHY_NONE),
              SEFL_EINVAL, "the stored state does not belong to this task: phase %d, round %llu",
              (int)m->phase, (unsigned long long)m->round);
    SEFL_NEED(m->phase != AGG_REVEALING ||
                  (m->clients >= a->t->threshold && m->clients <= a->t->clients_max),
              SEFL_EINVAL,
              "the stored state does not belong to this task: it reveals a set of %u clients",
              m->clients);
    if (m->round != a->m.round)
        a->expected = UINT32_MAX;
    a->m = *m;
    a->linked = a->finished = a->put_off = false;
    a->link_busy = a->local_busy = AGG_WAIT;
    a->dial_failures = 0;
    worked(a);
    tick(a, now_ms);
    return SEFL_OK;
}

agg_memory agg_remember(const agg *a)
{
    return a->m;
}

agg_phase agg_get_phase(const agg *a)
{
    return a->m.phase;
}

uint64_t agg_round(const agg *a)
{
    return a->m.round;
}

uint64_t agg_deadline_ms(const agg *a)
{
    return a->m.phase == AGG_COLLECTING ? a->m.deadline_ms : 0;
}

bool agg_is_paused(const agg *a, bool *by_csp)
{
    bool between = a->m.phase < AGG_COLLECTING && a->m.why == AGG_WHY_NONE;
    if (by_csp)
        *by_csp = between && !a->m.paused && a->put_off;
    return between && (a->m.paused || a->put_off);
}

/* ---- uploads --------------------------------------------------------------------------------- */

/* True if the round accepts updates now. After the deadline it does only if it will be
 * extended. */
static bool is_open(const agg *a, uint64_t now)
{
    const task *t = a->t;
    if (a->m.phase != AGG_COLLECTING || has_enough(a))
        return false;
    return now < a->m.deadline_ms ||
           (a->m.clients < t->threshold && a->m.extensions < t->extensions);
}

agg_verdict agg_admit(const agg *a, const agg_upload *u, uint64_t now_ms)
{
    const task *t = a->t;
    if (u->have) /* even if the round or the task is over: the receipt stays valid */
        return memcmp(u->body, u->have_body, sizeof u->body) == 0 ? AGG_HAVE : AGG_OTHER;
    if (a->m.phase == AGG_DONE)
        return AGG_OVER;
    if (u->round < a->m.round)
        return AGG_LATE;
    if (u->round > a->m.round || a->m.phase < AGG_COLLECTING)
        return AGG_EARLY;
    if (!is_open(a, now_ms))
        return AGG_LATE;
    if (u->bytes != task_body_bytes(t))
        return AGG_SIZE;
    if (t->max_rounds_per_client > 0 && u->rounds_taken >= t->max_rounds_per_client)
        return AGG_LIMIT;
    if (task_is_soon(t, u->last_taken, u->round))
        return AGG_SOON;
    if (a->m.clients >= t->clients_max)
        return AGG_FULL;
    return AGG_ADMIT;
}

bool agg_is_linked(const agg *a)
{
    return a->linked;
}
