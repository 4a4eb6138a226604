/* Mode none: AS removes its mask and has the exact sum. No claim is possible. */
#include "base/alloc.h"
#include "privacy/mechanism/quantise.h"
#include "protocol/modes/mode.h"
#include "protocol/task.h"

#include <string.h>

static double deviation(const task *t)
{
    (void)t;
    return 0;
}

static void values(double *out, const task *t, const int64_t *w, size_t n)
{
    const double q = t->ahe.pack.q;
    for (size_t i = 0; i < n; i++)
        out[i] = (double)w[i] * q;
}

/* The packing gives step and bound: q = C / 2^f exactly, so C is q * R. With unit record the slot
 * holds records_max vectors. */
static dp_grid grid(const task *t)
{
    const pack *p = &t->ahe.pack;
    int64_t records = t->unit == TASK_UNIT_RECORD && t->records_max > 0 ? t->records_max : 1;
    return (dp_grid){ .clip = p->q * ((double)p->r_2p16 / 65536),
                      .q = p->q,
                      .value_max = p->value_max / records };
}

static sefl_status quantise(int64_t *X, const task *t, const float *v, const dp_weight *weight,
                            const sefl_rng *coins)
{
    const dp_grid g = grid(t);
    return dp_quantise_plain(X, &(dp_plain_grid){ g.clip, g.q, g.value_max }, v, t->params, weight,
                             coins);
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

static sefl_status finish(int64_t *w, const task *t, sefl_span masked, const mode_as *in)
{
    unmasking u = { .p = &t->ahe, .masked = masked.p, .seed = in->seed, .w = w };
    return pool_run(in->pool, t->ahe.units, 16, unmask, &u, NULL);
}

const release_mode mode_none = {
    .name = "none",
    .value_jumps = 10,
    .deviation = deviation,
    .quantise = quantise,
    .client_grid = grid,
    .finish = finish,
    .values = values,
    .happens = "No noise is added.",
    .as_never = "",
    .csp_never = "",
};
