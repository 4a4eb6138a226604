/* lm: a word-level language model: parameters, loss, gradient, evaluation, text.
 *
 * Two bodies share one interface: "lstm" (model/lstm.c) and "transformer" (model/transformer.c).
 * Around both: an embedding, dropout, and a decoder with softmax and cross-entropy (model/nn/head).
 * Every matrix is block-Hankel with one block size; 1 is dense.
 *
 *     lm *m = NULL;
 *     SEFL_TRY(lm_new(&m, &(lm_config){ .body = "lstm", .vocab = 33278, .block = 32 }, pool));
 *     lm_init(m, seed);                                         // as PyTorch's example does
 *     lm_state_reset(m);
 *     SEFL_TRY(lm_gradient(m, &batch, &(lm_gradient_args){ .dropout = 0.2 }, &loss));
 *     nn_real *theta = lm_theta(m), *grad = lm_grad(m);         // lm_count(m) values each
 *
 * All parameters are in one vector, which a federation sends. lm_param gives the place of each
 * under the name that PyTorch's word-language-model example uses. The gradient has the same layout;
 * only values in lm_spans can differ from zero.
 *
 * Memory is planned and taken once, in lm_new. Threads: one owner; the pool (may be NULL) is used
 * inside calls. Results do not depend on its number of threads, only on the instruction set.
 * Secrets: training data of the owner; not constant-time. */
#ifndef MODEL_LM_H
#define MODEL_LM_H

#include "base/pool.h"
#include "model/bhm/bhm.h"

#include <stdbool.h>

struct
    seeded; /* seeded/seeded.h: for lm_generate only, so that roles can include this without it */

enum {
    LM_MAX_PARAMS = 512,
    LM_MAX_LAYERS = 32,
    LM_MAX_TOKENS = 1 << 20, /* batch * steps */
    LM_MAX_LOSS = 1000,
    LM_EVAL_BATCH = 10, /* columns of PyTorch's example when it evaluates */
};

typedef struct lm_config {
    const char *body;       /* "lstm" (NULL too) or "transformer" */
    uint32_t vocab;         /* words; must be given */
    uint32_t embed, hidden; /* 0: 200 */
    uint32_t layers;        /* 0: 2 */
    uint32_t heads;         /* transformer; 0: 2 */
    uint32_t block;         /* 0: 1 */
    bool tied;              /* decoder.weight is encoder.weight; needs equal sizes */
    uint32_t batch, steps;  /* the largest batch: columns and tokens in a row; 0: 20 and 35 */
} lm_config;

typedef struct lm_param {
    char name[72];
    bhm shape; /* a vector is n x 1 with block 1 */
    bool is_matrix;
    size_t offset, count; /* in theta */
} lm_param;

/* Words in time-major order: (steps, batch), column b is one running text. */
typedef struct lm_batch {
    const uint32_t *input, *target;
    uint32_t steps, batch;
} lm_batch;

typedef struct lm_gradient_args {
    double dropout;  /* rate in [0, 1) */
    uint32_t key[8]; /* of the dropout: the same key and step draw the same masks ... */
    uint64_t step;   /* ... (lm_dropout_key) */
    double scale;    /* gradient of scale * (sum of the tokens' losses); 0: 1 / tokens */
    bool add;        /* to the gradient that is there */
} lm_gradient_args;

typedef struct lm_span {
    size_t offset, count;
} lm_span;

typedef struct lm lm;

/* SEFL_EINVAL with what is wrong. Fills the defaults in. */
sefl_status lm_config_check(lm_config *cfg) SEFL_MUST_CHECK;

/* The parameters of such a model, without building it: up to LM_MAX_PARAMS into params; *count is
 * the number of values in all. */
sefl_status lm_config_params(const lm_config *cfg, lm_param *params, size_t *n,
                             size_t *count) SEFL_MUST_CHECK;

/* Column j of the Transformer's vector for position t: sin or cos of t / 10000^(2 (j div 2) / embed)
 * as in PyTorch's example. */
double lm_position(size_t t, size_t j, size_t embed);

sefl_status lm_new(lm **out, const lm_config *cfg, pool *p) SEFL_MUST_CHECK;
void lm_free(lm *m);

const lm_config *lm_get_config(const lm *m);
const lm_param *lm_params(const lm *m, size_t *n);
size_t lm_count(const lm *m);
nn_real *lm_theta(lm *m);
nn_real *lm_grad(lm *m);

/* Ranges of the gradient that the latest lm_gradient (and those it was added to) wrote, in rising
 * order. The rest of the gradient is zero. */
const lm_span *lm_spans(const lm *m, size_t *n);

/* Uniform initial values as in PyTorch's example: +-0.1 for embedding and decoder, 0 for the
 * decoder's bias, PyTorch's defaults inside the body. */
void lm_init(lm *m, uint64_t seed);

/* Forgets the texts read so far (the LSTM's carried state). */
void lm_state_reset(lm *m);
/* The carried state as numbers, to save and restore it: for each layer of an LSTM h, then c, of
 * max(batch, LM_EVAL_BATCH) columns each. lm_state_count: how many, without the model. */
nn_real *lm_state(lm *m, size_t *n);
size_t lm_state_count(const lm_config *cfg);

/* The key of the dropout's coins for a seed: that of seeded_init(seed, "dropout"). */
void lm_dropout_key(uint32_t key[8], uint64_t seed);

/* *loss: the sum over tokens of the negative log-likelihood, in nats. Both carry the state on.
 * SEFL_ERANGE when the loss is not finite, or above LM_MAX_LOSS per word (a uniform guess costs
 * log(vocab), about 10): training has diverged, discard theta. */
sefl_status lm_loss(lm *m, const lm_batch *b, double *loss) SEFL_MUST_CHECK;
sefl_status lm_gradient(lm *m, const lm_batch *b, const lm_gradient_args *args,
                        double *loss) SEFL_MUST_CHECK;

/* Mean negative log-likelihood per word of a text, as PyTorch's example computes it: the text in
 * LM_EVAL_BATCH columns (the remainder is cut off), state carried along. The model's own state is
 * kept aside. Perplexity is its exponential. SEFL_EINVAL for fewer than 20 words. progress (may be
 * NULL) counts the words of a column. */
sefl_status lm_evaluate(lm *m, const uint32_t *words, size_t n, double *mean,
                        const sefl_progress *progress) SEFL_MUST_CHECK;

/* Draws n words after `prompt` (at least one) at this temperature (> 0; 1: the model's own
 * distribution). `banned` (UINT32_MAX: none) is never drawn, for <unk>. The model's state is kept
 * aside. */
sefl_status lm_generate(lm *m, uint32_t *out, size_t n, const uint32_t *prompt, size_t prompt_n,
                        double temperature, uint32_t banned, struct seeded *g) SEFL_MUST_CHECK;

/* Seconds spent since lm_new, by part, for `sefl bench train`. */
typedef struct lm_times {
    double embed, body_forward, body_backward, head;
} lm_times;
lm_times lm_get_times(const lm *m);

/* Bytes planned for activations, parameters and scratch. */
size_t lm_memory(const lm *m);

#endif
