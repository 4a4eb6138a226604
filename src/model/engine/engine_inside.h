/* engine_inside: what the files of model/engine share. */
#ifndef MODEL_ENGINE_ENGINE_INSIDE_H
#define MODEL_ENGINE_ENGINE_INSIDE_H

#include "model/engine/engine.h"

struct engine {
    const engine_ops *ops;
    void *self;
    lm_config model;
    optim_config optim;
    engine_facts facts;
    size_t count, state_n, optim_n; /* values of theta, of the carried state, of the optimiser */
    char name[128], fallback[512];
};

/* engine_cpu's open gets this behind its engine_setup. */
typedef struct engine_cpu_setup {
    engine_setup setup;
    pool *pool;
} engine_cpu_setup;

extern const engine_ops engine_cpu;

/* engine_cpu's evaluate, with a progress that may stop it. */
sefl_status engine_cpu_evaluate(void *self, uint32_t slot, const uint32_t *words, uint64_t n,
                                double *loss, uint64_t *counted,
                                const sefl_progress *progress) SEFL_MUST_CHECK;

/* Opens the plugin; it stays open for the life of the process. */
sefl_status engine_plugin(const engine_ops **out) SEFL_MUST_CHECK;

#endif
