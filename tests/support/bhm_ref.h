/* bhm_ref: the plain products of a block-Hankel matrix, with which tests compare the fast paths.
 * With n tokens, x is (n, cols), y and g are (n, rows), without gaps:
 *     y = x W^T        dx = g W (overwritten)       dv += the gradient of W = g^T x, folded */
#ifndef SUPPORT_BHM_REF_H
#define SUPPORT_BHM_REF_H

#include "model/bhm/bhm.h"

#include <stdbool.h>

static inline nn_real bhm_entry_ref(bhm s, const nn_real *v, uint32_t i, uint32_t j)
{
    return v[bhm_block_at(s, i / s.block, j / s.block) + i % s.block + j % s.block];
}

/* y (n, rows) = x (n, cols) W^T; if turned, W is transposed first. */
static inline void bhm_product_ref(bhm s, nn_real *y, const nn_real *x, size_t n, const nn_real *v,
                                   bool turned)
{
    const uint32_t rows = turned ? s.cols : s.rows, cols = turned ? s.rows : s.cols;
    for (size_t t = 0; t < n; t++)
        for (uint32_t i = 0; i < rows; i++) {
            double sum = 0;
            for (uint32_t j = 0; j < cols; j++)
                sum += (double)(turned ? bhm_entry_ref(s, v, j, i) : bhm_entry_ref(s, v, i, j)) *
                       x[t * cols + j];
            y[t * rows + i] = (nn_real)sum;
        }
}

static inline void bhm_mul_ref(bhm s, nn_real *y, const nn_real *x, size_t n, const nn_real *v)
{
    bhm_product_ref(s, y, x, n, v, false);
}

static inline void bhm_mul_dx_ref(bhm s, nn_real *dx, const nn_real *g, size_t n, const nn_real *v)
{
    bhm_product_ref(s, dx, g, n, v, true);
}

static inline void bhm_mul_dw_ref(bhm s, nn_real *dv, const nn_real *g, const nn_real *x, size_t n)
{
    for (uint32_t i = 0; i < s.rows; i++)
        for (uint32_t j = 0; j < s.cols; j++) {
            double sum = 0;
            for (size_t t = 0; t < n; t++)
                sum += (double)g[t * s.rows + i] * x[t * s.cols + j];
            dv[bhm_block_at(s, i / s.block, j / s.block) + i % s.block + j % s.block] +=
                (nn_real)sum;
        }
}

#endif
