#include "trust/token.h"

#include "base/ct.h"
#include "base/sha256.h"

#include <sodium.h>
#include <string.h>

enum { CHECK_BYTES = 4, RAW_MAX = 256 };

static const char mark[] = "sefl-token-1.";

sefl_status token_new(token *out, const trust_self *self, const char *name, int64_t expires,
                      const sefl_rng *rng)
{
    *out = (token){ .role = self->role, .expires = expires };
    SEFL_NEED(self->role == TRUST_AGGREGATOR || self->role == TRUST_CSP, SEFL_ESTATE,
              "a token carries its server's keys: create the server's certificate first ('sefl ca "
              "server')");
    SEFL_PASS(trust_name_check(name));
    memcpy(out->tls, self->tls, sizeof out->tls);
    memcpy(out->sign, self->sign, sizeof out->sign);
    strcpy(out->name, name);
    return rng_fill(rng, out->seed, sizeof out->seed);
}

void token_clear(token *t)
{
    sefl_wipe(t, sizeof *t);
}

sefl_status token_print(sefl_buf *out, const token *t)
{
    sefl_status st = SEFL_OK;
    sefl_buf raw = { .max = RAW_MAX };
    uint8_t hash[SHA256_BYTES];
    char text[TOKEN_TEXT_MAX] = "";
    SEFL_TRY(wr_u8(&raw, (uint8_t)t->role));
    SEFL_TRY(wr_raw(&raw, t->seed, sizeof t->seed));
    SEFL_TRY(wr_raw(&raw, t->tls, sizeof t->tls));
    SEFL_TRY(wr_raw(&raw, t->sign, sizeof t->sign));
    SEFL_TRY(wr_u64(&raw, (uint64_t)t->expires));
    SEFL_TRY(wr_bytes(&raw, span_of_str(t->name)));
    sha256_of(hash, buf_span(&raw));
    SEFL_TRY(wr_raw(&raw, hash, CHECK_BYTES));
    sodium_bin2base64(text, sizeof text, raw.p, raw.n, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    SEFL_TRY(wr_fmt(out, "%s%s", mark, text));
done:
    sefl_wipe(text, sizeof text);
    buf_clear(&raw);
    return st;
}

static sefl_status read_raw(token *t, sefl_span raw)
{
    uint8_t role, hash[SHA256_BYTES];
    uint64_t expires;
    sefl_span name;
    SEFL_NEED(raw.n > CHECK_BYTES, SEFL_EPROTO, "the token is cut off: copy all of it");
    sha256_of(hash, span_of(raw.p, raw.n - CHECK_BYTES));
    SEFL_NEED(memcmp(hash, raw.p + raw.n - CHECK_BYTES, CHECK_BYTES) == 0, SEFL_EPROTO,
              "the token was copied wrongly: its checksum does not match");
    rd r = rd_over(span_of(raw.p, raw.n - CHECK_BYTES));
    SEFL_PASS(rd_u8(&r, &role));
    SEFL_PASS(rd_raw(&r, t->seed, sizeof t->seed));
    SEFL_PASS(rd_raw(&r, t->tls, sizeof t->tls));
    SEFL_PASS(rd_raw(&r, t->sign, sizeof t->sign));
    SEFL_PASS(rd_u64(&r, &expires));
    SEFL_PASS(rd_bytes(&r, &name, TRUST_NAME_MAX));
    SEFL_PASS(rd_end(&r));
    memcpy(t->name, name.p, name.n);
    t->name[name.n] = 0;
    SEFL_NEED((role == TRUST_AGGREGATOR || role == TRUST_CSP) && expires <= INT64_MAX &&
                  strlen(t->name) == name.n && trust_name_ok(t->name),
              SEFL_EPROTO, "the token has an unknown format");
    t->role = (trust_role)role;
    t->expires = (int64_t)expires;
    return SEFL_OK;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

sefl_status token_parse(token *out, sefl_span text)
{
    sefl_status st = SEFL_OK;
    uint8_t raw[RAW_MAX];
    token t = { 0 };
    size_t n = 0;
    *out = t;
    while (text.n > 0 && is_blank(text.p[0]))
        text.p++, text.n--;
    while (text.n > 0 && is_blank(text.p[text.n - 1]))
        text.n--;
    SEFL_CHECK(text.n > sizeof mark && text.n < TOKEN_TEXT_MAX &&
                   memcmp(text.p, mark, sizeof mark - 1) == 0,
               SEFL_EPROTO, "not a token: a token begins with \"%s\"", mark);
    SEFL_CHECK(sodium_base642bin(raw, sizeof raw, (const char *)text.p + sizeof mark - 1,
                                 text.n - sizeof mark + 1, NULL, &n, NULL,
                                 sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0,
               SEFL_EPROTO, "the token was copied wrongly: it is not base64");
    SEFL_TRY(read_raw(&t, span_of(raw, n)));
    *out = t;
done:
    sefl_wipe(raw, sizeof raw);
    token_clear(&t);
    return st;
}

void token_id(uint8_t out[TRUST_KEY], const uint8_t pub[SIGN_PUB_BYTES])
{
    sha256_join(out, span_of_str("sefl token 1\n"), span_of(pub, SIGN_PUB_BYTES));
}

sefl_status token_list(trust *t, const token *tk, int64_t now)
{
    sefl_status st = SEFL_OK;
    sign_key *key = NULL;
    trust_token k = { .state = TRUST_OPEN, .made = now, .expires = tk->expires };
    SEFL_TRY(sign_key_from(&key, tk->seed));
    token_id(k.id, sign_key_pub(key));
    memcpy(k.name, tk->name, sizeof k.name);
    SEFL_TRY(trust_token_put(t, &k));
done:
    sign_key_free(key);
    return st;
}

sefl_status token_check(const trust *t, const uint8_t pub[SIGN_PUB_BYTES], const char *name,
                        const uint8_t key[TRUST_KEY], int64_t now)
{
    uint8_t id[TRUST_KEY];
    token_id(id, pub);
    const trust_token *k = trust_find_token(t, id);
    SEFL_NEED(k != NULL, SEFL_EAUTH, "token: unknown");
    SEFL_NEED(strcmp(k->name, name) == 0, SEFL_EAUTH, "token: made for \"%s\", not for \"%.64s\"",
              k->name, name);
    SEFL_NEED(k->state != TRUST_CANCELLED, SEFL_EAUTH, "token: cancelled");
    SEFL_NEED(k->state != TRUST_USED || memcmp(k->by, key, TRUST_KEY) == 0, SEFL_EAUTH,
              "token: already used by another key");
    SEFL_NEED(now < k->expires, SEFL_EAUTH,
              k->state == TRUST_USED ? "token: already used, too long ago to repeat the request"
                                     : "token: expired");
    return SEFL_OK;
}

void token_use(trust *t, const uint8_t pub[SIGN_PUB_BYTES], const uint8_t key[TRUST_KEY],
               int64_t now)
{
    uint8_t id[TRUST_KEY];
    token_id(id, pub);
    trust_token *k = trust_find_token(t, id);
    if (!k)
        return;
    if (k->state == TRUST_OPEN && k->expires > now + TOKEN_REPEAT_S)
        k->expires = now + TOKEN_REPEAT_S;
    k->state = TRUST_USED;
    memcpy(k->by, key, TRUST_KEY);
}
