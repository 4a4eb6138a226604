/* signed: an envelope that contains exact bytes and the signatures on them.
 *
 *     bytes
 *     8     "SEFLSGN1"
 *     1     kind (crypto/sign.h)
 *     4     length n of the content, little-endian, at most ENVELOPE_CONTENT_MAX
 *     n     the content: the exact bytes that were signed, never re-encoded
 *     1     number of signatures, 0 to 4, each signer at most once
 *     97 each   signer: 1 AS, 2 CSP | public key, 32 | Ed25519 signature, 64
 *
 *     SEFL_TRY(envelope_read(&env, in));                  // env.content points into `in`
 *     SEFL_TRY(envelope_check(&env, SIGN_TASK, &pinned));  // verifies both servers' signatures
 *
 * The public key in an envelope shows only who claims to have signed. A reader verifies signatures
 * with the keys that it has pinned.
 * Threads: any.   Secrets: none. */
#ifndef PROTOCOL_SIGNED_H
#define PROTOCOL_SIGNED_H

#include "base/span.h"
#include "crypto/sign.h"

struct sefl_buf; /* base/buf.h */

enum { ENVELOPE_CONTENT_MAX = 1 << 20, ENVELOPE_SIGNATURES_MAX = 4 };

typedef enum signer { SIGNER_AS = 1, SIGNER_CSP = 2 } signer;

/* Returns "aggregator" or "csp"; "?" for anything else. */
const char *signer_name(unsigned who);

typedef struct envelope_signature {
    uint8_t signer;
    uint8_t pub[SIGN_PUB_BYTES], sig[SIGN_BYTES];
} envelope_signature;

typedef struct envelope {
    sign_kind kind;
    sefl_span content;
    unsigned count;
    envelope_signature by[ENVELOPE_SIGNATURES_MAX];
} envelope;

/* The server keys that a party has pinned, in their order on the wire. */
typedef struct pinned {
    uint8_t as[SIGN_PUB_BYTES], csp[SIGN_PUB_BYTES];
} pinned;

/* SEFL_EPROTO if the format is wrong: an unknown kind or signer, a repeated signer, stray bytes.
 * Does not verify signatures. out->content points into `in`. */
sefl_status envelope_read(envelope *out, sefl_span in) SEFL_MUST_CHECK;
/* Appends the envelope to out. */
sefl_status envelope_write(struct sefl_buf *out, const envelope *env) SEFL_MUST_CHECK;

/* Adds this key's signature; SEFL_EEXIST if this signer has already signed. */
sefl_status envelope_sign(envelope *env, signer who, const sign_key *key) SEFL_MUST_CHECK;

/* SEFL_EAUTH unless the envelope is of this kind and both pinned keys signed it. */
sefl_status envelope_check(const envelope *env, sign_kind kind, const pinned *p) SEFL_MUST_CHECK;

/* Like envelope_check, for one server's signature. */
sefl_status envelope_check_one(const envelope *env, sign_kind kind, signer who,
                               const uint8_t pub[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;

#endif
