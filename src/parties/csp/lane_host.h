/* lane_host: CSP's end of the lanes (roles/lane_words.h).
 *
 * Threads: one owner for take and unbind; lane_host_serve runs once per lane.
 * Secrets: shares, until they enter the pool, which encrypts them. */
#ifndef ROLES_CSP_LANE_HOST_H
#define ROLES_CSP_LANE_HOST_H

#include "base/coins.h"
#include "base/log.h"
#include "net/tls.h"
#include "roles/lane_words.h"

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
