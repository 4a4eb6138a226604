/* law: what a sampler profile must do: its value as a formula, and its exact distribution.
 *
 *     z == law_value(&sampler_g44, 16, n, r)                    // for every n and r
 *     law_pmf(&sampler_g44, count)                              // P[X = x] = count[x] / 2^34
 *
 * Threads: pure functions. */
#ifndef MPC_PLAIN_LAW_H
#define MPC_PLAIN_LAW_H

#include "mpc/circuits/sampler.h"

/* (n + X) mod 2^k; r[i] is 0 or 1, in the order of sampler.h. Not constant-time. */
uint32_t law_value_vartime(const sampler_profile *p, unsigned k, uint32_t n, const uint8_t *r);

/* count[x] for x = 0 .. sampler_max(p): out of 2^sampler_random_bits(p) equally likely strings of
 * coins, how many give X = x. Exact integers; SEFL_ERANGE if a profile has more than 62 coins. */
sefl_status law_pmf(const sampler_profile *p, uint64_t *count) SEFL_MUST_CHECK;

#endif
