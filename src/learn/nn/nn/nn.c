#include "model/nn/nn.h"

#include <cblas.h>
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
    nn_cblas_gemm(CblasRowMajor, g->a.t ? CblasTrans : CblasNoTrans,
                  g->b.t ? CblasTrans : CblasNoTrans, (int)g->m, (int)g->n, (int)g->k, 1, g->a.p,
                  (int)g->a.ld, g->b.p, (int)g->b.ld, g->beta, g->c, (int)g->ldc);
}

typedef struct gemm_job {
    const nn_kernels *k;
    const nn_gemm_args *g;
    nn_real *pack;
} gemm_job;

static sefl_status pack_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const gemm_job *j = ctx;
    const nn_gemm_args *g = j->g;
    (void)lane;
    for (size_t i = begin; i < end; i++)
        j->k->gemm_pack(j->pack, g->b.p, g->b.ld, g->b.t, g->k, g->n, i * 2 * j->k->width);
    return SEFL_OK;
}

static sefl_status gemm_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const gemm_job *j = ctx;
    const nn_gemm_args *g = j->g;
    const nn_real *a = g->a.p + (g->a.t ? begin : begin * g->a.ld);
    nn_real *c = g->c + begin * g->ldc;
    (void)lane;
    for (size_t i = 0; g->bias && i < end - begin; i++)
        memcpy(c + i * g->ldc, g->bias, g->n * sizeof *c);
    j->k->gemm(c, g->ldc, a, g->a.ld, g->a.t, j->pack, end - begin, g->n, g->k,
               g->bias || g->beta != 0);
    for (size_t q = 0; g->sums && q < g->k; q++)
        j->k->axpy(g->sums + begin, 1, a + q * g->a.ld, end - begin);
    return SEFL_OK;
}

size_t nn_gemm_room(size_t n, size_t k)
{
    return (n + NN_MAX_WIDTH - 1) / NN_MAX_WIDTH * NN_MAX_WIDTH * k;
}

sefl_status nn_gemm(const nn_work *w, const nn_gemm_args *g)
{
    /* How work is cut depends on sizes alone. Even numbers suit two threads. */
    enum { PACK = 32768 };
    gemm_job j = { .k = w->k ? w->k : nn_kernels_get(), .g = g, .pack = w->pack };
    const size_t wide = 2 * (size_t)j.k->width, panels = (g->n + wide - 1) / wide;
    const double flop = 2.0 * (double)g->m * (double)g->n * (double)g->k;
    const size_t pieces = flop >= 8e6 ? 8 : flop >= 1e6 ? 2 : 1;
    if (g->m == 0 || g->n == 0 || g->k == 0)
        return SEFL_OK;
    SEFL_PASS(pool_run(w->pool, panels, PACK / (wide * g->k) + 1, pack_piece, &j, NULL));
    return pool_run(w->pool, g->m, (g->m + pieces - 1) / pieces, gemm_piece, &j, NULL);
}

void nn_weight_layout(nn_weight *w, bhm shape, nn_plan *p)
{
    w->shape = shape;
    if (shape.block > 1) {
        w->own_w = nn_take(p, (size_t)shape.rows * shape.cols, sizeof *w->own_w);
        w->own_dw = nn_take(p, (size_t)shape.rows * shape.cols, sizeof *w->own_dw);
    }
}

size_t nn_weight_room(bhm shape, size_t n)
{
    size_t room[] = { nn_gemm_room(shape.rows, shape.cols), nn_gemm_room(shape.cols, shape.rows),
                      nn_gemm_room(shape.cols, n) };
    size_t most = 0;
    for (size_t i = 0; i < sizeof room / sizeof room[0]; i++)
        most = room[i] > most ? room[i] : most;
    return most;
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

sefl_status nn_linear(const nn_work *k, nn_real *y, const nn_real *x, size_t n, const nn_weight *w,
                      const nn_real *bias)
{
    size_t rows = w->shape.rows, cols = w->shape.cols;
    nn_gemm_args g = { n, rows, cols, { x, cols }, { w->w, cols, true }, y, rows, .bias = bias };
    return nn_gemm(k, &g);
}

sefl_status nn_linear_back(const nn_work *k, nn_real *dx, nn_weight *w, nn_real *dbias,
                           const nn_real *dy, const nn_real *x, size_t n)
{
    size_t rows = w->shape.rows, cols = w->shape.cols;
    nn_gemm_args to_x = { n, cols, rows, { dy, rows }, { w->w, cols }, dx, cols };
    nn_gemm_args to_w = { rows, cols, n, { dy, rows, true }, { x, cols }, w->dw, cols, 1 };
    to_w.sums = dbias;
    if (dx)
        SEFL_PASS(nn_gemm(k, &to_x));
    return nn_gemm(k, &to_w);
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
    enum { ROUND = 1024 };
    const dropout_job *j = ctx;
    const nn_real keep = (nn_real)(65536.0 / (65536.0 - j->drop));
    const uint32_t nonce[2] = { (uint32_t)j->d->step, j->d->site | (uint32_t)(j->d->step >> 32)
                                                                       << 16 };
    uint8_t coins[2 * ROUND];
    (void)lane;
    for (size_t i = begin; i < end;) {
        size_t m = end - i < ROUND ? end - i : ROUND;
        nn_real *mask = j->mask + i;
        seeded_at(coins, 2 * m, j->d->key, nonce, 2 * i);
        for (size_t k = 0; k < m; k++)
            mask[k] = (coins[2 * k] | (unsigned)coins[2 * k + 1] << 8) < j->drop ? 0 : keep;
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

enum { NORM_ROWS = 96, RELU_PIECE = 32768 };

size_t nn_norm_scratch(size_t n, size_t cols)
{
    return (n + NORM_ROWS - 1) / NORM_ROWS * 2 * cols;
}

static sefl_status norm_forward(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const nn_norm *a = ctx;
    const nn_kernels *k = nn_kernels_get();
    (void)lane;
    for (size_t i = begin, at = begin * a->cols; i < end; i++, at += a->cols) {
        k->axpy(a->x + at, 1, a->branch + at, a->cols);
        a->rstd[i] = k->norm_row(a->y + at, a->xhat + at, a->x + at, a->cols, a->gain, a->shift);
    }
    return SEFL_OK;
}

sefl_status nn_norm_forward(pool *p, const nn_norm *a)
{
    return pool_run(p, a->n, NORM_ROWS, norm_forward, (void *)(uintptr_t)a, NULL);
}

/* Gradients of gain and shift are sums over rows: each piece has its own, added in order later. */
static sefl_status norm_backward(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const nn_norm *a = ctx;
    const nn_kernels *k = nn_kernels_get();
    nn_real *dgain = a->part + begin / NORM_ROWS * 2 * a->cols, *dshift = dgain + a->cols;
    (void)lane;
    memset(dgain, 0, 2 * a->cols * sizeof *dgain);
    for (size_t i = begin, at = begin * a->cols; i < end; i++, at += a->cols) {
        nn_real *d = a->d + at;
        if (a->plus)
            k->axpy(d, 1, a->plus + at, a->cols);
        k->norm_row_back(d, dgain, dshift, d, a->xhat + at, a->rstd[i], a->cols, a->gain);
        memcpy(a->dbranch + at, d, a->cols * sizeof *d);
        for (size_t j = 0; a->mask && j < a->cols; j++)
            a->dbranch[at + j] *= a->mask[at + j];
    }
    return SEFL_OK;
}

sefl_status nn_norm_backward(pool *p, const nn_norm *a)
{
    SEFL_PASS(pool_run(p, a->n, NORM_ROWS, norm_backward, (void *)(uintptr_t)a, NULL));
    for (size_t i = 0; i < a->n; i += NORM_ROWS) {
        const nn_real *part = a->part + i / NORM_ROWS * 2 * a->cols;
        nn_kernels_get()->axpy(a->dgain, 1, part, a->cols);
        nn_kernels_get()->axpy(a->dshift, 1, part + a->cols, a->cols);
    }
    return SEFL_OK;
}

typedef struct relu_job {
    nn_real *x;
    const nn_real *y, *mask;
} relu_job;

static sefl_status relu_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    nn_real *x = ((const relu_job *)ctx)->x;
    (void)lane;
    for (size_t i = begin; i < end; i++)
        x[i] = x[i] < 0 ? 0 : x[i];
    return SEFL_OK;
}

static sefl_status relu_back_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const relu_job *j = ctx;
    nn_real *restrict x = j->x;
    const nn_real *restrict y = j->y, *restrict mask = j->mask;
    (void)lane;
    for (size_t i = begin; mask && i < end; i++)
        x[i] *= mask[i];
    for (size_t i = begin; i < end; i++)
        x[i] = y[i] > 0 ? x[i] : 0;
    return SEFL_OK;
}

sefl_status nn_relu(pool *p, nn_real *x, size_t n)
{
    return pool_run(p, n, RELU_PIECE, relu_piece, &(relu_job){ .x = x }, NULL);
}

sefl_status nn_relu_back(pool *p, nn_real *dx, const nn_real *y, const nn_real *mask, size_t n)
{
    return pool_run(p, n, RELU_PIECE, relu_back_piece, &(relu_job){ dx, y, mask }, NULL);
}

const char *nn_blas_name(void)
{
    return openblas_get_config ? openblas_get_config() : "not OpenBLAS";
}
