/* Sums of clients' updates on the device, without a copy to main memory.
 *
 * The integers equal those of privacy/mechanism/quantise.c, bit for bit. The norm adds blocks of
 * 1,024 squares in order, then the blocks in order (a float's square is exact in double, so it does
 * not matter where it is computed). Every other step is one IEEE 754 operation, kept separate with
 * __dmul_rn. Coordinate i uses bytes 8i .. 8i+7 of the client's coins. Integers also decide the
 * rare second attempt (a sum of squares above S2).
 *
 * The integers of a slot are kept in its gradient's memory, which is zeroed afterwards. */
#include "model/cuda/cuda.cuh"

#include <algorithm>
#include <cmath>

enum { NORM_BLOCK = 1024, ATTEMPTS_MAX = 20000 };
static const double WEIGHT_SLOT_SHARE = 0.1; /* DP_WEIGHT_SLOT_SHARE */

struct sums {
    engine_sum how;
    void *total;             /* doubles or int64, count (+ 1) */
    double *blocks;          /* [slots][blocks of NORM_BLOCK] */
    double *norms;           /* [slots] */
    unsigned long long *squares; /* [slots][2]: upper and lower 32 bits of the squares, added apart */
    int *slot_of;            /* [slots] */
    double *factors;         /* [slots] */
    uint32_t *keys;          /* [slots][8] */
    size_t values;
};

static int div_up(size_t a, size_t b)
{
    return (int)((a + b - 1) / b);
}

struct deltas {
    const float *theta, *theta0;
    const int *slot_of;
    size_t count;
};

__device__ inline float delta_at(const deltas &x, int k, size_t i)
{
    return x.theta[x.slot_of[k] * x.count + i] - x.theta0[i];
}

/* A warp takes 32 blocks, a lane adds up one of them in order; the warp fetches 32 values of each
 * block at a time, so that loads are coalesced. */
__global__ void block_norms_kernel(deltas x, double *blocks, size_t n)
{
    __shared__ float tile[32][33];
    size_t first = (size_t)blockIdx.x * 32;
    double sum = 0;
    for (int at = 0; at < NORM_BLOCK; at += 32) {
        __syncwarp();
        for (int b = 0; b < 32; b++) {
            size_t i = (first + b) * NORM_BLOCK + at + threadIdx.x;
            tile[b][threadIdx.x] = i < x.count ? delta_at(x, blockIdx.y, i) : 0;
        }
        __syncwarp();
        for (int k = 0; k < 32; k++) { /* zeros beyond the end change no sum */
            double v = tile[threadIdx.x][k];
            sum = __dadd_rn(sum, __dmul_rn(v, v));
        }
    }
    if (first + threadIdx.x < n)
        blocks[blockIdx.y * n + first + threadIdx.x] = sum;
}

/* One thread adds, in order, the values that the block loaded. */
__global__ void norms_kernel(const double *blocks, size_t n, double *norms)
{
    __shared__ double tile[1024];
    double sum = 0;
    for (size_t at = 0; at < n; at += 1024) {
        size_t i = at + threadIdx.x;
        tile[threadIdx.x] = i < n ? blocks[blockIdx.x * n + i] : 0;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int k = 0; k < 1024 && at + k < n; k++)
                sum = __dadd_rn(sum, tile[k]);
        __syncthreads();
    }
    if (threadIdx.x == 0)
        norms[blockIdx.x] = sqrt(sum);
}

__global__ void add_floats_kernel(deltas x, double *total, const double *factors, int n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < x.count;
         i += (size_t)gridDim.x * blockDim.x) {
        double sum = total[i];
        for (int k = 0; k < n; k++)
            sum = __dadd_rn(sum, __dmul_rn(factors[k], (double)delta_at(x, k, i)));
        total[i] = sum;
    }
}

__device__ inline int round_one(double x, double most, uint64_t coin)
{
    x = fmin(fmax(x, -most), most);
    double low = floor(x), part = __dadd_rn(x, -low);
    int i = (int)low;
    return part >= 1 ? i + 1 : i + (coin < (uint64_t)__dmul_rn(part, 18446744073709551616.0));
}

struct quantise_args {
    double scale, slot, most; /* slot: steps of the weight slot, below 0: none */
    uint64_t first_coin;
    int k; /* which share */
};

/* A thread uses one ChaCha20 block: the coins of eight coordinates. values: count, or one more. */
__global__ void quantise_kernel(deltas x, quantise_args a, const uint32_t *keys, int *X, int *last,
                                size_t values, unsigned long long *squares)
{
    __shared__ unsigned long long sums[2];
    if (threadIdx.x < 2)
        sums[threadIdx.x] = 0;
    __syncthreads();
    uint64_t block = a.first_coin / 8 + blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
    uint32_t c[16];
    unsigned long long high = 0, low = 0;
    chacha_block(c, keys + 8 * a.k, block, 0, 0);
#pragma unroll
    for (int j = 0; j < 8; j++) {
        uint64_t coin_at = 8 * block + j;
        if (coin_at < a.first_coin || coin_at - a.first_coin >= values)
            continue;
        size_t i = coin_at - a.first_coin;
        double v = i < x.count ? __dmul_rn((double)delta_at(x, a.k, i), a.scale) : a.slot;
        int y = round_one(v, a.most, c[2 * j] | (uint64_t)c[2 * j + 1] << 32);
        *(i < x.count ? X + i : last) = y;
        uint64_t square = (uint64_t)((long long)y * y);
        high += square >> 32, low += square & 0xffffffff;
    }
    atomicAdd(&sums[0], high); /* integers: the order does not matter */
    atomicAdd(&sums[1], low);
    __syncthreads();
    if (threadIdx.x < 2)
        atomicAdd(&squares[2 * a.k + threadIdx.x], sums[threadIdx.x]);
}

__global__ void add_integers_kernel(long long *total, const float *grad, const int *slot_of,
                                    size_t count, const int *last, size_t values, int n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < values;
         i += (size_t)gridDim.x * blockDim.x) {
        long long sum = 0;
        for (int k = 0; k < n; k++)
            sum += i < count ? ((const int *)grad)[slot_of[k] * count + i] : last[k];
        total[i] += sum;
    }
}

/* ---- from outside ---------------------------------------------------------------------------- */

void sums_free(device *d)
{
    sums *s = d->sums;
    if (!s)
        return;
    size_t g = d->G, n = div_up(d->set.count, NORM_BLOCK);
    free_secret(s->total, 8 * s->values);
    free_secret(s->blocks, 8 * g * n);
    free_secret(s->norms, 8 * g);
    free_secret(s->squares, 16 * g);
    free_secret(s->slot_of, 8 * g);
    free_secret(s->factors, 8 * g);
    free_secret(s->keys, 32 * g);
    delete s;
    d->sums = NULL;
}

void sums_begin(device *d, const engine_sum *how)
{
    if (how->integers && (how->value_max < 1 || how->value_max > INT32_MAX || !(how->q > 0)))
        throw failure{ SEFL_EUNSUPPORTED, "GPU: these integers do not fit into 32 bits" };
    size_t g = d->G, n = div_up(d->set.count, NORM_BLOCK);
    size_t values = d->set.count + (how->integers && how->has_weight);
    if (d->sums && d->sums->values < values)
        sums_free(d);
    if (!d->sums) {
        sums *s = d->sums = new sums();
        CU(cudaMalloc(&s->total, 8 * values));
        CU(cudaMalloc(&s->blocks, 8 * g * n));
        CU(cudaMalloc(&s->norms, 8 * g));
        CU(cudaMalloc(&s->squares, 16 * g));
        CU(cudaMalloc(&s->slot_of, 8 * g)); /* and, after it, the weight slots */
        CU(cudaMalloc(&s->factors, 8 * g));
        CU(cudaMalloc(&s->keys, 32 * g));
        s->values = values;
    }
    d->sums->how = *how;
    CU(cudaMemsetAsync(d->sums->total, 0, 8 * values, d->stream));
}

/* Integers of all shares, in their slots' gradient memory; `last` has the weight slots. false: an
 * update has no vector within the bound. */
static bool quantise(device *d, const deltas &x, const std::vector<engine_share> &share,
                     const std::vector<double> &norm, int *last)
{
    sums *s = d->sums;
    const engine_sum &h = s->how;
    size_t n = share.size(), values = x.count + (h.has_weight != 0);
    double part = h.has_weight ? sqrt(1 - WEIGHT_SLOT_SHARE * WEIGHT_SLOT_SHARE) : 1;
    double most = part * h.clip;
    std::vector<double> factor(n), w(n);
    std::vector<int> open(n);
    for (size_t k = 0; k < n; k++) {
        w[k] = h.has_weight ? share[k].weight : 1;
        factor[k] = (norm[k] > most ? most / norm[k] : 1) * w[k];
        open[k] = (int)k;
    }
    for (unsigned attempt = 1; !open.empty(); attempt++) {
        if (attempt > ATTEMPTS_MAX)
            return false;
        CU(cudaMemsetAsync(s->squares, 0, 16 * n, d->stream));
        for (int k : open) {
            if (attempt > 2)
                factor[k] *= 0.999, w[k] *= 0.999;
            uint64_t first = (uint64_t)(attempt - 1) * values;
            quantise_args a = { factor[k] / h.q,
                                h.has_weight ? w[k] * WEIGHT_SLOT_SHARE * h.clip / h.q : -1,
                                (double)h.value_max, first, k };
            size_t blocks = (first % 8 + values + 7) / 8;
            quantise_kernel<<<div_up(blocks, 128), 128, 0, d->stream>>>(
                x, a, s->keys, (int *)(d->grad + share[k].slot * x.count), last + k, values,
                s->squares);
            LAUNCHED();
        }
        std::vector<unsigned long long> squares(2 * n);
        CU(cudaMemcpyAsync(squares.data(), s->squares, 16 * n, cudaMemcpyDeviceToHost, d->stream));
        CU(cudaStreamSynchronize(d->stream));
        std::vector<int> again;
        for (int k : open) {
            unsigned __int128 sum = ((unsigned __int128)squares[2 * k] << 32) + squares[2 * k + 1];
            if (h.s2 > 0 && sum > h.s2)
                again.push_back(k);
        }
        open = again;
    }
    return true;
}

void sums_add(device *d, const engine_share *given, uint32_t given_n)
{
    sums *s = d->sums;
    if (!s || given_n > (uint32_t)d->G)
        throw failure{ SEFL_EINVAL, "GPU: no sum has begun" };
    std::vector<engine_share> share;
    std::vector<int> slot_of;
    std::vector<uint32_t> keys;
    for (uint32_t i = 0; i < given_n; i++)
        if (given[i].slot >= (uint32_t)d->G) {
            throw failure{ SEFL_EINVAL, "GPU: no slot " + std::to_string(given[i].slot) };
        } else if (!given[i].zeros) {
            share.push_back(given[i]);
            slot_of.push_back((int)given[i].slot);
            keys.insert(keys.end(), given[i].coins, given[i].coins + 8);
        }
    size_t n = share.size(), count = d->set.count, blocks = div_up(count, NORM_BLOCK);
    if (n == 0)
        return;
    CU(cudaMemcpyAsync(s->slot_of, slot_of.data(), 4 * n, cudaMemcpyHostToDevice, d->stream));
    CU(cudaMemcpyAsync(s->keys, keys.data(), 32 * n, cudaMemcpyHostToDevice, d->stream));
    deltas x = { d->theta, d->theta0, s->slot_of, count };
    block_norms_kernel<<<dim3(div_up(blocks, 32), (unsigned)n), 32, 0, d->stream>>>(x, s->blocks,
                                                                                   blocks);
    LAUNCHED();
    norms_kernel<<<(unsigned)n, 1024, 0, d->stream>>>(s->blocks, blocks, s->norms);
    LAUNCHED();
    std::vector<double> norm(n);
    CU(cudaMemcpyAsync(norm.data(), s->norms, 8 * n, cudaMemcpyDeviceToHost, d->stream));
    CU(cudaStreamSynchronize(d->stream));
    for (size_t k = 0; k < n; k++)
        if (!std::isfinite(norm[k]))
            throw failure{ SEFL_ERANGE, "GPU: an update is not finite" };
    const int grid = std::min(div_up(count + 1, 256), 4096);
    if (!s->how.integers) {
        std::vector<double> factor(n);
        for (size_t k = 0; k < n; k++)
            factor[k] = share[k].weight *
                        (s->how.clip > 0 && norm[k] > s->how.clip ? s->how.clip / norm[k] : 1);
        CU(cudaMemcpyAsync(s->factors, factor.data(), 8 * n, cudaMemcpyHostToDevice, d->stream));
        add_floats_kernel<<<grid, 256, 0, d->stream>>>(x, (double *)s->total, s->factors, (int)n);
        LAUNCHED();
        CU(cudaStreamSynchronize(d->stream));
        return;
    }
    int *last = s->slot_of + d->G;
    const bool within = quantise(d, x, share, norm, last);
    if (within) {
        add_integers_kernel<<<grid, 256, 0, d->stream>>>((long long *)s->total, d->grad, s->slot_of,
                                                         count, last,
                                                         count + (s->how.has_weight != 0), (int)n);
        LAUNCHED();
    }
    for (size_t k = 0; k < n; k++)
        CU(cudaMemsetAsync(d->grad + share[k].slot * count, 0, 4 * count, d->stream));
    CU(cudaStreamSynchronize(d->stream));
    if (!within)
        throw failure{ SEFL_ESTATE, "GPU: quantising: no vector within the bound" };
}

void sums_noise(device *d, const engine_noise *how)
{
    sums *s = d->sums;
    if (!s || !s->how.integers || how->t == 0 || how->den == 0)
        throw failure{ SEFL_EINVAL, "GPU: no sum of integers has begun, or it has no noise" };
    noise_add(d, (long long *)s->total, d->set.count + (s->how.has_weight != 0), how);
}

void sums_end(device *d, void *out, size_t bytes)
{
    sums *s = d->sums;
    size_t values = d->set.count + (s && s->how.integers && s->how.has_weight);
    if (!s || bytes != 8 * values)
        throw failure{ SEFL_EINVAL, "GPU: the sum has another size" };
    CU(cudaStreamSynchronize(d->stream));
    CU(cudaMemcpy(out, s->total, bytes, cudaMemcpyDeviceToHost));
}
