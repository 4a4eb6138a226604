#include "sum/unit_digits.h"

#include "base/alloc.h"

#include <string.h>

enum { DIGITS = 4096 };

sefl_status unit_digits_init(unit_digits *d, const ahe_params *p, const uint8_t *plain,
                             const uint8_t seed[AHE_SEED_BYTES])
{
    sefl_status st = SEFL_OK;
    *d = (unit_digits){ .p = p, .plain = plain, .seed = seed };
    d->batch = p->unit_values < DIGITS ? DIGITS / p->unit_values : 1;
    SEFL_TRY(sefl_new(&d->digit, d->batch * p->unit_values, sizeof *d->digit));
    if (!plain)
        SEFL_TRY(sefl_new(&d->mask, d->batch, p->plain_bytes));
done:
    if (st != SEFL_OK)
        unit_digits_clear(d);
    return st;
}

void unit_digits_clear(unit_digits *d)
{
    if (d->digit)
        sefl_free_secret(d->digit, d->batch * d->p->unit_values * sizeof *d->digit);
    if (d->mask)
        sefl_free_secret(d->mask, d->batch * d->p->plain_bytes);
    *d = (unit_digits){ 0 };
}

static sefl_status load(unit_digits *d, size_t unit)
{
    sefl_status st = SEFL_OK;
    const ahe_params *p = d->p;
    size_t n = p->units - unit < d->batch ? p->units - unit : d->batch;
    const uint8_t *plain = d->mask;
    if (d->plain)
        plain = d->plain + unit * p->plain_bytes;
    else
        SEFL_TRY(ahe_mask_units(p, d->mask, unit, n, d->seed));
    ahe_plain_digits(p, d->digit, plain, n);
    d->unit = unit, d->have = n;
done:
    return st;
}

static sefl_status get(void *ctx, uint64_t *digit, size_t first, size_t n)
{
    sefl_status st = SEFL_OK;
    unit_digits *d = ctx;
    size_t per = d->p->unit_values;
    SEFL_CHECK(first <= d->p->values && n <= d->p->values - first, SEFL_ERANGE,
               "digits %zu to %zu of %zu", first, first + n, d->p->values);
    while (n > 0) {
        size_t unit = first / per;
        if (unit < d->unit || unit >= d->unit + d->have)
            SEFL_TRY(load(d, unit));
        size_t at = first - d->unit * per, left = d->have * per - at;
        size_t take = left < n ? left : n;
        memcpy(digit, d->digit + at, take * sizeof *digit);
        digit += take, first += take, n -= take;
    }
done:
    return st;
}

noise_digits unit_digits_of(unit_digits *d)
{
    return (noise_digits){ .get = get, .ctx = d };
}
