/* engine_inside: declarations that the files of model/engine share. */
#ifndef MODEL_ENGINE_ENGINE_INSIDE_H
#define MODEL_ENGINE_ENGINE_INSIDE_H

#include "model/engine/engine.h"
#include "model/train.h"

struct engine {
    const engine_ops *ops;
    void *self;
    lm_config model;
    optim_config optim;
    engine_facts facts;
    size_t count, state_n, optim_n; /* values in theta, carried state and optimiser state */
    uint64_t *limit;                /* steps of each slot; 0: no limit */
    char name[128], fallback[512];
};

/* The argument of engine_cpu.open: an engine_setup followed by what only the CPU uses. */
typedef struct engine_cpu_setup {
    engine_setup setup;
    const lm_config *model;
    optim_config optim;
    pool *pool;
} engine_cpu_setup;

extern const engine_ops engine_cpu;

/* Like engine_cpu.evaluate, with a progress that may stop it. */
sefl_status engine_cpu_evaluate(void *self, uint32_t slot, const uint32_t *words, uint64_t n,
                                double *loss, uint64_t *counted,
                                const sefl_progress *progress) SEFL_MUST_CHECK;

/* Opens the plugin, which then stays open until the process ends. */
sefl_status engine_plugin(const engine_ops **out) SEFL_MUST_CHECK;

#endif
