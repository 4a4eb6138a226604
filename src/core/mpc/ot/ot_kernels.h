/* ot_kernels: the inner loops of OT extension, chosen at run time; internal to ot/ and its tests.
 *
 * All lengths are in bytes and multiples of 64 (transpose: of 16). All kernel sets compute the same
 * bytes.
 * Secret: all data. Public: lengths, chi. Constant time. */
#ifndef MPC_OT_OT_KERNELS_H
#define MPC_OT_OT_KERNELS_H

#include "crypto/prg/aes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ot_kernels {
    const char *name;
    /* v ^= right; left ^= right: merges two sums of leaves. */
    void (*fold)(uint8_t *v, uint8_t *left, const uint8_t *right, size_t n);
    /* v = right; left ^= right: the first merge at its height. */
    void (*fold_first)(uint8_t *v, uint8_t *left, const uint8_t *right, size_t n);
    /* dst ^= src & mask, mask all zeros or all ones. */
    void (*add_masked)(uint8_t *dst, const uint8_t *src, uint64_t mask, size_t n);
    /* acc ^= sum of data[i] * chi[i] over 64-bit words, as polynomials over GF(2), 128 bits. */
    void (*dot)(uint64_t acc[2], const uint8_t *data, const uint64_t *chi, size_t n);
    /* 128 columns of `n` bytes at distance `stride` become 8n rows of 16 bytes: bit r of column c
     * goes to bit c of row r (bit 0 of byte 0 first). */
    void (*transpose)(uint8_t *rows, const uint8_t *columns, size_t stride, size_t n);
    /* Sums a whole tree of 16 leaves at once; NULL if not available. u is the sum of the leaves'
     * key streams (nonce and counter as in aes128_ctr), column j the sum of those whose number has
     * bit j set. If hole is true, leaf 0 is omitted. n is a multiple of 256. */
    void (*tree16)(uint8_t *u, uint8_t *columns, size_t stride, const aes128 key[16], bool hole,
                   uint64_t nonce, uint64_t counter, size_t n);
} ot_kernels;

/* Returns the fastest kernels that this processor supports. */
const ot_kernels *ot_kernels_best(void);

/* Returns set i of *end kernel sets (0: reference); NULL if this processor does not support it. */
const ot_kernels *ot_kernels_at(unsigned i, unsigned *end);

/* Reduces a 128-bit product to GF(2^64) = GF(2)[x]/(x^64 + x^4 + x^3 + x + 1). */
uint64_t ot_gf64_reduce(const uint64_t wide[2]);

#endif
