#include "protocol/modes/noisy.h"

#include "base/alloc.h"

#include <string.h>

/* ---- digits of plain units, some thousand at a time ------------------------------------------ */

enum { DIGITS = 4096 };

typedef struct unit_digits {
    const ahe_params *p;
    const uint8_t *plain,
        *seed;       /* CSP: units that it decrypted; AS: seed of the units of its mask */
    uint64_t *digit; /* of units [unit, unit + have) */
    uint8_t *mask;
    size_t batch, unit, have;
} unit_digits;

static sefl_status digits_init(unit_digits *d, const ahe_params *p, const uint8_t *plain,
                               const uint8_t *seed)
{
    *d = (unit_digits){ .p = p, .plain = plain, .seed = seed };
    d->batch = p->unit_values < DIGITS ? DIGITS / p->unit_values : 1;
    SEFL_PASS(sefl_new(&d->digit, d->batch * p->unit_values, sizeof *d->digit));
    if (!plain)
        SEFL_PASS(sefl_new(&d->mask, d->batch, p->plain_bytes));
    return SEFL_OK;
}

static void digits_clear(unit_digits *d)
{
    if (d->digit)
        sefl_free_secret(d->digit, d->batch * d->p->unit_values * sizeof *d->digit);
    if (d->mask)
        sefl_free_secret(d->mask, d->batch * d->p->plain_bytes);
}

static sefl_status load(unit_digits *d, size_t unit)
{
    const ahe_params *p = d->p;
    size_t n = p->units - unit < d->batch ? p->units - unit : d->batch;
    const uint8_t *plain = d->mask;
    if (d->plain)
        plain = d->plain + unit * p->plain_bytes;
    else
        SEFL_PASS(ahe_mask_units(p, d->mask, unit, n, d->seed));
    ahe_plain_digits(p, d->digit, plain, n);
    d->unit = unit, d->have = n;
    return SEFL_OK;
}

static sefl_status get(void *ctx, uint64_t *digit, size_t first, size_t n)
{
    unit_digits *d = ctx;
    size_t per = d->p->unit_values;
    SEFL_NEED(first <= d->p->values && n <= d->p->values - first, SEFL_ERANGE,
              "digits %zu to %zu of %zu", first, first + n, d->p->values);
    while (n > 0) {
        size_t unit = first / per;
        if (unit < d->unit || unit >= d->unit + d->have)
            SEFL_PASS(load(d, unit));
        size_t at = first - d->unit * per, left = d->have * per - at;
        size_t take = left < n ? left : n;
        memcpy(digit, d->digit + at, take * sizeof *digit);
        digit += take, first += take, n -= take;
    }
    return SEFL_OK;
}

/* ---- the three parts ------------------------------------------------------------------------- */

dp_grid noisy_grid(const task *t)
{
    return t->grid;
}

sefl_status noisy_quantise(int64_t *X, const task *t, const float *v, const dp_weight *weight,
                           const sefl_rng *coins)
{
    return dp_quantise(X, NULL, &t->grid, v, t->params, weight, coins);
}

sefl_status noisy_reply(uint8_t *reply, const task *t, const mode_csp *in, const noise_source *add)
{
    sefl_status st = SEFL_OK;
    noise_params p = task_noise_params(t, in->round, in->attempt);
    unit_digits d;
    noise_digits masked = { .get = get, .ctx = &d };
    memcpy(p.slice, in->slice, sizeof p.slice);
    SEFL_TRY(digits_init(&d, &t->ahe, in->plain, NULL));
    SEFL_TRY(noise_reply_make(reply, &p, &masked, add, &in->rng));
done:
    digits_clear(&d);
    return st;
}

sefl_status noisy_finish(int64_t *w, const task *t, sefl_span reply, const mode_as *in,
                         const noise_source *add)
{
    sefl_status st = SEFL_OK;
    noise_params p = task_noise_params(t, in->round, in->attempt);
    unit_digits d;
    noise_digits mask = { .get = get, .ctx = &d };
    memcpy(p.slice, in->slice, sizeof p.slice);
    SEFL_TRY(digits_init(&d, &t->ahe, NULL, in->seed));
    SEFL_TRY(noise_reply_finish(w, &p, reply, &mask, add, in->coins));
done:
    digits_clear(&d);
    return st;
}
