/* filter_ref: the correlated noise of noise/noise_filter.h, one value at a time, in any width, with
 * remainders in place of shifts and wrapping.
 *
 *     filter_ref f = filter_ref_of(16, 36, 12);      // k, F, bits of gamma
 *     filter_ref_h(&f, gamma, past, 4)
 *
 * Not constant-time. Threads: pure functions. */
#ifndef SUPPORT_FILTER_REF_H
#define SUPPORT_FILTER_REF_H

#include <stdint.h>

typedef __int128 wide;

typedef struct filter_ref {
    wide weight; /* gamma counts 1 / weight */
    wide unit;   /* 2^F */
    wide place;  /* 2^(k+F): the modulus of y and H */
    wide kept;   /* place * weight: the modulus of what is kept */
} filter_ref;

static inline wide wide_mod(wide x, wide m)
{
    return (x % m + m) % m;
}

/* The representative of x modulo m in [-m/2, m/2). */
static inline wide wide_signed(wide x, wide m)
{
    return wide_mod(x + m / 2, m) - m / 2;
}

static inline filter_ref filter_ref_of(unsigned k, unsigned f, unsigned weight_bits)
{
    filter_ref r = { (wide)1 << weight_bits, (wide)1 << f, (wide)1 << (k + f), 0 };
    r.kept = r.place * r.weight;
    return r;
}

static inline wide filter_ref_h(const filter_ref *f, const uint16_t *gamma, const wide *past,
                                unsigned n)
{
    wide q = 0;
    for (unsigned j = 0; j < n; j++)
        q -= gamma[j] * past[j];
    return wide_mod(q + f->weight / 2, f->kept) / f->weight;
}

static inline wide filter_ref_y(const filter_ref *f, wide digit_at_f, wide h, int sign)
{
    return wide_mod(digit_at_f + sign * h, f->place);
}

/* step: 2^cut; d = a + Y at CSP, a - Y' at AS. */
static inline wide filter_ref_keep(const filter_ref *f, wide x, wide d, wide y, wide step, int sign,
                                   unsigned mean2)
{
    wide mean = sign < 0 ? mean2 * step / 2 : 0;
    return wide_mod(x * step + sign * (d * step - y) - mean, f->kept);
}

#endif
