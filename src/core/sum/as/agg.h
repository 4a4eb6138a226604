/* agg: makes the aggregation server's decisions: when a round opens, which uploads it admits, when
 * the round is closed, extended, skipped, revealed and released, and when the task ends. The state
 * machine owns no socket, clock, disk or key. It receives events with the current time and issues
 * orders, one at a time. The driver (sum/as_rounds.h) executes each order durably before it reports
 * back. Tests and fuzzers drive the same functions.
 *
 *     agg_order o = agg_next(a, now_ms);                 // what to do now
 *     ...execute o...
 *     SEFL_TRY(agg_on(a, &(agg_event){ AGG_SIGNED, ... }, now_ms));
 *
 *     phase        leaves on                                   to
 *     STARTING     LINK_UP: connected to CSP                   SIGNING
 *     SIGNING      SIGNED: both servers signed the header      COLLECTING
 *                  LOST: CSP no longer has its round key       SKIPPING
 *     COLLECTING   deadline with >= threshold, or `enough`     FREEZING
 *                  threshold reached after an extension (*)    FREEZING
 *                  CLOSE, with >= threshold (*)                FREEZING
 *                  deadline below it, extensions left          COLLECTING, later deadline
 *                  deadline below it, none left                SKIPPING
 *                  LOST: CSP no longer has its round key       SKIPPING
 *     FREEZING     FROZEN: the set is durable                  REVEALING
 *     REVEALING    REVEALED: the integers are durable          RELEASING
 *                  REVEAL_FAILED: no CSP, or a broken stream   REVEALING, next attempt
 *                  LOST: no attempt can succeed                SKIPPING
 *     RELEASING    RELEASED: the model is durable              SIGNING next round, or DONE
 *                  BLOCKED: the release check blocks the sum   the same; the model stays
 *     SKIPPING     SKIPPED                                     SIGNING next round, or DONE
 *     DONE         rounds, budget, convergence, too many skipped or blocked rounds, or an operator
 *     (*) unless the number of updates must stay unknown (agg_may_close)
 *
 * Noise shares (joint noise) belong to no round: the driver fills their pool in the background, and
 * REVEAL waits for missing ones.
 *
 * The machine issues each order once. The order is in progress until an event ends it; until then
 * agg_next returns WAIT. One order that uses the link (DIAL, SIGN, REVEAL, SKIP) and one that does
 * not (FREEZE, RELEASE) may be in progress at the same time: the driver may dial while it writes
 * the set.
 *
 *     order     ends with                       order     ends with
 *     DIAL      LINK_UP or LINK_DOWN            REVEAL    REVEALED, REVEAL_FAILED, LOST, BUDGET
 *     SIGN      SIGNED, BUDGET, LOST,           FREEZE    FROZEN, with the size of the set
 *               PUT_OFF or LEFT                 RELEASE   RELEASED or BLOCKED
 *     SKIP      SKIPPED                         FINISH    (nothing)
 *
 * LINK_DOWN makes the order in progress on the link fail; the machine repeats the order after a
 * delay that starts at half a second and doubles up to 64 s. The task ends after ten skipped rounds
 * in a row, or after three blocked rounds in a row (sum/release_check.h; skipped rounds between
 * them do not count).
 *
 * LOST may come late, after the round has closed: in FREEZING and SKIPPING it changes nothing. The
 * reveal meets the same answer of CSP again.
 *
 * BUDGET skips the round, from which nothing has been revealed, and ends the task; in SIGNING it
 * ends the task at once.
 *
 * EXPECT tells how many clients the round can still count on: those that have uploaded, and those
 * that may. A round closes with fewer updates than `enough` if it has one of each of them, but
 * never below the threshold. Nobody but AS reads `enough`, and AS decides anyway which uploads it
 * admits (docs/PROTOCOL.md).
 *
 * The operators' events. PAUSE and STOP let the round in progress end as usual; with `now` they
 * drop it (SKIPPING), but only while it is still collecting: a round whose set is frozen completes.
 * After PAUSE, no round begins until RESUME: the machine waits in SIGNING, where no deadline runs.
 * STOP ends the task, and nothing undoes it. A round dropped this way does not count as one of ten
 * skipped rounds. PUT_OFF: CSP's operator has paused the task, so the machine asks again after a
 * delay of at most 8 s, or at once after RESUME. LEFT: CSP's operator has ended it. CLOSE closes
 * `round` now, with the updates that it has, if it is collecting and they reach the threshold. A
 * repeated event changes nothing.
 *
 * agg_restore continues from a stored state. Whenever an event or agg_next changes the state, the
 * driver stores agg_remember before it executes the next order, so no attempt number is used twice.
 * agg_admit decides whether an upload is accepted.
 * Threads: one owner (the driver locks).   Secrets: none. */
#ifndef SUM_AGG_H
#define SUM_AGG_H

#include "protocol/round.h"
#include "protocol/task.h"

typedef enum agg_phase {
    AGG_STARTING,
    AGG_SIGNING,
    AGG_COLLECTING,
    AGG_FREEZING,
    AGG_REVEALING,
    AGG_RELEASING,
    AGG_SKIPPING,
    AGG_DONE,
    AGG_PHASES
} agg_phase;

typedef enum agg_event_kind {
    AGG_LINK_UP,
    AGG_LINK_DOWN,
    AGG_SIGNED,
    AGG_UPDATE,
    AGG_FROZEN,
    AGG_REVEALED,
    AGG_REVEAL_FAILED,
    AGG_LOST,
    AGG_BUDGET,
    AGG_RELEASED,
    AGG_BLOCKED,
    AGG_SKIPPED,
    AGG_PUT_OFF,
    AGG_LEFT,
    AGG_STOP,
    AGG_PAUSE,
    AGG_RESUME,
    AGG_CLOSE,
    AGG_EXPECT,
    AGG_EVENTS
} agg_event_kind;

typedef struct agg_event {
    agg_event_kind kind;
    uint64_t round;      /* except LINK_*, STOP, PAUSE, RESUME; that of another round is ignored */
    uint32_t clients;    /* UPDATE: number of durable updates; FROZEN: clients in the set, never 0;
                       * EXPECT: clients that the round can count on */
    bool has_perplexity; /* RELEASED: perplexity on the public validation text is known */
    double perplexity;
    bool now; /* PAUSE, STOP: drop a round that is still collecting. REVEAL_FAILED: the attempt did
               * not begin, and its number serves again */
} agg_event;

typedef enum agg_order_kind {
    AGG_WAIT,    /* do nothing until the next event or `until_ms` */
    AGG_DIAL,    /* connect to CSP */
    AGG_SIGN,    /* get the header of `round` signed */
    AGG_FREEZE,  /* write the set of `round` */
    AGG_REVEAL,  /* charge, then reveal `round` with `attempt` */
    AGG_RELEASE, /* apply the integers, write and publish the model */
    AGG_SKIP,    /* tell CSP, delete bodies */
    AGG_FINISH,  /* the task is over: `why` */
} agg_order_kind;

enum { AGG_BLOCKED_IN_ROW_MAX = 3 };

typedef enum agg_why {
    AGG_WHY_NONE,
    AGG_WHY_ROUNDS,
    AGG_WHY_BUDGET,
    AGG_WHY_CONVERGED,
    AGG_WHY_TOO_FEW,
    AGG_WHY_STOPPED,
    AGG_WHY_BLOCKED,
    AGG_WHY_CSP,
    AGG_WHYS
} agg_why;
const char *agg_why_text(agg_why w);

typedef struct agg_order {
    agg_order_kind kind;
    uint64_t round, attempt;
    uint64_t until_ms; /* UINT64_MAX: no limit */
    agg_why why;
} agg_order;

/* The state for agg_restore; all zero for a new task. Times are wall-clock milliseconds. */
typedef struct agg_memory {
    agg_phase phase;
    uint64_t round, attempt;
    uint64_t deadline_ms;
    uint32_t extensions, clients, skipped_in_row, blocked_in_row, rounds_without_gain;
    double best_perplexity; /* 0: none yet */
    agg_why why;            /* before DONE: why the task ends after this round */
    bool paused;            /* by AS's operator */
    bool drop;              /* the round in progress is dropped */
} agg_memory;

typedef struct agg agg;

/* The task must outlive the machine. */
sefl_status agg_new(agg **out, const task *t) SEFL_MUST_CHECK;
void agg_free(agg *a);
/* Call agg_restore first. In COLLECTING, m->clients must be the number of uploads now in the store.
 * SEFL_EINVAL if m is not a state of this task. */
sefl_status agg_restore(agg *a, const agg_memory *m, uint64_t now_ms) SEFL_MUST_CHECK;
agg_memory agg_remember(const agg *a);

/* An event that the current phase does not accept is SEFL_ESTATE and changes nothing. An event of
 * another round is a late answer: SEFL_OK, and nothing changes. */
sefl_status agg_on(agg *a, const agg_event *e, uint64_t now_ms) SEFL_MUST_CHECK;
agg_order agg_next(agg *a, uint64_t now_ms);

agg_phase agg_get_phase(const agg *a);
const char *agg_phase_name(agg_phase phase);
uint64_t agg_round(const agg *a);
uint64_t agg_deadline_ms(const agg *a); /* 0 unless COLLECTING */
/* The number of updates with which the open round closes before its deadline; 0: none does. */
uint32_t agg_closes_at(const agg *a);
/* False if no round may close because of the number of its updates: the amplified epsilon of open
 * sampling holds only while nobody but AS learns that number. */
bool agg_may_close(const task *t);
/* True if no round is in progress and an operator has to resume the task before one begins.
 * *by_csp (may be NULL): it is CSP's operator. */
bool agg_is_paused(const agg *a, bool *by_csp);

/* ---- uploads ------------------------------------------------------------------------------ */

typedef enum agg_verdict {
    AGG_ADMIT,  /* accept the body */
    AGG_HAVE,   /* this body is already durable: send its receipt again */
    AGG_OTHER,  /* another body from this client in this round is durable: refuse */
    AGG_LATE,   /* the round is closed or over */
    AGG_EARLY,  /* the round is not open yet */
    AGG_SIZE,   /* this task's updates have another size */
    AGG_LIMIT,  /* this client has taken part in max_rounds_per_client rounds */
    AGG_SOON,   /* this client took part less than rounds.separation rounds ago */
    AGG_FULL,   /* the round has clients_max clients */
    AGG_OVER,   /* the task is over */
    AGG_COPIED, /* another update has the same bytes (the caller detects that) */
} agg_verdict;
const char *agg_verdict_text(agg_verdict v);

typedef struct agg_upload {
    uint64_t round, bytes;
    uint8_t body[32];
    bool have;             /* the store has an update from this client in this round, */
    uint8_t have_body[32]; /* with this hash */
    uint64_t rounds_taken; /* number of rounds of this task that already count this client */
    uint64_t last_taken;   /* the last of them; 0: none */
} agg_upload;

/* Decides whether to accept an upload. The driver calls it when an upload begins, and again just
 * before it makes the upload durable, because the round may have closed or filled up meanwhile. */
agg_verdict agg_admit(const agg *a, const agg_upload *u, uint64_t now_ms);

/* True if the link to CSP is up. */
bool agg_is_linked(const agg *a);

#endif
