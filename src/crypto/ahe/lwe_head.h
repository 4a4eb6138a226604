/* lwe_head: a secret polynomial as Paillier plaintexts: one signed coefficient per 16-bit slot.
 *
 *     m_c = sum over k of s_(c*slots + k) * 2^(16*k)   modulo N,   slots = floor((|N| - 2)/16)
 *
 * Sums of plaintexts are sums of coefficients while those stay within 16 bits signed; no mask is
 * ever added, so there is no headroom. Little-endian bytes of |N|/8, as paillier.h takes them.
 *
 * Secret: s, m. Public: N, sizes. Constant time. */
#ifndef CRYPTO_AHE_LWE_HEAD_H
#define CRYPTO_AHE_LWE_HEAD_H

#include "crypto/ahe/lwe.h"

#include <stddef.h>

/* Slots in a plaintext, and ciphertexts in a head, for a modulus of `bits` bits. */
size_t lwe_head_slots(unsigned bits);
size_t lwe_head_count(unsigned bits);

/* The plaintext of ciphertext `index`: bits/8 bytes below N. |s_k| <= 2^15 - 1. */
void lwe_head_encode(uint8_t *m, const int32_t s[LWE_N], size_t index, const uint8_t *modulus,
                     unsigned bits);

/* The coefficients of ciphertext `index` out of its plaintext m < N. True if m is a plaintext that
 * encoding and honest sums can give; otherwise the coefficients are what the low bits say. */
bool lwe_head_decode(int32_t s[LWE_N], const uint8_t *m, size_t index, const uint8_t *modulus,
                     unsigned bits);

#endif
