/* token: admits one site once. It is a line of text that the operator gives to the site on a
 * separate channel.
 *
 *     SEFL_TRY(token_new(&tk, &list->self, "hospital-7", expires, &rng));
 *     SEFL_TRY(token_print(&text, &tk));                   // for the site
 *     token_id(id, sign_key_pub(key));                     // for the operator's list
 *
 *     "sefl-token-1." followed by base64url (no padding) of
 *     role 1 | secret seed 32 | server's TLS key (SHA-256 of SPKI) 32 | server's signing key 32
 *          | expires u64 | name, varint length and 1 to 64 bytes
 *          | first 4 bytes of the SHA-256 of everything before
 *
 * The seed belongs to an Ed25519 key that signs the site's request (protocol/enrol.h). No server
 * ever sees the seed, and the list stores only the hash of the public key. AS, which forwards the
 * request to CSP, cannot use CSP's token for another key. 256 random bits need no slow hash.
 *
 * Each token carries its server's two keys, so a site never receives CSP's keys through AS.
 * Threads: plain values.   Secrets: the seed, and so the text; token_clear wipes them. */
#ifndef TRUST_TOKEN_H
#define TRUST_TOKEN_H

#include "base/buf.h"
#include "base/random.h"
#include "crypto/sign.h"
#include "trust/trust.h"

enum { TOKEN_TEXT_MAX = 512 };

/* For this many seconds the key that used a token may use it again, in case the answer was lost, or
 * AS failed after CSP approved. Not longer: each use issues a new certificate, and renewal is the
 * operator's decision. */
enum { TOKEN_REPEAT_S = 3600 };

typedef struct token {
    trust_role role; /* of the server that made it: TRUST_AGGREGATOR or TRUST_CSP */
    uint8_t seed[SIGN_SEED_BYTES];
    uint8_t tls[TRUST_KEY], sign[SIGN_PUB_BYTES];
    int64_t expires;
    char name[TRUST_NAME_MAX + 1]; /* of the site */
} token;

/* Draws a new seed; self: from the operator's list. */
sefl_status token_new(token *out, const trust_self *self, const char *name, int64_t expires,
                      const sefl_rng *rng) SEFL_MUST_CHECK;
void token_clear(token *t);

sefl_status token_print(sefl_buf *out, const token *t) SEFL_MUST_CHECK;
/* Ignores whitespace around the token; SEFL_EPROTO for any other text. */
sefl_status token_parse(token *out, sefl_span text) SEFL_MUST_CHECK;

/* Computes a token's id in a list: SHA-256("sefl token 1\n", public key). */
void token_id(uint8_t out[TRUST_KEY], const uint8_t pub[SIGN_PUB_BYTES]);

/* Adds the token to a list, as open. */
sefl_status token_list(trust *t, const token *tk, int64_t now) SEFL_MUST_CHECK;

/* SEFL_OK if the token with this public key may enrol this TLS key under this name. SEFL_EAUTH with
 * the reason: unknown, for another name, expired, cancelled, used by another key. A token that the
 * same key has used stays valid for TOKEN_REPEAT_S, or until it expires if that is sooner. */
sefl_status token_check(const trust *t, const uint8_t pub[SIGN_PUB_BYTES], const char *name,
                        const uint8_t key[TRUST_KEY], int64_t now) SEFL_MUST_CHECK;
/* After token_check: binds the token to this key. The first use shortens its lifetime; repeated
 * uses do not change it. */
void token_use(trust *t, const uint8_t pub[SIGN_PUB_BYTES], const uint8_t key[TRUST_KEY],
               int64_t now);

#endif
