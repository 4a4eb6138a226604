/* engine_ops: the table of functions that train and evaluate a model. The CPU engine (engine_cpu.c)
 * and the GPU plugin (model/cuda, libsefl_cuda.so) implement it.
 *
 * An engine has slots. A slot is one client in local training: it starts from the engine's theta,
 * reads its own text in batches as model/train.h describes, and ends with its own parameters. A GPU
 * trains many slots in one step; the CPU has one slot per engine.
 *
 * The header is plain C and includes of the project only the status codes, kinds.h and
 * train_steps.h, so that the plugin compiles with nvcc alone. engine_new compares `abi` and `size`
 * when it opens the plugin, so any change below needs a new ENGINE_ABI.
 *
 * Failures: a function passes its message to setup->note, then returns a status.
 * Threads: one owner per engine.   Secrets: texts, parameters; not constant-time. */
#ifndef MODEL_ENGINE_ENGINE_OPS_H
#define MODEL_ENGINE_ENGINE_OPS_H

#include "model/kinds.h"
#include "model/train_steps.h"
#include "sefl/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ENGINE_ABI = 6 };

/* Position and shape of a parameter in theta. A vector is rows x 1 with block 1. */
typedef struct engine_param {
    uint64_t offset, count;
    uint32_t rows, cols, block;
} engine_param;

typedef struct engine_setup {
    uint32_t body; /* lm_body_kind */
    uint32_t vocab, embed, hidden, layers, heads, tied;
    uint32_t batch, steps; /* maximum batch size and sequence length of a slot */
    /* In the order of model/lm.h: encoder; body, layer by layer; decoder weight unless tied;
     * decoder bias. */
    const engine_param *param;
    uint32_t params;
    uint64_t count;     /* values in theta */
    uint32_t slots;     /* requested number; the engine may have fewer (engine_facts.slots) */
    uint32_t number;    /* which GPU, modulo the number of GPUs */
    uint32_t precision; /* ENGINE_BF16, ENGINE_FP32: of matrix products; sums are always fp32 */
    uint32_t optimiser; /* optim_kind */
    double momentum, beta1, beta2, epsilon, weight_decay;
    const float *positions;            /* NULL, or (steps, embed), added to embedded words */
    void (*note)(const char *message); /* records the message of a failure */
} engine_setup;

typedef struct engine_facts {
    char device[96]; /* "NVIDIA H200" */
    uint32_t slots;
    uint64_t memory; /* bytes in use, without texts and sums */
} engine_facts;

/* Position of a slot in its training. */
typedef struct engine_cursor {
    uint64_t epoch, row, done; /* completed epochs, next row of the text, completed steps */
    uint64_t optimiser_steps;
} engine_cursor;

/* What engine_ops.run reports about a slot; words and loss are sums over one call. */
typedef struct engine_progress {
    engine_cursor at;
    uint64_t words;
    double loss;       /* sum of these words' losses, in nats */
    double norm;       /* L2 norm of the latest gradient, before the clip */
    uint32_t finished; /* the slot has reached its limit */
    uint32_t diverged; /* loss or gradient was not finite; parameters are as before that step */
} engine_progress;

enum {               /* engine_ops.read and .write; floats unless stated */
       ENGINE_THETA, /* the slot's parameters: count values */
       ENGINE_DELTA, /* the slot's parameters minus the engine's theta; read only */
       ENGINE_STATE, /* carried LSTM state, as lm_state orders it */
       ENGINE_OPTIM, /* the optimiser's state, in the order of optim.h */
       ENGINE_CURSOR /* an engine_cursor */
};

/* One client's share of a sum on the device. For the same floats and random bits, the integers
 * equal those of privacy/mechanism/quantise.h. */
typedef struct engine_share {
    uint32_t slot;
    uint32_t zeros;    /* nonzero: contributes only zeros (a diverged client) */
    double weight;     /* floats: weight of this client; integers: w of the weight slot */
    uint32_t coins[8]; /* integers: ChaCha20 key of the client's coins (seeded.h), from byte 0 */
} engine_share;

/* Settings of a sum on the device. */
typedef struct engine_sum {
    uint32_t integers;   /* 0: doubles, weight * min(1, clip / norm) * delta */
    double clip;         /* 0: no limit */
    double q;            /* integers: quantisation step */
    uint32_t has_weight; /* integers: a weight slot follows the values */
    int64_t value_max;
    uint64_t s2; /* bound on the sum of squares; 0: no bound (no noise) */
} engine_sum;

/* A trusted server's noise for a sum of integers: one discrete Gaussian per value, bit-identical to
 * privacy/mechanism/dgauss.h. Values [64 p, 64 p + 64) take their coins from piece 1 + p of the key
 * (seeded.h, seeded_piece). */
enum { ENGINE_NOISE_PIECE = 64 };
typedef struct engine_noise {
    uint64_t num, den, t; /* as in dgauss */
    uint32_t key[8];
} engine_noise;

/* Time of one kernel, for `sefl bench train`. */
typedef struct engine_time {
    char name[40];
    double seconds, flop, bytes; /* since the last call; flop and bytes 0: not counted */
} engine_time;

typedef struct engine_ops {
    uint32_t abi, size; /* ENGINE_ABI, sizeof(engine_ops) */
    const char *name;   /* "cpu", "cuda" */

    sefl_status (*open)(void **self, const engine_setup *setup, engine_facts *facts);
    void (*close)(void *self);

    /* Sets the parameters that start() begins with. */
    sefl_status (*theta)(void *self, const float *theta);
    /* Copies what it keeps of the words. */
    sefl_status (*start)(void *self, uint32_t slot, const train_steps *how);
    /* Runs up to `steps` steps in each of the slots [0, slots) that has started and neither
     * finished nor diverged. out has one entry per slot. */
    sefl_status (*run)(void *self, uint32_t slots, uint64_t steps, engine_progress *out);
    sefl_status (*read)(void *self, uint32_t slot, uint32_t part, void *out, size_t bytes);
    sefl_status (*write)(void *self, uint32_t slot, uint32_t part, const void *in, size_t bytes);

    /* Computes, as lm_evaluate does, the sum of the words' losses in nats and the number of words,
     * with the engine's theta (slot = UINT32_MAX) or a slot's parameters. Leaves every slot
     * unchanged. */
    sefl_status (*evaluate)(void *self, uint32_t slot, const uint32_t *words, uint64_t n,
                            uint64_t text, double *loss, uint64_t *counted);

    /* Add updates on the device; NULL if the engine cannot. The caller calls sum_begin, then
     * sum_add for each group of slots in the order of the clients, then sum_end. sum_end writes
     * `count` doubles, or count int64 (one more with a weight slot), to main memory. sum_add
     * returns SEFL_ERANGE, with nothing added, if an update is not finite. */
    sefl_status (*sum_begin)(void *self, const engine_sum *how);
    sefl_status (*sum_add)(void *self, const engine_share *share, uint32_t n);
    /* Adds noise to a sum of integers, between the last sum_add and sum_end. */
    sefl_status (*sum_noise)(void *self, const engine_noise *how);
    sefl_status (*sum_end)(void *self, void *out, size_t bytes);

    /* Reads the time of each kernel since the last call, up to *n entries; on != 0 starts
     * measuring. NULL if the engine does not measure. "ceiling: products" and "ceiling: memory" are
     * a large product and a long copy, which show the device's limits; the total excludes them. */
    sefl_status (*times)(void *self, int on, engine_time *out, uint32_t *n);
} engine_ops;

/* The plugin exports one symbol: sefl_engine, a function that returns its table. */
#define ENGINE_SYMBOL "sefl_engine"
typedef const engine_ops *engine_entry(void);

#ifdef __cplusplus
}
#endif

#endif
