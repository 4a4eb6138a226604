/* fed_train: the built-in training: a client's integers for a round from its text and the model.
 * roles/client/client_update.h then encrypts them into a body; the simulator adds them up.
 *
 *     unit client   SEFL_TRY(client_train_local(&job, e, v));
 *                   SEFL_TRY(client_train_round(X, t, clip, text->tokens, v, &coins));
 *     unit record   SEFL_TRY(client_train_records(&job, m, X, &zeroed, scratch, v, &coins));
 *
 * Records. A record is a document of corpus.h: a JSONL or CSV record, a text under a heading, or a
 * line. Records take turns (privacy/record_turns.h), so a round may use only some of them. No
 * record counts twice in a round.
 *
 * The content of one record must not affect how the client processes the others, or the privacy
 * bound for a record would not hold. The records of a round, and their dropout masks, depend only
 * on the round, the number of records and their positions. The client quantises each record with
 * fresh coins, even one without a usable gradient, which adds zeros. No record can stop the client.
 *
 * The dropout seed is not secret: the first 8 bytes of SHA-256("sefl dropout 1", task id, round
 * u64, client). Results do not depend on the pool. Secret: text, v, X, coins. Not constant-time (it
 * runs on the owner's machine). Threads: one owner. */
#ifndef FED_FED_TRAIN_H
#define FED_FED_TRAIN_H

#include "fed/train_job.h"
#include "model/engine/engine.h"

/* Returns what the engine does for a job of unit client: local_epochs or local_steps with the
 * round's learning rate (task_lr); text 0. */
train_steps client_train_steps(const train_job *job);

/* Takes these steps in slot 0 of e, which has the job's theta (engine_theta). Sets v,
 * t->params values, to theta_local - theta. SEFL_ERANGE if training diverged (the loss, the
 * gradient or a value of v is not finite); v is then zero, and the client uploads zeros, even in
 * the weight slot. */
sefl_status client_train_local(const train_job *job, engine *e, float *v) SEFL_MUST_CHECK;

/* Clips v, task_trained(t) values, and quantises it stochastically to X, t->values integers, with
 * dp_quantise on the task's grid (capped weights: with the slot, for this number of items; a clip
 * that is found privately: to the round's clip (task_model_read_clip), with the norm bit; no noise:
 * dp_quantise_plain). */
sefl_status client_train_round(int64_t *X, const task *t, uint64_t clip, uint64_t items,
                               const float *v, const sefl_rng *coins) SEFL_MUST_CHECK;

/* Makes one separate step for each record with m, which has the job's theta: limits its gradient
 * g_r (train_record: over all of its windows) to gradient_clip; clips v_r = -lr * g_r (lr: task_lr)
 * to the task's clip, quantises it and adds the result to X. A record counts as zeros if its loss
 * is not finite or above LM_MAX_LOSS per word, or if g_r or v_r is not finite. *zeroed: number of
 * such records. The caller zeroes X, t->values integers; scratch and v are overwritten. */
sefl_status client_train_records(const train_job *job, lm *m, int64_t *X, size_t *zeroed,
                                 int64_t *scratch, float *v, const sefl_rng *coins) SEFL_MUST_CHECK;

uint64_t client_dropout_seed(const task *t, uint64_t round, const uint8_t client[32]);

#endif
