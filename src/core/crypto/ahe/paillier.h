/* paillier: the raw Paillier cryptosystem in the form of Damgard, Jurik and Nielsen [DJN10], with
 * one integer per ciphertext. ahe.h adds packing, masks and streams.
 *
 *     c = (1 + m*N) * hs^r mod N^2        r of |N|/2 bits, hs = h^N, h = -x^2 mod N
 *
 *     paillier_keygen_vartime(&sec, 3072, &rng, NULL);
 *     paillier_enc_new(&enc, paillier_sec_pub(sec), 11, pool, NULL);    // tables for ~11 uses
 *     rng_fill(&rng, seed, sizeof seed);                                // once per upload
 *     paillier_encrypt_vartime(enc, c, m, 11, seed, 0, pool, NULL);     // 11 integers
 *     paillier_check(pub, c, 11);                                       // AS: as they arrive
 *     paillier_sum_add(sum, 0, c, 11, pool);                            // AS: c1 * c2 mod N^2
 *     paillier_sum_close(sum, pool), paillier_sum_write(sum, c, 0, 11, NULL, pool);
 *     paillier_decrypt(sec, m, c, 11, pool, NULL);
 *
 * Integers are little-endian bytes of fixed length: plaintexts |N|/8 bytes, below N; ciphertexts
 * |N|/4 bytes, below N^2. Callers represent a negative number -a as N - a (paillier_negate).
 *
 * Keys have 2048, 3072 (default) or 4096 bits; any other size is refused. The primes satisfy p = q
 * = 3 mod 4, gcd(p-1, q-1) = 2, |p-q| > 2^(|N|/2-100) and gcd(N, phi) = 1.
 *
 * Secret: sec, m, seed. Public: pub, ciphertexts, all lengths. Constant-time except where the name
 * contains `_vartime`: key generation (once, on the owner's machine) and encryption, whose table
 * look-ups depend on single-use random numbers (docs/THREATS.md).
 * Threads: pub, sec and enc are read-only once made and may be shared; a sum has one owner.
 * Cost: encryption takes one modular multiplication per window of r, addition one, decryption two
 * half-size exponentiations. AVX-512 IFMA processes eight ciphertexts at once. */
#ifndef CRYPTO_AHE_PAILLIER_H
#define CRYPTO_AHE_PAILLIER_H

#include "base/buf.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PAILLIER_BITS_DEFAULT = 3072,
    PAILLIER_BITS_MAX = 4096,
    PAILLIER_SEED_BYTES = 32,
    PAILLIER_FINGERPRINT_BYTES = 32,
};

typedef struct paillier_pub paillier_pub;
typedef struct paillier_sec paillier_sec;
typedef struct paillier_enc paillier_enc; /* a public key with its fixed-base tables */
typedef struct paillier_sum paillier_sum; /* running products of ciphertexts */

#define PAILLIER_SIZES "2048 3072 4096" /* in bits */
/* True for one of PAILLIER_SIZES. */
bool paillier_bits_ok(unsigned bits);

/* ---- keys ------------------------------------------------------------------------------------ */

/* Generates a key pair. SEFL_EINVAL for a size that is not allowed. progress counts the steps of
 * the search, with total 0 (unknown), and may stop it. Not constant-time: see docs/THREATS.md. */
sefl_status paillier_keygen_vartime(paillier_sec **out, unsigned bits, const sefl_rng *rng,
                                    const sefl_progress *progress) SEFL_MUST_CHECK;

/* Returns the public half, borrowed from sec. */
const paillier_pub *paillier_sec_pub(const paillier_sec *sec);

/* Wipes and frees the key. */
void paillier_sec_free(paillier_sec *sec);
void paillier_pub_free(paillier_pub *pub);

/* Canonical bytes of the public key, one form per key:
 *     u16 bits | N, bits/8 bytes | hs, bits/4 bytes
 * Reading checks that N has exactly `bits` bits, is odd, is not a perfect power and has no prime
 * factor below 2^16, and that 1 < hs < N^2, hs^2 != 1, gcd(hs, N) = 1. These checks detect
 * corruption. They do not prove that N has two large prime factors or that hs is an N-th residue:
 * CSP, which generates the key, could cheat in both ways, but CSP may decrypt anyway. */
size_t paillier_pub_bytes(unsigned bits);
sefl_status paillier_pub_write(const paillier_pub *pub, sefl_buf *out) SEFL_MUST_CHECK;
sefl_status paillier_pub_read(paillier_pub **out, sefl_span in) SEFL_MUST_CHECK;

/* Canonical bytes of the secret key, for the key file to seal; the buffer is secret:
 *     u16 bits | p, bits/16 bytes | q, bits/16 bytes | hs, bits/4 bytes
 * Reading is constant-time in p and q. It checks sizes, p = q = 3 mod 4, p > q, |p-q|, the public
 * key as above, and that hs decrypts to zero (so hs^(p-1) = 1 mod p^2, likewise for q). */
size_t paillier_sec_bytes(unsigned bits);
sefl_status paillier_sec_write(const paillier_sec *sec, sefl_buf *out) SEFL_MUST_CHECK;
sefl_status paillier_sec_read(paillier_sec **out, sefl_span in) SEFL_MUST_CHECK;

/* Returns the block of memory that contains the whole key, so that the caller can lock it. */
sefl_span paillier_sec_memory(const paillier_sec *sec);

/* Writes the SHA-256 of the public key's canonical bytes. */
void paillier_pub_fingerprint(const paillier_pub *pub, uint8_t out[PAILLIER_FINGERPRINT_BYTES]);

bool paillier_pub_equal(const paillier_pub *a, const paillier_pub *b);
unsigned paillier_bits(const paillier_pub *pub);
size_t paillier_plain_bytes(const paillier_pub *pub);  /* bits/8 */
size_t paillier_cipher_bytes(const paillier_pub *pub); /* bits/4 */

/* Returns N as paillier_plain_bytes little-endian bytes; borrowed. */
const uint8_t *paillier_modulus(const paillier_pub *pub);
/* Replaces m (below N) with N - m; 0 stays 0. Constant-time. */
void paillier_negate(const paillier_pub *pub, uint8_t *m);

/* ---- encryption ------------------------------------------------------------------------------ */

/* Builds tables for hs. `uses` is the expected number of encryptions (0: many); more uses make
 * wider windows worthwhile (at most 96 MiB). pub must outlive the result. pool may be NULL. */
sefl_status paillier_enc_new(paillier_enc **out, const paillier_pub *pub, size_t uses, pool *pool,
                             const sefl_progress *progress) SEFL_MUST_CHECK;
void paillier_enc_free(paillier_enc *e);

/* Encrypts count integers m (plain_bytes each; SEFL_ERANGE unless below N) into out (cipher_bytes
 * each). The randomness of integer i comes from (seed, first + i): never encrypt twice with the
 * same pair. The result does not depend on the pool. progress counts ciphertexts. */
sefl_status paillier_encrypt_vartime(const paillier_enc *e, uint8_t *out, const uint8_t *m,
                                     size_t count, const uint8_t seed[PAILLIER_SEED_BYTES],
                                     uint64_t first, pool *pool,
                                     const sefl_progress *progress) SEFL_MUST_CHECK;

/* ---- sums ------------------------------------------------------------------------------------ */

/* Checks the form of ciphertexts. SEFL_EPROTO, with the index, if one is zero, not below N^2, or a
 * multiple of N. (paillier_sum_close detects a common factor with N, which only a party that can
 * factor N could send.) */
sefl_status paillier_check(const paillier_pub *pub, const uint8_t *c, size_t count) SEFL_MUST_CHECK;

/* Creates `positions` running products, all 1 (an encryption of 0 without randomness). */
sefl_status paillier_sum_new(paillier_sum **out, const paillier_pub *pub,
                             size_t positions) SEFL_MUST_CHECK;
void paillier_sum_free(paillier_sum *s);

/* Multiplies checked ciphertexts into positions first to first+count-1, one multiplication each. */
sefl_status paillier_sum_add(paillier_sum *s, size_t first, const uint8_t *c, size_t count,
                             pool *pool) SEFL_MUST_CHECK;

/* Ends the additions. SEFL_ESTATE if the positions had different numbers of additions, SEFL_ECRYPTO
 * if a product has a common factor with N. */
sefl_status paillier_sum_close(paillier_sum *s, pool *pool) SEFL_MUST_CHECK;

/* Writes the products of a closed sum. plain (may be NULL): count integers of plain_bytes, below N,
 * which are added first, without randomness. The function may be called any number of times. */
sefl_status paillier_sum_write(const paillier_sum *s, uint8_t *out, size_t first, size_t count,
                               const uint8_t *plain, pool *pool) SEFL_MUST_CHECK;

/* Adds without a running sum: sum * c mod N^2 for each of count ciphertexts. */
void paillier_add(const paillier_pub *pub, uint8_t *sum, const uint8_t *c, size_t count);

/* ---- decryption ------------------------------------------------------------------------------ */

/* Check the ciphertexts c (cipher_bytes each; SEFL_EPROTO) and decrypt them to m (plain_bytes
 * each), modulo N. paillier_decrypt uses the Chinese remainder theorem. A hardware fault could then
 * reveal the factors of N, so the function checks its results: SEFL_ECRYPTO, with m zeroed, if one
 * is wrong. The check costs as much as two ciphertexts per call, so pass many at once. The slow
 * paillier_decrypt_without_crt, for tests, shares no intermediate result. Constant-time. */
sefl_status paillier_decrypt(const paillier_sec *sec, uint8_t *m, const uint8_t *c, size_t count,
                             pool *pool, const sefl_progress *progress) SEFL_MUST_CHECK;
sefl_status paillier_decrypt_without_crt(const paillier_sec *sec, uint8_t *m, const uint8_t *c,
                                         size_t count, pool *pool,
                                         const sefl_progress *progress) SEFL_MUST_CHECK;

#endif
