/* VAES on 512-bit registers. */
#include "mpc/garble/kernel.h"

#if defined(__x86_64__)
#include "base/span.h"

#include <immintrin.h>

#define TARGET           __attribute__((target("vaes,aes,avx2,avx512f,avx512bw,avx512vl,avx512dq")))
#define GARBLE           gc_garble_512
#define EVALUATE         gc_evaluate_512
#define FLOOR            gc_floor_512
#define HASH             gc_hash_512
#define V                __m512i
#define VN               4
#define LOADU(p)         _mm512_loadu_si512((const void *)(p))
#define STOREU(p, x)     _mm512_storeu_si512((void *)(p), (x))
#define XOR(a, b)        _mm512_xor_si512((a), (b))
#define ADD64(a, b)      _mm512_add_epi64((a), (b))
#define AESENC(x, k)     _mm512_aesenc_epi128((x), (k))
#define AESENCLAST(x, k) _mm512_aesenclast_epi128((x), (k))
#define SHUF8(x, m)      _mm512_shuffle_epi8((x), (m))
#define SHUF32(x, n)     _mm512_shuffle_epi32((x), (_MM_PERM_ENUM)(n))
#define BYTES_UP(x, n)   _mm512_bslli_epi128((x), (n))
#define BCAST(p)         _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define BCAST2(lo, hi)   _mm512_broadcast_i32x4(_mm_set_epi64x((hi), (lo)))
/* a ^ b ^ c;  a ^ (b & m);  t ^ y if the colour of x is 1, else t */
#define XOR3(a, b, c)    _mm512_ternarylogic_epi64((a), (b), (c), 0x96)
#define XOR_AND(a, b, m) _mm512_ternarylogic_epi64((a), (b), (m), 0x78)
#define XOR_IF(x, t, y)                                                                         \
    _mm512_mask_xor_epi64((t), _mm512_test_epi64_mask(SHUF32((x), 0x44), _mm512_set1_epi64(1)), \
                          (t), (y))

#include "mpc/garble/kernel_x86.inc"

/* Four labels per register; a test against one bit of each gives the mask of both its halves. */
TARGET void gc_encode_512(gc_label *out, const gc_label *zero, const uint8_t *bits, size_t n,
                          const gc_label *delta)
{
    const __m512i d = BCAST(delta), which = _mm512_set_epi64(8, 8, 4, 4, 2, 2, 1, 1);
    for (size_t i = 0; i < n; i += 64) {
        __m512i b = _mm512_set1_epi64((long long)load_u64(bits + i / 8));
        for (unsigned j = 0; j < 64; j += 4, b = _mm512_srli_epi64(b, 4)) {
            __m512i x = LOADU(zero + i + j);
            STOREU(out + i + j, _mm512_mask_xor_epi64(x, _mm512_test_epi64_mask(b, which), x, d));
        }
    }
}
#else
typedef int gc_kernel_is_empty;
#endif
