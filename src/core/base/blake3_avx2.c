/* Eight lanes: word i of lane k's state is element k of v[i]. */
#include "base/blake3_inside.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { LANES = 8 };

#define AVX2 __attribute__((target("avx2"), always_inline)) static inline

/* m[i] = word i of the 32 bytes at `at` of all lanes. */
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

/* A byte shuffle rotates by whole bytes: `first` lists the source bytes of the first word. */
#define SHUFFLE(x, first)                                                                       \
    _mm256_shuffle_epi8(x, _mm256_setr_epi32(first, (first) + 0x04040404, (first) + 0x08080808, \
                                             (first) + 0x0c0c0c0c, first, (first) + 0x04040404, \
                                             (first) + 0x08080808, (first) + 0x0c0c0c0c))
#define TARGET                "avx2"
#define RUN                   blake3_run_avx2
#define VEC                   __m256i
#define SET1                  _mm256_set1_epi32
#define LOAD(p)               _mm256_loadu_si256((const __m256i *)(p))
#define STORE(p, x)           _mm256_storeu_si256((__m256i *)(p), x)
#define ADD                   _mm256_add_epi32
#define XOR                   _mm256_xor_si256
#define ROR(x, n)             XOR(_mm256_srli_epi32(x, n), _mm256_slli_epi32(x, 32 - (n)))
#define ROR16(x)              SHUFFLE(x, 0x01000302)
#define ROR8(x)               SHUFFLE(x, 0x00030201)
#define LOAD_BLOCK(m, in, at) (load_words(m, in, at), load_words((m) + 8, in, (at) + 32))
#include "base/blake3_lanes.h"
#endif
