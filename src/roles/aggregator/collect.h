/* collect: the running sum of a round's uploads. One worker adds them while they arrive.
 *
 * It gets only bodies that are complete, checked, durable and acknowledged, and adds each once,
 * from the room that it came in (body_pool.h) or from its file (readback.h) in pieces of a
 * mebibyte. The list of uploads (112 bytes each, at most clients_max) is its queue. After a
 * restart the role gives it the acknowledged bodies again, and the sum is the same: the order of
 * additions does not matter.
 *
 *     SEFL_TRY(collect_new(&c, &cfg));
 *     collect_begin(c, round);                               // empty
 *     SEFL_TRY(collect_add(c, round, &entry, false, NULL));  // queued
 *     SEFL_TRY(collect_close(c, round, &sum, NULL));         // waits for the worker; sum is closed
 *     collect_begin(c, 0);                                   // frees the sum
 *
 * If a body cannot be read, or an addition fails half-way, the worker begins again from the first
 * body; after the third time collect_close returns the reason.
 * Threads: any; the sum that collect_close lends has one owner until the next begin.
 * Secrets: none (ciphertexts).   Memory: the sum, 1 MiB, a window of the body and the list; rooms
 * belong to body_pool. */
#ifndef ROLES_AGGREGATOR_COLLECT_H
#define ROLES_AGGREGATOR_COLLECT_H

#include "base/log.h"
#include "base/pool.h"
#include "crypto/ahe/ahe.h"
#include "protocol/round.h"
#include "roles/aggregator/body_pool.h"

typedef struct collect collect;

typedef struct collect_config {
    const ahe_params *ahe;
    const ahe_pub *pub;
    size_t skip; /* bytes of a head in front of each body */
    uint32_t clients_max;
    unsigned threads; /* of the additions; 0: one a core */
    /* The file of a body, terminated. */
    sefl_status (*path)(void *ctx, sefl_buf *out, uint64_t round, const round_entry *m);
    void *ctx;
    body_pool *body_pool; /* trimmed between rounds; may be NULL */
    sefl_log *log;
} collect_config;

sefl_status collect_new(collect **out, const collect_config *c) SEFL_MUST_CHECK;
void collect_free(collect *c); /* waits for the body at hand */

/* Starts an empty sum of this round; 0: of none. */
void collect_begin(collect *c, uint64_t round);

/* SEFL_ESTATE for another round, SEFL_EEXIST for a client that is in it, SEFL_ERANGE beyond
 * clients_max. check_hash: the file may have suffered (after a restart): its hash is computed.
 * body: the same bytes in memory, or NULL; given back in any case. */
sefl_status collect_add(collect *c, uint64_t round, const round_entry *m, bool check_hash,
                        body_room *body) SEFL_MUST_CHECK;
/* Is a body with these units in it? */
bool collect_has_body(collect *c, const round_entry *m);
/* Updates that were given to it, and of those that are in the sum. */
void collect_counts(collect *c, uint32_t *given, uint32_t *summed);

/* The i-th that was given, in the order of arrival. False: fewer uploads have arrived. */
bool collect_entry(collect *c, uint64_t round, uint32_t i, round_entry *out);
/* This client was not counted: its body is taken off the sum, before collect_close lends it. Waits
 * for the worker as collect_close does. SEFL_ENOTFOUND: it is not in the sum. Should its body not
 * be readable, the sum is made anew without it. */
sefl_status collect_take(collect *c, uint64_t round, const uint8_t client[32],
                         const sefl_progress *stop) SEFL_MUST_CHECK;

/* Waits until all that were given are in the sum, closes it and lends it. May be called again: the
 * same sum. SEFL_ESTATE for another round or an empty one. stop (may be NULL) ends the wait
 * with SEFL_ECANCELLED. */
sefl_status collect_close(collect *c, uint64_t round, ahe_sum **sum,
                          const sefl_progress *stop) SEFL_MUST_CHECK;

#endif
