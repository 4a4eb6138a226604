/* Mode none: AS removes its mask and has the exact sum. No claim is possible. */
#include "base/alloc.h"
#include "crypto/ahe/ahe.h"
#include "protocol/modes/mode.h"
#include "protocol/task.h"

#include <string.h>

static double deviation(const task *t)
{
    (void)t;
    return 0;
}

typedef struct unmasking {
    const ahe_params *p;
    const uint8_t *masked, *seed;
    int64_t *w;
} unmasking;

/* A piece of pool_run: units [begin, end). */
static sefl_status unmask(void *ctx, unsigned lane, size_t begin, size_t end)
{
    sefl_status st = SEFL_OK;
    const unmasking *u = ctx;
    const ahe_params *p = u->p;
    const size_t n = end - begin, at = begin * p->unit_values, left = p->values - at;
    uint8_t *mask = NULL;
    int64_t *some = NULL;
    (void)lane;
    SEFL_TRY(sefl_new(&mask, n, p->plain_bytes));
    SEFL_TRY(sefl_new(&some, n * p->unit_values, sizeof *some));
    SEFL_TRY(ahe_mask_units(p, mask, begin, n, u->seed));
    ahe_plain_unmask(p, some, u->masked + begin * p->plain_bytes, mask, n);
    memcpy(u->w + at, some, (left < n * p->unit_values ? left : n * p->unit_values) * sizeof *some);
done:
    sefl_free_secret(mask, n * p->plain_bytes);
    sefl_free_secret(some, n * p->unit_values * sizeof *some);
    return st;
}

static sefl_status none_finish(int64_t *w, const task *t, sefl_span masked, const mode_as *in)
{
    unmasking u = { .p = &t->ahe, .masked = masked.p, .seed = in->seed, .w = w };
    return pool_run(in->pool, t->ahe.units, 16, unmask, &u, NULL);
}

const release_mode mode_none = {
    .name = "none",
    .value_jumps = 10,
    .deviation = deviation,
    .finish = none_finish,
    .trust = "AS learns the exact sums, and CSP must be honest",
    .price = "no noise, and no guarantee",
    .happens = "No noise is added.",
    .as_never = "",
    .csp_never = "",
};
