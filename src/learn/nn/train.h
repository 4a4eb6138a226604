/* train: trains on the CPU with batches of continuous text, and computes gradients of single
 * records. Other modules train through model/engine/engine.h, which supports every device.
 *
 *     SEFL_TRY(trainer_new(&t, m, pool, &(train_config){ .lr = 20, .clip = 0.25, .dropout = 0.2 },
 *                          words, n));
 *     while (trainer_at(t)->epoch < 5)
 *         SEFL_TRY(trainer_step(t, &info));              // one batch
 *
 * As in PyTorch's word-language-model example, the text is cut into `batch` columns of equal
 * length, and the remainder is ignored. A step reads `steps` words of every column and carries the
 * state to the next step. An epoch begins with an empty state. A short text uses fewer columns.
 *
 * A step depends only on theta, lm_state, trainer_optim and trainer_at, so a trainer with these
 * restored continues bit for bit like an uninterrupted run (model/engine/checkpoint.c).
 * Threads: one owner. Secrets: the text. */
#ifndef MODEL_TRAIN_H
#define MODEL_TRAIN_H

#include "model/lm.h"
#include "model/optim.h"

typedef struct train_config {
    double lr;       /* 0: nothing is learned */
    double lr_decay; /* factor after each epoch; 0: 1 */
    double clip;     /* maximum L2 norm of a gradient; 0: no limit */
    double dropout;
    uint32_t key[8]; /* dropout key (lm_dropout_key) */
    optim_config optim;
    uint32_t batch, steps; /* batch size and sequence length; 0: the model's maximum */
} train_config;

typedef struct train_info {
    double loss; /* mean loss over the batch, in nats per word */
    double norm; /* L2 norm of the gradient before the clip */
    double lr;
    size_t words;
    bool epoch_ended;
} train_info;

/* How training divides a text of n words. */
typedef struct train_layout {
    uint32_t columns;
    size_t rows;              /* words in a column */
    uint64_t steps_per_epoch; /* batches */
} train_layout;
train_layout train_layout_of(size_t n, uint32_t columns, uint32_t steps);

/* SEFL_EINVAL for invalid settings, a text of fewer than two words, or a batch larger than the
 * model's maximum. */
sefl_status train_check(const train_config *cfg, const lm_config *m, size_t n) SEFL_MUST_CHECK;

/* Position in training: completed epochs, next row of the text, completed steps. */
typedef struct train_cursor {
    uint64_t epoch, row, done;
} train_cursor;

typedef struct trainer trainer;

/* The model, the pool and the words must outlive the trainer. */
sefl_status trainer_new(trainer **out, lm *m, pool *p, const train_config *cfg,
                        const uint32_t *words, size_t n) SEFL_MUST_CHECK;
void trainer_free(trainer *t);

/* Trains on one batch. SEFL_ERANGE, with theta unchanged, if the loss or gradient is not finite. */
sefl_status trainer_step(trainer *t, train_info *info) SEFL_MUST_CHECK;

/* The two halves of trainer_step, gradient and update, for benchmarks. */
sefl_status trainer_gradient(trainer *t, train_info *info) SEFL_MUST_CHECK;
sefl_status trainer_update(trainer *t, train_info *info) SEFL_MUST_CHECK;

/* Return the position and the optimiser, to read them, or to set them when a run resumes (row < the
 * layout's rows). */
train_cursor *trainer_at(trainer *t);
optim *trainer_optim(trainer *t);

/* Computes the gradients of single records, for differential privacy per record. Record r is the
 * words [border[r], border[r+1]); each word is predicted from the words before it in the record,
 * the first one from `before` (<eos>). A record starts with an empty state. A record longer than
 * the model's `steps` is read in windows of that many words: the state is carried over, gradients
 * do not flow between windows, and the windows' gradients are added. fn gets the gradient of the
 * mean loss of each whole record in turn, and may read it until it returns. If a record's loss is
 * not finite, or exceeds LM_MAX_LOSS per word in any of its windows, fn gets the loss INFINITY and
 * no spans; later records are not affected. Empty records are SEFL_EINVAL. seed and step are those
 * of the first record's dropout; later windows of a record use other masks. */
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
