/* grid: from clip, noise and dimension to the integers that travel, with an exact bound on them.
 *
 * A client's vector, clipped to L2 norm C, is rounded stochastically to integers X_i on a step q
 * and accepted if sum X_i^2 <= S2. The bound is exact, so the sensitivity is D = q * sqrt(S2):
 * what rounding adds to the norm is inside it. The circuit's noise has a standard deviation of
 * 9.43920 coarse steps h = 2^t q, so S2 follows from z alone, and q from S2:
 *
 *     S2 = floor((9.43919 * 2^t / z)^2)                  t = 12, from z = 4 on 14
 *     R  from R^2 + 5.27 R + d/4 + 2.64 sqrt(d) = S2     R = C/q: a vector of norm R is accepted
 *     q  = C/R,  D = q sqrt(S2),  h = 2^t q,  sigma = 9.43920 h >= z D       with 1 - 2^-20
 *
 * (docs/PARAMETERS.md; 9.43919 < 9.43920 so that rounding never lowers z.)
 * The ring width k is the smallest, 16 or more, for which no sum of `clients` vectors can wrap:
 * clients * value_max < (2^(k-1) - 128) * 2^t, value_max = floor(sqrt(S2)) or the per-coordinate
 * bound, whichever is smaller.
 *
 *     dp_grid g;
 *     SEFL_TRY(dp_grid_init(&g, &(dp_grid_config){ .z = 1, .clip = 1, .dim = 945510,
 *                                                  .clients = 1000 }));
 *
 * All parties derive the same numbers: z counts to nine decimals, S2 and R come from integer
 * arithmetic (grid/grid.h, shared with the slot packing of crypto/ahe/pack), q, h and D from those
 * by single IEEE operations.
 * Threads: any.   Secrets: none. */
#ifndef PRIVACY_GRID_H
#define PRIVACY_GRID_H

#include "base/status.h"

#include <stdint.h>

#define DP_G44_SIGMA 9.43920 /* standard deviation of the whole joint noise, in coarse steps */

enum { DP_RING_BITS_MIN = 16, DP_RING_BITS_MAX = 24 };

typedef struct dp_grid_config {
    double z;           /* noise multiplier, sigma / D */
    double clip;        /* C, L2 norm over the whole vector, extra slots included */
    uint64_t dim;       /* d, coordinates, extra slots included */
    uint64_t clients;   /* most vectors in one sum */
    double coord_share; /* per-coordinate bound as a share of D, in (0, 1]; 0: none */
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

/* SEFL_EINVAL names a bad value; SEFL_ERANGE: no grid (too many coordinates for this z), or a sum
 * that could wrap at k = 24. */
sefl_status dp_grid_init(dp_grid *g, const dp_grid_config *c) SEFL_MUST_CHECK;

#endif
