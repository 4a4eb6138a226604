/* bhm: block-Hankel matrices: m x n weight matrices that are stored, trained and sent as far fewer
 * than m * n numbers.
 *
 * The matrix is tiled by l x l blocks, which are cut off at the right and lower edges. Block (I, J)
 * is Hankel: its entry (a, b) is v[a + b], so a block of r x c has r + c - 1 values instead of r *
 * c. With l = 1 the matrix is an ordinary dense one in row-major order, used without a copy. There
 * is no padding: every value is a parameter.
 *
 *     bhm w = { .rows = 33278, .cols = 200, .block = 32 };
 *     size_t n = bhm_count(w);                         // 433,666 values
 *     bhm_expand(w, dense, 200, v, 0, w.rows);         // rows [0, 33278) as a dense matrix
 *     bhm_fold(w, dv, ddense, 200, 0, w.rows);         // dv += gradient of v from ddense
 *
 * Values are stored in block-row-major order: block row 0 (blocks J = 0, 1, ...), block row 1, ...;
 * so one block row is one contiguous range (bhm_block_row).
 *
 * The model's parameters are the values v. Each entry of the dense matrix reads one value, so the
 * gradient of a value is the sum of the dense gradient over its anti-diagonal (fold), and the
 * block-Hankel matrix nearest to a dense one has the means over the anti-diagonals (project).
 *
 * model/bhm/hankel multiplies large matrices without expanding them; tests compare it with the
 * plain products.
 * Threads: pure functions; callers may split the work by rows (fold: by whole block rows). Not
 * constant-time: training runs on the data owner's machine. */
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

/* Return the number of block rows and of block columns. */
static inline uint32_t bhm_rows_of_blocks(bhm s)
{
    return (s.rows + s.block - 1) / s.block;
}
static inline uint32_t bhm_cols_of_blocks(bhm s)
{
    return (s.cols + s.block - 1) / s.block;
}

/* Return the height of block row I and the width of block column J: `block`, except at the edge. */
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

/* Returns the number of values. */
size_t bhm_count(bhm s);

/* Returns the offset of block row I in v, and sets *count (may be NULL) to its number of values. */
size_t bhm_block_row(bhm s, uint32_t bi, size_t *count);

/* Returns the offset of block (I, J) in v. */
size_t bhm_block_at(bhm s, uint32_t bi, uint32_t bj);

/* Writes rows [row, row + count) of the dense matrix, `ld` numbers apart. */
void bhm_expand(bhm s, nn_real *dense, size_t ld, const nn_real *v, uint32_t row, uint32_t count);

/* Adds the anti-diagonal sums of rows [row, row + count) of a dense gradient to dv. */
void bhm_fold(bhm s, nn_real *dv, const nn_real *ddense, size_t ld, uint32_t row, uint32_t count);

/* Sets v to the anti-diagonal means of a whole dense matrix: the nearest block-Hankel matrix. */
void bhm_project(bhm s, nn_real *v, const nn_real *dense, size_t ld);

#endif
