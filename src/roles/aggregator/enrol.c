/* A site enrols (protocol/enrol.h): the one thing that a stranger may ask. Whatever is wrong, it learns
 * no more than that it was refused; the log and the counters have the reason. CSP is asked only about
 * sites whose token for AS and whose certificate request are good. */
#include "base/alloc.h"
#include "base/file.h"
#include "protocol/http.h"
#include "roles/aggregator/http.h"
#include "roles/ca.h"

#include <string.h>

enum { WAIT_MS = 45000, RETRY_S = 10 };

typedef struct site {
    sefl_buf body;
    enrol_request q; /* looks into body */
    rounds_errand *asked;
    uint64_t until_ms;
    bool counted; /* it has passed the limit on strangers: one a second */
} site;

static agg_http *http_of(const https_request *r)
{
    return r->server_ctx;
}

static int64_t now_s(const agg_http *h)
{
    return (int64_t)(clock_ms(h->wall) / 1000);
}

static void refuse(https_request *r, agg_http_event e, unsigned status, const char *why)
{
    agg_http *h = http_of(r);
    const site *s = r->state;
    atomic_fetch_add(&h->counts[e], 1);
    if ((s && s->counted) || https_may_log(r))
        log_warn(h->log, "enrolment refused", lf_str("reason", agg_http_event_name(e)),
                 lf_str("name", s ? s->q.claim.name : ""), lf_str("why", why));
    if (status == 503 || status == 429)
        https_answer(r, status, "text/plain; charset=utf-8", "Retry-After: 10\n",
                     span_of_str("enrolment is not possible now: try again later\n"));
    else
        https_answer_text(r, status,
                          status == 400 ? "not an enrolment request" : "enrolment refused");
}

/* Our own trouble (disk, a list that is locked): the site's key and tokens stay good. */
static void failed(https_request *r)
{
    agg_http *h = http_of(r);
    atomic_fetch_add(&h->counts[AGG_HTTP_FAILED], 1);
    log_error(h->log, "enrolment failed", lf_str("why", sefl_last_error()));
    https_answer(r, 503, "text/plain; charset=utf-8", "Retry-After: 10\n",
                 span_of_str("enrolment is not possible now: try again later\n"));
}

/* ---- CSP has answered ------------------------------------------------------------------------ */

static sefl_status issue(https_request *r, sefl_buf *answer, const uint8_t approval[SIGN_BYTES])
{
    sefl_status st = SEFL_OK;
    const agg_http *h = http_of(r);
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

static void resume(https_request *r)
{
    agg_http *h = http_of(r);
    site *s = r->state;
    sefl_status st = SEFL_EIO;
    uint8_t approval[SIGN_BYTES];
    sefl_buf answer = { 0 };
    if (!rounds_errand_done(h->rounds, s->asked, &st, approval)) {
        if (atomic_load(&h->closing) || clock_ms(h->mono) >= s->until_ms)
            refuse(r, AGG_HTTP_ENROL_LINK, 503, "no answer of CSP in time");
        else
            https_park(r, s->until_ms);
        return;
    }
    if (st == SEFL_EAUTH) {
        refuse(r, AGG_HTTP_ENROL_CSP, 403, "CSP refused it");
        return;
    }
    if (st != SEFL_OK) {
        refuse(r, AGG_HTTP_ENROL_LINK, 503, "no link to CSP");
        return;
    }
    st = issue(r, &answer, approval);
    if (st == SEFL_EAUTH) { /* the list has changed meanwhile */
        refuse(r, AGG_HTTP_ENROL_TOKEN, 403, sefl_last_error());
    } else if (st != SEFL_OK) {
        failed(r);
    } else {
        atomic_fetch_add(&h->counts[AGG_HTTP_ENROLLED], 1);
        log_info(h->log, "site enrolled", lf_str("name", s->q.claim.name),
                 lf_key("key", s->q.claim.key));
        if (h->listed)
            h->listed(h); /* its first connection may come at once */
        https_answer(r, 200, "application/octet-stream", NULL, buf_span(&answer));
    }
    buf_clear(&answer);
}

/* ---- the request ----------------------------------------------------------------------------- */

/* Everything that can be said without CSP. SEFL_EAUTH: no. */
static sefl_status check(const agg_http *h, const site *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf path = { 0 };
    trust *t = NULL;
    uint8_t asked[TRUST_KEY];
    SEFL_CHECK(memcmp(&s->q.claim.servers, &h->task->servers, sizeof s->q.claim.servers) == 0,
               SEFL_EAUTH, "the site knows other servers than this task's");
    SEFL_TRY(ca_path(&path, h->ca, "trust"));
    SEFL_TRY(trust_read(&t, (const char *)path.p));
    SEFL_TRY(ca_check(t, &s->q.claim, &s->q.as, now_s(h)));
    st = x509_request_read(asked, s->q.csr);
    if (st != SEFL_OK && st != SEFL_ENOMEM)
        st = SEFL_EAUTH;
    if (st == SEFL_OK)
        SEFL_CHECK(memcmp(asked, s->q.claim.key, TRUST_KEY) == 0, SEFL_EAUTH,
                   "the request for a certificate is of another key than the claim");
done:
    trust_free(t);
    buf_clear(&path);
    return st;
}

static sefl_status take(https_request *r, sefl_span bytes)
{
    site *s = r->state;
    return wr_raw(&s->body, bytes.p, bytes.n);
}

static bool has_room(buckets *b, const uint8_t key[BUCKETS_KEY], uint64_t now_ms)
{
    return !b || buckets_take(b, key, 1, now_ms);
}

static void end(https_request *r, sefl_status st)
{
    static const uint8_t all[BUCKETS_KEY];
    agg_http *h = http_of(r);
    site *s = r->state;
    if (st == SEFL_OK)
        st = enrol_request_read(&s->q, buf_span(&s->body));
    if (st != SEFL_OK) {
        refuse(r, AGG_HTTP_ENROL_FORM, 400, sefl_last_error());
        return;
    }
    /* not before: what costs its sender nothing must not use up what all share */
    if (!has_room(h->enrol_rate, all, clock_ms(h->mono))) {
        refuse(r, AGG_HTTP_ENROL_RATE, 429, "too many requests of strangers");
        return;
    }
    s->counted = true;
    st = check(h, s);
    if (st == SEFL_EAUTH) {
        refuse(r, AGG_HTTP_ENROL_TOKEN, 403, sefl_last_error());
        return;
    }
    if (st == SEFL_OK)
        st = rounds_enrol(h->rounds, &s->asked, &s->q.claim, &s->q.csp);
    if (st != SEFL_OK) {
        failed(r);
        return;
    }
    s->until_ms = clock_ms(h->mono) + WAIT_MS;
    resume(r);
}

static void drop(https_request *r)
{
    agg_http *h = http_of(r);
    site *s = r->state;
    r->state = NULL;
    if (!s)
        return;
    rounds_errand_end(h->rounds, s->asked);
    buf_clear(&s->body);
    sefl_free(s);
}

static bool has_ca_key(const agg_http *h)
{
    sefl_buf path = { 0 };
    bool has =
        h->ca && ca_path(&path, h->ca, "ca.key") == SEFL_OK && file_exists((const char *)path.p);
    buf_clear(&path);
    return has;
}

void agg_enrol_begin(https_request *r)
{
    agg_http *h = http_of(r);
    agg_why why;
    site *s;
    if (!has_ca_key(h)) {
        refuse(r, AGG_HTTP_ENROL_OFF, 403, "no trust list, or its CA's key is not on this machine");
    } else if (!has_room(h->enrol_origin, r->origin, clock_ms(h->mono))) {
        refuse(r, AGG_HTTP_ENROL_RATE, 429, "too many requests of strangers from one address");
    } else if (r->body_bytes == 0) {
        refuse(r, AGG_HTTP_ENROL_FORM, 400, "an empty body");
    } else if (rounds_over(h->rounds, &why)) {
        refuse(r, AGG_HTTP_ENROL_LINK, 503, "the task is over: CSP is not asked any more");
    } else if (sefl_new(&s, 1, sizeof *s) != SEFL_OK) {
        https_answer_text(r, 503, "no memory");
    } else {
        s->body.max = ENROL_REQUEST_MAX;
        r->state = s;
        r->body = take, r->end = end, r->resume = resume, r->drop = drop;
    }
}

/* The newest certificate that our CA made for the key that asks: after `sefl ca renew`. */
void agg_certificate(https_request *r)
{
    const agg_http *h = http_of(r);
    sefl_buf path = { 0 }, pem = { 0 };
    if (h->ca && ca_issued_path(&path, h->ca, r->peer.fingerprint) == SEFL_OK &&
        file_read(&pem, (const char *)path.p, X509_CERT_MAX) == SEFL_OK)
        https_answer(r, 200, "application/x-pem-file", "Cache-Control: no-store\n", buf_span(&pem));
    else
        https_answer_text(r, 404, "no certificate of yours was made here");
    buf_clear(&path);
    buf_clear(&pem);
}
