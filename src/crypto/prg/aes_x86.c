/* AES-128 with the processor's instructions. The rounds of 8 registers are interleaved so that the
 * pipeline (3 to 4 cycles deep, up to 2 instructions a cycle) is always full. */
#include "crypto/prg/aes_paths.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define NI  __attribute__((target("aes,sse4.1,ssse3")))
#define V2  __attribute__((target("vaes,aes,avx2")))
#define V5  __attribute__((target("vaes,aes,avx512f,avx512bw,avx512vl,avx512dq,avx2")))
#define NI_ NI static inline __attribute__((always_inline))
#define V2_ V2 static inline __attribute__((always_inline))
#define V5_ V5 static inline __attribute__((always_inline))

/* ---- key schedule ------------------------------------------------------------------------ */

/* aeskeygenassist is microcode on many cores; RotWord as a byte shuffle that puts the same word
 * everywhere, then SubWord by aesenclast (ShiftRows does nothing to four equal columns). */
NI void aes_ni_init(aes128 *k, const uint8_t key[AES_KEY])
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

/* ---- 128-bit registers ------------------------------------------------------------------- */

NI_ void rounds_ni(__m128i x[8], const aes128 *k)
{
    const __m128i *rk = (const __m128i *)k->rk;
    __m128i key = _mm_load_si128(rk);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        x[i] = _mm_xor_si128(x[i], key);
#pragma GCC unroll 9
    for (int r = 1; r < AES_ROUNDS; r++) {
        key = _mm_load_si128(rk + r);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            x[i] = _mm_aesenc_si128(x[i], key);
    }
    key = _mm_load_si128(rk + AES_ROUNDS);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        x[i] = _mm_aesenclast_si128(x[i], key);
}

NI void aes_ni_ecb(const aes128 *k, uint8_t *out, const uint8_t *in, size_t blocks)
{
    const __m128i *src = (const __m128i *)in;
    __m128i *dst = (__m128i *)out, x[8];
    for (; blocks >= 8; blocks -= 8, src += 8, dst += 8) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            x[i] = _mm_loadu_si128(src + i);
        rounds_ni(x, k);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            _mm_storeu_si128(dst + i, x[i]);
    }
    if (blocks > 0) {
        for (size_t i = 0; i < 8; i++)
            x[i] = _mm_loadu_si128(src + (i < blocks ? i : 0));
        rounds_ni(x, k);
        for (size_t i = 0; i < blocks; i++)
            _mm_storeu_si128(dst + i, x[i]);
    }
}

NI void aes_ni_ctr(const aes128 *k, uint8_t *out, size_t blocks, uint64_t nonce, uint64_t counter)
{
    const __m128i swap = _mm_set_epi64x(0x0001020304050607LL, 0x08090a0b0c0d0e0fLL);
    __m128i *dst = (__m128i *)out, x[8];
    for (;; counter += 8, blocks -= 8, dst += 8) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            x[i] = _mm_shuffle_epi8(
                _mm_set_epi64x((long long)nonce, (long long)(counter + (uint64_t)i)), swap);
        rounds_ni(x, k);
        if (blocks < 8)
            break;
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            _mm_storeu_si128(dst + i, x[i]);
    }
    for (size_t i = 0; i < blocks; i++)
        _mm_storeu_si128(dst + i, x[i]);
}

/* ---- 256-bit registers ------------------------------------------------------------------- */

V2_ __m256i key256(const aes128 *k, int r)
{
    return _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)k->rk + r));
}

V2_ void rounds256(__m256i x[8], const aes128 *k)
{
    __m256i key = key256(k, 0);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        x[i] = _mm256_xor_si256(x[i], key);
#pragma GCC unroll 9
    for (int r = 1; r < AES_ROUNDS; r++) {
        key = key256(k, r);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            x[i] = _mm256_aesenc_epi128(x[i], key);
    }
    key = key256(k, AES_ROUNDS);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        x[i] = _mm256_aesenclast_epi128(x[i], key);
}

V2 size_t aes_vaes256_ecb(const aes128 *k, uint8_t *out, const uint8_t *in, size_t blocks)
{
    size_t done = 0;
    for (; blocks - done >= 16; done += 16) {
        __m256i x[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            x[i] = _mm256_loadu_si256((const __m256i *)(in + 16 * done) + i);
        rounds256(x, k);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            _mm256_storeu_si256((__m256i *)(out + 16 * done) + i, x[i]);
    }
    return done;
}

V2 size_t aes_vaes256_ctr(const aes128 *k, uint8_t *out, size_t blocks, uint64_t nonce,
                          uint64_t counter)
{
    const __m256i swap =
        _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0001020304050607LL, 0x08090a0b0c0d0e0fLL));
    const long long n = (long long)nonce;
    __m256i c = _mm256_set_epi64x(n, (long long)(counter + 1), n, (long long)counter);
    size_t done = 0;
    for (; blocks - done >= 16; done += 16) {
        __m256i x[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            x[i] = _mm256_shuffle_epi8(_mm256_add_epi64(c, _mm256_set_epi64x(0, 2 * i, 0, 2 * i)),
                                       swap);
        c = _mm256_add_epi64(c, _mm256_set_epi64x(0, 16, 0, 16));
        rounds256(x, k);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            _mm256_storeu_si256((__m256i *)(out + 16 * done) + i, x[i]);
    }
    return done;
}

/* ---- 512-bit registers ------------------------------------------------------------------- */

V5_ __m512i key512(const aes128 *k, int r)
{
    return _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)k->rk + r));
}

V5_ void rounds512(__m512i x[8], const aes128 *k)
{
    __m512i key = key512(k, 0);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        x[i] = _mm512_xor_si512(x[i], key);
#pragma GCC unroll 9
    for (int r = 1; r < AES_ROUNDS; r++) {
        key = key512(k, r);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            x[i] = _mm512_aesenc_epi128(x[i], key);
    }
    key = key512(k, AES_ROUNDS);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        x[i] = _mm512_aesenclast_epi128(x[i], key);
}

V5 size_t aes_vaes512_ecb(const aes128 *k, uint8_t *out, const uint8_t *in, size_t blocks)
{
    size_t done = 0;
    for (; blocks - done >= 32; done += 32) {
        __m512i x[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            x[i] = _mm512_loadu_si512((const void *)(in + 16 * done + 64 * i));
        rounds512(x, k);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            _mm512_storeu_si512((void *)(out + 16 * done + 64 * i), x[i]);
    }
    return done;
}

V5 size_t aes_vaes512_ctr(const aes128 *k, uint8_t *out, size_t blocks, uint64_t nonce,
                          uint64_t counter)
{
    const __m512i swap =
        _mm512_broadcast_i32x4(_mm_set_epi64x(0x0001020304050607LL, 0x08090a0b0c0d0e0fLL));
    const long long n = (long long)nonce;
    __m512i c = _mm512_add_epi64(_mm512_broadcast_i32x4(_mm_set_epi64x(n, (long long)counter)),
                                 _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0));
    size_t done = 0;
    for (; blocks - done >= 32; done += 32) {
        __m512i x[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            x[i] = _mm512_shuffle_epi8(
                _mm512_add_epi64(c, _mm512_set_epi64(0, 4 * i, 0, 4 * i, 0, 4 * i, 0, 4 * i)),
                swap);
        c = _mm512_add_epi64(c, _mm512_set_epi64(0, 32, 0, 32, 0, 32, 0, 32));
        rounds512(x, k);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            _mm512_storeu_si512((void *)(out + 16 * done + 64 * i), x[i]);
    }
    return done;
}
#else
typedef int aes_x86_is_empty;
#endif
