/* Sixteen lanes: word i of lane k's state is element k of v[i]. */
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

#define TARGET     "avx512f"
#define RUN        blake3_run_avx512
#define VEC        __m512i
#define SET1       _mm512_set1_epi32
#define LOAD       _mm512_loadu_si512
#define STORE      _mm512_storeu_si512
#define ADD        _mm512_add_epi32
#define XOR        _mm512_xor_si512
#define ROR        _mm512_ror_epi32
#define ROR16(x)   _mm512_ror_epi32(x, 16)
#define ROR8(x)    _mm512_ror_epi32(x, 8)
#define LOAD_BLOCK load_words
#include "base/blake3_lanes.h"
#endif
