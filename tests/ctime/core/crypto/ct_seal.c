/* Sealing and opening: no branch and no address depends on seed, coins, text or values derived from
 * them, whether a message opens or not. */
#include "base/ct.h"
#include "crypto/seal/seal.h"

#include <stdio.h>
#include <string.h>

static int try_suite(const char *name)
{
    sefl_rng rng = rng_system();
    const seal_suite *s = seal_suite_named(name);
    seal_key *key = NULL;
    uint8_t seed[SEAL_SEED] = { 3 }, text[32] = { 5 }, got[32];
    uint8_t enc[SEAL_ENC_MAX], sealed[sizeof text + SEAL_TAG];
    sefl_span at = span_of_str("place"), what = span_of(sealed, sizeof sealed);
    CT_SECRET(seed, sizeof seed);
    CT_SECRET(text, sizeof text);
    int ok = seal_key_from(&key, s, seed) == SEFL_OK &&
             seal_make(enc, sealed, s, seal_key_pub(key), at, at, span_of(text, sizeof text),
                       &rng) == SEFL_OK &&
             seal_open(got, key, enc, at, at, what) == SEFL_OK;
    enc[0] ^= 1; /* ML-KEM's implicit rejection */
    ok = ok && seal_open(got, key, enc, at, at, what) != SEFL_OK;
    seal_key_free(key);
    if (!ok)
        printf("%s failed: %s\n", name, sefl_last_error());
    return ok;
}

int main(void)
{
    return try_suite("x25519") && try_suite("xwing") ? 0 : 1;
}
