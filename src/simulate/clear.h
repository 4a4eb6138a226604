/* clear: computes a release in the clear. It takes the sum of the clients' integers, draws the
 * servers' noise from their named coins, and returns the released integers. There is no ciphertext,
 * message or store: this process makes the noise shares itself and calls both servers' functions of
 * the release mode.
 *
 *     SEFL_TRY(clear_release(w, &task, seed, round, attempt, sum));
 *
 * The result is bit for bit what sum/as_link.h computes from ciphertexts of the same integers, with
 * the coins named_coins_new("AS", seed) and ("CSP", seed). Tests of the roles and of the simulator
 * compare the two.
 *
 * Memory: about 40 bytes per value. Threads: any.   Secrets: everything. */
#ifndef SIMULATE_CLEAR_H
#define SIMULATE_CLEAR_H

#include "protocol/task.h"

/* out and sum each have t->values integers (sum/as_link.h). */
sefl_status clear_release(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                          uint64_t attempt, const int64_t *sum) SEFL_MUST_CHECK;

/* Does what clear_release does for joint noise, but with 0 in place of X, the noise that the
 * servers sample together. A real release exceeds the result by X, 0 to 123, modulo 2^k. For tests
 * whose shares come from other coins. */
sefl_status clear_without_joint(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                                uint64_t attempt, const int64_t *sum) SEFL_MUST_CHECK;

/* Computes a trusted aggregator's release (protection cdp): the sum plus one discrete Gaussian on
 * the task's grid, from the coins ("AS", seed, "cdp", round, 1). Ignores attempt. */
sefl_status clear_central(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                          uint64_t attempt, const int64_t *sum) SEFL_MUST_CHECK;

#endif
