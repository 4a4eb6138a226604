/* nn: the layers that both models share, forward and backward, on the shared thread pool.
 *
 * Activations are row-major, one token per row. Work is split into pieces that depend only on
 * sizes, and each piece runs on one thread, so results do not depend on the number of threads.
 * BLAS, which computes the small products of attention, uses one thread too. Functions add to
 * gradients (`+=`) unless stated otherwise. */
#ifndef MODEL_NN_NN_H
#define MODEL_NN_NN_H

#include "base/pool.h"
#include "model/bhm/bhm.h"
#include "model/nn/kernels.h"
#include "model/nn/nn_plan.h"
#include "model/train_steps.h"
#include "seeded/seeded.h"

typedef struct nn_mat {
    const nn_real *p;
    size_t ld; /* distance between rows, in numbers */
    bool t;    /* stored transposed */
} nn_mat;

/* c (m, n) = a b + beta c, split by rows of c; a is (m, k), b is (k, n). */
typedef struct nn_gemm_args {
    size_t m, n, k;
    nn_mat a, b;
    nn_real *c;
    size_t ldc;
    nn_real beta;
    const nn_real *bias; /* n numbers, added to every row in place of beta c */
    nn_real *sums;       /* if a.t: m numbers, to which the row sums of a are added */
} nn_gemm_args;

/* Resources for matrix products: threads, and memory for one operand packed in panels. */
typedef struct nn_work {
    pool *pool;
    nn_real *pack;       /* nn_gemm_room(n, k) of the largest product */
    const nn_kernels *k; /* NULL: this machine's fastest kernels */
} nn_work;

size_t nn_gemm_room(size_t n, size_t k);
/* Multiplies on the pool, with the kernels of kernels.h; beta is 0 or 1. */
sefl_status nn_gemm(const nn_work *w, const nn_gemm_args *g) SEFL_MUST_CHECK;
/* Multiplies small matrices with BLAS on this thread; k = 0 computes beta c; no bias, no sums. */
void nn_gemm_1(const nn_gemm_args *g);

/* A weight matrix prepared for a step: a dense copy, or the parameters themselves for l = 1. */
typedef struct nn_weight {
    bhm shape;
    const nn_real *w; /* (rows, cols) */
    nn_real *dw;      /* its dense gradient */
    nn_real *own_w, *own_dw;
} nn_weight;

void nn_weight_layout(nn_weight *w, bhm shape, nn_plan *p);
/* Returns the size of nn_work.pack for the products of a weight of this shape with n tokens. */
size_t nn_weight_room(bhm shape, size_t n);
/* Expands v. For l = 1, uses v itself, and the gradient is added directly to dv. */
void nn_weight_begin(nn_weight *w, const nn_real *v, nn_real *dv);
/* Folds the dense gradient into dv; for l = 1, does nothing. */
void nn_weight_end(nn_weight *w, nn_real *dv);

/* y (n, rows) = x (n, cols) W^T + bias (NULL: none) */
sefl_status nn_linear(const nn_work *k, nn_real *y, const nn_real *x, size_t n, const nn_weight *w,
                      const nn_real *bias) SEFL_MUST_CHECK;
/* dx (n, cols) = dy W (may be NULL); dW += dy^T x; dbias += column sums of dy (may be NULL). */
sefl_status nn_linear_back(const nn_work *k, nn_real *dx, nn_weight *w, nn_real *dbias,
                           const nn_real *dy, const nn_real *x, size_t n) SEFL_MUST_CHECK;

bool nn_dropout_is_on(const nn_dropout *d);

/* Dropout (train_steps.h). Draws the mask and applies it to x (may be NULL). Advances to the next
 * site. */
sefl_status nn_dropout_draw(pool *p, nn_dropout *d, nn_real *mask, nn_real *x,
                            size_t n) SEFL_MUST_CHECK;
void nn_dropout_back(const nn_dropout *d, nn_real *dx, const nn_real *mask, size_t n);

/* Adds a residual branch and normalises: x += branch, then for each row
 *     y = gain * (x - mean) / sqrt(var + 1e-5) + shift
 * The backward pass needs xhat (n, cols) and rstd (n), but not x. */
typedef struct nn_norm {
    size_t n, cols;
    const nn_real *gain, *shift;
    nn_real *xhat, *rstd;
    nn_real *y, *x;        /* forward */
    const nn_real *branch; /* forward: (n, cols) */
    /* backward: d is the gradient of y; `plus` (may be NULL) is added to it first. d becomes the
     * gradient of x, and dbranch that of the branch before its dropout. */
    nn_real *d, *dgain, *dshift, *dbranch;
    const nn_real *plus, *mask; /* mask NULL: no dropout */
    nn_real *part;              /* scratch of nn_norm_scratch(n, cols) */
} nn_norm;

size_t nn_norm_scratch(size_t n, size_t cols);
sefl_status nn_norm_forward(pool *p, const nn_norm *a) SEFL_MUST_CHECK;
sefl_status nn_norm_backward(pool *p, const nn_norm *a) SEFL_MUST_CHECK;

/* x = max(x, 0); a NaN stays NaN. Backward: y is the output after ReLU and dropout with this mask
 * (NULL: no dropout); dx becomes dx * mask where y > 0, otherwise 0. */
sefl_status nn_relu(pool *p, nn_real *x, size_t n) SEFL_MUST_CHECK;
sefl_status nn_relu_back(pool *p, nn_real *dx, const nn_real *y, const nn_real *mask,
                         size_t n) SEFL_MUST_CHECK;

/* Keeps OpenBLAS from starting threads; may be called repeatedly. */
void nn_blas_single_thread(void);

/* Returns the name of the CBLAS in use. */
const char *nn_blas_name(void);

#endif
