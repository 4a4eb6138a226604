/* train: trains on the CPU with batches of continuous text, and computes gradients of single
 * records. Other modules train through model/engine/engine.h, which supports every device.
 *
 *     SEFL_TRY(train_new(&t, m, pool, &optim, &(train_steps){ .words = words, .n = n, .lr = 20,
 *                                                             .clip = 0.25 }));
 *     while (train_at(t)->epoch < 5)
 *         SEFL_TRY(train_step(t, &info));                // one batch
 *
 * As in PyTorch's word-language-model example, the text is cut into `columns` of equal
 * length, and the remainder is ignored. A step reads `steps` words of every column and carries the
 * state to the next step. An epoch begins with an empty state. A short text uses fewer columns.
 *
 * A step depends only on theta, lm_state, train_optim and train_at, so a run with these restored
 * continues bit for bit like an uninterrupted run (model/engine/checkpoint.c).
 * Threads: one owner. Secrets: the text. */
#ifndef MODEL_TRAIN_H
#define MODEL_TRAIN_H

#include "model/lm.h"
#include "model/optim.h"
#include "model/train_steps.h"

typedef struct train_info {
    double loss; /* mean loss over the batch, in nats per word */
    double norm; /* L2 norm of the gradient before the clip */
    double lr;
    size_t words;
    bool epoch_ended;
} train_info;

/* How training divides its text. */
typedef struct train_layout {
    uint32_t columns;
    size_t rows;              /* words in a column */
    uint64_t steps_per_epoch; /* batches */
} train_layout;
train_layout train_layout_of(const train_steps *s);

/* Fills in what s leaves 0: lr_decay, columns and steps (the model's maximum). SEFL_EINVAL for
 * invalid settings, a text of fewer than two words, or a batch larger than the model's maximum. */
sefl_status train_steps_fill(train_steps *s, const lm_config *m,
                             const optim_config *o) SEFL_MUST_CHECK;

/* Position in training: completed epochs, next row of the text, completed steps. */
typedef struct train_cursor {
    uint64_t epoch, row, done;
} train_cursor;

typedef struct train_run train_run;

/* The model, the pool and the words must outlive the run. It does not stop at s->limit. */
sefl_status train_new(train_run **out, lm *m, pool *p, const optim_config *o,
                      const train_steps *s) SEFL_MUST_CHECK;
void train_free(train_run *t);

/* Trains on one batch. SEFL_ERANGE, with theta unchanged, if the loss or gradient is not finite. */
sefl_status train_step(train_run *t, train_info *info) SEFL_MUST_CHECK;

/* The two halves of train_step, gradient and update, for benchmarks. */
sefl_status train_gradient(train_run *t, train_info *info) SEFL_MUST_CHECK;
sefl_status train_update(train_run *t, train_info *info) SEFL_MUST_CHECK;

/* Return the position and the optimiser, to read them, or to set them when a run resumes (row < the
 * layout's rows). */
train_cursor *train_at(train_run *t);
optim *train_optim(train_run *t);

/* Computes the gradient of a single record, for differential privacy per record: of the mean loss
 * of its n words. Each word is predicted from the words before it in the record, the first one from
 * `before` (<eos>). The record starts with an empty state. If it is longer than the model's
 * `steps`, it is read in windows of that many words: the state is carried over, gradients do not
 * flow between windows, and the windows' gradients are added. lm_grad and lm_spans then have the
 * gradient. If the loss is not finite, or exceeds LM_MAX_LOSS per word in any window, *loss is
 * INFINITY and there are no spans. SEFL_EINVAL for an empty record. The same seed and step give the
 * same dropout masks; later windows use other ones. */
sefl_status train_record(lm *m, double *loss, const uint32_t *words, size_t n, uint32_t before,
                         double dropout, uint64_t seed, uint64_t step) SEFL_MUST_CHECK;

#endif
