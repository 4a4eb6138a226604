/* csr: compares index formats under additive encryption with block-Hankel matrices (BHM).
 *
 * Magnitude pruning keeps the k largest entries of an update. Their positions, the support, differ
 * from client to client. A compressed-sparse-row (CSR) upload has k values and their indices.
 * Additive encryption adds values slot by slot, so a sum of such uploads needs more than addition:
 *     csr-clear    the indices are sent in the clear: AS adds value by value. Paillier then needs a
 *                  ciphertext for each value, because packed values cannot be moved; with pads, CSP
 *                  needs the indices too. Both see the support
 *     csr-hidden   values and indices are encrypted: slots of different clients mean different
 *                  positions, and the sum is wrong
 *     union        all clients send the union of their supports, which they must find out first
 *     mask         AS names k positions for all clients: here those of the largest entries of the
 *                  previous round's average update, which AS knows anyway
 *     bhm          k values at fixed places, without indices
 * The measurements: size of the union, bytes, what the support reveals, error of the sum, and the
 * share of the updates' squared norm (energy) that reaches the sum.
 *
 * k is the number of values of the block-Hankel model of the same shape.
 * Threads: pure functions.   Secrets: none. */
#ifndef PAPER_CSR_H
#define PAPER_CSR_H

#include "crypto/ahe/pack.h"
#include "model/lm.h"

/* Sets mask[i] to 1 for the k entries of largest magnitude that are not zero, and to 0 for the
 * others; of equal magnitudes, it prefers the lower index. scratch has room for n values. Returns
 * the number of entries kept, at most k. */
size_t csr_support(uint8_t *mask, const float *u, size_t n, size_t k, float *scratch);

/* Adds the entries of mask to `all` and returns the number of entries in `all`. */
size_t csr_union(uint8_t *all, const uint8_t *mask, size_t n);

/* Returns the bytes of the indices in CSR: per entry a column number of 1, 2 or 4 bytes, as the
 * matrix needs, and 4 bytes per row and one more. A vector is one row. */
size_t csr_index_bytes(const uint8_t *mask, const layout *l);

/* Returns the base-2 logarithm of the number of supports with k of n entries: the bits that a
 * support can reveal. */
double csr_support_bits(size_t n, size_t k);

/* Returns the share of the squared norm of u that lies in mask; 1 if u is zero. */
double csr_energy(const float *u, const uint8_t *mask, size_t n);

/* Returns the share of n entries that the union of `clients` independent, uniformly random supports
 * of k entries covers on average. */
double csr_random_union(size_t n, double k, uint32_t clients);

/* Compute the bytes of an upload of n numbers, without its head, for sums over `clients` clients:
 * packed into pads; packed into Paillier ciphertexts of an N of `bits` bits; one number in each
 * ciphertext. */
sefl_status csr_pad_bytes(double *out, size_t n, uint32_t clients) SEFL_MUST_CHECK;
sefl_status csr_paillier_bytes(double *out, size_t n, uint32_t clients,
                               unsigned bits) SEFL_MUST_CHECK;
double csr_paillier_single_bytes(size_t n, unsigned bits);

/* The sum of CSR uploads whose indices AS cannot read. AS adds each client's values by their rank
 * in its support and reads the result with the indices of the first client. */
typedef struct csr_blind {
    size_t n, k;
    double *by_rank; /* k: the result of the addition */
    double *right;   /* n: the sum of the pruned updates */
    uint8_t *first;  /* n: support of the first client */
    uint32_t clients;
} csr_blind;
sefl_status csr_blind_init(csr_blind *b, size_t n, size_t k) SEFL_MUST_CHECK;
void csr_blind_clear(csr_blind *b);
/* mask has at most k entries. */
void csr_blind_add(csr_blind *b, const float *u, const uint8_t *mask);
/* Returns the norm of the error divided by the norm of the correct sum. */
double csr_blind_error(const csr_blind *b);

#endif
