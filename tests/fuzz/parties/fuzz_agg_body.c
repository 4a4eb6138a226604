/* The bytes of an update as they arrive, in pieces: for any pieces, the verdict is that of the
 * whole body. Input: a byte for the scheme, one for the number of lengths, the lengths of the
 * pieces, and the bytes, which are repeated as needed. (Paillier with a toy key: this harness tests
 * groups of units and their boundaries; crypto.paillier_cipher tests the ciphertexts.) */
#include "base/alloc.h"
#include "base/file.h"
#include "crypto/ahe/paillier.h"
#include "fuzz/toy_key.h"
#include "roles/aggregator/body.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

enum { PIECES = 64 }; /* what is left then comes as one */

typedef struct kind {
    ahe_params p;
    body_rule rule;
    uint8_t *body;
    size_t step; /* of lengths of pieces */
} kind;

static void make(kind *k, const char *name, const ahe_pub *pub, size_t units)
{
    const ahe_scheme *s;
    pack pk;
    bool pad = strcmp(name, "pad") == 0;
    must(ahe_scheme_find(&s, name) == SEFL_OK);
    must(pack_init(&pk, &(pack_config){ .scheme = pad ? PACK_PAD : PACK_PAILLIER,
                                        .clients = 4,
                                        .dimension = 100,
                                        .clip = PACK_ONE,
                                        .fraction_bits = 12 }) == SEFL_OK);
    must(ahe_params_init(&k->p, s, &pk, pub, 1) == SEFL_OK);
    must(ahe_params_init(&k->p, s, &pk, pub, units * k->p.unit_values) == SEFL_OK);
    must(k->p.units == units);
    must(body_rule_init(&k->rule, &k->p, pub) == SEFL_OK);
    must(sefl_new(&k->body, ahe_body_bytes(&k->p) + 64, 1) == SEFL_OK);
    k->step = (size_t)ahe_body_bytes(&k->p) / 200 + 1;
}

static kind *kinds(void)
{
    static kind k[2];
    if (!k[0].rule.sum) {
        sefl_buf key = { 0 };
        static paillier_sec *sec; /* the rules look at its public half */
        must(file_read(&key, SEFL_SOURCE_DIR "/tests/fuzz/corpus/crypto.paillier_key/sec2048",
                       1 << 16) == SEFL_OK);
        sefl_span in = buf_span(&key);
        if (paillier_sec_read(&sec, in) !=
            SEFL_OK) /* the corpus files start with a selector byte */
            must(paillier_sec_read(&sec, span_of(in.p + 1, in.n - 1)) == SEFL_OK);
        make(&k[0], "paillier", paillier_sec_pub(toy_key()), 19); /* groups of 8, 8, 3 */
        make(&k[1], "pad", NULL, 40);
        buf_clear(&key);
    }
    return k;
}

static sefl_status verdict(const kind *k, size_t total, const uint8_t *lengths, size_t n,
                           size_t *unit)
{
    body_check c = { .rule = &k->rule };
    sefl_status st = SEFL_OK;
    size_t at = 0;
    for (size_t i = 0; at < total && st == SEFL_OK; i++) {
        size_t piece = n > 0 && i < PIECES ? 1 + (size_t)lengths[i % n] * k->step : total;
        piece = piece < total - at ? piece : total - at;
        st = body_check_feed(&c, span_of(k->body + at, piece));
        at += piece;
    }
    if (st == SEFL_OK)
        st = body_check_end(&c);
    else
        must(body_check_feed(&c, span_of(k->body, 1)) == st && body_check_end(&c) == st);
    *unit = c.unit;
    body_check_clear(&c);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t whole_unit, pieces_unit;
    if (size < 3)
        return 0;
    kind *k = &kinds()[data[0] % 2];
    size_t n = data[1] % 32 < size - 2 ? data[1] % 32 : size - 3;
    const uint8_t *lengths = data + 2;
    data += 2 + n, size -= 2 + n;
    size_t total = (size_t)ahe_body_bytes(&k->p), used = total;
    if (data[0] == 1) /* some are cut, some too long */
        used = total - 1 - size % (total - 1);
    else if (data[0] == 2)
        used = total + 1 + size % 63;
    size_t have = size < total + 64 ? size : total + 64;
    memcpy(k->body, data, have);
    for (; have < total + 64; have *= 2)
        memcpy(k->body + have, k->body, have < total + 64 - have ? have : total + 64 - have);
    sefl_status whole = verdict(k, used, NULL, 0, &whole_unit);
    sefl_status pieces = verdict(k, used, lengths, n, &pieces_unit);
    must(whole == SEFL_OK || whole == SEFL_EPROTO || whole == SEFL_ERANGE || whole == SEFL_ECRYPTO);
    must(used == total || whole != SEFL_OK);
    must((whole == SEFL_OK) == (pieces == SEFL_OK));
    must(used > total ||
         whole == pieces); /* too long: pieces may be refused for their units first */
    must(whole != SEFL_OK || (whole_unit == k->p.units && pieces_unit == k->p.units));
    return 0;
}
