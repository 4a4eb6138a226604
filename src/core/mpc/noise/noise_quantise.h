/* noise_quantise: quantises a server's digits with secret coins and draws rare jumps, which the
 * server adds to the result. docs/PRIVACY.md explains why both are needed.
 *
 *     digit y   ->   (y + U) >> cut,  U uniform on `cut` bits
 *     jump Y = 0, except with probability 2^-18:  Y = G1 - G2,  G = number of five-bit draws before
 *     the first zero
 *
 * Jumps are drawn in groups of up to JUMP_GROUP coordinates: each group always draws JUMP_SLOTS
 * candidates, each from 2 x JUMP_DRAWS draws, and assigns them to the coordinates whose 18 coins
 * are all zero. So time and memory accesses do not depend on the positions of the jumps. These
 * limits change the distribution by less than 2^-90 per group and 2^-110 per coordinate.
 *
 * Secret: digits, coins, results. Public: n, cut.   Constant time. */
#ifndef MPC_NOISE_NOISE_QUANTISE_H
#define MPC_NOISE_NOISE_QUANTISE_H

#include "crypto/prg/prg.h"

enum { JUMP_GROUP = 1024, JUMP_SLOTS = 8, JUMP_DRAWS = 2048, JUMP_RATE_BITS = 18 };

/* Quantises n digits below 2^63 in place, with 8 bytes of coins each; cut <= 62. A digit just below
 * 2^b becomes 2^(b-cut) if it is rounded up: the caller reduces the result to its ring. */
void noise_quantise(uint64_t *digit, size_t n, unsigned cut, prg *coins);

/* Writes n <= JUMP_GROUP jumps. */
void noise_jumps(int32_t *out, size_t n, prg *coins);

/* Returns G for given draws: the number of bytes before the first whose low five bits are zero;
 * JUMP_DRAWS if there is none. For tests. */
uint32_t noise_geometric(const uint8_t draws[JUMP_DRAWS]);

#endif
