#include "protocol/voucher.h"

#include "base/sha256.h"

#include <string.h>

static const char mark[4] = "SFV1", purpose[] = "sefl voucher 1\n";

static sefl_status write_body(sefl_buf *out, const voucher *v)
{
    uint8_t client[32];
    SEFL_NEED(v->spki.n > 0 && v->spki.n <= VOUCHER_SPKI_MAX, SEFL_ERANGE,
              "voucher: a public key of %zu bytes, at most %d", v->spki.n, VOUCHER_SPKI_MAX);
    sha256_of(client, v->spki);
    SEFL_PASS(wr_raw(out, mark, sizeof mark));
    SEFL_PASS(wr_raw(out, client, sizeof client));
    SEFL_PASS(wr_raw(out, v->key, sizeof v->key));
    SEFL_PASS(wr_raw(out, &v->servers, sizeof v->servers));
    SEFL_PASS(wr_u64(out, v->serial));
    SEFL_PASS(wr_u16(out, (uint16_t)v->spki.n));
    return wr_raw(out, v->spki.p, v->spki.n);
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
    SEFL_PASS(wr_u16(out, (uint16_t)v->signature.n));
    SEFL_PASS(wr_raw(out, v->signature.p, v->signature.n));
    SEFL_PASS(wr_u32(out, (uint32_t)v->chain.n));
    SEFL_PASS(wr_raw(out, v->chain.p, v->chain.n));
    SEFL_NEED(out->n - before <= VOUCHER_MAX, SEFL_ERANGE,
              "voucher: %zu bytes, at most %d (fewer certificates in the chain?)", out->n - before,
              VOUCHER_MAX);
    return SEFL_OK;
}

sefl_status voucher_read(voucher *out, sefl_span in)
{
    voucher v = { 0 };
    uint8_t client[32];
    uint16_t n = 0;
    uint32_t chain = 0;
    rd r = rd_over(in);
    *out = v;
    SEFL_NEED(in.n <= VOUCHER_MAX, SEFL_EPROTO, "voucher: %zu bytes, at most %d", in.n,
              VOUCHER_MAX);
    SEFL_PASS(rd_expect(&r, mark, sizeof mark, "a voucher"));
    SEFL_PASS(rd_raw(&r, v.client, sizeof v.client));
    SEFL_PASS(rd_raw(&r, v.key, sizeof v.key));
    SEFL_PASS(rd_raw(&r, &v.servers, sizeof v.servers));
    SEFL_PASS(rd_u64(&r, &v.serial));
    SEFL_NEED(v.serial > 0, SEFL_EPROTO, "voucher: serial 0");
    SEFL_PASS(rd_u16(&r, &n));
    SEFL_NEED(n > 0 && n <= VOUCHER_SPKI_MAX, SEFL_EPROTO, "voucher: a public key of %u bytes", n);
    SEFL_PASS(rd_view(&r, &v.spki, n));
    SEFL_PASS(rd_u16(&r, &n));
    SEFL_NEED(n > 0 && n <= VOUCHER_SIGNATURE_MAX, SEFL_EPROTO, "voucher: a signature of %u bytes",
              n);
    SEFL_PASS(rd_view(&r, &v.signature, n));
    SEFL_PASS(rd_u32(&r, &chain));
    SEFL_PASS(rd_view(&r, &v.chain, chain));
    SEFL_PASS(rd_end(&r));
    sha256_of(client, v.spki);
    SEFL_NEED(memcmp(client, v.client, sizeof client) == 0, SEFL_EPROTO,
              "voucher: its public key is another client's");
    *out = v;
    return SEFL_OK;
}
