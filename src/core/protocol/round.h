/* round: the signed documents of a round: its header (both servers), the receipt of an update (AS),
 * AS's statement about the frozen set (to CSP), and the end of a task (AS). All are little-endian,
 * in envelopes.
 *
 *     header     task 32 | round u64 | model hash 32 | step u64 (server step size, billionths)
 *                | suite u16 | length u16 | CSP's round key (in an unsealed task: 0, 0, no key)
 *     receipt    task 32 | round u64 | client fingerprint 32 | body hash 32 | bytes u64
 *     statement  task 32 | round u64 | attempt u64 | clients u32 | set hash 32
 *                | slice: this attempt's noise shares (mpc/noise/shares_pool.h; joint noise only)
 *                | lags u8, then for each set bit, lowest first: id 32. Bit j: AS has what it kept
 *                in round - 1 - j, of the reveal with this id (correlated noise, sum/history.h)
 *     end        task 32 | last released round u64 | hash of the model that it released 32
 *
 * The set hash is SHA-256("sefl set 1", task, round u64, clients u32, then for each client, sorted
 * by fingerprint: fingerprint 32, body hash 32). In a sealed task it is the root of the tree of
 * counted clients (protocol/counted.h). A body hash is an update's name (crypto/update_name.h).
 * A client's fingerprint is the SHA-256 of the public key in its certificate (SPKI, DER).
 * CSP learns the number of clients even if nobody publishes it.
 * Threads: any.   Secrets: none. */
#ifndef PROTOCOL_ROUND_H
#define PROTOCOL_ROUND_H

#include "base/buf.h"
#include "base/sha256.h"
#include "base/span.h"
#include "crypto/seal/seal.h"
#include "mpc/noise/noise_filter.h"
#include "mpc/noise/shares_pool.h"

enum {
    HEADER_FIXED = 84,
    HEADER_MAX = HEADER_FIXED + SEAL_PUB_MAX,
    RECEIPT_BYTES = 112,
    STATEMENT_FIXED = 84,
    STATEMENT_MAX = STATEMENT_FIXED + SLICE_BYTES_MAX + 1 + NOISE_LAGS * SHA256_BYTES,
    END_BYTES = 72
};

/* The fields in wire order: X(type, name), types u16, u32, u64 and hash (32 bytes). The lists
 * generate the structs, their readers and writers. tests/unit/core/protocol/test_schema.c checks
 * that they contain only what a message may reveal about a client. */
#define ROUND_HEADER_FIELDS(X)                     \
    X(hash, task)                                  \
    X(u64, round)  /* from 1 */                    \
    X(hash, model) /* SHA-256 of the model file */ \
    X(u64, step_nano)                              \
    X(u16, suite)     /* seal_suite_of; 0: none */ \
    X(u16, key_bytes) /* size of the key that follows */
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

#define ROUND_END_FIELDS(X) \
    X(hash, task)           \
    X(u64, round)           \
    X(hash, model)

#define ROUND_FIELD_u16(name)   uint16_t name;
#define ROUND_FIELD_u32(name)   uint32_t name;
#define ROUND_FIELD_u64(name)   uint64_t name;
#define ROUND_FIELD_hash(name)  uint8_t name[SHA256_BYTES];
#define ROUND_FIELD(type, name) ROUND_FIELD_##type(name)

typedef struct round_header {
    ROUND_HEADER_FIELDS(ROUND_FIELD)
    uint8_t key[SEAL_PUB_MAX]; /* key_bytes bytes, then zeros */
} round_header;

typedef struct round_receipt {
    ROUND_RECEIPT_FIELDS(ROUND_FIELD)
} round_receipt;

typedef struct round_statement {
    ROUND_STATEMENT_FIELDS(ROUND_FIELD)
    shares_slice slice;
    uint8_t lags;
    uint8_t past[NOISE_LAGS][SHA256_BYTES]; /* ids; zeros without the lag's bit */
} round_statement;

typedef struct round_end {
    ROUND_END_FIELDS(ROUND_FIELD)
} round_end;

/* The readers return SEFL_EPROTO if the length is wrong, or if the round is 0, except in an end:
 * no round was released. round_header_read also
 * refuses an unknown suite or a key of the wrong length. The size_t writers return the length. */
size_t round_header_write(uint8_t out[HEADER_MAX], const round_header *h);
sefl_status round_header_read(round_header *out, sefl_span in) SEFL_MUST_CHECK;
void round_receipt_write(uint8_t out[RECEIPT_BYTES], const round_receipt *r);
sefl_status round_receipt_read(round_receipt *out, sefl_span in) SEFL_MUST_CHECK;
size_t round_statement_write(uint8_t out[STATEMENT_MAX], const round_statement *s);
sefl_status round_statement_read(round_statement *out, sefl_span in) SEFL_MUST_CHECK;
void round_end_write(uint8_t out[END_BYTES], const round_end *e);
sefl_status round_end_read(round_end *out, sefl_span in) SEFL_MUST_CHECK;

/* One upload in a set; the set's hash and file contain these 64 bytes. */
typedef struct round_entry {
    uint8_t client[32]; /* fingerprint */
    uint8_t body[32];   /* the update's name (crypto/update_name.h) */
} round_entry;

/* Compares by client, for qsort and bsearch. */
int round_entry_order(const void *a, const void *b);

/* Sorts `members` by fingerprint and hashes them; SEFL_EINVAL if a client occurs twice. */
sefl_status round_set_hash(uint8_t out[SHA256_BYTES], const uint8_t task[32], uint64_t round,
                           round_entry *members, uint32_t n) SEFL_MUST_CHECK;

#endif
