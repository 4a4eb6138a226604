/* keccak: the SHA-3 and SHAKE functions (FIPS 202) that ML-KEM and X-Wing use.
 *
 *     keccak k;
 *     keccak_init(&k, KECCAK_SHAKE256);
 *     keccak_add(&k, seed, 32);
 *     keccak_add(&k, &index, 1);
 *     keccak_get(&k, out, 128);                // may be called again: continues the stream
 *
 * The first keccak_get ends the input.
 * Secret: possibly the input and output. Public: all lengths. Constant-time. The state may hold
 * secrets, so callers wipe it with keccak_clear. */
#ifndef CRYPTO_SEAL_KECCAK_H
#define CRYPTO_SEAL_KECCAK_H

#include <stddef.h>
#include <stdint.h>

/* Each value combines the rate in bytes (low byte) with the suffix appended to the message. */
typedef enum keccak_kind {
    KECCAK_SHAKE128 = 168 | 0x1f << 8,
    KECCAK_SHAKE256 = 136 | 0x1f << 8,
    KECCAK_SHA3_256 = 136 | 0x06 << 8,
    KECCAK_SHA3_512 = 72 | 0x06 << 8,
} keccak_kind;

typedef struct keccak {
    uint64_t a[25];
    uint32_t rate, at; /* at: bytes of this block absorbed or squeezed so far */
    uint8_t ending;    /* 0: the input has ended */
} keccak;

void keccak_init(keccak *k, keccak_kind kind);
void keccak_add(keccak *k, const void *in, size_t n);
void keccak_get(keccak *k, void *out, size_t n);
void keccak_clear(keccak *k);

#endif
