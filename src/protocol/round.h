/* round: what is signed in a round: its header (both servers), the receipt of an update (AS), and
 * AS's statement about the frozen set (to CSP). Little-endian, in envelopes.
 *
 *     header     task 32 | round u64 | model hash 32 | step u64 (server step size, billionths)
 *                | suite u16 | length u16 | CSP's key of this round (0, 0 and nothing without a seal)
 *     receipt    task 32 | round u64 | client fingerprint 32 | body hash 32 | bytes u64
 *     statement  task 32 | round u64 | attempt u64 | clients u32 | set hash 32
 *                | slice: the noise shares of this attempt (mpc/noise/pool.h; none but for joint noise)
 *
 * The set hash is SHA-256("sefl set 1", task, round u64, clients u32, then for each client in
 * rising order of fingerprint: fingerprint 32, body hash 32); in a sealed task the root of the tree
 * of those that were counted (protocol/counted.h). A body's hash is the one that the client calls
 * it by: BLAKE3 of its units. A client's fingerprint is the SHA-256 of the DER bytes of its
 * certificate's public key (SPKI). Under hidden sampling the statement's count goes to CSP all the
 * same and is published nowhere. Threads: values.   Secrets: none. */
#ifndef PROTOCOL_ROUND_H
#define PROTOCOL_ROUND_H

#include "base/buf.h"
#include "base/sha256.h"
#include "base/span.h"
#include "crypto/seal/seal.h"
#include "mpc/noise/pool.h"

enum {
    HEADER_FIXED = 84,
    HEADER_MAX = HEADER_FIXED + SEAL_PUB_MAX,
    RECEIPT_BYTES = 112,
    STATEMENT_FIXED = 84,
    STATEMENT_MAX = STATEMENT_FIXED + SLICE_BYTES_MAX
};

/* The fields in the order of the wire: X(type, name), types u16, u32, u64 and hash (32 bytes).
 * Structs, readers and writers come from these lists; so does the list that
 * tests/unit/protocol/test_schema.c holds against what may be said about a client. */
#define ROUND_HEADER_FIELDS(X)                     \
    X(hash, task)                                  \
    X(u64, round)  /* from 1 */                    \
    X(hash, model) /* SHA-256 of the model file */ \
    X(u64, step_nano)                              \
    X(u16, suite)     /* seal_suite_of; 0: none */ \
    X(u16, key_bytes) /* of the key that follows */
#define ROUND_RECEIPT_FIELDS(X) \
    X(hash, task)               \
    X(u64, round)               \
    X(hash, client)             \
    X(hash, body)               \
    X(u64, bytes)
#define ROUND_STATEMENT_FIELDS(X) \
    X(hash, task)                 \
    X(u64, round)                 \
    X(u64, attempt)               \
    X(u32, clients)               \
    X(hash, set)

#define ROUND_FIELD_u16(name)   uint16_t name;
#define ROUND_FIELD_u32(name)   uint32_t name;
#define ROUND_FIELD_u64(name)   uint64_t name;
#define ROUND_FIELD_hash(name)  uint8_t name[SHA256_BYTES];
#define ROUND_FIELD(type, name) ROUND_FIELD_##type(name)

typedef struct round_header {
    ROUND_HEADER_FIELDS(ROUND_FIELD)
    uint8_t key[SEAL_PUB_MAX]; /* what lies beyond key_bytes is zero */
} round_header;

typedef struct round_receipt {
    ROUND_RECEIPT_FIELDS(ROUND_FIELD)
} round_receipt;

typedef struct round_statement {
    ROUND_STATEMENT_FIELDS(ROUND_FIELD)
    shares_slice slice;
} round_statement;

/* Reading: SEFL_EPROTO unless the length is right and the round above 0; a header's key must have
 * the length that its suite says. The writers of a header and of a statement give its length. */
size_t round_header_write(uint8_t out[HEADER_MAX], const round_header *h);
sefl_status round_header_read(round_header *out, sefl_span in) SEFL_MUST_CHECK;
void round_receipt_write(uint8_t out[RECEIPT_BYTES], const round_receipt *r);
sefl_status round_receipt_read(round_receipt *out, sefl_span in) SEFL_MUST_CHECK;
size_t round_statement_write(uint8_t out[STATEMENT_MAX], const round_statement *s);
sefl_status round_statement_read(round_statement *out, sefl_span in) SEFL_MUST_CHECK;

/* One upload of a set; its 64 bytes are also what the set's hash and file contain. */
typedef struct round_entry {
    uint8_t client[32]; /* fingerprint */
    uint8_t body[32];   /* BLAKE3 of its units: the name of the update */
} round_entry;

/* Orders by client, for qsort and bsearch. */
int round_entry_order(const void *a, const void *b);

/* Sorts `members` by fingerprint; SEFL_EINVAL if one is there twice. */
sefl_status round_set_hash(uint8_t out[SHA256_BYTES], const uint8_t task[32], uint64_t round,
                           round_entry *members, uint32_t n) SEFL_MUST_CHECK;

#endif
