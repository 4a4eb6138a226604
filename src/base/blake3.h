/* blake3: the BLAKE3 hash [BLAKE3], streaming, 32 bytes out. Fast where bytes are many: whole chunks of
 * 1 KiB are independent leaves of a tree and are hashed side by side (16 with AVX-512, 8 with AVX2).
 *
 *     blake3 h;
 *     blake3_init(&h);
 *     blake3_add(&h, buf_span(&b));              // pieces of any size; 16 KiB and more are fast
 *     blake3_end(&h, digest);                    // 32 bytes; h is wiped
 *
 * The plain mode alone: no key, no derivation, no longer output.
 *
 * Threads: one owner.   Memory: the struct, 9 KiB, whatever the input's length (below 2^64 bytes).
 * Secret: input may be. Public: its length. Constant-time in the input. */
#ifndef BASE_BLAKE3_H
#define BASE_BLAKE3_H

#include "base/span.h"

enum {
    BLAKE3_BYTES = 32,
    BLAKE3_CHUNK = 1024,
    BLAKE3_WAIT = 48, /* nodes that wait on a low level: 31 and a batch of 16 */
    BLAKE3_LOW = 4,   /* levels of the tree whose nodes are merged side by side */
    BLAKE3_HIGH = 54, /* more levels than 2^64 bytes have */
};

typedef struct blake3_path blake3_path;

typedef struct blake3 {
    const blake3_path *path;
    uint64_t chunks;             /* hashed */
    uint64_t tops;               /* nodes of level BLAKE3_LOW so far */
    uint8_t waits[BLAKE3_LOW];   /* nodes in low[] */
    uint8_t highs;               /* nodes in high[] */
    size_t have;                 /* bytes in chunk[] */
    uint8_t chunk[BLAKE3_CHUNK]; /* the last one so far: it may be the end */
    uint8_t low[BLAKE3_LOW][BLAKE3_WAIT][BLAKE3_BYTES];
    uint8_t high[BLAKE3_HIGH][BLAKE3_BYTES];
} blake3;

void blake3_init(blake3 *h);
void blake3_add(blake3 *h, sefl_span in);
void blake3_end(blake3 *h, uint8_t out[BLAKE3_BYTES]);

/* All in one. */
void blake3_of(uint8_t out[BLAKE3_BYTES], sefl_span in);

/* The plain version: the tree as the specification defines it, one block at a time. */
void blake3_of_ref(uint8_t out[BLAKE3_BYTES], sefl_span in);

/* For tests of each way there is: its name, or NULL where i is past the last that this processor has;
 * 0 is the portable one. init_path is init for that way. */
const char *blake3_path_name(unsigned i);
void blake3_init_path(blake3 *h, unsigned i);

#endif
