/* toy_envelope: documents that two servers with toy signatures signed, almost: an input changes the
 * content before it is signed, which servers could do, or the bytes after it, which anybody can.
 *
 *     byte      bit 0: AS signs, bit 1: CSP signs, bit 2: under another kind
 *     byte      number of changes to the content (at most 7), then each: position, XOR
 *     byte      number of changes to the envelope (at most 7), then each: position u16, XOR */
#ifndef TESTS_FUZZ_TOY_ENVELOPE_H
#define TESTS_FUZZ_TOY_ENVELOPE_H

#include "base/buf.h"
#include "fuzz/toy_sign.h"
#include "protocol/signed.h"
#include "support/must.h"

#include <stdbool.h>

typedef struct toy_envelope {
    uint8_t content[2048];
    size_t n;
    bool honest;        /* nothing has changed */
    bool intact;        /* nothing has changed after it was signed */
    bool by_as, by_csp; /* signed by them, under the kind that was asked for */
} toy_envelope;

static inline uint8_t toy_take(rd *in)
{
    uint8_t b = 0;
    return rd_u8(in, &b) == SEFL_OK ? b : 0;
}

static inline sign_key *toy_signer(signer who)
{
    static sign_key *key[3];
    const uint8_t seed[SIGN_SEED_BYTES] = { (uint8_t)who };
    if (!key[who])
        MUST(sign_key_from(&key[who], seed) == SEFL_OK);
    return key[who];
}

static inline pinned toy_servers(void)
{
    pinned p;
    memcpy(p.as, sign_key_pub(toy_signer(SIGNER_AS)), sizeof p.as);
    memcpy(p.csp, sign_key_pub(toy_signer(SIGNER_CSP)), sizeof p.csp);
    return p;
}

/* Appends the envelope of a document to out. */
static inline toy_envelope toy_envelope_make(sefl_buf *out, sign_kind kind, sefl_span content,
                                             rd *in)
{
    toy_envelope e = { .n = content.n };
    const size_t from = out->n;
    const uint8_t how = toy_take(in), before = toy_take(in) % 8;
    MUST(content.n <= sizeof e.content);
    memcpy(e.content, content.p, content.n);
    for (int i = 0; i < before && e.n > 0; i++) {
        const size_t at = toy_take(in) % e.n;
        e.content[at] ^= toy_take(in);
    }
    envelope env = { .kind = how & 4 ? (kind == SIGN_TASK ? SIGN_LINK : SIGN_TASK) : kind,
                     .content = span_of(e.content, e.n) };
    e.by_as = how & 1 && !(how & 4), e.by_csp = how & 2 && !(how & 4);
    if (how & 1)
        MUST(envelope_sign(&env, SIGNER_AS, toy_signer(SIGNER_AS)) == SEFL_OK);
    if (how & 2)
        MUST(envelope_sign(&env, SIGNER_CSP, toy_signer(SIGNER_CSP)) == SEFL_OK);
    MUST(envelope_write(out, &env) == SEFL_OK);
    const size_t n = out->n - from;
    const uint8_t after = toy_take(in) % 8;
    e.intact = true;
    for (int i = 0; i < after; i++) {
        const size_t low = toy_take(in), high = toy_take(in);
        const uint8_t with = toy_take(in);
        out->p[from + (low | high << 8) % n] ^= with;
        e.intact = e.intact && with == 0; /* two changes may cancel: then it is more than intact */
    }
    e.honest = e.intact && memcmp(e.content, content.p, content.n) == 0;
    return e;
}

#endif
