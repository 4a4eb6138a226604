/* http: what AS answers to clients (docs/PROTOCOL.md, "AS over HTTPS"): protocol/http.h's calls and
 * nothing else.
 *
 *     agg_http h = { .task = &t, .envelope = env, .rounds = r, .ingest = in, ... };
 *     https_server_start(&s, &(https_server_config){ .begin = agg_http_begin, .ctx = &h, ... });
 *     h.closing = true, https_server_stop(s);
 *
 * Every refusal is a status and one line of text; ingest.h counts those of uploads, https_server.h
 * those before a request gets here, and this module the few between (AGG_HTTP_EVENTS).
 * Threads: the server's.   Secrets: none. */
#ifndef ROLES_AGGREGATOR_HTTP_H
#define ROLES_AGGREGATOR_HTTP_H

#include "net/https_server.h"
#include "roles/aggregator/rounds.h"

#include <stdatomic.h>

enum { AGG_HTTP_WAIT_MAX_S = 60 };

/* X(name, counter's name) */
#define AGG_HTTP_EVENTS(X)                                                 \
    X(OLDER, "version_older")     /* taken: a client one minor below us */ \
    X(VERSION, "version_refused") /* 426 */                                \
    X(NO_PATH, "no_such_path")    /* 404 */                                \
    X(METHOD, "wrong_method")     /* 405 */                                \
    X(NUMBERS, "bad_numbers")     /* 400: query or header field */         \
    X(FAILED, "failed_here")      /* 500 */

typedef enum agg_http_event {
#define AGG_HTTP_EVENT_ENUM(name, text) AGG_HTTP_##name,
    AGG_HTTP_EVENTS(AGG_HTTP_EVENT_ENUM)
#undef AGG_HTTP_EVENT_ENUM
        AGG_HTTP_EVENTS_N
} agg_http_event;

const char *agg_http_event_name(agg_http_event e);

typedef struct agg_http {
    const task *task;
    sefl_span envelope; /* the signed task */
    rounds *rounds;
    ingest *ingest;
    const char *vocab, *init; /* files */
    const sefl_clock *mono;
    sefl_log *log;
    _Atomic uint64_t counts[AGG_HTTP_EVENTS_N];
    _Atomic uint64_t certificates[X509_VERDICTS]; /* refused, by reason */
    atomic_bool closing; /* the server is about to stop: nobody waits any more */
} agg_http;

void agg_http_begin(https_request *r);

#endif
