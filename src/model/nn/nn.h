/* nn: the layers both models are made of, forward and backward, on the shared thread pool.
 *
 * Activations are row-major, one token a row. Work is cut into pieces that depend on sizes only,
 * and BLAS is called on one thread inside a piece, so results do not depend on the number of
 * threads. Gradients are added to (`+=`) unless a function says otherwise. */
#ifndef MODEL_NN_NN_H
#define MODEL_NN_NN_H

#include "base/pool.h"
#include "model/bhm/bhm.h"
#include "model/nn/plan.h"
#include "seeded/seeded.h"

/* c (m, n) = alpha op(a) op(b) + beta c, cut by rows of c. */
typedef struct nn_gemm_args {
    bool ta, tb; /* a, b are stored transposed */
    size_t m, n, k;
    const nn_real *a;
    size_t lda;
    const nn_real *b;
    size_t ldb;
    nn_real beta;
    nn_real *c;
    size_t ldc;
} nn_gemm_args;

/* On the calling thread; k = 0 gives beta c. */
void nn_gemm_1(const nn_gemm_args *g);
sefl_status nn_gemm(pool *p, const nn_gemm_args *g) SEFL_MUST_CHECK;

/* A weight matrix made ready for a step: dense, whatever its block size. l = 1 is used in place. */
typedef struct nn_weight {
    bhm shape;
    const nn_real *w; /* (rows, cols) */
    nn_real *dw;      /* where its dense gradient is collected */
    nn_real *own_w, *own_dw;
} nn_weight;

void nn_weight_layout(nn_weight *w, bhm shape, nn_plan *p);
/* Expands v; for l = 1 the gradient is collected in dv itself. */
void nn_weight_begin(nn_weight *w, const nn_real *v, nn_real *dv);
/* Folds the collected gradient into dv (nothing to do for l = 1). */
void nn_weight_end(nn_weight *w, nn_real *dv);

/* y (n, rows) = x (n, cols) W^T + bias (NULL: none) */
sefl_status nn_linear(pool *p, nn_real *y, const nn_real *x, size_t n, const nn_weight *w,
                      const nn_real *bias) SEFL_MUST_CHECK;
/* dx (n, cols) = dy W (NULL: not wanted); dW += dy^T x; dbias += column sums (NULL: none). */
sefl_status nn_linear_back(pool *p, nn_real *dx, nn_weight *w, nn_real *dbias, const nn_real *dy,
                           const nn_real *x, size_t n) SEFL_MUST_CHECK;

/* Adds the column sums of x (n, cols) to out. */
void nn_column_sums(nn_real *out, const nn_real *x, size_t n, size_t cols);

/* Dropout: x = x * mask with mask 0 or 1/(1 - rate); rate is rounded to 1/65536. The mask is kept
 * for the backward pass, which is the same product. Each piece of the mask has a stream of coins of
 * its own, named by (seed, step, site, piece): threads do not matter, and a resumed run draws the
 * same masks again. rate = 0 leaves everything alone. */
typedef struct nn_dropout {
    double rate;
    uint64_t seed, step;
    unsigned site; /* counts up within a pass */
} nn_dropout;

bool nn_dropout_is_on(const nn_dropout *d);

/* Draws the mask; x may be NULL (mask only). Moves on to the next site. */
sefl_status nn_dropout_draw(pool *p, nn_dropout *d, nn_real *mask, nn_real *x,
                            size_t n) SEFL_MUST_CHECK;
void nn_dropout_back(const nn_dropout *d, nn_real *dx, const nn_real *mask, size_t n);

/* y = gain * (x - mean) / sqrt(var + 1e-5) + shift for each row; xhat (n, cols) and rstd (n) are
 * kept for backward. */
void nn_layernorm(nn_real *y, nn_real *xhat, nn_real *rstd, const nn_real *x, size_t n, size_t cols,
                  const nn_real *gain, const nn_real *shift);
void nn_layernorm_back(nn_real *dx, nn_real *dgain, nn_real *dshift, const nn_real *dy,
                       const nn_real *xhat, const nn_real *rstd, size_t n, size_t cols,
                       const nn_real *gain);

/* Keeps OpenBLAS from starting threads of its own; harmless to repeat. */
void nn_blas_single_thread(void);

/* What the CBLAS behind the products says of itself. */
const char *nn_blas_name(void);

#endif
