/* Eight lanes: word i of the state of lane k is element k of v[i]. */
#include "base/blake3_inside.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { LANES = 8 };

#define AVX2 __attribute__((target("avx2"), always_inline)) static inline

/* m[i] = word `first` + i of all lanes, for 8 words. */
AVX2 void load_words(__m256i m[8], const uint8_t *const in[LANES], size_t at)
{
    __m256i a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = _mm256_loadu_si256((const __m256i *)(in[i] + at));
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        a[i] = _mm256_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm256_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm256_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm256_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        m[i] = _mm256_permute2x128_si256(a[i], a[i + 4], 0x20);
        m[i + 4] = _mm256_permute2x128_si256(a[i], a[i + 4], 0x31);
    }
}

__attribute__((target("avx2"))) void blake3_run_avx2(uint8_t (*out)[BLAKE3_BYTES],
                                                     const blake3_work *w)
{
    const __m256i by16 = _mm256_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13, 2,
                                          3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    const __m256i by8 = _mm256_setr_epi8(1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12, 1, 2,
                                         3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12);
    const uint8_t *in[LANES];
    uint32_t low[LANES], high[LANES], word[8][LANES];
    __m256i cv[8], m[16], v[16];
    for (size_t i = 0; i < LANES; i++) {
        in[i] = w->in[i < w->n ? i : 0]; /* the others do the first one's work again */
        uint64_t counter = w->counter + i * w->step;
        low[i] = (uint32_t)counter, high[i] = (uint32_t)(counter >> 32);
    }
    for (int i = 0; i < 8; i++)
        cv[i] = _mm256_set1_epi32((int)blake3_iv[i]);
    for (size_t k = 0; k < w->blocks; k++) {
        uint32_t flags = w->flags | (k == 0 ? w->first : 0) | (k + 1 == w->blocks ? w->last : 0);
        load_words(m, in, BLAKE3_BLOCK * k);
        load_words(m + 8, in, BLAKE3_BLOCK * k + 32);
        for (int i = 0; i < 8; i++)
            v[i] = cv[i];
        for (int i = 0; i < 4; i++)
            v[8 + i] = _mm256_set1_epi32((int)blake3_iv[i]);
        v[12] = _mm256_loadu_si256((const __m256i *)low);
        v[13] = _mm256_loadu_si256((const __m256i *)high);
        v[14] = _mm256_set1_epi32(BLAKE3_BLOCK);
        v[15] = _mm256_set1_epi32((int)flags);
#define ROR(x, n) _mm256_or_si256(_mm256_srli_epi32(x, n), _mm256_slli_epi32(x, 32 - (n)))
#define G(a, b, c, d, x, y)                                \
    a = _mm256_add_epi32(_mm256_add_epi32(a, x), b);       \
    d = _mm256_shuffle_epi8(_mm256_xor_si256(d, a), by16); \
    c = _mm256_add_epi32(c, d);                            \
    b = _mm256_xor_si256(b, c), b = ROR(b, 12);            \
    a = _mm256_add_epi32(_mm256_add_epi32(a, y), b);       \
    d = _mm256_shuffle_epi8(_mm256_xor_si256(d, a), by8);  \
    c = _mm256_add_epi32(c, d);                            \
    b = _mm256_xor_si256(b, c), b = ROR(b, 7);
#define ROUND(...) BLAKE3_ROUND(G, __VA_ARGS__)
        BLAKE3_ROUNDS(ROUND)
#undef ROUND
#undef G
#undef ROR
        for (int i = 0; i < 8; i++)
            cv[i] = _mm256_xor_si256(v[i], v[8 + i]);
    }
    for (int i = 0; i < 8; i++)
        _mm256_storeu_si256((__m256i *)word[i], cv[i]);
    for (size_t i = 0; i < w->n; i++)
        for (int k = 0; k < 8; k++)
            __builtin_memcpy(out[i] + 4 * k, &word[k][i], 4);
}
#endif
