/* kernels: the inner loops of training, compiled per instruction set and chosen at run time.
 *
 * One source (kernels.inc) is compiled three times: for AVX-512, for AVX2 with FMA, and as plain C
 * for the baseline instruction set. A "lane vector" is `width` adjacent numbers; [W] in a layout
 * below means W = width. Buffers with lane vectors are aligned to 64 bytes (nn_take does that).
 *
 *     const nn_kernels *k = nn_kernels_get();          // honours SEFL_CPU
 *     k->softmax_row(y, bias, n, &max, &sum);
 *
 * The three versions agree up to rounding, but not to the bit, because they add in different
 * orders. A machine always uses the same version, so a run on it is reproducible.
 *
 * The Hankel kernels work on spectra: the real transform of length 2l of a block, as l pairs. Pair
 * 0 contains the two real bins, which are multiplied one by one; pairs 1 .. l-1 are complex. See
 * model/bhm/hankel.h for the mathematics. They exist for l = 8, 16, 32, 64. */
#ifndef MODEL_NN_KERNELS_H
#define MODEL_NN_KERNELS_H

#include "model/real.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NN_MAX_WIDTH = 16, NN_PANEL = 64, NN_ROWS = 5, NN_BACK_ROWS = 8 };

typedef struct hankel_dims {
    unsigned l;      /* block size: 8, 16, 32 or 64 */
    unsigned nj;     /* block columns */
    unsigned groups; /* groups of W tokens */
} hankel_dims;

/* The gradient at the output, with tokens in lanes: ys [groups][ni*l][W] times the token's factor c
 * [groups*W], minus `scale` where the row is the token's target. */
typedef struct hankel_grad {
    const nn_real *ys, *c;
    const uint32_t *target; /* [groups*W], relative to the first row; beyond the rows: none */
    nn_real scale;
    nn_real *db; /* [ni*l][W] */
} hankel_grad;

typedef struct nn_kernels {
    const char *name;
    unsigned width;

    /* Transforms W blocks: v [2l][W] -> spec [l][2][W], including the factors of the inverse. */
    void (*hankel_weights)(unsigned l, nn_real *spec, const nn_real *v);
    /* The inverse: spec [l][2][W] -> conv [2l][W], a cyclic convolution, factors included. */
    void (*hankel_unweights)(unsigned l, nn_real *conv, const nn_real *spec);
    /* Transform a reversed x [l][W] to spec [l][2][W], and spec to its inverse's upper half. */
    void (*hankel_forward_transform)(unsigned l, nn_real *spec, const nn_real *x);
    void (*hankel_inverse_transform)(unsigned l, nn_real *y, const nn_real *spec);
    /* Computes ys [groups][ni*l][W], the products of the ni block rows of ws [ni][l][nj][2] with xs
     * [l][groups][nj][2][W]. */
    void (*hankel_mul)(hankel_dims d, nn_real *ys, const nn_real *xs, const nn_real *ws,
                       unsigned ni);
    /* Computes the gradients of ni block rows: sets dxs [groups][l][nj][2][W], adds to dws
     * [ni][l][nj][2] and g->db. gs: scratch of NN_BACK_ROWS*groups*(2l + 1)*W numbers. */
    void (*hankel_back)(hankel_dims d, nn_real *dxs, nn_real *dws, nn_real *gs,
                        const hankel_grad *g, const nn_real *xs, const nn_real *ws, unsigned ni);

    /* Softmax with tokens in lanes: y [rows][W] += bias[row], then y = exp(y - max). Writes max and
     * sum [W]. */
    void (*softmax_lanes)(nn_real *y, const nn_real *bias, size_t rows, nn_real *max, nn_real *sum);
    /* Softmax of one token, whose logits are y[0 .. n); bias may be NULL. */
    void (*softmax_row)(nn_real *y, const nn_real *bias, size_t n, nn_real *max, nn_real *sum);

    /* c (m, ldc) = (or +=) op(a) b with b (k, n) in panels of 2W columns. gemm_pack writes the
     * panel at column col, a multiple of 2W, of a b that is stored as (k, ldb) or transposed as (n,
     * ldb). All panels together take k times n rounded up to W. */
    void (*gemm_pack)(nn_real *to, const nn_real *b, size_t ldb, bool transposed, size_t k,
                      size_t n, size_t col);
    void (*gemm)(nn_real *c, size_t ldc, const nn_real *a, size_t lda, bool ta, const nn_real *b,
                 size_t m, size_t n, size_t k, bool add);

    /* Dense decoder, tokens in panels of 2W. e [rows][2W] = w (rows, k) times xt [k][2W]. */
    void (*dense_logits)(nn_real *e, const nn_real *xt, const nn_real *w, size_t rows, size_t k);
    /* softmax_lanes for a panel: e [rows][2W], max and sum [2W]. */
    void (*softmax_panel)(nn_real *e, const nn_real *bias, size_t rows, nn_real *max, nn_real *sum);
    /* dxt [cols][2W] = w^T e */
    void (*dense_dx)(nn_real *dxt, const nn_real *e, const nn_real *w, size_t rows, size_t cols);
    /* dense_scale: xs (tokens * cols rounded up to W) = x (n, cols) times c[n], in panels of
     * columns. dense_dw, for an xs with tokens = panels * 2W: dw (rows, cols) = (or += with add)
     * sum over panels of e [panels][rows][2W] times xs; db [rows] += e c. */
    void (*dense_scale)(nn_real *xs, const nn_real *x, const nn_real *c, size_t n, size_t tokens,
                        size_t cols);
    void (*dense_dw)(nn_real *dw, nn_real *db, const nn_real *e, const nn_real *xs,
                     const nn_real *c, size_t rows, size_t cols, size_t panels, bool add);
    /* sum [cols][2W] = (or +=) c [2W] times x [cols][2W] */
    void (*dense_join)(nn_real *sum, const nn_real *x, const nn_real *c, size_t cols, bool add);

    /* c (rows, ldc) += a (rows, lda) times B, 1 <= rows <= NN_ROWS; B is k x n packed in panels of
     * NN_PANEL columns: panel p, at b + p*k*NN_PANEL, is [k][NN_PANEL], zero beyond n. c needs room
     * for only n columns. */
    void (*panel_mul)(nn_real *c, size_t ldc, const nn_real *a, size_t lda, const nn_real *b,
                      unsigned rows, size_t k, size_t n);

    /* One token's LSTM cell. gates (4h: i, f, g, o before activation) become the activations;
     * c, tanh_c, out (h each) are written. */
    void (*lstm_cell)(nn_real *gates, nn_real *c, nn_real *tanh_c, nn_real *out,
                      const nn_real *c_prev, size_t h);
    /* Backward: gates (activations) become the gradient before activation. dc (h) is the gradient
     * of c from the later step and becomes the gradient of c_prev. dout is the gradient of out. */
    void (*lstm_cell_back)(nn_real *gates, nn_real *dc, const nn_real *dout, const nn_real *tanh_c,
                           const nn_real *c_prev, size_t h);
    /* Layer norm of one row: xhat = (x - mean) / sqrt(var + 1e-5), y = gain xhat + shift; returns 1
     * / sqrt(var + 1e-5). norm_row_back writes dx and adds to dgain and dshift. */
    nn_real (*norm_row)(nn_real *y, nn_real *xhat, const nn_real *x, size_t n, const nn_real *gain,
                        const nn_real *shift);
    void (*norm_row_back)(nn_real *dx, nn_real *dgain, nn_real *dshift, const nn_real *dy,
                          const nn_real *xhat, nn_real rstd, size_t n, const nn_real *gain);
    /* y += a x */
    void (*axpy)(nn_real *y, nn_real a, const nn_real *x, size_t n);
} nn_kernels;

/* Returns the fastest kernels that this processor supports; a process always gets the same ones. */
const nn_kernels *nn_kernels_get(void);

/* Returns all kernels that this processor supports, fastest first, then NULL; for tests. */
const nn_kernels *const *nn_kernels_all(void);

#endif
