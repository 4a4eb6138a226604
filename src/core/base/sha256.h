/* sha256: streaming SHA-256 (FIPS 180-4). Uses the SHA instructions if the processor has them.
 *
 *     sha256 h;
 *     sha256_init(&h);
 *     sha256_add(&h, buf_span(&b));
 *     sha256_end(&h, digest);                  // 32 bytes; h is wiped
 *
 * Secret: possibly the input. Public: its length. Constant-time in the input. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include "base/span.h"

enum { SHA256_BYTES = 32 };

typedef struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} sha256;

void sha256_init(sha256 *h);
void sha256_add(sha256 *h, sefl_span in);
void sha256_end(sha256 *h, uint8_t out[SHA256_BYTES]);

/* Calls sha256_init, sha256_add and sha256_end. */
void sha256_of(uint8_t out[SHA256_BYTES], sefl_span in);

/* Hashes the concatenation of several spans, for example
 * sha256_join(out, span_of_str("sefl prg 1"), span_of(seed, 32)). */
#define sha256_join(out, ...)                              \
    sha256_of_all(out, (const sefl_span[]){ __VA_ARGS__ }, \
                  sizeof((const sefl_span[]){ __VA_ARGS__ }) / sizeof(sefl_span))
void sha256_of_all(uint8_t out[SHA256_BYTES], const sefl_span *part, size_t parts);

/* The compression function. Tests compare it with the reference version, sha256_blocks_ref. */
void sha256_blocks_ref(uint32_t state[8], const uint8_t *p, size_t blocks);
void sha256_blocks(uint32_t state[8], const uint8_t *p, size_t blocks);

#endif
