/* Design.
 *  1. A slice is a range of words. Only one piece of work at a time touches its data (its logits in
 *     the tile, its rows of W, dW, dbias, its share of dx).
 *  2. dx is a sum over slices: each slice stores its share, and a second pass adds the shares in
 *     the order of slices. So no result depends on which thread ran what.
 *  3. Tokens that pad the last group of lanes have the factor zero and change nothing; rows that
 *     pad the last block are zeroed before use. */
#include "model/nn/nn_head.h"

#include "model/bhm/hankel.h"
#include "model/nn/nn.h"

#include <math.h>
#include <string.h>

typedef struct run {
    nn_head *h;
    const nn_head_job *job;
    size_t t0, n; /* the tile: tokens [t0, t0 + n) */
    bool first;
} run;

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

void nn_head_layout(nn_head *h, bhm w, size_t max_tokens, unsigned lanes, const nn_kernels *k,
                    bool force_dense, nn_plan *p)
{
    size_t l = w.block, real = sizeof(nn_real);
    nn_blas_single_thread();
    h->w = w;
    h->k = k ? k : nn_kernels_get();
    h->fast = hankel_fits(w) && !force_dense;
    h->tile = round_up(max_tokens, 2 * (size_t)h->k->width);
    if (h->tile > (size_t)HEAD_GROUPS * h->k->width)
        h->tile = (size_t)HEAD_GROUPS * h->k->width;
    /* slices of nearly equal size, in a multiple of 4 so that threads finish together */
    size_t slices = (w.rows + HEAD_SLICE - 1) / HEAD_SLICE;
    slices = slices > 2 ? round_up(slices, 4) : slices;
    h->rows = (uint32_t)round_up((w.rows + slices - 1) / slices, l);
    h->slices = (w.rows + h->rows - 1) / h->rows;
    h->y = nn_take(p, (size_t)h->slices * h->tile * h->rows, real);
    h->max = nn_take(p, (size_t)h->slices * h->tile, real);
    h->sum = nn_take(p, (size_t)h->slices * h->tile, real);
    h->chosen = nn_take(p, h->tile, real);
    h->lse = nn_take(p, h->tile, real);
    h->part = h->tile * round_up(w.cols, h->fast ? l : 1);
    h->dx = nn_take(p, (size_t)h->slices * h->part, real);
    if (h->fast) {
        size_t all = (size_t)bhm_rows_of_blocks(w) * hankel_row_size(w);
        size_t tokens = h->tile * hankel_row_size(w);
        h->ws = nn_take(p, all, real);
        h->dws = nn_take(p, all, real);
        h->xs = nn_take(p, tokens, real);
        h->scratch_size =
            tokens + NN_BACK_ROWS * h->tile * (2 * l + 1) + (size_t)h->rows * h->k->width + h->tile;
        h->lane_target = nn_take(p, lanes * h->tile, sizeof *h->lane_target);
    } else {
        h->c = nn_take(p, (size_t)h->slices * h->tile, real);
        h->xs = nn_take(p, h->tile * w.cols, real);
        h->scratch_size = h->tile * round_up(w.cols, h->k->width);
        if (l > 1) /* weights on the way forward, their gradient on the way back */
            h->scratch_size += (size_t)h->rows * w.cols;
    }
    h->scratch_size = round_up(h->scratch_size, 16);
    h->scratch = nn_take(p, lanes * h->scratch_size, real);
}

static uint32_t slice_rows(const nn_head *h, size_t s)
{
    uint32_t left = h->w.rows - (uint32_t)s * h->rows;
    return left < h->rows ? left : h->rows;
}

static uint32_t slice_blocks(const nn_head *h, size_t s)
{
    return (slice_rows(h, s) + h->w.block - 1) / h->w.block;
}

/* The dense rows of a slice: W itself for l = 1, expanded into the lane's scratch otherwise. */
static const nn_real *dense_rows(const run *r, unsigned lane, size_t s)
{
    const nn_head *h = r->h;
    if (h->w.block == 1)
        return r->job->v + s * h->rows * h->w.cols;
    nn_real *w = h->scratch + lane * h->scratch_size;
    bhm_expand(h->w, w, h->w.cols, r->job->v, (uint32_t)s * h->rows, slice_rows(h, s));
    return w;
}

/* ---- forward: logits of one slice, exponentials, their sums --------------------------------- */

static void forward_dense(const run *r, unsigned lane, size_t s)
{
    const nn_head *h = r->h;
    const uint32_t first = (uint32_t)s * h->rows, rows = slice_rows(h, s), cols = h->w.cols;
    const size_t panel = 2 * (size_t)h->k->width;
    const nn_real *w = dense_rows(r, lane, s);
    nn_real *e = h->y + s * h->tile * h->rows;
    for (size_t t = 0; t < r->n; t += panel, e += rows * panel) {
        h->k->dense_logits(e, h->xs + t * cols, w, rows, cols);
        for (size_t k = 0; k < panel && t + k < r->n; k++) {
            uint32_t at = r->job->target[r->t0 + t + k] - first;
            if (at < rows)
                h->chosen[t + k] = e[at * panel + k] + r->job->bias[first + at];
        }
        h->k->softmax_panel(e, r->job->bias + first, rows, &h->max[s * h->tile + t],
                            &h->sum[s * h->tile + t]);
        if (r->job->dx)
            h->k->dense_dx(h->dx + s * h->part + t * cols, e, w, rows, cols);
    }
}

static void forward_fast(const run *r, size_t s)
{
    const nn_head *h = r->h;
    const uint32_t first = (uint32_t)s * h->rows, rows = slice_rows(h, s);
    const uint32_t blocks = slice_blocks(h, s), l = h->w.block;
    const unsigned width = h->k->width;
    const hankel_dims d = hankel_dims_of(h->k, h->w, r->n);
    nn_real *y = h->y + s * h->tile * h->rows;
    h->k->hankel_mul(d, y, h->xs, h->ws + s * (h->rows / l) * hankel_row_size(h->w), blocks);
    for (size_t g = 0; g < d.groups; g++, y += (size_t)blocks * l * width) {
        for (size_t lane = 0, t = g * width; lane < width && t < r->n; lane++, t++) {
            uint32_t at = r->job->target[r->t0 + t] - first;
            if (at < rows)
                h->chosen[t] = y[at * width + lane] + r->job->bias[first + at];
        }
        h->k->softmax_lanes(y, r->job->bias + first, rows, &h->max[s * h->tile + g * width],
                            &h->sum[s * h->tile + g * width]);
        memset(y + (size_t)rows * width, 0, ((size_t)blocks * l - rows) * width * sizeof *y);
    }
}

static sefl_status forward(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const run *r = ctx;
    for (size_t s = begin; s < end; s++) {
        if (r->h->fast)
            forward_fast(r, s);
        else
            forward_dense(r, lane, s);
    }
    return SEFL_OK;
}

/* Joins the slices: lse of each token; returns the tile's loss. */
static double join(const run *r)
{
    const nn_head *h = r->h;
    double loss = 0;
    for (size_t t = 0; t < r->n; t++) {
        double top = h->max[t];
        for (size_t s = 1; s < h->slices; s++)
            top = h->max[s * h->tile + t] > top ? h->max[s * h->tile + t] : top;
        double sum = h->sum[t] * exp(h->max[t] - top);
        for (size_t s = 1; s < h->slices; s++)
            sum += h->sum[s * h->tile + t] * exp(h->max[s * h->tile + t] - top);
        /* cppcheck-suppress invalidFunctionArg ; one slice at least, its largest term is 1 */
        double lse = top + log(sum);
        h->lse[t] = (nn_real)lse;
        loss += lse - h->chosen[t];
    }
    return loss;
}

/* ---- backward: one slice's dW, dbias and share of dx ------------------------------------------
 */

/* Computes the factors that turn a slice's exponentials into gradients; zero beyond n. */
static void factors(const run *r, nn_real *c, size_t s, size_t tokens)
{
    const nn_head *h = r->h;
    for (size_t t = 0; t < tokens; t++)
        c[t] = t >= r->n
                   ? 0
                   : (nn_real)exp((double)h->max[s * h->tile + t] - h->lse[t]) * r->job->scale;
}

static void backward_dense(const run *r, unsigned lane, size_t s)
{
    const nn_head *h = r->h;
    const nn_head_job *job = r->job;
    const uint32_t first = (uint32_t)s * h->rows, rows = slice_rows(h, s), cols = h->w.cols;
    const size_t tokens = round_up(r->n, 2 * (size_t)h->k->width);
    const size_t panels = tokens / (2 * (size_t)h->k->width);
    const nn_real *e = h->y + s * h->tile * h->rows, *x = job->x + r->t0 * cols;
    nn_real *c = h->c + s * h->tile;
    nn_real *xs = h->scratch + lane * h->scratch_size,
            *dense = xs + h->tile * round_up(cols, h->k->width);
    const bool direct = h->w.block == 1;
    nn_real *dw = direct ? job->dv + (size_t)first * cols : dense;
    factors(r, c, s, tokens);
    h->k->dense_scale(xs, x, c, r->n, tokens, cols);
    h->k->dense_dw(dw, job->dbias + first, e, xs, c, rows, cols, panels,
                   direct && (job->add || !r->first));
    for (size_t t = 0; t < r->n; t++) {
        uint32_t at = job->target[r->t0 + t] - first;
        if (at < rows) {
            h->k->axpy(dw + (size_t)at * cols, -job->scale, x + t * cols, cols);
            job->dbias[first + at] -= job->scale;
        }
    }
    if (!direct)
        bhm_fold(h->w, job->dv, dense, cols, first, rows);
}

static void backward_fast(const run *r, unsigned lane, size_t s)
{
    const nn_head *h = r->h;
    const nn_head_job *job = r->job;
    const uint32_t first = (uint32_t)s * h->rows, rows = slice_rows(h, s);
    const uint32_t blocks = slice_blocks(h, s), l = h->w.block;
    const unsigned width = h->k->width;
    const hankel_dims d = hankel_dims_of(h->k, h->w, r->n);
    const size_t at_row = s * (h->rows / l) * hankel_row_size(h->w);
    nn_real *dxs = h->scratch + lane * h->scratch_size;
    nn_real *gs = dxs + h->tile * hankel_row_size(h->w);
    nn_real *db = gs + NN_BACK_ROWS * h->tile * (2 * l + 1);
    nn_real *c = db + (size_t)h->rows * width;
    uint32_t *target = h->lane_target + lane * h->tile;

    memset(db, 0, (size_t)blocks * l * width * sizeof *db);
    if (r->first)
        memset(h->dws + at_row, 0, blocks * hankel_row_size(h->w) * sizeof *h->dws);
    factors(r, c, s, (size_t)d.groups * width);
    for (size_t t = 0; t < (size_t)d.groups * width; t++) {
        bool there = t < r->n;
        uint32_t at = there ? job->target[r->t0 + t] - first : UINT32_MAX;
        target[t] = at < rows ? at : UINT32_MAX / 2;
    }
    hankel_grad g = { h->y + s * h->tile * h->rows, c, target, job->scale, db };
    h->k->hankel_back(d, dxs, h->dws + at_row, gs, &g, h->xs, h->ws + at_row, blocks);
    for (uint32_t i = 0; i < rows; i++) {
        nn_real sum = 0;
        for (unsigned k = 0; k < width; k++)
            sum += db[i * width + k];
        job->dbias[first + i] += sum;
    }
    hankel_tokens_back(h->k, h->w, h->dx + s * h->part, dxs, d.groups);
}

static sefl_status backward(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const run *r = ctx;
    for (size_t s = begin; s < end; s++) {
        const nn_head *h = r->h;
        if (r->first && !r->job->add) {
            uint32_t row = (uint32_t)s * h->rows, bi = row / h->w.block;
            memset(r->job->dbias + row, 0, slice_rows(h, s) * sizeof *r->job->dbias);
            if (h->w.block > 1) {
                size_t last, from = bhm_block_row(h->w, bi, NULL);
                size_t to = bhm_block_row(h->w, bi + slice_blocks(h, s) - 1, &last);
                memset(r->job->dv + from, 0, (to + last - from) * sizeof *r->job->dv);
            }
        }
        if (h->fast)
            backward_fast(r, lane, s);
        else
            backward_dense(r, lane, s);
    }
    return SEFL_OK;
}

/* dx of tokens [begin, end) of the tile: the slices' shares in order, summed as lane vectors in the
 * first slice's share, then turned round. Pieces are panels of 2W tokens. */
static void gather_dense(const run *r, unsigned lane, size_t begin, size_t end)
{
    const nn_head *h = r->h;
    const size_t cols = h->w.cols, panel = 2 * (size_t)h->k->width;
    nn_real *sum = h->dx + begin * cols, *row = h->scratch + lane * h->scratch_size;
    for (size_t s = 0; s < h->slices; s++)
        h->k->dense_join(sum, h->dx + s * h->part + begin * cols, h->c + s * h->tile + begin, cols,
                         s > 0);
    for (size_t t = begin; t < end; t++) {
        const uint32_t target = r->job->target[r->t0 + t];
        const nn_real *w = r->job->v + (size_t)target * cols;
        nn_real *to = r->job->dx + (r->t0 + t) * cols;
        for (size_t j = 0; j < cols; j++)
            to[j] = sum[j * panel + t - begin];
        if (h->w.block > 1) {
            bhm_expand(h->w, row, cols, r->job->v, target, 1);
            w = row;
        }
        h->k->axpy(to, -r->job->scale, w, cols);
    }
}

static void gather_fast(const run *r, size_t begin, size_t end)
{
    const nn_head *h = r->h;
    const size_t cols = h->w.cols, width = h->k->width, group = round_up(cols, h->w.block) * width;
    for (size_t g = begin / width; g * width < end; g++) {
        nn_real *sum = h->dx + g * group;
        for (size_t s = 1; s < h->slices; s++)
            h->k->axpy(sum, 1, h->dx + s * h->part + g * group, cols * width);
        for (size_t k = 0, t = g * width; k < width && t < r->n; k++, t++)
            for (size_t j = 0; j < cols; j++)
                r->job->dx[(r->t0 + t) * cols + j] = sum[j * width + k];
    }
}

static sefl_status gather(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const run *r = ctx;
    if (r->h->fast)
        gather_fast(r, begin, end);
    else
        gather_dense(r, lane, begin, end);
    return SEFL_OK;
}

/* Tokens [begin, end) of the tile, one panel, with lanes for tokens. */
static sefl_status turn_tokens(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const run *r = ctx;
    const size_t cols = r->h->w.cols, panel = 2 * (size_t)r->h->k->width;
    const nn_real *x = r->job->x + (r->t0 + begin) * cols;
    nn_real *to = r->h->xs + begin * cols;
    (void)lane;
    for (size_t j = 0; j < cols; j++, to += panel)
        for (size_t k = 0; k < panel; k++)
            to[k] = begin + k < end ? x[k * cols + j] : 0;
    return SEFL_OK;
}

/* Slices of the weights to their spectra before the tiles, of the gradient back after them. */
static sefl_status spectra(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const run *r = ctx;
    const nn_head *h = r->h;
    (void)lane;
    for (size_t s = begin; s < end; s++) {
        uint32_t bi = (uint32_t)s * (h->rows / h->w.block), blocks = slice_blocks(h, s);
        size_t at = bi * hankel_row_size(h->w);
        if (r->first)
            hankel_prepare(h->k, h->w, h->ws + at, r->job->v, bi, blocks);
        else
            hankel_fold(h->k, h->w, r->job->dv, h->dws + at, bi, blocks);
    }
    return SEFL_OK;
}

static sefl_status spectra_of_tokens(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const run *r = ctx;
    const nn_head *h = r->h;
    (void)lane;
    hankel_tokens(h->k, h->w, h->xs, r->job->x + r->t0 * h->w.cols, h->w.cols, r->n,
                  (unsigned)begin, (unsigned)end);
    return SEFL_OK;
}

sefl_status nn_head_run(nn_head *h, pool *p, const nn_head_job *job)
{
    run r = { .h = h, .job = job, .first = true };
    double loss = 0;
    const size_t panel = 2 * (size_t)h->k->width;
    for (size_t t = 0; t < job->n; t++)
        SEFL_NEED(job->target[t] < h->w.rows, SEFL_EINVAL, "word %u: the vocabulary has %u",
                  job->target[t], h->w.rows);
    if (h->fast)
        SEFL_PASS(pool_run(p, h->slices, 1, spectra, &r, NULL));
    for (; r.t0 < job->n; r.t0 += r.n, r.first = false) {
        r.n = job->n - r.t0 < h->tile ? job->n - r.t0 : h->tile;
        if (h->fast)
            SEFL_PASS(pool_run(p, hankel_groups(h->k, r.n), 1, spectra_of_tokens, &r, NULL));
        else
            SEFL_PASS(pool_run(p, r.n, panel, turn_tokens, &r, NULL));
        SEFL_PASS(pool_run(p, h->slices, 1, forward, &r, NULL));
        loss += join(&r);
        if (job->dx) {
            SEFL_PASS(pool_run(p, h->slices, 1, backward, &r, NULL));
            SEFL_PASS(pool_run(p, r.n, panel, gather, &r, NULL));
        }
    }
    if (h->fast && job->dx && !r.first)
        SEFL_PASS(pool_run(p, h->slices, 1, spectra, &r, NULL));
    *job->loss = loss;
    return SEFL_OK;
}

void nn_head_logits(const nn_head *h, nn_real *logits, const nn_real *x, const nn_real *v,
                    const nn_real *bias)
{
    const size_t cols = h->w.cols;
    for (uint32_t i = 0; i < h->w.rows; i++) {
        const nn_real *w = v + i * cols;
        double sum = bias[i];
        if (h->w.block > 1) {
            bhm_expand(h->w, h->scratch, cols, v, i, 1);
            w = h->scratch;
        }
        for (size_t j = 0; j < cols; j++)
            sum += (double)w[j] * x[j];
        logits[i] = (nn_real)sum;
    }
}
