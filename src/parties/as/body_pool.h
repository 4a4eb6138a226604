/* body_pool: lends memory (rooms) for update bodies on their way into the sum, so that AS need not
 * read them back from disk.
 *
 * An upload that gets a free room stays in it while it is written to its file (spool.h). Once the
 * upload is acknowledged, its room passes to the running sum (collect.h), which gives the room
 * back. An upload without a room is written piece by piece and read back from its file, which is
 * slower but gives the same result. So slow senders cannot block other uploads.
 *
 *     SEFL_TRY(body_pool_new(&rs, body_bytes, BODY_POOL_BUDGET));
 *     body_room *r = body_pool_take(rs);        // NULL: no free room
 *     room_bytes(r)                             // SPOOL_ROOM(body_bytes) bytes, aligned to 4096
 *     room_give(r);
 *     body_pool_trim(rs);                       // gives free rooms back to the system
 *
 * Threads: any.   Secrets: none (ciphertexts).
 * Memory: at most the budget, outside the heap, allocated as bodies arrive; none if a single body
 * exceeds the budget. */
#ifndef ROLES_AGGREGATOR_BODY_POOL_H
#define ROLES_AGGREGATOR_BODY_POOL_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { BODY_POOL_BUDGET = 96 << 20 };

typedef struct body_pool body_pool;
typedef struct body_room body_room;

sefl_status body_pool_new(body_pool **out, uint64_t body_bytes, size_t budget) SEFL_MUST_CHECK;
/* The caller must have given back every room. */
void body_pool_free(body_pool *rs);

/* Takes a free room; NULL if there is none, or if rs is NULL. */
body_room *body_pool_take(body_pool *rs);
uint8_t *room_bytes(const body_room *r);
void room_give(body_room *r); /* NULL is allowed */
void body_pool_trim(body_pool *rs);

/* Return the maximum number of rooms, and the number in use. */
size_t body_pool_most(const body_pool *rs);
size_t body_pool_taken(body_pool *rs);

#endif
