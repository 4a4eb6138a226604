#include "sum/csp.h"

sefl_status csp_hello_read(csp_hello *out, sefl_span body)
{
    rd r = rd_over(body);
    uint16_t low, high;
    *out = (csp_hello){ 0 };
    SEFL_PASS(rd_u16(&r, &low));
    SEFL_PASS(rd_u16(&r, &high));
    out->version = version_link(low, high, out->why);
    if (out->version == 0) /* the rest may have another format */
        return SEFL_OK;
    SEFL_PASS(ledger_head_read(&r, &out->head));
    SEFL_PASS(rd_raw(&r, out->task, sizeof out->task));
    SEFL_PASS(rd_u64(&r, &out->wall_ms));
    out->said = span_of(body.p, (size_t)(r.p - body.p));
    SEFL_PASS(rd_raw(&r, out->signature, sizeof out->signature));
    return rd_end(&r);
}

sefl_status csp_hello_check(const csp_hello *h, const task *t, sefl_span binding)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(wr_raw(&b, h->said.p, h->said.n));
    SEFL_TRY(wr_raw(&b, binding.p, binding.n));
    st = sign_check(h->signature, t->servers.as, SIGN_LINK, buf_span(&b));
done:
    buf_clear(&b);
    return st;
}
