/* VOUCHER: a client vouches for its upload key (protocol/voucher.h, rounds.h). */
#include "roles/aggregator/as_http.h"

#include "roles/vouch.h"

#include <string.h>

static void refuse(https_request *r, agg_http_event e, unsigned status, const char *why)
{
    const agg_http *h = r->server_ctx;
    agg_http_count(r, e);
    audit_refused(h->audit, lf_str("by", "aggregator"), lf_key("client", r->peer.fingerprint),
                  lf_str("reason", agg_http_event_name(e)));
    https_log_refused(r, "voucher refused", agg_http_event_name(e), why);
    if (status == 503)
        agg_http_later(r, status, "vouchers cannot be accepted now; try again later\n");
    else
        https_answer_text(r, status, "%s", why);
}

static void failed(https_request *r)
{
    const agg_http *h = r->server_ctx;
    log_error(h->log, "voucher not accepted", lf_str("why", sefl_last_error()));
    refuse(r, AGG_HTTP_FAILED, 503, "the server failed");
}

static void vouched(https_request *r, const uint8_t sig[SIGN_BYTES])
{
    (void)sig;
    agg_http_count(r, AGG_HTTP_VOUCHED);
    https_answer_text(r, 200, "accepted");
}

/* Checks what AS can decide without CSP. SEFL_EPROTO, SEFL_EAUTH, SEFL_ESTATE. */
static sefl_status check(const https_request *r, sefl_span bytes)
{
    const agg_http *h = r->server_ctx;
    voucher v;
    SEFL_PASS(voucher_read(&v, bytes));
    SEFL_NEED(memcmp(v.client, r->peer.fingerprint, sizeof v.client) == 0, SEFL_EAUTH,
              "the voucher is another client's");
    return vouch_check(&v, &h->task->servers);
}

static void end(https_request *r, sefl_status st)
{
    agg_http *h = r->server_ctx;
    agg_post *p = r->state;
    if (st == SEFL_ECLOSED)
        return;
    if (st == SEFL_OK)
        st = check(r, buf_span(&p->body));
    if (st == SEFL_OK)
        st = rounds_vouch(h->rounds, &p->asked, buf_span(&p->body));
    if (st == SEFL_EPROTO || st == SEFL_ERANGE)
        refuse(r, AGG_HTTP_VOUCHER_FORM, 400, sefl_last_error());
    else if (st == SEFL_EAUTH || st == SEFL_ESTATE)
        refuse(r, AGG_HTTP_VOUCHER_REFUSED, 403, sefl_last_error());
    else if (st != SEFL_OK)
        failed(r);
    else
        agg_post_wait(r);
}

void agg_voucher_begin(https_request *r)
{
    static const agg_post_kind kind = { .bytes = sizeof(agg_post),
                                        .max = VOUCHER_MAX,
                                        .wait_ms = 30000,
                                        .no = AGG_HTTP_VOUCHER_CSP,
                                        .no_csp = AGG_HTTP_VOUCHER_LINK,
                                        .end = end,
                                        .yes = vouched,
                                        .refuse = refuse };
    const agg_http *h = r->server_ctx;
    agg_why why;
    if (!task_is_sealed(h->task))
        refuse(r, AGG_HTTP_VOUCHER_FORM, 404, "this task needs no vouchers");
    else if (r->body_bytes == 0 || r->body_bytes > VOUCHER_MAX)
        refuse(r, AGG_HTTP_VOUCHER_FORM, 400, "a voucher has 1 to 32768 bytes");
    else if (rounds_over(h->rounds, &why))
        refuse(r, AGG_HTTP_VOUCHER_OVER, 410, "the task is over");
    else if (!agg_post_begin(r, &kind))
        failed(r);
}
