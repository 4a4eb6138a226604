/* Sixteen lanes: word i of the state of lane k is element k of v[i]. */
#include "base/blake3_inside.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { LANES = 16 };

#define AVX512 __attribute__((target("avx512f"), always_inline)) static inline

/* m[i] = word i of the 64 bytes at `at` of all lanes. */
AVX512 void load_words(__m512i m[16], const uint8_t *const in[LANES], size_t at)
{
    __m512i a[16], b[16];
    for (int i = 0; i < 16; i++)
        a[i] = _mm512_loadu_si512(in[i] + at);
    for (int i = 0; i < 16; i += 2) { /* pairs of lanes: words 0 1 and 2 3 of each quarter */
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) { /* four lanes: a[i + j] has word j of each quarter */
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    for (int j = 0; j < 4; j++) { /* quarters of four lanes to quarters of the word's vector */
        __m512i p = _mm512_shuffle_i32x4(a[j], a[j + 4], 0x88);      /* quarters 0 2 of lanes 0-7 */
        __m512i q = _mm512_shuffle_i32x4(a[j + 8], a[j + 12], 0x88); /* and of lanes 8-15 */
        m[j] = _mm512_shuffle_i32x4(p, q, 0x88);
        m[j + 8] = _mm512_shuffle_i32x4(p, q, 0xdd);
        p = _mm512_shuffle_i32x4(a[j], a[j + 4], 0xdd); /* quarters 1 3 */
        q = _mm512_shuffle_i32x4(a[j + 8], a[j + 12], 0xdd);
        m[j + 4] = _mm512_shuffle_i32x4(p, q, 0x88);
        m[j + 12] = _mm512_shuffle_i32x4(p, q, 0xdd);
    }
}

__attribute__((target("avx512f"))) void blake3_run_avx512(uint8_t (*out)[BLAKE3_BYTES],
                                                          const blake3_work *w)
{
    const uint8_t *in[LANES];
    uint32_t low[LANES], high[LANES], word[8][LANES];
    __m512i cv[8], m[16], v[16];
    for (size_t i = 0; i < LANES; i++) {
        in[i] = w->in[i < w->n ? i : 0]; /* the others do the first one's work again */
        uint64_t counter = w->counter + i * w->step;
        low[i] = (uint32_t)counter, high[i] = (uint32_t)(counter >> 32);
    }
    for (int i = 0; i < 8; i++)
        cv[i] = _mm512_set1_epi32((int)blake3_iv[i]);
    for (size_t k = 0; k < w->blocks; k++) {
        uint32_t flags = w->flags | (k == 0 ? w->first : 0) | (k + 1 == w->blocks ? w->last : 0);
        load_words(m, in, BLAKE3_BLOCK * k);
        for (int i = 0; i < 8; i++)
            v[i] = cv[i];
        for (int i = 0; i < 4; i++)
            v[8 + i] = _mm512_set1_epi32((int)blake3_iv[i]);
        v[12] = _mm512_loadu_si512(low);
        v[13] = _mm512_loadu_si512(high);
        v[14] = _mm512_set1_epi32(BLAKE3_BLOCK);
        v[15] = _mm512_set1_epi32((int)flags);
#define G(a, b, c, d, x, y)                           \
    a = _mm512_add_epi32(_mm512_add_epi32(a, x), b);  \
    d = _mm512_ror_epi32(_mm512_xor_si512(d, a), 16); \
    c = _mm512_add_epi32(c, d);                       \
    b = _mm512_ror_epi32(_mm512_xor_si512(b, c), 12); \
    a = _mm512_add_epi32(_mm512_add_epi32(a, y), b);  \
    d = _mm512_ror_epi32(_mm512_xor_si512(d, a), 8);  \
    c = _mm512_add_epi32(c, d);                       \
    b = _mm512_ror_epi32(_mm512_xor_si512(b, c), 7);
#define ROUND(...) BLAKE3_ROUND(G, __VA_ARGS__)
        BLAKE3_ROUNDS(ROUND)
#undef ROUND
#undef G
        for (int i = 0; i < 8; i++)
            cv[i] = _mm512_xor_si512(v[i], v[8 + i]);
    }
    for (int i = 0; i < 8; i++)
        _mm512_storeu_si512(word[i], cv[i]);
    for (size_t i = 0; i < w->n; i++)
        for (int k = 0; k < 8; k++)
            __builtin_memcpy(out[i] + 4 * k, &word[k][i], 4);
}
#endif
