/* compress: maps a whole model from dense to block-Hankel parameters, and measures the paper's
 * scaling factor kappa. trainer_expand (roles/client/trainer.h) is the way back.
 *
 *     SEFL_TRY(lm_config_layout(&cfg, &l));            // cfg.block: l
 *     compress_project(&l, v, dense);                  // v: l.count values
 *     double kappa = compress_norm(v, l.count) / compress_norm(dense, l.dense);
 *
 * The paper's compression T maps an update of norm C to one of norm at most kappa C, which is the
 * sensitivity that the noise must cover. For an update u of the dense model:
 *     project   T(u) = means over the anti-diagonals: the nearest block-Hankel update. kappa <= 1
 *     fold      T(u) = sums over the anti-diagonals: the gradient of a compressed model.
 *               kappa <= sqrt(l)
 * A corner of a block reaches the first bound, a constant anti-diagonal of length l the second. For
 * an update v of a compressed model, the dense update is expand(v), and ||v|| / ||expand(v)|| is
 * from 1/sqrt(l) to 1.
 *
 * Vectors (biases, layer norms) are not compressed. Threads: any.   Secrets: none. */
#ifndef PAPER_COMPRESS_H
#define PAPER_COMPRESS_H

#include "model/layout.h"

void compress_project(const layout *l, float *v, const float *dense);
void compress_fold(const layout *l, float *v, const float *dense);

/* Returns the L2 norm. */
double compress_norm(const float *v, size_t n);

#endif
