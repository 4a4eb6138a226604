#include "operator/card.h"

#include "base/hex.h"

#include <string.h>

#define BEGIN_CA "-----BEGIN CERTIFICATE-----\n"
#define END_CA   "-----END CERTIFICATE-----\n"

static sefl_status put_hex(sefl_buf *out, const char *key, const uint8_t bytes[32])
{
    SEFL_PASS(wr_fmt(out, "%s ", key));
    SEFL_PASS(wr_hex(out, bytes, 32));
    return wr_u8(out, '\n');
}

sefl_status card_write(sefl_buf *out, const card *c)
{
    SEFL_PASS(
        wr_fmt(out, "sefl card 1\nrole %s\nname %s\naddress ", trust_role_name(c->role), c->name));
    SEFL_PASS(address_write(out, c->at.host, c->at.port));
    SEFL_PASS(wr_fmt(out, "\npopulation %s\n", c->population));
    SEFL_PASS(put_hex(out, "signs", c->sign));
    SEFL_PASS(put_hex(out, "tls", c->tls));
    return wr_raw(out, c->ca.p, c->ca.n);
}

/* Reads the line "KEY VALUE" into value, which has n bytes: printable ASCII, not empty. */
static sefl_status take(rd *r, const char *key, char *value, size_t n)
{
    const size_t k = strlen(key);
    const uint8_t *end = memchr(r->p, '\n', r->left), *from = r->p + k + 1;
    SEFL_NEED(end && (size_t)(end - r->p) > k + 1 && memcmp(r->p, key, k) == 0 && r->p[k] == ' ',
              SEFL_EPROTO, "this is not a card: the line \"%s\" is missing", key);
    const size_t len = (size_t)(end - from);
    SEFL_NEED(len < n, SEFL_EPROTO, "card: \"%s\" is too long", key);
    for (size_t i = 0; i < len; i++)
        SEFL_NEED(from[i] >= 0x20 && from[i] < 0x7f, SEFL_EPROTO,
                  "card: \"%s\" has a character that is not printable ASCII", key);
    memcpy(value, from, len);
    value[len] = 0;
    sefl_span line;
    return rd_view(r, &line, k + 1 + len + 1);
}

static sefl_status take_hex(rd *r, const char *key, uint8_t out[32])
{
    char text[HEX_CHARS(32)];
    SEFL_PASS(take(r, key, text, sizeof text));
    SEFL_NEED(hex_read(out, 32, text), SEFL_EPROTO, "card: \"%s\" must be 64 hex digits", key);
    return SEFL_OK;
}

static sefl_status read_lines(card *c, rd *r)
{
    char word[ADDRESS_HOST_MAX + 16];
    SEFL_PASS(take(r, "sefl card", word, sizeof word));
    SEFL_NEED(strcmp(word, "1") == 0, SEFL_EUNSUPPORTED,
              "a card of version %s: this program reads version 1", word);
    SEFL_PASS(take(r, "role", word, sizeof word));
    c->role = trust_role_of(word);
    SEFL_NEED(c->role == TRUST_AGGREGATOR || c->role == TRUST_CSP, SEFL_EPROTO,
              "card: the role must be aggregator or csp");
    SEFL_PASS(take(r, "name", c->name, sizeof c->name));
    SEFL_PASS(take(r, "address", word, sizeof word));
    if (address_read(&c->at, word, 1) != SEFL_OK || !address_is_host(c->at.host))
        return sefl_fail(SEFL_EPROTO, "card: the address must be host:port");
    SEFL_PASS(take(r, "population", c->population, sizeof c->population));
    SEFL_PASS(take_hex(r, "signs", c->sign));
    return take_hex(r, "tls", c->tls);
}

sefl_status card_parse(card *out, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    sefl_buf same = { 0 };
    card c = { 0 };
    rd r = rd_over(bytes);
    const size_t begin = strlen(BEGIN_CA), end = strlen(END_CA);
    SEFL_CHECK(bytes.n <= CARD_MAX, SEFL_EPROTO, "card: longer than %d bytes", CARD_MAX);
    SEFL_TRY(read_lines(&c, &r));
    SEFL_CHECK(r.left >= begin + end && memcmp(r.p, BEGIN_CA, begin) == 0 &&
                   memcmp(r.p + r.left - end, END_CA, end) == 0,
               SEFL_EPROTO, "card: no certificate at its end");
    c.ca = span_of(r.p, r.left);
    SEFL_TRY(card_write(&same, &c));
    SEFL_CHECK(same.n == bytes.n && memcmp(same.p, bytes.p, same.n) == 0, SEFL_EPROTO,
               "card: the address is not in its shortest form");
    *out = c;
done:
    buf_clear(&same);
    return st;
}

void card_digits(uint8_t out[SHA256_BYTES], sefl_span bytes)
{
    sha256_of(out, bytes);
}
