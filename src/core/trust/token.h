/* token: a printable string with which one site can enrol once. The operator sends it to the site
 * over a separate channel.
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
 * The seed generates an Ed25519 key that signs the site's request (protocol/enrol.h). No server
 * ever sees the seed, and the list stores only the hash of the public key. AS forwards the request
 * to CSP but cannot use CSP's token for another key. A 256-bit seed needs no slow hash.
 *
 * Each token carries its server's two keys, so a site never receives CSP's keys through AS.
 * Threads: any.   Secrets: the seed, and so the printed token; token_clear wipes t. */
#ifndef TRUST_TOKEN_H
#define TRUST_TOKEN_H

#include "base/buf.h"
#include "base/random.h"
#include "crypto/sign.h"
#include "trust/trust.h"

enum { TOKEN_TEXT_MAX = 512 };

/* For this many seconds, the key that used a token may use it again, in case the reply was lost or
 * AS failed after CSP approved. The period is short because each use issues a new certificate, and
 * only the operator may decide to renew one. */
enum { TOKEN_REPEAT_S = 3600 };

typedef struct token {
    trust_role role; /* role of the server that made it: TRUST_AGGREGATOR or TRUST_CSP */
    uint8_t seed[SIGN_SEED_BYTES];
    uint8_t tls[TRUST_KEY], sign[SIGN_PUB_BYTES];
    int64_t expires;
    char name[TRUST_NAME_MAX + 1]; /* name of the site */
} token;

/* Makes a token with a new seed. self comes from the operator's list. */
sefl_status token_new(token *out, const trust_self *self, const char *name, int64_t expires,
                      const sefl_rng *rng) SEFL_MUST_CHECK;
void token_clear(token *t);

sefl_status token_print(sefl_buf *out, const token *t) SEFL_MUST_CHECK;
/* Parses a token and ignores white space around it; SEFL_EPROTO for anything else. */
sefl_status token_parse(token *out, sefl_span text) SEFL_MUST_CHECK;

/* Computes the id that a list stores for a token: SHA-256("sefl token 1\n", public key). */
void token_id(uint8_t out[TRUST_KEY], const uint8_t pub[SIGN_PUB_BYTES]);

/* Adds the token to a list, in the state TRUST_OPEN. */
sefl_status token_list(trust *t, const token *tk, int64_t now) SEFL_MUST_CHECK;

/* SEFL_OK if the token with this public key may enrol this TLS key under this name. SEFL_EAUTH with
 * the reason if it is unknown, expired, cancelled, for another name, or used by another key. A key
 * that used it may do so again for TOKEN_REPEAT_S, or until the token expires if that is sooner. */
sefl_status token_check(const trust *t, const uint8_t pub[SIGN_PUB_BYTES], const char *name,
                        const uint8_t key[TRUST_KEY], int64_t now) SEFL_MUST_CHECK;
/* Binds the token to this key; call it after token_check. The first use shortens the token's
 * lifetime to at most TOKEN_REPEAT_S; later uses do not change it. */
void token_use(trust *t, const uint8_t pub[SIGN_PUB_BYTES], const uint8_t key[TRUST_KEY],
               int64_t now);

#endif
