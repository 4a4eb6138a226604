/* sampler: the noise of one coordinate as a circuit: sums of fair bits and a rare kick.
 *
 *     SEFL_TRY(sampler_circuit(&c, &sampler_g44, 16));          // z = n + X mod 2^16: 44 ANDs
 *     SEFL_TRY(sampler_offline(&off, &sampler_g44));            // X alone, 7 bits: 29 ANDs
 *
 * X = sum over columns c of 2^c * (number of ones among column[c] fair bits) + 2^a * (1 + K), where
 * K = 0, but with probability 2^-m it is +1 or -1 with equal odds. All signs come from the offset:
 * X >= 0, and whoever decodes subtracts the mean.
 *
 * Random bits r in this order: column 0, column 1, ..., then m bits whose AND starts the kick, then
 * its sign. Inputs of the circuits, in order:
 *     sampler_circuit:  n[0..k-1] (evaluator), r (joint)          outputs z[0..k-1]
 *     sampler_offline:  r (joint)                                 outputs x[0..sampler_bits-1]
 * Bits are least significant first.
 *
 * G44 [docs/PRIVACY.md] is the profile in use: columns {3, 4, 20}, kick (4, 6): mean 61.5, variance
 * 88.75, 34 random bits, support 0..123.
 * Threads: profiles are constants. */
#ifndef MPC_CIRCUITS_SAMPLER_H
#define MPC_CIRCUITS_SAMPLER_H

#include "mpc/circuits/circuit.h"

enum {
    SAMPLER_MAX_COLUMNS = 8,
    SAMPLER_MAX_COLUMN_BITS = 64,
    SAMPLER_MAX_RING = 32,
    SAMPLER_MAX_COINS = SAMPLER_MAX_COLUMNS * SAMPLER_MAX_COLUMN_BITS + 17, /* of a value */
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

/* Of a valid profile: number of random bits; largest X; bits that hold it; twice the mean. */
unsigned sampler_random_bits(const sampler_profile *p);
unsigned sampler_max(const sampler_profile *p);
unsigned sampler_bits(const sampler_profile *p);
unsigned sampler_mean_twice(const sampler_profile *p);

/* k: ring width, sampler_bits(p) <= k <= SAMPLER_MAX_RING. */
sefl_status sampler_circuit(circuit **out, const sampler_profile *p, unsigned k) SEFL_MUST_CHECK;
sefl_status sampler_offline(circuit **out, const sampler_profile *p) SEFL_MUST_CHECK;

#endif
