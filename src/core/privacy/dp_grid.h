/* dp_grid: derives the grid of the integers that clients send, with an exact bound on their norm.
 *
 * A client clips its vector to L2 norm C, quantises it stochastically to integers X_i with step q
 * and accepts the result if sum X_i^2 <= S2. The bound is exact, so the sensitivity is D = q *
 * sqrt(S2), including the norm that quantising adds. The circuit's noise has a standard deviation
 * of 9.43920 coarse steps h = 2^t q, which is at least z D. grid/grid.h derives S2, R, q, h and D
 * for this module and for the slot packing. The ring width k is the smallest k >= 16 for which no
 * sum of `clients` vectors can wrap.
 *
 *     dp_grid g;
 *     SEFL_TRY(dp_grid_init(&g, &(dp_grid_config){ .z = 1, .clip = 1, .dim = 945510,
 *                                                  .clients = 1000 }));
 *
 * z is rounded to nine decimals.
 * Threads: any.   Secrets: none. */
#ifndef PRIVACY_DP_GRID_H
#define PRIVACY_DP_GRID_H

#include "base/status.h"

#include <stdint.h>

#define DP_G44_SIGMA 9.43920 /* standard deviation of the total joint noise, in coarse steps */

enum { DP_RING_BITS_MIN = 16, DP_RING_BITS_MAX = 24 };

typedef struct dp_grid_config {
    double z;         /* noise multiplier, sigma / D */
    double clip;      /* C, maximum L2 norm of the whole vector, extra slots included */
    uint64_t dim;     /* d, coordinates, extra slots included */
    uint64_t clients; /* maximum number of vectors in one sum */
} dp_grid_config;

typedef struct dp_grid {
    double z, clip;
    uint64_t dim, clients;
    unsigned k, t;   /* ring bits of the coarse lattice, fraction bits below it */
    uint64_t s2;     /* bound on the sum of squares of a client's integers */
    uint64_t r_2p16; /* R * 2^16, R = C / q */
    double r;
    double q;          /* fine step */
    double d_sens;     /* D = q * sqrt(S2), L2 sensitivity */
    double h;          /* coarse step, 2^t * q */
    double sigma;      /* noise standard deviation, 9.43920 * h */
    int64_t value_max; /* bound on |X_i| */
} dp_grid;

/* SEFL_EINVAL if a setting is out of range; SEFL_ERANGE if there are too many coordinates for this
 * z, or if a sum could wrap even at k = 24. */
sefl_status dp_grid_init(dp_grid *g, const dp_grid_config *c) SEFL_MUST_CHECK;

#endif
