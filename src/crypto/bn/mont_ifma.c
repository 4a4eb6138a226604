/* Eight Montgomery products at once with vpmadd52luq / vpmadd52huq.
 *
 * Digits have 52 bits and lie one to a 64-bit lane, so sums of up to 2^12 partial products need no
 * carry: with at most 160 digits a column collects 4 * 160 of them, below 2^62. Rows are taken four
 * at a time: the four low columns give the four quotient digits, the other columns are independent
 * of each other (sixteen multiplications each, two accumulators, operands in a sliding window), so
 * that the multipliers stay busy. The carry chain runs once, at the end.
 *
 * Range: the modulus has at least two bits less than R. For x*y < 4*m*R the result x*y/R + m' with
 * m' < m is below 5m, and for factors that are results (or one of them loaded, below R) below 2m:
 * no final subtraction is needed before the store.
 *
 * No branch and no address depends on the numbers or the modulus. */
#if defined(__x86_64__)
#include "crypto/bn/mont_ifma.h"

#include "base/ct.h"
#include "base/span.h"

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

/* z = t with carries done; t has n columns. */
IFMA static void carry_out(uint64_t *z, const uint64_t *t, unsigned n)
{
    v8 mask = all(DIGIT_MASK), carry = _mm512_setzero_si512();
    for (unsigned i = 0; i < n; i++) {
        v8 c = _mm512_add_epi64(get(t, i), carry);
        put(z, i, _mm512_and_si512(c, mask));
        carry = _mm512_srli_epi64(c, DIGIT_BITS);
    }
}

IFMA static void ifma_mul(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y)
{
    uint64_t t[MONT_BATCH_MAX] __attribute__((aligned(64)));
    const uint64_t *mod = m->word;
    const unsigned n = m->words;
    const v8 zero = _mm512_setzero_si512(), k = all(m->k);
    const v8 x0 = get(x, 0), x1 = get(x, 1), x2 = get(x, 2), x3 = get(x, 3);
    const v8 m0 = all(mod[0]), m1 = all(mod[1]), m2 = all(mod[2]), m3 = all(mod[3]);

    for (unsigned i = 0; i < n; i++)
        put(t, i, zero);
    for (unsigned i = 0; i < n; i += 4) {
        const v8 y0 = get(y, i), y1 = get(y, i + 1), y2 = get(y, i + 2), y3 = get(y, i + 3);
        v8 c, d, q0, q1, q2, q3;
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

        /* columns 4 to n-1; a..d and e..h are digits j-1..j-4 of x and the modulus */
        v8 a = x3, b = x2, cc = x1, dd = x0, e = m3, f = m2, g = m1, h = m0;
        for (unsigned j = 4; j < n; j++) {
            v8 xn = get(x, j), mn = all(mod[j]), s = get(t, j);
            s = LO(s, xn, y0), carry = LO(carry, mn, q0);
            s = LO(s, a, y1), carry = LO(carry, e, q1);
            s = LO(s, b, y2), carry = LO(carry, f, q2);
            s = LO(s, cc, y3), carry = LO(carry, g, q3);
            s = HI(s, a, y0), carry = HI(carry, e, q0);
            s = HI(s, b, y1), carry = HI(carry, f, q1);
            s = HI(s, cc, y2), carry = HI(carry, g, q2);
            s = HI(s, dd, y3), carry = HI(carry, h, q3);
            put(t, j - 4, _mm512_add_epi64(s, carry));
            carry = zero;
            dd = cc, cc = b, b = a, a = xn;
            h = g, g = f, f = e, e = mn;
        }
        /* columns n to n+3 */
        v8 s;
        s = LO(LO(LO(carry, a, y1), b, y2), cc, y3);
        s = HI(HI(HI(HI(s, a, y0), b, y1), cc, y2), dd, y3);
        d = LO(LO(LO(zero, e, q1), f, q2), g, q3);
        d = HI(HI(HI(HI(d, e, q0), f, q1), g, q2), h, q3);
        put(t, n - 4, _mm512_add_epi64(s, d));
        s = HI(HI(HI(LO(LO(zero, a, y2), b, y3), a, y1), b, y2), cc, y3);
        d = HI(HI(HI(LO(LO(zero, e, q2), f, q3), e, q1), f, q2), g, q3);
        put(t, n - 3, _mm512_add_epi64(s, d));
        s = HI(HI(LO(zero, a, y3), a, y2), b, y3);
        d = HI(HI(LO(zero, e, q3), e, q2), f, q3);
        put(t, n - 2, _mm512_add_epi64(s, d));
        put(t, n - 1, HI(HI(zero, a, y3), e, q3));
    }
    carry_out(z, t, n);
}

IFMA static void ifma_sqr(const mont *m, uint64_t *z, const uint64_t *x)
{
    ifma_mul(m, z, x, x);
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

/* Digit i of 52 bits begins at bit 52*i, that is at byte 13*i/2, on its low or high half. */
IFMA static void ifma_load(const mont *m, uint64_t *z, const uint8_t *bytes, size_t stride,
                           size_t byte_count, unsigned first_word, unsigned count)
{
    uint8_t tmp[2 * MONT_LIMBS_MAX * 8 + MONT_WORDS_MAX * 7 + 64];
    memset(z, 0, (size_t)m->words * 64);
    size_t end = ((size_t)first_word + m->words) * 13 / 2 + 16; /* last byte touched, and more */
    for (unsigned lane = 0; lane < count; lane++) {
        size_t have = byte_count < end ? byte_count : end;
        memcpy(tmp, bytes + lane * stride, have);
        memset(tmp + have, 0, end - have);
        for (unsigned i = 0; i < m->words; i++) {
            size_t d = (size_t)first_word + i;
            uint64_t v;
            memcpy(&v, tmp + d * 13 / 2, 8);
            z[(size_t)i * 8 + lane] = v >> (4 * (d & 1)) & DIGIT_MASK;
        }
    }
}

IFMA static void ifma_store(const mont *m, uint8_t *bytes, size_t stride, size_t byte_count,
                            const uint64_t *x, unsigned count)
{
    uint64_t r[MONT_BATCH_MAX] __attribute__((aligned(64)));
    uint8_t tmp[MONT_WORDS_MAX * 13 / 2 + 8];
    memcpy(r, x, (size_t)m->words * 64);
    for (int i = 0; i < 4; i++) /* below 5m before: see the design block */
        reduce_once(m, r);
    for (unsigned lane = 0; lane < count; lane++) {
        for (unsigned i = 0; i < m->words; i += 2) { /* 13 bytes for two digits */
            uint64_t a = r[(size_t)i * 8 + lane], b = r[((size_t)i + 1) * 8 + lane];
            uint64_t lo = a | b << 52, hi = b >> 12;
            memcpy(tmp + (size_t)i * 13 / 2, &lo, 8);
            memcpy(tmp + (size_t)i * 13 / 2 + 8, &hi, 5);
        }
        memcpy(bytes + lane * stride, tmp, byte_count);
    }
}

IFMA static void ifma_gather(const mont *m, uint64_t *z, const uint64_t *const *rows)
{
    for (unsigned lane = 0; lane < 8; lane++)
        for (unsigned i = 0; i < m->words; i++)
            z[(size_t)i * 8 + lane] = rows[lane][i];
}

IFMA static void ifma_select(const mont *m, uint64_t *z, const uint64_t *table, unsigned entries,
                             uint64_t index)
{
    const unsigned n = m->words;
    v8 mask[16];
    for (unsigned e = 0; e < entries && e < 16; e++)
        mask[e] = all(ct_mask_u64(ct_eq_u64(e, index)));
    for (unsigned i = 0; i < n; i++) {
        v8 s = _mm512_setzero_si512();
        for (unsigned e = 0; e < entries && e < 16; e++)
            s = _mm512_or_si512(s, _mm512_and_si512(get(table, e * n + i), mask[e]));
        put(z, i, s);
    }
}

const mont_kernel mont_kernel_ifma = {
    .name = "avx512ifma",
    .lanes = 8,
    .radix_bits = DIGIT_BITS,
    .mul = ifma_mul,
    .sqr = ifma_sqr,
    .add = ifma_add,
    .load = ifma_load,
    .store = ifma_store,
    .gather = ifma_gather,
    .select = ifma_select,
};
#endif
