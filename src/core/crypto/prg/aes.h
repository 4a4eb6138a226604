/* aes: AES-128 (FIPS 197), encryption only, many blocks at a time.
 *
 *     aes128 k;
 *     aes128_init(&k, key);
 *     aes128_ctr(&k, out, n, nonce, 0);             // n bytes of key stream
 *     sefl_wipe(&k, sizeof k);
 *
 * For a pseudorandom stream use prg.h; to hash wire labels use mpc/garble/garble.h. Only these two
 * modules and OT extension encrypt raw blocks.
 *
 * Four paths compute the same bytes: AES-NI (8 blocks in flight), VAES on 256-bit registers (16),
 * VAES on 512-bit registers (32), and plain C that evaluates the S-box as a Boolean circuit on 16
 * bit-sliced blocks (no table look-ups). aes128_init and aes128_ctr use the fastest path that the
 * processor supports; tests choose one with the _on functions.
 *
 * Secret: key, data.   Public: lengths, nonce, counter.   Constant time on every path.
 * Threads: an initialised key may be shared.
 * Cost (Ice Lake, one core): 20 GB/s with VAES, 9 with AES-NI, 0.15 in plain C. */
#ifndef CRYPTO_PRG_AES_H
#define CRYPTO_PRG_AES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AES_BLOCK = 16, AES_KEY = 16, AES_ROUNDS = 10 };

/* Round keys in FIPS byte order: round r is rk[16r .. 16r+15]. */
typedef struct aes128 {
    _Alignas(64) uint8_t rk[(AES_ROUNDS + 1) * AES_BLOCK];
} aes128;

void aes128_init(aes128 *k, const uint8_t key[AES_KEY]);

/* Encrypts `blocks` independent blocks in plain C. Tests of code that interleaves AES with other
 * work use it as the reference. out and in may be equal, but must not overlap otherwise. */
void aes128_ecb_soft(const aes128 *k, uint8_t *out, const uint8_t *in, size_t blocks);

/* Writes n bytes of key stream: block i (i = counter, counter + 1, ...) is AES(nonce, i), both as
 * 64-bit big-endian integers, the nonce first. This is the CTR mode of SP 800-38A with a 64-bit
 * counter. The last block may be partial. counter + blocks must not exceed 2^64. */
void aes128_ctr(const aes128 *k, uint8_t *out, size_t n, uint64_t nonce, uint64_t counter);

/* ---- paths, for tests and benchmarks -------------------------------------------------- */

typedef enum aes_path { AES_SOFT, AES_NI, AES_VAES256, AES_VAES512, AES_PATHS } aes_path;

aes_path aes_path_best(void);
bool aes_path_has(aes_path path);
const char *aes_path_name(aes_path path);

void aes128_init_on(aes_path path, aes128 *k, const uint8_t key[AES_KEY]);
void aes128_ctr_on(aes_path path, const aes128 *k, uint8_t *out, size_t n, uint64_t nonce,
                   uint64_t counter);

#endif
