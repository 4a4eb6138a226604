/* clear: a release in the clear: from the sum of the clients' integers, with the servers' noise
 * from the same named coins, to the released integers. It uses no ciphertext, no message and no
 * store: this process makes the noise shares, and the rest is the two functions of the release
 * mode.
 *
 *     SEFL_TRY(clear_release(w, &task, seed, round, attempt, sum));
 *
 * gives bit for bit what sum/as_link.h gives for the ciphertexts of the same integers, with coins
 * named_coins_new("AS", seed) and ("CSP", seed). Tests of the roles and of the simulator compare
 * them.
 *
 * Memory: about 40 bytes per value. Threads: any.   Secrets: everything. */
#ifndef SIMULATE_CLEAR_H
#define SIMULATE_CLEAR_H

#include "protocol/task.h"

/* out: t->values integers (sum/as_link.h); sum: as many. */
sefl_status clear_release(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                          uint64_t attempt, const int64_t *sum) SEFL_MUST_CHECK;

/* The same for joint noise, but with X = 0 for the noise that the servers sample together. A real
 * release exceeds it by X, 0 to 123, modulo 2^k. For tests whose shares have other names. */
sefl_status clear_without_joint(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                                uint64_t attempt, const int64_t *sum) SEFL_MUST_CHECK;

/* A trusted aggregator's release (protection cdp): the sum and one discrete Gaussian of the task's
 * grid, coins ("AS", seed, "cdp", round, 1). attempt is not used. */
sefl_status clear_central(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                          uint64_t attempt, const int64_t *sum) SEFL_MUST_CHECK;

#endif
