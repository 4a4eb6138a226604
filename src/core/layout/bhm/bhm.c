/* Design.
 *  1. All full block rows have the same number of values, so addresses are a product, not a table.
 *  2. A row of a block is a window of its values, v[a .. a + c): expand is memcpy, fold is one
 *     vector addition per row of a block. */
#include "model/bhm/bhm.h"

#include <string.h>

/* Values of a block row of the given height. */
static size_t row_values(bhm s, uint32_t height)
{
    size_t full = s.cols / s.block, cut = s.cols % s.block;
    return full * (height + s.block - 1) + (cut ? height + cut - 1 : 0);
}

size_t bhm_block_row(bhm s, uint32_t bi, size_t *count)
{
    if (count)
        *count = row_values(s, bhm_block_height(s, bi));
    return bi * row_values(s, s.block);
}

size_t bhm_block_at(bhm s, uint32_t bi, uint32_t bj)
{
    return bhm_block_row(s, bi, NULL) + (size_t)bj * (bhm_block_height(s, bi) + s.block - 1);
}

size_t bhm_count(bhm s)
{
    size_t last;
    size_t at = bhm_block_row(s, bhm_rows_of_blocks(s) - 1, &last);
    return at + last;
}

void bhm_expand(bhm s, nn_real *dense, size_t ld, const nn_real *v, uint32_t row, uint32_t count)
{
    uint32_t blocks = bhm_cols_of_blocks(s);
    for (uint32_t i = 0; i < count; i++, dense += ld) {
        uint32_t bi = (row + i) / s.block, a = (row + i) % s.block;
        size_t stride = bhm_block_height(s, bi) + s.block - 1;
        const nn_real *from = v + bhm_block_row(s, bi, NULL) + a;
        for (uint32_t bj = 0; bj < blocks; bj++)
            memcpy(dense + (size_t)bj * s.block, from + bj * stride,
                   bhm_block_width(s, bj) * sizeof *dense);
    }
}

void bhm_fold(bhm s, nn_real *dv, const nn_real *ddense, size_t ld, uint32_t row, uint32_t count)
{
    uint32_t blocks = bhm_cols_of_blocks(s);
    for (uint32_t i = 0; i < count; i++, ddense += ld) {
        uint32_t bi = (row + i) / s.block, a = (row + i) % s.block;
        size_t stride = bhm_block_height(s, bi) + s.block - 1;
        nn_real *to = dv + bhm_block_row(s, bi, NULL) + a;
        for (uint32_t bj = 0; bj < blocks; bj++) {
            uint32_t width = bhm_block_width(s, bj);
            const nn_real *restrict from = ddense + (size_t)bj * s.block;
            nn_real *restrict sum = to + bj * stride;
            for (uint32_t b = 0; b < width; b++)
                sum[b] += from[b];
        }
    }
}

/* In double, the mean of equal floats is exactly that float, so projecting an expanded matrix
 * returns its values. */
void bhm_project(bhm s, nn_real *v, const nn_real *dense, size_t ld)
{
    for (uint32_t bi = 0; bi < bhm_rows_of_blocks(s); bi++)
        for (uint32_t bj = 0; bj < bhm_cols_of_blocks(s); bj++) {
            uint32_t r = bhm_block_height(s, bi), c = bhm_block_width(s, bj);
            const nn_real *from = dense + (size_t)bi * s.block * ld + (size_t)bj * s.block;
            nn_real *at = v + bhm_block_at(s, bi, bj);
            for (uint32_t k = 0; k < r + c - 1; k++) {
                uint32_t low = k >= c ? k - c + 1 : 0, high = k < r ? k : r - 1;
                double sum = 0;
                for (uint32_t i = low; i <= high; i++)
                    sum += from[i * ld + (k - i)];
                at[k] = (nn_real)(sum / (high - low + 1));
            }
        }
}
