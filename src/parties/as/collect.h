/* collect: keeps the running sum of a round's uploads. One worker adds them while they arrive.
 *
 * The worker gets only bodies that are complete, checked, durable and acknowledged. It adds each
 * once, from its room (body_pool.h) or, in pieces of 1 MiB, from its file (readback.h). The list of
 * uploads (at most clients_max) is its queue. After a restart the role queues the acknowledged
 * bodies again, and the sum is the same, since the order of additions does not matter.
 *
 *     SEFL_TRY(collect_new(&c, &cfg));
 *     collect_begin(c, round);                               // starts an empty sum
 *     SEFL_TRY(collect_add(c, round, &entry, false, NULL));  // queued
 *     SEFL_TRY(collect_close(c, round, &sum, NULL));         // waits for the worker; sum is closed
 *     collect_begin(c, 0);                                   // frees the sum
 *
 * If a body cannot be read, or an addition fails half-way, the worker restarts from the first body;
 * after the third failure collect_close returns the reason: SEFL_ECRYPTO if a file is gone or has
 * changed; SEFL_EIO if the disk did not answer, and the next call tries again.
 * Threads: any; the sum that collect_close lends has one owner until the next begin.
 * Secrets: none (ciphertexts).   Memory: the sum, 1 MiB, a window into the body, and the list;
 * rooms belong to body_pool. */
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
    size_t front; /* bytes of a body before its units (protocol/update.h) */
    uint32_t clients_max;
    unsigned threads; /* number of threads for additions; 0: one per core */
    /* Appends the path of a body's file and a NUL, which out->n does not count. */
    sefl_status (*path)(void *ctx, sefl_buf *out, uint64_t round, const round_entry *m);
    void *ctx;
    body_pool *body_pool; /* trimmed between rounds; may be NULL */
    sefl_log *log;
} collect_config;

sefl_status collect_new(collect **out, const collect_config *c) SEFL_MUST_CHECK;
void collect_free(collect *c); /* waits for the addition in progress */

/* Drops the sum and starts an empty one for this round; 0: no round. */
void collect_begin(collect *c, uint64_t round);
uint64_t collect_round(collect *c);

/* Queues an update. SEFL_ESTATE for another round or a closed sum, SEFL_EEXIST if this client is
 * already queued, SEFL_ERANGE beyond clients_max. check_hash makes it verify the file's hash,
 * because the file may have changed (after a restart). body: NULL, or the update's bytes in a room,
 * which collect always gives back. */
sefl_status collect_add(collect *c, uint64_t round, const round_entry *m, bool check_hash,
                        body_room *body) SEFL_MUST_CHECK;
/* True if an update with the same units (m->body) is queued or summed. */
bool collect_has_body(collect *c, const round_entry *m);
/* Sets *given to the number of updates queued so far, *summed to the number already added. */
void collect_counts(collect *c, uint32_t *given, uint32_t *summed);

/* Returns the i-th update in the order of arrival, not counting those that collect_take removed.
 * Returns false if the round is another one or has at most i updates. */
bool collect_entry(collect *c, uint64_t round, uint32_t i, round_entry *out);
/* Removes a client's update from the sum, for example because CSP refused its head. Call it before
 * collect_close; it also waits for the worker. SEFL_ENOTFOUND if the client is not in the sum,
 * SEFL_ESTATE if the sum is closed. If its body cannot be read, the worker computes the sum again
 * without it. */
sefl_status collect_take(collect *c, uint64_t round, const uint8_t client[32],
                         const sefl_progress *stop) SEFL_MUST_CHECK;

/* Waits until every queued update is in the sum, closes the sum and lends it. A second call returns
 * the same sum. SEFL_ESTATE for another round or if there are no updates. stop (may be NULL) ends
 * the wait with SEFL_ECANCELLED. */
sefl_status collect_close(collect *c, uint64_t round, ahe_sum **sum,
                          const sefl_progress *stop) SEFL_MUST_CHECK;

/* Like collect_close, for one of several processes that make a sum together: writes the sum as the
 * ahe_body_bytes of a partial sum (ahe_sum_write_partial). SEFL_ESTATE if it was written before. */
sefl_status collect_partial(collect *c, uint64_t round, uint8_t *out,
                            const sefl_progress *stop) SEFL_MUST_CHECK;
/* Subtracts an acknowledged body from a sum that the caller owns; checks the body's hash. */
sefl_status collect_subtract(collect *c, ahe_sum *sum, uint64_t round,
                             const round_entry *m) SEFL_MUST_CHECK;

#endif
