#include "protocol/signed.h"

#include "base/buf.h"

#include <stdbool.h>
#include <string.h>

static const char magic[8] = "SEFLSGN1";

const char *signer_name(unsigned who)
{
    return who == SIGNER_AS ? "aggregator" : who == SIGNER_CSP ? "csp" : "?";
}

sefl_status envelope_read(envelope *out, sefl_span in)
{
    envelope env = { 0 };
    uint8_t kind, count;
    uint32_t n;
    rd r = rd_over(in);

    *out = (envelope){ 0 };
    SEFL_PASS(rd_expect(&r, magic, sizeof magic, "a signed document of sefl"));
    SEFL_PASS(rd_u8(&r, &kind));
    SEFL_NEED(sign_kind_name((sign_kind)kind) != NULL, SEFL_EPROTO,
              "signed document: unknown kind %u", kind);
    env.kind = (sign_kind)kind;
    SEFL_PASS(rd_u32(&r, &n));
    SEFL_NEED(n <= ENVELOPE_CONTENT_MAX, SEFL_EPROTO,
              "signed document: content of %u bytes, at most %d", n, ENVELOPE_CONTENT_MAX);
    SEFL_PASS(rd_view(&r, &env.content, n));
    SEFL_PASS(rd_u8(&r, &count));
    SEFL_NEED(count <= ENVELOPE_SIGNATURES_MAX, SEFL_EPROTO,
              "signed document: %u signatures, at most %d", count, ENVELOPE_SIGNATURES_MAX);
    env.count = count;
    for (unsigned i = 0; i < count; i++) {
        envelope_signature *s = &env.by[i];
        SEFL_PASS(rd_u8(&r, &s->signer));
        SEFL_NEED(s->signer == SIGNER_AS || s->signer == SIGNER_CSP, SEFL_EPROTO,
                  "signed document: unknown signer %u", s->signer);
        for (unsigned j = 0; j < i; j++)
            SEFL_NEED(env.by[j].signer != s->signer, SEFL_EPROTO,
                      "signed document: the %s signed it twice", signer_name(s->signer));
        SEFL_PASS(rd_raw(&r, s->pub, sizeof s->pub));
        SEFL_PASS(rd_raw(&r, s->sig, sizeof s->sig));
    }
    SEFL_PASS(rd_end(&r));
    *out = env;
    return SEFL_OK;
}

sefl_status envelope_write(sefl_buf *out, const envelope *env)
{
    sefl_status st = SEFL_OK;
    size_t before = out->n;
    SEFL_CHECK(env->content.n <= ENVELOPE_CONTENT_MAX && env->count <= ENVELOPE_SIGNATURES_MAX,
               SEFL_ERANGE, "signed document of %zu bytes, %u signatures: at most %d and %d",
               env->content.n, env->count, ENVELOPE_CONTENT_MAX, ENVELOPE_SIGNATURES_MAX);
    SEFL_TRY(wr_raw(out, magic, sizeof magic));
    SEFL_TRY(wr_u8(out, (uint8_t)env->kind));
    SEFL_TRY(wr_u32(out, (uint32_t)env->content.n));
    SEFL_TRY(wr_raw(out, env->content.p, env->content.n));
    SEFL_TRY(wr_u8(out, (uint8_t)env->count));
    for (unsigned i = 0; i < env->count; i++) {
        SEFL_TRY(wr_u8(out, env->by[i].signer));
        SEFL_TRY(wr_raw(out, env->by[i].pub, sizeof env->by[i].pub));
        SEFL_TRY(wr_raw(out, env->by[i].sig, sizeof env->by[i].sig));
    }
done:
    if (st != SEFL_OK)
        out->n = before;
    return st;
}

static const envelope_signature *signed_find(const envelope *env, signer who)
{
    for (unsigned i = 0; i < env->count; i++)
        if (env->by[i].signer == who)
            return &env->by[i];
    return NULL;
}

sefl_status envelope_sign(envelope *env, signer who, const sign_key *key)
{
    envelope_signature s = { .signer = (uint8_t)who };
    SEFL_NEED(who == SIGNER_AS || who == SIGNER_CSP, SEFL_EINVAL, "unknown signer %d", (int)who);
    SEFL_NEED(!signed_find(env, who), SEFL_EEXIST, "the %s has already signed this %s",
              signer_name(who), sign_kind_name(env->kind));
    SEFL_NEED(env->count < ENVELOPE_SIGNATURES_MAX, SEFL_ERANGE, "no room for a signature");
    memcpy(s.pub, sign_key_pub(key), sizeof s.pub);
    SEFL_PASS(sign_make(s.sig, key, env->kind, env->content));
    env->by[env->count++] = s;
    return SEFL_OK;
}

sefl_status envelope_check_one(const envelope *env, sign_kind kind, signer who,
                               const uint8_t pub[SIGN_PUB_BYTES])
{
    const envelope_signature *s = signed_find(env, who);
    const char *want = sign_kind_name(kind), *is = sign_kind_name(env->kind);
    SEFL_NEED(env->kind == kind, SEFL_EAUTH, "this is a signed %s, not a %s", is ? is : "?",
              want ? want : "?");
    SEFL_NEED(s != NULL, SEFL_EAUTH, "this %s is not signed by the %s", want, signer_name(who));
    SEFL_NEED(memcmp(s->pub, pub, SIGN_PUB_BYTES) == 0, SEFL_EAUTH,
              "this %s is signed by another %s than the pinned one", want, signer_name(who));
    return sefl_at(sign_check(s->sig, pub, kind, env->content), "%s", signer_name(who));
}

sefl_status envelope_check(const envelope *env, sign_kind kind, const pinned *p)
{
    SEFL_PASS(envelope_check_one(env, kind, SIGNER_AS, p->as));
    return envelope_check_one(env, kind, SIGNER_CSP, p->csp);
}
