/* seeded: a generator that gives the same coins for the same seed: ChaCha20 (RFC 8439) keyed with
 * SHA-256 of the seed and a stream name.
 *
 * For tests, the simulator and the learning side of model/ (initialisation, dropout, partition,
 * generated text). It is a separate target that crypto, mpc, privacy, protocol and roles do not
 * link: a role's secret coins can only come from the system.
 *
 *     seeded gen;
 *     seeded_init(&gen, 42, "dropout");        // independent streams by name
 *     sefl_rng rng = seeded_rng(&gen);
 *     double u = seeded_unit(&gen);
 *
 * Threads: one owner.   Cost: about 1 ns per byte; a third of that in long
 * pieces (eight blocks at a time). */
#ifndef SEEDED_SEEDED_H
#define SEEDED_SEEDED_H

#include "base/random.h"

typedef struct seeded {
    uint32_t key[8];
    uint64_t counter;
    uint8_t block[64];
    unsigned used; /* bytes of block given out */
} seeded;

void seeded_init(seeded *g, uint64_t seed, const char *stream);

void seeded_fill(seeded *g, void *out, size_t n);

/* The generator as a source of coins; g must outlive it. */
sefl_rng seeded_rng(seeded *g);

uint64_t seeded_u64(seeded *g);

/* Uniform in [0, bound), exactly; bound > 0. */
uint64_t seeded_below(seeded *g, uint64_t bound);

/* Uniform in [0, 1), 53 bits. */
double seeded_unit(seeded *g);

/* Bytes [offset, offset + n) of the ChaCha20 stream with this key and these nonce words: coins by
 * their place, for dropout (model/nn/nn.h). The key is that of a generator, g.key. */
void seeded_at(void *out, size_t n, const uint32_t key[8], const uint32_t nonce[2],
               uint64_t offset);

/* One ChaCha20 block, exposed for its RFC vector: key, 64-bit counter, nonce words 14 and 15. */
void seeded_chacha20_block(uint8_t out[64], const uint32_t key[8], uint64_t counter,
                           const uint32_t nonce[2]);

#endif
