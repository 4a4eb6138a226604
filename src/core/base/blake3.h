/* blake3: the streaming BLAKE3 hash [BLAKE3] with 32 bytes of output. Long inputs are fast: chunks
 * of 1 KiB are independent leaves of a tree, so a vector unit hashes 16 (AVX-512) or 8 (AVX2) at
 * once.
 *
 *     blake3 h;
 *     blake3_init(&h);
 *     blake3_add(&h, buf_span(&b));              // any size; pieces of 16 KiB or more are fast
 *     blake3_end(&h, digest);                    // 32 bytes; h is wiped
 *
 * Only the plain mode is implemented: no keyed hash, no key derivation, no extended output.
 *
 * Threads: one owner.   Memory: 9 KiB, for any input below 2^64 bytes.
 * Secret: possibly the input. Public: its length. Constant-time in the input. */
#ifndef BASE_BLAKE3_H
#define BASE_BLAKE3_H

#include "base/span.h"

enum {
    BLAKE3_BYTES = 32,
    BLAKE3_CHUNK = 1024,
    BLAKE3_WAIT = 48, /* capacity of a low level, which holds at most 31 nodes and a batch of 16 */
    BLAKE3_LOW = 4,   /* number of levels, from the leaves up, whose nodes are merged in batches */
    BLAKE3_HIGH = 54, /* more levels than any tree over 2^64 bytes */
};

typedef struct blake3_path blake3_path;

typedef struct blake3 {
    const blake3_path *path;
    uint64_t chunks;             /* chunks hashed so far */
    uint64_t tops;               /* nodes of level BLAKE3_LOW made so far */
    uint8_t waits[BLAKE3_LOW];   /* number of nodes in each low[] */
    uint8_t highs;               /* number of nodes in high[] */
    size_t have;                 /* number of bytes in chunk[] */
    uint8_t chunk[BLAKE3_CHUNK]; /* the current chunk, which may be the last one */
    uint8_t low[BLAKE3_LOW][BLAKE3_WAIT][BLAKE3_BYTES];
    uint8_t high[BLAKE3_HIGH][BLAKE3_BYTES];
} blake3;

void blake3_init(blake3 *h);
void blake3_add(blake3 *h, sefl_span in);
void blake3_end(blake3 *h, uint8_t out[BLAKE3_BYTES]);

/* Calls blake3_init, blake3_add and blake3_end. */
void blake3_of(uint8_t out[BLAKE3_BYTES], sefl_span in);

/* The reference version, for tests: follows the specification's tree, one block at a time. */
void blake3_of_ref(uint8_t out[BLAKE3_BYTES], sefl_span in);

/* For tests. Returns the name of implementation i (0 is the portable one), or NULL if this
 * processor does not support it. blake3_init_path initialises a hash that uses implementation i. */
const char *blake3_path_name(unsigned i);
void blake3_init_path(blake3 *h, unsigned i);

#endif
