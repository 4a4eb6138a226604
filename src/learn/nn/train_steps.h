/* train_steps: how a model trains on a text. It is the part of a client's job (fed/train_job.h)
 * that the engine, the model and the GPU plugin take.
 *
 * Plain C without the project's other headers, so that the plugin compiles with nvcc alone. */
#ifndef MODEL_TRAIN_STEPS_H
#define MODEL_TRAIN_STEPS_H

#include <stdint.h>

/* Dropout: x = x * mask with mask 0 or 1/(1 - rate); rate is rounded to 1/65536. The caller keeps
 * the mask for the backward pass, which is the same product. rate = 0 changes nothing.
 *
 * The random bits depend only on (key, step, site, position), so masks are the same for any number
 * of threads, in a resumed run, and on a GPU. Element i uses the 16-bit number in bytes 2i, 2i + 1
 * (little-endian) of the ChaCha20 stream with this key, the block counter from 0 and the nonce
 * words { step mod 2^32, site | step div 2^32 * 2^16 }. The element is dropped if the number is
 * below rate * 65536. site < 2^16, step < 2^48. */
typedef struct nn_dropout {
    double rate;     /* in [0, 1) */
    uint32_t key[8]; /* lm_dropout_key */
    uint64_t step;   /* set for each batch */
    uint32_t site;   /* number of the dropout layer within a pass; set by the model */
} nn_dropout;

typedef struct train_steps {
    const uint32_t *words; /* n words in main memory */
    uint64_t n;
    uint64_t text;  /* identifies the text: equal numbers mean equal words; 0: not identified */
    uint64_t limit; /* total number of steps; 0: no limit */
    uint32_t columns, steps; /* batch size and sequence length */
    double lr;
    double lr_decay; /* factor after each epoch; 0: 1 */
    double clip;     /* maximum L2 norm of a gradient; 0: no limit */
    nn_dropout dropout;
} train_steps;

#endif
