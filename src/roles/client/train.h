/* client_train: what a client computes in a round: from its text and the model to integers, before
 * anything is encrypted. roles/client/update.h makes a body of them; the simulator adds them up.
 *
 *     unit client   SEFL_TRY(client_train_local(&c, v));
 *                   SEFL_TRY(client_train_round(X, t, text, v, &coins));
 *     unit record   SEFL_TRY(client_train_records(&c, X, &zeroed, scratch, v, &coins));
 *
 * Records. A record is a document of corpus.h: a JSONL or CSV record, a text under a heading, or a
 * line. A text of more than records_max records uses that many in a round; the next round goes on
 * with those that follow, in a circle. No record counts twice in a round.
 *
 * What one record says must not change what the client does with the others, or the bound for a
 * record is worth nothing. Which records a round uses, and their dropout masks, follow from the
 * round, the number of records and their places. Each is rounded with fresh coins, also one without
 * a usable gradient, which adds zeros. The client goes on whatever a record's loss is.
 *
 * The dropout's seed is no secret coin: SHA-256("sefl dropout 1", task id, round u64, client), its
 * first 8 bytes. Results do not depend on the pool. Secret: text, v, X, coins. Not constant-time
 * (the owner's own machine). Threads: one owner. */
#ifndef ROLES_CLIENT_TRAIN_H
#define ROLES_CLIENT_TRAIN_H

#include "base/progress.h"
#include "base/random.h"
#include "model/corpus/corpus.h"
#include "model/engine/engine.h"
#include "protocol/task.h"

typedef struct client_train {
    const task *task;
    const corpus *text;
    uint32_t eos;          /* of the vocabulary */
    const uint8_t *client; /* 32 bytes: fingerprint of its certificate */
    uint64_t round;
    engine *e; /* unit client: engine_theta has the theta of the round; slot 0 is used */
    lm *m;     /* unit record: the same */
    const sefl_progress *progress; /* steps or records; may stop it (SEFL_ECANCELLED) */
} client_train;

/* local_epochs or local_steps of training. v: t->params values, theta_local - theta. SEFL_ERANGE:
 * training diverged (loss, gradient or a value of v is not finite); v is zeros then, and the client
 * uploads zeros, also in the weight slot. */
sefl_status client_train_local(const client_train *c, float *v) SEFL_MUST_CHECK;

/* That training as a job of an engine (c->e is not used). job.text is 0. */
engine_job client_train_job(const client_train *c);

/* Clip and stochastic rounding: dp_quantise on the task's grid (weights: with the slot; no noise:
 * dp_quantise_plain). X: t->values integers. */
sefl_status client_train_round(int64_t *X, const task *t, const corpus *text, const float *v,
                               const sefl_rng *coins) SEFL_MUST_CHECK;

/* One step for each record by itself: its gradient g_r (train_records: all of its windows together)
 * is limited once to gradient_clip; v_r = -lr * g_r is clipped to the task's clip and rounded, by
 * itself, and added. A record counts as zeros if its loss is not finite or above LM_MAX_LOSS a
 * word, or if g_r or v_r is not finite. *zeroed: how many did. X: zeros before, t->values; scratch
 * and v: t->params, overwritten. */
sefl_status client_train_records(const client_train *c, int64_t *X, size_t *zeroed,
                                 int64_t *scratch, float *v, const sefl_rng *coins) SEFL_MUST_CHECK;

/* Records that a round uses. */
size_t client_train_record_count(const task *t, const corpus *text);

uint64_t client_dropout_seed(const task *t, uint64_t round, const uint8_t client[32]);

#endif
