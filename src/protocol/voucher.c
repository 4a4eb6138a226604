#include "protocol/voucher.h"

#include "base/sha256.h"

#include <string.h>

static const char mark[4] = "SFV1", purpose[] = "sefl voucher 1\n";

static sefl_status write_body(sefl_buf *out, const voucher *v)
{
    sefl_status st = SEFL_OK;
    uint8_t client[32];
    SEFL_CHECK(v->spki.n > 0 && v->spki.n <= VOUCHER_SPKI_MAX, SEFL_ERANGE,
               "voucher: a public key of %zu bytes, at most %d", v->spki.n, VOUCHER_SPKI_MAX);
    sha256_of(client, v->spki);
    SEFL_TRY(wr_raw(out, mark, sizeof mark));
    SEFL_TRY(wr_raw(out, client, sizeof client));
    SEFL_TRY(wr_raw(out, v->key, sizeof v->key));
    SEFL_TRY(wr_raw(out, v->servers.as, sizeof v->servers.as));
    SEFL_TRY(wr_raw(out, v->servers.csp, sizeof v->servers.csp));
    SEFL_TRY(wr_u64(out, v->serial));
    SEFL_TRY(wr_u16(out, (uint16_t)v->spki.n));
    SEFL_TRY(wr_raw(out, v->spki.p, v->spki.n));
done:
    return st;
}

sefl_status voucher_to_sign(sefl_buf *out, const voucher *v)
{
    sefl_status st = wr_raw(out, purpose, sizeof purpose - 1);
    return st == SEFL_OK ? write_body(out, v) : st;
}

sefl_status voucher_write(sefl_buf *out, const voucher *v)
{
    sefl_status st = SEFL_OK;
    size_t before = out->n;
    SEFL_CHECK(v->signature.n > 0 && v->signature.n <= VOUCHER_SIGNATURE_MAX, SEFL_ERANGE,
               "voucher: a signature of %zu bytes, at most %d", v->signature.n,
               VOUCHER_SIGNATURE_MAX);
    SEFL_CHECK(v->chain.n <= VOUCHER_MAX, SEFL_ERANGE, "voucher: certificates of %zu bytes",
               v->chain.n);
    SEFL_TRY(write_body(out, v));
    SEFL_TRY(wr_u16(out, (uint16_t)v->signature.n));
    SEFL_TRY(wr_raw(out, v->signature.p, v->signature.n));
    SEFL_TRY(wr_u32(out, (uint32_t)v->chain.n));
    SEFL_TRY(wr_raw(out, v->chain.p, v->chain.n));
    SEFL_CHECK(out->n - before <= VOUCHER_MAX, SEFL_ERANGE,
               "voucher: %zu bytes, at most %d (fewer certificates in the chain?)", out->n - before,
               VOUCHER_MAX);
done:
    return st;
}

sefl_status voucher_read(voucher *out, sefl_span in)
{
    sefl_status st = SEFL_OK;
    voucher v = { 0 };
    uint8_t client[32];
    uint16_t n = 0;
    uint32_t chain = 0;
    rd r = rd_over(in);
    *out = v;
    SEFL_CHECK(in.n <= VOUCHER_MAX, SEFL_EPROTO, "voucher: %zu bytes, at most %d", in.n,
               VOUCHER_MAX);
    SEFL_TRY(rd_expect(&r, mark, sizeof mark, "a voucher"));
    SEFL_TRY(rd_raw(&r, v.client, sizeof v.client));
    SEFL_TRY(rd_raw(&r, v.key, sizeof v.key));
    SEFL_TRY(rd_raw(&r, v.servers.as, sizeof v.servers.as));
    SEFL_TRY(rd_raw(&r, v.servers.csp, sizeof v.servers.csp));
    SEFL_TRY(rd_u64(&r, &v.serial));
    SEFL_CHECK(v.serial > 0, SEFL_EPROTO, "voucher: serial 0");
    SEFL_TRY(rd_u16(&r, &n));
    SEFL_CHECK(n > 0 && n <= VOUCHER_SPKI_MAX, SEFL_EPROTO, "voucher: a public key of %u bytes", n);
    SEFL_TRY(rd_view(&r, &v.spki, n));
    SEFL_TRY(rd_u16(&r, &n));
    SEFL_CHECK(n > 0 && n <= VOUCHER_SIGNATURE_MAX, SEFL_EPROTO, "voucher: a signature of %u bytes",
               n);
    SEFL_TRY(rd_view(&r, &v.signature, n));
    SEFL_TRY(rd_u32(&r, &chain));
    SEFL_TRY(rd_view(&r, &v.chain, chain));
    SEFL_TRY(rd_end(&r));
    sha256_of(client, v.spki);
    SEFL_CHECK(memcmp(client, v.client, sizeof client) == 0, SEFL_EPROTO,
               "voucher: its public key is another client's");
    *out = v;
done:
    return st;
}
