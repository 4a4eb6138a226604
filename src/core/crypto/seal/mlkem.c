/* ML-KEM-768.
 *
 * A coefficient is a 16-bit number that represents its residue modulo Q. Products are Montgomery
 * products with R = 2^16: mul(a, b) = a b / R in (-Q, Q) for |a b| < R Q / 2. The table of powers
 * of 17 holds them times R, so a butterfly costs no factor; a product of two polynomials does
 * (1/R), and the inverse transform gives it back.
 * Ranges: ntt takes |c| < Q and gives |c| <= Q/2; intt takes |c| < Q; sums of three products
 * stay below 3Q < 2^15.
 * Loops over coefficients have no branches and no 32-bit lanes wider than a product, so that the
 * compiler turns them into vector code; the two inner layers of the transform stay scalar. */
#include "crypto/seal/mlkem.h"

#include "base/ct.h"
#include "crypto/seal/keccak.h"

#include <stdbool.h>
#include <string.h>

enum {
    Q = 3329,
    QINV = -3327,      /* Q^-1 modulo 2^16 */
    R2 = 1353,         /* R^2 modulo Q */
    R2_BY_128 = 1441,  /* R^2 / 128 modulo Q */
    BARRETT = 20159,   /* round(2^26 / Q) */
    NOISE_BYTES = 128, /* eta = 2: four coins a coefficient */
    DU = 10,
    DV = 4,
};

/* zeta[i] = 17^brv(i) R modulo Q, centred; brv reverses 7 bits. */
static const int16_t zeta[128] = {
    -1044, -758,  -359,  -1517, 1493,  1422,  287,   202,   -171,  622,   1577,  182,   962,
    -1202, -1474, 1468,  573,   -1325, 264,   383,   -829,  1458,  -1602, -130,  -681,  1017,
    732,   608,   -1542, 411,   -205,  -1571, 1223,  652,   -552,  1015,  -1293, 1491,  -282,
    -1544, 516,   -8,    -320,  -666,  -1618, -1162, 126,   1469,  -853,  -90,   -271,  830,
    107,   -1421, -247,  -951,  -398,  961,   -1508, -725,  448,   -1065, 677,   -1275, -1103,
    430,   555,   843,   -1251, 871,   1550,  105,   422,   587,   177,   -235,  -291,  -460,
    1574,  1653,  -246,  778,   1159,  -147,  -777,  1483,  -602,  1119,  -1590, 644,   -872,
    349,   418,   329,   -156,  -75,   817,   1097,  603,   610,   1322,  -1285, -1465, 384,
    -1215, -136,  1218,  -1335, -874,  220,   -1187, -1659, -1185, -1530, -1278, 794,   -1510,
    -854,  -870,  478,   -108,  -308,  996,   991,   958,   -1460, 1522,  1628,
};

static inline int16_t mul(int16_t a, int16_t b)
{
    int16_t low = (int16_t)((uint32_t)(uint16_t)a * (uint16_t)b * (uint16_t)QINV);
    return (int16_t)((((int32_t)a * b) >> 16) - (((int32_t)low * Q) >> 16));
}

/* |result| <= Q/2, any a. */
static inline int16_t centre(int16_t a)
{
    int16_t t = (int16_t)(((int32_t)BARRETT * a + (1 << 25)) >> 26);
    return (int16_t)(a - t * Q);
}

/* In [0, Q), for a centred one. */
static inline uint16_t lift(int16_t a)
{
    return (uint16_t)(a + ((a >> 15) & Q));
}

static void centre_all(mlkem_poly *p)
{
    for (int i = 0; i < MLKEM_N; i++)
        p->c[i] = centre(p->c[i]);
}

static void ntt(mlkem_poly *p)
{
    int k = 1;
    for (int len = 128; len >= 2; len >>= 1) {
        for (int start = 0; start < MLKEM_N; start += 2 * len) {
            int16_t *lo = p->c + start, *hi = lo + len, z = zeta[k++];
            for (int j = 0; j < len; j++) {
                int16_t t = mul(hi[j], z);
                hi[j] = (int16_t)(lo[j] - t);
                lo[j] = (int16_t)(lo[j] + t);
            }
        }
    }
    centre_all(p);
}

/* The inverse, times R. */
static void intt(mlkem_poly *p)
{
    int k = 127;
    for (int len = 2; len <= 128; len <<= 1) {
        for (int start = 0; start < MLKEM_N; start += 2 * len) {
            int16_t *lo = p->c + start, *hi = lo + len, z = zeta[k--];
            for (int j = 0; j < len; j++) {
                int16_t t = lo[j];
                lo[j] = centre((int16_t)(t + hi[j]));
                hi[j] = mul((int16_t)(hi[j] - t), z);
            }
        }
    }
    for (int i = 0; i < MLKEM_N; i++)
        p->c[i] = mul(p->c[i], R2_BY_128);
}

/* out = sum of a[i] b[i] over K polynomials in the NTT domain, divided by R; centred. */
static void dot(mlkem_poly *out, const mlkem_poly *const a[MLKEM_K], const mlkem_poly *b)
{
    memset(out, 0, sizeof *out);
    for (int k = 0; k < MLKEM_K; k++) {
        const int16_t *x = a[k]->c, *y = b[k].c;
        for (int i = 0; i < MLKEM_N; i += 2) { /* modulo X^2 - z, z of both signs in turn */
            int16_t z = zeta[64 + i / 4], high = mul(mul(x[i + 1], y[i + 1]), z);
            int16_t low = mul(x[i], y[i]), sign = (int16_t)(1 - (i & 2));
            out->c[i] = (int16_t)(out->c[i] + low + sign * high);
            out->c[i + 1] = (int16_t)(out->c[i + 1] + mul(x[i], y[i + 1]) + mul(x[i + 1], y[i]));
        }
        centre_all(out);
    }
}

static void mlkem_add(mlkem_poly *out, const mlkem_poly *a)
{
    for (int i = 0; i < MLKEM_N; i++)
        out->c[i] = (int16_t)(out->c[i] + a->c[i]);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void encode12(uint8_t out[384], const mlkem_poly *p)
{
    for (int i = 0; i < MLKEM_N / 2; i++) {
        uint16_t a = lift(p->c[2 * i]), b = lift(p->c[2 * i + 1]);
        out[3 * i] = (uint8_t)a;
        out[3 * i + 1] = (uint8_t)(a >> 8 | b << 4);
        out[3 * i + 2] = (uint8_t)(b >> 4);
    }
}

/* False if a number is not reduced. Public bytes. */
static bool decode12(mlkem_poly *p, const uint8_t in[384])
{
    bool ok = true;
    for (int i = 0; i < MLKEM_N / 2; i++) {
        uint16_t a = (uint16_t)(in[3 * i] | (in[3 * i + 1] & 15) << 8);
        uint16_t b = (uint16_t)(in[3 * i + 1] >> 4 | in[3 * i + 2] << 4);
        ok = ok && a < Q && b < Q;
        p->c[2 * i] = centre((int16_t)a);
        p->c[2 * i + 1] = centre((int16_t)b);
    }
    return ok;
}

uint32_t mlkem_compress(uint32_t x, unsigned d)
{
    /* floor((2^d x + Q/2) / Q): the factor is ceil(2^40 / Q), exact for dividends below 2^27 */
    return (uint32_t)(((uint64_t)((x << d) + Q / 2) * 330282857) >> 40) & ((1U << d) - 1);
}

static int16_t decompress(uint32_t y, unsigned d)
{
    return (int16_t)((y * Q + (1U << (d - 1))) >> d);
}

static void encode10(uint8_t out[320], mlkem_poly *p)
{
    centre_all(p);
    for (int i = 0; i < MLKEM_N / 4; i++, out += 5) {
        uint64_t v = 0;
        for (int j = 0; j < 4; j++)
            v |= (uint64_t)mlkem_compress(lift(p->c[4 * i + j]), DU) << (10 * j);
        for (int j = 0; j < 5; j++)
            out[j] = (uint8_t)(v >> (8 * j));
    }
}

static void decode10(mlkem_poly *p, const uint8_t in[320])
{
    for (int i = 0; i < MLKEM_N / 4; i++, in += 5) {
        uint64_t v = 0;
        for (int j = 0; j < 5; j++)
            v |= (uint64_t)in[j] << (8 * j);
        for (int j = 0; j < 4; j++)
            p->c[4 * i + j] = decompress((uint32_t)(v >> (10 * j)) & 1023, DU);
    }
}

static void encode4(uint8_t out[128], mlkem_poly *p)
{
    centre_all(p);
    for (int i = 0; i < MLKEM_N / 2; i++)
        out[i] = (uint8_t)(mlkem_compress(lift(p->c[2 * i]), DV) |
                           mlkem_compress(lift(p->c[2 * i + 1]), DV) << 4);
}

static void decode4(mlkem_poly *p, const uint8_t in[128])
{
    for (int i = 0; i < MLKEM_N / 2; i++) {
        p->c[2 * i] = decompress(in[i] & 15, DV);
        p->c[2 * i + 1] = decompress(in[i] >> 4, DV);
    }
}

static void encode1(uint8_t out[32], mlkem_poly *p)
{
    centre_all(p);
    memset(out, 0, 32);
    for (int i = 0; i < MLKEM_N; i++)
        out[i / 8] |= (uint8_t)(mlkem_compress(lift(p->c[i]), 1) << (i % 8));
}

/* p += the message, a bit a coefficient. */
static void add_message(mlkem_poly *p, const uint8_t in[32])
{
    for (int i = 0; i < MLKEM_N; i++) {
        uint64_t mask = ct_mask_u64(in[i / 8] >> (i % 8) & 1);
        p->c[i] = (int16_t)(p->c[i] + (int16_t)(mask & ((Q + 1) / 2)));
    }
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* Uniform, from public bytes, by rejection. */
static void sample_uniform(mlkem_poly *p, const uint8_t rho[32], int column, int row)
{
    keccak k;
    uint8_t b[168], at[2] = { (uint8_t)column, (uint8_t)row };
    keccak_init(&k, KECCAK_SHAKE128);
    keccak_add(&k, rho, 32);
    keccak_add(&k, at, 2);
    for (int n = 0; n < MLKEM_N;) {
        keccak_get(&k, b, sizeof b);
        for (size_t i = 0; i < sizeof b && n < MLKEM_N; i += 3) {
            uint16_t d1 = (uint16_t)(b[i] | (b[i + 1] & 15) << 8);
            uint16_t d2 = (uint16_t)(b[i + 1] >> 4 | b[i + 2] << 4);
            if (d1 < Q)
                p->c[n++] = centre((int16_t)d1);
            if (d2 < Q && n < MLKEM_N)
                p->c[n++] = centre((int16_t)d2);
        }
    }
}

static void sample_matrix(mlkem_pub *pub, const uint8_t rho[32])
{
    for (int i = 0; i < MLKEM_K; i++)
        for (int j = 0; j < MLKEM_K; j++)
            sample_uniform(&pub->a[i][j], rho, j, i);
}

/* Centred binomial, eta = 2: a difference of two sums of two coins. */
static void sample_noise(mlkem_poly *p, const uint8_t key[32], uint8_t index)
{
    keccak k;
    uint8_t b[NOISE_BYTES];
    keccak_init(&k, KECCAK_SHAKE256);
    keccak_add(&k, key, 32);
    keccak_add(&k, &index, 1);
    keccak_get(&k, b, sizeof b);
    for (int i = 0; i < MLKEM_N; i++) {
        unsigned four = b[i / 2] >> (4 * (i % 2));
        int plus = (int)((four & 1) + (four >> 1 & 1)),
            minus = (int)((four >> 2 & 1) + (four >> 3 & 1));
        p->c[i] = (int16_t)(plus - minus);
    }
    keccak_clear(&k);
    sefl_wipe(b, sizeof b);
}

/* ---- the public-key encryption inside (FIPS 203, 5) ------------------------------------------ */

static void encrypt(uint8_t cipher[MLKEM_CIPHER], const mlkem_pub *pub, const uint8_t message[32],
                    const uint8_t coins[32])
{
    mlkem_poly y[MLKEM_K], e, out;
    for (int i = 0; i < MLKEM_K; i++) {
        sample_noise(&y[i], coins, (uint8_t)i);
        ntt(&y[i]);
    }
    for (int i = 0; i < MLKEM_K; i++) {
        const mlkem_poly *column[MLKEM_K] = { &pub->a[0][i], &pub->a[1][i], &pub->a[2][i] };
        dot(&out, column, y);
        intt(&out);
        sample_noise(&e, coins, (uint8_t)(MLKEM_K + i));
        mlkem_add(&out, &e);
        encode10(cipher + 320 * i, &out);
    }
    const mlkem_poly *t[MLKEM_K] = { &pub->t[0], &pub->t[1], &pub->t[2] };
    dot(&out, t, y);
    intt(&out);
    sample_noise(&e, coins, 2 * MLKEM_K);
    mlkem_add(&out, &e);
    add_message(&out, message);
    encode4(cipher + 320 * MLKEM_K, &out);
    sefl_wipe(y, sizeof y);
    sefl_wipe(&e, sizeof e);
    sefl_wipe(&out, sizeof out);
}

static void decrypt(uint8_t message[32], const mlkem_key *key, const uint8_t cipher[MLKEM_CIPHER])
{
    mlkem_poly u[MLKEM_K], v, w;
    const mlkem_poly *s[MLKEM_K] = { &key->s[0], &key->s[1], &key->s[2] };
    for (int i = 0; i < MLKEM_K; i++) {
        decode10(&u[i], cipher + 320 * i);
        ntt(&u[i]);
    }
    decode4(&v, cipher + 320 * MLKEM_K);
    dot(&w, s, u);
    intt(&w);
    for (int i = 0; i < MLKEM_N; i++)
        w.c[i] = (int16_t)(v.c[i] - w.c[i]);
    encode1(message, &w);
    sefl_wipe(&w, sizeof w);
}

/* ---- public ---------------------------------------------------------------------------------- */

/* SHA3-512 of two pieces, as two halves. */
static void hash_g(uint8_t first[32], uint8_t second[32], const uint8_t a[32], const void *b,
                   size_t n)
{
    keccak k;
    keccak_init(&k, KECCAK_SHA3_512);
    keccak_add(&k, a, 32);
    keccak_add(&k, b, n);
    keccak_get(&k, first, 32);
    keccak_get(&k, second, 32);
    keccak_clear(&k);
}

static void hash_pub(mlkem_pub *out, const uint8_t pub[MLKEM_PUB])
{
    keccak k;
    keccak_init(&k, KECCAK_SHA3_256);
    keccak_add(&k, pub, MLKEM_PUB);
    keccak_get(&k, out->hash, sizeof out->hash);
}

void mlkem_key_from(mlkem_key *key, const uint8_t seed[MLKEM_SEED], uint8_t pub[MLKEM_PUB])
{
    uint8_t rho[32], sigma[32], k = MLKEM_K;
    mlkem_poly e;
    hash_g(rho, sigma, seed, &k, 1);
    CT_PUBLIC(rho, sizeof rho); /* part of the encapsulation key */
    sample_matrix(&key->pub, rho);
    for (int i = 0; i < MLKEM_K; i++) {
        sample_noise(&key->s[i], sigma, (uint8_t)i);
        ntt(&key->s[i]);
    }
    for (int i = 0; i < MLKEM_K; i++) {
        mlkem_poly *t = &key->pub.t[i];
        const mlkem_poly *row[MLKEM_K] = { &key->pub.a[i][0], &key->pub.a[i][1],
                                           &key->pub.a[i][2] };
        dot(t, row, key->s);
        for (int j = 0; j < MLKEM_N; j++)
            t->c[j] = mul(t->c[j], R2); /* cancels the 1/R of dot */
        sample_noise(&e, sigma, (uint8_t)(MLKEM_K + i));
        ntt(&e);
        mlkem_add(t, &e);
        centre_all(t);
        encode12(pub + 384 * i, t);
    }
    memcpy(pub + 384 * MLKEM_K, rho, 32);
    CT_PUBLIC(pub, MLKEM_PUB); /* it is published */
    CT_PUBLIC(key->pub.t, sizeof key->pub.t);
    hash_pub(&key->pub, pub);
    memcpy(key->z, seed + 32, 32);
    sefl_wipe(sigma, sizeof sigma);
    sefl_wipe(&e, sizeof e);
}

sefl_status mlkem_pub_from(mlkem_pub *out, const uint8_t pub[MLKEM_PUB])
{
    sefl_status st = SEFL_OK;
    bool ok = true;
    for (int i = 0; i < MLKEM_K; i++)
        ok = decode12(&out->t[i], pub + 384 * i) && ok;
    SEFL_CHECK(ok, SEFL_EPROTO, "ML-KEM key: a coefficient is %d or more", Q);
    sample_matrix(out, pub + 384 * MLKEM_K);
    hash_pub(out, pub);
done:
    if (st != SEFL_OK)
        memset(out, 0, sizeof *out);
    return st;
}

void mlkem_encap(uint8_t cipher[MLKEM_CIPHER], uint8_t shared[MLKEM_SHARED], const mlkem_pub *pub,
                 const uint8_t coins[MLKEM_COINS])
{
    uint8_t r[32];
    hash_g(shared, r, coins, pub->hash, sizeof pub->hash);
    encrypt(cipher, pub, coins, r);
    sefl_wipe(r, sizeof r);
}

void mlkem_decap(uint8_t shared[MLKEM_SHARED], const mlkem_key *key,
                 const uint8_t cipher[MLKEM_CIPHER])
{
    uint8_t message[32], good[32], r[32], again[MLKEM_CIPHER];
    keccak k;
    decrypt(message, key, cipher);
    hash_g(good, r, message, key->pub.hash, sizeof key->pub.hash);
    encrypt(again, &key->pub, message, r);
    keccak_init(&k, KECCAK_SHAKE256); /* what a wrong cipher gives */
    keccak_add(&k, key->z, sizeof key->z);
    keccak_add(&k, cipher, MLKEM_CIPHER);
    keccak_get(&k, shared, MLKEM_SHARED);
    ct_copy_if(ct_eq_bytes(again, cipher, MLKEM_CIPHER), shared, good, MLKEM_SHARED);
    keccak_clear(&k);
    sefl_wipe(message, sizeof message);
    sefl_wipe(good, sizeof good);
    sefl_wipe(r, sizeof r);
    sefl_wipe(again, sizeof again);
}
