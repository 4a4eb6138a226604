#include "privacy/grid.h"

#include <inttypes.h>
#include <math.h>

typedef unsigned __int128 u128;

#define BILLION UINT64_C(1000000000)

/* floor(sqrt(x)), x < 2^126 */
static uint64_t root(u128 x)
{
    u128 r = 0;
    for (int i = 62; i >= 0; i--) {
        u128 next = r | (u128)1 << i;
        if (next * next <= x)
            r = next;
    }
    return (uint64_t)r;
}

/* floor((9.43919 * 2^t / z)^2), z in billionths */
static uint64_t bound_for(unsigned t, uint64_t z)
{
    u128 n = (u128)9439190000u << t;
    return (uint64_t)(n * n / ((u128)z * z));
}

/* The largest R * 2^16 with R^2 + 5.27 R + d/4 + 2.64 sqrt(d) <= S2, or 0: with u = 200 R + 527,
 * u^2 <= 527^2 + 40000 S2 - 10000 d - 105600 sqrt(d). */
static uint64_t clip_for(uint64_t s2, uint64_t d)
{
    u128 plus = (u128)527 * 527 + (u128)40000 * s2;
    u128 minus = (u128)10000 * d + root((u128)105600 * 105600 * d) + 1;
    if (plus <= minus)
        return 0;
    uint64_t u = root((plus - minus) << 32), offset = (uint64_t)527 << 16;
    return u > offset ? (u - offset) / 200 : 0;
}

sefl_status dp_grid_init(dp_grid *g, const dp_grid_config *c)
{
    sefl_status st = SEFL_OK;
    dp_grid o = { .z = c->z, .clip = c->clip, .dim = c->dim, .clients = c->clients };
    SEFL_CHECK(c->z >= 1e-3 && c->z <= 1e3, SEFL_EINVAL,
               "z (noise multiplier) is %g: it must lie in 0.001..1000", c->z);
    SEFL_CHECK(c->clip > 0 && isfinite(c->clip), SEFL_EINVAL,
               "clip is %g: it must be a finite number above 0", c->clip);
    SEFL_CHECK(c->dim > 0 && c->dim <= UINT64_C(1) << 32, SEFL_EINVAL,
               "dim (coordinates) is %" PRIu64 ": it must lie in 1..2^32", c->dim);
    SEFL_CHECK(c->clients > 0 && c->clients <= UINT64_C(1) << 24, SEFL_EINVAL,
               "clients is %" PRIu64 ": it must lie in 1..2^24", c->clients);
    SEFL_CHECK(c->coord_share >= 0 && c->coord_share <= 1, SEFL_EINVAL,
               "coord_share is %g: it must lie in 0..1", c->coord_share);

    uint64_t z_nano = (uint64_t)nearbyint(c->z * 1e9);
    o.t = z_nano >= 4 * BILLION ? 14 : 12;
    o.s2 = bound_for(o.t, z_nano);
    o.r_2p16 = clip_for(o.s2, c->dim);
    SEFL_CHECK((u128)o.r_2p16 * o.r_2p16 * 4 >= (u128)o.s2 << 32, SEFL_ERANGE,
               "grid: rounding %" PRIu64 " coordinates would take more than half of the bound on "
               "the norm at z = %g: fewer coordinates or a smaller z",
               c->dim, c->z);
    o.r = (double)o.r_2p16 * 0x1p-16;
    o.q = c->clip / o.r;
    o.h = ldexp(o.q, (int)o.t);
    o.d_sens = o.q * sqrt((double)o.s2);
    o.sigma = DP_G44_SIGMA * o.h;
    double scale = ldexp(1, (int)o.t);
    o.value_max = (int64_t)root(o.s2);
    if (c->coord_share > 0) {
        u128 share = (u128)nearbyint(c->coord_share * 1e9);
        uint64_t most = root(share * share * o.s2 / BILLION / BILLION);
        SEFL_CHECK(most >= 1, SEFL_EINVAL,
                   "coord_share is %g: the per-coordinate bound is below one grid step",
                   c->coord_share);
        o.value_max = (int64_t)most;
    }
    for (o.k = DP_RING_BITS_MIN; o.k <= DP_RING_BITS_MAX; o.k++)
        if ((double)c->clients * (double)o.value_max < (ldexp(1, (int)o.k - 1) - 128) * scale)
            break;
    SEFL_CHECK(o.k <= DP_RING_BITS_MAX, SEFL_ERANGE,
               "a sum of %" PRIu64 " clients could overflow: z = %g allows %.0f with a ring of %d "
               "bits (set a per-coordinate clip, or more noise)",
               c->clients, c->z,
               floor((ldexp(1, DP_RING_BITS_MAX - 1) - 128) * scale / (double)o.value_max),
               DP_RING_BITS_MAX);
    *g = o;
done:
    return st;
}
