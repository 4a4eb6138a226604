#include "crypto/seal/keccak.h"

#include "base/ct.h"
#include "base/span.h"

enum { ROUNDS = 24 };

/* FIPS 202, 3.2.5: iota's constants, made by the LFSR x^8 + x^6 + x^5 + x^4 + 1. */
static const uint64_t iota[ROUNDS] = {
    0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000,
    0x000000000000808b, 0x0000000080000001, 0x8000000080008081, 0x8000000000008009,
    0x000000000000008a, 0x0000000000000088, 0x0000000080008009, 0x000000008000000a,
    0x000000008000808b, 0x800000000000008b, 0x8000000000008089, 0x8000000000008003,
    0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
};

static inline uint64_t rotl(uint64_t x, int n)
{
    return n == 0 ? x : x << n | x >> (64 - n);
}

/* rho and pi at once: lane x + 5y goes, rotated by the first number, to lane y + 5(2x + 3y mod
 * 5). */
#define MOVE(to, from, by) b[to] = rotl(a[from] ^ d[(from) % 5], by)

static void permute(uint64_t a[25])
{
    uint64_t b[25], c[5], d[5];
    for (int r = 0; r < ROUNDS; r++) {
        for (int x = 0; x < 5; x++)
            c[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
        for (int x = 0; x < 5; x++)
            d[x] = c[(x + 4) % 5] ^ rotl(c[(x + 1) % 5], 1);
        MOVE(0, 0, 0), MOVE(10, 1, 1), MOVE(20, 2, 62), MOVE(5, 3, 28), MOVE(15, 4, 27);
        MOVE(16, 5, 36), MOVE(1, 6, 44), MOVE(11, 7, 6), MOVE(21, 8, 55), MOVE(6, 9, 20);
        MOVE(7, 10, 3), MOVE(17, 11, 10), MOVE(2, 12, 43), MOVE(12, 13, 25), MOVE(22, 14, 39);
        MOVE(23, 15, 41), MOVE(8, 16, 45), MOVE(18, 17, 15), MOVE(3, 18, 21), MOVE(13, 19, 8);
        MOVE(14, 20, 18), MOVE(24, 21, 2), MOVE(9, 22, 61), MOVE(19, 23, 56), MOVE(4, 24, 14);
        for (int y = 0; y < 25; y += 5)
            for (int x = 0; x < 5; x++)
                a[y + x] = b[y + x] ^ (~b[y + (x + 1) % 5] & b[y + (x + 2) % 5]);
        a[0] ^= iota[r];
    }
}

void keccak_init(keccak *k, keccak_kind kind)
{
    *k = (keccak){ .rate = kind & 0xff, .ending = (uint8_t)(kind >> 8) };
}

static void add_byte(keccak *k, uint32_t at, uint8_t byte)
{
    k->a[at / 8] ^= (uint64_t)byte << (8 * (at % 8));
}

void keccak_add(keccak *k, const void *in, size_t n)
{
    const uint8_t *p = in;
    while (n > 0) {
        if (k->at % 8 == 0 && n >= 8) { /* rates are multiples of 8 */
            k->a[k->at / 8] ^= load_u64(p);
            k->at += 8, p += 8, n -= 8;
        } else {
            add_byte(k, k->at++, *p++);
            n--;
        }
        if (k->at == k->rate) {
            permute(k->a);
            k->at = 0;
        }
    }
}

void keccak_get(keccak *k, void *out, size_t n)
{
    uint8_t *p = out;
    if (k->ending != 0) {
        add_byte(k, k->at, k->ending);
        add_byte(k, k->rate - 1, 0x80);
        k->ending = 0;
        k->at = k->rate;
    }
    while (n > 0) {
        if (k->at == k->rate) {
            permute(k->a);
            k->at = 0;
        }
        if (k->at % 8 == 0 && n >= 8) {
            store_u64(p, k->a[k->at / 8]);
            k->at += 8, p += 8, n -= 8;
        } else {
            *p++ = (uint8_t)(k->a[k->at / 8] >> (8 * (k->at % 8)));
            k->at++, n--;
        }
    }
}

void keccak_clear(keccak *k)
{
    sefl_wipe(k, sizeof *k);
}
