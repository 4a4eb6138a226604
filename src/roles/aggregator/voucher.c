/* POST /v1/voucher: a client vouches for its upload key (protocol/voucher.h, rounds.h). */
#include "roles/aggregator/http.h"

#include "base/alloc.h"
#include "roles/csp/vouch.h"

#include <string.h>

enum { WAIT_MS = 30000 };

typedef struct shown {
    sefl_buf body;
    rounds_errand *asked;
    uint64_t until_ms;
} shown;

static void refuse(https_request *r, agg_http_event e, unsigned status, const char *why)
{
    agg_http *h = r->server_ctx;
    atomic_fetch_add(&h->counts[e], 1);
    https_log_refused(r, "voucher refused", agg_http_event_name(e), why);
    if (status == 503)
        https_answer(r, status, "text/plain; charset=utf-8", "Retry-After: 10\n",
                     span_of_str("vouchers cannot be taken now: try again later\n"));
    else
        https_answer_text(r, status, "%s", why);
}

static void failed(https_request *r)
{
    const agg_http *h = r->server_ctx;
    log_error(h->log, "voucher not taken", lf_str("why", sefl_last_error()));
    refuse(r, AGG_HTTP_FAILED, 503, "it failed here");
}

static void resume(https_request *r)
{
    agg_http *h = r->server_ctx;
    shown *s = r->state;
    sefl_status st = SEFL_EIO;
    if (!rounds_errand_done(h->rounds, s->asked, &st, NULL)) {
        if (atomic_load(&h->closing) || clock_ms(h->mono) >= s->until_ms)
            refuse(r, AGG_HTTP_VOUCHER_LINK, 503, "no answer of CSP in time");
        else
            https_park(r, s->until_ms);
    } else if (st == SEFL_EAUTH) {
        refuse(r, AGG_HTTP_VOUCHER_CSP, 403, "CSP refused the voucher");
    } else if (st != SEFL_OK) {
        refuse(r, AGG_HTTP_VOUCHER_LINK, 503, "no link to CSP");
    } else {
        atomic_fetch_add(&h->counts[AGG_HTTP_VOUCHED], 1);
        https_answer_text(r, 200, "taken");
    }
}

/* What can be said without CSP. SEFL_EPROTO, SEFL_EAUTH, SEFL_ESTATE. */
static sefl_status check(const https_request *r, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    const agg_http *h = r->server_ctx;
    voucher v;
    SEFL_TRY(voucher_read(&v, bytes));
    SEFL_CHECK(memcmp(v.client, r->peer.fingerprint, sizeof v.client) == 0, SEFL_EAUTH,
               "the voucher is another client's");
    SEFL_TRY(vouch_check(&v, &h->task->servers));
done:
    return st;
}

static sefl_status take(https_request *r, sefl_span bytes)
{
    shown *s = r->state;
    return wr_raw(&s->body, bytes.p, bytes.n);
}

static void end(https_request *r, sefl_status st)
{
    agg_http *h = r->server_ctx;
    shown *s = r->state;
    if (st == SEFL_ECLOSED)
        return;
    if (st == SEFL_OK)
        st = check(r, buf_span(&s->body));
    if (st == SEFL_OK)
        st = rounds_vouch(h->rounds, &s->asked, buf_span(&s->body));
    if (st == SEFL_EPROTO || st == SEFL_ERANGE) {
        refuse(r, AGG_HTTP_VOUCHER_FORM, 400, sefl_last_error());
    } else if (st == SEFL_EAUTH || st == SEFL_ESTATE) {
        refuse(r, AGG_HTTP_VOUCHER_REFUSED, 403, sefl_last_error());
    } else if (st != SEFL_OK) {
        failed(r);
    } else {
        s->until_ms = clock_ms(h->mono) + WAIT_MS;
        resume(r);
    }
}

static void drop(https_request *r)
{
    agg_http *h = r->server_ctx;
    shown *s = r->state;
    r->state = NULL;
    if (!s)
        return;
    rounds_errand_end(h->rounds, s->asked);
    buf_clear(&s->body);
    sefl_free(s);
}

void agg_voucher_begin(https_request *r)
{
    const agg_http *h = r->server_ctx;
    agg_why why;
    shown *s;
    if (!task_is_sealed(h->task)) {
        refuse(r, AGG_HTTP_VOUCHER_FORM, 404, "this task wants no vouchers");
    } else if (r->body_bytes == 0 || r->body_bytes > VOUCHER_MAX) {
        refuse(r, AGG_HTTP_VOUCHER_FORM, 400, "a voucher has 1 to 32768 bytes");
    } else if (rounds_over(h->rounds, &why)) {
        refuse(r, AGG_HTTP_VOUCHER_OVER, 410, "the task is over");
    } else if (sefl_new(&s, 1, sizeof *s) != SEFL_OK) {
        failed(r);
    } else {
        s->body.max = VOUCHER_MAX;
        r->state = s;
        r->body = take, r->end = end, r->resume = resume, r->drop = drop;
    }
}
