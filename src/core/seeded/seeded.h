/* seeded: a deterministic random generator: ChaCha20 (RFC 8439), keyed with the SHA-256 of a seed
 * and a stream name. The same seed and name give the same numbers.
 *
 * Tests and the simulator use it, and model/ uses it for initialisation, dropout, partitions and
 * generated text. It is a separate target, which crypto, mpc, privacy, protocol and roles do not
 * link, so a role's secret random numbers can come only from the system.
 *
 *     seeded gen;
 *     seeded_init(&gen, 42, "dropout");        // independent streams by name
 *     sefl_rng rng = seeded_rng(&gen);
 *     double u = seeded_unit(&gen);
 *
 * Threads: one owner.   Cost: about 1 ns per byte; a third of that for long outputs. */
#ifndef SEEDED_SEEDED_H
#define SEEDED_SEEDED_H

#include "base/random.h"

typedef struct seeded {
    uint32_t key[8];
    uint32_t nonce[2]; /* 0: the generator itself; otherwise one of its pieces */
    uint64_t counter;
    uint8_t block[64];
    unsigned used; /* bytes of block already returned */
} seeded;

void seeded_init(seeded *g, uint64_t seed, const char *stream);

/* Initialises piece number i >= 1 of g's generator: an independent stream with the same key and
 * nonce i, so that threads, or a GPU, draw the pieces in any order. */
void seeded_piece(seeded *out, const seeded *g, uint64_t i);

void seeded_fill(seeded *g, void *out, size_t n);

/* Returns g as a sefl_rng; g must outlive it. */
sefl_rng seeded_rng(seeded *g);

uint64_t seeded_u64(seeded *g);

/* Returns an exactly uniform number in [0, bound); bound > 0. */
uint64_t seeded_below(seeded *g, uint64_t bound);

/* Returns a uniform number in [0, 1) with 53 random bits. */
double seeded_unit(seeded *g);

/* Writes bytes [offset, offset + n) of the ChaCha20 stream with this key and these nonce words, so
 * that dropout (model/nn/nn.h) can look up the bits of any position. The key is a generator's
 * g.key. */
void seeded_at(void *out, size_t n, const uint32_t key[8], const uint32_t nonce[2],
               uint64_t offset);

/* Computes one ChaCha20 block; public for the RFC's test vector. Words 14 and 15 are the nonce. */
void seeded_chacha20_block(uint8_t out[64], const uint32_t key[8], uint64_t counter,
                           const uint32_t nonce[2]);

#endif
