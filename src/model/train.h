/* train: the training loop (batches of continuous text, gradient, clip, step) and gradients of single
 * records.
 *
 *     SEFL_TRY(trainer_new(&t, m, pool, &(train_config){ .lr = 20, .clip = 0.25, .dropout = 0.2 },
 *                          words, n));
 *     while (trainer_epochs(t) < 5)
 *         SEFL_TRY(trainer_step(t, &info));              // one batch
 *
 * As in PyTorch's word-language-model example, the text is cut into `batch` columns of equal length,
 * without the remainder. A step reads `steps` words of every column and carries the state to the next
 * step. An epoch begins with an empty state. A text too short for that many columns uses fewer.
 *
 * trainer_save writes everything that a later step depends on: continuing after trainer_load gives
 * the same bytes as an uninterrupted run.
 * Threads: one owner. Secrets: the text. */
#ifndef MODEL_TRAIN_H
#define MODEL_TRAIN_H

#include "base/buf.h"
#include "model/lm.h"
#include "model/optim.h"

typedef struct train_config {
    double lr;       /* required */
    double lr_decay; /* factor after each epoch; 0: 1 */
    double clip;     /* maximum L2 norm of a gradient; 0: no limit */
    double dropout;
    uint64_t seed; /* of the dropout */
    optim_config optim;
    uint32_t batch, steps; /* batch size and sequence length; 0: the model's maximum */
} train_config;

typedef struct train_info {
    double loss; /* mean over the batch, nats per word */
    double norm; /* of the gradient before the clip */
    double lr;
    size_t words;
    bool epoch_ended;
} train_info;

typedef struct trainer trainer;

/* Borrows the model, the pool and the words. */
sefl_status trainer_new(trainer **out, lm *m, pool *p, const train_config *cfg,
                        const uint32_t *words, size_t n) SEFL_MUST_CHECK;
void trainer_free(trainer *t);

/* Trains on one batch. SEFL_ERANGE, with theta unchanged, if loss or gradient is not finite. */
sefl_status trainer_step(trainer *t, train_info *info) SEFL_MUST_CHECK;

/* The gradient pass and the update of trainer_step separately, for benchmarks. */
sefl_status trainer_gradient(trainer *t, train_info *info) SEFL_MUST_CHECK;
sefl_status trainer_update(trainer *t, train_info *info) SEFL_MUST_CHECK;

uint64_t trainer_steps(const trainer *t);
uint64_t trainer_epochs(const trainer *t);          /* completed */
uint64_t trainer_steps_per_epoch(const trainer *t); /* batches */

/* Appends a checkpoint, which begins with the run's settings as text. */
sefl_status trainer_save(trainer *t, sefl_buf *out) SEFL_MUST_CHECK;
/* Loads a checkpoint. SEFL_EPROTO, with t unchanged, unless it is complete and from a run with the
 * same settings. */
sefl_status trainer_load(trainer *t, sefl_span in) SEFL_MUST_CHECK;

/* Gradients of single records, for differential privacy per record: record r is the words
 * [border[r], border[r+1]), each predicted from those before it in the record, the first one from
 * `before` (<eos>); the state is empty at its start. A record longer than the model's `steps` is
 * read in windows of that many words: the state is carried over, gradients do not flow between
 * windows, and the windows' gradients are added. fn gets the gradient of the mean loss of each whole
 * record in turn, and may read it until it returns. A record whose loss is not finite, or above
 * LM_MAX_LOSS per word in one of its windows, has the loss INFINITY and no spans, and does not affect
 * the next. Empty records are SEFL_EINVAL. */
typedef sefl_status train_record_fn(void *ctx, size_t record, const nn_real *grad,
                                    const lm_span *spans, size_t span_count, double loss);
sefl_status train_records(lm *m, const uint32_t *words, const size_t *border, size_t records,
                          uint32_t before, const lm_gradient_args *args, train_record_fn *fn,
                          void *ctx) SEFL_MUST_CHECK;

#endif
