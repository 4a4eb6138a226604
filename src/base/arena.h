/* arena: memory planned once and handed out in order; freed as a whole.
 *
 *     SEFL_TRY(arena_init(&a, bytes));
 *     float *act = arena_take(&a, n, sizeof *act);      // NULL when the plan was too small
 *     arena_clear(&a);
 *
 * Blocks are aligned to 64 bytes and zeroed when taken. Threads: one owner.
 * Secrets: cleared memory is wiped. Cost: one allocation for its whole life. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct arena {
    uint8_t *p;
    size_t used, cap, peak;
} arena;

sefl_status arena_init(arena *a, size_t bytes) SEFL_MUST_CHECK;

/* Takes count*size zeroed bytes; NULL if the rest is too small: the plan was wrong. */
void *arena_take(arena *a, size_t count, size_t size);

/* What arena_take(count, size) will use of the plan, rounding included; 0 on overflow. */
size_t arena_cost(size_t count, size_t size);

void arena_clear(arena *a);

#endif
