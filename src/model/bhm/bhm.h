/* bhm: block-Hankel matrices: an m x n weight matrix that is stored, trained and sent as far fewer
 * numbers.
 *
 * The matrix is tiled by l x l blocks, cut at the right and lower edge. Block (I, J) is Hankel:
 * its entry (a, b) is v[a + b], so a block of r x c has r + c - 1 values instead of r * c. l = 1
 * is an ordinary dense matrix in row-major order, without any copy. There is no padding:
 * every value counts.
 *
 *     bhm w = { .rows = 33278, .cols = 200, .block = 32 };
 *     size_t n = bhm_count(w);                         // 433,666 values
 *     bhm_expand(w, dense, 200, v, 0, w.rows);         // rows [0, 33278) as a dense matrix
 *     bhm_fold(w, dv, ddense, 200, 0, w.rows);         // gradient of v += its share of ddense
 *
 * Values lie in block-row-major order: block row 0 (blocks J = 0, 1, ...), block row 1, ...; so one
 * block row is one contiguous range (bhm_block_row).
 *
 * The parameter is v itself. Each entry of the dense matrix reads one value, so the gradient of a
 * value is the sum of the dense gradient over its anti-diagonal (fold), and the nearest
 * block-Hankel matrix to a dense one takes the mean over it (project).
 *
 * model/bhm/hankel multiplies large matrices without expanding them; tests compare it with the
 * plain products.
 * Threads: pure functions; split by rows as you like (fold: by whole block rows). Secrets: none
 * handled in constant time; training runs on its owner's machine. */
#ifndef MODEL_BHM_BHM_H
#define MODEL_BHM_BHM_H

#include "base/status.h"
#include "model/real.h"

#include <stddef.h>
#include <stdint.h>

enum { BHM_MAX_SIDE = 1 << 24, BHM_MAX_BLOCK = 4096 };

typedef struct bhm {
    uint32_t rows, cols; /* 1 to BHM_MAX_SIDE */
    uint32_t block;      /* l: 1 to BHM_MAX_BLOCK */
} bhm;

/* Blocks down and across. */
static inline uint32_t bhm_rows_of_blocks(bhm s)
{
    return (s.rows + s.block - 1) / s.block;
}
static inline uint32_t bhm_cols_of_blocks(bhm s)
{
    return (s.cols + s.block - 1) / s.block;
}

/* Height of block row I and width of block column J; smaller than block only at the edge. */
static inline uint32_t bhm_block_height(bhm s, uint32_t bi)
{
    uint32_t left = s.rows - bi * s.block;
    return left < s.block ? left : s.block;
}
static inline uint32_t bhm_block_width(bhm s, uint32_t bj)
{
    uint32_t left = s.cols - bj * s.block;
    return left < s.block ? left : s.block;
}

/* How many values the matrix has. */
size_t bhm_count(bhm s);

/* Where block row I begins in v, and how many values it has (into *count unless NULL). */
size_t bhm_block_row(bhm s, uint32_t bi, size_t *count);

/* Where the values of block (I, J) begin. */
size_t bhm_block_at(bhm s, uint32_t bi, uint32_t bj);

/* Writes rows [row, row + count) of the dense matrix, `ld` numbers apart. */
void bhm_expand(bhm s, nn_real *dense, size_t ld, const nn_real *v, uint32_t row, uint32_t count);

/* dv += the anti-diagonal sums of rows [row, row + count) of a dense gradient. */
void bhm_fold(bhm s, nn_real *dv, const nn_real *ddense, size_t ld, uint32_t row, uint32_t count);

/* v = the anti-diagonal means of a whole dense matrix: the nearest block-Hankel matrix. */
void bhm_project(bhm s, nn_real *v, const nn_real *dense, size_t ld);

#endif
