/* lanes: the servers make noise shares (mpc/noise/shares.h) beside the rounds, on their own
 * streams and threads, and keep them in a pool at each server (mpc/noise/pool.h). Only joint
 * noise needs lanes.
 *
 *     AS    lanes_bind(l, pair);                       // the link to CSP is up: WELCOME's pair
 *           SEFL_TRY(lanes_wait(l, values));           // a reveal needs this many
 *           lanes_hold(l, true); ... lanes_hold(l, false);         // around a reveal
 *           lanes_bind(l, NULL);                       // the link is down
 *     CSP   lane_host_bind(h, pair);                   // csp_config.paired
 *           SEFL_TRY(lane_host_take(h, t));            // a lane has dialled
 *           lane_host_unbind(h);                       // the link is down
 *
 * A lane is one thread per server with its own stream (ALPN LANE_ALPN). AS dials, names the link
 * that the lane belongs to, and asks for one session after the other until the pool is full; then
 * it hangs up:
 *
 *     AS    LANE pair              CSP   YES, or NO: PAIR (another link), CHECKS (the task is over)
 *     AS    FILL count             CSP   YES, or NO: CHECKS
 *           shares_evaluate              shares_garble
 *                                        YES: its shares are in the pool. Then AS adds its own.
 *
 * count is always lanes_session of the task. So AS never picks shares that CSP does not have yet.
 * A lane that breaks leaves at most shares at CSP that AS never names; a full pool erases the
 * oldest ones.
 *
 * When. A lane begins a session while the pool, with the sessions under way, has fewer shares
 * than two rounds need. During a reveal all lanes pause, even in the middle of a session, unless
 * the reveal itself waits for shares. Lanes run at low priority (nice 10).
 *
 * Erasing. Shares are bound to a link; another link has another pair, also after a restart of
 * either server. A server that notices a broken protocol or a failed check erases its pool, and
 * the other server learns that by NO SLICE. A lane whose connection breaks loses its own session
 * and nothing else: nothing of that session was in a pool.
 *
 * Checks. A check of AS's transfers that fails at CSP (SEFL_ECRYPTO from shares_garble) is no
 * accident. CSP logs an error and counts it in its journal (fact 0 "checks"). At CSP_CHECKS_MAX
 * the task is over: every lane and every question on the link gets NO CHECKS, and AS ends with an
 * error (lanes_ended).
 *
 * Audits (noise/audit.h). AS audits one session in `audit`. An audit that shows another circuit
 * ends the task at AS for ever (fact 0 "caught"); so does the second audit that CSP does not
 * answer (fact 0 "unanswered"). Records are files in the folder `records`.
 *
 * Memory: the pool takes 4 bytes per value (5 with more than 20 bits in the ring) for at most two
 * rounds and one session per lane; a running session takes 8 bytes per value and about 6 MB.
 *
 * Threads: lanes_* from any thread, but bind, hold and wait from one; lane_host_serve
 * once per lane.
 * Secrets: shares, until they are in the pool. */
#ifndef ROLES_LANES_H
#define ROLES_LANES_H

#include "base/clock.h"
#include "base/coins.h"
#include "base/log.h"
#include "mpc/noise/pool.h"
#include "net/tls.h"
#include "protocol/link.h"
#include "protocol/task.h"
#include "store/journal/journal.h"

enum { LANES_MAX = 16, LANES_LINK = LANES_MAX, LANES_UNANSWERED_MAX = 2 };

/* Values of one session: 2^16 to 2^20, two rounds' worth if that is in between; more where a
 * slice would have too many parts. */
uint64_t lanes_session(const task *t);
/* What a pool of this task may hold: two rounds' shares and a session for each of LANES_MAX lanes. */
uint64_t lanes_pool_max(const task *t);

/* ---- AS -------------------------------------------------------------------------------------- */

/* How streams to CSP are made: those of lanes (below lanes_config.count), and the link's
 * (LANES_LINK). */
typedef struct csp_dial {
    void *ctx;
    sefl_status (*dial)(void *ctx, unsigned lane, channel **out); /* on the lane's thread */
    void (*hang_up)(void *ctx, unsigned lane);   /* closes what dial made; no stream is fine */
    void (*interrupt)(void *ctx, unsigned lane); /* from another thread: what waits fails soon;
                                                  * may be NULL */
} csp_dial;

typedef struct lanes_config {
    const task *task;
    shares_pool *pool;
    unsigned count; /* of lanes, 1 to LANES_MAX; 0: 1 */
    csp_dial dial;
    journal *journal;        /* NULL: nothing is remembered (tests) */
    const sefl_coins *coins; /* purpose "shares" */
    uint64_t audit;          /* audits one session in this many; 0: none */
    const char *records;     /* folder; NULL: they are not kept */
    sefl_log *log;
    const sefl_clock *mono;
    unsigned retry_ms; /* after the first failure in a row; 0: 500 */
    uint64_t session;  /* 0: lanes_session; tests have small ones */
} lanes_config;

typedef struct lanes lanes;

sefl_status lanes_new(lanes **out, const lanes_config *c) SEFL_MUST_CHECK;
/* Stops, and waits for the threads. NULL is fine. */
void lanes_free(lanes *l);
/* Whatever waits ends soon, and nothing begins any more. */
void lanes_stop(lanes *l);

/* The link is up (LINK_PAIR bytes), or down (NULL). The pool is empty afterwards. */
void lanes_bind(lanes *l, const uint8_t *pair);

/* A reveal begins, or is over. */
void lanes_hold(lanes *l, bool revealing);

/* Waits until `count` values can be picked, and logs its progress. SEFL_ECLOSED: CSP knows this
 * link no more, or no lane gets anywhere: dial anew. SEFL_ESTATE: the task has ended
 * (lanes_ended). SEFL_ECANCELLED: lanes_stop. */
sefl_status lanes_wait(lanes *l, uint64_t count) SEFL_MUST_CHECK;

/* The lanes' work since the last call: bytes both ways, and seconds of their sessions. */
typedef struct lanes_work {
    uint64_t bytes;
    double seconds;
} lanes_work;
lanes_work lanes_done(lanes *l);

/* CSP has ended the task after failed checks, or an audit has: NULL, or why. */
const char *lanes_ended(lanes *l);

/* ---- CSP ------------------------------------------------------------------------------------- */

typedef struct lane_host_config {
    const task *task;
    shares_pool *pool;
    const sign_key *key;     /* signs sessions */
    journal *journal;        /* NULL: failed checks are counted in memory (tests) */
    const sefl_coins *coins; /* purpose "shares" */
    sefl_log *log;
    uint64_t session; /* 0: lanes_session */
    void *ctx;
    void (*failed)(void *ctx); /* a check has: count it; may be NULL */
} lane_host_config;

typedef struct lane_host lane_host;

sefl_status lane_host_new(lane_host **out, const lane_host_config *c) SEFL_MUST_CHECK;
void lane_host_free(lane_host *h); /* ends all lanes */

/* The link is up (LINK_PAIR bytes), or down (NULL). The pool is empty afterwards, and lanes of the
 * link before end with their next question. */
void lane_host_bind(lane_host *h, const uint8_t *pair);
/* Cuts every lane off, waits for its thread, empties the pool. */
void lane_host_unbind(lane_host *h);

/* Takes the stream of a new lane and serves it on a thread of its own. SEFL_ESTATE: LANES_MAX are
 * there; the stream is closed then. By the owner's thread, as unbind. */
sefl_status lane_host_take(lane_host *h, tls *t) SEFL_MUST_CHECK;

/* Answers until the lane ends: SEFL_OK when AS has hung up between two sessions. */
sefl_status lane_host_serve(lane_host *h, channel *ch) SEFL_MUST_CHECK;

/* Failed checks in this task; for csp_config.checks. */
unsigned lane_host_checks(lane_host *h);

#endif
