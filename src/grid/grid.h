/* grid: the arithmetic that every party must do alike: from noise multiplier, clip, dimension and
 * number of clients to the steps and integer bounds of a task. Slot widths (crypto/ahe/pack) and the
 * client's quantisation (privacy/grid) both take their numbers from here.
 *
 *     S2 = floor((9.43919 * 2^t / z)^2)                    a client's sum of X_i^2 is at most this
 *     R  = the largest with R^2 + 5.27 R + d/4 + 2.64 sqrt(d) <= S2        the clip in fine steps
 *     no sum of K clients with |X_i| <= B wraps in a ring of k bits:  K B < (2^(k-1) - 128) 2^t
 *
 * (docs/PARAMETERS.md. 9.43919 is below the noise's deviation of 9.43920 coarse steps, so rounding
 * down never lowers z; 5.27 and 2.64 make rejection of a rounded vector rarer than 2^-20; 128
 * coarse steps are kept for the noise.)
 * Integers only (128 bits, floor), so all machines agree to the bit. Decimal settings are whole
 * billionths. The real steps are single IEEE 754 operations on those integers (one division, one
 * square root, one product, a shift of the exponent), so they have the same bits everywhere too.
 * Threads: any.   Secrets: none. */
#ifndef GRID_GRID_H
#define GRID_GRID_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 grid_u128;

#define GRID_BILLION UINT64_C(1000000000)

/* floor(sqrt(x)), x < 2^126. */
uint64_t grid_isqrt(grid_u128 x);

/* Fraction bits t below the coarse lattice: 12, from z = 4 on 14. z in billionths. */
unsigned grid_fraction_bits(uint64_t z_nano);

/* S2 for 0.001 <= z <= 1000, t as above. */
uint64_t grid_s2(unsigned t, uint64_t z_nano);

/* R * 2^16, rounded down; 0 if rounding alone fills S2. dimension <= 2^40. */
uint64_t grid_clip_2p16(uint64_t s2, uint64_t dimension);

/* Does the update, and not its rounding, fill the bound: R >= sqrt(S2)/2? */
bool grid_clip_ok(uint64_t s2, uint64_t clip_2p16);

/* All that follows from z, the clip C and the dimension d. */
typedef struct grid_steps {
    unsigned t;         /* fraction bits below the coarse lattice */
    uint64_t s2;        /* bound on the sum of squares of a client's integers */
    uint64_t r_2p16;    /* R * 2^16, R = C / q: the clip in fine steps */
    double q;           /* fine step */
    double h;           /* coarse step, 2^t q */
    double sensitivity; /* D = q sqrt(S2), L2 */
} grid_steps;

/* 0.001 <= z <= 1000, 1 <= dimension <= 2^40. SEFL_ERANGE: quantising takes more than half of the
 * norm. SEFL_EINVAL: doubles cannot hold the steps of this clip. */
sefl_status grid_derive(grid_steps *out, uint64_t z_nano, double clip,
                        uint64_t dimension) SEFL_MUST_CHECK;

/* The bound on one coordinate when it is a share (in billionths) of sqrt(S2). */
uint64_t grid_share(uint64_t s2, uint64_t share_nano);

/* What a sum must stay below in a ring of k bits, in fine steps; k >= 9. */
grid_u128 grid_room(unsigned k, unsigned t);

bool grid_fits(unsigned k, unsigned t, uint64_t clients, uint64_t value_max);

/* The smallest k from `from` (>= 9) on that fits; at most 60. */
unsigned grid_smallest_k(unsigned from, unsigned t, uint64_t clients, uint64_t value_max);

#endif
