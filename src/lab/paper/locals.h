/* locals: trains the clients of a small federation in the clear and passes on each client's update,
 * for measurements of the updates themselves.
 *
 *     static const locals_size small = { "small", "clients=10 model.block=8", 5 };
 *     SEFL_TRY(locals_open(&l, o, &small, 0, 1));
 *     SEFL_TRY(locals_round(&l, 1, theta, on_update, ctx));       // l.params values in theta
 *     SEFL_TRY(locals_perplexity(&l, &perplexity, theta));
 *     locals_close(&l);
 *
 * Text, vocabulary and training are those of `sefl simulate` with these settings (experiment.h).
 * The word order is that of model.block; the model that trains has the block size given to
 * locals_open.
 * Threads: one owner.   Secrets: none. */
#ifndef PAPER_LOCALS_H
#define PAPER_LOCALS_H

#include "base/pool.h"
#include "model/engine/engine.h"
#include "paper/paper.h"
#include "simulate/federation.h"

enum { LOCALS_SEED = 1 };

typedef struct locals_size {
    const char *name;
    const char *set; /* settings (paper_set) */
    unsigned rounds; /* for the caller */
} locals_size;

typedef struct locals {
    const paper_options *o;
    settings set;
    experiment e;
    federation *f;
    task t; /* the federation's task, with the block size of the model that trains */
    size_t params;
    pool *pool;
    engine *engine;
    float *update;
    engine_progress *done;
    uint32_t slots;
} locals;

/* Called for each client in order; u is its update, l->params values, valid during the call. */
typedef sefl_status locals_fn(void *ctx, uint32_t client, const float *u);

/* Uses the settings of z, model.block `order` unless that is 0, and LOCALS_SEED; o->data adds
 * data.path. Always close l. */
sefl_status locals_open(locals *l, const paper_options *o, const locals_size *z, unsigned order,
                        uint32_t block) SEFL_MUST_CHECK;
void locals_close(locals *l);

/* Trains every client from theta. SEFL_ERANGE if one diverges. */
sefl_status locals_round(locals *l, uint64_t round, const float *theta, locals_fn *each,
                         void *ctx) SEFL_MUST_CHECK;

/* Computes the perplexity on the validation text. SEFL_EINVAL if there is none. */
sefl_status locals_perplexity(locals *l, double *out, const float *theta) SEFL_MUST_CHECK;

/* Map a whole model from dense to block-Hankel parameters; trainer_expand is the way back. Vectors
 * (biases, layer norms) are not compressed.
 *
 * The paper's compression T maps an update of norm C to one of norm at most kappa C, which is the
 * sensitivity that the noise must cover. For an update u of the dense model:
 *     project   T(u) = means over the anti-diagonals: the nearest block-Hankel update. kappa <= 1
 *     fold      T(u) = sums over the anti-diagonals: the gradient of a compressed model.
 *               kappa <= sqrt(l)
 * A corner of a block reaches the first bound, a constant anti-diagonal of length l the second. For
 * an update v of a compressed model, the dense update is expand(v), and ||v|| / ||expand(v)|| is
 * from 1/sqrt(l) to 1. */
void compress_project(const layout *l, float *v, const float *dense);
void compress_fold(const layout *l, float *v, const float *dense);
/* Returns the L2 norm. */
double compress_norm(const float *v, size_t n);

/* True if o->device is a GPU that works. */
bool locals_has_gpu(const paper_options *o);

#endif
