/* servers: runs both servers of a simulated federation in one process. AS is the driver of the
 * rounds (sum/as_rounds.h) with its store in memory. With `crypto: full`, CSP serves on its own
 * thread over a channel in memory, and both use the real cryptography; otherwise the driver
 * computes CSP's answers in the clear (simulate/clear.h). The servers' coins have the names "AS"
 * and "CSP"; time is virtual.
 *
 *     SEFL_TRY(servers_new(&v, &(servers_config){ .federation = f, .upload = ..., ... }));
 *     SEFL_TRY(servers_run(v));                            // the whole task
 *
 * An interrupted run resumes after its last finished round: `memory`, `model`, `revealed` and
 * `skipped` restore the state of both servers.
 * Threads: one owner.   Secrets: a simulation has none. */
#ifndef SIMULATE_SERVERS_H
#define SIMULATE_SERVERS_H

#include "simulate/federation.h"
#include "simulate/work.h"
#include "sum/as_rounds.h"
#include "sum/csp.h"

typedef struct servers servers;

typedef struct servers_config {
    const federation *federation;
    const char *as_ledger, *csp_ledger; /* files with equal content; csp_ledger: crypto full */
    pool *pool;                         /* AS's pool; CSP creates one of the same size */
    sefl_log *log;
    const sefl_progress *stop; /* as in simulate.h; called at every message; or NULL */
    agg_memory memory;         /* all zero for a new run */
    release_from model;
    uint64_t revealed, skipped; /* last revealed round; last skipped round. 0: none */
    uint64_t now_ms;
    void *ctx; /* for the functions below; only upload and release are required */
    sefl_status (*accept)(void *ctx, const round_header *h, sefl_span both);
    /* Called when the round is closed: fills `got` with the uploads in its set. */
    sefl_status (*upload)(void *ctx, const round_header *h, work_got *got);
    sefl_status (*release)(void *ctx, const release_from *from, uint64_t round, const int64_t *w,
                           uint32_t clients, release_made *out);
    /* Called when a round is over: report before the state machine advances, forget after it. */
    void (*report)(void *ctx, const rounds_report *r);
    sefl_status (*forget)(void *ctx, uint64_t round);
    /* Sets *to to the time of the next event if that is earlier. If NULL, all uploads arrive at
     * once. */
    sefl_status (*next)(void *ctx, uint64_t *to);
    sefl_status (*at)(void *ctx, uint64_t now_ms); /* called when time advances to now_ms */
} servers_config;

sefl_status servers_new(servers **out, const servers_config *c) SEFL_MUST_CHECK;
void servers_free(servers *v);
/* Runs all rounds of the task. */
sefl_status servers_run(servers *v) SEFL_MUST_CHECK;

/* Correlated noise: write what the servers kept in a round, and read it before servers_run. Both
 * do nothing without a filter. */
sefl_status servers_keep(const servers *v, uint64_t round, const char *path) SEFL_MUST_CHECK;
sefl_status servers_kept(servers *v, uint64_t round, const char *path) SEFL_MUST_CHECK;

agg *servers_agg(servers *v);
uint64_t servers_now_ms(const servers *v); /* virtual */
/* Returns the number of bytes that the servers have exchanged, without the handshake and without
 * the noise shares. */
uint64_t servers_bytes(const servers *v);

/* Measurements of the latest reveal (crypto full), for cost reports. */
typedef struct servers_times {
    as_times as; /* as.ask contains the time for the noise shares */
    csp_times csp;
    double shares_seconds; /* making the noise shares at both servers together; all rounds */
    uint64_t shares_bytes; /* bytes exchanged for them; all rounds */
} servers_times;
/* Call it after servers_run. */
servers_times servers_get_times(const servers *v);

#endif
