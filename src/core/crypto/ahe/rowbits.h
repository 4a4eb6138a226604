/* rowbits: packs numbers of 2 to 56 bits without gaps, and unpacks them.
 *
 * Number k of a packed row occupies bits k*bits .. (k+1)*bits - 1 of a little-endian bit string.
 * Rows hold a multiple of 8 numbers, so they end at a byte boundary and need no padding: every byte
 * string of the right length is exactly one valid row.
 *
 *     rowbits b;
 *     rowbits_init(&b, 38, rowbits_path_best());
 *     rowbits_pack(&b, row, numbers, 2048);          // the low 38 bits of each: 2048*38/8 bytes
 *     rowbits_unpack(&b, numbers, row, 2048);
 *     rowbits_add(&b, sums, row, 2048);              // sums += numbers, modulo 2^64
 *
 * Secret: the numbers. Public: widths, lengths. Constant time. Threads: a plan may be shared. */
#ifndef CRYPTO_AHE_ROWBITS_H
#define CRYPTO_AHE_ROWBITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROWBITS_MIN = 2, ROWBITS_MAX = 56 };

/* Implementations for different vector units; every path computes the same bytes. */
typedef enum rowbits_path {
    ROWBITS_PORTABLE,
    ROWBITS_AVX2,
    ROWBITS_AVX512,
    ROWBITS_PATHS
} rowbits_path;

bool rowbits_path_has(rowbits_path path);
rowbits_path rowbits_path_best(void);

typedef struct rowbits {
    /* Shuffle indices for 8 numbers; see rowbits.c. */
    _Alignas(64) uint16_t take[32]; /* avx512: words to unpack */
    uint16_t put[2][32];            /* avx512: words to pack, even and odd numbers */
    uint8_t take4[4][16];           /* avx2: bytes to unpack, per pair of numbers */
    uint64_t shift[8];              /* bits below number k in its first byte or word */
    uint32_t put_mask[2];
    uint32_t offset[8]; /* first byte of number k */
    uint64_t mask;
    unsigned bits;
    rowbits_path path; /* the widest path that supports this number of bits */
} rowbits;

/* ROWBITS_MIN <= bits <= ROWBITS_MAX. */
void rowbits_init(rowbits *b, unsigned bits, rowbits_path path);

static inline size_t rowbits_bytes(const rowbits *b, size_t n)
{
    return n / 8 * b->bits;
}

/* Pack numbers, unpack them, or add them to sums. n is a multiple of 8; a packed row has
 * rowbits_bytes(b, n) bytes. rowbits_pack ignores the high bits of each number. */
void rowbits_pack(const rowbits *b, uint8_t *out, const uint64_t *in, size_t n);
void rowbits_unpack(const rowbits *b, uint64_t *out, const uint8_t *in, size_t n);
void rowbits_add(const rowbits *b, uint64_t *sum, const uint8_t *in, size_t n);

#endif
