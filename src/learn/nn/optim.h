/* optim: an optimiser (SGD, momentum or Adam) for the compressed parameter vector.
 *
 *     SEFL_TRY(optim_init(&o, &(optim_config){ .kind = OPTIM_SGD }, lm_layout(m)));
 *     SEFL_TRY(optim_norm(&o, pool, &norm, grad, spans, n));        // global L2 norm
 *     SEFL_TRY(optim_step(&o, pool, theta, grad, spans, n, lr, norm > clip ? clip / norm : 1));
 *
 *     sgd       theta -= lr g
 *     momentum  m = mu m + g;  theta -= lr m                                    (PyTorch's form)
 *     adam      of Kingma and Ba, with bias correction
 *
 * Weight decay is decoupled, as in AdamW: before the step above, theta -= lr wd theta for all
 * trainable tensors, biases and the rows of absent words included. It changes neither gradient nor
 * state.
 *
 * The gradient is zero outside the spans. Without weight decay, SGD leaves the rest of theta
 * unchanged; the other two update all trainable tensors, because their state changes parameters
 * even where the gradient is zero. No optimiser changes a tensor that is not trainable.
 * Threads: one owner; results do not depend on the pool's threads. */
#ifndef MODEL_OPTIM_H
#define MODEL_OPTIM_H

#include "base/pool.h"
#include "model/lm.h"

typedef struct optim {
    optim_config cfg; /* filled */
    size_t count;     /* values of theta */
    lm_span *live;    /* the trainable values */
    size_t lives;
    nn_real *state; /* momentum: m; adam: m, then v */
    size_t state_n;
    uint64_t steps; /* made so far */
    struct optim_chunk *chunk;
    size_t chunks, cap;
} optim;

/* The layout is needed only during the call. On failure there is nothing to clear. A run resumes if
 * `state` and `steps` are set to earlier values. */
sefl_status optim_init(optim *o, const optim_config *cfg, const layout *l) SEFL_MUST_CHECK;
void optim_clear(optim *o);

/* Computes the L2 norm over the spans, in double and in a fixed order. SEFL_ERANGE: not finite. */
sefl_status optim_norm(optim *o, pool *p, double *norm, const nn_real *grad, const lm_span *spans,
                       size_t n) SEFL_MUST_CHECK;

/* Makes one step with learning rate lr and gradient scale * grad. */
sefl_status optim_step(optim *o, pool *p, nn_real *theta, const nn_real *grad, const lm_span *spans,
                       size_t n, double lr, double scale) SEFL_MUST_CHECK;

#endif
