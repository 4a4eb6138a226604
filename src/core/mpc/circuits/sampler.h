/* sampler: a circuit that draws one coordinate's noise, a sum of weighted bits and a rare kick.
 *
 *     SEFL_TRY(sampler_offline(&off, &sampler_g44));            // X in 7 bits: 29 ANDs
 *
 * X = sum over columns c of 2^c * (number of ones among column[c] fair bits) + 2^a * (1 + K). K is
 * 0 except with probability 2^-m, when it is +1 or -1 with equal probability. X is never negative;
 * the receiver subtracts the mean.
 *
 * The random bits r come in this order: column 0, column 1, ..., then m bits whose AND triggers the
 * kick, then its sign. The circuit's inputs are r (joint), its outputs x[0..sampler_bits-1], least
 * significant bit first.
 *
 * The profile in use is G44 [docs/PRIVACY.md] with columns {3, 4, 20} and kick (4, 6). Its mean is
 * 61.5, its variance 88.75, its support 0..123; it takes 34 random bits.
 * Threads: profiles are constants. */
#ifndef MPC_CIRCUITS_SAMPLER_H
#define MPC_CIRCUITS_SAMPLER_H

#include "mpc/circuits/arith.h"

enum {
    SAMPLER_MAX_COLUMNS = 8,
    SAMPLER_MAX_COLUMN_BITS = 64,
    SAMPLER_MAX_BITS = 32, /* more than sampler_bits of any profile */
    SAMPLER_MAX_COINS =
        SAMPLER_MAX_COLUMNS * SAMPLER_MAX_COLUMN_BITS + 17, /* random bits per value */
};

typedef struct sampler_profile {
    const char *name;
    unsigned columns;                     /* 1 .. SAMPLER_MAX_COLUMNS */
    unsigned column[SAMPLER_MAX_COLUMNS]; /* fair bits of weight 2^c, at most 64 each */
    unsigned kick_a;                      /* the kick is +-2^a, a < 16 */
    unsigned kick_m;                      /* with probability 2^-m, 1 <= m <= 16 */
} sampler_profile;

extern const sampler_profile sampler_g44;

/* SEFL_EINVAL if a field is out of range. */
sefl_status sampler_check(const sampler_profile *p) SEFL_MUST_CHECK;

/* For a valid profile, return the number of random bits, the maximum X (twice the mean), and the
 * number of bits of X. */
unsigned sampler_random_bits(const sampler_profile *p);
unsigned sampler_max(const sampler_profile *p);
unsigned sampler_bits(const sampler_profile *p);

sefl_status sampler_offline(circuit **out, const sampler_profile *p) SEFL_MUST_CHECK;

/* Appends to cols the bits whose sum is X. r: sampler_random_bits(p) wires. */
void sampler_put(circ_builder *b, circ_columns *cols, const circ_wire *r, const sampler_profile *p);

#endif
