/* round: what is signed in a round: its header (both servers), the receipt of an update (AS), and AS's
 * statement about the frozen set (to CSP). Fixed layouts, little-endian, in envelopes.
 *
 *     header     task 32 | round u64 | model hash 32 | step u64 (server step size, billionths)
 *     receipt    task 32 | round u64 | client fingerprint 32 | body hash 32 | bytes u64
 *     statement  task 32 | round u64 | attempt u64 | clients u32 | set hash 32
 *
 * The set hash is SHA-256("sefl set 1", task, round u64, clients u32, then for each client in
 * rising order of fingerprint: fingerprint 32, body hash 32).
 * A client's fingerprint is the SHA-256 of the DER bytes of its certificate's public key (SPKI).
 * Under hidden sampling the statement's count goes to CSP all the same and is published nowhere.
 * Threads: values.   Secrets: none. */
#ifndef PROTOCOL_ROUND_H
#define PROTOCOL_ROUND_H

#include "base/buf.h"
#include "base/sha256.h"
#include "base/span.h"

enum { HEADER_BYTES = 80, RECEIPT_BYTES = 112, STATEMENT_BYTES = 84 };

typedef struct round_header {
    uint8_t task[32];
    uint64_t round; /* from 1 */
    uint8_t model[SHA256_BYTES];
    uint64_t step_nano;
} round_header;

typedef struct round_receipt {
    uint8_t task[32];
    uint64_t round;
    uint8_t client[32], body[SHA256_BYTES];
    uint64_t bytes;
} round_receipt;

typedef struct round_statement {
    uint8_t task[32];
    uint64_t round, attempt;
    uint32_t clients;
    uint8_t set[SHA256_BYTES];
} round_statement;

void round_header_write(uint8_t out[HEADER_BYTES], const round_header *h);
sefl_status round_header_read(round_header *out, sefl_span in) SEFL_MUST_CHECK;
void round_receipt_write(uint8_t out[RECEIPT_BYTES], const round_receipt *r);
sefl_status round_receipt_read(round_receipt *out, sefl_span in) SEFL_MUST_CHECK;
void round_statement_write(uint8_t out[STATEMENT_BYTES], const round_statement *s);
sefl_status round_statement_read(round_statement *out, sefl_span in) SEFL_MUST_CHECK;

typedef struct round_member {
    uint8_t client[32], body[SHA256_BYTES];
} round_member;

/* Sorts `members` by fingerprint; SEFL_EINVAL if one is there twice. */
sefl_status round_set_hash(uint8_t out[SHA256_BYTES], const uint8_t task[32], uint64_t round,
                           round_member *members, uint32_t n) SEFL_MUST_CHECK;

#endif
