/* lm: a word-level language model: parameters, loss, gradient, evaluation, text.
 *
 * The bodies (LM_BODIES in model/kinds.h) share one interface, lm_body.h: lstm.c, transformer.c.
 * An embedding with dropout comes before the body, and a decoder with softmax and cross-entropy
 * (model/nn/head) after it. All matrices are block-Hankel (block size 1: dense). Embedding and
 * decoder may have other block sizes than the body.
 *
 *     lm *m = NULL;
 *     SEFL_TRY(lm_new(&m, &(lm_config){ .body = "lstm", .vocab = 33278, .block = 32 }, pool));
 *     lm_init(m, seed);                                         // like PyTorch's example
 *     lm_state_reset(m);
 *     SEFL_TRY(lm_gradient(m, &batch, &(nn_dropout){ .rate = 0.2 }, &loss));
 *     nn_real *theta = lm_theta(m), *grad = lm_grad(m);         // lm_count(m) values each
 *
 * All parameters are in one vector, which a federation sends. lm_layout lists their offsets and
 * their names, which are those of PyTorch's word-language-model example. The gradient has the same
 * layout; only values in lm_spans can differ from zero. The gradient of a tensor that is not
 * trained (lm_config.only) is zero.
 *
 * lm_new plans and allocates all memory. Threads: one owner; calls use the pool (may be NULL).
 * Results do not depend on the pool's number of threads, only on the instruction set.
 * Secrets: the owner's training data; not constant-time. */
#ifndef MODEL_LM_H
#define MODEL_LM_H

#include "base/pool.h"
#include "model/layout.h"
#include "model/lm_config.h"
#include "model/train_steps.h"

#include <stdbool.h>

/* Defined in seeded/seeded.h; only lm_generate needs it, so roles may include this header alone. */
struct seeded;

enum { LM_MAX_LOSS = 1000 };

/* Words in time-major order, (steps, batch): column b is one continuous text. */
typedef struct lm_batch {
    const uint32_t *input, *target;
    uint32_t steps, batch;
    double scale; /* of the gradient: factor of the sum of the tokens' losses; 0: 1 / tokens */
    bool add;     /* adds to the current gradient instead of replacing it */
} lm_batch;

typedef struct lm_span {
    size_t offset, count;
} lm_span;

typedef struct lm lm;

sefl_status lm_new(lm **out, const lm_config *cfg, pool *p) SEFL_MUST_CHECK;
void lm_free(lm *m);

const lm_config *lm_get_config(const lm *m);
const layout *lm_layout(const lm *m);
size_t lm_count(const lm *m);
nn_real *lm_theta(lm *m);
nn_real *lm_grad(lm *m);

/* Returns the ranges that the latest lm_gradient, and the calls it added to, wrote, in ascending
 * order. The rest of the gradient is zero. */
const lm_span *lm_spans(const lm *m, size_t *n);

/* Draws uniform initial values as PyTorch's example does: +-0.1 for embedding and decoder,
 * PyTorch's defaults inside the body. The decoder's bias is 0. */
void lm_init(lm *m, uint64_t seed);

/* Resets the state that the LSTM carries from batch to batch. */
void lm_state_reset(lm *m);
/* Returns the carried state as *n numbers, to save and restore it: h, then c, of each LSTM layer,
 * with max(batch, LM_EVAL_BATCH) columns each. lm_state_count computes n without a model. */
nn_real *lm_state(lm *m, size_t *n);
size_t lm_state_count(const lm_config *cfg);

/* Derives the dropout key from a seed, as seeded_init(seed, "dropout") does. */
void lm_dropout_key(uint32_t key[8], uint64_t seed);

/* Compute *loss, the negative log-likelihood summed over tokens, in nats. Both functions carry the
 * state to the next call. SEFL_ERANGE if the loss is not finite, or above LM_MAX_LOSS per word (a
 * uniform guess costs log(vocab), about 10): training has diverged; discard theta. They flush
 * denormals (base/float_mode.h). */
sefl_status lm_loss(lm *m, const lm_batch *b, double *loss) SEFL_MUST_CHECK;
sefl_status lm_gradient(lm *m, const lm_batch *b, const nn_dropout *dropout,
                        double *loss) SEFL_MUST_CHECK;

/* Computes the mean negative log-likelihood per word of a text as PyTorch's example does: in
 * LM_EVAL_BATCH columns (ignoring the remainder), with carried state. Restores the model's own
 * state. Perplexity is the exponential of the mean. SEFL_EINVAL for fewer than 20 words. progress
 * (may be NULL) counts the words of a column. */
sefl_status lm_evaluate(lm *m, const uint32_t *words, size_t n, double *mean,
                        const sefl_progress *progress) SEFL_MUST_CHECK;

/* Draws n words after `prompt` (at least one word) at a temperature > 0; 1 is the model's own
 * distribution. Never draws `banned`, for example <unk> (UINT32_MAX: none). Restores the model's
 * state. */
sefl_status lm_generate(lm *m, uint32_t *out, size_t n, const uint32_t *prompt, size_t prompt_n,
                        double temperature, uint32_t banned, struct seeded *g) SEFL_MUST_CHECK;

/* Seconds spent in each part since lm_new, for `sefl bench train`. */
typedef struct lm_times {
    double embed, body_forward, body_backward, head;
} lm_times;
lm_times lm_get_times(const lm *m);

/* Returns the number of bytes that activations, parameters and scratch take. */
size_t lm_memory(const lm *m);

#endif
