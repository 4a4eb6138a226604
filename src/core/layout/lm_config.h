/* lm_config: the settings of a model, of its optimiser and of its text, as plain values.
 *
 * A task contains them, and code that only reads a task sees none of the learning code.
 * model/lm.h, model/optim.h, model/corpus/vocab.h and model/corpus/records.h are the manuals.
 * Threads: any.   Secrets: none. */
#ifndef MODEL_LM_CONFIG_H
#define MODEL_LM_CONFIG_H

#include "base/status.h"
#include "model/kinds.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LM_MAX_LAYERS = 32,
    LM_MAX_TOKENS = 1 << 20, /* batch * steps */
    LM_EVAL_BATCH = 10,      /* evaluation batch size of PyTorch's example */
};

typedef struct lm_config {
    const char *body;                    /* a name of LM_BODIES; NULL: the first */
    uint32_t vocab;                      /* number of words; required */
    uint32_t embed, hidden;              /* 0: 200 */
    uint32_t layers;                     /* 0: 2 */
    uint32_t heads;                      /* transformer; 0: 2 */
    uint32_t block;                      /* of the body's matrices; 0: 1 */
    uint32_t block_embed, block_decoder; /* 0: block; equal if tied */
    bool tied;                           /* decoder.weight is encoder.weight; needs equal sizes */
    uint32_t batch, steps;               /* maximum batch size and sequence length; 0: 20 and 35 */
    const char *only; /* tensors to train (layout_only), borrowed; NULL or "": all */
} lm_config;

const char *lm_body_name(lm_body_kind kind);
lm_body_kind lm_body_named(const char *name); /* LM_BODY_KINDS: there is no such body */

/* What other code needs to know of a body, instead of asking for its name. */
typedef struct lm_body_facts {
    const char *usual_lr; /* the learning rate of PyTorch's examples */
    bool heads;           /* lm_config.heads applies to it */
    bool positions;       /* lm_position is added to the embedded words */
    const char *hidden;   /* name of a matrix of layer %u with lm_config.hidden rows ... */
    bool hidden_columns;  /* ... or columns */
} lm_body_facts;
const lm_body_facts *lm_body_facts_of(lm_body_kind kind);

/* Fills in the defaults. SEFL_EINVAL, with the reason, if the configuration is not valid. */
sefl_status lm_config_check(lm_config *cfg) SEFL_MUST_CHECK;

/* Returns the block size for the interleaved order of the words: the larger one of embedding and
 * decoder, so that frequent words share a block in neither matrix. */
uint32_t lm_config_word_block(const lm_config *cfg);

/* Returns the number of columns for which memory is planned. */
static inline uint32_t lm_columns(const lm_config *cfg)
{
    return cfg->batch > LM_EVAL_BATCH ? cfg->batch : LM_EVAL_BATCH;
}

typedef struct optim_config {
    optim_kind kind;
    double momentum;     /* 0: 0.9 */
    double beta1, beta2; /* 0: 0.9 and 0.999 */
    double epsilon;      /* 0: 1e-8 */
    double weight_decay; /* wd; lr wd must be below 1 */
} optim_config;

const char *optim_kind_name(optim_kind kind);
/* Returns the learning rate that PyTorch's examples use for this optimiser and body of a model. */
const char *optim_usual_lr(const char *kind, const char *body);
/* Returns the settings with defaults in place of zeros. */
optim_config optim_filled(const optim_config *cfg);
/* SEFL_EINVAL unless momentum, beta1 and beta2 are between 0 and 1, exclusive, and epsilon is above
 * 0. Messages name the settings GROUP.momentum, ... */
sefl_status optim_config_check(const optim_config *cfg, const char *group) SEFL_MUST_CHECK;
/* Returns the number of values in the state for a model of `count` values. */
size_t optim_state_count(optim_kind kind, size_t count);

enum { VOCAB_WORDS_MAX = 1 << 24 };

#define VOCAB_ORDERS "interleaved appearance frequency"
typedef enum vocab_order { VOCAB_INTERLEAVED, VOCAB_APPEARANCE, VOCAB_FREQUENCY } vocab_order;

#define VOCAB_KINDS "words bpe"
typedef enum vocab_kind {
    VOCAB_WORDS,
    VOCAB_BPE,
    VOCAB_ANY, /* vocab_read: the kind that the file has */
} vocab_kind;

sefl_status vocab_order_parse(vocab_order *out, const char *name) SEFL_MUST_CHECK;
const char *vocab_order_name(vocab_order order);
const char *vocab_kind_name(vocab_kind kind);

#define CORPUS_FORMATS "guess text jsonl csv"
typedef enum corpus_format { CORPUS_GUESS, CORPUS_TEXT, CORPUS_JSONL, CORPUS_CSV } corpus_format;

#endif
