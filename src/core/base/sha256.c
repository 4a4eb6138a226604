#include "base/sha256.h"

#include "base/cpu.h"
#include "base/ct.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* First 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

static uint32_t ror(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

void sha256_blocks_ref(uint32_t state[8], const uint8_t *p, size_t blocks)
{
    uint32_t w[64];
    for (; blocks > 0; blocks--, p += 64) {
        for (int i = 0; i < 16; i++)
            w[i] = load_be32(p + 4 * i);
        for (int i = 16; i < 64; i++) {
            uint32_t s0 = ror(w[i - 15], 7) ^ ror(w[i - 15], 18) ^ w[i - 15] >> 3;
            uint32_t s1 = ror(w[i - 2], 17) ^ ror(w[i - 2], 19) ^ w[i - 2] >> 10;
            w[i] = w[i - 16] + s0 + w[i - 7] + s1;
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 64; i++) {
            uint32_t s1 = ror(e, 6) ^ ror(e, 11) ^ ror(e, 25);
            uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + K[i] + w[i];
            uint32_t s0 = ror(a, 2) ^ ror(a, 13) ^ ror(a, 22);
            uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + t1;
            d = c, c = b, b = a, a = t1 + t2;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
    sefl_wipe(w, sizeof w);
}

#if defined(__x86_64__)
/* The SHA extension keeps the state as (A,B,E,F) and (C,D,G,H) and computes two rounds per
 * instruction. Message words are in m[0..3]; each step does four rounds. */
__attribute__((target("sha,sse4.1,ssse3"))) static void
blocks_shani(uint32_t state[8], const uint8_t *p, size_t blocks)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i t = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);      /* CDAB */
    __m128i s1 = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state + 1), 0x1b); /* EFGH */
    __m128i s0 = _mm_alignr_epi8(t, s1, 8);                                            /* ABEF */
    s1 = _mm_blend_epi16(s1, t, 0xf0);                                                 /* CDGH */
    for (; blocks > 0; blocks--, p += 64) {
        __m128i m[4], save0 = s0, save1 = s1;
        for (int i = 0; i < 4; i++)
            m[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p + i), swap);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i k = _mm_add_epi32(m[i & 3], _mm_loadu_si128((const __m128i *)(K + 4 * i)));
            s1 = _mm_sha256rnds2_epu32(s1, s0, k);
            if (i < 12) { /* w[4i+16 .. 4i+19] replaces w[4i .. 4i+3] */
                __m128i x = _mm_sha256msg1_epu32(m[i & 3], m[(i + 1) & 3]);
                x = _mm_add_epi32(x, _mm_alignr_epi8(m[(i + 3) & 3], m[(i + 2) & 3], 4));
                m[i & 3] = _mm_sha256msg2_epu32(x, m[(i + 3) & 3]);
            }
            s0 = _mm_sha256rnds2_epu32(s0, s1, _mm_shuffle_epi32(k, 0x0e));
        }
        s0 = _mm_add_epi32(s0, save0);
        s1 = _mm_add_epi32(s1, save1);
    }
    t = _mm_shuffle_epi32(s0, 0x1b);  /* FEBA */
    s1 = _mm_shuffle_epi32(s1, 0xb1); /* DCHG */
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(t, s1, 0xf0));
    _mm_storeu_si128((__m128i *)state + 1, _mm_alignr_epi8(s1, t, 8));
}
#endif

void sha256_blocks(uint32_t state[8], const uint8_t *p, size_t blocks)
{
#if defined(__x86_64__)
    if (cpu_get()->sha) {
        blocks_shani(state, p, blocks);
        return;
    }
#endif
    sha256_blocks_ref(state, p, blocks);
}

void sha256_init(sha256 *h)
{
    static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    memset(h, 0, sizeof *h);
    memcpy(h->state, start, sizeof start);
}

void sha256_add(sha256 *h, sefl_span in)
{
    size_t have = h->bytes % 64;
    if (in.n == 0) /* in.p may be NULL, which allows no arithmetic */
        return;
    h->bytes += in.n;
    if (have > 0) {
        size_t take = 64 - have < in.n ? 64 - have : in.n;
        memcpy(h->block + have, in.p, take);
        in.p += take;
        in.n -= take;
        if (have + take < 64)
            return;
        sha256_blocks(h->state, h->block, 1);
    }
    if (in.n >= 64) {
        sha256_blocks(h->state, in.p, in.n / 64);
        in.p += in.n / 64 * 64;
        in.n %= 64;
    }
    if (in.n > 0)
        memcpy(h->block, in.p, in.n);
}

void sha256_end(sha256 *h, uint8_t out[SHA256_BYTES])
{
    uint8_t tail[72] = { 0x80 };
    uint64_t bits = h->bytes * 8;
    size_t pad = 64 - (h->bytes + 8) % 64; /* 1..64: the 0x80 byte and zeros */
    store_be32(tail + pad, (uint32_t)(bits >> 32));
    store_be32(tail + pad + 4, (uint32_t)bits);
    sha256_add(h, span_of(tail, pad + 8));
    for (int i = 0; i < 8; i++)
        store_be32(out + 4 * i, h->state[i]);
    sefl_wipe(h, sizeof *h);
}

void sha256_of(uint8_t out[SHA256_BYTES], sefl_span in)
{
    sha256_of_all(out, &in, 1);
}

void sha256_of_all(uint8_t out[SHA256_BYTES], const sefl_span *part, size_t parts)
{
    sha256 h;
    sha256_init(&h);
    for (size_t i = 0; i < parts; i++)
        sha256_add(&h, part[i]);
    sha256_end(&h, out);
}
