/* paillier_internal: declarations that the files of paillier and the tests of toy-size keys share.
 * These functions check no sizes; the functions in paillier.h do that first. */
#ifndef CRYPTO_AHE_PAILLIER_INTERNAL_H
#define CRYPTO_AHE_PAILLIER_INTERNAL_H

#include "base/sha256.h"
#include "crypto/ahe/paillier.h"
#include "crypto/bn/mont.h"
#include "crypto/bn/pair.h"

#include <gmp.h>

enum {
    N_LIMBS = PAILLIER_BITS_MAX / 64,
    P_LIMBS = N_LIMBS / 2,
    N_BYTES = PAILLIER_BITS_MAX / 8,
    C_BYTES = 2 * N_BYTES,
};

struct paillier_pub {
    unsigned bits;             /* length of N; a multiple of 16 */
    unsigned limbs, limbs2;    /* limbs of N and of N^2 */
    uint8_t n_bytes[N_BYTES];  /* little-endian, bits/8 */
    uint8_t hs_bytes[C_BYTES]; /* bits/4 */
    mp_limb_t n[N_LIMBS];
    mp_limb_t n2[2 * N_LIMBS];
    mont mod_n, mod_n2;
    /* paillier_multiple.c: 1/N modulo 2^(64 (limbs/2 + 1)); floor(2^(128 limbs) / N) */
    bool can_filter;
    mp_limb_t inverse[N_LIMBS / 2 + 1], reciprocal[N_LIMBS + 1];
};

struct paillier_sec {
    paillier_pub *pub;
    size_t memory;  /* bytes of this block: the struct, then the constants of the monts */
    unsigned limbs; /* limbs of p and of q */
    mp_limb_t p[P_LIMBS], q[P_LIMBS];     /* p > q */
    mp_limb_t p_1[P_LIMBS], q_1[P_LIMBS]; /* p - 1, q - 1: the exponents */
    mp_limb_t phi[N_LIMBS];               /* (p-1)(q-1) */
    mp_limb_t n_inv[N_LIMBS];             /* 1/N modulo 2^(64*limbs of N) */
    mont_pair p2, q2;                     /* modulo p^2, q^2 */
    mont p1, q1, n1; /* modulo p, q, N: portable kernel, one number at a time */
    /* in Montgomery form of p1, q1, q1, n1: */
    mp_limb_t hp[P_LIMBS], hq[P_LIMBS]; /* -1/q mod p, -1/p mod q */
    mp_limb_t crt[P_LIMBS];             /* 1/p mod q */
    mp_limb_t mu[N_LIMBS];              /* 1/phi mod N */
    uint8_t digest[SHA256_BYTES];       /* hash of the whole block except this member */
};

/* Builds a public key from any odd N of exactly `bits` bits and any hs, without checks. */
sefl_status paillier_pub_make(paillier_pub **out, unsigned bits, const uint8_t *n,
                              const uint8_t *hs) SEFL_MUST_CHECK;

/* Builds a secret key from p > q and hs (bits/16, bits/16 and bits/4 bytes) without checking sizes
 * or primality. SEFL_EINVAL if an inverse does not exist, SEFL_EPROTO if p*q is one bit short. */
sefl_status paillier_sec_make(paillier_sec **out, unsigned bits, const uint8_t *p, const uint8_t *q,
                              const uint8_t *hs) SEFL_MUST_CHECK;

/* Returns 1 if the key's memory has not changed since paillier_sec_make, else 0. Constant-time. */
uint64_t paillier_sec_intact(const paillier_sec *sec);

/* Writes hs = (-x^2)^N mod N^2 for a random unit x. Not constant-time. */
sefl_status paillier_find_hs_vartime(uint8_t *hs, unsigned bits, const mpz_t n,
                                     const sefl_rng *rng) SEFL_MUST_CHECK;

/* Writes 1 + m*N mod N^2 as bits/4 bytes, for m < N in bits/8 bytes. Constant-time. */
void paillier_plain_factor(const paillier_pub *pub, uint8_t *out, const uint8_t *m);

/* Return the fixed-base window, the multiplications per encryption, and the size of the tables. */
unsigned paillier_enc_window(const paillier_enc *e);
unsigned paillier_enc_products(const paillier_enc *e);
size_t paillier_enc_table_bytes(const paillier_enc *e);

/* Like paillier_enc_new, but with a given window (1 to 12). */
sefl_status paillier_enc_new_window(paillier_enc **out, const paillier_pub *pub, unsigned window,
                                    pool *pool, const sefl_progress *progress) SEFL_MUST_CHECK;

/* Convert little-endian bytes to limbs and back; limbs beyond the bytes become 0. */
void paillier_limbs(mp_limb_t *out, size_t limbs, const uint8_t *bytes, size_t n);
void paillier_bytes(uint8_t *out, size_t n, const mp_limb_t *in);

/* Returns true for every multiple c of N (below N^2, twice the limbs of N); for any other number,
 * returns true with probability 2^-60. */
bool paillier_maybe_multiple_vartime(const paillier_pub *pub, const mp_limb_t *c);
void paillier_multiple_init(paillier_pub *pub);

/* Returns SEFL_ERANGE, with the index, if one of `count` plaintexts is not below N. Constant-time
 * except for that result. */
sefl_status paillier_check_plain(const paillier_pub *pub, const uint8_t *m,
                                 size_t count) SEFL_MUST_CHECK;

#endif
