#include "privacy/grid.h"

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

    o.t = c->z >= 4 ? 14 : 12;
    double scale = (double)(1u << o.t), bound = 9.43919 * scale / c->z, d = (double)c->dim;
    o.s2 = (uint64_t)floor(bound * bound);
    /* R^2 + 5.27 R = rest */
    double rest = (double)o.s2 - d / 4 - 2.64 * sqrt(d);
    SEFL_CHECK(rest > 100, SEFL_ERANGE,
               "grid: %" PRIu64 " coordinates are too many for z = %g (rounding alone would use up "
               "the bound on the norm)",
               c->dim, c->z);
    o.r = sqrt(rest + 2.635 * 2.635) - 2.635;
    o.q = c->clip / o.r;
    o.d_sens = o.q * sqrt((double)o.s2);
    o.h = scale * o.q;
    o.sigma = DP_G44_SIGMA * o.h;
    o.sigma_steps2 = DP_G44_SIGMA * scale * (DP_G44_SIGMA * scale);
    o.value_max = (int64_t)floor(sqrt((double)o.s2));
    if (c->coord_share > 0) {
        double most = floor(c->coord_share * sqrt((double)o.s2));
        SEFL_CHECK(most >= 1, SEFL_EINVAL,
                   "coord_share is %g: the per-coordinate bound is below one grid step",
                   c->coord_share);
        if (most < (double)o.value_max)
            o.value_max = (int64_t)most;
    }
    for (o.k = DP_RING_BITS_MIN; o.k <= DP_RING_BITS_MAX; o.k++)
        if ((double)c->clients * (double)o.value_max <= (ldexp(1, (int)o.k - 1) - 128) * scale)
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
