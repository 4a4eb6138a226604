/* AES-NI: any x86-64 processor since about 2010. */
#include "mpc/garble/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET           __attribute__((target("aes,sse4.1,ssse3")))
#define GARBLE           gc_garble_128
#define EVALUATE         gc_evaluate_128
#define FLOOR            gc_floor_128
#define HASH             gc_hash_128
#define V                __m128i
#define VN               1
#define LOADU(p)         _mm_loadu_si128((const __m128i *)(const void *)(p))
#define STOREU(p, x)     _mm_storeu_si128((__m128i *)(void *)(p), (x))
#define XOR(a, b)        _mm_xor_si128((a), (b))
#define ADD64(a, b)      _mm_add_epi64((a), (b))
#define AESENC(x, k)     _mm_aesenc_si128((x), (k))
#define AESENCLAST(x, k) _mm_aesenclast_si128((x), (k))
#define SHUF8(x, m)      _mm_shuffle_epi8((x), (m))
#define SHUF32(x, n)     _mm_shuffle_epi32((x), (n))
#define BYTES_UP(x, n)   _mm_slli_si128((x), (n))
#define BCAST(p)         _mm_loadu_si128((const __m128i *)(const void *)(p))
#define BCAST2(lo, hi)   _mm_set_epi64x((hi), (lo))
/* a ^ b ^ c;  a ^ (b & m);  t ^ y if the colour of x is 1, else t: byte 0 everywhere, 0 - bit in
 * each byte (no shifts: they would compete with AES for its ports) */
#define XOR3(a, b, c)    XOR(XOR((a), (b)), (c))
#define XOR_AND(a, b, m) XOR((a), _mm_and_si128((b), (m)))
#define COLOUR(x)                     \
    _mm_sub_epi8(_mm_setzero_si128(), \
                 _mm_and_si128(SHUF8((x), _mm_setzero_si128()), _mm_set1_epi8(1)))
#define XOR_IF(x, t, y) XOR((t), _mm_and_si128(COLOUR(x), (y)))

#include "mpc/garble/kernel_x86.inc"
#else
typedef int gc_kernel_is_empty;
#endif
