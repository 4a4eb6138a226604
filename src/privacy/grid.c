#include "privacy/grid.h"

#include "grid/grid.h"

#include <inttypes.h>
#include <math.h>

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
    o.t = grid_fraction_bits(z_nano);
    o.s2 = grid_s2(o.t, z_nano);
    o.r_2p16 = grid_clip_2p16(o.s2, c->dim);
    SEFL_CHECK(grid_clip_ok(o.s2, o.r_2p16), SEFL_ERANGE,
               "grid: rounding %" PRIu64 " coordinates would take more than half of the bound on "
               "the norm at z = %g: fewer coordinates or a smaller z",
               c->dim, c->z);
    o.r = (double)o.r_2p16 * 0x1p-16;
    o.q = c->clip / o.r;
    o.h = ldexp(o.q, (int)o.t);
    o.d_sens = o.q * sqrt((double)o.s2);
    o.sigma = DP_G44_SIGMA * o.h;
    SEFL_CHECK(isnormal(o.q) && isfinite(1 / o.q) && isfinite(o.sigma) && isfinite(o.d_sens),
               SEFL_EINVAL, "clip is %g: a grid step of %g cannot be computed with", c->clip, o.q);
    o.value_max = (int64_t)grid_isqrt(o.s2);
    if (c->coord_share > 0) {
        uint64_t most = grid_share(o.s2, (uint64_t)nearbyint(c->coord_share * 1e9));
        SEFL_CHECK(most >= 1, SEFL_EINVAL,
                   "coord_share is %g: the per-coordinate bound is below one grid step",
                   c->coord_share);
        o.value_max = (int64_t)most;
    }
    o.k = grid_smallest_k(DP_RING_BITS_MIN, o.t, c->clients, (uint64_t)o.value_max);
    SEFL_CHECK(o.k <= DP_RING_BITS_MAX, SEFL_ERANGE,
               "a sum of %" PRIu64 " clients could overflow: z = %g allows %.0f with a ring of %d "
               "bits (set a per-coordinate clip, or more noise)",
               c->clients, c->z,
               floor((double)grid_room(DP_RING_BITS_MAX, o.t) / (double)o.value_max),
               DP_RING_BITS_MAX);
    *g = o;
done:
    return st;
}
