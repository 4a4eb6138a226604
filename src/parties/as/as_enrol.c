/* ENROL: a site enrols (protocol/enrol.h). This is the only call open to a stranger. A refused site
 * learns no reason; the log and the counters have it. AS asks CSP only about sites whose AS token
 * and certificate request are valid. */
#include "base/file.h"
#include "roles/aggregator/as_http.h"
#include "roles/ca.h"

#include <string.h>

static const char later[] = "enrolment is not possible now; try again later\n";

typedef struct site {
    agg_post post;   /* first */
    enrol_request q; /* points into post.body */
    bool counted;    /* it passed the limit over all sites */
} site;

static int64_t now_s(const agg_http *h)
{
    return (int64_t)(clock_ms(h->wall) / 1000);
}

static void refuse(https_request *r, agg_http_event e, unsigned status, const char *why)
{
    agg_http *h = r->server_ctx;
    const site *s = r->state;
    agg_http_count(r, e);
    if ((s && s->counted) || https_may_log(r)) {
        audit_refused(h->audit, lf_str("by", "aggregator"),
                      lf_str("name", s ? s->q.claim.name : ""),
                      lf_str("reason", agg_http_event_name(e)));
        log_warn(h->log, "enrolment refused", lf_str("reason", agg_http_event_name(e)),
                 lf_str("name", s ? s->q.claim.name : ""), lf_str("why", why));
    }
    if (status == 503 || status == 429)
        agg_http_later(r, status, later);
    else
        https_answer_text(r, status,
                          status == 400 ? "not an enrolment request" : "enrolment refused");
}

/* A failure on our side (disk, a locked list): the site's key and tokens stay valid. */
static void failed(https_request *r)
{
    agg_http *h = r->server_ctx;
    agg_http_count(r, AGG_HTTP_FAILED);
    log_error(h->log, "enrolment failed", lf_str("why", sefl_last_error()));
    agg_http_later(r, 503, later);
}

/* ---- CSP has answered ------------------------------------------------------------------------ */

static sefl_status issue(https_request *r, sefl_buf *answer, const uint8_t approval[SIGN_BYTES])
{
    sefl_status st = SEFL_OK;
    const agg_http *h = r->server_ctx;
    const site *s = r->state;
    trust_edit e = { .lock = -1 };
    SEFL_TRY(ca_edit(&e, h->ca));
    SEFL_TRY(
        ca_enrol(e.t, h->ca, answer, &s->q, approval, h->key, h->task->population, 0, now_s(h)));
    SEFL_TRY(trust_edit_commit(&e));
done:
    trust_edit_end(&e);
    return st;
}

static void enrolled(https_request *r, const uint8_t approval[SIGN_BYTES])
{
    agg_http *h = r->server_ctx;
    const site *s = r->state;
    sefl_buf answer = { 0 };
    sefl_status st = issue(r, &answer, approval);
    if (st == SEFL_EAUTH) { /* the list changed meanwhile */
        refuse(r, AGG_HTTP_ENROL_TOKEN, 403, sefl_last_error());
    } else if (st != SEFL_OK) {
        failed(r);
    } else {
        agg_http_count(r, AGG_HTTP_ENROLLED);
        audit_once(h->audit, "enrolled", lf_str("name", s->q.claim.name),
                   lf_key("client", s->q.claim.key));
        log_info(h->log, "site enrolled", lf_str("name", s->q.claim.name),
                 lf_key("key", s->q.claim.key));
        if (h->listed)
            h->listed(h); /* the site may connect at once */
        https_answer(r, 200, "application/octet-stream", NULL, buf_span(&answer));
    }
    buf_clear(&answer);
}

/* ---- the request ----------------------------------------------------------------------------- */

/* Checks what AS can decide without CSP. SEFL_EAUTH: refused. */
static sefl_status check(const agg_http *h, const site *s)
{
    sefl_status st = SEFL_OK;
    trust *t = NULL;
    SEFL_CHECK(memcmp(&s->q.claim.servers, &h->task->servers, sizeof s->q.claim.servers) == 0,
               SEFL_EAUTH, "the site is configured for servers other than those of this task");
    SEFL_TRY(ca_read(&t, h->ca));
    SEFL_TRY(ca_check_request(t, &s->q, now_s(h)));
done:
    trust_free(t);
    return st;
}

static bool has_room(buckets *b, const uint8_t key[BUCKETS_KEY], uint64_t now_ms)
{
    return !b || buckets_take(b, key, 1, now_ms);
}

static void end(https_request *r, sefl_status st)
{
    static const uint8_t all[BUCKETS_KEY];
    agg_http *h = r->server_ctx;
    site *s = r->state;
    if (st == SEFL_OK)
        st = enrol_request_read(&s->q, buf_span(&s->post.body));
    if (st != SEFL_OK) {
        refuse(r, AGG_HTTP_ENROL_FORM, 400, sefl_last_error());
        return;
    }
    /* not earlier: requests that cost their sender nothing must not use up the shared limit */
    if (!has_room(h->enrol_rate, all, clock_ms(h->mono))) {
        refuse(r, AGG_HTTP_ENROL_RATE, 429, "too many enrolment requests");
        return;
    }
    s->counted = true;
    st = check(h, s);
    if (st == SEFL_OK)
        st = rounds_enrol(h->rounds, &s->post.asked, &s->q.claim, &s->q.csp);
    if (st == SEFL_OK)
        agg_post_wait(r);
    else if (st == SEFL_EAUTH)
        refuse(r, AGG_HTTP_ENROL_TOKEN, 403, sefl_last_error());
    else
        failed(r);
}

static bool has_ca_key(const agg_http *h)
{
    char path[PATH_MAX];
    return h->ca && file_path(path, "%s/ca.key", h->ca) == SEFL_OK && file_exists(path);
}

void agg_enrol_begin(https_request *r)
{
    static const agg_post_kind kind = { .bytes = sizeof(site),
                                        .max = ENROL_REQUEST_MAX,
                                        .wait_ms = 45000,
                                        .no = AGG_HTTP_ENROL_CSP,
                                        .no_csp = AGG_HTTP_ENROL_LINK,
                                        .end = end,
                                        .yes = enrolled,
                                        .refuse = refuse };
    agg_http *h = r->server_ctx;
    agg_why why;
    if (!has_ca_key(h)) {
        refuse(r, AGG_HTTP_ENROL_OFF, 403, "no trust list, or its CA's key is not on this machine");
    } else if (!has_room(h->enrol_origin, r->origin, clock_ms(h->mono))) {
        refuse(r, AGG_HTTP_ENROL_RATE, 429, "too many enrolment requests from one address");
    } else if (r->body_bytes == 0) {
        refuse(r, AGG_HTTP_ENROL_FORM, 400, "the body is empty");
    } else if (rounds_over(h->rounds, &why)) {
        refuse(r, AGG_HTTP_ENROL_LINK, 503, "the task is over: CSP can no longer be asked");
    } else if (!agg_post_begin(r, &kind)) {
        https_answer_text(r, 503, "no memory");
    }
}

/* Answers with the newest certificate that our CA issued for the requesting key, as after `sefl ca
 * renew`. */
void agg_certificate(https_request *r)
{
    const agg_http *h = r->server_ctx;
    char path[PATH_MAX];
    sefl_buf pem = { 0 };
    if (h->ca && ca_issued_path(path, h->ca, r->peer.fingerprint) == SEFL_OK &&
        file_read(&pem, path, X509_CERT_MAX) == SEFL_OK)
        https_answer(r, 200, "application/x-pem-file", "Cache-Control: no-store\n", buf_span(&pem));
    else
        https_answer_text(r, 404, "this CA has issued no certificate for your key");
    buf_clear(&pem);
}
