/* head: the start of a sealed upload. It contains the seed of the upload's pad, sealed to CSP's
 * round key, and is signed with the client's upload key (protocol/voucher.h).
 *
 *     "SFH2" | suite u16 | 0 u16 | client 32 | units 32 | enc | sealed seed 48 | signature 64
 *
 *     client     fingerprint of the key in the client's certificate
 *     units      name of the update: the salted hash of its units (crypto/update_name.h)
 *     enc        32 bytes (x25519) or 1120 (xwing): crypto/seal/seal.h
 *     seal       info "sefl head 2" | task 32 | round u64, ad client 32 | units 32
 *     signature  SIGN_UPLOAD over task 32 | round u64 | the head before the signature
 *
 * A head has 216 bytes with x25519 and 1,304 with xwing. It contains neither its task nor its
 * round: the reader knows both. If either is wrong, neither signature nor seal verifies.
 *
 *     SEFL_TRY(head_make(out, &facts, csp_pub, seed, upload_key, &rng));     // client
 *     SEFL_TRY(head_read(&h, task->seal, in));                               // AS, CSP
 *     SEFL_TRY(head_check(&h, task_hash, round, upload_pub));
 *     SEFL_TRY(head_open(seed, &h, round_key, task_hash, round));            // CSP
 *
 * In a SET, a short form replaces a head that CSP already has (protocol/link.h): the head's first
 * 72 bytes, with suite 0.
 *
 * Secret: seed, keys. Public: the rest, including whether a head opened. Constant-time in the seed.
 * Threads: any. */
#ifndef PROTOCOL_HEAD_H
#define PROTOCOL_HEAD_H

#include "base/random.h"
#include "base/span.h"
#include "crypto/seal/seal.h"
#include "crypto/sign.h"

enum {
    HEAD_SEED = 32,
    HEAD_PREFIX = 72, /* bytes before enc; size of the short form */
    HEAD_MAX = HEAD_PREFIX + SEAL_ENC_MAX + HEAD_SEED + SEAL_TAG + SIGN_BYTES,
};

/* The fields in wire order after the mark, with their bytes. head.c checks its sizes against this
 * list; tests/unit/core/protocol/test_schema.c reviews it. */
#define HEAD_FIELDS(X)                                \
    X(suite, 4) /* u16, and a zero u16 */             \
    X(client, 32)                                     \
    X(units, 32)                                      \
    X(enc, SEAL_ENC_MAX) /* with the longest suite */ \
    X(sealed_seed, HEAD_SEED + SEAL_TAG)              \
    X(signature, SIGN_BYTES)

typedef struct head {
    const seal_suite *suite; /* NULL: the short form */
    uint8_t client[32], units[32];
    sefl_span bytes; /* the complete head, in the reader's input */
} head;

/* Returns the size of a whole head; 0 if s is NULL, because an unsealed upload has no head. */
size_t head_bytes(const seal_suite *s);

/* Reads one whole head of this suite; SEFL_EPROTO if the input is anything else. Checks neither the
 * signature nor the seal. */
sefl_status head_read(head *out, const seal_suite *want, sefl_span in) SEFL_MUST_CHECK;

/* Reads the next head of a sequence, whole or short. */
sefl_status head_next(head *out, const seal_suite *want, rd *r) SEFL_MUST_CHECK;

/* SEFL_EAUTH unless this upload key signed this whole head for this task and round. */
sefl_status head_check(const head *h, const uint8_t task[32], uint64_t round,
                       const uint8_t upload_key[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;

typedef struct head_facts {
    const seal_suite *suite;
    const uint8_t *task; /* 32 bytes, like client and units */
    uint64_t round;
    const uint8_t *client, *units;
} head_facts;

/* Writes head_bytes(f->suite) bytes. SEFL_EPROTO if csp_pub is not a key of the suite. */
sefl_status head_make(uint8_t *out, const head_facts *f, sefl_span csp_pub,
                      const uint8_t seed[HEAD_SEED], const sign_key *upload_key,
                      const sefl_rng *rng) SEFL_MUST_CHECK;

/* Writes the short form. */
void head_short(uint8_t out[HEAD_PREFIX], const uint8_t client[32], const uint8_t units[32]);

/* Opens the seed in a whole head whose signature the caller has verified. SEFL_EAUTH, with seed
 * zeroed, if the seal does not open with this key for this task and round. */
sefl_status head_open(uint8_t seed[HEAD_SEED], const head *h, const seal_key *key,
                      const uint8_t task[32], uint64_t round) SEFL_MUST_CHECK;

#endif
