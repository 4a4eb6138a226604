/* clear: computes a release in the clear. It takes the sum of the clients' integers, draws the
 * servers' noise from their named coins, and returns the released integers. It uses no ciphertext,
 * message or store: this process makes the noise shares and calls both functions of the release
 * mode.
 *
 *     SEFL_TRY(clear_release(w, &task, seed, round, attempt, sum));
 *
 * The result equals that of sum/as_link.h bit for bit, for ciphertexts of the same integers and the
 * coins named_coins_new("AS", seed) and ("CSP", seed). Tests of the roles and of the simulator
 * compare the two.
 *
 * Memory: about 40 bytes per value. Threads: any.   Secrets: everything. */
#ifndef SIMULATE_CLEAR_H
#define SIMULATE_CLEAR_H

#include "protocol/task.h"

/* out and sum have t->values integers each (sum/as_link.h). */
sefl_status clear_release(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                          uint64_t attempt, const int64_t *sum) SEFL_MUST_CHECK;

/* clear_release for joint noise, with X = 0 for the noise that the servers sample together. A real
 * release exceeds it by X, which is 0 to 123, modulo 2^k. For tests that draw the shares from other
 * coins. */
sefl_status clear_without_joint(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                                uint64_t attempt, const int64_t *sum) SEFL_MUST_CHECK;

/* Computes a trusted aggregator's release (protection cdp): the sum plus one discrete Gaussian on
 * the task's grid, from the coins ("AS", seed, "cdp", round, 1). attempt is not used. */
sefl_status clear_central(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                          uint64_t attempt, const int64_t *sum) SEFL_MUST_CHECK;

#endif
