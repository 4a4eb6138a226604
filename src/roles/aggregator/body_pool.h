/* body_pool: memory for bodies on their way into the sum, so that they need not be read again.
 *
 * An upload that finds a free room is gathered in it while it is written to its file (spool.h).
 * The room goes with the acknowledged upload to the running sum (collect.h), which gives it back.
 * An upload that finds no room is written piece by piece and read back from its file, which is
 * slower and otherwise the same. So slow senders that hold every room deny service to nobody.
 *
 *     SEFL_TRY(body_pool_new(&rs, body_bytes, BODY_POOL_BUDGET));
 *     body_room *r = body_pool_take(rs);        // NULL: none is free
 *     room_bytes(r)                             // SPOOL_ROOM(body_bytes) bytes, aligned to 4096
 *     room_give(r);
 *     body_pool_trim(rs);                       // gives free rooms back to the system
 *
 * Threads: any.   Secrets: none (ciphertexts).
 * Memory: at most the budget, from the first body on, beside the heap; none where a body is
 * larger. */
#ifndef ROLES_AGGREGATOR_BODY_POOL_H
#define ROLES_AGGREGATOR_BODY_POOL_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { BODY_POOL_BUDGET = 96 << 20 };

typedef struct body_pool body_pool;
typedef struct body_room body_room;

sefl_status body_pool_new(body_pool **out, uint64_t body_bytes, size_t budget) SEFL_MUST_CHECK;
/* Every room was given back. */
void body_pool_free(body_pool *rs);

/* rs may be NULL: then there is none. */
body_room *body_pool_take(body_pool *rs);
uint8_t *room_bytes(const body_room *r);
void room_give(body_room *r); /* NULL is fine */
void body_pool_trim(body_pool *rs);

/* How many there may be, and how many are in somebody's hands. */
size_t body_pool_most(const body_pool *rs);
size_t body_pool_taken(body_pool *rs);

#endif
