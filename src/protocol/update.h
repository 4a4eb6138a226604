/* update: builds the body of one update in memory: the head (sealed tasks), then encrypted units.
 *
 *     update_facts facts = { .task = &t, .header = &h, .enc = enc, ... };
 *     SEFL_TRY(update_make(body, units, &facts, X,
 *                          pool, NULL, &rng));              // body: task_body_bytes(&t)
 *
 * The simulator, benchmarks and tests use it. A client writes the same bytes to a file, piece by
 * piece (roles/client/update.h).
 * Threads: pure functions that use the pool. Secrets: X, the upload key, the rng's output. */
#ifndef PROTOCOL_UPDATE_H
#define PROTOCOL_UPDATE_H

#include "crypto/ahe/ahe.h"
#include "protocol/head.h"
#include "protocol/round.h"
#include "protocol/task.h"

typedef struct update_facts {
    const task *task;
    const round_header *header; /* contains the round and, in sealed tasks, CSP's round key */
    const ahe_enc *enc;
    const uint8_t *client;      /* fingerprint, 32 bytes */
    const sign_key *upload_key; /* sealed tasks */
} update_facts;

/* Writes the head of a sealed update, head_bytes(task.seal) bytes, with the sealed seed of `up`. */
sefl_status update_head(uint8_t *out, const update_facts *f, const ahe_upload *up,
                        const uint8_t units[32], const sefl_rng *rng) SEFL_MUST_CHECK;

/* Writes the body, and the BLAKE3 of its units, which is the update's name. X has task.ahe.units *
 * unit_values integers; the first task.values are read. SEFL_ERANGE if one exceeds the bound. */
sefl_status update_make(uint8_t *body, uint8_t units[32], const update_facts *f, const int64_t *X,
                        pool *p, const sefl_progress *stop, const sefl_rng *rng) SEFL_MUST_CHECK;

#endif
