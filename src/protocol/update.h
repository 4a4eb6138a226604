/* update: one update's body in memory: encrypted units and, for a sealed task, the head before
 * them.
 *
 *     SEFL_TRY(update_make(body, units, &(update_facts){ .task = &t, .header = &h, .enc = enc, ... }, X,
 *                          pool, NULL, &rng));              // body: task_body_bytes(&t)
 *
 * For those who hold a whole body: the simulator, benchmarks, tests. A client writes its body to a
 * file in pieces (roles/client/update.h): the same bytes. Threads: pure; spreads its work over the
 * pool.   Secrets: X, the upload key; coins of the rng. */
#ifndef PROTOCOL_UPDATE_H
#define PROTOCOL_UPDATE_H

#include "protocol/head.h"
#include "protocol/round.h"
#include "protocol/task.h"

typedef struct update_facts {
    const task *task;
    const round_header *header; /* round; sealed tasks: CSP's key of the round */
    const ahe_enc *enc;
    const uint8_t *client;      /* fingerprint, 32 bytes */
    const sign_key *upload_key; /* sealed tasks */
} update_facts;

/* The head of a sealed task's update, head_bytes(task.seal): it seals the seed of `up`. */
sefl_status update_head(uint8_t *out, const update_facts *f, const ahe_upload *up,
                        const uint8_t units[32], const sefl_rng *rng) SEFL_MUST_CHECK;

/* units: BLAKE3 of the units, which names the update. X: task.ahe.units * unit_values integers;
 * what lies beyond task.values is not read. SEFL_ERANGE for a value beyond the client's bound. */
sefl_status update_make(uint8_t *body, uint8_t units[32], const update_facts *f, const int64_t *X,
                        pool *p, const sefl_progress *stop, const sefl_rng *rng) SEFL_MUST_CHECK;

#endif
