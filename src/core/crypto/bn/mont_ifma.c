/* Eight Montgomery products at once with vpmadd52luq / vpmadd52huq.
 *
 * Digits have 52 bits, one per 64-bit lane, so sums of up to 2^12 partial products need no carry:
 * with at most 160 digits a column collects 4 * 160 of them, below 2^62. Rows are processed four at
 * a time: the four low columns give the four quotient digits, the other columns are independent of
 * each other (sixteen multiplications each, two accumulators, operands in a sliding window), so
 * that the multipliers stay busy. The carry chain runs once, at the end.
 *
 * Range: R is at least 2^8 times the modulus m. A product is x*y/R + m' with m' <= m: below 1.1m
 * for factors below 5m or loaded numbers of the modulus' length, below 2.1m where one factor is any
 * number below R and the other a product; sums of two products stay below 5m. So no subtraction is
 * needed before the store, which takes numbers below 3m: products, and a product plus a number
 * below m.
 *
 * No branch and no address depends on the numbers or the modulus. */
#if defined(__x86_64__)
#include "crypto/bn/mont_ifma.h"

#include "base/ct.h"

#include <assert.h>
#include <immintrin.h>
#include <string.h>

#define IFMA __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512ifma,bmi2")))

typedef __m512i v8;
#define LO(acc, a, b) _mm512_madd52lo_epu64((acc), (a), (b))
#define HI(acc, a, b) _mm512_madd52hi_epu64((acc), (a), (b))

enum { DIGIT_BITS = 52 };
#define DIGIT_MASK (((uint64_t)1 << DIGIT_BITS) - 1)

IFMA static inline v8 get(const uint64_t *x, unsigned i)
{
    return _mm512_load_si512(x + 8 * (size_t)i);
}

IFMA static inline void put(uint64_t *x, unsigned i, v8 v)
{
    _mm512_store_si512(x + 8 * (size_t)i, v);
}

IFMA static inline v8 all(uint64_t v)
{
    return _mm512_set1_epi64((long long)v);
}

/* z = t after carry propagation; t has n columns. */
IFMA static void carry_out(uint64_t *z, const uint64_t *t, unsigned n)
{
    v8 mask = all(DIGIT_MASK), carry = _mm512_setzero_si512();
    for (unsigned i = 0; i < n; i++) {
        v8 c = _mm512_add_epi64(get(t, i), carry);
        put(z, i, _mm512_and_si512(c, mask));
        carry = _mm512_srli_epi64(c, DIGIT_BITS);
    }
}

/* rows: NULL, or what to prefetch, four cache lines in each of the words/4 steps. rest, add: NULL,
 * or those of mul_rest and mul_add (mont.h). */
IFMA static inline __attribute__((always_inline)) void
multiply(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y,
         const uint64_t *const *rows, uint64_t *rest, const uint64_t *add)
{
    const unsigned lines = (m->words + 7) / 8;
    unsigned lane = 0, line = 0;
    uint64_t t[MONT_BATCH_MAX] __attribute__((aligned(64)));
    const uint64_t *mod = m->word;
    const unsigned n = m->words;
    const v8 zero = _mm512_setzero_si512(), k = all(m->k);
    const v8 x0 = get(x, 0), x1 = get(x, 1), x2 = get(x, 2), x3 = get(x, 3);
    const v8 m0 = all(mod[0]), m1 = all(mod[1]), m2 = all(mod[2]), m3 = all(mod[3]);

    for (unsigned i = 0; i < n; i++)
        put(t, i, add ? get(add, i) : zero);
    for (unsigned i = 0; i < n; i += 4) {
        const v8 y0 = get(y, i), y1 = get(y, i + 1), y2 = get(y, i + 2), y3 = get(y, i + 3);
        v8 c, d, q0, q1, q2, q3;
        for (int l = 0; rows && l < 4; l++) {
            __builtin_prefetch(rows[lane] + 8 * line);
            if (++line == lines)
                line = 0, lane = lane < 7 ? lane + 1 : 7;
        }
        /* columns 0 to 3: quotient digits */
        c = LO(get(t, 0), x0, y0);
        q0 = LO(zero, c, k);
        c = LO(c, m0, q0);
        d = _mm512_srli_epi64(c, DIGIT_BITS);

        c = HI(LO(get(t, 1), x1, y0), x0, y0);
        d = HI(LO(d, m1, q0), m0, q0);
        c = _mm512_add_epi64(LO(c, x0, y1), d);
        q1 = LO(zero, c, k);
        c = LO(c, m0, q1);
        d = _mm512_srli_epi64(c, DIGIT_BITS);

        c = HI(LO(get(t, 2), x2, y0), x1, y0);
        c = HI(LO(c, x1, y1), x0, y1);
        d = HI(LO(d, m2, q0), m1, q0);
        d = HI(LO(d, m1, q1), m0, q1);
        c = _mm512_add_epi64(LO(c, x0, y2), d);
        q2 = LO(zero, c, k);
        c = LO(c, m0, q2);
        d = _mm512_srli_epi64(c, DIGIT_BITS);

        c = HI(LO(get(t, 3), x3, y0), x2, y0);
        c = HI(LO(c, x2, y1), x1, y1);
        c = HI(LO(c, x1, y2), x0, y2);
        d = HI(LO(d, m3, q0), m2, q0);
        d = HI(LO(d, m2, q1), m1, q1);
        d = HI(LO(d, m1, q2), m0, q2);
        c = _mm512_add_epi64(LO(c, x0, y3), d);
        q3 = LO(zero, c, k);
        c = LO(c, m0, q3);
        v8 carry = _mm512_srli_epi64(c, DIGIT_BITS);
        if (rest) { /* 2^52 - 1 - q, and the constant: digits below 2^53, which `add` takes */
            const v8 mask = all(DIGIT_MASK);
            put(rest, i, _mm512_add_epi64(_mm512_sub_epi64(mask, q0), all(m->fix[i])));
            put(rest, i + 1, _mm512_add_epi64(_mm512_sub_epi64(mask, q1), all(m->fix[i + 1])));
            put(rest, i + 2, _mm512_add_epi64(_mm512_sub_epi64(mask, q2), all(m->fix[i + 2])));
            put(rest, i + 3, _mm512_add_epi64(_mm512_sub_epi64(mask, q3), all(m->fix[i + 3])));
        }

        /* columns 4 to n-1; digit j of x and of the modulus is in place j mod 4 of the window, from
         * column j on until column j + 4 */
        v8 a = x0, b = x1, cc = x2, dd = x3, e = m0, f = m1, g = m2, h = m3, s;
#define COLUMN(j, X0, X1, X2, X3, M0, M1, M2, M3)     \
    do {                                              \
        s = HI(get(t, (j)), X0, y3);                  \
        carry = HI(carry, M0, q3);                    \
        X0 = get(x, (j)), M0 = all(mod[j]);           \
        s = LO(s, X1, y3), carry = LO(carry, M1, q3); \
        s = HI(s, X1, y2), carry = HI(carry, M1, q2); \
        s = LO(s, X2, y2), carry = LO(carry, M2, q2); \
        s = HI(s, X2, y1), carry = HI(carry, M2, q1); \
        s = LO(s, X3, y1), carry = LO(carry, M3, q1); \
        s = HI(s, X3, y0), carry = HI(carry, M3, q0); \
        s = LO(s, X0, y0), carry = LO(carry, M0, q0); \
        put(t, (j)-4, _mm512_add_epi64(s, carry));    \
        carry = zero;                                 \
    } while (0)
        for (unsigned j = 4; j < n; j += 4) {
            COLUMN(j, a, b, cc, dd, e, f, g, h);
            COLUMN(j + 1, b, cc, dd, a, f, g, h, e);
            COLUMN(j + 2, cc, dd, a, b, g, h, e, f);
            COLUMN(j + 3, dd, a, b, cc, h, e, f, g);
        }
#undef COLUMN
        /* columns n to n+3; dd and h are the last digits */
        s = LO(LO(LO(carry, dd, y1), cc, y2), b, y3);
        s = HI(HI(HI(HI(s, dd, y0), cc, y1), b, y2), a, y3);
        d = LO(LO(LO(zero, h, q1), g, q2), f, q3);
        d = HI(HI(HI(HI(d, h, q0), g, q1), f, q2), e, q3);
        put(t, n - 4, _mm512_add_epi64(s, d));
        s = HI(HI(HI(LO(LO(zero, dd, y2), cc, y3), dd, y1), cc, y2), b, y3);
        d = HI(HI(HI(LO(LO(zero, h, q2), g, q3), h, q1), g, q2), f, q3);
        put(t, n - 3, _mm512_add_epi64(s, d));
        s = HI(HI(LO(zero, dd, y3), dd, y2), cc, y3);
        d = HI(HI(LO(zero, h, q3), h, q2), g, q3);
        put(t, n - 2, _mm512_add_epi64(s, d));
        put(t, n - 1, HI(HI(zero, dd, y3), h, q3));
    }
    carry_out(z, t, n);
}

IFMA static void ifma_mul(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y)
{
    multiply(m, z, x, y, NULL, NULL, NULL);
}

IFMA static void ifma_mul_fetch(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y,
                                const uint64_t *const *rows)
{
    multiply(m, z, x, y, rows, NULL, NULL);
}

IFMA static void ifma_sqr(const mont *m, uint64_t *z, const uint64_t *x)
{
    multiply(m, z, x, x, NULL, NULL, NULL);
}

IFMA static void ifma_mul_rest(const mont *m, uint64_t *z, uint64_t *rest, const uint64_t *x,
                               const uint64_t *y)
{
    multiply(m, z, x, y, NULL, rest, NULL);
}

IFMA static void ifma_mul_add(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y,
                              const uint64_t *rest)
{
    multiply(m, z, x, y, NULL, NULL, rest);
}

IFMA static void ifma_add(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y)
{
    v8 mask = all(DIGIT_MASK), carry = _mm512_setzero_si512();
    for (unsigned i = 0; i < m->words; i++) {
        v8 c = _mm512_add_epi64(_mm512_add_epi64(get(x, i), get(y, i)), carry);
        put(z, i, _mm512_and_si512(c, mask));
        carry = _mm512_srli_epi64(c, DIGIT_BITS);
    }
}

/* x -= modulus where that stays non-negative. */
IFMA static void reduce_once(const mont *m, uint64_t *x)
{
    v8 mask = all(DIGIT_MASK), borrow = _mm512_setzero_si512();
    for (unsigned i = 0; i < m->words; i++) {
        v8 d = _mm512_add_epi64(_mm512_sub_epi64(get(x, i), all(m->word[i])), borrow);
        borrow = _mm512_srai_epi64(d, 63);
    }
    v8 use = _mm512_andnot_si512(borrow, mask); /* 2^52 - 1 in lanes that are at least m */
    v8 carry = _mm512_setzero_si512();
    for (unsigned i = 0; i < m->words; i++) {
        v8 d = _mm512_sub_epi64(get(x, i), _mm512_and_si512(all(m->word[i]), use));
        d = _mm512_add_epi64(d, carry);
        carry = _mm512_srai_epi64(d, 63);
        put(x, i, _mm512_and_si512(d, mask));
    }
}

/* Eight rows of eight words become eight columns. */
IFMA static inline void transpose(v8 r[8])
{
    v8 a[8], b[8];
    for (int i = 0; i < 4; i++) { /* pairs of words */
        a[2 * i] = _mm512_unpacklo_epi64(r[2 * i], r[2 * i + 1]);
        a[2 * i + 1] = _mm512_unpackhi_epi64(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) /* quarters */
        for (int k = 0; k < 2; k++) {
            b[4 * i + k] = _mm512_shuffle_i64x2(a[4 * i + k], a[4 * i + 2 + k], 0x88);
            b[4 * i + 2 + k] = _mm512_shuffle_i64x2(a[4 * i + k], a[4 * i + 2 + k], 0xdd);
        }
    for (int k = 0; k < 4; k++) {
        r[k] = _mm512_shuffle_i64x2(b[k], b[4 + k], 0x88);
        r[4 + k] = _mm512_shuffle_i64x2(b[k], b[4 + k], 0xdd);
    }
}

enum { WIDE = 2 * MONT_LIMBS_MAX + 16 }; /* words of the longest number that is loaded, and spare */

/* Loads bytes as words, word-major with adjacent lanes; zeros beyond the number. */
IFMA static void load_words(uint64_t (*out)[8], unsigned words, const uint8_t *bytes, size_t stride,
                            size_t byte_count, unsigned count)
{
    for (unsigned w = 0; w < words; w += 8) {
        v8 r[8];
        size_t at = (size_t)w * 8, left = at < byte_count ? byte_count - at : 0;
        __mmask64 have = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
        for (unsigned lane = 0; lane < 8; lane++)
            r[lane] = lane < count && left > 0
                          ? _mm512_maskz_loadu_epi8(have, bytes + lane * stride + at)
                          : _mm512_setzero_si512();
        transpose(r);
        for (unsigned i = 0; i < 8; i++)
            _mm512_store_si512(out[w + i], r[i]);
    }
}

/* Digit d of 52 bits begins at bit 52*d: at bit r of word q, and may reach into the next. */
IFMA static void ifma_load(const mont *m, uint64_t *z, const uint8_t *bytes, size_t stride,
                           size_t byte_count, unsigned first_word, unsigned count)
{
    uint64_t w[WIDE][8] __attribute__((aligned(64)));
    unsigned first = first_word * DIGIT_BITS / 64;
    unsigned last = ((first_word + m->words) * DIGIT_BITS + 63) / 64 + 1;
    size_t skip = (size_t)first * 8;
    v8 mask = all(DIGIT_MASK);
    if (byte_count > skip)
        load_words(w, last - first, bytes + skip, stride, byte_count - skip, count);
    else
        memset(w, 0, sizeof w);
    for (unsigned i = 0; i < m->words; i++) {
        unsigned bit = (first_word + i) * DIGIT_BITS, q = bit / 64 - first, r = bit % 64;
        v8 lo = _mm512_srl_epi64(_mm512_load_si512(w[q]), _mm_cvtsi32_si128((int)r));
        v8 hi = _mm512_sll_epi64(_mm512_load_si512(w[q + 1]), _mm_cvtsi32_si128(64 - (int)r));
        put(z, i, _mm512_and_si512(_mm512_or_si512(lo, hi), mask)); /* a shift by 64 gives 0 */
    }
}

IFMA static void ifma_store(const mont *m, uint8_t *bytes, size_t stride, size_t byte_count,
                            const uint64_t *x, unsigned count)
{
    uint64_t r[MONT_BATCH_MAX + 16] __attribute__((aligned(64)));
    const unsigned n = m->words;
    memcpy(r, x, (size_t)n * 64);
    for (int i = 0; i < 2; i++) /* below 3m before: see the design block */
        reduce_once(m, r);
    memset(r + 8 * (size_t)n, 0, 128);
    for (unsigned w = 0; 8 * (size_t)w < byte_count; w += 8) {
        v8 t[8];
        for (unsigned i = 0; i < 8; i++) { /* 64 bits are parts of two or three digits */
            unsigned bit = 64 * (w + i), d = bit / DIGIT_BITS, s = bit % DIGIT_BITS;
            v8 v = _mm512_setzero_si512();
            if (d < n) {
                v = _mm512_srl_epi64(get(r, d), _mm_cvtsi32_si128((int)s));
                v = _mm512_or_si512(
                    v, _mm512_sll_epi64(get(r, d + 1), _mm_cvtsi32_si128(DIGIT_BITS - (int)s)));
                v = _mm512_or_si512(
                    v, _mm512_sll_epi64(get(r, d + 2), _mm_cvtsi32_si128(104 - (int)s)));
            }
            t[i] = v;
        }
        transpose(t);
        size_t at = (size_t)w * 8, left = byte_count - at;
        __mmask64 have = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
        for (unsigned lane = 0; lane < count; lane++)
            _mm512_mask_storeu_epi8(bytes + lane * stride + at, have, t[lane]);
    }
}

IFMA static void ifma_gather(const mont *m, uint64_t *z, const uint64_t *const *rows)
{
    const unsigned n = m->words;
    for (unsigned w = 0; w < n; w += 8) { /* words are a multiple of 4, rows of 8 */
        v8 r[8];
        for (unsigned lane = 0; lane < 8; lane++)
            r[lane] = _mm512_load_si512(rows[lane] + w);
        transpose(r);
        for (unsigned i = 0; i < 8 && w + i < n; i++)
            put(z, w + i, r[i]);
    }
}

IFMA static void ifma_select(const mont *m, uint64_t *z, const uint64_t *table, unsigned entries,
                             size_t stride, uint64_t index)
{
    const unsigned n = m->words;
    v8 mask[1 << MONT_POW_WINDOW];
    assert(entries <= 1 << MONT_POW_WINDOW);
    for (unsigned e = 0; e < entries; e++)
        mask[e] = all(ct_mask_u64(ct_eq_u64(e, index)));
    for (unsigned i = 0; i < n; i++) {
        v8 s = _mm512_setzero_si512();
        for (unsigned e = 0; e < entries; e++)
            s = _mm512_or_si512(s, _mm512_and_si512(get(table + e * stride, i), mask[e]));
        put(z, i, s);
    }
}

const mont_kernel mont_kernel_ifma = {
    .name = "avx512ifma",
    .lanes = 8,
    .radix_bits = DIGIT_BITS,
    .mul = ifma_mul,
    .mul_fetch = ifma_mul_fetch,
    .sqr = ifma_sqr,
    .mul_rest = ifma_mul_rest,
    .mul_add = ifma_mul_add,
    .add = ifma_add,
    .load = ifma_load,
    .store = ifma_store,
    .gather = ifma_gather,
    .select = ifma_select,
};
#endif
