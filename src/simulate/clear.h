/* clear: what a round gives in the clear: from the sum of the clients' integers, and the servers' noise
 * drawn from the same named coins, to the released integers. No ciphertext, no message of an opening, no
 * journal takes part: noise shares are made in this process, the rest is two pure functions
 * (mpc/noise/online.h).
 *
 *     SEFL_TRY(clear_release(w, &task, seed, round, attempt, sum));
 *
 * gives bit for bit what sum/as_link.h gives for the ciphertexts of the same integers, with coins
 * named_coins_new("AS", seed) and ("CSP", seed): tests of the roles and of the simulator hold it so.
 *
 * Memory for d values: joint about 50 d bytes, own 40 d. Threads: any.   Secrets: everything. */
#ifndef SIMULATE_CLEAR_H
#define SIMULATE_CLEAR_H

#include "protocol/task.h"

/* out: t->values integers (sum/as_link.h); sum: as many. */
sefl_status clear_release(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                          uint64_t attempt, const int64_t *sum) SEFL_MUST_CHECK;

/* The same of a task with joint noise, but for the noise X that the servers sample together: in the clear
 * it is 0. What a round released more, modulo 2^k, is X, 0 to 123. For tests whose shares have other names. */
sefl_status clear_without_joint(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                                uint64_t attempt, const int64_t *sum) SEFL_MUST_CHECK;

/* A trusted aggregator's release (protection cdp): the sum and one discrete Gaussian of the task's
 * grid, coins ("AS", seed, "cdp", round, 1). attempt is not used. */
sefl_status clear_central(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                          uint64_t attempt, const int64_t *sum) SEFL_MUST_CHECK;

#endif
