/* engine: one interface that trains and evaluates a model on the CPU or on a GPU.
 *
 *     SEFL_TRY(engine_new(&e, &(engine_config){ .device = "auto", .model = &cfg, .slots = 10 }));
 *     SEFL_TRY(engine_theta(e, theta));
 *     train_steps how = { .words = w, .n = n, .columns = 20, .steps = 35, .limit = 100, .lr = 20 };
 *     lm_dropout_key(how.dropout.key, seed);
 *     SEFL_TRY(engine_start(e, 0, &how));                        // a slot: one client
 *     SEFL_TRY(engine_train(e, 1, done, &stop));                 // until every slot is finished
 *     SEFL_TRY(engine_read(e, 0, ENGINE_DELTA, v, count * sizeof *v));
 *
 * engine_ops.h describes the parts of a slot. The CPU engine (model/lm.h, model/train.h) has one
 * slot. A GPU has many; its engine is the plugin libsefl_cuda.so, loaded at run time:
 *
 *     cpu    the CPU
 *     cuda   the GPU; engine_new fails with a message if plugin, driver or device is missing
 *     auto   the GPU if it works, else the CPU; engine_fallback returns the reason
 *
 * The plugin is $SEFL_CUDA_PLUGIN if that is set. Otherwise it is the first libsefl_cuda.so in the
 * program's folder, in ../lib/sefl relative to that, or in the system's library path. A file that
 * other users may write, or that belongs to another user, is refused.
 *
 * On one device the same calls give the same bytes. Results on different devices differ by float
 * rounding; with `precision: bf16` the operands of matrix products on the GPU are bfloat16.
 * Memory: on the CPU lm_memory, 4 bytes per value and 4 per word; on a GPU engine_facts.memory.
 * Threads: one owner; the CPU engine works on the pool.   Secrets: texts, parameters. */
#ifndef MODEL_ENGINE_ENGINE_H
#define MODEL_ENGINE_ENGINE_H

#include "base/buf.h"
#include "base/pool.h"
#include "model/engine/engine_ops.h"
#include "model/optim.h"

#define ENGINE_DEVICES    "cpu cuda auto"
#define ENGINE_PRECISIONS KIND_WORDS(PRECISIONS)

/* Rows for the members threads, device and precision (model/lm_settings.h). */
/* clang-format off */
#define ENGINE_SETTINGS(ROW)                                                                       \
    ROW("threads", U64, threads, "0", 0, 256, NULL,                                                \
        "number of worker threads, which does not affect the result; 0 means one per core",        \
        .was = "train.threads")                                                                    \
    ENGINE_DEVICE(ROW)
#define ENGINE_DEVICE(ROW)                                                                         \
    ROW("device", WORD, device, "cpu", 0, 0, ENGINE_DEVICES,                                       \
        "device to compute on; auto uses a GPU if there is one, else the CPU")                     \
    ROW("precision", WORD, precision, "bf16", 0, 0, ENGINE_PRECISIONS,                             \
        "precision of matrix products on a GPU; the CPU uses fp32")
/* clang-format on */

typedef struct engine_config {
    const char *device;     /* one of ENGINE_DEVICES; NULL: "cpu" */
    const char *precision;  /* one of ENGINE_PRECISIONS, for a GPU; NULL: "bf16" */
    const lm_config *model; /* its batch and steps are the maximum for every slot */
    optim_config optim;     /* optimiser of every slot */
    uint32_t number;        /* which GPU, modulo the number of GPUs */
    uint32_t slots;         /* slots requested (0 means 1); engine_facts has the actual number */
    pool *pool;             /* for the CPU; NULL: only the calling thread */
} engine_config;

typedef struct engine engine;

/* Opens the device. SEFL_EUNSUPPORTED: no plugin; SEFL_ENOTFOUND: no device; SEFL_ENOMEM: the model
 * does not fit. */
sefl_status engine_new(engine **out, const engine_config *cfg) SEFL_MUST_CHECK;
void engine_free(engine *e);

const engine_facts *engine_get_facts(const engine *e);
bool engine_is_device(const engine *e); /* false: the CPU */
/* Returns "cpu" or, for example, "NVIDIA H200, bf16"; for reports. */
const char *engine_name(const engine *e);
/* Returns why `auto` chose the CPU; NULL if it did not. */
const char *engine_fallback(const engine *e);
size_t engine_count(const engine *e); /* values in theta */

/* Call the engine's functions in engine_ops. engine_start first checks and fills in the settings
 * (train_steps_fill). */
sefl_status engine_theta(engine *e, const float *theta) SEFL_MUST_CHECK;
sefl_status engine_start(engine *e, uint32_t slot, const train_steps *how) SEFL_MUST_CHECK;
sefl_status engine_run(engine *e, uint32_t slots, uint64_t steps,
                       engine_progress *out) SEFL_MUST_CHECK;
sefl_status engine_read(engine *e, uint32_t slot, uint32_t part, void *out,
                        size_t bytes) SEFL_MUST_CHECK;
sefl_status engine_write(engine *e, uint32_t slot, uint32_t part, const void *in,
                         size_t bytes) SEFL_MUST_CHECK;

/* Runs slots [0, n) until each has finished or diverged, ENGINE_PIECE steps at a time on a GPU and
 * one at a time on the CPU. out has n entries, with sums over the whole call. progress (may be
 * NULL) counts the steps of all slots, out of the sum of their limits, and may stop training
 * (SEFL_ECANCELLED). */
enum { ENGINE_PIECE = 32 };
sefl_status engine_train(engine *e, uint32_t n, engine_progress *out,
                         const sefl_progress *progress) SEFL_MUST_CHECK;

/* Computes the mean loss per word in nats as lm_evaluate does. With slot ENGINE_BASE, uses the
 * parameters of engine_theta. progress (may be NULL) is called only on the CPU; a GPU finishes too
 * fast to need it. */
#define ENGINE_BASE UINT32_MAX
sefl_status engine_evaluate(engine *e, uint32_t slot, const uint32_t *words, size_t n,
                            uint64_t text, double *mean,
                            const sefl_progress *progress) SEFL_MUST_CHECK;

/* Add updates on the device. Call these only if engine_can_sum is true; for the CPU it is false. */
bool engine_can_sum(const engine *e);
sefl_status engine_sum_begin(engine *e, const engine_sum *how) SEFL_MUST_CHECK;
sefl_status engine_sum_add(engine *e, const engine_share *share, uint32_t n) SEFL_MUST_CHECK;
sefl_status engine_sum_noise(engine *e, const engine_noise *how) SEFL_MUST_CHECK;
sefl_status engine_sum_end(engine *e, void *out, size_t bytes) SEFL_MUST_CHECK;

/* Reads the time of each kernel; sets *n to 0 if the engine does not measure. */
sefl_status engine_times(engine *e, bool on, engine_time *out, uint32_t *n) SEFL_MUST_CHECK;

/* Appends a slot's checkpoint (model/engine/checkpoint.c): the run's settings as a string, then
 * everything that a later step depends on. The format is the same on every device. seed is the seed
 * of the dropout key. */
sefl_status engine_save(engine *e, uint32_t slot, sefl_buf *out, const train_steps *how,
                        uint64_t seed) SEFL_MUST_CHECK;
/* Loads a checkpoint after engine_start with the same settings; on the same device, training
 * continues bit for bit. SEFL_EINVAL: the checkpoint is from a run with other settings.
 * SEFL_EPROTO: the bytes are not a complete checkpoint. In both cases the slot is unchanged. */
sefl_status engine_load(engine *e, uint32_t slot, sefl_span in, const train_steps *how,
                        uint64_t seed) SEFL_MUST_CHECK;

#endif
