/* The LSTM body on the GPU: what model/lstm.c computes, for all slots at once.
 *
 * Design.
 *  1. The input products of all steps are one large product, and so are the weights' gradients
 *     afterwards (dW_hh reads h from one step earlier: h has the carried state as its first rows).
 *     What remains is the recurrence.
 *  2. The plain path does a step as a small cuBLAS product and a kernel for the cells. It serves all
 *     sizes and both precisions, and is the reference of the other.
 *  3. The cluster path (bf16, small H) does all steps of a layer in one kernel. A slot is a cluster
 *     of eight thread blocks, and a block owns every eighth group of eight hidden units. Its share
 *     of W_hh stays in registers as operands of the tensor cores. Blocks pass values on by st.async
 *     into each other's shared memory; the receiver waits on an mbarrier that counts the bytes.
 *       forward   a block computes its units' gates from all of h and sends its units' h to all;
 *       backward  a block computes its units' dgates and from these alone a share of dh of every
 *                 unit, and sends each share to the unit's owner, who adds the eight in fixed order.
 *                 Sending dgates to all instead would move twice the bytes.
 *     Receive buffers are double. Nobody overwrites a buffer that is still read: a sender has the
 *     data of the step in between, which its peers sent after their last read of that buffer.
 *  4. Steps beyond slot.steps are not computed: their rows are zero (and one in the ones column), so
 *     that they give zero gradients. An idle slot has such rows only. */
#include "model/cuda/cluster.cuh"
#include "model/cuda/cuda.cuh"

#include <algorithm>

/* One layer's recurrence, for the kernels. Pointers are those of slot 0; see slot_view. */
struct recurrence {
    pass p;
    int H, ld; /* ld: of h, out and w */
    float *gates, *c;
    void *h, *out, *dgates;
    const uint8_t *mask;
    const void *w; /* W_hh: real [4H][ld] */
    size_t w_size;
    const float *b_ih, *b_hh;
    size_t theta_stride;
    float *state; /* h [state_cols][H], then c; state_n from slot to slot */
    size_t state_n;
    int state_cols;
    const float *dy; /* gradient of out */
    float *rec, *dc; /* plain path, backward: dgates W_hh and dc, [slots][cols][H] */
};

template <class R> __device__ inline void slot_view(recurrence *a, int i)
{
    size_t n = (size_t)i * a->p.tokens, shifted = n + (size_t)i * a->p.cols;
    a->gates += n * 4 * a->H;
    a->c += shifted * a->H;
    a->h = (R *)a->h + shifted * a->ld;
    a->out = (R *)a->out + n * a->ld;
    a->dgates = (R *)a->dgates + n * 4 * a->H;
    a->mask += n * a->H;
    a->w = (const R *)a->w + i * a->w_size;
    a->b_ih += i * a->theta_stride;
    a->b_hh += i * a->theta_stride;
    a->state += i * a->state_n;
    a->dy += n * a->H;
    a->rec += (size_t)i * a->p.cols * a->H;
    a->dc += (size_t)i * a->p.cols * a->H;
}

__device__ inline int steps_of(const recurrence &a, const slot &s)
{
    return min((int)s.steps, a.p.steps);
}

/* The state that unit k of column b starts from: zero at the start of an epoch. part 0: h, 1: c. */
__device__ inline float carried(const recurrence &a, const slot &s, int part, int b, int k)
{
    bool none = b >= (int)s.cols || s.steps == 0 || (a.p.train && s.at.row == 0);
    return none ? 0 : a.state[((size_t)part * a.state_cols + b) * a.H + k];
}

__device__ inline void carry(const recurrence &a, const slot &s, int b, int k, float h, float c)
{
    if (b >= (int)s.cols)
        return;
    a.state[(size_t)b * a.H + k] = h;
    a.state[((size_t)a.state_cols + b) * a.H + k] = c;
}

__device__ inline bool drops(const recurrence &a, const slot &s)
{
    return a.p.train && s.drop > 0;
}

/* Returns dropout's factor for element i of `out`. */
__device__ inline float kept(const recurrence &a, const slot &s, size_t i)
{
    return !drops(a, s) ? 1 : a.mask[i] ? s.keep : 0;
}

/* The cell's gradients: from dh and dc (of the later step) to those before activation; dc becomes
 * that of the step before. */
__device__ inline void cell_back(float d[4], float *dc, float dh, float i, float f, float g,
                                 float o, float tanh_c, float c_prev)
{
    float e = *dc + dh * o * (1 - tanh_c * tanh_c);
    d[0] = e * g * i * (1 - i);
    d[1] = e * c_prev * f * (1 - f);
    d[2] = e * i * (1 - g * g);
    d[3] = dh * tanh_c * o * (1 - o);
    *dc = e * f;
}

/* ---- plain path ------------------------------------------------------------------------------ */

__device__ inline float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Element (b, k) of a row block of h, k < ld; false beyond the block. */
__device__ inline bool element(const recurrence &a, int *b, int *k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    *b = i / a.ld, *k = i % a.ld;
    return *b < a.p.cols;
}

template <class R> __global__ void begin_kernel(recurrence a)
{
    const slot &s = a.p.s[blockIdx.y];
    int b, k;
    slot_view<R>(&a, blockIdx.y);
    if (!element(a, &b, &k))
        return;
    float h = k == a.H;
    if (k < a.H) {
        h = carried(a, s, 0, b, k);
        a.c[(size_t)b * a.H + k] = carried(a, s, 1, b, k);
    }
    ((R *)a.h)[(size_t)b * a.ld + k] = to_real<R>(h);
}

/* Step t: gates hold the sum of both products. */
template <class R> __global__ void cell_kernel(recurrence a, int t)
{
    const slot &s = a.p.s[blockIdx.y];
    int b, k, n = steps_of(a, s), H = a.H;
    slot_view<R>(&a, blockIdx.y);
    if (!element(a, &b, &k))
        return;
    size_t row = (size_t)t * a.p.cols + b, next = row + a.p.cols;
    float h = k == H, out = h;
    if (k < H && t < n) {
        float *x = a.gates + row * 4 * H + k, v[4];
        for (int g = 0; g < 4; g++)
            v[g] = x[g * H] + (a.b_ih[g * H + k] + a.b_hh[g * H + k]);
        for (int g = 0; g < 4; g++)
            x[g * H] = v[g] = g == 2 ? tanhf(v[g]) : sigmoid(v[g]);
        float c = v[1] * a.c[row * H + k] + v[0] * v[2];
        h = v[3] * tanhf(c);
        a.c[next * H + k] = c;
        out = h * kept(a, s, row * H + k);
        if (t == n - 1)
            carry(a, s, b, k, h, c);
    }
    ((R *)a.h)[next * a.ld + k] = to_real<R>(h);
    ((R *)a.out)[row * a.ld + k] = to_real<R>(out);
}

template <class R> __global__ void cell_back_kernel(recurrence a, int t)
{
    const slot &s = a.p.s[blockIdx.y];
    int b, k, n = steps_of(a, s), H = a.H;
    slot_view<R>(&a, blockIdx.y);
    if (!element(a, &b, &k) || k >= H)
        return;
    size_t row = (size_t)t * a.p.cols + b, at = (size_t)b * H + k;
    R *to = (R *)a.dgates + row * 4 * H + k;
    float d[4] = { 0, 0, 0, 0 };
    if (t < n) {
        const float *x = a.gates + row * 4 * H + k;
        float dh = a.dy[row * H + k] * kept(a, s, row * H + k), dc = 0;
        if (t + 1 < n)
            dh += a.rec[at], dc = a.dc[at];
        cell_back(d, &dc, dh, x[0], x[H], x[2 * H], x[3 * H], tanhf(a.c[(row + a.p.cols) * H + k]),
                  a.c[row * H + k]);
        a.dc[at] = dc;
    }
    for (int g = 0; g < 4; g++)
        to[g * H] = to_real<R>(d[g]);
}

/* y [cols][n] (float, sy from slot to slot) = x [cols][k] times W_hh^T (added) or W_hh. */
static void step_product(device *d, const recurrence &a, float *y, size_t sy, const void *x,
                         int ldx, size_t sx, bool backward)
{
    const float one = 1, beta = backward ? 0 : 1;
    int n = backward ? a.H : 4 * a.H, k = backward ? 4 * a.H : a.H;
    cudaDataType type = d->bf ? CUDA_R_16BF : CUDA_R_32F;
    BLAS(cublasGemmStridedBatchedEx(
        d->blas, backward ? CUBLAS_OP_N : CUBLAS_OP_T, CUBLAS_OP_N, n, a.p.cols, k, &one, a.w, type,
        a.ld, (long long)a.w_size, x, type, ldx, (long long)sx, &beta, y, CUDA_R_32F, n,
        (long long)sy, a.p.slots, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

template <class R> static void plain_forward(device *d, const recurrence &a)
{
    const size_t B = a.p.cols, H = a.H, n = a.p.tokens;
    dim3 grid((unsigned)((B * a.ld + 127) / 128), a.p.slots);
    begin_kernel<R><<<grid, 128, 0, d->stream>>>(a);
    LAUNCHED();
    for (int t = 0; t < a.p.steps; t++) {
        step_product(d, a, a.gates + t * B * 4 * H, n * 4 * H, (R *)a.h + t * B * a.ld, a.ld,
                     (n + B) * a.ld, false);
        cell_kernel<R><<<grid, 128, 0, d->stream>>>(a, t);
        LAUNCHED();
    }
}

template <class R> static void plain_backward(device *d, const recurrence &a)
{
    const size_t B = a.p.cols, H = a.H, n = a.p.tokens;
    dim3 grid((unsigned)((B * a.ld + 127) / 128), a.p.slots);
    for (int t = a.p.steps; t-- > 0;) {
        if (t + 1 < a.p.steps)
            step_product(d, a, a.rec, B * H, (R *)a.dgates + (t + 1) * B * 4 * H, (int)(4 * H),
                         n * 4 * H, true);
        cell_back_kernel<R><<<grid, 128, 0, d->stream>>>(a, t);
        LAUNCHED();
    }
}

/* ---- cluster path ---------------------------------------------------------------------------- */

enum {
    BLOCKS = 8, /* of a cluster; of four, twice as many are resident, but take twice the time */
    GROUPS = 4, /* of eight units, that a block owns at most: number q + 8 i of rank q */
    CLUSTER_H = 8 * BLOCKS * GROUPS,
    CLUSTER_COLS = 64,
    BACK_WARPS = CLUSTER_H / 16,
    BACK_K = 32 * GROUPS, /* gates of a block's units */
    BACK_TILE = BACK_K * 8,
    BACK_ITEMS = CLUSTER_COLS / 8 * GROUPS / BACK_WARPS /* cells of 8 units x 8 columns, per warp */
};

/* Absolute errors near 1e-7: far below bf16's rounding of h. Beyond exp's range the quotient is 0. */
__device__ inline float fast_sigmoid(float x)
{
    return __fdividef(1, 1 + __expf(-x));
}

__device__ inline float fast_tanh(float x)
{
    return 1 - __fdividef(2, 1 + __expf(2 * x));
}

/* ---- cluster path: forward ------------------------------------------------------------------- */

/* KS k-steps cover H. Warp w has the block's group w % GROUPS and the column tiles (of 8) number
 * w / GROUPS + i * PARTS, i < TILES. The rows of its two 16-row operands are the group's gates
 * i, f and g, o: a thread then has all gates of unit g at columns 2q and 2q + 1. Column tiles do not
 * depend on each other, so each has its own barriers. */
template <int KS, int PARTS, int TILES>
__global__ void CLUSTER_DIMS(BLOCKS) __launch_bounds__(PARTS *GROUPS * 32, 1)
    cluster_forward(recurrence a)
{
#if CLUSTERS
    constexpr int TILE = 16 * KS * 8, THREADS = PARTS * GROUPS * 32;
    extern __shared__ __align__(16) char memory[];
    const slot &s = a.p.s[blockIdx.x / BLOCKS];
    slot_view<bf16>(&a, blockIdx.x / BLOCKS);
    const int H = a.H, B = a.p.cols, T = a.p.steps, n = steps_of(a, s);
    const int rank = blockIdx.x % BLOCKS, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int group = rank + BLOCKS * (warp % GROUPS), part = warp / GROUPS, groups = H / 8;
    const int peers = min((int)BLOCKS, groups), tiles = (B + 7) / 8;
    const int unit = group * 8 + lane / 4, col = lane % 4 * 2;
    /* h of the step before, zero beyond H: [2][tiles][k / 8][8 columns][k % 8] */
    bf16 *hs = (bf16 *)memory;
    uint64_t *full = (uint64_t *)(hs + 2 * tiles * TILE); /* [2][tiles] */
    auto tile_bytes = [&](int tile) { return (uint32_t)(min(8, B - tile * 8) * H * 2); };

    for (int i = threadIdx.x; i < tiles * TILE; i += THREADS) {
        int b = i / TILE * 8 + i / 8 % 8, k = i % TILE / 64 * 8 + i % 8;
        hs[i] = __float2bfloat16(k < H ? carried(a, s, 0, b, k) : 0);
        hs[tiles * TILE + i] = __float2bfloat16(0);
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * tiles; i++) {
            full_init(full + i);
            full_arm(full + i, tile_bytes(i % tiles));
        }
        full_publish();
    }
    /* Values that no cell writes: h of the carried state, the rows of padding, the ones column. */
    for (int i = rank * THREADS + threadIdx.x, chunks = a.ld / 8; i < (T + 1) * B * chunks;
         i += BLOCKS * THREADS) {
        int row = i / chunks, k = i % chunks * 8;
        if (k < H && row >= B && row < (n + 1) * B)
            continue;
        uint32_t v[4] = { k == H ? 0x3f80u : 0, 0, 0, 0 }; /* 0x3f80: 1 in bf16 */
        if (k < H && row < B)
            for (int j = 0; j < 4; j++)
                v[j] = pack(carried(a, s, 0, row, k + 2 * j), carried(a, s, 0, row, k + 2 * j + 1));
        uint4 u = make_uint4(v[0], v[1], v[2], v[3]);
        *(uint4 *)((bf16 *)a.h + (size_t)row * a.ld + k) = u;
        if (row >= B)
            *(uint4 *)((bf16 *)a.out + (size_t)(row - B) * a.ld + k) = u;
    }

    uint32_t w[2][KS][4];
    float bias[4] = {}, c[TILES][2] = {};
    /* Of tile i, loaded one step ahead: the input products, and whether dropout keeps. */
    float x[TILES][4][2] = {};
    uint32_t coin[TILES][2] = {};
    const bool owner = group < groups, dropping = drops(a, s);
    const float keep = dropping ? s.keep : 1;
    auto fetch = [&](int i, int t) {
        for (int j = 0; j < 2; j++) {
            int b = (part + i * PARTS) * 8 + col + j;
            unsigned row = t * B + b;
            if (b >= B)
                continue;
            for (int g = 0; g < 4; g++)
                x[i][g][j] = a.gates[row * 4 * H + g * H + unit];
            coin[i][j] = dropping ? a.mask[row * H + unit] : 1;
        }
    };
    if (owner) {
        for (int g = 0; g < 4; g++)
            bias[g] = a.b_ih[g * H + unit] + a.b_hh[g * H + unit];
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int ks = 0; ks < KS; ks++)
                for (int r = 0; r < 4; r++) {
                    int k = ks * 16 + col + r / 2 * 8, gate = 2 * m + r % 2;
                    const bf16 *from = (const bf16 *)a.w + (size_t)(gate * H + unit) * a.ld + k;
                    w[m][ks][r] = k < H ? *(const uint32_t *)from : 0;
                }
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            for (int j = 0; j < 2; j++) {
                int b = (part + i * PARTS) * 8 + col + j;
                if (b < B)
                    a.c[(size_t)b * H + unit] = c[i][j] = carried(a, s, 1, b, unit);
            }
            if (n > 0)
                fetch(i, 0);
        }
    }
    cluster_barrier(); /* barriers and buffers are ready; everyone has read the carried state */

    for (int t = 0; owner && t < n; t++) {
        const int now = t & 1;
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            const int tile = part + i * PARTS;
            float acc[2][4] = {};
            if (tile >= tiles)
                break;
            if (t > 0) {
                uint64_t *bar = full + now * tiles + tile;
                full_wait(bar, (t - 1) / 2 & 1);
                if (warp % GROUPS == 0 && lane == 0)
                    full_arm(bar, tile_bytes(tile));
                __syncwarp();
            }
            uint32_t from = shared_at(hs + (now * tiles + tile) * TILE), b[4];
#pragma unroll
            for (int ks = 0; ks < KS; ks += 2) {
                if (ks + 1 < KS)
                    load_b2(b, from + ks * 256, lane);
                else
                    load_b1(b, from + ks * 256, lane);
                mma(acc[0], w[0][ks], b[0], b[1]);
                mma(acc[1], w[1][ks], b[0], b[1]);
                if (ks + 1 < KS) {
                    mma(acc[0], w[0][ks + 1], b[2], b[3]);
                    mma(acc[1], w[1][ks + 1], b[2], b[3]);
                }
            }
            for (int m = 0; m < 2; m++)
                for (int r = 0; r < 4; r++)
                    acc[m][r] = acc[m][r] + bias[2 * m + r / 2] + x[i][2 * m + r / 2][r % 2];
            float h[2], out[2] = { coin[i][0] ? keep : 0, coin[i][1] ? keep : 0 };
            if (t + 1 < n)
                fetch(i, t + 1);
            for (int j = 0; j < 2; j++) {
                float *v = acc[0], *u = acc[1];
                v[j] = fast_sigmoid(v[j]), v[2 + j] = fast_sigmoid(v[2 + j]);
                u[j] = fast_tanh(u[j]), u[2 + j] = fast_sigmoid(u[2 + j]);
                c[i][j] = v[2 + j] * c[i][j] + v[j] * u[j];
                h[j] = u[2 + j] * fast_tanh(c[i][j]);
                out[j] *= h[j];
            }
            /* the tile's h by columns: a thread has column g, units 2q and 2q + 1 */
            uint32_t ht = transposed(pack(h[0], h[1]));
            if (t + 1 < n) {
                uint32_t v[4];
                int row = lane & 7;
                for (int k = 0; k < 4; k++)
                    v[k] = __shfl_sync(~0u, ht, row * 4 + k);
                uint32_t at =
                    shared_at(hs + ((now ^ 1) * tiles + tile) * TILE + group * 64 + row * 8);
                uint32_t bar = shared_at(full + (now ^ 1) * tiles + tile);
#pragma unroll
                for (int peer = lane >> 3; peer < BLOCKS; peer += 4)
                    if (tile * 8 + row < B && peer < peers)
                        send16(peer_at(at, peer), v, peer_at(bar, peer));
            }
            uint32_t ot = transposed(pack(out[0], out[1]));
            int b0 = tile * 8 + lane / 4;
            if (b0 < B) {
                unsigned row = t * B + b0;
                *(uint32_t *)((bf16 *)a.h + (row + B) * a.ld + group * 8 + col) = ht;
                *(uint32_t *)((bf16 *)a.out + row * a.ld + group * 8 + col) = ot;
            }
            for (int j = 0; j < 2; j++) {
                int b1 = tile * 8 + col + j;
                unsigned row = t * B + b1;
                if (b1 < B && t == n - 1)
                    carry(a, s, b1, unit, h[j], c[i][j]);
                if (b1 < B && a.p.train) { /* backward follows */
                    for (int g = 0; g < 4; g++)
                        a.gates[row * 4 * H + g * H + unit] = acc[g / 2][g % 2 * 2 + j];
                    a.c[(row + B) * H + unit] = c[i][j];
                }
            }
        }
    }
    cluster_barrier(); /* shared memory lives until all peers have sent */
#endif
}

/* ---- cluster path: backward ------------------------------------------------------------------ */

/* In a step the warps first do the cells: item i of warp w is the block's group (w + 16 i) % GROUPS
 * at column tile (w + 16 i) / GROUPS, a thread has unit g at columns 2q and 2q + 1 as in forward.
 * Then warp w computes from the block's dgates the share of dh of units [16 w, 16 w + 16): the
 * groups 2w and 2w + 1. Result fragments have the layout that the owner's cells need. */
__global__ void CLUSTER_DIMS(BLOCKS) __launch_bounds__(BACK_WARPS * 32, 1)
    cluster_backward(recurrence a)
{
#if CLUSTERS
    extern __shared__ __align__(16) char memory[];
    const slot &s = a.p.s[blockIdx.x / BLOCKS];
    slot_view<bf16>(&a, blockIdx.x / BLOCKS);
    const int H = a.H, B = a.p.cols, T = a.p.steps, n = steps_of(a, s);
    const int rank = blockIdx.x % BLOCKS, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int groups = H / 8, peers = min((int)BLOCKS, groups), tiles = (B + 7) / 8;
    const int owned = rank < groups ? (groups - rank + BLOCKS - 1) / BLOCKS : 0;
    const int col = lane % 4 * 2;
    float2 *got = (float2 *)memory; /* [2][BLOCKS: sender][GROUPS][tiles][32] */
    bf16 *ds = (bf16 *)(got + 2 * BLOCKS * GROUPS * tiles * 32); /* [2][tiles][k / 8][8][k % 8] */
    uint64_t *full = (uint64_t *)(ds + 2 * tiles * BACK_TILE);   /* [2] */
    const uint32_t step_bytes = (uint32_t)(peers * owned * 8 * ((B + 1) / 2) * sizeof(float2));

    for (int i = threadIdx.x; i < 2 * tiles * BACK_TILE; i += BACK_WARPS * 32)
        ds[i] = __float2bfloat16(0); /* columns beyond B and groups not owned stay so */
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            full_init(full + i);
            full_arm(full + i, step_bytes);
        }
        full_publish();
    }
    for (size_t i = (size_t)n * B * H / 2 + rank * BACK_WARPS * 32 + threadIdx.x;
         i < (size_t)T * B * H / 2; i += BLOCKS * BACK_WARPS * 32)
        ((uint4 *)a.dgates)[i] = make_uint4(0, 0, 0, 0); /* padding */

    /* k of the operands counts the block's gates: (group, gate, unit) */
    uint32_t w[BACK_K / 16][4];
#pragma unroll
    for (int ks = 0; ks < BACK_K / 16; ks++)
        for (int r = 0; r < 4; r++) {
            int group = rank + BLOCKS * (ks / 2), gate = ks % 2 * 2 + r / 2;
            int j = warp * 16 + r % 2 * 8; /* columns of W_hh: units of dh */
            const bf16 *from =
                (const bf16 *)a.w + (size_t)(gate * H + group * 8 + lane / 4) * a.ld + j + col;
            w[ks][r] = transposed(group < groups && j < H ? *(const uint32_t *)from : 0);
        }

    /* Of item i: c of this step, dc from the later one; then what a step reads, loaded one step ahead. */
    float c[BACK_ITEMS][2], dc[BACK_ITEMS][2] = {};
    float x[BACK_ITEMS][4][2] = {}, c_prev[BACK_ITEMS][2] = {}, dy[BACK_ITEMS][2] = {};
    uint32_t coin[BACK_ITEMS][2] = {};
    const bool dropping = drops(a, s);
    const float keep = dropping ? s.keep : 1;
    auto item_at = [&](int i, int *g, int *tile) {
        *g = (warp + i * BACK_WARPS) % GROUPS, *tile = (warp + i * BACK_WARPS) / GROUPS;
        return *g < owned && *tile < tiles;
    };
    auto fetch = [&](int t) {
#pragma unroll
        for (int i = 0; i < BACK_ITEMS; i++)
            for (int j = 0; j < 2; j++) {
                int g, tile;
                bool mine = item_at(i, &g, &tile);
                int b = tile * 8 + col + j, unit = (rank + BLOCKS * g) * 8 + lane / 4;
                if (!mine || b >= B)
                    continue;
                unsigned row = t * B + b;
                for (int k = 0; k < 4; k++)
                    x[i][k][j] = a.gates[row * 4 * H + k * H + unit];
                c_prev[i][j] = a.c[row * H + unit];
                dy[i][j] = a.dy[row * H + unit];
                coin[i][j] = dropping ? a.mask[row * H + unit] : 1;
            }
    };
    for (int i = 0; i < BACK_ITEMS; i++)
        for (int j = 0; j < 2; j++) {
            int g, tile;
            bool mine = item_at(i, &g, &tile);
            int b = tile * 8 + col + j, unit = (rank + BLOCKS * g) * 8 + lane / 4;
            c[i][j] = mine && b < B ? a.c[((size_t)n * B + b) * H + unit] : 0;
        }
    if (n > 0)
        fetch(n - 1);
    cluster_barrier();

    for (int t = n - 1, now = 0; owned > 0 && t >= 0; t--, now ^= 1) {
        /* `now`: the buffers that this step writes; the step before wrote the others */
        const int before = n - 2 - t; /* steps that have sent, minus one */
#pragma unroll
        for (int i = 0; i < BACK_ITEMS; i++) {
            int g, tile;
            if (!item_at(i, &g, &tile))
                break;
            float d[2][4], dh[2], tanh_c[2];
            for (int j = 0; j < 2; j++) { /* before the wait: in its shadow */
                dh[j] = dy[i][j] * (coin[i][j] ? keep : 0);
                tanh_c[j] = fast_tanh(c[i][j]);
            }
            if (before >= 0) {
                uint64_t *bar = full + (now ^ 1);
                full_wait(bar, before >> 1 & 1);
                if (i == 0 && threadIdx.x == 0)
                    full_arm(bar, step_bytes);
                float2 sum = { 0, 0 };
#pragma unroll
                for (int peer = 0; peer < BLOCKS; peer++)
                    if (peer < peers && tile * 8 + col < B) {
                        int from = ((now ^ 1) * BLOCKS + peer) * GROUPS + g;
                        float2 v = got[(from * tiles + tile) * 32 + lane];
                        sum.x += v.x, sum.y += v.y;
                    }
                dh[0] += sum.x, dh[1] += sum.y;
            }
            for (int j = 0; j < 2; j++) {
                cell_back(d[j], &dc[i][j], dh[j], x[i][0][j], x[i][1][j], x[i][2][j], x[i][3][j],
                          tanh_c[j], c_prev[i][j]);
                c[i][j] = c_prev[i][j];
            }
            int b = tile * 8 + lane / 4;
            bf16 *own = ds + (now * tiles + tile) * BACK_TILE + g * 256 + lane * 2;
            bf16 *all =
                (bf16 *)a.dgates + ((size_t)t * B + b) * 4 * H + (rank + BLOCKS * g) * 8 + col;
            for (int k = 0; k < 4; k++) {
                uint32_t v = transposed(pack(d[0][k], d[1][k]));
                if (b < B) {
                    *(uint32_t *)(own + k * 64) = v;
                    *(uint32_t *)(all + k * H) = v;
                }
            }
        }
        if (t == 0)
            break;
        fetch(t - 1);
        __syncthreads();
        for (int tile = 0; tile < tiles && warp * 16 < H; tile++) {
            uint32_t from = shared_at(ds + (now * tiles + tile) * BACK_TILE), b[4];
            float acc[2][4] = {}; /* two sums: a chain of dependent products waits on itself */
#pragma unroll
            for (int ks = 0; ks < BACK_K / 16; ks += 2)
                if (ks / 2 < owned) {
                    load_b2(b, from + ks * 256, lane);
                    mma(acc[0], w[ks], b[0], b[1]);
                    mma(acc[1], w[ks + 1], b[2], b[3]);
                }
            for (int r = 0; r < 2; r++) {
                int group = 2 * warp + r, to = group % BLOCKS;
                int at = ((now * BLOCKS + rank) * GROUPS + group / BLOCKS) * tiles + tile;
                if (group < groups && tile * 8 + col < B)
                    send8(peer_at(shared_at(got + at * 32 + lane), to),
                          acc[0][2 * r] + acc[1][2 * r], acc[0][2 * r + 1] + acc[1][2 * r + 1],
                          peer_at(shared_at(full + now), to));
            }
        }
    }
    cluster_barrier();
#endif
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* Whether the device runs native code with the kernels' bodies. Its number does not tell: a GPU newer
 * than those of the build runs the code for older ones. */
static bool has_clusters(void)
{
    cudaFuncAttributes at;
    CU(cudaFuncGetAttributes(&at, (const void *)cluster_backward));
    return at.ptxVersion >= 90;
}

static bool fits_cluster(const device *d, const pass &p)
{
    int H = (int)d->set.hidden;
    return d->clusters && d->bf && H % 8 == 0 && H <= CLUSTER_H && p.cols <= CLUSTER_COLS &&
           (size_t)p.tokens * 4 * H <= UINT32_MAX; /* the kernels count within a slot in 32 bits */
}

static void launch_cluster(device *d, void (*kernel)(recurrence), int threads, size_t bytes,
                           const recurrence &a)
{
    CU(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                            (int)bytes));
    kernel<<<a.p.slots * BLOCKS, threads, bytes, d->stream>>>(a);
    LAUNCHED();
}

template <int KS, int PARTS, int TILES> static void run_forward(device *d, const recurrence &a)
{
    size_t tiles = (a.p.cols + 7) / 8;
    size_t bytes = 2 * tiles * 16 * KS * 8 * sizeof(bf16) + 2 * tiles * sizeof(uint64_t);
    launch_cluster(d, cluster_forward<KS, PARTS, TILES>, PARTS * GROUPS * 32, bytes, a);
}

static void run_backward(device *d, const recurrence &a)
{
    size_t tiles = (a.p.cols + 7) / 8;
    size_t bytes = 2 * BLOCKS * GROUPS * tiles * 32 * sizeof(float2) +
                   2 * tiles * BACK_TILE * sizeof(bf16) + 2 * sizeof(uint64_t);
    launch_cluster(d, cluster_backward, BACK_WARPS * 32, bytes, a);
}

static recurrence layer_recurrence(device *d, const pass &p, int i)
{
    const lstm_layer &l = d->lstm[i];
    recurrence a = {};
    a.p = p;
    a.H = (int)d->set.hidden, a.ld = ld_of(a.H);
    a.gates = l.gates, a.c = l.c, a.h = l.h, a.out = l.out;
    a.dgates = l.dgates, a.mask = l.mask;
    a.w = l.hh.dense, a.w_size = l.hh.size;
    a.state_n = d->state_n, a.state_cols = d->state_cols;
    a.rec = d->tmp[1], a.dc = d->tmp[2];
    return a;
}

static void layers_forward(device *d, const pass &p, const float *theta, size_t theta_stride,
                           float *state, bool cluster)
{
    const size_t H = d->set.hidden, n = p.tokens;
    for (int i = 0; i < (int)d->set.layers; i++) {
        const lstm_layer &l = d->lstm[i];
        recurrence a = layer_recurrence(d, p, i);
        a.b_ih = theta + d->param[l.ih.b].offset;
        a.b_hh = theta + d->param[l.ih.b2].offset;
        a.theta_stride = theta_stride;
        a.state = state + 2 * i * H * d->state_cols;
        gemm_forward(d, p, l.gates, (int)(4 * H), n * 4 * H, l.in, n * ld_of(l.ih.cols), l.ih,
                     p.tokens);
        if (p.train)
            draw_mask(d, p, l.mask, (int)H, 1 + i);
        if (!cluster && d->bf)
            plain_forward<bf16>(d, a);
        else if (!cluster)
            plain_forward<float>(d, a);
        else if (H <= 13 * 16 && p.cols <= 24)
            run_forward<13, 3, 1>(d, a);
        else
            run_forward<16, 2, 4>(d, a);
    }
}

static void layers_backward(device *d, const pass &p, bool cluster)
{
    const size_t H = d->set.hidden, n = p.tokens;
    for (int i = (int)d->set.layers; i-- > 0;) {
        const lstm_layer &l = d->lstm[i];
        recurrence a = layer_recurrence(d, p, i);
        a.dy = i + 1 == (int)d->set.layers ? d->dtop : d->tmp[0];
        if (cluster)
            run_backward(d, a);
        else if (d->bf)
            plain_backward<bf16>(d, a);
        else
            plain_backward<float>(d, a);
        /* dy is used up: tmp[0] can take the gradient of the layer's input */
        gemm_dx(d, p, i > 0 ? d->tmp[0] : d->dx, l.ih.cols, n * l.ih.cols, l.dgates, (int)(4 * H),
                n * 4 * H, l.ih, p.tokens);
        gemm_dw(d, p, l.ih, l.dgates, (int)(4 * H), n * 4 * H, l.in, n * ld_of(l.ih.cols), p.tokens,
                false);
        gemm_dw(d, p, l.hh, l.dgates, (int)(4 * H), n * 4 * H, l.h, (n + p.cols) * ld_of((int)H),
                p.tokens, false);
    }
}

void lstm_plan(device *d, plan *p)
{
    const size_t H = d->set.hidden, n = d->tokens, ld = ld_of((int)H);
    const size_t first = (size_t)d->G * d->state_cols; /* rows of carried state */
    d->clusters = has_clusters();
    for (uint32_t i = 0; i < d->set.layers; i++) {
        lstm_layer &l = d->lstm[i];
        p->take(l.gates, n * 4 * H * sizeof(float));
        p->take(l.c, (n + first) * H * sizeof(float));
        p->take(l.h, (n + first) * ld * d->real);
        p->take(l.mask, n * H);
        p->take(l.dgates, n * 4 * H * d->real);
        l.in = i > 0 ? d->lstm[i - 1].out : d->x;
        l.out = d->top_out;
        if (i + 1 < d->set.layers)
            p->take(l.out, n * ld * d->real);
    }
    p->take(d->tmp[0], n * H * sizeof(float));
    p->take(d->tmp[1], first * H * sizeof(float));
    p->take(d->tmp[2], first * H * sizeof(float));
}

void lstm_forward(device *d, const pass &p, const float *theta, size_t theta_stride, float *state)
{
    layers_forward(d, p, theta, theta_stride, state, fits_cluster(d, p));
}

void lstm_backward(device *d, const pass &p)
{
    layers_backward(d, p, fits_cluster(d, p));
}
