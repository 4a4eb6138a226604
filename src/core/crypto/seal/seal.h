/* seal: encrypts a short secret to a public key with HPKE (RFC 9180) in base mode, one message per
 * call, with HKDF-SHA-256 and ChaCha20-Poly1305.
 *
 *     const seal_suite *s = seal_suite_named("xwing");
 *     SEFL_TRY(seal_key_from(&key, s, seed));                     // from 32 secret bytes
 *     SEFL_TRY(seal_make(enc, sealed, s, pub, info, ad, secret, &rng));
 *     SEFL_TRY(seal_open(secret2, key, enc, info, ad, sealed));   // SEFL_EAUTH if anything differs
 *
 * Suites, by the identifier of their KEM:
 *     x25519   0x0020   DHKEM(X25519, HKDF-SHA256)                 enc 32 bytes, key 32
 *     xwing    0x647a   ML-KEM-768 with X25519 [X-Wing]            enc 1120 bytes, key 1216
 * xwing is secure if either part is secure; against a quantum computer, it relies on ML-KEM alone.
 * One key opens any number of messages: HPKE is CCA-secure, and `info` and `ad` bind each message
 * to its context.
 *
 * Secret: seed, key, the plaintext. Public: suite, pub, enc, info, ad, all lengths, and whether a
 * message opened. Constant-time. Threads: a const key may be shared. */
#ifndef CRYPTO_SEAL_SEAL_H
#define CRYPTO_SEAL_SEAL_H

#include "base/random.h"
#include "base/span.h"

enum {
    SEAL_SEED = 32,
    SEAL_TAG = 16,
    SEAL_PUB_MAX = 1216,
    SEAL_ENC_MAX = 1120,
};

typedef struct seal_suite {
    const char *name;
    uint16_t id; /* on the wire */
    size_t pub_bytes, enc_bytes;
} seal_suite;

/* Find a suite by name or by identifier; NULL if it is unknown. */
const seal_suite *seal_suite_named(const char *name);
const seal_suite *seal_suite_of(uint16_t id);

typedef struct seal_key seal_key;

/* Derives a key from a seed; the same seed gives the same key. */
sefl_status seal_key_from(seal_key **out, const seal_suite *s,
                          const uint8_t seed[SEAL_SEED]) SEFL_MUST_CHECK;
void seal_key_free(seal_key *key);
sefl_span seal_key_pub(const seal_key *key);

/* enc: s->enc_bytes bytes; sealed: text.n + SEAL_TAG. SEFL_EPROTO if the suite rejects pub. */
sefl_status seal_make(uint8_t *enc, uint8_t *sealed, const seal_suite *s, sefl_span pub,
                      sefl_span info, sefl_span ad, sefl_span text,
                      const sefl_rng *rng) SEFL_MUST_CHECK;
/* text: sealed.n - SEAL_TAG bytes, zeroed on failure. enc: the suite's enc_bytes bytes. */
sefl_status seal_open(uint8_t *text, const seal_key *key, const uint8_t *enc, sefl_span info,
                      sefl_span ad, sefl_span sealed) SEFL_MUST_CHECK;

#endif
