/* config: the settings of a model, of its optimiser and of its word list, as plain values.
 *
 * A task contains them, so that code which only reads a task needs none of the learning code.
 * model/lm.h, model/optim.h and model/corpus/vocab.h are the manuals.
 * Threads: any.   Secrets: none. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LM_MAX_LAYERS = 32,
    LM_MAX_TOKENS = 1 << 20, /* batch * steps */
};

typedef struct lm_config {
    const char *body;                    /* "lstm" or "transformer"; NULL: "lstm" */
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

typedef enum optim_kind { OPTIM_SGD, OPTIM_MOMENTUM, OPTIM_ADAM } optim_kind;

typedef struct optim_config {
    optim_kind kind;
    double momentum;     /* 0: 0.9 */
    double beta1, beta2; /* 0: 0.9 and 0.999 */
    double epsilon;      /* 0: 1e-8 */
    double weight_decay; /* wd; lr wd must be below 1 */
} optim_config;

#define VOCAB_ORDERS "interleaved appearance frequency"
typedef enum vocab_order { VOCAB_INTERLEAVED, VOCAB_APPEARANCE, VOCAB_FREQUENCY } vocab_order;

#define VOCAB_KINDS "words bpe"
typedef enum vocab_kind {
    VOCAB_WORDS,
    VOCAB_BPE,
    VOCAB_ANY, /* vocab_read: the kind that the file has */
} vocab_kind;

#endif
