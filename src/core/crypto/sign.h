/* sign: Ed25519 signatures (libsodium) on tasks, round headers, uploads, statements, receipts, ...
 *
 *     SEFL_TRY(sign_key_new(&key, &rng));
 *     SEFL_TRY(sign_make(sig, key, SIGN_TASK, bytes));
 *     SEFL_TRY(sign_check(sig, pub, SIGN_TASK, bytes));      // SEFL_EAUTH if it does not verify
 *
 * A signature covers "sefl <kind> 1\n" followed by the bytes, so a signature on one kind of message
 * is never valid for another. Secret: the key (locked in memory if the system allows it; wiped).
 * Public: the rest. Constant-time in the key. Threads: a key may be shared. */
#ifndef CRYPTO_SIGN_H
#define CRYPTO_SIGN_H

#include "base/span.h"

struct sefl_rng; /* base/random.h */

enum { SIGN_PUB_BYTES = 32, SIGN_BYTES = 64, SIGN_SEED_BYTES = 32 };

/* The comments name signer and content. Values are stable: envelopes (signed.h) store them. */
typedef enum sign_kind {
    SIGN_TASK = 1,      /* "task" */
    SIGN_HEADER = 2,    /* "round header" */
    SIGN_RECEIPT = 3,   /* "receipt" */
    SIGN_STATEMENT = 4, /* "statement": AS on a round's set of clients, for CSP */
    SIGN_ENROLMENT = 5, /* "enrolment": a site, with its token, on its request (protocol/enrol.h) */
    SIGN_APPROVAL = 6,  /* "approval": a server on an enrolled site */
    SIGN_UPLOAD = 7,    /* "upload": a client on the head of its upload (protocol/head.h) */
    SIGN_COUNTED = 8,   /* "counted": CSP on the clients of a release (protocol/counted.h) */
    SIGN_SESSION = 9,  /* "noise session": CSP on a session of noise shares (noise/noise_audit.h) */
    SIGN_ORDER = 10,   /* "order": AS on its order to CSP to skip a round or to end a task */
    SIGN_LINK = 11,    /* "link": AS on the first message of a stream to CSP */
    SIGN_END = 12,     /* "end": AS on the final model of a task (protocol/round.h) */
    SIGN_AUDIT = 13,   /* "audit log": a server on the end of its log (roles/audit/audit_log.h) */
    SIGN_VERDICT = 14, /* "noise verdict": AS on KEEP or AUDIT of a session (noise/noise_audit.h) */
} sign_kind;

/* Returns the quoted name from the list above; NULL for an unknown kind. */
const char *sign_kind_name(sign_kind kind);

typedef struct sign_key sign_key;

sefl_status sign_key_new(sign_key **out, const struct sefl_rng *rng) SEFL_MUST_CHECK;
/* Derives a key from a seed; the same seed gives the same key. */
sefl_status sign_key_from(sign_key **out, const uint8_t seed[SIGN_SEED_BYTES]) SEFL_MUST_CHECK;
void sign_key_free(sign_key *key);
const uint8_t *sign_key_pub(const sign_key *key); /* SIGN_PUB_BYTES */
/* Derives 32 secret bytes for another purpose, a short text: BLAKE2b of it, keyed with the seed. */
void sign_key_derive(const sign_key *key, const char *purpose, uint8_t out[32]);

/* A signing key on disk is text: "-----BEGIN SEFL SIGNING KEY-----", the seed in base64 on one
 * line, "-----END SEFL SIGNING KEY-----". Its mode is 0600; writing never replaces a file. It is
 * not sealed, because it decrypts nothing. The public half is 64 hex digits and a line feed. Any
 * other content is SEFL_EPROTO. */
sefl_status sign_key_write(const sign_key *key, const char *path) SEFL_MUST_CHECK;
sefl_status sign_key_read(sign_key **out, const char *path) SEFL_MUST_CHECK;
sefl_status sign_pub_write(const uint8_t pub[SIGN_PUB_BYTES], const char *path) SEFL_MUST_CHECK;
sefl_status sign_pub_read(uint8_t pub[SIGN_PUB_BYTES], const char *path) SEFL_MUST_CHECK;

sefl_status sign_make(uint8_t sig[SIGN_BYTES], const sign_key *key, sign_kind kind,
                      sefl_span bytes) SEFL_MUST_CHECK;
sefl_status sign_check(const uint8_t sig[SIGN_BYTES], const uint8_t pub[SIGN_PUB_BYTES],
                       sign_kind kind, sefl_span bytes) SEFL_MUST_CHECK;

#endif
