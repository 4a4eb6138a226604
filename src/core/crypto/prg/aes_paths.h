/* aes_paths: the AES implementations that aes.c chooses from, internal to prg/. They process whole
 * groups of blocks; aes.c handles the remaining blocks. */
#ifndef CRYPTO_PRG_AES_PATHS_H
#define CRYPTO_PRG_AES_PATHS_H

#include "crypto/prg/aes.h"

/* The plain C implementation processes groups of 16 blocks. */
enum { AES_SOFT_GROUP = 16 };
void aes_soft_init(aes128 *k, const uint8_t key[AES_KEY]);
void aes_soft_ecb(const aes128 *k, uint8_t *out, const uint8_t *in, size_t groups);

#if defined(__x86_64__)
void aes_ni_init(aes128 *k, const uint8_t key[AES_KEY]);
/* Write whole groups of 8, 16 or 32 blocks and return the number of blocks written. */
size_t aes_ni_ctr(const aes128 *k, uint8_t *out, size_t blocks, uint64_t nonce, uint64_t counter);
/* Writes the remaining 1 to 7 blocks. */
void aes_ni_ctr_rest(const aes128 *k, uint8_t *out, size_t blocks, uint64_t nonce,
                     uint64_t counter);
size_t aes_vaes256_ctr(const aes128 *k, uint8_t *out, size_t blocks, uint64_t nonce,
                       uint64_t counter);
size_t aes_vaes512_ctr(const aes128 *k, uint8_t *out, size_t blocks, uint64_t nonce,
                       uint64_t counter);
#endif

#endif
