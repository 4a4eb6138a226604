#include "protocol/voucher.h"

#include "base/sha256.h"
#include "protocol/fields.h"

#include <stdbool.h>
#include <string.h>

static const char mark[4] = "SFV1", purpose[] = "sefl voucher 1\n";

/* Spans after their length, a u16 or (wide) a u32. */
static sefl_status span_write(sefl_buf *out, sefl_span s, bool wide)
{
    SEFL_PASS(wide ? wr_u32(out, (uint32_t)s.n) : wr_u16(out, (uint16_t)s.n));
    return wr_raw(out, s.p, s.n);
}

static sefl_status span_read(rd *r, sefl_span *out, bool wide, size_t max)
{
    uint16_t few = 0;
    uint32_t many = 0;
    SEFL_PASS(wide ? rd_u32(r, &many) : rd_u16(r, &few));
    SEFL_NEED(wide || (few > 0 && few <= max), SEFL_EPROTO,
              "voucher: a public key or signature of %u bytes, at most %zu", few, max);
    return rd_view(r, out, wide ? many : few);
}

#define FIELD_WRITE_bytes16(x)     span_write(out, x, false)
#define FIELD_WRITE_bytes32(x)     span_write(out, x, true)
#define FIELD_READ_bytes16(x, max) span_read(r, &(x), false, max)
#define FIELD_READ_bytes32(x, max) span_read(r, &(x), true, max)

static sefl_status write_body(sefl_buf *out, const voucher *given)
{
    voucher named = *given, *v = &named;
    SEFL_NEED(v->spki.n > 0 && v->spki.n <= VOUCHER_SPKI_MAX, SEFL_ERANGE,
              "voucher: a public key of %zu bytes, at most %d", v->spki.n, VOUCHER_SPKI_MAX);
    sha256_of(v->client, v->spki);
    SEFL_PASS(wr_raw(out, mark, sizeof mark));
    VOUCHER_SIGNED_FIELDS(FIELD_WRITE)
    return SEFL_OK;
}

sefl_status voucher_to_sign(sefl_buf *out, const voucher *v)
{
    sefl_status st = wr_raw(out, purpose, sizeof purpose - 1);
    return st == SEFL_OK ? write_body(out, v) : st;
}

sefl_status voucher_write(sefl_buf *out, const voucher *v)
{
    size_t before = out->n;
    SEFL_NEED(v->signature.n > 0 && v->signature.n <= VOUCHER_SIGNATURE_MAX, SEFL_ERANGE,
              "voucher: a signature of %zu bytes, at most %d", v->signature.n,
              VOUCHER_SIGNATURE_MAX);
    SEFL_NEED(v->chain.n <= VOUCHER_MAX, SEFL_ERANGE, "voucher: certificates of %zu bytes",
              v->chain.n);
    SEFL_PASS(write_body(out, v));
    VOUCHER_MORE_FIELDS(FIELD_WRITE)
    SEFL_NEED(out->n - before <= VOUCHER_MAX, SEFL_ERANGE,
              "voucher: %zu bytes, at most %d (fewer certificates in the chain?)", out->n - before,
              VOUCHER_MAX);
    return SEFL_OK;
}

sefl_status voucher_read(voucher *out, sefl_span in)
{
    voucher got = { 0 }, *v = &got;
    uint8_t client[32];
    rd reader = rd_over(in), *r = &reader;
    *out = got;
    SEFL_NEED(in.n <= VOUCHER_MAX, SEFL_EPROTO, "voucher: %zu bytes, at most %d", in.n,
              VOUCHER_MAX);
    SEFL_PASS(rd_expect(r, mark, sizeof mark, "a voucher"));
    VOUCHER_SIGNED_FIELDS(FIELD_READ)
    VOUCHER_MORE_FIELDS(FIELD_READ)
    SEFL_PASS(rd_end(r));
    SEFL_NEED(v->serial > 0, SEFL_EPROTO, "voucher: serial 0");
    sha256_of(client, v->spki);
    SEFL_NEED(memcmp(client, v->client, sizeof client) == 0, SEFL_EPROTO,
              "voucher: its public key is another client's");
    *out = got;
    return SEFL_OK;
}
