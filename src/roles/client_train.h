/* client_train: what a client computes in a round: from its text and the model to integers, before
 * anything is encrypted. roles/client_update.h makes a body of them; the simulator adds them up.
 *
 *     unit client   SEFL_TRY(client_train_local(&c, v));                  // v: theta, then v
 *                   SEFL_TRY(client_train_round(X, t, text, v, &coins));
 *     unit record   SEFL_TRY(client_train_records(&c, X, scratch, v, &coins));
 *
 * Records. A record is a document of corpus.h: a JSONL or CSV record, a text under a heading, or a
 * line. Of more than records_max, a window of that many is taken that moves on with each round, in a
 * circle, so that no record counts twice in a round.
 *
 * The dropout's seed is no secret coin: SHA-256("sefl dropout 1", task id, round u64, client), its
 * first 8 bytes. Results do not depend on the pool.
 * Secret: text, v, X, coins. Not constant-time (the owner's own machine). Threads: one owner. */
#ifndef ROLES_CLIENT_TRAIN_H
#define ROLES_CLIENT_TRAIN_H

#include "base/pool.h"
#include "base/progress.h"
#include "base/random.h"
#include "model/corpus/corpus.h"
#include "protocol/task.h"

typedef struct client_train {
    const task *task;
    const corpus *text;
    uint32_t eos;          /* of the vocabulary */
    const uint8_t *client; /* 32 bytes: fingerprint of its certificate */
    uint64_t round;
    lm *m;                         /* holds the theta of the round; afterwards the trained one */
    pool *pool;                    /* NULL: the caller alone */
    const sefl_progress *progress; /* steps or records; may stop it (SEFL_ECANCELLED) */
} client_train;

/* local_epochs or local_steps of training. v: theta of the round, t->params values; becomes
 * theta_local - theta. SEFL_ERANGE: training diverged. */
sefl_status client_train_local(const client_train *c, float *v) SEFL_MUST_CHECK;

/* Clip and stochastic rounding: dp_round on the task's grid (weights: with the slot; no noise:
 * dp_round_plain). X: t->values integers. */
sefl_status client_train_round(int64_t *X, const task *t, const corpus *text, const float *v,
                               const sefl_rng *coins) SEFL_MUST_CHECK;

/* One step for each record by itself, v_r = -lr * g_r (g_r limited to gradient_clip), rounded by
 * itself and added. X: zeros before, t->values; scratch and v: t->params, overwritten. */
sefl_status client_train_records(const client_train *c, int64_t *X, int64_t *scratch, float *v,
                                 const sefl_rng *coins) SEFL_MUST_CHECK;

uint64_t client_dropout_seed(const task *t, uint64_t round, const uint8_t client[32]);

#endif
