/* AES-128 with the processor's instructions. The rounds of 8 registers are interleaved so that the
 * pipeline (3 to 4 cycles deep, up to 2 instructions per cycle) is always full. */
#include "crypto/prg/aes_paths.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AES_NAME_(a, b) a##_##b
#define AES_NAME(a, b)  AES_NAME_(a, b)

/* ---- key schedule ------------------------------------------------------------------------ */

/* aeskeygenassist is microcode on many cores; RotWord as a byte shuffle that puts the same word
 * everywhere, then SubWord by aesenclast (ShiftRows does nothing to four equal columns). */
__attribute__((target("aes,sse4.1,ssse3"))) void aes_ni_init(aes128 *k, const uint8_t key[AES_KEY])
{
    const __m128i rot = _mm_set1_epi32(0x0c0f0e0d);
    __m128i w = _mm_loadu_si128((const __m128i *)key);
    _mm_store_si128((__m128i *)k->rk, w);
    uint32_t rcon = 1;
    for (int r = 1; r <= AES_ROUNDS; r++) {
        __m128i g = _mm_aesenclast_si128(_mm_shuffle_epi8(w, rot), _mm_set1_epi32((int)rcon));
        w = _mm_xor_si128(w, _mm_slli_si128(w, 4));
        w = _mm_xor_si128(w, _mm_slli_si128(w, 8));
        w = _mm_xor_si128(w, g);
        _mm_store_si128((__m128i *)k->rk + r, w);
        rcon = rcon == 0x80 ? 0x1b : rcon << 1;
    }
}

/* ---- key stream -------------------------------------------------------------------------- */

#define CTR          aes_ni_ctr
#define TARGET       __attribute__((target("aes,sse4.1,ssse3")))
#define V            __m128i
#define LANES        1
#define BROADCAST(x) (x)
#define FIRST        _mm_setzero_si128()
#define XOR          _mm_xor_si128
#define ENC          _mm_aesenc_si128
#define LAST         _mm_aesenclast_si128
#define ADD          _mm_add_epi64
#define SHUFFLE      _mm_shuffle_epi8
#define STORE        _mm_storeu_si128
#include "crypto/prg/aes_ctr.inc"

/* Many callers read a few blocks at a time: no buffer, no copy. */
__attribute__((target("aes,sse4.1,ssse3"))) void
aes_ni_ctr_rest(const aes128 *k, uint8_t *out, size_t blocks, uint64_t nonce, uint64_t counter)
{
    const __m128i swap = _mm_set_epi64x(0x0001020304050607LL, 0x08090a0b0c0d0e0fLL);
    __m128i x[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        x[i] = _mm_shuffle_epi8(
            _mm_set_epi64x((long long)nonce, (long long)(counter + (uint64_t)i)), swap);
    aes_ni_ctr_rounds(x, k);
    for (size_t i = 0; i < blocks; i++)
        _mm_storeu_si128((__m128i *)out + i, x[i]);
}

#define CTR          aes_vaes256_ctr
#define TARGET       __attribute__((target("vaes,aes,avx2")))
#define V            __m256i
#define LANES        2
#define BROADCAST(x) _mm256_broadcastsi128_si256(x)
#define FIRST        _mm256_set_epi64x(0, 1, 0, 0)
#define XOR          _mm256_xor_si256
#define ENC          _mm256_aesenc_epi128
#define LAST         _mm256_aesenclast_epi128
#define ADD          _mm256_add_epi64
#define SHUFFLE      _mm256_shuffle_epi8
#define STORE        _mm256_storeu_si256
#include "crypto/prg/aes_ctr.inc"

#define CTR          aes_vaes512_ctr
#define TARGET       __attribute__((target("vaes,aes,avx512f,avx512bw,avx512vl,avx512dq,avx2")))
#define V            __m512i
#define LANES        4
#define BROADCAST(x) _mm512_broadcast_i32x4(x)
#define FIRST        _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0)
#define XOR          _mm512_xor_si512
#define ENC          _mm512_aesenc_epi128
#define LAST         _mm512_aesenclast_epi128
#define ADD          _mm512_add_epi64
#define SHUFFLE      _mm512_shuffle_epi8
#define STORE        _mm512_storeu_si512
#include "crypto/prg/aes_ctr.inc"
#else
typedef int aes_x86_is_empty;
#endif
