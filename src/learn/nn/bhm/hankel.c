/* Design.
 *  1. Weight blocks are transformed W at a time, one block per lane; gathering and scattering take
 *     a few per cent of a training step.
 *  2. A cut block is a full one with zeros: in v beyond its r + c - 1 values, in x beyond its c
 *     columns. Rows beyond r are computed and ignored; their gradient must be passed as zero. */
#include "model/bhm/hankel.h"

#include <assert.h>
#include <string.h>

enum { MAX_L = 64 };

bool hankel_fits(bhm s)
{
    bool size = s.block == 8 || s.block == 16 || s.block == 32 || s.block == 64;
    return size && s.rows >= 4 * s.block && s.cols >= s.block;
}

static size_t block_values(bhm s, uint32_t bi, uint32_t bj)
{
    return bhm_block_height(s, bi) + bhm_block_width(s, bj) - 1;
}

void hankel_prepare(const nn_kernels *k, bhm s, nn_real *ws, const nn_real *v, uint32_t first,
                    uint32_t blocks)
{
    const unsigned l = s.block, nj = bhm_cols_of_blocks(s), width = k->width;
    _Alignas(64) nn_real in[2 * MAX_L * NN_MAX_WIDTH], out[2 * MAX_L * NN_MAX_WIDTH];
    assert(l <= MAX_L);
    for (size_t b = 0; b < (size_t)blocks * nj; b += width) {
        memset(in, 0, sizeof in);
        for (unsigned lane = 0; lane < width && b + lane < (size_t)blocks * nj; lane++) {
            uint32_t bi = first + (uint32_t)((b + lane) / nj), bj = (uint32_t)((b + lane) % nj);
            const nn_real *from = v + bhm_block_at(s, bi, bj);
            size_t n = block_values(s, bi, bj);
            for (size_t i = 0; i < n; i++)
                in[(i + 1) * width + lane] = from[i];
        }
        k->hankel_weights(l, out, in);
        for (unsigned lane = 0; lane < width && b + lane < (size_t)blocks * nj; lane++) {
            nn_real *to = ws + (b + lane) / nj * hankel_row_size(s) + (b + lane) % nj * 2;
            for (unsigned f = 0; f < l; f++) {
                to[(size_t)f * nj * 2] = out[2 * f * width + lane];
                to[(size_t)f * nj * 2 + 1] = out[(2 * f + 1) * width + lane];
            }
        }
    }
}

void hankel_fold(const nn_kernels *k, bhm s, nn_real *dv, const nn_real *dws, uint32_t first,
                 uint32_t blocks)
{
    const unsigned l = s.block, nj = bhm_cols_of_blocks(s), width = k->width;
    _Alignas(64) nn_real in[2 * MAX_L * NN_MAX_WIDTH], out[2 * MAX_L * NN_MAX_WIDTH];
    assert(l <= MAX_L);
    memset(in, 0, sizeof in);
    for (size_t b = 0; b < (size_t)blocks * nj; b += width) {
        for (unsigned lane = 0; lane < width && b + lane < (size_t)blocks * nj; lane++) {
            const nn_real *from = dws + (b + lane) / nj * hankel_row_size(s) + (b + lane) % nj * 2;
            for (unsigned f = 0; f < l; f++) {
                in[2 * f * width + lane] = from[(size_t)f * nj * 2];
                in[(2 * f + 1) * width + lane] = from[(size_t)f * nj * 2 + 1];
            }
        }
        k->hankel_unweights(l, out, in);
        for (unsigned lane = 0; lane < width && b + lane < (size_t)blocks * nj; lane++) {
            uint32_t bi = first + (uint32_t)((b + lane) / nj), bj = (uint32_t)((b + lane) % nj);
            nn_real *to = dv + bhm_block_at(s, bi, bj);
            size_t n = block_values(s, bi, bj);
            for (size_t i = 0; i < n; i++) /* both factors were reversed */
                to[i] += out[(2 * l - 2 - i) * width + lane];
        }
    }
}

void hankel_tokens(const nn_kernels *k, bhm s, nn_real *xs, const nn_real *x, size_t ld, size_t n,
                   unsigned from, unsigned to)
{
    const unsigned l = s.block, nj = bhm_cols_of_blocks(s), width = k->width;
    const unsigned groups = hankel_groups(k, n);
    _Alignas(64) nn_real in[MAX_L * NN_MAX_WIDTH], out[2 * MAX_L * NN_MAX_WIDTH];
    assert(l <= MAX_L);
    for (unsigned g = from; g < to; g++)
        for (unsigned j = 0; j < nj; j++) {
            unsigned c = bhm_block_width(s, j);
            memset(in, 0, sizeof in);
            for (unsigned lane = 0; lane < width && g * width + lane < n; lane++) {
                const nn_real *row = x + (size_t)(g * width + lane) * ld + (size_t)j * l;
                for (unsigned b = 0; b < c; b++)
                    in[(l - 1 - b) * width + lane] = row[b];
            }
            k->hankel_forward_transform(l, out, in);
            for (unsigned f = 0; f < l; f++)
                memcpy(xs + (((size_t)f * groups + g) * nj + j) * 2 * width, out + 2 * f * width,
                       2 * width * sizeof *xs);
        }
}

void hankel_tokens_back(const nn_kernels *k, bhm s, nn_real *dx, const nn_real *dxs,
                        unsigned groups)
{
    const unsigned l = s.block, nj = bhm_cols_of_blocks(s), width = k->width;
    _Alignas(64) nn_real in[2 * MAX_L * NN_MAX_WIDTH];
    assert(l <= MAX_L);
    for (unsigned g = 0; g < groups; g++)
        for (unsigned j = 0; j < nj; j++) {
            for (unsigned f = 0; f < l; f++)
                memcpy(in + 2 * f * width, dxs + (((size_t)g * l + f) * nj + j) * 2 * width,
                       2 * width * sizeof *in);
            k->hankel_inverse_transform(l, dx + ((size_t)g * nj + j) * l * width, in);
        }
}
