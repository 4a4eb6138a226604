/* seal_open and seal_make on any bytes: no foreign message opens, and a public key is accepted
 * whole or refused. The first byte selects suite and reader. */
#include "crypto/seal/seal.h"
#include "support/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static sefl_status some_coins(void *self, void *out, size_t n)
{
    (void)self;
    memset(out, 0x5a, n);
    return SEFL_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static seal_key *keys[2];
    static const uint8_t seed[SEAL_SEED] = { 7 };
    const char *const names[2] = { "x25519", "xwing" };
    sefl_rng rng = { .fill = some_coins };
    uint8_t enc[SEAL_ENC_MAX] = { 0 }, sealed[48], text[4096];
    const sefl_span none = { .p = (const uint8_t *)"", .n = 0 };
    if (size == 0)
        return 0;
    int which = data[0] & 1;
    const seal_suite *s = seal_suite_named(names[which]);
    if (!keys[which])
        MUST(seal_key_from(&keys[which], s, seed) == SEFL_OK);
    sefl_span rest = span_of(data + 1, size - 1);
    if (data[0] & 2) {
        sefl_status st = seal_make(enc, sealed, s, rest, none, none, span_of(seed, 32), &rng);
        MUST(st == SEFL_OK || st == SEFL_EPROTO);
        MUST(st != SEFL_OK || rest.n == s->pub_bytes);
        return 0;
    }
    size_t n = rest.n < s->enc_bytes ? rest.n : s->enc_bytes;
    memcpy(enc, rest.p, n);
    sefl_span body = span_of(rest.p + n, rest.n - n);
    if (body.n > sizeof text)
        return 0;
    MUST(seal_open(text, keys[which], enc, none, none, body) == SEFL_EAUTH);
    for (size_t i = 0; i + SEAL_TAG < body.n; i++)
        MUST(text[i] == 0);
    return 0;
}
