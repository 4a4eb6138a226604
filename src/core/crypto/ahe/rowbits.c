/* Eight numbers of `bits` bits are exactly `bits` bytes, so one pattern of offsets and shifts
 * serves every eight. Three ways:
 *   portable   number k: 8 bytes from its first one, shifted and masked (bits <= 56: they suffice)
 *   avx2       the same for pairs: 16 bytes from the first of the even number, a byte shuffle, a
 *              shift for each number
 *   avx512     for eight: a shuffle of 16-bit words puts each number's four words in its lane.
 *              Packing reverses that for even and odd numbers separately, because neighbours share
 *              a word but numbers two apart do not: 16 <= bits, and bits + 15 <= 64 */
#include "crypto/ahe/rowbits.h"

#include "base/cpu.h"
#include "base/span.h"

#include <assert.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2   __attribute__((target("avx2,bmi2")))
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))
#endif

enum { WORDS_MIN = 16, WORDS_MAX = 49 };

bool rowbits_path_has(rowbits_path path)
{
    const cpu_features *cpu = cpu_get();
    switch (path) {
    case ROWBITS_PORTABLE:
        return true;
    case ROWBITS_AVX2:
        return cpu->avx2;
    case ROWBITS_AVX512:
        return cpu->avx512 && cpu->avx2;
    default:
        return false;
    }
}

rowbits_path rowbits_path_best(void)
{
    return rowbits_path_has(ROWBITS_AVX512) ? ROWBITS_AVX512
           : rowbits_path_has(ROWBITS_AVX2) ? ROWBITS_AVX2
                                            : ROWBITS_PORTABLE;
}

void rowbits_init(rowbits *b, unsigned bits, rowbits_path path)
{
    assert(bits >= ROWBITS_MIN && bits <= ROWBITS_MAX && rowbits_path_has(path));
    *b = (rowbits){ .bits = bits, .mask = ((uint64_t)1 << bits) - 1, .path = path };
    if (path == ROWBITS_AVX512 && (bits < WORDS_MIN || bits > WORDS_MAX))
        b->path = ROWBITS_AVX2;
    unsigned unit = b->path == ROWBITS_AVX512 ? 16 : 8; /* bits of what a shuffle moves */
    for (unsigned k = 0; k < 8; k++) {
        b->offset[k] = k * bits / 8;
        b->shift[k] = k * bits % unit;
    }
    for (unsigned k = 0; k < 8; k++)
        for (unsigned j = 0; j < 8; j++)
            b->take4[k / 2][8 * (k % 2) + j] =
                (uint8_t)(b->offset[k] - b->offset[k / 2 * 2] + j); /* at most 7 + 7 */
    for (unsigned k = 0; k < 8 && b->path == ROWBITS_AVX512; k++) {
        unsigned first = k * bits / 16, last = (k * bits + bits - 1) / 16;
        for (unsigned j = 0; j < 4; j++)
            b->take[4 * k + j] = (uint16_t)(first + j);
        for (unsigned o = first; o <= last; o++) {
            b->put[k % 2][o] = (uint16_t)(4 * k + o - first);
            b->put_mask[k % 2] |= (uint32_t)1 << o;
        }
    }
}

/* ---- portable -------------------------------------------------------------------------------- */

/* Widths known at compile time make shifts and branches constant; these are the common ones. */
#define FOR_WIDTH(call) \
    switch (b->bits) {  \
    case 28:            \
        call(28);       \
        break;          \
    case 38:            \
        call(38);       \
        break;          \
    case 42:            \
        call(42);       \
        break;          \
    default:            \
        call(b->bits);  \
    }

static inline __attribute__((always_inline)) void unpack8(uint64_t *out, const uint8_t *in,
                                                          unsigned bits, bool add)
{
    uint64_t mask = ~(uint64_t)0 >> (64 - bits);
    _Pragma("GCC unroll 8") for (unsigned k = 0; k < 8; k++)
    {
        uint64_t x = load_u64(in + k * bits / 8) >> (k * bits % 8) & mask;
        out[k] = add ? out[k] + x : x;
    }
}

static inline __attribute__((always_inline)) void unpack_row(uint64_t *out, const uint8_t *in,
                                                             size_t n, unsigned bits, bool add)
{
    for (; n > 0 && n / 8 * bits >= bits + 8; n -= 8, in += bits, out += 8)
        unpack8(out, in, bits, add);
    for (; n > 0; n -= 8, in += bits, out += 8) { /* near the end: 8 bytes may reach beyond it */
        uint8_t last[ROWBITS_MAX + 8] = { 0 };
        memcpy(last, in, bits);
        unpack8(out, last, bits, add);
    }
}

static void unpack_portable(const rowbits *b, uint64_t *out, const uint8_t *in, size_t n)
{
#define CALL(bits) unpack_row(out, in, n, bits, false)
    FOR_WIDTH(CALL)
#undef CALL
}

static void add_portable(const rowbits *b, uint64_t *sum, const uint8_t *in, size_t n)
{
#define CALL(bits) unpack_row(sum, in, n, bits, true)
    FOR_WIDTH(CALL)
#undef CALL
}

static inline __attribute__((always_inline)) void pack_row(uint8_t *out, const uint64_t *in,
                                                           size_t n, unsigned bits)
{
    uint64_t mask = ~(uint64_t)0 >> (64 - bits);
    for (; n > 0; n -= 8, in += 8) {
        uint64_t word = 0;
        unsigned fill = 0; /* bits in word; public */
        _Pragma("GCC unroll 8") for (unsigned k = 0; k < 8; k++)
        {
            uint64_t x = in[k] & mask;
            word |= x << fill;
            fill += bits;
            if (fill >= 64) {
                store_u64(out, word);
                out += 8;
                fill -= 64;
                word = fill ? x >> (bits - fill) : 0;
            }
        }
        for (; fill > 0; fill -= 8, word >>= 8) /* 8 numbers end on a byte */
            *out++ = (uint8_t)word;
    }
}

static void pack_portable(const rowbits *b, uint8_t *out, const uint64_t *in, size_t n)
{
#define CALL(bits) pack_row(out, in, n, bits)
    FOR_WIDTH(CALL)
#undef CALL
}

/* ---- avx2 ------------------------------------------------------------------------------------ */

#if defined(__x86_64__)
static inline __attribute__((always_inline)) AVX2 void
unpack_row_avx2(const rowbits *b, uint64_t *out, const uint8_t *in, size_t n, bool add)
{
    __m256i mask = _mm256_set1_epi64x((long long)b->mask);
    __m256i take[2], shift[2];
    for (int i = 0; i < 2; i++) {
        take[i] = _mm256_loadu_si256((const __m256i *)b->take4[2 * i]);
        shift[i] = _mm256_loadu_si256((const __m256i *)(b->shift + 4 * i));
    }
    size_t reach = b->offset[6] + 16;
    for (; n > 0 && n / 8 * b->bits >= reach; n -= 8, in += b->bits, out += 8)
        for (int i = 0; i < 2; i++) {
            __m128i lo = _mm_loadu_si128((const __m128i *)(in + b->offset[4 * i]));
            __m128i hi = _mm_loadu_si128((const __m128i *)(in + b->offset[4 * i + 2]));
            __m256i x = _mm256_inserti128_si256(_mm256_castsi128_si256(lo), hi, 1);
            x = _mm256_and_si256(_mm256_srlv_epi64(_mm256_shuffle_epi8(x, take[i]), shift[i]),
                                 mask);
            __m256i *to = (__m256i *)(out + 4 * i);
            _mm256_storeu_si256(to, add ? _mm256_add_epi64(_mm256_loadu_si256(to), x) : x);
        }
    unpack_row(out, in, n, b->bits, add);
}

static AVX2 void unpack_avx2(const rowbits *b, uint64_t *out, const uint8_t *in, size_t n)
{
    unpack_row_avx2(b, out, in, n, false);
}

static AVX2 void add_avx2(const rowbits *b, uint64_t *sum, const uint8_t *in, size_t n)
{
    unpack_row_avx2(b, sum, in, n, true);
}

static AVX2 void pack_avx2(const rowbits *b, uint8_t *out, const uint64_t *in, size_t n)
{
#define CALL(bits) pack_row(out, in, n, bits)
    FOR_WIDTH(CALL)
#undef CALL
}

/* ---- avx512 ---------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) AVX512 void
unpack_row_avx512(const rowbits *b, uint64_t *out, const uint8_t *in, size_t n, bool add)
{
    __m512i mask = _mm512_set1_epi64((long long)b->mask);
    __m512i take = _mm512_load_si512(b->take), shift = _mm512_loadu_si512(b->shift);
    __mmask64 have = ((uint64_t)1 << b->bits) - 1; /* reads nothing beyond these bytes */
    for (; n > 0; n -= 8, in += b->bits, out += 8) {
        __m512i x = _mm512_maskz_loadu_epi8(have, in);
        x = _mm512_permutexvar_epi16(take, x);
        x = _mm512_and_si512(_mm512_srlv_epi64(x, shift), mask);
        _mm512_storeu_si512(out, add ? _mm512_add_epi64(_mm512_loadu_si512(out), x) : x);
    }
}

static AVX512 void unpack_avx512(const rowbits *b, uint64_t *out, const uint8_t *in, size_t n)
{
    unpack_row_avx512(b, out, in, n, false);
}

static AVX512 void add_avx512(const rowbits *b, uint64_t *sum, const uint8_t *in, size_t n)
{
    unpack_row_avx512(b, sum, in, n, true);
}

static AVX512 void pack_avx512(const rowbits *b, uint8_t *out, const uint64_t *in, size_t n)
{
    __m512i mask = _mm512_set1_epi64((long long)b->mask), up = _mm512_loadu_si512(b->shift);
    __m512i even = _mm512_load_si512(b->put[0]), odd = _mm512_load_si512(b->put[1]);
    __mmask64 have = ((uint64_t)1 << b->bits) - 1;
    for (; n > 0; n -= 8, in += 8, out += b->bits) {
        __m512i x = _mm512_and_si512(_mm512_loadu_si512(in), mask);
        x = _mm512_sllv_epi64(x, up);
        x = _mm512_or_si512(_mm512_maskz_permutexvar_epi16(b->put_mask[0], even, x),
                            _mm512_maskz_permutexvar_epi16(b->put_mask[1], odd, x));
        _mm512_mask_storeu_epi8(out, have, x);
    }
}

#endif

/* ---- choice ---------------------------------------------------------------------------------- */

static const struct path {
    void (*pack)(const rowbits *b, uint8_t *out, const uint64_t *in, size_t n);
    void (*unpack)(const rowbits *b, uint64_t *out, const uint8_t *in, size_t n);
    void (*add)(const rowbits *b, uint64_t *sum, const uint8_t *in, size_t n);
} paths[] = {
    [ROWBITS_PORTABLE] = { pack_portable, unpack_portable, add_portable },
#if defined(__x86_64__)
    [ROWBITS_AVX2] = { pack_avx2, unpack_avx2, add_avx2 },
    [ROWBITS_AVX512] = { pack_avx512, unpack_avx512, add_avx512 },
#endif
};

void rowbits_pack(const rowbits *b, uint8_t *out, const uint64_t *in, size_t n)
{
    assert(n % 8 == 0);
    paths[b->path].pack(b, out, in, n);
}

void rowbits_unpack(const rowbits *b, uint64_t *out, const uint8_t *in, size_t n)
{
    assert(n % 8 == 0);
    paths[b->path].unpack(b, out, in, n);
}

void rowbits_add(const rowbits *b, uint64_t *sum, const uint8_t *in, size_t n)
{
    assert(n % 8 == 0);
    paths[b->path].add(b, sum, in, n);
}
