/* as_http: answers clients' requests to AS (docs/PROTOCOL.md, "AS over HTTPS"): the calls in
 * protocol/http.h and no others.
 *
 *     agg_http h = { .task = &t, .envelope = env, .rounds = r, .ingest = in, ... };
 *     https_server_start(&s, &(https_server_config){ .begin = agg_http_begin, .ctx = &h,
 *                                                    .headers = HTTP_VERSION_LINE, ... });
 *     h.closing = true, https_server_stop(s);
 *
 * Every refusal is a status and a one-line message. https_server.h counts refusals before a handler
 * runs, ingest.h counts refused uploads, and this module counts the others (AGG_HTTP_EVENTS).
 * Threads: the server's threads.   Secrets: none. */
#ifndef ROLES_AGGREGATOR_AS_HTTP_H
#define ROLES_AGGREGATOR_AS_HTTP_H

#include "net/buckets.h"
#include "net/https_server.h"
#include "protocol/http.h"
#include "protocol/version.h"
#include "roles/aggregator/rounds.h"
#include "roles/aggregator/turnout.h"

#include <stdatomic.h>

enum { AGG_HTTP_WAIT_MAX_S = 60 };

/* X(name, counter's name) */
#define AGG_HTTP_EVENTS(X)                                                        \
    X(OLDER, "version_older")     /* admitted: an older minor version */          \
    X(VERSION, "version_refused") /* 426 */                                       \
    X(NO_PATH, "no_such_path")    /* 404 */                                       \
    X(METHOD, "wrong_method")     /* 405 */                                       \
    X(NUMBERS, "bad_numbers")     /* 400: in the query or a header field */       \
    X(FAILED, "failed_here")      /* 500 */                                       \
    X(ENROLLED, "enrol.enrolled")                                                 \
    X(ENROL_OFF, "enrol.off")       /* 403: no trust list, or no CA key */        \
    X(ENROL_RATE, "enrol.rate")     /* 429 */                                     \
    X(ENROL_FORM, "enrol.form")     /* 400 */                                     \
    X(ENROL_TOKEN, "enrol.refused") /* 403: invalid token, name or key */         \
    X(ENROL_CSP, "enrol.csp")       /* 403: CSP refused it */                     \
    X(ENROL_LINK, "enrol.no_csp")   /* 503: CSP is not reachable now */           \
    X(VOUCHED, "voucher.taken")                                                   \
    X(VOUCHER_FORM, "voucher.form")       /* 400; 404 if the task needs none */   \
    X(VOUCHER_REFUSED, "voucher.refused") /* 403: not its own, unsigned or old */ \
    X(VOUCHER_CSP, "voucher.csp")         /* 403: CSP refused it */               \
    X(VOUCHER_LINK, "voucher.no_csp")     /* 503: CSP is not reachable now */     \
    X(VOUCHER_OVER, "voucher.over")       /* 410: the task is over */             \
    X(LIST, "trust_list_unreadable") X(LIST_OLDER, "trust_list_older")

typedef enum agg_http_event {
#define AGG_HTTP_EVENT_ENUM(name, text) AGG_HTTP_##name,
    AGG_HTTP_EVENTS(AGG_HTTP_EVENT_ENUM)
#undef AGG_HTTP_EVENT_ENUM
        AGG_HTTP_EVENTS_N
} agg_http_event;

const char *agg_http_event_name(agg_http_event e);

typedef struct agg_http {
    const task *task;   /* NULL: no task now; every call that needs one gets 503 */
    sefl_span envelope; /* the signed task */
    rounds *rounds;
    ingest *ingest;
    turnout *turnout;         /* NULL: not recorded */
    const char *vocab, *init; /* files; vocab is NULL for an external model */
    const sefl_clock *wall, *mono;
    sefl_log *log;
    audit_log *audit; /* NULL: none */
    const char *ca;   /* the operator's folder (roles/ca.h); NULL: no enrolment */
    const sign_key *key;
    buckets *enrol_origin;     /* limits enrolment requests per address */
    buckets *enrol_rate;       /* limits complete enrolment requests in total */
    void (*listed)(void *ctx); /* called when AS has changed the trust list; ctx is this struct */
    /* A client is back that the open round did not wait for; ctx is this struct. May be NULL. */
    void (*back)(void *ctx);
    _Atomic uint64_t counts[AGG_HTTP_EVENTS_N];
    _Atomic uint64_t certificates[X509_VERDICTS]; /* refused, by reason */
    _Atomic uint64_t model_ms; /* when a client last asked for the latest model */
    atomic_bool closing;       /* the server is about to stop: no request may wait */
} agg_http;

void agg_http_begin(https_request *r);

/* ---- inside: as_http.c, as_enrol.c, as_voucher.c ---- */

/* A kind of posted body that AS passes to CSP for a decision. */
typedef struct agg_post_kind {
    size_t bytes, max;         /* size of the request's state; maximum size of the body */
    unsigned wait_ms;          /* maximum wait for CSP's answer */
    agg_http_event no, no_csp; /* CSP refused it; CSP is not reachable now */
    void (*end)(https_request *r, sefl_status st); /* checks the complete body and asks CSP */
    void (*yes)(https_request *r, const uint8_t sig[SIGN_BYTES]); /* CSP agrees and has signed */
    void (*refuse)(https_request *r, agg_http_event e, unsigned status, const char *why);
} agg_post_kind;

/* The state of a request, or the first member of that state. */
typedef struct agg_post {
    const agg_post_kind *kind;
    sefl_buf body;
    csp_request *asked;
    uint64_t until_ms;
} agg_post;

/* Accepts the body. Returns false, without answering, if memory runs out. */
bool agg_post_begin(https_request *r, const agg_post_kind *k);
/* Answers the request when CSP has answered or the time is up; call it after asking CSP. */
void agg_post_wait(https_request *r);

void agg_http_count(const https_request *r, agg_http_event e);
/* Answers 503 or 429 with Retry-After. */
void agg_http_later(https_request *r, unsigned status, const char *line);
/* Handle the calls ENROL, from a site without a certificate, and CERTIFICATE (as_enrol.c). */
void agg_enrol_begin(https_request *r);
void agg_certificate(https_request *r);
/* Handles the call VOUCHER (as_voucher.c). */
void agg_voucher_begin(https_request *r);

#endif
