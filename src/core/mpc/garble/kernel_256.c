/* VAES on 256-bit registers. */
#include "mpc/garble/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET           __attribute__((target("vaes,aes,avx2")))
#define GARBLE           gc_garble_256
#define EVALUATE         gc_evaluate_256
#define FLOOR            gc_floor_256
#define HASH             gc_hash_256
#define V                __m256i
#define VN               2
#define LOADU(p)         _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STOREU(p, x)     _mm256_storeu_si256((__m256i *)(void *)(p), (x))
#define XOR(a, b)        _mm256_xor_si256((a), (b))
#define ADD64(a, b)      _mm256_add_epi64((a), (b))
#define AESENC(x, k)     _mm256_aesenc_epi128((x), (k))
#define AESENCLAST(x, k) _mm256_aesenclast_epi128((x), (k))
#define SHUF8(x, m)      _mm256_shuffle_epi8((x), (m))
#define SHUF32(x, n)     _mm256_shuffle_epi32((x), (n))
#define BYTES_UP(x, n)   _mm256_bslli_epi128((x), (n))
#define BLOCK(p)         _mm_loadu_si128((const __m128i *)(const void *)(p))
#define BCAST(p)         _mm256_broadcastsi128_si256(BLOCK(p))
#define BCAST2(lo, hi)   _mm256_set_epi64x((hi), (lo), (hi), (lo))
/* a ^ b ^ c;  a ^ (b & m);  t ^ y if the colour of x is 1, else t: byte 0 everywhere, 0 - bit in
 * each byte (no shifts: they would compete with AES for its ports) */
#define XOR3(a, b, c)    XOR(XOR((a), (b)), (c))
#define XOR_AND(a, b, m) XOR((a), _mm256_and_si256((b), (m)))
#define COLOUR(x)                           \
    _mm256_sub_epi8(_mm256_setzero_si256(), \
                    _mm256_and_si256(SHUF8((x), _mm256_setzero_si256()), _mm256_set1_epi8(1)))
#define XOR_IF(x, t, y) XOR((t), _mm256_and_si256(COLOUR(x), (y)))

#include "mpc/garble/kernel_x86.inc"
#else
typedef int gc_kernel_is_empty;
#endif
