/* paillier_pack: packs signed numbers into the slots of one plaintext, and masks them.
 *
 * A unit's plaintext is A = sum X_i * 2^(w*i), possibly negative (then modulo N). AS adds OFF + v
 * with OFF = 2^(w*slots) and v uniform in [0, 2^(w*slots + s)): the integer n = A + OFF + v is
 * positive and below N, so CSP decrypts it without wrap-around. A plain unit is n (or v) in
 * plain_bytes = |N|/8 little-endian bytes; unit_values is the number of slots.
 *
 * Secret: everything except the parameters. Constant-time. Threads: any. */
#ifndef CRYPTO_AHE_PAILLIER_PACK_H
#define CRYPTO_AHE_PAILLIER_PACK_H

#include "crypto/ahe/ahe.h"

/* Writes A mod N; n is the modulus. */
void paillier_pack(const ahe_params *p, uint8_t *out, const int64_t *values, size_t count,
                   const uint8_t *n);

/* Writes v of unit `index`, or OFF + v if offset is 1. */
void paillier_pack_mask(const ahe_params *p, uint8_t *out, uint64_t index,
                        const uint8_t seed[AHE_SEED_BYTES], unsigned offset);

/* Paillier's versions of the plain-unit functions in ahe.h. */
sefl_status paillier_mask_units(const ahe_params *p, uint8_t *plain, size_t first, size_t units,
                                const uint8_t seed[AHE_SEED_BYTES]) SEFL_MUST_CHECK;
void paillier_plain_digits(const ahe_params *p, uint64_t *digits, const uint8_t *plain,
                           size_t units);
void paillier_plain_unmask(const ahe_params *p, int64_t *values, const uint8_t *masked,
                           const uint8_t *mask, size_t units);
void paillier_plain_add(const ahe_params *p, uint8_t *plain, const int64_t *values, size_t units);

#endif
