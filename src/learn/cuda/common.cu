/* Kernels around the products: dropout masks, expansion and folding of block-Hankel weights, the
 * embedding, norm, optimiser, and the step to the next batch. */
#include "model/cuda/cuda.cuh"

#include <algorithm>

static int div_up(size_t a, size_t b)
{
    return (int)((a + b - 1) / b);
}

/* Sum over the block in a fixed order; the result is valid in thread 0. */
template <int N> __device__ double block_sum(double x)
{
    __shared__ double s[N];
    s[threadIdx.x] = x;
    __syncthreads();
    for (int k = N / 2; k > 0; k /= 2) {
        if (threadIdx.x < k)
            s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    return s[0];
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* A thread computes one ChaCha20 block: 32 coins of 16 bits. */
__global__ void mask_kernel(pass p, uint8_t *mask, int width, uint32_t site)
{
    const slot &s = p.s[blockIdx.y];
    mask += (size_t)blockIdx.y * p.tokens * width;
    fill_mask(s, mask, (uint64_t)s.cols * s.steps * width, site, [&](uint64_t at) {
        uint64_t token = at / width;
        return (token / s.cols * p.cols + token % s.cols) * width + at % width;
    });
}

void draw_mask(device *d, const pass &p, uint8_t *mask, int width, int site)
{
    dim3 grid(div_up((size_t)p.tokens * width, 32 * 128), p.slots);
    mask_kernel<<<grid, 128, 0, d->stream>>>(p, mask, width, site);
    LAUNCHED();
}

/* ---- block-Hankel weights (model/bhm/bhm.h) -------------------------------------------------- */

struct hankel {
    int rows, cols, l;
};

__host__ __device__ inline size_t row_values(hankel h, int height)
{
    int full = h.cols / h.l, cut = h.cols % h.l;
    return (size_t)full * (height + h.l - 1) + (cut ? height + cut - 1 : 0);
}

__device__ inline int block_height(hankel h, int bi)
{
    return min(h.l, h.rows - bi * h.l);
}

/* The value that entry (row, col) reads. */
__device__ inline size_t value_at(hankel h, int row, int col)
{
    int bi = row / h.l, bj = col / h.l;
    return bi * row_values(h, h.l) + (size_t)bj * (block_height(h, bi) + h.l - 1) + row % h.l +
           col % h.l;
}

enum { EXPAND_ROWS = 8 };

/* A warp handles one row; a lane handles two neighbouring columns at a time (ld is even). */
template <class R>
__global__ void expand_kernel(hankel h, R *dense, size_t size, int ld, const float *v, size_t stride)
{
    int row = blockIdx.x * EXPAND_ROWS + threadIdx.y;
    if (row >= h.rows)
        return;
    unsigned l = h.l, bi = row / l, across = block_height(h, bi) + l - 1;
    v += blockIdx.y * stride + bi * row_values(h, l) + row % l;
    dense += blockIdx.y * size + (size_t)row * ld;
    for (unsigned c = 2 * threadIdx.x; c < (unsigned)ld; c += 64) {
        float x[2];
#pragma unroll
        for (unsigned j = 0; j < 2; j++)
            x[j] = c + j < (unsigned)h.cols ? v[(c + j) / l * across + (c + j) % l] : 0.f;
        store_pair(dense + c, x[0], x[1]);
    }
}

void expand(device *d, const pass &p, const weight &w, const float *theta, size_t theta_stride)
{
    hankel h = { w.rows, w.cols, w.block };
    int ld = ld_of(w.cols);
    dim3 grid(div_up(w.rows, EXPAND_ROWS), p.slots), threads(32, EXPAND_ROWS);
    const float *v = theta + d->param[w.w].offset;
    if (d->bf)
        expand_kernel<<<grid, threads, 0, d->stream>>>(h, (bf16 *)w.dense, w.size, ld, v,
                                                       theta_stride);
    else
        expand_kernel<<<grid, threads, 0, d->stream>>>(h, (float *)w.dense, w.size, ld, v,
                                                       theta_stride);
    LAUNCHED();
}

/* A thread block handles a block row; a thread adds anti-diagonals and reads each entry once. */
__global__ void fold_kernel(hankel h, const float *dense, size_t size, int ld, float *v,
                            size_t stride)
{
    dense += blockIdx.y * size;
    v += blockIdx.y * stride;
    int bi = blockIdx.x, height = block_height(h, bi), across = height + h.l - 1;
    size_t n = row_values(h, height), at = bi * row_values(h, h.l);
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        int bj = (int)(i / across), k = (int)(i % across);
        int width = min(h.l, h.cols - bj * h.l);
        int first = max(0, k - width + 1), last = min(height - 1, k);
        const float *from = dense + (size_t)bi * h.l * ld + (size_t)bj * h.l + k;
        float sum = 0;
#pragma unroll 8
        for (int a = first; a <= last; a++)
            sum += from[(size_t)a * ld - a];
        v[at + i] = sum;
    }
}

/* l = 1: rows without their padding. */
__global__ void trim_kernel(int rows, int cols, const float *dense, size_t size, int ld, float *v,
                            size_t stride)
{
    dense += blockIdx.y * size;
    v += blockIdx.y * stride;
    size_t n = (size_t)rows * cols;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        v[i] = dense[i / cols * ld + i % cols];
}

__global__ void bias_kernel(int rows, int cols, const float *dense, size_t size, int ld, float *b,
                            float *b2, size_t stride)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows)
        return;
    float g = dense[blockIdx.y * size + (size_t)i * ld + cols];
    b[blockIdx.y * stride + i] = g;
    if (b2)
        b2[blockIdx.y * stride + i] = g;
}

void fold(device *d, const pass &p, const weight &w)
{
    hankel h = { w.rows, w.cols, w.block };
    int ld = ld_of(w.cols);
    size_t count = d->set.count;
    float *v = d->grad + d->param[w.w].offset;
    if (w.block == 1)
        trim_kernel<<<dim3(std::min(div_up((size_t)w.rows * w.cols, 1024), 4096), p.slots), 256, 0,
                      d->stream>>>(w.rows, w.cols, w.grad, w.size, ld, v, count);
    else
        fold_kernel<<<dim3(div_up(w.rows, w.block), p.slots), 256, 0, d->stream>>>(
            h, w.grad, w.size, ld, v, count);
    LAUNCHED();
    if (w.b == NULL_PARAM)
        return;
    float *b2 = w.b2 == NULL_PARAM ? NULL : d->grad + d->param[w.b2].offset;
    bias_kernel<<<dim3(div_up(w.rows, 256), p.slots), 256, 0, d->stream>>>(
        w.rows, w.cols, w.grad, w.size, ld, d->grad + d->param[w.b].offset, b2, count);
    LAUNCHED();
}

/* ---- embedding ------------------------------------------------------------------------------- */

struct embed_args {
    hankel h;
    const float *v;
    size_t stride;
    const float *positions; /* NULL: none */
    float scale;
    const uint8_t *mask; /* NULL: no dropout */
};

template <class R> __global__ void embed_kernel(pass p, embed_args a, R *x, int ld, float *xf)
{
    int i = blockIdx.x, e = a.h.cols;
    const slot &s = p.s[blockIdx.y];
    size_t token = (size_t)blockIdx.y * p.tokens + i;
    long at = word_at(s, i / p.cols, i % p.cols);
    for (int k = threadIdx.x; k < ld; k += blockDim.x) {
        float y = k == e ? 1.f : 0.f;
        if (at >= 0 && k < e) {
            y = a.v[blockIdx.y * a.stride + value_at(a.h, s.words[at], k)] * a.scale;
            if (a.positions)
                y += a.positions[(size_t)(i / p.cols) * e + k];
            if (a.mask)
                y *= a.mask[token * e + k] * s.keep;
        }
        x[token * ld + k] = to_real<R>(y);
        if (xf && k < e)
            xf[token * e + k] = y;
    }
}

static float embed_scale(const device *d)
{
    return d->positions ? sqrtf((float)d->set.embed) : 1.f;
}

void embed(device *d, const pass &p, const float *theta, size_t theta_stride)
{
    const engine_param &e = d->param[d->enc];
    embed_args a = { { (int)e.rows, (int)e.cols, (int)e.block }, theta + e.offset, theta_stride,
                     d->positions, embed_scale(d), p.train ? d->x_mask : NULL };
    if (p.train)
        draw_mask(d, p, d->x_mask, a.h.cols, 0);
    dim3 grid(p.tokens, p.slots);
    int ld = ld_of(a.h.cols);
    if (d->bf)
        embed_kernel<<<grid, 128, 0, d->stream>>>(p, a, (bf16 *)d->x, ld, d->xf);
    else
        embed_kernel<<<grid, 128, 0, d->stream>>>(p, a, (float *)d->x, ld, d->xf);
    LAUNCHED();
}

/* The tokens of each slot sorted by word, padding last; equal words keep their order. A token's
 * rank is the number of tokens before it: n^2 comparisons, cheap for a batch. */
__global__ void sort_kernel(pass p, uint32_t *order)
{
    __shared__ uint32_t keys[256];
    const slot &s = p.s[blockIdx.y];
    if (s.steps == 0)
        return;
    int i = blockIdx.x * 256 + threadIdx.x;
    long at = i < p.tokens ? word_at(s, i / p.cols, i % p.cols) : -1;
    uint32_t own = at >= 0 ? s.words[at] : UINT32_MAX;
    int rank = 0;
    for (int j = 0; j < p.tokens; j += 256) {
        int k = j + threadIdx.x;
        long other = k < p.tokens ? word_at(s, k / p.cols, k % p.cols) : -1;
        __syncthreads();
        keys[threadIdx.x] = other >= 0 ? s.words[other] : UINT32_MAX;
        __syncthreads();
        int n = min(256, p.tokens - j);
        for (int q = 0; q < n; q++)
            rank += keys[q] < own || (keys[q] == own && j + q < i);
    }
    if (i < p.tokens)
        order[(size_t)blockIdx.y * p.tokens + rank] = (uint32_t)i;
}

__device__ inline uint32_t sorted_word(const pass &p, const slot &s, const uint32_t *order, int q)
{
    int i = (int)order[q];
    long at = word_at(s, i / p.cols, i % p.cols);
    return at >= 0 ? s.words[at] : UINT32_MAX;
}

/* Runs of sorted tokens in the same block row: true for the block whose token begins one. */
__device__ inline bool begins_run(const pass &p, const slot &s, const uint32_t *order, int q, int l,
                                  uint32_t *row)
{
    uint32_t w = sorted_word(p, s, order, q);
    *row = w / l;
    return w != UINT32_MAX && (q == 0 || sorted_word(p, s, order, q - 1) / l != *row);
}

/* part[q]: the squares that this run adds to the norm, 0 where no run begins. */
__global__ void embed_back_kernel(pass p, embed_args a, const float *dx, const uint32_t *order,
                                  float *grad, size_t stride, bool add, double *part, size_t parts)
{
    enum { CHUNK = 64 };
    __shared__ int token[CHUNK], shift[CHUNK];
    const slot &s = p.s[blockIdx.y];
    int q = blockIdx.x, l = a.h.l, e = a.h.cols;
    uint32_t row;
    order += (size_t)blockIdx.y * p.tokens;
    part += blockIdx.y * parts;
    if (s.steps == 0 || !begins_run(p, s, order, q, l, &row)) {
        if (threadIdx.x == 0)
            part[q] = 0;
        return;
    }
    int height = block_height(a.h, (int)row), across = height + l - 1;
    size_t n = row_values(a.h, height);
    grad += blockIdx.y * stride + row * row_values(a.h, l);
    dx += (size_t)blockIdx.y * p.tokens * e;
    const uint8_t *mask = a.mask + (size_t)blockIdx.y * p.tokens * e;
    double squares = 0;
    for (size_t base = 0; base < n; base += blockDim.x) {
        size_t i = base + threadIdx.x;
        int bj = (int)(i / across), k = (int)(i % across), width = min(l, e - bj * l);
        float sum = 0;
        for (int from = q;; from += CHUNK) {
            __syncthreads();
            if (threadIdx.x < CHUNK) {
                int at = from + (int)threadIdx.x;
                uint32_t w = at < p.tokens ? sorted_word(p, s, order, at) : UINT32_MAX;
                bool in = w != UINT32_MAX && w / l == row;
                token[threadIdx.x] = in ? (int)order[at] : -1;
                shift[threadIdx.x] = (int)(w % l);
            }
            __syncthreads();
            for (int c = 0; c < CHUNK && token[c] >= 0; c += 8) {
                float y[8];
#pragma unroll
                for (int j = 0; j < 8; j++) { /* eight loads in flight */
                    int b = k - shift[c + j];
                    bool in = i < n && token[c + j] >= 0 && b >= 0 && b < width;
                    size_t at = (size_t)token[c + j] * e + bj * l + b;
                    y[j] = in ? dx[at] * (mask[at] * s.keep * a.scale) : 0;
                }
#pragma unroll
                for (int j = 0; j < 8; j++)
                    sum += y[j];
            }
            if (token[CHUNK - 1] < 0)
                break;
        }
        if (i < n) {
            sum += add ? grad[i] : 0;
            grad[i] = sum;
            squares += (double)sum * sum;
        }
    }
    double total = block_sum<256>(squares);
    if (threadIdx.x == 0)
        part[q] = add ? 0 : total; /* tied: the norm covers the whole matrix */
}

static embed_args back_args(device *d)
{
    const engine_param &e = d->param[d->enc];
    return { { (int)e.rows, (int)e.cols, (int)e.block }, NULL, 0, NULL, embed_scale(d), d->x_mask };
}

void embed_back(device *d, const pass &p)
{
    sort_kernel<<<dim3(div_up(p.tokens, 256), p.slots), 256, 0, d->stream>>>(p, d->order);
    LAUNCHED();
    embed_back_kernel<<<dim3(p.tokens, p.slots), 256, 0, d->stream>>>(
        p, back_args(d), d->dx, d->order, d->grad + d->param[d->enc].offset, d->set.count,
        d->set.tied != 0, d->part, d->parts);
    LAUNCHED();
}

/* ---- norm and optimiser ---------------------------------------------------------------------- */

enum { CHUNK = 8192 };

__global__ void norm_kernel(const float *grad, size_t stride, size_t n, double *part, size_t parts)
{
    size_t at = (size_t)blockIdx.x * CHUNK, end = min(at + CHUNK, n);
    grad += blockIdx.y * stride;
    double sum = 0;
    for (size_t i = at + threadIdx.x; i < end; i += 256)
        sum += (double)grad[i] * grad[i];
    sum = block_sum<256>(sum);
    if (threadIdx.x == 0)
        part[blockIdx.y * parts + blockIdx.x] = sum;
}

/* Adds up norm and loss and decides whether the step is applied. */
__global__ void settle_kernel(pass p, const double *part, size_t parts, const double *token_loss,
                              double beta1, double beta2, double weight_decay)
{
    slot &s = p.s[blockIdx.x];
    if (s.steps == 0)
        return;
    double squares = 0, loss = 0, tokens = 0;
    for (size_t i = threadIdx.x; i < parts; i += 256)
        squares += part[blockIdx.x * parts + i];
    for (int i = threadIdx.x; i < p.tokens; i += 256) {
        bool there = word_at(s, i / p.cols, i % p.cols) >= 0;
        loss += there ? token_loss[(size_t)blockIdx.x * p.tokens + i] : 0;
        tokens += there;
    }
    squares = block_sum<256>(squares);
    __syncthreads();
    loss = block_sum<256>(loss);
    __syncthreads();
    tokens = block_sum<256>(tokens);
    if (threadIdx.x != 0)
        return;
    s.loss = loss, s.norm = sqrt(squares), s.tokens = (uint32_t)tokens;
    s.diverged = !isfinite(loss) || !(loss < 1000 * tokens) || !isfinite(squares);
    double lr = s.lr * pow(s.decay, (double)s.at.epoch), steps = (double)s.at.optimiser_steps + 1;
    s.scale = (float)(s.clip > 0 && s.norm > s.clip ? s.clip / s.norm : 1);
    s.step = (float)lr;
    s.shrink = (float)(lr * weight_decay);
    s.adam_step = (float)(lr / (1 - pow(beta1, steps)));
    s.adam_root = (float)(1 / sqrt(1 - pow(beta2, steps)));
}

struct optimiser {
    int kind;
    float mu, beta1, beta2, epsilon;
};

/* The steps of OPTIMISERS: theta and the state m, v from gradient g. */
__device__ inline void step_sgd(const slot &s, const optimiser &, float &theta, float g, float *,
                                float *)
{
    theta -= s.step * s.scale * g;
}

__device__ inline void step_momentum(const slot &s, const optimiser &o, float &theta, float g,
                                     float *m, float *)
{
    *m = o.mu * *m + s.scale * g;
    theta -= s.step * *m;
}

__device__ inline void step_adam(const slot &s, const optimiser &o, float &theta, float g, float *m,
                                 float *v)
{
    float x = s.scale * g;
    *m = o.beta1 * *m + (1 - o.beta1) * x;
    *v = o.beta2 * *v + (1 - o.beta2) * x * x;
    theta -= s.adam_step * *m / (sqrtf(*v) * s.adam_root + o.epsilon);
}

__device__ inline void move(const slot &s, const optimiser &o, float &theta, float g, float *m,
                            float *v)
{
    theta = fmaf(-s.shrink, theta, theta);
#define MOVE_BY(NAME, name, vectors) \
    if (o.kind == OPTIM_##NAME)      \
        step_##name(s, o, theta, g, m, v);
    OPTIMISERS(MOVE_BY)
}

enum { MOVE = 4 }; /* values of a thread */

__global__ void move_kernel(pass p, optimiser o, float *theta, const float *grad, float *opt,
                            size_t count, size_t opt_n, size_t first)
{
    const slot &s = p.s[blockIdx.y];
    if (s.steps == 0 || s.diverged)
        return;
    theta += blockIdx.y * count, grad += blockIdx.y * count, opt += blockIdx.y * opt_n;
    size_t at = first + blockIdx.x * (size_t)(MOVE * 256) + threadIdx.x;
    float t[MOVE], g[MOVE];
#pragma unroll
    for (int j = 0; j < MOVE; j++) { /* all loads before the first store */
        size_t i = at + j * 256;
        t[j] = i < count ? theta[i] : 0, g[j] = i < count ? grad[i] : 0;
    }
#pragma unroll
    for (int j = 0; j < MOVE; j++) {
        size_t i = at + j * 256;
        if (i >= count)
            return;
        move(s, o, t[j], g[j], opt + i, opt + count + i);
        theta[i] = t[j];
    }
}

/* The encoder's touched rows: moves them (moves = true), then clears their gradient, so that it is
 * zero outside the rows of the next batch. */
__global__ void rows_kernel(pass p, hankel h, const uint32_t *order, bool moves, optimiser o,
                            float *theta, float *grad, size_t count)
{
    const slot &s = p.s[blockIdx.y];
    uint32_t row;
    order += (size_t)blockIdx.y * p.tokens;
    if (s.steps == 0 || !begins_run(p, s, order, (int)blockIdx.x, h.l, &row))
        return;
    size_t n = row_values(h, block_height(h, (int)row));
    size_t at = blockIdx.y * count + row * row_values(h, h.l);
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        if (moves && !s.diverged) {
            float t = theta[at + i];
            move(s, o, t, grad[at + i], NULL, NULL);
            theta[at + i] = t;
        }
        grad[at + i] = 0;
    }
}

/* The next batch of each slot. */
__global__ void advance_kernel(pass p)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.slots || p.s[i].steps == 0)
        return;
    slot &s = p.s[i];
    if (s.diverged) {
        s.live = 0;
    } else {
        s.loss_sum += s.loss, s.words_sum += s.tokens;
        s.at.done++, s.at.optimiser_steps++, s.at.row += s.steps;
        if (s.at.row + 1 >= s.rows)
            s.at.row = 0, s.at.epoch++;
        s.live = s.at.done < s.limit;
    }
    uint64_t left = s.rows - 1 - s.at.row;
    s.steps = s.live ? (uint32_t)min((uint64_t)s.window, left) : 0;
}

void update(device *d, const pass &p)
{
    const engine_param &e = d->param[d->enc];
    const engine_setup &c = d->set;
    hankel h = { (int)e.rows, (int)e.cols, (int)e.block };
    optimiser o = { (int)c.optimiser, (float)c.momentum, (float)c.beta1, (float)c.beta2,
                    (float)c.epsilon };
    /* SGD without weight decay moves only the touched rows of the encoder. */
    bool rows = d->opt_n == 0 && c.weight_decay == 0, tied = c.tied != 0;
    size_t first = tied ? 0 : e.offset + e.count, n = c.count - first;
    mark(d, "norm", 2.0 * n * p.slots, 4.0 * n * p.slots);
    norm_kernel<<<dim3(div_up(n, CHUNK), p.slots), 256, 0, d->stream>>>(
        d->grad + first, c.count, n, d->part + p.tokens, d->parts);
    LAUNCHED();
    settle_kernel<<<p.slots, 256, 0, d->stream>>>(p, d->part, d->parts, d->token_loss, c.beta1,
                                                  c.beta2, c.weight_decay);
    LAUNCHED();
    size_t from = rows ? first : 0;
    mark(d, "optimiser", 2.0 * (c.count - from) * p.slots, 12.0 * (c.count - from) * p.slots);
    move_kernel<<<dim3(div_up(c.count - from, MOVE * 256), p.slots), 256, 0, d->stream>>>(
        p, o, d->theta, d->grad, d->opt, c.count, d->opt_n, from);
    LAUNCHED();
    if (!tied) {
        rows_kernel<<<dim3(p.tokens, p.slots), 128, 0, d->stream>>>(
            p, h, d->order, rows, o, d->theta + e.offset, d->grad + e.offset, c.count);
        LAUNCHED();
    }
    advance_kernel<<<div_up(p.slots, 64), 64, 0, d->stream>>>(p);
    LAUNCHED();
}
