/* lwe_bits: numbers of 2 to 56 bits, packed without gaps, and back.
 *
 * Number k of a packed row occupies bits k*bits .. (k+1)*bits - 1 of a little-endian bit string.
 * Rows hold a multiple of 8 numbers, so they are whole bytes and have no padding: every byte string
 * of the right length is a valid row, and has one reading.
 *
 *     lwe_bits b;
 *     lwe_bits_init(&b, 38, lwe_path_best());
 *     lwe_bits_pack(&b, row, numbers, 2048, 4, 0);    // bits 4..41 of each: 2048*38/8 bytes
 *     lwe_bits_unpack(&b, numbers, row, 2048);
 *     lwe_bits_add(&b, sums, row, 2048);              // sums += numbers, modulo 2^64
 *
 * Secret: the numbers. Public: widths, lengths. Constant time. Threads: a plan may be shared. */
#ifndef CRYPTO_AHE_LWE_BITS_H
#define CRYPTO_AHE_LWE_BITS_H

#include "crypto/ahe/lwe.h"

#include <stddef.h>

enum { LWE_BITS_MIN = 2, LWE_BITS_MAX = 56 };

typedef struct lwe_bits {
    /* What a shuffle takes from where for 8 numbers; see lwe_bits.c. */
    _Alignas(64) uint16_t take[32]; /* avx512: words to unpack */
    uint16_t put[2][32];            /* avx512: words to pack, even and odd numbers */
    uint8_t take4[4][16];           /* avx2: bytes to unpack, per pair of numbers */
    uint64_t shift[8];              /* bits below number k in its first byte or word */
    uint32_t put_mask[2];
    uint32_t offset[8]; /* first byte of number k */
    uint64_t mask;
    unsigned bits;
    lwe_path path; /* the widest usable for this width */
} lwe_bits;

/* LWE_BITS_MIN <= bits <= LWE_BITS_MAX. */
void lwe_bits_init(lwe_bits *b, unsigned bits, lwe_path path);

static inline size_t lwe_bits_bytes(const lwe_bits *b, size_t n)
{
    return n / 8 * b->bits;
}

/* n is a multiple of 8. out is lwe_bits_bytes(b, n) long; bits shift .. shift + bits - 1 of each
 * number + bias are taken, whatever stands above and below. */
void lwe_bits_pack(const lwe_bits *b, uint8_t *out, const uint64_t *in, size_t n, unsigned shift,
                   uint64_t bias);
void lwe_bits_unpack(const lwe_bits *b, uint64_t *out, const uint8_t *in, size_t n);
void lwe_bits_add(const lwe_bits *b, uint64_t *sum, const uint8_t *in, size_t n);

/* x_k <- (number of ones in x_k) + values_k * 2^up, modulo 2^64; values may be NULL. Any n. */
void lwe_bits_count(uint64_t *x, const int64_t *values, size_t n, unsigned up, lwe_path path);

/* out_k = x_k * 2^x_up + y_k * 2^y_up, modulo 2^64. n is a multiple of 8. */
void lwe_bits_join(uint64_t *out, const uint64_t *x, unsigned x_up, const uint64_t *y,
                   unsigned y_up, size_t n, lwe_path path);

#endif
