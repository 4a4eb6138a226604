/* pair: computes powers modulo the square of a secret odd number p, with pairs of numbers modulo p.
 *
 *     pair_init(&p, prime, limbs, NULL, NULL);
 *     pair_pow(&p, lo, hi, stride, n, c, c_bytes, count, e, exp_limbs, scratch);
 *                                              // c^e = lo + hi*p modulo p^2, both below p
 *
 * x modulo p^2 is x0 + x1*p. Montgomery's reduction of x0*y0 modulo p adds q*p to make the division
 * by R exact: x0*y0 = R*z0 - q*p. Hence, modulo p^2,
 *     x*y/R = z0 + p*z1,      z1 = (x0*y1 + x1*y0 - q) / R modulo p,
 * with numbers of half the length. A product costs 6 half-length rows of multiplications; a
 * Montgomery product modulo p^2 costs 8. A square costs 4, since its z1 is (x0 * 2*x1 - q) / R. A
 * window of five squares and a product costs 26 instead of 48.
 *
 * Secret: p, e, c^e. Public: sizes, counts, kernel. Constant-time. c must not be a multiple of p,
 * and p must not be within 6 of a power of 2^64. Threads: read-only once made. */
#ifndef CRYPTO_BN_PAIR_H
#define CRYPTO_BN_PAIR_H

#include "crypto/bn/mont.h"

enum { PAIR_POWERS = 4 };

typedef struct mont_pair {
    mont m;                       /* modulo p */
    uint64_t *power[PAIR_POWERS]; /* R^2 .. R^5 modulo p^2: two batches each */
    uint64_t *own;                /* memory of the powers, if pair_clear must free it; else NULL */
    size_t own_words;
} mont_pair;

/* Like mont_memory and mont_init. p has `limbs` limbs, at most MONT_LIMBS_MAX / 2. */
size_t pair_memory(unsigned limbs, const mont_kernel *kernel);
sefl_status pair_init(mont_pair *p, const uint64_t *modulus, unsigned limbs,
                      const mont_kernel *kernel, uint64_t *memory) SEFL_MUST_CHECK;
void pair_clear(mont_pair *p);

/* Returns the number of 64-bit words that pair_pow needs as scratch, aligned to 64 bytes. */
size_t pair_scratch(const mont_pair *p);

/* Computes c^e modulo p^2 for count <= lanes adjacent numbers c of c_bytes <= 32*limbs bytes each.
 * Writes the two digits of each power, n bytes each, `stride` apart. lo may be NULL. */
void pair_pow(const mont_pair *p, uint8_t *lo, uint8_t *hi, size_t stride, size_t n,
              const uint8_t *c, size_t c_bytes, unsigned count, const uint64_t *e,
              unsigned exp_limbs, uint64_t *scratch);

#endif
