/* engine: trains and evaluates a model, on the processor or on a GPU, with one interface.
 *
 *     SEFL_TRY(engine_new(&e, &(engine_config){ .device = "auto", .model = &cfg, .slots = 10 }));
 *     SEFL_TRY(engine_theta(e, theta));
 *     engine_job job = { .words = w, .n = n, .columns = 20, .steps = 35, .limit = 100, .lr = 20 };
 *     lm_dropout_key(job.dropout_key, seed);
 *     SEFL_TRY(engine_start(e, 0, &job));                        // a slot: one client
 *     SEFL_TRY(engine_train(e, 1, done, &stop));                 // until every slot has finished
 *     SEFL_TRY(engine_read(e, 0, ENGINE_DELTA, v, count * sizeof *v));
 *
 * engine_ops.h has the parts and what they mean. The processor (model/lm.h, model/train.h) has one
 * slot. A GPU has many, behind the plugin libsefl_cuda.so, which is opened at run time:
 *
 *     cpu    the processor
 *     cuda   the GPU; without plugin, driver or device engine_new fails with a sentence
 *     auto   the GPU where that works, else the processor: engine_fallback says why
 *
 * The plugin is $SEFL_CUDA_PLUGIN, or the first libsefl_cuda.so of: the program's folder,
 * ../lib/sefl from there, the system's library path.
 *
 * On one device the same calls give the same bytes. Between devices results differ by float
 * rounding; with `precision: bf16` matrix products on the GPU are rounded to bfloat16.
 * Memory: processor: lm_memory, 4 bytes a value and 4 a word. GPU: engine_facts.memory on it.
 * Threads: one owner; the processor works on the pool.   Secrets: texts, parameters. */
#ifndef MODEL_ENGINE_ENGINE_H
#define MODEL_ENGINE_ENGINE_H

#include "base/buf.h"
#include "base/pool.h"
#include "model/engine/engine_ops.h"
#include "model/optim.h"

/* Settings `device` and `precision`: words and help, once. */
#define ENGINE_DEVICES        "cpu cuda auto"
#define ENGINE_DEVICE_HELP    "where to train; auto: a GPU if there is one, else the processor"
#define ENGINE_PRECISIONS     "bf16 fp32"
#define ENGINE_PRECISION_HELP "of matrix products on a GPU; the processor uses fp32"

typedef struct engine_config {
    const char *device;     /* ENGINE_DEVICES; NULL: "cpu" */
    const char *precision;  /* ENGINE_PRECISIONS, of a GPU; NULL: "bf16" */
    const lm_config *model; /* batch and steps are the largest that a slot may use */
    optim_config optim;     /* of every slot */
    uint32_t slots;         /* wanted; 0: 1; see engine_facts */
    pool *pool;             /* for the processor; NULL: the caller alone */
} engine_config;

typedef struct engine engine;

/* SEFL_EUNSUPPORTED without plugin, SEFL_ENOTFOUND without device, SEFL_ENOMEM: too large for it. */
sefl_status engine_new(engine **out, const engine_config *cfg) SEFL_MUST_CHECK;
void engine_free(engine *e);

const engine_facts *engine_get_facts(const engine *e);
bool engine_is_device(const engine *e); /* false: the processor */
/* "cpu", or "NVIDIA H200, bf16": for reports */
const char *engine_name(const engine *e);
/* auto: why the processor was taken; else NULL. */
const char *engine_fallback(const engine *e);
size_t engine_count(const engine *e); /* values in theta */

/* The table's functions. Settings of a job are checked here. */
sefl_status engine_theta(engine *e, const float *theta) SEFL_MUST_CHECK;
sefl_status engine_start(engine *e, uint32_t slot, const engine_job *job) SEFL_MUST_CHECK;
sefl_status engine_run(engine *e, uint32_t slots, uint64_t steps,
                       engine_progress *out) SEFL_MUST_CHECK;
sefl_status engine_read(engine *e, uint32_t slot, uint32_t part, void *out,
                        size_t bytes) SEFL_MUST_CHECK;
sefl_status engine_write(engine *e, uint32_t slot, uint32_t part, const void *in,
                         size_t bytes) SEFL_MUST_CHECK;

/* Runs slots [0, n) until each has finished or diverged, in pieces of ENGINE_PIECE steps on a GPU
 * and single steps on the processor. out: n, with sums over the whole call. progress (may be NULL)
 * counts the steps of all slots and may stop it (SEFL_ECANCELLED). */
enum { ENGINE_PIECE = 32 };
sefl_status engine_train(engine *e, uint32_t n, engine_progress *out,
                         const sefl_progress *progress) SEFL_MUST_CHECK;

/* Mean loss per word in nats, as lm_evaluate; slot ENGINE_BASE: of engine_theta's parameters.
 * progress (may be NULL) is asked on the processor only; a GPU needs no stop. */
#define ENGINE_BASE UINT32_MAX
sefl_status engine_evaluate(engine *e, uint32_t slot, const uint32_t *words, size_t n,
                            uint64_t text, double *mean,
                            const sefl_progress *progress) SEFL_MUST_CHECK;

/* Sums on the device. engine_can_sum: false on the processor. */
bool engine_can_sum(const engine *e);
sefl_status engine_sum_begin(engine *e, const engine_sum *how) SEFL_MUST_CHECK;
sefl_status engine_sum_add(engine *e, const engine_share *share, uint32_t n) SEFL_MUST_CHECK;
sefl_status engine_sum_end(engine *e, void *out, size_t bytes) SEFL_MUST_CHECK;

/* Times by kernel; *n = 0 where the engine measures none. */
sefl_status engine_times(engine *e, bool on, engine_time *out, uint32_t *n) SEFL_MUST_CHECK;

/* A slot's checkpoint (model/engine/checkpoint.c), the same on every device: everything that a later
 * step depends on. After engine_start with the same job, engine_load continues where engine_save
 * was, on the same device with the same bytes. Settings of the run stand at its start as text: a
 * checkpoint of another run is refused (SEFL_EINVAL). SEFL_EPROTO for bytes that are not a whole
 * checkpoint of this kind of run; nothing changes then. seed: where the dropout's key is from. */
sefl_status engine_save(engine *e, uint32_t slot, sefl_buf *out, const engine_job *job,
                        uint64_t seed) SEFL_MUST_CHECK;
sefl_status engine_load(engine *e, uint32_t slot, sefl_span in, const engine_job *job,
                        uint64_t seed) SEFL_MUST_CHECK;

#endif
