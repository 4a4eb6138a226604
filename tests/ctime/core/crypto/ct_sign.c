/* Signing: no branch and no address depends on the seed or values derived from it. */
#include "base/ct.h"
#include "base/random.h"
#include "crypto/sign.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    sefl_rng rng = rng_system();
    sign_key *key = NULL;
    uint8_t sig[SIGN_BYTES];
    sefl_span text = span_of_str("what is signed is public");
    int ok = sign_key_new(&key, &rng) == SEFL_OK && /* marks the seed secret */
             sign_make(sig, key, SIGN_TASK, text) == SEFL_OK &&
             sign_check(sig, sign_key_pub(key), SIGN_TASK, text) == SEFL_OK;
    sign_key_free(key);
    if (!ok)
        printf("signing failed: %s\n", sefl_last_error());
    return ok ? 0 : 1;
}
