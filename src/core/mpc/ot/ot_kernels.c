/* The loops are written once, over plain words, and compiled for several instruction sets: the
 * compiler's vectoriser does what intrinsics would. The carry-less products, and the transposition
 * on processors with GFNI, have separate code. */
#include "mpc/ot/ot_kernels.h"

#include "base/cpu.h"
#include "base/ct.h"
#include "base/span.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
/* -O2 builds too should vectorise these loops */
#if defined(__GNUC__) && !defined(__clang__)
#define VECTOR __attribute__((optimize("O3")))
#else
#define VECTOR
#endif

typedef uint64_t word __attribute__((may_alias, aligned(1)));

INLINE void fold_body(uint8_t *v, uint8_t *left, const uint8_t *right, size_t n)
{
    word *restrict a = (word *)v, *restrict b = (word *)left;
    const word *restrict c = (const word *)right;
    for (size_t i = 0; i < n / 8; i++) {
        a[i] ^= c[i];
        b[i] ^= c[i];
    }
}

INLINE void fold_first_body(uint8_t *v, uint8_t *left, const uint8_t *right, size_t n)
{
    word *restrict a = (word *)v, *restrict b = (word *)left;
    const word *restrict c = (const word *)right;
    for (size_t i = 0; i < n / 8; i++) {
        a[i] = c[i];
        b[i] ^= c[i];
    }
}

INLINE void add_masked_body(uint8_t *dst, const uint8_t *src, uint64_t mask, size_t n)
{
    word *restrict a = (word *)dst;
    const word *restrict b = (const word *)src;
    mask = ct_barrier_u64(mask);
    for (size_t i = 0; i < n / 8; i++)
        a[i] ^= b[i] & mask;
}

/* A 128 x 128 bit block in 7 steps: step s swaps the off-diagonal quarters of every square of
 * 2^(s+1) bits. Rows are pairs of words, low half first. */
INLINE void transpose_block(uint64_t m[256])
{
    for (unsigned r = 0; r < 64; r++) { /* squares of 128: whole words */
        uint64_t t = m[2 * r + 1];
        m[2 * r + 1] = m[2 * (r + 64)];
        m[2 * (r + 64)] = t;
    }
#define STEP(J, MASK)                                               \
    for (unsigned top = 0; top < 128; top += 2 * (J))               \
        for (unsigned w = 2 * top; w < 2 * (top + (J)); w++) {      \
            uint64_t t = ((m[w] >> (J)) ^ m[w + 2 * (J)]) & (MASK); \
            m[w + 2 * (J)] ^= t;                                    \
            m[w] ^= t << (J);                                       \
        }
    STEP(32, 0x00000000ffffffffu)
    STEP(16, 0x0000ffff0000ffffu)
    STEP(8, 0x00ff00ff00ff00ffu)
    STEP(4, 0x0f0f0f0f0f0f0f0fu)
    STEP(2, 0x3333333333333333u)
    STEP(1, 0x5555555555555555u)
#undef STEP
}

INLINE void transpose_body(uint8_t *rows, const uint8_t *columns, size_t stride, size_t n)
{
    _Alignas(64) uint64_t m[256];
    for (size_t at = 0; at < n; at += 16) {
        for (unsigned c = 0; c < 128; c++)
            memcpy(m + 2 * c, columns + c * stride + at, 16);
        transpose_block(m);
        memcpy(rows + at * 128, m, sizeof m);
    }
    sefl_wipe(m, sizeof m);
}

/* ---- reference ---- */

static void fold_ref(uint8_t *v, uint8_t *left, const uint8_t *right, size_t n)
{
    fold_body(v, left, right, n);
}

static void fold_first_ref(uint8_t *v, uint8_t *left, const uint8_t *right, size_t n)
{
    fold_first_body(v, left, right, n);
}

static void add_masked_ref(uint8_t *dst, const uint8_t *src, uint64_t mask, size_t n)
{
    add_masked_body(dst, src, mask, n);
}

static void dot_ref(uint64_t acc[2], const uint8_t *data, const uint64_t *chi, size_t n)
{
    uint64_t lo = 0, hi = 0;
    for (size_t i = 0; i < n / 8; i++) {
        uint64_t x = load_u64(data + 8 * i), c = chi[i];
        lo ^= c & ct_mask_u64(x & 1);
        for (unsigned b = 1; b < 64; b++) {
            uint64_t take = ct_mask_u64(x >> b & 1);
            lo ^= c << b & take;
            hi ^= c >> (64 - b) & take;
        }
    }
    acc[0] ^= lo;
    acc[1] ^= hi;
}

static void transpose_ref(uint8_t *rows, const uint8_t *columns, size_t stride, size_t n)
{
    transpose_body(rows, columns, stride, n);
}

uint64_t ot_gf64_reduce(const uint64_t wide[2])
{
    uint64_t hi = wide[1];
    uint64_t over = (hi >> 63) ^ (hi >> 61) ^ (hi >> 60); /* what x^4, x^3, x push past x^64 */
    hi ^= over;
    return wide[0] ^ hi ^ hi << 1 ^ hi << 3 ^ hi << 4;
}

static const ot_kernels ref = { "ref",         fold_ref, fold_first_ref, add_masked_ref, dot_ref,
                                transpose_ref, NULL };

#if defined(__x86_64__)
__attribute__((target("pclmul,sse2"))) static void dot_clmul(uint64_t acc[2], const uint8_t *data,
                                                             const uint64_t *chi, size_t n)
{
    __m128i a = _mm_setzero_si128(), b = a, c = a, d = a;
    for (size_t i = 0; i < n; i += 32) {
        __m128i x = _mm_loadu_si128((const __m128i *)(data + i));
        __m128i y = _mm_loadu_si128((const __m128i *)(data + i + 16));
        __m128i p = _mm_loadu_si128((const __m128i *)(chi + i / 8));
        __m128i q = _mm_loadu_si128((const __m128i *)(chi + i / 8 + 2));
        a = _mm_xor_si128(a, _mm_clmulepi64_si128(x, p, 0x00));
        b = _mm_xor_si128(b, _mm_clmulepi64_si128(x, p, 0x11));
        c = _mm_xor_si128(c, _mm_clmulepi64_si128(y, q, 0x00));
        d = _mm_xor_si128(d, _mm_clmulepi64_si128(y, q, 0x11));
    }
    a = _mm_xor_si128(_mm_xor_si128(a, b), _mm_xor_si128(c, d));
    uint64_t out[2];
    _mm_storeu_si128((__m128i *)out, a);
    acc[0] ^= out[0];
    acc[1] ^= out[1];
}

#define PATH(name, isa)                                                                       \
    __attribute__((target(isa)))                                                              \
    VECTOR static void fold_##name(uint8_t *v, uint8_t *left, const uint8_t *right, size_t n) \
    {                                                                                         \
        fold_body(v, left, right, n);                                                         \
    }                                                                                         \
    __attribute__((target(isa))) VECTOR static void fold_first_##name(                        \
        uint8_t *v, uint8_t *left, const uint8_t *right, size_t n)                            \
    {                                                                                         \
        fold_first_body(v, left, right, n);                                                   \
    }                                                                                         \
    __attribute__((target(isa))) VECTOR static void add_masked_##name(                        \
        uint8_t *dst, const uint8_t *src, uint64_t mask, size_t n)                            \
    {                                                                                         \
        add_masked_body(dst, src, mask, n);                                                   \
    }                                                                                         \
    __attribute__((target(isa))) VECTOR static void transpose_##name(                         \
        uint8_t *rows, const uint8_t *columns, size_t stride, size_t n)                       \
    {                                                                                         \
        transpose_body(rows, columns, stride, n);                                             \
    }                                                                                         \
    static const ot_kernels kernels_##name = { #name,                                         \
                                               fold_##name,                                   \
                                               fold_first_##name,                             \
                                               add_masked_##name,                             \
                                               dot_clmul,                                     \
                                               transpose_##name,                              \
                                               NULL };
PATH(avx2, "avx2")
#if defined(__clang__)
PATH(avx512, "avx512f,avx512bw,avx512dq,avx512vl")
#else
PATH(avx512, "avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif
#undef PATH

#define GFNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,gfni,vpclmulqdq")))

GFNI static void dot_gfni(uint64_t acc[2], const uint8_t *data, const uint64_t *chi, size_t n)
{
    __m512i a = _mm512_setzero_si512(), b = a;
    uint64_t out[8];
    for (size_t i = 0; i < n; i += 64) {
        __m512i x = _mm512_loadu_si512(data + i), p = _mm512_loadu_si512(chi + i / 8);
        a = _mm512_xor_si512(a, _mm512_clmulepi64_epi128(x, p, 0x00));
        b = _mm512_xor_si512(b, _mm512_clmulepi64_epi128(x, p, 0x11));
    }
    _mm512_storeu_si512(out, _mm512_xor_si512(a, b));
    acc[0] ^= out[0] ^ out[2] ^ out[4] ^ out[6];
    acc[1] ^= out[1] ^ out[3] ^ out[5] ^ out[7];
}

/* One round of a perfect shuffle of the bytes of `regs` registers, in each 128-bit lane: register
 * and byte number, taken as one number, rotate left by a bit. */
#define SHUFFLE(y, x, regs)                                                 \
    for (unsigned i = 0; i < (regs) / 2; i++) {                             \
        (y)[2 * i] = _mm512_unpacklo_epi8((x)[i], (x)[i + (regs) / 2]);     \
        (y)[2 * i + 1] = _mm512_unpackhi_epi8((x)[i], (x)[i + (regs) / 2]); \
    }

/* 512 rows at a time. Three shuffles bring the bytes of eight columns together, an affine map with
 * the identity turns each 8 x 8 bits, four shuffles make rows of sixteen such bytes. */
GFNI static void transpose_gfni(uint8_t *rows, const uint8_t *columns, size_t stride, size_t n)
{
    const __m512i identity = _mm512_set1_epi64((long long)0x8040201008040201u);
    __m512i t[8][16], x[16], y[16];
    for (size_t at = 0; at < n; at += 64) {
        for (unsigned g = 0; g < 16; g++) {
            for (unsigned c = 0; c < 8; c++) /* backwards: the affine map counts rows down */
                x[7 - c] = _mm512_loadu_si512(columns + (8 * g + c) * stride + at);
            SHUFFLE(y, x, 8)
            SHUFFLE(x, y, 8)
            SHUFFLE(y, x, 8)
            for (unsigned j = 0; j < 8; j++)
                t[j][g] = _mm512_gf2p8affine_epi64_epi8(identity, y[j], 0);
        }
        for (unsigned j = 0; j < 8; j++) {
            uint8_t *to = rows + (at * 8 + 16 * j) * 16;
            SHUFFLE(x, t[j], 16)
            SHUFFLE(y, x, 16)
            SHUFFLE(x, y, 16)
            SHUFFLE(y, x, 16)
            for (unsigned p = 0; p < 16; p++) { /* lane l: row 128 l + 16 j + p */
                _mm_storeu_si128((__m128i *)(to + p * 16), _mm512_castsi512_si128(y[p]));
                _mm_storeu_si128((__m128i *)(to + 2048 + p * 16),
                                 _mm512_extracti32x4_epi32(y[p], 1));
                _mm_storeu_si128((__m128i *)(to + 4096 + p * 16),
                                 _mm512_extracti32x4_epi32(y[p], 2));
                _mm_storeu_si128((__m128i *)(to + 6144 + p * 16),
                                 _mm512_extracti32x4_epi32(y[p], 3));
            }
        }
    }
    sefl_wipe(t, sizeof t);
    sefl_wipe(x, sizeof x);
    sefl_wipe(y, sizeof y);
}

static void transpose_gfni_any(uint8_t *rows, const uint8_t *columns, size_t stride, size_t n)
{
    size_t whole = n / 64 * 64;
    transpose_gfni(rows, columns, stride, whole);
    transpose_avx512(rows + whole * 128, columns + whole, stride, n - whole);
}

/* 16 blocks of each leaf's stream at a time; the five sums stay in registers while the leaves pass:
 * 20 for them, 4 for the blocks in flight, 4 for the counters. */
#define LEAF(y)                                                                                   \
    do {                                                                                          \
        const uint8_t *rk = key[y].rk;                                                            \
        __m512i k = ROUND_KEY(rk, 0), s0 = _mm512_xor_si512(c0, k), s1 = _mm512_xor_si512(c1, k), \
                s2 = _mm512_xor_si512(c2, k), s3 = _mm512_xor_si512(c3, k);                       \
        for (unsigned r = 1; r < AES_ROUNDS; r++) {                                               \
            k = ROUND_KEY(rk, r);                                                                 \
            s0 = _mm512_aesenc_epi128(s0, k), s1 = _mm512_aesenc_epi128(s1, k);                   \
            s2 = _mm512_aesenc_epi128(s2, k), s3 = _mm512_aesenc_epi128(s3, k);                   \
        }                                                                                         \
        k = ROUND_KEY(rk, AES_ROUNDS);                                                            \
        s0 = _mm512_aesenclast_epi128(s0, k), s1 = _mm512_aesenclast_epi128(s1, k);               \
        s2 = _mm512_aesenclast_epi128(s2, k), s3 = _mm512_aesenclast_epi128(s3, k);               \
        ADD4(a);                                                                                  \
        if ((y)&1)                                                                                \
            ADD4(b);                                                                              \
        if ((y)&2)                                                                                \
            ADD4(d);                                                                              \
        if ((y)&4)                                                                                \
            ADD4(e);                                                                              \
        if ((y)&8)                                                                                \
            ADD4(f);                                                                              \
    } while (0)
#define ROUND_KEY(rk, r) \
    _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)(const void *)((rk) + 16 * (r))))
#define ADD4(x)                                                           \
    x##0 = _mm512_xor_si512(x##0, s0), x##1 = _mm512_xor_si512(x##1, s1), \
    x##2 = _mm512_xor_si512(x##2, s2), x##3 = _mm512_xor_si512(x##3, s3)
#define ZERO4(x) __m512i x##0 = _mm512_setzero_si512(), x##1 = x##0, x##2 = x##0, x##3 = x##0
#define STORE4(p, x)                                                     \
    _mm512_storeu_si512((p), x##0), _mm512_storeu_si512((p) + 64, x##1), \
        _mm512_storeu_si512((p) + 128, x##2), _mm512_storeu_si512((p) + 192, x##3)

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,vaes"))) static void
tree16_vaes(uint8_t *u, uint8_t *columns, size_t stride, const aes128 key[16], bool hole,
            uint64_t nonce, uint64_t counter, size_t n)
{
    const __m512i swap =
        _mm512_broadcast_i32x4(_mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    const __m512i four = _mm512_set_epi64(4, 0, 4, 0, 4, 0, 4, 0);
    const long long at = (long long)counter, no = (long long)nonce;
    __m512i count = _mm512_set_epi64(at + 3, no, at + 2, no, at + 1, no, at, no);
    for (size_t i = 0; i < n; i += 256) {
        ZERO4(a);
        ZERO4(b);
        ZERO4(d);
        ZERO4(e);
        ZERO4(f);
        const __m512i c0 = _mm512_shuffle_epi8(count, swap);
        count = _mm512_add_epi64(count, four);
        const __m512i c1 = _mm512_shuffle_epi8(count, swap);
        count = _mm512_add_epi64(count, four);
        const __m512i c2 = _mm512_shuffle_epi8(count, swap);
        count = _mm512_add_epi64(count, four);
        const __m512i c3 = _mm512_shuffle_epi8(count, swap);
        count = _mm512_add_epi64(count, four);
        if (!hole)
            LEAF(0);
        LEAF(1);
        LEAF(2);
        LEAF(3);
        LEAF(4);
        LEAF(5);
        LEAF(6);
        LEAF(7);
        LEAF(8);
        LEAF(9);
        LEAF(10);
        LEAF(11);
        LEAF(12);
        LEAF(13);
        LEAF(14);
        LEAF(15);
        STORE4(u + i, a);
        STORE4(columns + i, b);
        STORE4(columns + stride + i, d);
        STORE4(columns + 2 * stride + i, e);
        STORE4(columns + 3 * stride + i, f);
    }
}
#undef LEAF
#undef ROUND_KEY
#undef ADD4
#undef ZERO4
#undef STORE4

#define KERNELS_GFNI(name, tree16)                                                             \
    {                                                                                          \
        name, fold_avx512, fold_first_avx512, add_masked_avx512, dot_gfni, transpose_gfni_any, \
            tree16                                                                             \
    }
static const ot_kernels kernels_gfni = KERNELS_GFNI("avx512+gfni", NULL);
static const ot_kernels kernels_vaes = KERNELS_GFNI("avx512+gfni+vaes", tree16_vaes);
#endif

const ot_kernels *ot_kernels_at(unsigned i, unsigned *end)
{
    const cpu_features *cpu = cpu_get();
    (void)cpu;
    *end = 5;
#if defined(__x86_64__)
    if (i == 1 && cpu->avx2 && cpu->pclmul)
        return &kernels_avx2;
    if (i == 2 && cpu->avx512 && cpu->pclmul)
        return &kernels_avx512;
    if (i == 3 && cpu->avx512 && cpu->gfni && cpu->vpclmul)
        return &kernels_gfni;
    if (i == 4 && cpu->avx512 && cpu->gfni && cpu->vpclmul && cpu->vaes)
        return &kernels_vaes;
#endif
    return i == 0 ? &ref : NULL;
}

const ot_kernels *ot_kernels_best(void)
{
    const ot_kernels *best = NULL;
    unsigned end, i;
    ot_kernels_at(0, &end);
    for (i = end; !best;)
        best = ot_kernels_at(--i, &end);
    return best;
}
