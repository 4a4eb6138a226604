/* AES-128 in plain C, 16 blocks bit-sliced.
 *
 * 1. The state is s[bit][row]: 64 bits = 4 columns x 16 blocks (bit 16*column + block). Then
 *    ShiftRows is a rotation of each row word by a multiple of 16, MixColumns picks neighbouring
 *    words, and the S-box is the same Boolean circuit on four rows (the compiler vectorises it).
 * 2. The S-box inverts in the tower field GF(16)[x]/(x^2 + x + y^3), GF(16) = GF(2)[y]/(y^4+y+1).
 *    The two changes of basis (the second with the affine map of FIPS 197) were found by trying all
 *    roots of the AES polynomial in that field and taking the pair with the fewest XORs.
 * 3. No index or branch depends on data. */
#include "crypto/prg/aes_paths.h"

#include "base/ct.h"
#include "base/span.h"

#include <string.h>

typedef uint64_t row[4];

/* c = a * b in GF(16), coefficients of 1, y, y^2, y^3. */
static inline void gf16_mul(uint64_t c[4], const uint64_t a[4], const uint64_t b[4])
{
    uint64_t d4 = (a[1] & b[3]) ^ (a[2] & b[2]) ^ (a[3] & b[1]); /* y^4 = y + 1 */
    uint64_t d5 = (a[2] & b[3]) ^ (a[3] & b[2]);                 /* y^5 = y^2 + y */
    uint64_t d6 = a[3] & b[3];                                   /* y^6 = y^3 + y^2 */
    uint64_t d0 = a[0] & b[0];
    uint64_t d1 = (a[0] & b[1]) ^ (a[1] & b[0]);
    uint64_t d2 = (a[0] & b[2]) ^ (a[1] & b[1]) ^ (a[2] & b[0]);
    uint64_t d3 = (a[0] & b[3]) ^ (a[1] & b[2]) ^ (a[2] & b[1]) ^ (a[3] & b[0]);
    c[0] = d0 ^ d4;
    c[1] = d1 ^ d4 ^ d5;
    c[2] = d2 ^ d5 ^ d6;
    c[3] = d3 ^ d6;
}

/* b = 1 / a in GF(16), 0 for 0: the algebraic normal form of the inverse. */
static inline void gf16_inv(uint64_t b[4], const uint64_t a[4])
{
    uint64_t a01 = a[0] & a[1], a02 = a[0] & a[2], a03 = a[0] & a[3], a12 = a[1] & a[2];
    uint64_t a13 = a[1] & a[3], a23 = a[2] & a[3], a123 = a12 & a[3];
    b[0] = a[0] ^ a[1] ^ a[2] ^ a[3] ^ a02 ^ a12 ^ (a01 & a[2]) ^ a123;
    b[1] = a01 ^ a02 ^ a12 ^ a[3] ^ a13 ^ (a01 & a[3]);
    b[2] = a01 ^ a[2] ^ a02 ^ a[3] ^ a03 ^ (a02 & a[3]);
    b[3] = a[1] ^ a[2] ^ a[3] ^ a03 ^ a13 ^ a23 ^ a123;
}

/* The AES S-box on 64 bytes, bit i of each in x[i]. */
static inline void sbox(uint64_t x[8])
{
    /* into the tower: low half b, high half a of a*X + b */
    uint64_t t0 = x[5] ^ x[7], t1 = x[4] ^ x[6], t2 = x[2] ^ x[3], t3 = t0 ^ t2;
    uint64_t b[4] = { x[0] ^ t0, x[2], t1 ^ t3, x[3] ^ x[4] };
    uint64_t a[4] = { x[5] ^ t1, x[1] ^ x[7] ^ t1, t3, t0 };
    /* 1/(aX + b) = (aX + a + b) / (y^3 a^2 + b (a + b)) */
    uint64_t ab[4], n[4], m[4], y[8];
    for (int i = 0; i < 4; i++)
        ab[i] = a[i] ^ b[i];
    gf16_mul(n, b, ab);
    n[0] ^= a[2];
    n[1] ^= a[1] ^ a[2] ^ a[3];
    n[2] ^= a[1];
    n[3] ^= a[0] ^ a[2] ^ a[3];
    gf16_inv(m, n);
    gf16_mul(y, ab, m);
    gf16_mul(y + 4, a, m);
    /* back, with the linear half of the affine map; NOT on the bits of 0x63 */
    uint64_t u0 = y[0] ^ y[5], u1 = y[1] ^ y[2], u2 = y[3] ^ u0, u3 = y[4] ^ u2, u4 = y[6] ^ y[7];
    x[0] = ~(y[0] ^ y[2] ^ y[6]);
    x[1] = ~(u1 ^ u3);
    x[2] = y[6] ^ u2;
    x[3] = y[2] ^ u0;
    x[4] = y[1] ^ u3;
    x[5] = ~(y[3] ^ y[5] ^ u1 ^ u4);
    x[6] = ~(y[4] ^ u4);
    x[7] = u1;
}

static inline uint64_t rotr64(uint64_t x, unsigned n)
{
    return n == 0 ? x : x >> n | x << (64 - n);
}

static void sub_bytes(row s[8])
{
    for (int r = 0; r < 4; r++) {
        uint64_t x[8];
        for (int i = 0; i < 8; i++)
            x[i] = s[i][r];
        sbox(x);
        for (int i = 0; i < 8; i++)
            s[i][r] = x[i];
    }
}

static void shift_rows(row s[8])
{
    for (int i = 0; i < 8; i++)
        for (unsigned r = 1; r < 4; r++)
            s[i][r] = rotr64(s[i][r], 16 * r);
}

/* out[r] = 2 (s[r] + s[r+1]) + s[r+1] + s[r+2] + s[r+3] in GF(256) */
static void mix_columns(row s[8])
{
    row d[8], all[8];
    for (int i = 0; i < 8; i++) {
        uint64_t sum = s[i][0] ^ s[i][1] ^ s[i][2] ^ s[i][3];
        for (int r = 0; r < 4; r++) {
            d[i][r] = s[i][r] ^ s[i][(r + 1) & 3];
            all[i][r] = sum ^ s[i][r];
        }
    }
    for (int i = 0; i < 8; i++)
        for (int r = 0; r < 4; r++) {
            uint64_t twice = d[(i + 7) & 7][r]; /* doubling: shift, 0x1b where bit 7 went out */
            if (i == 1 || i == 3 || i == 4)
                twice ^= d[7][r];
            s[i][r] = all[i][r] ^ twice;
        }
}

/* 8x8 bit matrix: bit j of byte i <-> bit i of byte j. */
static inline uint64_t transpose8(uint64_t x)
{
    uint64_t t = (x ^ x >> 7) & 0x00aa00aa00aa00aaULL;
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & 0x0000cccc0000ccccULL;
    x ^= t ^ t << 14;
    t = (x ^ x >> 28) & 0x00000000f0f0f0f0ULL;
    return x ^ t ^ t << 28;
}

static void slice(row s[8], const uint8_t *in)
{
    memset(s, 0, 8 * sizeof(row));
    for (unsigned p = 0; p < 16; p++)
        for (unsigned half = 0; half < 2; half++) {
            uint64_t x = 0;
            for (unsigned i = 0; i < 8; i++)
                x |= (uint64_t)in[16 * (8 * half + i) + p] << (8 * i);
            x = transpose8(x);
            for (unsigned b = 0; b < 8; b++)
                s[b][p & 3] |= (x >> (8 * b) & 0xff) << (16 * (p >> 2) + 8 * half);
        }
}

static void unslice(uint8_t *out, row s[8])
{
    for (unsigned p = 0; p < 16; p++)
        for (unsigned half = 0; half < 2; half++) {
            uint64_t x = 0;
            for (unsigned b = 0; b < 8; b++)
                x |= (s[b][p & 3] >> (16 * (p >> 2) + 8 * half) & 0xff) << (8 * b);
            x = transpose8(x);
            for (unsigned i = 0; i < 8; i++)
                out[16 * (8 * half + i) + p] = (uint8_t)(x >> (8 * i));
        }
}

/* One round key for all 16 blocks: each key bit fills a field of 16. */
static void slice_key(row s[8], const uint8_t rk[16])
{
    for (unsigned b = 0; b < 8; b++)
        for (unsigned r = 0; r < 4; r++) {
            uint64_t x = 0;
            for (unsigned c = 0; c < 4; c++)
                x |= (uint64_t)(rk[4 * c + r] >> b & 1) << (16 * c);
            s[b][r] = (x << 16) - x; /* 0x0001 -> 0xffff in each field, no borrow between fields */
        }
}

static void add_key(row s[8], row key[8])
{
    for (int i = 0; i < 8; i++)
        for (int r = 0; r < 4; r++)
            s[i][r] ^= key[i][r];
}

void aes_soft_ecb(const aes128 *k, uint8_t *out, const uint8_t *in, size_t groups)
{
    row key[AES_ROUNDS + 1][8], s[8];
    for (int r = 0; r <= AES_ROUNDS; r++)
        slice_key(key[r], k->rk + 16 * r);
    for (size_t g = 0; g < groups; g++) {
        slice(s, in + 256 * g);
        add_key(s, key[0]);
        for (int r = 1; r <= AES_ROUNDS; r++) {
            sub_bytes(s);
            shift_rows(s);
            if (r < AES_ROUNDS)
                mix_columns(s);
            add_key(s, key[r]);
        }
        unslice(out + 256 * g, s);
    }
    sefl_wipe(key, sizeof key);
    sefl_wipe(s, sizeof s);
}

/* The S-box on the four bytes of a word. */
static uint32_t sub_word(uint32_t w)
{
    uint64_t x[8] = { 0 };
    for (unsigned b = 0; b < 8; b++)
        for (unsigned i = 0; i < 4; i++)
            x[b] |= (uint64_t)(w >> (8 * i + b) & 1) << i;
    sbox(x);
    w = 0;
    for (unsigned b = 0; b < 8; b++)
        for (unsigned i = 0; i < 4; i++)
            w |= (uint32_t)(x[b] >> i & 1) << (8 * i + b);
    sefl_wipe(x, sizeof x);
    return w;
}

void aes_soft_init(aes128 *k, const uint8_t key[AES_KEY])
{
    uint32_t w[4], rcon = 1;
    memcpy(k->rk, key, AES_KEY);
    for (int i = 0; i < 4; i++)
        w[i] = load_u32(key + 4 * i);
    for (int r = 1; r <= AES_ROUNDS; r++) {
        w[0] ^= sub_word(w[3] >> 8 | w[3] << 24) ^ rcon;
        for (int i = 1; i < 4; i++)
            w[i] ^= w[i - 1];
        for (int i = 0; i < 4; i++)
            store_u32(k->rk + 16 * r + 4 * i, w[i]);
        rcon = rcon == 0x80 ? 0x1b : rcon << 1; /* public */
    }
    sefl_wipe(w, sizeof w);
}
