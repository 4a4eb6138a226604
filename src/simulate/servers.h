/* servers: both servers of a simulated federation with their real cryptography: CSP on a thread of its
 * own, AS's questions to it (sum/as_link.h) over a channel in memory, journals in memory, two
 * ledgers on disk, and named coins "AS" and "CSP".
 *
 *     SEFL_TRY(servers_new(&v, &cfg));
 *     SEFL_TRY(servers_header(v, &both, &h));
 *     SEFL_TRY(servers_reveal(v, round, attempt, &got, w));     // got: simulate/work.h
 *     SEFL_TRY(servers_skip(v, round));
 *
 * A run that was interrupted begins again behind its last finished round: `opened` and `skipped` say what
 * CSP would remember. What a journal keeps of a round is forgotten with the next.
 * Threads: one owner.   Secrets: a simulation has none. */
#ifndef SIMULATE_SERVERS_H
#define SIMULATE_SERVERS_H

#include "simulate/federation.h"
#include "simulate/work.h"
#include "store/ledger.h"
#include "sum/as_link.h"

typedef struct servers servers;

typedef struct servers_config {
    const federation *federation;
    ledger *as_ledger, *csp_ledger; /* of equal content */
    pool *pool;                     /* AS's; CSP has one of its own of the same size */
    sefl_log *log;
    const sefl_progress *stop; /* as in simulate.h, or NULL: asked at every message, and by CSP */
    uint64_t opened, skipped;  /* highest rounds of either, 0: none */
} servers_config;

sefl_status servers_new(servers **out, const servers_config *c) SEFL_MUST_CHECK;
void servers_free(servers *v);

/* Refusals of CSP are those of as_link.h. */
/* Sealed tasks: fills the header's key first. */
sefl_status servers_header(servers *v, sefl_buf *both, round_header *h) SEFL_MUST_CHECK;
/* All of an opening: heads and the set of a sealed task, AS's charge, noise shares, the masked sum. w:
 * task.values integers. SEFL_ECRYPTO if CSP refuses an upload: simulated ones are good. */
sefl_status servers_reveal(servers *v, uint64_t round, uint64_t attempt, const work_got *got,
                           int64_t *w) SEFL_MUST_CHECK;
sefl_status servers_skip(servers *v, uint64_t round) SEFL_MUST_CHECK;

/* Bytes on the stream so far, both ways. */
uint64_t servers_bytes(const servers *v);

#endif
