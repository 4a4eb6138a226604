/* update: builds the body of one update in memory:
 *
 *     head (sealed tasks) | salt 32 | encrypted units
 *
 * The salt goes into the update's name (crypto/update_name.h), and to AS alone.
 *
 *     update_facts facts = { .task = &t, .header = &h, .enc = enc, ... };
 *     SEFL_TRY(update_make(body, name, &facts, X,
 *                          pool, NULL, &rng));              // body: task_body_bytes(&t)
 *
 * The simulator, benchmarks and tests use it. A client writes the same bytes to a file, piece by
 * piece (roles/client/client_update.h).
 * Threads: pure functions that use the pool. Secrets: X, the upload key, the rng's output. */
#ifndef PROTOCOL_UPDATE_H
#define PROTOCOL_UPDATE_H

#include "crypto/ahe/ahe.h"
#include "crypto/update_name.h"
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

/* Returns the bytes of a body before its units. */
size_t update_front_bytes(const seal_suite *s);

/* Draws the salt of a new body and starts its name with it; never the salt of an earlier body. */
sefl_status update_salt(uint8_t salt[UPDATE_SALT], update_name *n,
                        const sefl_rng *rng) SEFL_MUST_CHECK;

/* Writes the head of a sealed update, head_bytes(task.seal) bytes, with the sealed seed of `up`. */
sefl_status update_head(uint8_t *out, const update_facts *f, const ahe_upload *up,
                        const uint8_t name[32], const sefl_rng *rng) SEFL_MUST_CHECK;

/* Writes the body, and the update's name. X has task.ahe.units * unit_values integers; the first
 * task.values are read. SEFL_ERANGE if one exceeds the bound. */
sefl_status update_make(uint8_t *body, uint8_t name[32], const update_facts *f, const int64_t *X,
                        pool *p, const sefl_progress *stop, const sefl_rng *rng) SEFL_MUST_CHECK;

#endif
