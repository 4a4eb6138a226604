#include "protocol/modes/noisy.h"

#include "base/alloc.h"
#include "crypto/ahe/ahe.h"

#include <string.h>

/* Plain units whose digits are read in pieces. */
typedef struct unit_digits {
    const ahe_params *p;
    const uint8_t *plain; /* CSP: units that it decrypted */
    const uint8_t *seed;  /* AS: seed of the units of its mask */
} unit_digits;

static sefl_status noisy_get(void *ctx, uint64_t *digit, size_t first, size_t n)
{
    sefl_status st = SEFL_OK;
    const unit_digits *d = ctx;
    const ahe_params *p = d->p;
    uint64_t *all = NULL;
    uint8_t *mask = NULL;
    size_t units = 0;
    SEFL_CHECK(n >= 1 && first <= p->values && n <= p->values - first, SEFL_ERANGE,
               "digits %zu to %zu of %zu", first, first + n, p->values);
    const size_t unit = first / p->unit_values;
    units = (first + n - 1) / p->unit_values + 1 - unit;
    SEFL_TRY(sefl_new(&all, units * p->unit_values, sizeof *all));
    if (!d->plain) {
        SEFL_TRY(sefl_new(&mask, units, p->plain_bytes));
        SEFL_TRY(ahe_mask_units(p, mask, unit, units, d->seed));
    }
    ahe_plain_digits(p, all, mask ? mask : d->plain + unit * p->plain_bytes, units);
    memcpy(digit, all + (first - unit * p->unit_values), n * sizeof *digit);
done:
    sefl_free_secret(all, units * p->unit_values * sizeof *all);
    sefl_free_secret(mask, units * p->plain_bytes);
    return st;
}

/* ---- the two halves -------------------------------------------------------------------------- */

sefl_status noisy_reply(uint8_t *reply, const task *t, const mode_csp *in, const noise_source *add)
{
    noise_params p = task_noise_params(t, in->round, in->attempt);
    unit_digits d = { .p = &t->ahe, .plain = in->plain };
    noise_digits masked = { .get = noisy_get, .ctx = &d };
    memcpy(p.slice, in->slice, sizeof p.slice);
    p.lags = noise_has_filter(&p) ? in->lags : 0;
    return noise_reply_make(reply, &p, &masked, add, in->memory, in->pool, &in->rng);
}

sefl_status noisy_finish(int64_t *w, const task *t, sefl_span reply, const mode_as *in,
                         const noise_source *add)
{
    noise_params p = task_noise_params(t, in->round, in->attempt);
    unit_digits d = { .p = &t->ahe, .seed = in->seed };
    noise_digits mask = { .get = noisy_get, .ctx = &d };
    memcpy(p.slice, in->slice, sizeof p.slice);
    p.lags = noise_has_filter(&p) ? in->lags : 0;
    return noise_reply_finish(w, &p, reply, &mask, add, in->memory, in->pool, in->coins);
}
