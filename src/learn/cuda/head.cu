/* Decoder, softmax and cross-entropy. The logits cross memory twice: the product writes them, one
 * kernel reads them and writes their gradient, in bf16 where products are in bf16. */
#include "model/cuda/cuda.cuh"

enum { THREADS = 1024, HELD = 9 }; /* quadruples of logits that a thread holds in registers */

template <class F> __device__ float block_reduce(float x, F join)
{
    __shared__ float s[32];
    for (int k = 16; k > 0; k /= 2)
        x = join(x, __shfl_xor_sync(~0u, x, k));
    if (threadIdx.x % 32 == 0)
        s[threadIdx.x / 32] = x;
    __syncthreads();
    x = s[threadIdx.x % 32];
    for (int k = 16; k > 0; k /= 2)
        x = join(x, __shfl_xor_sync(~0u, x, k));
    __syncthreads();
    return x;
}

template <class R> __device__ inline float exp_of(float x);
template <> __device__ inline float exp_of<float>(float x)
{
    return expf(x);
}
template <> __device__ inline float exp_of<bf16>(float x)
{
    return __expf(x);
}

struct head_args {
    const float *logits, *bias;
    int ld;
    double *loss;
};

/* Copies the decoder's biases, aligned; words beyond the vocabulary get probability 0. */
__global__ void bias_kernel(float *to, int ld, const float *bias, size_t stride, int vocab)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < ld)
        to[(size_t)blockIdx.y * ld + k] = k < vocab ? bias[blockIdx.y * stride + k] : -INFINITY;
}

__device__ inline float larger(float u, float v)
{
    return u > v || isnan(u) ? u : v;
}

__device__ inline float larger(float4 z, float v)
{
    return larger(larger(z.x, z.y), larger(larger(z.z, z.w), v));
}

/* One token per thread block. HOLD: the row stays in registers, else it is read twice. p.train:
 * prob = (softmax - target) / tokens of the slot's batch, zeros for padding. */
template <class R, bool HOLD> __global__ void __launch_bounds__(THREADS)
    softmax_kernel(pass p, head_args a, R *prob)
{
    const slot &s = p.s[blockIdx.y];
    int i = blockIdx.x;
    size_t token = (size_t)blockIdx.y * p.tokens + i;
    long at = word_at(s, i / p.cols, i % p.cols);
    const float *y = a.logits + token * a.ld, *bias = a.bias + (size_t)blockIdx.y * a.ld;
    R *to = prob + token * a.ld;
    if (at < 0) {
        for (int k = threadIdx.x; p.train && k < a.ld; k += THREADS)
            to[k] = to_real<R>(0.f);
        if (threadIdx.x == 0)
            a.loss[token] = 0;
        return;
    }
    float4 x[HOLD ? HELD : 1];
    float most = -INFINITY, sum = 0;
    uint32_t target = s.words[at + 1];
    float chosen = y[target] + bias[target];
    auto load = [&](int k) {
        float4 z = *(const float4 *)(y + k), b = *(const float4 *)(bias + k);
        return make_float4(z.x + b.x, z.y + b.y, z.z + b.z, z.w + b.w);
    };
    auto exps = [&](float4 z) {
        return make_float4(exp_of<R>(z.x - most), exp_of<R>(z.y - most), exp_of<R>(z.z - most),
                           exp_of<R>(z.w - most));
    };
    auto all = [](float4 z) { return (z.x + z.y) + (z.z + z.w); };
    if (HOLD) {
#pragma unroll
        for (int j = 0; j < HELD; j++) {
            int k = 4 * (threadIdx.x + j * THREADS);
            x[j] = k < a.ld ? load(k) : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
            most = larger(x[j], most);
        }
    } else {
        for (int k = 4 * threadIdx.x; k < a.ld; k += 4 * THREADS)
            most = larger(load(k), most);
    }
    most = block_reduce(most, [](float u, float v) { return larger(u, v); });
    if (HOLD) {
#pragma unroll
        for (int j = 0; j < HELD; j++) {
            x[j] = exps(x[j]);
            sum += all(x[j]);
        }
    } else {
        for (int k = 4 * threadIdx.x; k < a.ld; k += 4 * THREADS)
            sum += all(exps(load(k)));
    }
    sum = block_reduce(sum, [](float u, float v) { return u + v; });
    if (threadIdx.x == 0)
        a.loss[token] = (double)most + log((double)sum) - (double)chosen;
    if (!p.train)
        return;
    float scale = 1.f / (float)(s.cols * s.steps), factor = scale / sum;
    auto put = [&](int k, float4 e) {
        int hit = (int)target - k; /* 0 to 3: the target is one of these four */
        store_four(to + k, make_float4(e.x * factor - (hit == 0 ? scale : 0.f),
                                       e.y * factor - (hit == 1 ? scale : 0.f),
                                       e.z * factor - (hit == 2 ? scale : 0.f),
                                       e.w * factor - (hit == 3 ? scale : 0.f)));
    };
    if (HOLD) {
#pragma unroll
        for (int j = 0; j < HELD; j++) {
            int k = 4 * (threadIdx.x + j * THREADS);
            if (k < a.ld)
                put(k, x[j]);
        }
    } else {
        for (int k = 4 * threadIdx.x; k < a.ld; k += 4 * THREADS)
            put(k, exps(load(k)));
    }
}

template <class R> static void softmax(device *d, const pass &p, const head_args &a)
{
    dim3 grid(p.tokens, p.slots);
    if (a.ld <= 4 * THREADS * HELD)
        softmax_kernel<R, true><<<grid, THREADS, 0, d->stream>>>(p, a, (R *)d->prob);
    else
        softmax_kernel<R, false><<<grid, THREADS, 0, d->stream>>>(p, a, (R *)d->prob);
    LAUNCHED();
}

void head(device *d, const pass &p, const float *theta, size_t theta_stride)
{
    const weight &w = d->dec;
    size_t ldx = ld_of(d->top), n = p.tokens;
    double flop = 2.0 * p.slots * n * d->set.vocab * d->top;
    double logits = 1.0 * p.slots * n * d->ldv, weights = 1.0 * p.slots * w.size;
    head_args a = { d->logits, d->bias, d->ldv, d->token_loss };
    bias_kernel<<<dim3((d->ldv + 255) / 256, p.slots), 256, 0, d->stream>>>(
        d->bias, d->ldv, theta + d->param[w.b].offset, theta_stride, (int)d->set.vocab);
    LAUNCHED();
    mark(d, "decoder forward", flop, 4 * logits + d->real * weights);
    gemm_forward(d, p, d->logits, d->ldv, n * d->ldv, d->top_out, n * ldx, w, p.tokens);
    mark(d, "softmax", 0, (4 + (p.train ? d->real : 0)) * logits);
    if (d->bf)
        softmax<bf16>(d, p, a);
    else
        softmax<float>(d, p, a);
    if (!p.train)
        return;
    mark(d, "decoder dx", flop, d->real * (logits + weights));
    gemm_dx(d, p, d->dtop, d->top, n * d->top, d->prob, d->ldv, n * d->ldv, w, p.tokens);
    mark(d, "decoder dw", flop, d->real * logits + 4 * weights);
    gemm_dw(d, p, w, d->prob, d->ldv, n * d->ldv, d->top_out, n * ldx, p.tokens, false);
}

__global__ void add_losses_kernel(pass p, const double *loss)
{
    __shared__ double s[2][256];
    slot &w = p.s[blockIdx.x];
    double sum = 0, n = 0;
    for (int i = threadIdx.x; i < p.tokens; i += 256)
        if (word_at(w, i / p.cols, i % p.cols) >= 0)
            sum += loss[(size_t)blockIdx.x * p.tokens + i], n++;
    s[0][threadIdx.x] = sum, s[1][threadIdx.x] = n;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 256; i++)
            sum += s[0][i], n += s[1][i];
        w.loss_sum += sum, w.words_sum += (uint64_t)n;
    }
}

void add_losses(device *d, const pass &p)
{
    add_losses_kernel<<<p.slots, 256, 0, d->stream>>>(p, d->token_loss);
    LAUNCHED();
}
