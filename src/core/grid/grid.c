#include "grid/grid.h"

#include <float.h>
#include <math.h>

_Static_assert(FLT_EVAL_METHOD == 0 && DBL_MANT_DIG == 53,
               "IEEE 754 doubles without excess precision: all parties derive the same bits");

enum { NOISE_MARGIN = 128 }; /* coarse steps: |X - 61.5| <= 61.5, two roundings, the offset */

uint64_t grid_isqrt(grid_u128 x)
{
    grid_u128 root = 0;
    for (int i = 62; i >= 0; i--) { /* digit by digit */
        grid_u128 next = root | (grid_u128)1 << i;
        if (next * next <= x)
            root = next;
    }
    return (uint64_t)root;
}

unsigned grid_fraction_bits(uint64_t z_nano)
{
    return z_nano < 4 * GRID_BILLION ? 12 : 14;
}

/* With z = Z / 10^9 the base is 9439190000 * 2^t / Z, whose numerator is below 2^48. */
uint64_t grid_s2(unsigned t, uint64_t z_nano)
{
    grid_u128 n = (grid_u128)9439190000u << t;
    return (uint64_t)(n * n / ((grid_u128)z_nano * z_nano));
}

/* With u = 200 R + 527 the condition is u^2 <= 527^2 + 40000 S2 - 10000 d - 105600 sqrt(d). */
uint64_t grid_clip_2p16(uint64_t s2, uint64_t dimension)
{
    grid_u128 plus = (grid_u128)527 * 527 + (grid_u128)40000 * s2;
    grid_u128 minus =
        (grid_u128)10000 * dimension + grid_isqrt((grid_u128)105600 * 105600 * dimension) + 1;
    if (plus <= minus)
        return 0;
    uint64_t u = grid_isqrt((plus - minus) << 32), offset = (uint64_t)527 << 16;
    return u > offset ? (u - offset) / 200 : 0;
}

bool grid_clip_ok(uint64_t s2, uint64_t clip_2p16)
{
    return (grid_u128)clip_2p16 * clip_2p16 * 4 >= (grid_u128)s2 << 32;
}

uint64_t grid_share(uint64_t s2, uint64_t share_nano)
{
    return grid_isqrt((grid_u128)share_nano * share_nano * s2 / GRID_BILLION / GRID_BILLION);
}

grid_u128 grid_room(unsigned k, unsigned t)
{
    return ((grid_u128)((uint64_t)1 << (k - 1)) - NOISE_MARGIN) << t;
}

bool grid_fits(unsigned k, unsigned t, uint64_t clients, uint64_t value_max)
{
    return (grid_u128)clients * value_max < grid_room(k, t);
}

unsigned grid_smallest_k(unsigned from, unsigned t, uint64_t clients, uint64_t value_max)
{
    unsigned k = from;
    while (k < 60 && !grid_fits(k, t, clients, value_max))
        k++;
    return k;
}

sefl_status grid_derive(grid_steps *out, uint64_t z_nano, double clip, uint64_t dimension)
{
    grid_steps g = { .t = grid_fraction_bits(z_nano) };
    g.s2 = grid_s2(g.t, z_nano);
    g.r_2p16 = grid_clip_2p16(g.s2, dimension);
    /* R >= sqrt(S2) / 2, so that the update and not its quantisation fills the sensitivity */
    SEFL_NEED(grid_clip_ok(g.s2, g.r_2p16), SEFL_ERANGE,
              "grid: quantising %llu coordinates takes more than half of a sensitivity of %llu "
              "steps (z = %.9g): fewer coordinates or a smaller z",
              (unsigned long long)dimension, (unsigned long long)grid_isqrt(g.s2),
              (double)z_nano / (double)GRID_BILLION);
    g.q = clip / ((double)g.r_2p16 * 0x1p-16); /* R * 2^16 is exact as a double */
    g.h = ldexp(g.q, (int)g.t);
    g.sensitivity = g.q * sqrt((double)g.s2);
    SEFL_NEED(isnormal(g.q) && isfinite(1 / g.q) && isfinite(16 * g.h) && isfinite(g.sensitivity),
              SEFL_EINVAL, "clip is %g: a grid step of %g cannot be computed with", clip, g.q);
    *out = g;
    return SEFL_OK;
}
