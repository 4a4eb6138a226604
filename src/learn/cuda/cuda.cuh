/* cuda: internals of the GPU plugin, which trains many clients ("slots") in one step.
 *
 * All slots run the same step in parallel. A matrix product is one strided-batched cuBLAS call over
 * the slots; everything else is one of our kernels, whose grid covers all slots. A step is captured
 * once as a CUDA graph and replayed. The values that change from step to step (position in the
 * text, learning rate, whether the slot still runs) are in struct slot in device memory; the last
 * kernel of a step updates them.
 *
 * Shapes. A slot has `cols` columns of text and reads `steps` words in sequence; both are padded to
 * the sizes of the pass; token i = t * pass.cols + b. Padding and idle slots compute on zeros and
 * have zero gradients (a token without a target has a zero gradient).
 *
 * Operands. `real` below is the type of matrix operands: bf16, or float in the fp32 mode; sums are
 * float. A matrix of activations of width k has rows of ld(k) = k + 1 rounded up to 8 elements.
 * Element k is 1 and the others are 0, so that the product that computes a weight's gradient also
 * computes the bias's, in column k. A weight (rows x cols) is expanded for each step to `real`
 * [rows][ld(cols)], zero beyond cols. Its dense gradient has the same shape in float and is folded
 * into the compressed gradient.
 *
 * Determinism: there are no floating-point atomics, and every sum has a fixed order.
 *
 * Failures inside the plugin are C++ exceptions (struct failure); the table's functions catch them.
 * */
#ifndef MODEL_CUDA_CUDA_CUH
#define MODEL_CUDA_CUDA_CUH

#include "model/engine/engine_ops.h"

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <map>
#include <string>
#include <vector>

typedef __nv_bfloat16 bf16;

struct failure {
    sefl_status st;
    std::string text;
};

/* Throw with the name of the CUDA or cuBLAS error. */
void check_cuda(cudaError_t e, const char *what);
void check_blas(cublasStatus_t s, const char *what);
#define CU(call)   check_cuda((call), #call)
#define BLAS(call) check_blas((call), #call)
/* Checks a kernel launch. */
#define LAUNCHED() check_cuda(cudaGetLastError(), __func__)

/* One client in training; an array of slots is in device memory. */
struct slot {
    const uint32_t *words; /* device memory; column c is words [c * rows, (c + 1) * rows) */
    uint64_t rows;
    uint32_t cols, window; /* columns of the text; words in sequence of a full batch */
    uint32_t live;         /* started, not finished, not diverged */
    uint32_t steps;        /* words in sequence of the present batch; 0: this slot idles */
    uint32_t real_cols;    /* columns of the text: cols, except when windows are read side by side:
                              column b is then window b / real_cols of column b % real_cols */
    uint32_t drop;         /* number of elements dropped in 65536 */
    float keep;            /* 65536 / (65536 - drop) */
    uint32_t key[8];       /* key of the dropout coins */
    engine_cursor at;
    uint64_t limit; /* maximum number of steps; UINT64_MAX: no limit */
    double lr, decay, clip;
    /* the present step */
    double loss, norm;  /* sum of its tokens' losses; norm of the gradient */
    uint32_t tokens;    /* number of tokens with a target */
    float step, scale;  /* learning rate; clip / norm, or 1 */
    float shrink;       /* learning rate times weight decay */
    float adam_step, adam_root; /* with bias correction, as in model/optim.c */
    uint32_t diverged;
    /* since run() began */
    double loss_sum;
    uint64_t words_sum;
};

/* Arguments of every kernel of a pass. */
struct pass {
    slot *s; /* device memory */
    int slots, cols, steps;
    int tokens; /* cols * steps, of one slot */
    bool train;
};

/* Returns the index of a token's word in slot.words, or -1 if the token is padding. */
__device__ inline long word_at(const slot &s, int t, int b)
{
    if (b >= (int)s.cols || t >= (int)s.steps)
        return -1;
    uint64_t row = s.at.row + (uint64_t)(b / s.real_cols) * s.window + t;
    return row + 1 < s.rows ? (long)((b % s.real_cols) * s.rows + row) : -1;
}

static inline int ld_of(int k)
{
    return (k + 8) / 8 * 8;
}

/* A weight matrix with its bias (or NULL_PARAM). */
enum { NULL_PARAM = -1 };
struct weight {
    int w, b, b2;          /* indices of params; b2: a second bias with the same gradient */
    int rows, cols, block;
    int rows8;             /* rows rounded up to a multiple of 8, which products need to be fast */
    size_t size;           /* rows8 * ld_of(cols): distance between slots, in elements */
    void *dense;           /* real [slots][rows8][ld_of(cols)], zero beyond rows */
    float *grad;           /* [slots][rows8][ld_of(cols)] */
};

struct lstm_layer {
    weight ih, hh;
    float *gates;  /* [slots][tokens][4H]: x W_ih^T, then the activations i, f, g, o */
    /* c and h: room for d->tokens + G * max(B, 10) rows, so that an evaluation's long pass fits */
    float *c;      /* [slots][(T+1) * B][H]: the first B rows are the carried state */
    void *h;       /* real [slots][(T+1) * B][ld(H)]: like c; ones in column H */
    void *in;      /* real [slots][tokens][ld(inputs)]: what the layer reads */
    void *out;     /* real [slots][tokens][ld(H)]: h after dropout; the next layer's `in` */
    uint8_t *mask; /* [slots][tokens][H]: 1 where dropout keeps an element of `out` */
    void *dgates;  /* real [slots][tokens][4H] */
};

struct tr_layer {
    weight qkv, proj, ff1, ff2;
    int n1_w, n1_b, n2_w, n2_b; /* indices of params */
    void *in;                   /* real [slots][tokens][ld(E)] */
    float *x;                   /* the same in float, [slots][tokens][E] */
    float *qkv_out;             /* [slots][tokens][3E] */
    float *att;                 /* [slots][B][heads][T][T]: probabilities */
    uint8_t *att_mask;
    void *ctx; /* real [slots][tokens][ld(E)] */
    uint8_t *mask1, *ff_mask, *mask2;
    float *xhat1, *rstd1, *xhat2, *rstd2;
    float *y1;   /* [slots][tokens][E] */
    void *y1r;   /* real [slots][tokens][ld(E)] */
    void *ff;    /* real [slots][tokens][ld(F)]: after ReLU and dropout */
    void *out;   /* real [slots][tokens][ld(E)]: the next layer's `in` */
    float *outf; /* the same in float: the next layer's `x` */
};

enum { MAX_LAYERS = 32 }; /* LM_MAX_LAYERS */

struct device {
    engine_setup set;
    std::vector<engine_param> param;
    int G;        /* slots */
    int B, T;     /* columns and steps of a slot's maximum batch */
    int top;      /* width that the decoder reads */
    bool bf;      /* real is bf16 */
    size_t tokens;/* room for the tokens of all slots, at least for those of one evaluation pass */
    size_t real;  /* size of an operand in bytes */
    cudaStream_t stream;
    cublasHandle_t blas;
    size_t shared_most; /* bytes of shared memory that a thread block may have */

    float *theta0, *theta, *grad, *opt; /* [count]; [G][count]; [G][count]; [G][0, 1 or 2 counts] */
    size_t opt_n;                       /* per slot */
    float *state, *eval_state;          /* LSTM: [G][layers][2][columns][H], as in lm_state */
    size_t state_n;                     /* per slot */
    int state_cols;                     /* max(batch, 10) */
    float *positions;

    weight dec;             /* tied: dec.w is the encoder */
    int enc;                /* index of the encoder's param: 0 */
    void *x;                /* real [slots][tokens][ld(E)]: embedded words after dropout */
    float *xf;              /* Transformer: the same in float [slots][tokens][E] */
    uint8_t *x_mask;
    void *top_out;          /* real [slots][tokens][ld(top)]: what the decoder reads */
    float *dtop, *dx;       /* [slots][tokens][top], [slots][tokens][E] */
    float *logits;          /* [slots][tokens][ldv], ldv = vocab rounded up to 8 */
    float *bias;            /* [slots][ldv]: the decoder's, -infinity beyond the vocabulary */
    void *prob;             /* real [slots][tokens][ldv]: gradient of the logits; fp32: = logits */
    int ldv;
    double *token_loss;     /* [slots][tokens] */
    double *part;           /* partial sums of squares, [G][parts] */
    size_t parts;
    uint32_t *order; /* embedding: tokens sorted by word, [slots][tokens] */

    bool clusters; /* the LSTM's cluster kernels run on this device; set by lstm_plan */
    lstm_layer lstm[MAX_LAYERS];
    tr_layer tr[MAX_LAYERS];
    float *tmp[4]; /* body scratch, [tokens][max(4H, 3E, F)] each; sized by the body's plan */

    slot *slots; /* device memory, [G + 1]: the last is for evaluation */
    struct sums *sums; /* sums.cu; NULL: no sum is under way */
    std::vector<slot> host;
    /* used only by engine.cu */
    struct inside *in;
};

static inline size_t slot_theta(const device *d, int s)
{
    return (size_t)s * d->set.count;
}

/* Zeroes and frees device memory; NULL is fine. */
void free_secret(void *p, size_t bytes);

/* Counts the time until the next mark under `name`; does nothing unless times are measured. */
void mark(device *d, const char *name, double flop, double bytes);

/* ---- products (gemm.cu), row-major, batched over p.slots ---- */
/* y [tokens][rows] (float, rows ldy apart, slot stride sy) = x [tokens][ld(cols)] W^T; beta 0. */
void gemm_forward(device *d, const pass &p, float *y, int ldy, size_t sy, const void *x, size_t sx,
                  const weight &w, int tokens);
/* dx [tokens][cols] (float, ldx apart) = dy [tokens][rows] (real, ldy apart) W */
void gemm_dx(device *d, const pass &p, float *dx, int ldx, size_t sx, const void *dy, int ldy,
             size_t sy, const weight &w, int tokens);
/* w.grad [rows][ld(cols)] = (or += with add) dy^T x; column cols is the bias's gradient. */
void gemm_dw(device *d, const pass &p, const weight &w, const void *dy, int ldy, size_t sy,
             const void *x, size_t sx, int tokens, bool add);

/* ---- common kernels (common.cu) ---- */
/* Draws mask [slots][tokens][width] for this site; element (t * cols + b) * width + k. */
void draw_mask(device *d, const pass &p, uint8_t *mask, int width, int site);
/* expand computes every slot's dense weight; fold compresses w.grad, with biases, into d->grad. */
void expand(device *d, const pass &p, const weight &w, const float *theta, size_t theta_stride);
void fold(device *d, const pass &p, const weight &w);

/* Writes a pass's embedded words to d->x (and d->xf), with dropout. */
void embed(device *d, const pass &p, const float *theta, size_t theta_stride);
/* Computes from d->dx the encoder's gradient for the occurring words, and its part of the norm. */
void embed_back(device *d, const pass &p);
/* Completes a training step after all gradients: norm, clip, optimiser, next batch. */
void update(device *d, const pass &p);

/* ---- decoder, softmax and cross-entropy (head.cu) ---- */
/* Computes token_loss from top_out; in training also dtop and the decoder's gradients. */
void head(device *d, const pass &p, const float *theta, size_t theta_stride);
/* Adds the token losses of a pass to each slot's loss_sum and words_sum (evaluation). */
void add_losses(device *d, const pass &p);

/* ---- bodies ---- */
/* Memory of a body, planned in two passes as in model/nn/nn_plan.h: counting, then handing out. */
struct plan {
    char *base; /* NULL: counting */
    size_t used;
    template <class V> void take(V *&out, size_t bytes)
    {
        out = base ? (V *)(base + used) : NULL;
        used += (bytes + 255) / 256 * 256;
    }
};
void lstm_plan(device *d, plan *p);        /* layers' arrays; weights are planned by the caller */
void transformer_plan(device *d, plan *p);
/* Throws SEFL_EUNSUPPORTED if the attention does not fit this GPU. */
void transformer_check(const device *d);
/* Compute top_out from x. Dropout sites count up from 1 (0 is the embedding's). theta and state are
 * those of slot 0; theta_stride is the distance between slots (evaluation: 0). */
void lstm_forward(device *d, const pass &p, const float *theta, size_t theta_stride, float *state);
void transformer_forward(device *d, const pass &p, const float *theta, size_t theta_stride);
/* Compute dx and all gradients from dtop. Gradients of matrices are dense, in weight.grad, and the
 * caller folds them; those of vectors that are not a weight's bias are directly in d->grad. */
void lstm_backward(device *d, const pass &p);
void transformer_backward(device *d, const pass &p);

/* ---- sums of updates on the device (sums.cu) ---- */
struct sums;
void sums_begin(device *d, const engine_sum *how);
void sums_add(device *d, const engine_share *share, uint32_t n);
void sums_noise(device *d, const engine_noise *how);
void sums_end(device *d, void *out, size_t bytes);
void sums_free(device *d);
/* Adds noise to `values` integers (noise.cu). */
void noise_add(device *d, long long *total, size_t values, const engine_noise *how);

/* ---- small device helpers ---- */
template <class R> __device__ inline R to_real(float x);
template <> __device__ inline float to_real<float>(float x) { return x; }
template <> __device__ inline bf16 to_real<bf16>(float x) { return __float2bfloat16(x); }
__device__ inline float from_real(float x) { return x; }
__device__ inline float from_real(bf16 x) { return __bfloat162float(x); }

/* Store two or four adjacent operands; `to` is aligned to their total size. */
__device__ inline void store_pair(float *to, float a, float b)
{
    *(float2 *)to = make_float2(a, b);
}
__device__ inline void store_pair(bf16 *to, float a, float b)
{
    *(__nv_bfloat162 *)to = __floats2bfloat162_rn(a, b);
}

__device__ inline void store_four(float *to, float4 x)
{
    *(float4 *)to = x;
}
__device__ inline void store_four(bf16 *to, float4 x)
{
    __nv_bfloat162 y[2] = { __floats2bfloat162_rn(x.x, x.y), __floats2bfloat162_rn(x.z, x.w) };
    *(uint2 *)to = *(const uint2 *)y;
}

/* Computes one ChaCha20 block (RFC 8439 with a 64-bit counter), as in seeded/seeded.h. */
__device__ inline void chacha_block(uint32_t out[16], const uint32_t *key, uint64_t counter,
                                    uint32_t n0, uint32_t n1)
{
    uint32_t in[16] = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, key[0], key[1], key[2],
                        key[3],     key[4],     key[5],     key[6],     key[7],
                        (uint32_t)counter, (uint32_t)(counter >> 32), n0, n1 };
#pragma unroll
    for (int i = 0; i < 16; i++)
        out[i] = in[i];
#define SEFL_Q(a, b, c, d)                                                  \
    out[a] += out[b], out[d] = __funnelshift_l(out[d] ^ out[a], out[d] ^ out[a], 16), \
    out[c] += out[d], out[b] = __funnelshift_l(out[b] ^ out[c], out[b] ^ out[c], 12), \
    out[a] += out[b], out[d] = __funnelshift_l(out[d] ^ out[a], out[d] ^ out[a], 8),  \
    out[c] += out[d], out[b] = __funnelshift_l(out[b] ^ out[c], out[b] ^ out[c], 7)
#pragma unroll
    for (int i = 0; i < 10; i++) {
        SEFL_Q(0, 4, 8, 12);
        SEFL_Q(1, 5, 9, 13);
        SEFL_Q(2, 6, 10, 14);
        SEFL_Q(3, 7, 11, 15);
        SEFL_Q(0, 5, 10, 15);
        SEFL_Q(1, 6, 11, 12);
        SEFL_Q(2, 7, 8, 13);
        SEFL_Q(3, 4, 9, 14);
    }
#undef SEFL_Q
#pragma unroll
    for (int i = 0; i < 16; i++)
        out[i] += in[i];
}

/* Draws this thread's 32 of the n dropout bits, one ChaCha20 block (nn_dropout), and writes them to
 * mask[to(i)]; 1 keeps a value. */
template <class To>
__device__ inline void fill_mask(const slot &s, uint8_t *mask, uint64_t n, uint32_t site, To to)
{
    uint64_t block = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x, i = 32 * block;
    if (i >= n)
        return;
    uint32_t x[16];
    if (s.drop > 0)
        chacha_block(x, s.key, block, (uint32_t)s.at.done,
                     site | (uint32_t)(s.at.done >> 32) << 16);
#pragma unroll
    for (int k = 0; k < 32; k++) {
        if (i + k >= n)
            return;
        uint32_t coin = x[k / 2] >> (k % 2 * 16) & 0xffff;
        mask[to(i + k)] = s.drop == 0 || coin >= s.drop;
    }
}

#endif
