/* grid: derives a task's steps and integer bounds from the noise multiplier, the clip, the
 * dimension and the number of clients. Every party must get the same numbers, so slot packing
 * (crypto/ahe/pack) and the client's quantiser (privacy/grid) both use this module.
 *
 *     S2 = floor((9.43919 * 2^t / z)^2)                    bound on a client's sum of X_i^2
 *     R  = the largest R with R^2 + 5.27 R + d/4 + 2.64 sqrt(d) <= S2      the clip in fine steps
 *     no sum of K clients with |X_i| <= B wraps in a ring of k bits if K B < (2^(k-1) - 128) 2^t
 *
 * (docs/PROTOCOL.md derives these formulas. The noise's standard deviation is 9.43920 coarse
 * steps; the smaller 9.43919 ensures that rounding never lowers z. 5.27 and 2.64 keep the
 * probability that a quantised vector is rejected below 2^-20. 128 coarse steps are reserved for
 * the noise.) The bounds use integers only (128 bits, floor), so all machines agree to the bit.
 * Decimal settings are in whole billionths. Each real step results from single IEEE 754 operations
 * on those integers (division, square root, product, exponent shift), so it is the same everywhere.
 * Threads: any.   Secrets: none. */
#ifndef GRID_GRID_H
#define GRID_GRID_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 grid_u128;

#define GRID_BILLION UINT64_C(1000000000)

/* Returns floor(sqrt(x)), x < 2^126. */
uint64_t grid_isqrt(grid_u128 x);

/* Returns t, the fraction bits below the coarse lattice: 12, or 14 if z >= 4. z in billionths. */
unsigned grid_fraction_bits(uint64_t z_nano);

/* Returns S2 for 0.001 <= z <= 1000 and the t of grid_fraction_bits. */
uint64_t grid_s2(unsigned t, uint64_t z_nano);

/* Returns R * 2^16, rounded down, or 0 if quantisation alone exceeds S2. dimension <= 2^40. */
uint64_t grid_clip_2p16(uint64_t s2, uint64_t dimension);

/* True if the update, not its quantisation, takes up most of the bound: R >= sqrt(S2)/2. */
bool grid_clip_ok(uint64_t s2, uint64_t clip_2p16);

/* The values that follow from z, the clip C and the dimension d. */
typedef struct grid_steps {
    unsigned t;         /* fraction bits below the coarse lattice */
    uint64_t s2;        /* bound on the sum of squares of a client's integers */
    uint64_t r_2p16;    /* R * 2^16, R = C / q: the clip in fine steps */
    double q;           /* fine step */
    double h;           /* coarse step, 2^t q */
    double sensitivity; /* D = q sqrt(S2), the L2 sensitivity */
} grid_steps;

/* Requires 0.001 <= z <= 1000 and 1 <= dimension <= 2^40. SEFL_ERANGE if quantising uses up more
 * than half of the norm, SEFL_EINVAL if doubles cannot represent the steps of this clip. */
sefl_status grid_derive(grid_steps *out, uint64_t z_nano, double clip,
                        uint64_t dimension) SEFL_MUST_CHECK;

/* Returns the bound on one coordinate: sqrt(S2) times share_nano billionths. */
uint64_t grid_share(uint64_t s2, uint64_t share_nano);

/* Returns the exclusive bound on a sum in a ring of k bits, in fine steps; k >= 9. */
grid_u128 grid_room(unsigned k, unsigned t);

bool grid_fits(unsigned k, unsigned t, uint64_t clients, uint64_t value_max);

/* Returns the smallest k from `from` (at least 9) to 60 for which grid_fits is true. */
unsigned grid_smallest_k(unsigned from, unsigned t, uint64_t clients, uint64_t value_max);

#endif
