/* lanes: AS's end of the lanes (roles/lane_words.h).
 *
 * Threads: any thread may call lanes_*, but only one may call bind, hold and wait.
 * Secrets: shares, until they enter the pool, which encrypts them. */
#ifndef ROLES_LANES_H
#define ROLES_LANES_H

#include "base/clock.h"
#include "base/coins.h"
#include "base/log.h"
#include "roles/audit/audit_log.h"
#include "roles/lane_words.h"

enum { LANES_LINK = LANES_MAX };
/* A lost seed and the same lost seed a day later are two refusals. */
#define LANES_REFUSAL_MS ((uint64_t)24 * 3600 * 1000)

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

#endif
