#include "seeded/seeded.h"

#include "base/cpu.h"
#include "base/sha256.h"

#include <assert.h>
#include <string.h>

static uint32_t rol(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static void quarter(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
    *a += *b, *d = rol(*d ^ *a, 16);
    *c += *d, *b = rol(*b ^ *c, 12);
    *a += *b, *d = rol(*d ^ *a, 8);
    *c += *d, *b = rol(*b ^ *c, 7);
}

void seeded_chacha20_block(uint8_t out[64], const uint32_t key[8], uint64_t counter,
                           const uint32_t nonce[2])
{
    uint32_t in[16] = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 }, x[16];
    memcpy(in + 4, key, 32);
    in[12] = (uint32_t)counter;
    in[13] = (uint32_t)(counter >> 32);
    memcpy(in + 14, nonce, 8);
    memcpy(x, in, sizeof x);
    for (int i = 0; i < 10; i++) {
        for (int j = 0; j < 4; j++)
            quarter(&x[j], &x[4 + j], &x[8 + j], &x[12 + j]);
        for (int j = 0; j < 4; j++)
            quarter(&x[j], &x[4 + (j + 1) % 4], &x[8 + (j + 2) % 4], &x[12 + (j + 3) % 4]);
    }
    for (int i = 0; i < 16; i++)
        store_u32(out + 4 * i, x[i] + in[i]);
}

/* ---- eight blocks side by side: the same bytes ----------------------------------------------- */

typedef uint32_t wide __attribute__((vector_size(32)));
enum { WIDE = 8 };

#define WIDE_ROL(x, n) ((x) << (n) | (x) >> (32 - (n)))
#define WIDE_QUARTER(a, b, c, d)             \
    do {                                     \
        a += b, d ^= a, d = WIDE_ROL(d, 16); \
        c += d, b ^= c, b = WIDE_ROL(b, 12); \
        a += b, d ^= a, d = WIDE_ROL(d, 8);  \
        c += d, b ^= c, b = WIDE_ROL(b, 7);  \
    } while (0)

static inline __attribute__((always_inline)) void
eight_blocks(uint8_t *out, const uint32_t key[8], uint64_t counter, const uint32_t nonce[2])
{
    static const uint32_t sigma[4] = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 };
    wide in[16], x[16];
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < WIDE; j++)
            in[i][j] = i < 4     ? sigma[i]
                       : i < 12  ? key[i - 4]
                       : i == 12 ? (uint32_t)(counter + (unsigned)j)
                       : i == 13 ? (uint32_t)((counter + (unsigned)j) >> 32)
                                 : nonce[i - 14];
    memcpy(x, in, sizeof x);
    for (int i = 0; i < 10; i++) {
        WIDE_QUARTER(x[0], x[4], x[8], x[12]);
        WIDE_QUARTER(x[1], x[5], x[9], x[13]);
        WIDE_QUARTER(x[2], x[6], x[10], x[14]);
        WIDE_QUARTER(x[3], x[7], x[11], x[15]);
        WIDE_QUARTER(x[0], x[5], x[10], x[15]);
        WIDE_QUARTER(x[1], x[6], x[11], x[12]);
        WIDE_QUARTER(x[2], x[7], x[8], x[13]);
        WIDE_QUARTER(x[3], x[4], x[9], x[14]);
    }
    for (int i = 0; i < 16; i++) {
        x[i] += in[i];
        for (int j = 0; j < WIDE; j++)
            store_u32(out + 64 * j + 4 * i, x[i][j]);
    }
}

static void eight_portable(uint8_t *out, const uint32_t key[8], uint64_t counter,
                           const uint32_t nonce[2])
{
    eight_blocks(out, key, counter, nonce);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void eight_avx2(uint8_t *out, const uint32_t key[8],
                                                       uint64_t counter, const uint32_t nonce[2])
{
    eight_blocks(out, key, counter, nonce);
}
#endif

static void eight(uint8_t *out, const uint32_t key[8], uint64_t counter, const uint32_t nonce[2])
{
#if defined(__x86_64__)
    if (cpu_get()->avx2) {
        eight_avx2(out, key, counter, nonce);
        return;
    }
#endif
    eight_portable(out, key, counter, nonce);
}

void seeded_at(void *out, size_t n, const uint32_t key[8], const uint32_t nonce[2], uint64_t offset)
{
    uint8_t *p = out, block[64];
    while (n > 0) {
        size_t skip = offset % 64, take = 64 - skip < n ? 64 - skip : n;
        if (skip == 0 && n >= 64 * WIDE) {
            eight(p, key, offset / 64, nonce);
            take = 64 * WIDE;
        } else {
            seeded_chacha20_block(block, key, offset / 64, nonce);
            memcpy(p, block + skip, take);
        }
        p += take, n -= take, offset += take;
    }
}

void seeded_init(seeded *g, uint64_t seed, const char *stream)
{
    uint8_t digest[SHA256_BYTES], bytes[8];
    store_u64(bytes, seed);
    sha256_join(digest, span_of(bytes, sizeof bytes), span_of_str(stream));
    *g = (seeded){ .used = 64 };
    for (int i = 0; i < 8; i++)
        g->key[i] = load_u32(digest + 4 * i);
}

void seeded_piece(seeded *out, const seeded *g, uint64_t i)
{
    assert(i >= 1); /* piece 0 would repeat g */
    seeded piece = { .nonce = { (uint32_t)i, (uint32_t)(i >> 32) }, .used = 64 };
    memcpy(piece.key, g->key, sizeof piece.key);
    *out = piece;
}

void seeded_fill(seeded *g, void *out, size_t n)
{
    uint8_t *p = out;
    while (n > 0) {
        if (g->used == 64 && n >= 64 * WIDE) {
            eight(p, g->key, g->counter, g->nonce);
            g->counter += WIDE;
            p += 64 * WIDE;
            n -= 64 * WIDE;
            continue;
        }
        if (g->used == 64) {
            seeded_chacha20_block(g->block, g->key, g->counter++, g->nonce);
            g->used = 0;
        }
        size_t take = 64 - g->used < n ? 64 - g->used : n;
        memcpy(p, g->block + g->used, take);
        g->used += (unsigned)take;
        p += take;
        n -= take;
    }
}

static sefl_status fill_as_rng(void *self, void *out, size_t n)
{
    seeded_fill(self, out, n);
    return SEFL_OK;
}

sefl_rng seeded_rng(seeded *g)
{
    return (sefl_rng){ .fill = fill_as_rng, .self = g };
}

uint64_t seeded_u64(seeded *g)
{
    uint8_t b[8];
    seeded_fill(g, b, sizeof b);
    return load_u64(b);
}

uint64_t seeded_below(seeded *g, uint64_t bound)
{
    uint64_t x, limit = UINT64_MAX - (UINT64_MAX % bound + 1) % bound;
    do
        x = seeded_u64(g);
    while (x > limit);
    return x % bound;
}

double seeded_unit(seeded *g)
{
    return (double)(seeded_u64(g) >> 11) * 0x1p-53;
}
