/* prg: expands a short seed into a long pseudorandom stream that can be read from any position.
 *
 *     prg g;
 *     SEFL_TRY(rng_fill(rng, seed, sizeof seed));       // 32 bytes from the system
 *     prg_init(&g, seed, "pad");                        // one name per use of the seed
 *     prg_at(&g, polynomial, 0);                        // stream number, byte position
 *     prg_fill(&g, coins, n);                           // continues from there
 *     prg_read(&g, coins, n, polynomial, 0);            // the same bytes, without changing g
 *     prg_clear(&g);
 *
 * Key = first 16 bytes of SHA-256("sefl prg 1" || seed || name); stream s is the AES-128-CTR key
 * stream with nonce s. The outputs for different seeds, names and streams are independent if
 * SHA-256 is a good key derivation and AES a pseudorandom permutation. A distinguisher's advantage
 * is about b^2 / 2^129 for b blocks under one key, so callers draw a new seed long before 2^40
 * blocks. The bytes depend only on (seed, name, stream, position), not on the processor.
 *
 * Secret: seed, output.   Public: name, stream, position, lengths.   Constant time.
 * Threads: many may call prg_read on a shared const prg; prg_fill has one owner. */
#ifndef CRYPTO_PRG_PRG_H
#define CRYPTO_PRG_PRG_H

#include "base/random.h"
#include "crypto/prg/aes.h"

enum { PRG_SEED = 32 };

typedef struct prg {
    aes128 key;
    uint64_t stream;
    uint64_t pos; /* next byte of the stream, below 2^64 */
} prg;

void prg_init(prg *g, const uint8_t seed[PRG_SEED], const char *name);

/* Wipes the generator. */
void prg_clear(prg *g);

/* Sets the position where prg_fill continues. prg_init sets stream 0, byte 0. */
void prg_at(prg *g, uint64_t stream, uint64_t pos);

void prg_fill(prg *g, void *out, size_t n);

/* Writes n bytes of a stream, starting at byte pos. */
void prg_read(const prg *g, void *out, size_t n, uint64_t stream, uint64_t pos);

/* Returns g as a sefl_rng; g must outlive it. */
sefl_rng prg_rng(prg *g);

#endif
