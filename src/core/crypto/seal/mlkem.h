/* mlkem: ML-KEM-768 (FIPS 203), the post-quantum half of X-Wing.
 *
 *     mlkem_key_from(&key, seed, bytes);              // bytes: the encapsulation key, public
 *     SEFL_TRY(mlkem_pub_from(&pub, bytes));          // a peer's key: coefficients must be reduced
 *     mlkem_encap(cipher, shared, &pub, coins);
 *     mlkem_decap(shared2, &key, cipher);             // never fails: see below
 *
 * Keys are stored expanded (the matrix A, and all vectors in the NTT domain), so a server that
 * decapsulates thousands of ciphertexts under one key expands A only once; this halves the work per
 * ciphertext. Decapsulation rejects implicitly (FIPS 203, 7.3): an invalid ciphertext yields a
 * pseudorandom result. Secret: seed, coins, key, shared, and whether a ciphertext was valid.
 * Public: the rest. Constant-time: no branch, address or division depends on a secret; rejection
 * sampling reads public bytes only. Threads: a const key may be shared. Callers wipe keys. */
#ifndef CRYPTO_SEAL_MLKEM_H
#define CRYPTO_SEAL_MLKEM_H

#include "base/status.h"

#include <stdint.h>

enum {
    MLKEM_N = 256,
    MLKEM_K = 3,
    MLKEM_SEED = 64, /* d | z */
    MLKEM_PUB = 384 * MLKEM_K + 32,
    MLKEM_CIPHER = 320 * MLKEM_K + 128,
    MLKEM_COINS = 32,
    MLKEM_SHARED = 32,
};

/* Centred coefficients modulo 3329; each function documents their range. */
typedef struct mlkem_poly {
    int16_t c[MLKEM_N];
} mlkem_poly;

typedef struct mlkem_pub {
    mlkem_poly a[MLKEM_K][MLKEM_K]; /* NTT domain */
    mlkem_poly t[MLKEM_K];          /* NTT domain */
    uint8_t hash[32];               /* SHA3-256 of the encapsulation key */
} mlkem_pub;

typedef struct mlkem_key {
    mlkem_pub pub;
    mlkem_poly s[MLKEM_K]; /* NTT domain; secret */
    uint8_t z[32];         /* secret */
} mlkem_key;

void mlkem_key_from(mlkem_key *key, const uint8_t seed[MLKEM_SEED], uint8_t pub[MLKEM_PUB]);
/* SEFL_EPROTO, with out zeroed, if a coefficient is 3329 or more. */
sefl_status mlkem_pub_from(mlkem_pub *out, const uint8_t pub[MLKEM_PUB]) SEFL_MUST_CHECK;
void mlkem_encap(uint8_t cipher[MLKEM_CIPHER], uint8_t shared[MLKEM_SHARED], const mlkem_pub *pub,
                 const uint8_t coins[MLKEM_COINS]);
void mlkem_decap(uint8_t shared[MLKEM_SHARED], const mlkem_key *key,
                 const uint8_t cipher[MLKEM_CIPHER]);

/* Compresses x in [0, 3329) to d bits (FIPS 203, 4.2.1), d = 1, 4 or 10; for tests. */
uint32_t mlkem_compress(uint32_t x, unsigned d);

#endif
