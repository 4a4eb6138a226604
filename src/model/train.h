/* train: the loop on the processor: batches of running text, gradient, clip, step; and the gradients
 * of records. model/engine/engine.h is how the rest of the program trains, on any device.
 *
 *     SEFL_TRY(trainer_new(&t, m, pool, &(train_config){ .lr = 20, .clip = 0.25, .dropout = 0.2 },
 *                          words, n));
 *     while (trainer_at(t)->epoch < 5)
 *         SEFL_TRY(trainer_step(t, &info));              // one batch
 *
 * The text is cut into `batch` columns of equal length, read side by side, `steps` words at a time
 * with the state carried on, as PyTorch's word-language-model example does; the remainder is
 * cut off. An epoch begins with an empty state. A text too short for that many columns takes fewer.
 *
 * A later step depends on theta, lm_state, trainer_optim and trainer_at alone: a trainer that has
 * got them back goes on with the same bytes (model/engine/checkpoint.c).
 * Threads: one owner. Secrets: the text. */
#ifndef MODEL_TRAIN_H
#define MODEL_TRAIN_H

#include "model/lm.h"
#include "model/optim.h"

typedef struct train_config {
    double lr;       /* must be given */
    double lr_decay; /* factor after each epoch; 0: 1 */
    double clip;     /* largest L2 norm of a gradient; 0: no limit */
    double dropout;
    uint32_t key[8]; /* of the dropout: lm_dropout_key */
    optim_config optim;
    uint32_t batch, steps; /* 0: those the model was planned for */
} train_config;

typedef struct train_info {
    double loss; /* mean over the batch, nats a word */
    double norm; /* of the gradient before the clip */
    double lr;
    size_t words;
    bool epoch_ended;
} train_info;

/* How a text of n words is read. */
typedef struct train_layout {
    uint32_t columns;
    size_t rows;              /* words in a column */
    uint64_t steps_per_epoch; /* batches */
} train_layout;
train_layout train_layout_of(size_t n, uint32_t columns, uint32_t steps);

/* SEFL_EINVAL with what is wrong: settings, a text of fewer than two words, a batch that is larger
 * than the model's. */
sefl_status train_check(const train_config *cfg, const lm_config *m, size_t n) SEFL_MUST_CHECK;

/* Where training stands: completed epochs, next row of the text, completed steps. */
typedef struct train_cursor {
    uint64_t epoch, row, done;
} train_cursor;

typedef struct trainer trainer;

/* Borrows the model, the pool and the words. */
sefl_status trainer_new(trainer **out, lm *m, pool *p, const train_config *cfg,
                        const uint32_t *words, size_t n) SEFL_MUST_CHECK;
void trainer_free(trainer *t);

/* One batch. SEFL_ERANGE when loss or gradient is not finite; theta is then as before the step. */
sefl_status trainer_step(trainer *t, train_info *info) SEFL_MUST_CHECK;

/* The gradient pass and the update of trainer_step apart, for benchmarks. */
sefl_status trainer_gradient(trainer *t, train_info *info) SEFL_MUST_CHECK;
sefl_status trainer_update(trainer *t, train_info *info) SEFL_MUST_CHECK;

/* To read, and to set when a run is taken up again. row < the layout's rows. */
train_cursor *trainer_at(trainer *t);
optim *trainer_optim(trainer *t);

/* Gradients of single records, for differential privacy per record: record r is the words
 * [border[r], border[r+1]), each predicted from those before it in the record, the first one from
 * `before` (<eos>); the state is empty at its start. A record longer than the model's `steps` is
 * read in windows of that many words: the state is carried on, the gradient is not carried back,
 * and the windows' gradients are added. fn gets the gradient of the mean loss of each whole record
 * in turn, and may read it until it returns. A record whose loss is not finite, or above
 * LM_MAX_LOSS per word in one of its windows, comes with the loss INFINITY and no spans, and does
 * not affect the next. Empty records are SEFL_EINVAL. seed and step are the first record's: later
 * windows of a record draw masks of their own. */
typedef struct train_records_args {
    double dropout;
    uint64_t seed, step;
} train_records_args;
typedef sefl_status train_record_fn(void *ctx, size_t record, const nn_real *grad,
                                    const lm_span *spans, size_t span_count, double loss);
sefl_status train_records(lm *m, const uint32_t *words, const size_t *border, size_t records,
                          uint32_t before, const train_records_args *args, train_record_fn *fn,
                          void *ctx) SEFL_MUST_CHECK;

#endif
