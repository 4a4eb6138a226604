/* The Transformer body, as model/transformer.c computes it:
 *
 *     y1 = norm1(x + drop(attention(x)))      y2 = norm2(y1 + drop(linear2(drop(relu(linear1 y1)))))
 *
 * Biases are added by the kernel that reads a product. Attention of one column and head is one
 * thread block; keys and values, then the other operands, are in shared memory. */
#include "model/cuda/cuda.cuh"

#include <algorithm>

enum { ATTENTION_THREADS = 256, WARPS = ATTENTION_THREADS / 32, NORM_THREADS = 128 };

static int up8(int n)
{
    return (n + 7) / 8 * 8;
}

static int div_up(size_t a, size_t b)
{
    return (int)((a + b - 1) / b);
}

__device__ inline float warp_sum(float x)
{
    for (int k = 16; k > 0; k /= 2)
        x += __shfl_xor_sync(~0u, x, k);
    return x;
}

/* ---- memory ---------------------------------------------------------------------------------- */

void transformer_plan(device *d, plan *p)
{
    size_t n = d->tokens, e = d->set.embed, f = d->set.hidden, real = d->real;
    size_t att = (size_t)(d->tokens / d->T) * d->set.heads * d->T * d->T;
    for (uint32_t i = 0; i < d->set.layers; i++) {
        tr_layer &l = d->tr[i];
        bool last = i + 1 == d->set.layers;
        l.in = i == 0 ? d->x : d->tr[i - 1].out;
        l.x = i == 0 ? d->xf : d->tr[i - 1].outf;
        p->take(l.qkv_out, 4 * n * 3 * e);
        p->take(l.att, 4 * att);
        p->take(l.att_mask, att);
        p->take(l.ctx, n * ld_of((int)e) * real);
        p->take(l.mask1, n * e);
        p->take(l.ff_mask, n * f);
        p->take(l.mask2, n * e);
        p->take(l.xhat1, 4 * n * e);
        p->take(l.xhat2, 4 * n * e);
        p->take(l.rstd1, 4 * n);
        p->take(l.rstd2, 4 * n);
        p->take(l.y1, 4 * n * e);
        p->take(l.y1r, n * ld_of((int)e) * real);
        p->take(l.ff, n * ld_of((int)f) * real);
        p->take(l.outf, 4 * n * e);
        l.out = d->top_out;
        if (!last)
            p->take(l.out, n * ld_of((int)e) * real);
    }
    size_t wide = std::max(3 * e, f);
    p->take(d->tmp[0], 4 * n * std::max(e, f)); /* a product's result */
    p->take(d->tmp[1], 4 * n * e);              /* gradient of a layer's output, or of its input */
    p->take(d->tmp[2], 4 * n * e);              /* gradient after a norm */
    p->take(d->tmp[3], n * up8((int)wide) * 4); /* operand of a backward product */
}

/* ---- attention ------------------------------------------------------------------------------- */

struct attention {
    int heads, e, dim;
    const float *qkv, *bias; /* bias: of qkv, for slot 0 */
    size_t bias_stride;
    float *att;
    const uint8_t *mask; /* NULL: no dropout */
};

__global__ void attention_mask_kernel(pass p, int heads, uint8_t *mask, uint32_t site)
{
    const slot &s = p.s[blockIdx.y];
    const uint64_t square = (uint64_t)s.steps * s.steps;
    mask += (size_t)blockIdx.y * p.cols * heads * p.steps * p.steps;
    fill_mask(s, mask, square * s.cols * heads, site, [&](uint64_t at) {
        return (at / square * p.steps + at % square / s.steps) * p.steps + at % s.steps;
    });
}

/* Rows of q, k or v (part 0, 1, 2) of this block's column and head, with their bias, dim | 1 apart:
 * neighbouring rows are then in different banks. */
__device__ void load_rows(float *to, const pass &p, const attention &a, int part)
{
    int b = blockIdx.x / a.heads, head = blockIdx.x % a.heads, ld = a.dim | 1;
    int col = part * a.e + head * a.dim;
    const float *bias = a.bias + blockIdx.y * a.bias_stride + col;
    for (int i = threadIdx.x; i < p.steps * a.dim; i += blockDim.x) {
        int t = i / a.dim, k = i % a.dim;
        size_t token = (size_t)blockIdx.y * p.tokens + (size_t)t * p.cols + b;
        to[t * ld + k] = a.qkv[token * 3 * a.e + col + k] + bias[k];
    }
}

template <class R>
__global__ void __launch_bounds__(ATTENTION_THREADS) attend_kernel(pass p, attention a, R *ctx, int ldc)
{
    extern __shared__ float shared[];
    int ld = a.dim | 1, T = p.steps, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int b = blockIdx.x / a.heads, head = blockIdx.x % a.heads;
    const slot &s = p.s[blockIdx.y];
    float *key = shared, *value = key + T * ld, *row = value + T * ld + warp * T;
    float *q = value + T * ld + WARPS * T + warp * a.dim;
    size_t square = ((size_t)blockIdx.y * p.cols * a.heads + blockIdx.x) * T * T;
    float scale = rsqrtf((float)a.dim);
    const float *bias = a.bias + blockIdx.y * a.bias_stride + head * a.dim;
    load_rows(key, p, a, 1);
    load_rows(value, p, a, 2);
    __syncthreads();
    for (int t = warp; t < T; t += WARPS) {
        size_t token = (size_t)blockIdx.y * p.tokens + (size_t)t * p.cols + b;
        for (int k = lane; k < a.dim; k += 32)
            q[k] = a.qkv[token * 3 * a.e + head * a.dim + k] + bias[k];
        __syncwarp();
        float most = -INFINITY, sum = 0;
        for (int j = lane; j <= t; j += 32) {
            float dot = 0;
            for (int k = 0; k < a.dim; k++)
                dot += q[k] * key[j * ld + k];
            row[j] = dot * scale;
            most = fmaxf(most, row[j]);
        }
        for (int k = 16; k > 0; k /= 2)
            most = fmaxf(most, __shfl_xor_sync(~0u, most, k));
        for (int j = lane; j <= t; j += 32)
            sum += row[j] = expf(row[j] - most);
        sum = warp_sum(sum);
        for (int j = lane; j < T && p.train; j += 32)
            a.att[square + (size_t)t * T + j] = j <= t ? row[j] / sum : 0.f;
        for (int j = lane; j <= t; j += 32)
            row[j] = row[j] / sum * (a.mask ? a.mask[square + (size_t)t * T + j] * s.keep : 1.f);
        __syncwarp();
        for (int k = lane; k < a.dim; k += 32) {
            float y = 0;
            for (int j = 0; j <= t; j++)
                y += row[j] * value[j * ld + k];
            ctx[token * ldc + head * a.dim + k] = to_real<R>(y);
        }
        for (int k = a.e + lane; head == 0 && k < ldc; k += 32)
            ctx[token * ldc + k] = to_real<R>(k == a.e ? 1.f : 0.f);
        __syncwarp();
    }
}

/* dctx (float) -> dqkv (real, ldd apart). a.att becomes the gradient of the scores. */
template <class R>
__global__ void __launch_bounds__(ATTENTION_THREADS)
    attend_back_kernel(pass p, attention a, const float *dctx, R *dqkv, int ldd)
{
    extern __shared__ float shared[];
    int ld = a.dim | 1, T = p.steps, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int b = blockIdx.x / a.heads, head = blockIdx.x % a.heads;
    const slot &s = p.s[blockIdx.y];
    float *one = shared, *two = one + T * ld, *row = two + T * ld + warp * T;
    float *att = a.att + ((size_t)blockIdx.y * p.cols * a.heads + blockIdx.x) * T * T;
    const uint8_t *mask = a.mask + ((size_t)blockIdx.y * p.cols * a.heads + blockIdx.x) * T * T;
    float scale = rsqrtf((float)a.dim);
    size_t first = (size_t)blockIdx.y * p.tokens + b; /* token of step t: first + t * cols */
    /* value rows, gradient rows */
    load_rows(one, p, a, 2);
    for (int i = threadIdx.x; i < T * a.dim; i += blockDim.x)
        two[i / a.dim * ld + i % a.dim] =
            dctx[(first + (size_t)(i / a.dim) * p.cols) * a.e + head * a.dim + i % a.dim];
    __syncthreads();
    /* dv = (att * mask)^T dctx */
    for (int i = threadIdx.x; i < T * a.dim; i += blockDim.x) {
        int j = i / a.dim, k = i % a.dim;
        float y = 0;
        for (int t = j; t < T; t++)
            y += att[t * T + j] * (mask[t * T + j] * s.keep) * two[t * ld + k];
        dqkv[(first + (size_t)j * p.cols) * ldd + 2 * a.e + head * a.dim + k] = to_real<R>(y);
    }
    /* padding is zero: the product reads it, and what was there before may be infinite */
    for (int i = threadIdx.x, pad = ldd - 3 * a.e; head == 0 && i < T * pad; i += blockDim.x)
        dqkv[(first + (size_t)(i / pad) * p.cols) * ldd + 3 * a.e + i % pad] = to_real<R>(0.f);
    __syncthreads();
    /* scores: ds = att * (datt - sum att datt) / sqrt(dim), datt = dctx v^T through the dropout */
    for (int t = warp; t < T; t += WARPS) {
        float dot = 0;
        for (int j = lane; j <= t; j += 32) {
            float x = 0;
            for (int k = 0; k < a.dim; k++)
                x += two[t * ld + k] * one[j * ld + k];
            row[j] = x * (mask[t * T + j] * s.keep);
            dot += att[t * T + j] * row[j];
        }
        dot = warp_sum(dot);
        for (int j = lane; j <= t; j += 32)
            att[t * T + j] *= (row[j] - dot) * scale;
        __syncwarp();
    }
    __syncthreads();
    load_rows(one, p, a, 0);
    load_rows(two, p, a, 1);
    __syncthreads();
    /* dq = ds k, dk = ds^T q */
    for (int i = threadIdx.x; i < T * a.dim; i += blockDim.x) {
        int t = i / a.dim, k = i % a.dim;
        float dq = 0, dk = 0;
        for (int j = 0; j <= t; j++)
            dq += att[t * T + j] * two[j * ld + k];
        for (int j = t; j < T; j++)
            dk += att[j * T + t] * one[j * ld + k];
        size_t to = (first + (size_t)t * p.cols) * ldd + head * a.dim + k;
        dqkv[to] = to_real<R>(dq);
        dqkv[to + a.e] = to_real<R>(dk);
    }
}

static size_t attention_shared(const device *d)
{
    int dim = (int)(d->set.embed / d->set.heads);
    size_t bytes = 4 * ((size_t)2 * d->T * (dim | 1) + (size_t)WARPS * (d->T + dim));
    if (bytes > d->shared_most)
        throw failure{ SEFL_EUNSUPPORTED,
                       "GPU: attention over " + std::to_string(d->T) + " words with heads of " +
                           std::to_string(dim) + " values is too large for this engine: use fewer "
                           "model.steps, or the CPU" };
    return bytes;
}

void transformer_check(const device *d)
{
    (void)attention_shared(d);
}

/* ---- norms and ReLU -------------------------------------------------------------------------- */

struct norm_args {
    int e, ld;
    const float *x, *branch, *bias; /* bias: of the branch's product */
    const float *gain, *shift;      /* of slot 0, like bias */
    size_t stride;
    const uint8_t *mask; /* of the branch; NULL: none */
    float *xhat, *rstd, *y;
};

/* A warp takes a token: y = norm(x + drop(branch + bias)), in float and as an operand. */
template <class R> __global__ void norm_forward_kernel(pass p, norm_args a, R *yr)
{
    int i = blockIdx.x * (NORM_THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (i >= p.tokens)
        return;
    const slot &s = p.s[blockIdx.y];
    size_t token = (size_t)blockIdx.y * p.tokens + i, at = token * a.e, own = blockIdx.y * a.stride;
    float sum = 0, squares = 0;
    for (int k = lane; k < a.e; k += 32) {
        float v = a.branch[at + k] + a.bias[own + k];
        v = a.x[at + k] + (a.mask ? v * (a.mask[at + k] * s.keep) : v);
        a.xhat[at + k] = v;
        sum += v;
    }
    float mean = warp_sum(sum) / a.e;
    for (int k = lane; k < a.e; k += 32) {
        float v = a.xhat[at + k] - mean;
        squares += v * v;
    }
    float rstd = rsqrtf(warp_sum(squares) / a.e + 1e-5f);
    for (int k = lane; k < a.ld; k += 32) {
        float y = k == a.e ? 1.f : 0.f;
        if (k < a.e) {
            float v = (a.xhat[at + k] - mean) * rstd;
            a.xhat[at + k] = v;
            y = a.gain[own + k] * v + a.shift[own + k];
            a.y[at + k] = y;
        }
        yr[token * a.ld + k] = to_real<R>(y);
    }
    if (lane == 0)
        a.rstd[token] = rstd;
}

struct norm_back_args {
    int e, ldb;
    float *dy;             /* in; becomes dy + plus */
    const float *plus;     /* NULL: none */
    const float *gain;     /* of slot 0 */
    size_t stride;
    const uint8_t *mask;
    const float *xhat, *rstd;
    float *dx;
};

/* dx, and the branch's gradient through its dropout as an operand, rows ldb apart. */
template <class R> __global__ void norm_back_kernel(pass p, norm_back_args a, R *dbranch)
{
    int i = blockIdx.x * (NORM_THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (i >= p.tokens)
        return;
    const slot &s = p.s[blockIdx.y];
    size_t token = (size_t)blockIdx.y * p.tokens + i, at = token * a.e;
    const float *gain = a.gain + blockIdx.y * a.stride;
    float sum = 0, dot = 0;
    for (int k = lane; k < a.e; k += 32) {
        float dy = a.dy[at + k] + (a.plus ? a.plus[at + k] : 0.f);
        a.dy[at + k] = dy;
        float g = dy * gain[k];
        sum += g;
        dot += g * a.xhat[at + k];
    }
    sum = warp_sum(sum) / a.e;
    dot = warp_sum(dot) / a.e;
    for (int k = lane; k < a.ldb; k += 32) {
        float d = 0;
        if (k < a.e) {
            d = (a.dy[at + k] * gain[k] - sum - a.xhat[at + k] * dot) * a.rstd[token];
            a.dx[at + k] = d;
            d *= a.mask[at + k] * s.keep;
        }
        dbranch[token * a.ldb + k] = to_real<R>(d);
    }
}

/* Gradients of gain and shift: 32 columns per thread block, tokens in eight rows of threads. */
__global__ void norm_params_kernel(pass p, int e, const float *dy, const float *xhat, float *dgain,
                                   float *dshift, size_t stride)
{
    __shared__ float sums[2][8][32];
    int k = blockIdx.x * 32 + threadIdx.x;
    float gain = 0, shift = 0;
    for (int i = threadIdx.y; k < e && i < p.tokens; i += 8) {
        size_t at = ((size_t)blockIdx.y * p.tokens + i) * e + k;
        gain += dy[at] * xhat[at];
        shift += dy[at];
    }
    sums[0][threadIdx.y][threadIdx.x] = gain;
    sums[1][threadIdx.y][threadIdx.x] = shift;
    __syncthreads();
    if (threadIdx.y > 0 || k >= e)
        return;
    for (int j = 1; j < 8; j++)
        gain += sums[0][j][threadIdx.x], shift += sums[1][j][threadIdx.x];
    dgain[blockIdx.y * stride + k] = gain;
    dshift[blockIdx.y * stride + k] = shift;
}

template <class R>
__global__ void relu_kernel(pass p, int f, int ld, const float *x, const float *bias, size_t stride,
                            const uint8_t *mask, R *y)
{
    const slot &s = p.s[blockIdx.y];
    size_t n = (size_t)p.tokens * ld;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        int k = (int)(i % ld);
        size_t token = (size_t)blockIdx.y * p.tokens + i / ld;
        float v = k == f ? 1.f : 0.f;
        if (k < f) {
            v = x[token * f + k] + bias[blockIdx.y * stride + k];
            v = v < 0 ? 0 : v;
            v *= mask ? mask[token * f + k] * s.keep : 1.f;
        }
        y[token * ld + k] = to_real<R>(v);
    }
}

/* What dropout removed is not above 0 either, so y alone decides. */
template <class R>
__global__ void relu_back_kernel(pass p, int f, int ldy, int ldd, const float *dx, const R *y, R *d)
{
    const slot &s = p.s[blockIdx.y];
    size_t n = (size_t)p.tokens * ldd;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        int k = (int)(i % ldd);
        size_t token = (size_t)blockIdx.y * p.tokens + i / ldd;
        bool on = k < f && from_real(y[token * ldy + k]) > 0;
        d[token * ldd + k] = to_real<R>(on ? dx[token * f + k] * s.keep : 0.f);
    }
}

__global__ void add_kernel(float *out, const float *a, const float *b, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        out[i] = a[i] + b[i];
}

/* ---- layers ---------------------------------------------------------------------------------- */

static attention attention_of(device *d, const pass &p, const tr_layer &l, const float *theta,
                              size_t stride)
{
    int e = (int)d->set.embed, heads = (int)d->set.heads;
    return { heads, e, e / heads, l.qkv_out, theta + d->param[l.qkv.b].offset, stride, l.att,
             p.train ? l.att_mask : NULL };
}

template <class R>
static void layer_forward(device *d, const pass &p, tr_layer &l, const float *theta, size_t stride,
                          int site)
{
    int e = (int)d->set.embed, f = (int)d->set.hidden, n = p.tokens;
    int lde = ld_of(e), ldf = ld_of(f);
    auto at = [&](int param) { return theta + d->param[param].offset; };
    size_t shared = attention_shared(d);
    CU(cudaFuncSetAttribute(attend_kernel<R>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                            (int)shared));
    if (p.train) {
        size_t coins = (size_t)p.cols * d->set.heads * p.steps * p.steps;
        attention_mask_kernel<<<dim3(div_up(coins, 32 * 128), p.slots), 128, 0, d->stream>>>(
            p, (int)d->set.heads, l.att_mask, site);
        LAUNCHED();
        draw_mask(d, p, l.mask1, e, site + 1);
        draw_mask(d, p, l.ff_mask, f, site + 2);
        draw_mask(d, p, l.mask2, e, site + 3);
    }
    gemm_forward(d, p, l.qkv_out, 3 * e, (size_t)n * 3 * e, l.in, (size_t)n * lde, l.qkv, n);
    attend_kernel<R><<<dim3(p.cols * d->set.heads, p.slots), ATTENTION_THREADS, shared, d->stream>>>(
        p, attention_of(d, p, l, theta, stride), (R *)l.ctx, lde);
    LAUNCHED();
    gemm_forward(d, p, d->tmp[0], e, (size_t)n * e, l.ctx, (size_t)n * lde, l.proj, n);
    norm_args n1 = { e, lde, l.x, d->tmp[0], at(l.proj.b), at(l.n1_w), at(l.n1_b), stride,
                     p.train ? l.mask1 : NULL, l.xhat1, l.rstd1, l.y1 };
    dim3 tokens(div_up(n, NORM_THREADS / 32), p.slots);
    norm_forward_kernel<R><<<tokens, NORM_THREADS, 0, d->stream>>>(p, n1, (R *)l.y1r);
    LAUNCHED();
    gemm_forward(d, p, d->tmp[0], f, (size_t)n * f, l.y1r, (size_t)n * lde, l.ff1, n);
    relu_kernel<R><<<dim3(std::min(div_up((size_t)n * ldf, 1024), 1024), p.slots), 256, 0,
                     d->stream>>>(p, f, ldf, d->tmp[0], at(l.ff1.b), stride,
                                  p.train ? l.ff_mask : NULL, (R *)l.ff);
    LAUNCHED();
    gemm_forward(d, p, d->tmp[0], e, (size_t)n * e, l.ff, (size_t)n * ldf, l.ff2, n);
    norm_args n2 = { e, lde, l.y1, d->tmp[0], at(l.ff2.b), at(l.n2_w), at(l.n2_b), stride,
                     p.train ? l.mask2 : NULL, l.xhat2, l.rstd2, l.outf };
    norm_forward_kernel<R><<<tokens, NORM_THREADS, 0, d->stream>>>(p, n2, (R *)l.out);
    LAUNCHED();
}

void transformer_forward(device *d, const pass &p, const float *theta, size_t theta_stride)
{
    for (uint32_t i = 0; i < d->set.layers; i++)
        if (d->bf)
            layer_forward<bf16>(d, p, d->tr[i], theta, theta_stride, 1 + 4 * (int)i);
        else
            layer_forward<float>(d, p, d->tr[i], theta, theta_stride, 1 + 4 * (int)i);
}

/* Through a norm: dy (+ plus) -> dx, the branch's operand, and the norm's own gradients. */
template <class R>
static void norm_back(device *d, const pass &p, norm_back_args a, int gain, int shift, R *branch)
{
    size_t count = d->set.count;
    a.gain = d->theta + d->param[gain].offset;
    a.stride = count;
    norm_back_kernel<R><<<dim3(div_up(p.tokens, NORM_THREADS / 32), p.slots), NORM_THREADS, 0,
                          d->stream>>>(p, a, branch);
    LAUNCHED();
    norm_params_kernel<<<dim3(div_up(a.e, 32), p.slots), dim3(32, 8), 0, d->stream>>>(
        p, a.e, a.dy, a.xhat, d->grad + d->param[gain].offset, d->grad + d->param[shift].offset,
        count);
    LAUNCHED();
}

/* dy is the gradient of the layer's output; that of its input is dy + tmp[0] afterwards. */
template <class R>
static void layer_backward(device *d, const pass &p, tr_layer &l, float *dy)
{
    int e = (int)d->set.embed, f = (int)d->set.hidden, n = p.tokens;
    int lde = ld_of(e), ldf = ld_of(f), e8 = up8(e), f8 = up8(f), q8 = up8(3 * e);
    size_t ne = (size_t)n * e;
    R *operand = (R *)d->tmp[3];
    size_t shared = attention_shared(d);
    CU(cudaFuncSetAttribute(attend_back_kernel<R>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                            (int)shared));

    norm_back_args n2 = { e, e8, dy, NULL, NULL, 0, l.mask2, l.xhat2, l.rstd2, d->tmp[2] };
    norm_back(d, p, n2, l.n2_w, l.n2_b, operand);
    gemm_dw(d, p, l.ff2, operand, e8, (size_t)n * e8, l.ff, (size_t)n * ldf, n, false);
    gemm_dx(d, p, d->tmp[0], f, (size_t)n * f, operand, e8, (size_t)n * e8, l.ff2, n);
    relu_back_kernel<R><<<dim3(std::min(div_up((size_t)n * f8, 1024), 1024), p.slots), 256, 0,
                          d->stream>>>(p, f, ldf, f8, d->tmp[0], (const R *)l.ff, operand);
    LAUNCHED();
    gemm_dw(d, p, l.ff1, operand, f8, (size_t)n * f8, l.y1r, (size_t)n * lde, n, false);
    gemm_dx(d, p, d->tmp[0], e, ne, operand, f8, (size_t)n * f8, l.ff1, n);

    norm_back_args n1 = { e, e8, d->tmp[2], d->tmp[0], NULL, 0, l.mask1, l.xhat1, l.rstd1, dy };
    norm_back(d, p, n1, l.n1_w, l.n1_b, operand);
    gemm_dw(d, p, l.proj, operand, e8, (size_t)n * e8, l.ctx, (size_t)n * lde, n, false);
    gemm_dx(d, p, d->tmp[0], e, ne, operand, e8, (size_t)n * e8, l.proj, n);
    attend_back_kernel<R>
        <<<dim3(p.cols * d->set.heads, p.slots), ATTENTION_THREADS, shared, d->stream>>>(
            p, attention_of(d, p, l, d->theta, d->set.count), d->tmp[0], operand, q8);
    LAUNCHED();
    gemm_dw(d, p, l.qkv, operand, q8, (size_t)n * q8, l.in, (size_t)n * lde, n, false);
    gemm_dx(d, p, d->tmp[0], e, ne, operand, q8, (size_t)n * q8, l.qkv, n);
}

void transformer_backward(device *d, const pass &p)
{
    size_t n = (size_t)p.slots * p.tokens * d->set.embed;
    float *dy = d->dtop;
    for (uint32_t i = d->set.layers; i-- > 0;) {
        if (d->bf)
            layer_backward<bf16>(d, p, d->tr[i], dy);
        else
            layer_backward<float>(d, p, d->tr[i], dy);
        /* the norm left the gradient of x in dy, the attention's product in tmp[0] */
        float *to = i > 0 ? d->tmp[1] : d->dx;
        add_kernel<<<std::min(div_up(n, 1024), 4096), 256, 0, d->stream>>>(to, dy, d->tmp[0], n);
        LAUNCHED();
        dy = to;
    }
}
