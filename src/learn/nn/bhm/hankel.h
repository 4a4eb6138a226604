/* hankel: multiplies by large block-Hankel matrices with short Fourier transforms.
 *
 * For one block, y[a] = sum over b of v[a + b] x[b]. With u = x reversed, these are the
 * coefficients of X^l .. X^(2l-1) in the polynomial product X v(X) u(X), and reduction modulo X^2l
 * - 1 does not change them. So the work is one transform of length 2l per token block and per
 * weight block (once per step), products of l pairs, summed over the block columns, and one inverse
 * per output block. A Hankel block is symmetric, so the gradient of x is the same product with g in
 * place of x; that of v is the plain convolution of g and x, summed over tokens as spectra.
 *
 * Multiplications per block and token: 4l instead of l^2, plus about 13 l for the inverse, shared
 * by all block columns. Measured on one Ice Lake core, 352 x 200 x 1024, in dense-equivalent
 * GFLOP/s, forward / backward (OpenBLAS dense: about 105):
 *     l = 8: 136 / 124     l = 16: 256 / 218     l = 32: 343 / 332     l = 64: 383 / 426
 * Two ideas brought no gain: l <= 4 (as many multiplications as dense), and one Karatsuba level
 * with three SGEMMs (0.9 to 1.06 of dense: the inner dimension is too small). If hankel_fits is
 * false, callers expand the matrix for SGEMM and fold the gradient (bhm.h).
 *
 *     if (hankel_fits(w)) {
 *         hankel_prepare(k, w, ws, v, 0, blocks);          // spectra of the weights
 *         hankel_tokens(k, w, xs, x, ldx, n, 0, groups);   // and of n tokens
 *         k->hankel_mul(hankel_dims_of(k, w, n), ys, xs, ws, blocks);
 *     }
 *
 * Memory layouts are those of model/nn/kernels.h. Threads: pure functions. */
#ifndef MODEL_BHM_HANKEL_H
#define MODEL_BHM_HANKEL_H

#include "model/bhm/bhm.h"
#include "model/nn/kernels.h"

/* True if a fast path exists for this shape and beats the dense product. */
bool hankel_fits(bhm s);

static inline unsigned hankel_groups(const nn_kernels *k, size_t tokens)
{
    return (unsigned)((tokens + k->width - 1) / k->width);
}

static inline hankel_dims hankel_dims_of(const nn_kernels *k, bhm s, size_t tokens)
{
    return (hankel_dims){ s.block, bhm_cols_of_blocks(s), hankel_groups(k, tokens) };
}

/* Returns the number of values in the spectra of one block row. */
static inline size_t hankel_row_size(bhm s)
{
    return (size_t)s.block * bhm_cols_of_blocks(s) * 2;
}

/* Writes ws [blocks][l][nj][2] for block rows [first, first + blocks); v: the whole matrix. */
void hankel_prepare(const nn_kernels *k, bhm s, nn_real *ws, const nn_real *v, uint32_t first,
                    uint32_t blocks);

/* Adds the gradient dws [blocks][l][nj][2] of block rows [first, first + blocks) to dv. */
void hankel_fold(const nn_kernels *k, bhm s, nn_real *dv, const nn_real *dws, uint32_t first,
                 uint32_t blocks);

/* Writes groups [from, to) of xs [l][groups][nj][2][W] for the tokens x (n, ld). */
void hankel_tokens(const nn_kernels *k, bhm s, nn_real *xs, const nn_real *x, size_t ld, size_t n,
                   unsigned from, unsigned to);

/* Writes dx [groups][nj * l][W] from dxs [groups][l][nj][2][W]. */
void hankel_tokens_back(const nn_kernels *k, bhm s, nn_real *dx, const nn_real *dxs,
                        unsigned groups);

#endif
