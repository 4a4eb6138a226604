/* nn_plan: runs the same layout code twice: first to add up the memory it needs, then to hand out
 * memory from one block of exactly that size.
 *
 *     static void layout(thing *t, nn_plan *p) { t->x = nn_take(p, n, sizeof *t->x); ... }
 *     nn_plan p = { 0 };
 *     layout(&t, &p);                                   // counts
 *     SEFL_TRY(nn_plan_get(&p, &memory));               // the caller frees it with sefl_free
 *     layout(&t, &p);                                   // hands out zeroed memory */
#ifndef MODEL_NN_NN_PLAN_H
#define MODEL_NN_NN_PLAN_H

#include "base/alloc.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct nn_plan {
    uint8_t *memory; /* NULL: only count */
    size_t need;     /* size of the block in bytes */
    size_t used;     /* bytes handed out; SIZE_MAX: too many for a size_t */
} nn_plan;

static inline void *nn_take(nn_plan *p, size_t count, size_t size)
{
    size_t bytes = 0, sum = 0;
    bool fits = !__builtin_mul_overflow(count ? count : 1, size, &bytes) && bytes <= SIZE_MAX - 63;
    bytes = fits ? (bytes + 63) / 64 * 64 : 0;
    fits = fits && !__builtin_add_overflow(p->used, bytes, &sum);
    uint8_t *at = p->memory ? p->memory + p->used : NULL;
    p->used = fits ? sum : SIZE_MAX;
    assert(!p->memory || p->used <= p->need); /* the counting pass ran the same code */
    return at;
}

/* Ends the counting pass and allocates the block. */
static inline sefl_status nn_plan_get(nn_plan *p, uint8_t **memory)
{
    SEFL_NEED(p->used < SIZE_MAX, SEFL_ERANGE,
              "the model needs more memory than this machine can address");
    SEFL_PASS(sefl_new(memory, p->used, 1));
    *p = (nn_plan){ .memory = *memory, .need = p->used };
    return SEFL_OK;
}

#endif
