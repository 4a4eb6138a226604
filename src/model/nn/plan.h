/* plan: lays memory out twice with the same code: once to add up what is needed, once to take it
 * from an arena of exactly that size.
 *
 *     static void layout(thing *t, nn_plan *p) { t->x = nn_take(p, n, sizeof *t->x); ... }
 *     nn_plan p = { 0 };
 *     layout(&t, &p);                                   // counts
 *     SEFL_TRY(arena_init(&a, p.need));
 *     p.a = &a;
 *     layout(&t, &p);                                   // takes */
#ifndef MODEL_NN_PLAN_H
#define MODEL_NN_PLAN_H

#include "base/arena.h"

#include <assert.h>
#include <stdbool.h>

typedef struct nn_plan {
    arena *a;    /* NULL: only count */
    size_t need; /* SIZE_MAX when it does not fit a size_t */
} nn_plan;

static inline void *nn_take(nn_plan *p, size_t count, size_t size)
{
    if (!p->a) {
        size_t cost = arena_cost(count ? count : 1, size);
        p->need = cost == 0 || p->need > SIZE_MAX - cost ? SIZE_MAX : p->need + cost;
        return NULL;
    }
    void *at = arena_take(p->a, count ? count : 1, size);
    assert(at); /* the counting pass ran the same code */
    return at;
}

#endif
