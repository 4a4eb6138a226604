/* toy_sign: cheap signatures, for harnesses of code that runs after a signature check.
 *
 * Ed25519 takes 25 to 60 us per signature, a hundred times as long as parsing a message. In a
 * harness that includes this header, three functions replace libsodium's: a signature is a hash
 * over the public key and the bytes. It fails where a real one fails (another key, any changed
 * byte), so sign.c, envelopes and the state machines after them run unchanged; but anybody who
 * knows the public key can sign, as the harness does. libFuzzer copies the operands of comparisons
 * into its inputs, so a comparison with the right signature would hand it over: only hashes of both
 * are compared (tests/unit/core/crypto/test_toy_sign.c). tests/unit/core/crypto/test_sign.c and
 * tests/unit/core/protocol test real signatures. */
#ifndef TESTS_FUZZ_TOY_SIGN_H
#define TESTS_FUZZ_TOY_SIGN_H

#include "base/sha256.h"

#include <sodium.h>
#include <string.h>

static inline void toy_sign_hash(uint8_t out[crypto_sign_BYTES], const uint8_t *pub,
                                 const uint8_t *m, size_t n)
{
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, span_of(pub, crypto_sign_PUBLICKEYBYTES));
    sha256_add(&h, span_of(m, n));
    sha256_end(&h, out);
    memset(out + SHA256_BYTES, 0x5a, crypto_sign_BYTES - SHA256_BYTES);
}

int crypto_sign_seed_keypair(unsigned char *pk, unsigned char *sk, const unsigned char *seed)
{
    sha256_of(pk, span_of(seed, crypto_sign_SEEDBYTES));
    memcpy(sk, seed, crypto_sign_SEEDBYTES);
    memcpy(sk + crypto_sign_SEEDBYTES, pk, crypto_sign_PUBLICKEYBYTES);
    return 0;
}

int crypto_sign_detached(unsigned char *sig, unsigned long long *siglen_p, const unsigned char *m,
                         unsigned long long mlen, const unsigned char *sk)
{
    toy_sign_hash(sig, sk + crypto_sign_SEEDBYTES, m, (size_t)mlen);
    if (siglen_p)
        *siglen_p = crypto_sign_BYTES;
    return 0;
}

int crypto_sign_verify_detached(const unsigned char *sig, const unsigned char *m,
                                unsigned long long mlen, const unsigned char *pk)
{
    uint8_t want[crypto_sign_BYTES], hash[2][SHA256_BYTES];
    toy_sign_hash(want, pk, m, (size_t)mlen);
    sha256_of(hash[0], span_of(want, sizeof want));
    sha256_of(hash[1], span_of(sig, crypto_sign_BYTES));
    return memcmp(hash[0], hash[1], SHA256_BYTES) == 0 ? 0 : -1;
}

#endif
