/* noise_audit: CSP's commitment in a session of noise shares, and the record of an audit.
 *
 * CSP garbles the circuit, so it could omit the noise. A session (noise/shares.h) depends on no
 * data, so AS may inspect it: a 32-byte seed and AS's messages determine all messages of CSP.
 *
 *     CSP  commitment = SHA-256("sefl audit 1", id, seed)         before the base OT
 *     CSP  at the end signs id, commitment and BLAKE3 hashes (audit_seen) of all messages
 *     AS   compares, then draws a coin and signs: KEEP or AUDIT; after AUDIT neither side uses the
 *          values
 *     CSP  after KEEP: destroys the seed, then adds the values to its pool
 *     CSP  after AUDIT: drops its values, durably, then reveals the seed
 *     AS   garbles again (shares_replay) and compares
 *
 * AS audits a session with probability 1/8 by default. Its decision is durable before CSP sees it,
 * and AS uses no session while CSP owes it a seed (roles/aggregator/lanes.h). So silence gains CSP
 * nothing: n sessions without noise are used with probability (7/8)^n, and one session can supply
 * a whole round.
 *
 * What a record proves. CSP sends two kinds of messages: `own` depends on its seed alone; the
 * tables also depend on AS's messages, which depend on AS's seed and on `own`. So, given the two
 * seeds and the signature, a difference means:
 *     the seed differs from the commitment    nothing: CSP or AS may have changed it
 *     own differs                    CSP did not follow its seed
 *     received differs               AS presents a seed that it did not use; nothing is proven
 *     the tables differ              CSP garbled something else
 *
 * The record of an audit has AUDIT_RECORD bytes; a changed record proves nothing:
 *     "SEFLaud1" | CSP's hello 128 | AS's hello 128 | CSP's public signing key 32 | commitment 32 |
 *     own 32 | tables 32 | received 32 | signature 64 | CSP's seed 32 | AS's seed 32
 * The reader must know from another source that the public key is CSP's. No round uses a value from
 * an audited session, so the seeds in the record reveal nothing about any round.
 *
 * Transcripts are hashed with BLAKE3, because a session can transfer a gigabyte per second.
 *
 * Secret: seeds, until they are revealed. Public: the rest.   Threads: any. */
#ifndef MPC_NOISE_NOISE_AUDIT_H
#define MPC_NOISE_NOISE_AUDIT_H

#include "crypto/sign.h"

enum {
    AUDIT_SEED = 32,
    AUDIT_HASH = 32,
    AUDIT_HELLO = 128,
    AUDIT_ID = 32,
    VERDICT_KEEP = 1,
    VERDICT_AUDIT = 2,
    AUDIT_RECORD =
        8 + 2 * AUDIT_HELLO + SIGN_PUB_BYTES + 4 * AUDIT_HASH + SIGN_BYTES + 2 * AUDIT_SEED,
};

/* BLAKE3 hashes of CSP's messages that depend on its seed alone, of its tables, and of the messages
 * it received. They cover all frames from the first after the hello to the last table. */
typedef struct audit_seen {
    uint8_t own[AUDIT_HASH], tables[AUDIT_HASH], received[AUDIT_HASH];
} audit_seen;

typedef struct audit_record {
    uint8_t hello[2][AUDIT_HELLO]; /* CSP's, then AS's */
    uint8_t csp[SIGN_PUB_BYTES];
    uint8_t commitment[AUDIT_HASH];
    audit_seen seen;
    uint8_t signature[SIGN_BYTES];
    uint8_t csp_seed[AUDIT_SEED], as_seed[AUDIT_SEED];
} audit_record;

typedef enum audit_verdict {
    AUDIT_SHOWS_NOTHING = 0, /* the parts do not belong to one session, or a seed is wrong */
    AUDIT_HONEST = 1,        /* CSP garbled the right circuit */
    AUDIT_CHEATED = 2,       /* CSP signed a session that does not follow from its seed */
} audit_verdict;

typedef struct audit_finding {
    audit_verdict verdict;
    const char *why; /* one sentence, a string constant */
} audit_finding;

/* Computes a session's id from its two hellos. */
void audit_id(uint8_t id[AUDIT_ID], const uint8_t csp_hello[AUDIT_HELLO],
              const uint8_t as_hello[AUDIT_HELLO]);

void audit_commit(uint8_t out[AUDIT_HASH], const uint8_t id[AUDIT_ID],
                  const uint8_t seed[AUDIT_SEED]);

/* Make and verify CSP's signature (SIGN_SESSION). SEFL_EAUTH if it is not valid. */
sefl_status audit_sign(uint8_t sig[SIGN_BYTES], const sign_key *key, const uint8_t id[AUDIT_ID],
                       const uint8_t commitment[AUDIT_HASH],
                       const audit_seen *seen) SEFL_MUST_CHECK;
sefl_status audit_signed(const uint8_t sig[SIGN_BYTES], const uint8_t pub[SIGN_PUB_BYTES],
                         const uint8_t id[AUDIT_ID], const uint8_t commitment[AUDIT_HASH],
                         const audit_seen *seen) SEFL_MUST_CHECK;

/* audit_record_read returns SEFL_EPROTO if the bytes are not a record. */
void audit_record_write(uint8_t out[AUDIT_RECORD], const audit_record *r);
sefl_status audit_record_read(audit_record *r, sefl_span in) SEFL_MUST_CHECK;

/* Make and verify AS's signature (SIGN_VERDICT) on its decision about a session: id 32 | u8, 1 KEEP
 * or 2 AUDIT. SEFL_EAUTH if it is not valid. */
sefl_status audit_decide(uint8_t sig[SIGN_BYTES], const sign_key *key, const uint8_t id[AUDIT_ID],
                         uint8_t verdict) SEFL_MUST_CHECK;
sefl_status audit_decided(const uint8_t sig[SIGN_BYTES], const uint8_t pub[SIGN_PUB_BYTES],
                          const uint8_t id[AUDIT_ID], uint8_t verdict) SEFL_MUST_CHECK;

/* Writes folder/audit-ID.bin durably, mode 0600; ID is the first 16 hex digits of the session id.
 * path (may be NULL, else PATH_MAX bytes) receives the file's path. */
sefl_status audit_record_save(char *path, const audit_record *r,
                              const char *folder) SEFL_MUST_CHECK;

#endif
