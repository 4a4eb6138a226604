/* lanes: the servers generate noise shares (mpc/noise/shares.h) in parallel with the rounds, on
 * separate streams and threads, and each keeps its shares in a pool (mpc/noise/pool.h). Only joint
 * noise needs lanes.
 *
 *     AS    lanes_bind(l, pair);                       // the link to CSP is up: WELCOME's pair
 *           SEFL_TRY(lanes_wait(l, values));           // a reveal needs this many values
 *           lanes_hold(l, true); ... lanes_hold(l, false);         // around a reveal
 *           lanes_bind(l, NULL);                       // the link is down
 *     CSP   lane_host_bind(h, pair);                   // csp_config.paired
 *           SEFL_TRY(lane_host_take(h, t));            // a lane has dialled
 *           lane_host_unbind(h);                       // the link is down
 *
 * A lane is one thread per server with its own stream (ALPN LANE_ALPN). AS dials, names the link to
 * which the lane belongs, and requests one session after another until the pool is full. Then it
 * hangs up:
 *
 *     AS    LANE pair, number      CSP   YES, or NO: PAIR (another link), CHECKS (the task is over)
 *     AS    SEED id, signature     CSP   SEED, or NO: LOST; for each audit that is open (below)
 *     AS    FILL count             CSP   YES, or NO: CHECKS
 *           shares_evaluate              shares_garble
 *                                        YES: its shares are in the pool. Then AS adds its own.
 *
 * count is always lanes_session(task). AS adds its shares last, so it never picks shares that CSP
 * does not have yet. At worst, a broken lane leaves CSP with shares that AS never uses; a full pool
 * erases its oldest shares.
 *
 * Timing. A lane begins a session if the pool and the running sessions together have fewer shares
 * than two rounds need. During a reveal all lanes pause, even in the middle of a session, unless
 * the reveal itself waits for shares. Lanes run at low priority (nice 10).
 *
 * Erasing. Shares are bound to a link; a new link has a new pair, even after a restart of either
 * server. A server that detects a protocol violation or a failed check erases its pool; the other
 * server learns of this from NO SLICE. A lane whose connection breaks loses only its own session,
 * whose shares were in no pool yet.
 *
 * Checks. CSP's check of AS's transfers (SEFL_ECRYPTO from shares_garble) never fails by accident.
 * If it fails, CSP logs an error and counts the failure in its journal (fact 0 "checks"). At
 * CSP_CHECKS_MAX the task is over: every lane and every request on the link gets NO CHECKS, and AS
 * ends with an error (lanes_ended).
 *
 * Audits (noise/audit.h). AS audits one in `audit` sessions. An audit that reveals a wrong circuit
 * or a wrong seed ends the task at AS permanently (fact 0 "caught"). Audit records are files in the
 * folder `records`.
 *
 * Silence. From before AUDIT leaves until AS has judged the seed, the audit is open: fact 0
 * "audit N" of lane N has all that AS needs to ask again (SEED) on any stream, also after a restart
 * or in another process. While an audit is open, lanes_wait does not return, so no round uses a
 * share, and its lane begins no other session; the next stream asks for the seed first. So silence
 * stops the rounds, and no session is used after it. A broken stream is no answer: AS asks again,
 * and counts nothing. NO LOST is a refusal. AS counts the first one of a session durably and goes
 * on asking; a refusal LANES_REFUSAL_MS after it is the second, and ends the task permanently (fact
 * 0 "refused"). Until then the operators can start the machine of CSP that has the seed.
 *
 * Memory: the pool takes 4 bytes per value (5 if the ring has more than 20 bits) for at most two
 * rounds and one session per lane; a running session takes 8 bytes per value and about 6 MB.
 *
 * Threads: any thread may call lanes_*, but only one may call bind, hold and wait; lane_host_serve
 * runs once per lane.
 * Secrets: shares, until they enter the pool, which encrypts them. */
#ifndef ROLES_LANES_H
#define ROLES_LANES_H

#include "base/clock.h"
#include "base/coins.h"
#include "base/log.h"
#include "mpc/noise/pool.h"
#include "net/tls.h"
#include "protocol/link.h"
#include "protocol/task.h"
#include "roles/audit/audit_log.h"
#include "store/journal/journal.h"

enum { LANES_MAX = 16, LANES_LINK = LANES_MAX };
/* A lost seed and the same lost seed a day later are two refusals. */
#define LANES_REFUSAL_MS ((uint64_t)24 * 3600 * 1000)

/* Returns the number of values per session: as many as two rounds need, but at least 2^16 and at
 * most 2^20; more if a slice would otherwise have too many parts. */
uint64_t lanes_session(const task *t);
/* Returns the capacity of this task's pool: shares for two rounds and one session for each of
 * LANES_MAX lanes. */
uint64_t lanes_pool_max(const task *t);

/* ---- AS -------------------------------------------------------------------------------------- */

/* Connects to CSP. `lane` is the number of a lane, below lanes_config.count, or LANES_LINK. */
typedef struct csp_dial {
    void *ctx;
    sefl_status (*dial)(void *ctx, unsigned lane, channel **out); /* on the lane's thread */
    void (*hang_up)(void *ctx, unsigned lane);   /* closes the stream, if there is one */
    void (*interrupt)(void *ctx, unsigned lane); /* any thread: makes its waits fail; or NULL */
} csp_dial;

typedef struct lanes_config {
    const task *task;
    shares_pool *pool;
    unsigned count; /* number of lanes, 1 to LANES_MAX; 0: 1 */
    csp_dial dial;
    const sign_key *key;     /* signs AS's verdicts */
    journal *journal;        /* NULL: keeps nothing across restarts (tests) */
    const sefl_coins *coins; /* used for the purpose "shares" */
    uint64_t audit;          /* audits one in this many sessions; 0: none */
    const char *records;     /* folder of audit records; NULL: keeps none */
    audit_log *entries;      /* gets an entry for each audit; may be NULL */
    sefl_log *log;
    const sefl_clock *mono, *wall;
    unsigned retry_ms; /* pause after the first failure; 0: 500 */
    uint64_t session;  /* values per session; 0: lanes_session (tests use fewer) */
} lanes_config;

typedef struct lanes lanes;

sefl_status lanes_new(lanes **out, const lanes_config *c) SEFL_MUST_CHECK;
/* Stops the threads and waits for them. NULL is allowed. */
void lanes_free(lanes *l);
/* Ends all waits soon and prevents new sessions. */
void lanes_stop(lanes *l);

/* Tells the lanes that the link is up (pair: LINK_PAIR bytes) or down (NULL). Empties the pool. */
void lanes_bind(lanes *l, const uint8_t *pair);

/* Pauses the lanes while a reveal runs (true), or lets them continue. */
void lanes_hold(lanes *l, bool revealing);

/* Waits until the pool has `count` values and no audit is open, and logs the progress. Call it
 * before each round takes shares, even if the pool has enough. SEFL_ECLOSED if CSP no longer has
 * this link or all lanes keep failing: dial again. SEFL_ESTATE if the task has ended (lanes_ended).
 * SEFL_ECANCELLED after lanes_stop. */
sefl_status lanes_wait(lanes *l, uint64_t count) SEFL_MUST_CHECK;

/* The lanes' work since the last call: bytes in both directions, and duration of the sessions. */
typedef struct lanes_work {
    uint64_t bytes;
    double seconds;
} lanes_work;
lanes_work lanes_done(lanes *l);

/* Returns why the task has ended (failed checks at CSP, or an audit); NULL if it has not. */
const char *lanes_ended(lanes *l);

/* ---- CSP ------------------------------------------------------------------------------------- */

typedef struct lane_host_config {
    const task *task;
    shares_pool *pool;
    const sign_key *key;     /* signs the sessions */
    const uint8_t *root;     /* 32 secret bytes of the key file, borrowed; NULL: from `key` */
    journal *journal;        /* NULL: counts failed checks in memory, keeps no seed (tests) */
    const sefl_coins *coins; /* used for the purpose "shares" */
    sefl_log *log;
    uint64_t session; /* 0: lanes_session */
    void *ctx;
    void (*failed)(void *ctx); /* called after a failed check; may be NULL */
    /* Called after each session: its bytes in both directions and its duration; may be NULL. */
    void (*worked)(void *ctx, uint64_t bytes, uint64_t ns);
} lane_host_config;

typedef struct lane_host lane_host;

sefl_status lane_host_new(lane_host **out, const lane_host_config *c) SEFL_MUST_CHECK;
void lane_host_free(lane_host *h); /* ends all lanes */

/* Tells the host that the link is up (pair: LINK_PAIR bytes) or down (NULL). Empties the pool;
 * lanes of the previous link end at their next request. */
void lane_host_bind(lane_host *h, const uint8_t *pair);
/* Disconnects every lane, waits for its thread, and empties the pool. */
void lane_host_unbind(lane_host *h);

/* Takes ownership of a new lane's stream and serves it on a separate thread. If LANES_MAX lanes are
 * running, closes the stream: SEFL_ESTATE. Call it only on the owner's thread, like unbind. */
sefl_status lane_host_take(lane_host *h, tls *t) SEFL_MUST_CHECK;

/* Serves one lane until it ends; SEFL_OK if AS hung up between two sessions. */
sefl_status lane_host_serve(lane_host *h, channel *ch) SEFL_MUST_CHECK;

/* Returns the number of failed checks in this task; for csp_config.checks. */
unsigned lane_host_checks(lane_host *h);
/* Writes the failed checks that could not be written when they were counted; call it before
 * lane_host_free if the process goes on. */
sefl_status lane_host_save(lane_host *h) SEFL_MUST_CHECK;

#endif
