#include "privacy/dp_grid.h"

#include "grid/grid.h"

#include <inttypes.h>
#include <math.h>

sefl_status dp_grid_init(dp_grid *g, const dp_grid_config *c)
{
    dp_grid o = { .z = c->z, .clip = c->clip, .dim = c->dim, .clients = c->clients };
    SEFL_NEED(c->z >= 1e-3 && c->z <= 1e3, SEFL_EINVAL,
              "z (noise multiplier) is %g: it must be in 0.001..1000", c->z);
    SEFL_NEED(c->clip > 0 && isfinite(c->clip), SEFL_EINVAL,
              "clip is %g: it must be a finite number above 0", c->clip);
    SEFL_NEED(c->dim > 0 && c->dim <= UINT64_C(1) << 32, SEFL_EINVAL,
              "dim (coordinates) is %" PRIu64 ": it must be in 1..2^32", c->dim);
    SEFL_NEED(c->clients > 0 && c->clients <= UINT64_C(1) << 24, SEFL_EINVAL,
              "clients is %" PRIu64 ": it must be in 1..2^24", c->clients);
    grid_steps steps;
    SEFL_PASS(grid_derive(&steps, (uint64_t)nearbyint(c->z * 1e9), c->clip, c->dim));
    o.t = steps.t, o.s2 = steps.s2, o.r_2p16 = steps.r_2p16;
    o.q = steps.q, o.h = steps.h, o.d_sens = steps.sensitivity;
    o.r = (double)o.r_2p16 * 0x1p-16;
    o.sigma = DP_G44_SIGMA * o.h;
    o.value_max = (int64_t)grid_isqrt(o.s2);
    o.k = grid_smallest_k(DP_RING_BITS_MIN, o.t, c->clients, (uint64_t)o.value_max);
    SEFL_NEED(o.k <= DP_RING_BITS_MAX, SEFL_ERANGE,
              "a sum of %" PRIu64 " clients could overflow: z = %g allows %.0f with a ring of %d "
              "bits (more noise)",
              c->clients, c->z,
              floor((double)grid_room(DP_RING_BITS_MAX, o.t) / (double)o.value_max),
              DP_RING_BITS_MAX);
    *g = o;
    return SEFL_OK;
}
