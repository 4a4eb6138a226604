/* g44: the joint noise in the clear: the law that the circuit samples, and the whole path from a
 * sum of integers to the released one, as both servers would walk it. For simulation, tests and
 * exact probabilities; the real thing is mpc/.
 *
 *     z = n + pop(r[0..2]) + 2 pop(r[3..6]) + 4 pop(r[7..26]) + 16 (1 + K)  mod 2^k
 *     K = 0 unless r[27..32] are all 1; then +1 if r[33] is 1, else -1
 *
 * X = z - n for n = 0: mean 61.5, variance 88.75, on 0..123. Beside it each server adds a rare jump
 * Y of its own: 0, but with probability 2^-18 the difference of two geometric numbers (non-zero
 * 5-bit draws before the first zero one). What a server cannot take off again is
 * N = X - 61.5 + Tri + Y: see docs/PRIVACY.md.
 *
 * Secret: coins and samples; g44_jump is not constant-time (its draws are rare and made ahead).
 * Threads: any. */
#ifndef PRIVACY_MECHANISM_G44_H
#define PRIVACY_MECHANISM_G44_H

#include "base/random.h"
#include "privacy/grid.h"

#include <stddef.h>

enum {
    G44_RANDOM_BITS = 34,
    G44_VALUES = 124,       /* X lies in 0..123 */
    G44_OFFSET = 62,        /* taken off outside; result = (w + 0.5) h */
    G44_JUMP_LOG = 18,      /* a jump has probability 2^-18 */
    G44_JUMP_DRAW_BITS = 5, /* ratio 31/32 */
};

/* X from 34 random bits: bit i of r is r[i]. */
uint32_t g44_value(uint64_t r);

/* Exact law of X: Pr[X = x] = out[x] / 2^34. The numbers add up to 2^34. */
void g44_law(uint64_t out[G44_VALUES]);

/* Pr[Y = y] / Pr[Y = y + 1] and so on follow from this: Pr[Y = y]. */
double g44_jump_probability(int64_t y);

/* n jumps. The generator gives 18 + 5 * (draws) bits each, in this order: 18 bits, all zero for a
 * jump; then G1's draws, then G2's. */
sefl_status g44_jumps_vartime(int32_t *out, size_t n, const sefl_rng *rng) SEFL_MUST_CHECK;

/* SR(y) = ((y + U) >> bits) mod 2^k with U uniform on `bits` bits: rounds to the coarse lattice. */
uint32_t g44_round(uint64_t y, uint64_t u, unsigned bits, unsigned k);

/* The coins of one coordinate of one release. */
typedef struct g44_coins {
    uint64_t mask;        /* v, uniform on w = k + t bits */
    uint64_t u_csp, u_as; /* rounding coins, t bits each */
    uint64_t r;           /* 34 bits, XOR of both servers' */
    int32_t y_csp, y_as;  /* jumps */
} g44_coins;

/* One coordinate: sum in fine steps -> w, the released value in coarse steps: result (w + 0.5) h.
 * Slot by slot (no carries), as the pad scheme does it. */
int64_t g44_release_one(const dp_grid *g, int64_t sum, const g44_coins *c);

/* A whole vector with coins from the generator. out[i] is w. */
sefl_status g44_release_vartime(int64_t *out, const dp_grid *g, const int64_t *sum, size_t n,
                                const sefl_rng *rng) SEFL_MUST_CHECK;

#endif
