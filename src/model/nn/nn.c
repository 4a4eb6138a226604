#include "model/nn/nn.h"

#include "model/nn/kernels.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* OpenBLAS has it, other CBLAS libraries need not. */
#pragma weak openblas_set_num_threads
#pragma weak openblas_get_config
void openblas_set_num_threads(int n);
char *openblas_get_config(void);

void nn_blas_single_thread(void)
{
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
}

void nn_gemm_1(const nn_gemm_args *g)
{
    if (g->m == 0 || g->n == 0)
        return;
    nn_cblas_gemm(CblasRowMajor, g->ta ? CblasTrans : CblasNoTrans,
                  g->tb ? CblasTrans : CblasNoTrans, (int)g->m, (int)g->n, (int)g->k, 1, g->a,
                  (int)g->lda, g->b, (int)g->ldb, g->beta, g->c, (int)g->ldc);
}

static sefl_status gemm_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    (void)lane;
    nn_gemm_args g = *(const nn_gemm_args *)ctx;
    g.a += g.ta ? begin : begin * g.lda;
    g.c += begin * g.ldc;
    g.m = end - begin;
    nn_gemm_1(&g);
    return SEFL_OK;
}

sefl_status nn_gemm(pool *p, const nn_gemm_args *g)
{
    /* Each piece packs the whole of b again, so small products are cut into few pieces; how many
     * depends on sizes alone. Even numbers suit two threads. */
    double flop = 2.0 * (double)g->m * (double)g->n * (double)g->k;
    size_t pieces = flop >= 100e6 ? 8 : flop >= 30e6 ? 4 : flop >= 4e6 ? 2 : 1;
    size_t grain = ((g->m + pieces - 1) / pieces + 3) / 4 * 4;
    grain = grain > 0 ? grain : 1;
    return pool_run(p, g->m, grain, gemm_piece, (void *)(uintptr_t)g, NULL);
}

void nn_weight_layout(nn_weight *w, bhm shape, nn_plan *p)
{
    w->shape = shape;
    if (shape.block > 1) {
        w->own_w = nn_take(p, (size_t)shape.rows * shape.cols, sizeof *w->own_w);
        w->own_dw = nn_take(p, (size_t)shape.rows * shape.cols, sizeof *w->own_dw);
    }
}

void nn_weight_begin(nn_weight *w, const nn_real *v, nn_real *dv)
{
    if (w->shape.block == 1) {
        w->w = v, w->dw = dv;
        return;
    }
    bhm_expand(w->shape, w->own_w, w->shape.cols, v, 0, w->shape.rows);
    memset(w->own_dw, 0, (size_t)w->shape.rows * w->shape.cols * sizeof *w->own_dw);
    w->w = w->own_w, w->dw = w->own_dw;
}

void nn_weight_end(nn_weight *w, nn_real *dv)
{
    if (w->shape.block > 1)
        bhm_fold(w->shape, dv, w->own_dw, w->shape.cols, 0, w->shape.rows);
}

sefl_status nn_linear(pool *p, nn_real *y, const nn_real *x, size_t n, const nn_weight *w,
                      const nn_real *bias)
{
    size_t rows = w->shape.rows, cols = w->shape.cols;
    if (bias)
        for (size_t i = 0; i < n; i++)
            memcpy(y + i * rows, bias, rows * sizeof *y);
    return nn_gemm(p, &(nn_gemm_args){ .tb = true,
                                       .m = n,
                                       .n = rows,
                                       .k = cols,
                                       .a = x,
                                       .lda = cols,
                                       .b = w->w,
                                       .ldb = cols,
                                       .beta = bias ? 1 : 0,
                                       .c = y,
                                       .ldc = rows });
}

void nn_column_sums(nn_real *out, const nn_real *x, size_t n, size_t cols)
{
    const nn_kernels *k = nn_kernels_get();
    for (size_t i = 0; i < n; i++)
        k->axpy(out, 1, x + i * cols, cols);
}

sefl_status nn_linear_back(pool *p, nn_real *dx, nn_weight *w, nn_real *dbias, const nn_real *dy,
                           const nn_real *x, size_t n)
{
    sefl_status st = SEFL_OK;
    size_t rows = w->shape.rows, cols = w->shape.cols;
    if (dx)
        SEFL_TRY(nn_gemm(p, &(nn_gemm_args){ .m = n,
                                             .n = cols,
                                             .k = rows,
                                             .a = dy,
                                             .lda = rows,
                                             .b = w->w,
                                             .ldb = cols,
                                             .c = dx,
                                             .ldc = cols }));
    SEFL_TRY(nn_gemm(p, &(nn_gemm_args){ .ta = true,
                                         .m = rows,
                                         .n = cols,
                                         .k = n,
                                         .a = dy,
                                         .lda = rows,
                                         .b = x,
                                         .ldb = cols,
                                         .beta = 1,
                                         .c = w->dw,
                                         .ldc = cols }));
    if (dbias)
        nn_column_sums(dbias, dy, n, rows);
done:
    return st;
}

typedef struct dropout_job {
    const nn_dropout *d;
    nn_real *mask, *x;
    unsigned drop; /* of 65536 */
} dropout_job;

enum { DROPOUT_PIECE = 16384 };

static unsigned drop_of_65536(const nn_dropout *d)
{
    unsigned drop = (unsigned)(d->rate * 65536 + 0.5);
    return drop > 65535 ? 65535 : drop;
}

bool nn_dropout_is_on(const nn_dropout *d)
{
    return drop_of_65536(d) > 0;
}

static sefl_status dropout_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const dropout_job *j = ctx;
    const nn_real keep = (nn_real)(65536.0 / (65536.0 - j->drop));
    const unsigned high = j->drop >> 8, low = j->drop & 255;
    char stream[96];
    uint8_t coins[512], extra;
    seeded g;
    (void)lane;
    snprintf(stream, sizeof stream, "dropout %llu %u %zu", (unsigned long long)j->d->step,
             j->d->site, begin / DROPOUT_PIECE);
    seeded_init(&g, j->d->seed, stream);
    for (size_t i = begin; i < end;) {
        size_t m = end - i < sizeof coins ? end - i : sizeof coins;
        nn_real *mask = j->mask + i;
        seeded_fill(&g, coins, m);
        for (size_t k = 0; k < m; k++)
            mask[k] = coins[k] < high ? 0 : keep;
        for (size_t k = 0; k < m; k++) /* the lower byte matters for one in 256 only */
            if (coins[k] == high) {
                seeded_fill(&g, &extra, 1);
                mask[k] = extra < low ? 0 : keep;
            }
        for (size_t k = 0; j->x && k < m; k++)
            j->x[i + k] *= mask[k];
        i += m;
    }
    return SEFL_OK;
}

sefl_status nn_dropout_draw(pool *p, nn_dropout *d, nn_real *mask, nn_real *x, size_t n)
{
    dropout_job j = { .d = d, .mask = mask, .x = x, .drop = drop_of_65536(d) };
    sefl_status st = SEFL_OK;
    if (j.drop > 0)
        st = pool_run(p, n, DROPOUT_PIECE, dropout_piece, &j, NULL);
    d->site++;
    return st;
}

void nn_dropout_back(const nn_dropout *d, nn_real *dx, const nn_real *mask, size_t n)
{
    if (drop_of_65536(d) > 0)
        for (size_t i = 0; i < n; i++)
            dx[i] *= mask[i];
}

void nn_layernorm(nn_real *y, nn_real *xhat, nn_real *rstd, const nn_real *x, size_t n, size_t cols,
                  const nn_real *gain, const nn_real *shift)
{
    const nn_kernels *k = nn_kernels_get();
    for (size_t i = 0; i < n; i++)
        rstd[i] = k->norm_row(y + i * cols, xhat + i * cols, x + i * cols, cols, gain, shift);
}

void nn_layernorm_back(nn_real *dx, nn_real *dgain, nn_real *dshift, const nn_real *dy,
                       const nn_real *xhat, const nn_real *rstd, size_t n, size_t cols,
                       const nn_real *gain)
{
    const nn_kernels *k = nn_kernels_get();
    for (size_t i = 0; i < n; i++)
        k->norm_row_back(dx + i * cols, dgain, dshift, dy + i * cols, xhat + i * cols, rstd[i],
                         cols, gain);
}

const char *nn_blas_name(void)
{
    return openblas_get_config ? openblas_get_config() : "not OpenBLAS";
}
