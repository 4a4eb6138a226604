/* clear: computes a release in the clear. It takes the sum of the clients' integers, draws the
 * servers' noise from their named coins, and returns the released integers. It uses no ciphertext,
 * message or store: it makes the noise shares itself and calls the release mode's functions for
 * both servers.
 *
 *     clear_facts c = { .task = &task, .seed = seed, .round = 3, .attempt = 1, .pool = pool };
 *     SEFL_TRY(clear_release(w, &c, sum));
 *
 * The result is bit-identical to what sum/as_link.h computes from ciphertexts of the same integers,
 * with the coins named_coins_new("AS", seed) and ("CSP", seed). Tests of the roles and of the
 * simulator compare the two.
 *
 * With a filter (correlated noise, mpc/noise/noise_filter.h) a release takes back noise of the
 * rounds in `past` and adds its own to it. In mode own the result is still identical. With joint
 * noise it has the same law but, from the second round on, other roundings: each server rounds at a
 * place that depends on its share of the old noise, and AS's shares are 0 here. A value then
 * differs by at most two steps (and by what a later round takes back of that). A trusted aggregator
 * (cdp) filters its noise as a server of mode own does.
 *
 * Memory: about 40 bytes per value, besides `past`. Threads: works on the pool; no result depends
 * on its size. Secrets: everything. */
#ifndef SIMULATE_CLEAR_H
#define SIMULATE_CLEAR_H

#include "base/pool.h"
#include "protocol/task.h"
#include "simulate/past.h"

struct engine_noise;

/* Identifies a release. */
typedef struct clear_facts {
    const task *task;
    uint64_t seed, round, attempt;
    pool *pool; /* NULL: only the calling thread */
    past *past; /* NULL unless the task has a filter */
} clear_facts;

/* out and sum each have task->values integers (sum/as_link.h). */
sefl_status clear_release(int64_t *out, const clear_facts *c, const int64_t *sum) SEFL_MUST_CHECK;

/* Like clear_release for joint noise, but with 0 in place of X, the noise that the servers sample
 * together. A real release exceeds the result by X, 0 to 123, modulo 2^k. Used by tests whose
 * shares come from other coins. */
sefl_status clear_without_joint(int64_t *out, const clear_facts *c,
                                const int64_t *sum) SEFL_MUST_CHECK;

/* Computes a trusted aggregator's release (protection cdp): the sum plus one discrete Gaussian on
 * the task's grid, from the coins ("AS", seed, "cdp", round, 1) in the pieces of engine_noise, so
 * that any thread, or a GPU, draws the same integers. Ignores attempt. */
sefl_status clear_central(int64_t *out, const clear_facts *c, const int64_t *sum) SEFL_MUST_CHECK;
/* Computes the distribution of the fresh noise and the key of its coins. */
sefl_status clear_central_noise(struct engine_noise *out, const clear_facts *c) SEFL_MUST_CHECK;

#endif
