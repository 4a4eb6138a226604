/* servers: both servers of a simulated federation with their real cryptography: CSP on a thread of its
 * own, AS's questions to it (protocol/as_link.h) over a channel in memory, journals in memory, two
 * ledgers on disk, and named coins "AS" and "CSP".
 *
 *     SEFL_TRY(servers_new(&v, &cfg));
 *     SEFL_TRY(servers_header(v, &both, &h));
 *     SEFL_TRY(servers_prepare(v, round, attempt));
 *     SEFL_TRY(servers_open(v, &open, w));
 *     SEFL_TRY(servers_skip(v, round));
 *
 * A run that was interrupted begins again behind its last finished round: `opened` and `skipped` say what
 * CSP would remember. What a journal keeps of a round is forgotten with the next.
 * Threads: one owner.   Secrets: a simulation has none. */
#ifndef SIMULATE_SERVERS_H
#define SIMULATE_SERVERS_H

#include "protocol/as_link.h"
#include "simulate/scene.h"
#include "store/ledger.h"

typedef struct servers servers;

typedef struct servers_config {
    const scene *scene;
    ledger *as_ledger, *csp_ledger; /* of equal content */
    pool *pool;                     /* AS's; CSP has one of its own of the same size */
    sefl_log *log;
    const sefl_progress *stop; /* as in simulate.h, or NULL: asked at every message, and by CSP */
    uint64_t opened, skipped;  /* highest rounds of either, 0: none */
} servers_config;

sefl_status servers_new(servers **out, const servers_config *c) SEFL_MUST_CHECK;
void servers_free(servers *v);

/* Refusals of CSP are those of as_link.h. */
sefl_status servers_header(servers *v, sefl_buf *both, const round_header *h) SEFL_MUST_CHECK;
sefl_status servers_prepare(servers *v, uint64_t round, uint64_t attempt) SEFL_MUST_CHECK;
/* AS's charge is made here too. w: task.values integers. */
sefl_status servers_open(servers *v, uint64_t round, uint64_t attempt, uint32_t clients,
                         const uint8_t set[32], ahe_sum *sum, int64_t *w) SEFL_MUST_CHECK;
sefl_status servers_skip(servers *v, uint64_t round) SEFL_MUST_CHECK;

/* Bytes on the stream so far, both ways. */
uint64_t servers_bytes(const servers *v);

#endif
