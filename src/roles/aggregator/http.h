/* http: what AS answers to clients (docs/PROTOCOL.md, "AS over HTTPS"): protocol/http.h's calls and
 * nothing else.
 *
 *     agg_http h = { .task = &t, .envelope = env, .rounds = r, .ingest = in, ... };
 *     https_server_start(&s, &(https_server_config){ .begin = agg_http_begin, .ctx = &h, ... });
 *     h.closing = true, https_server_stop(s);
 *
 * Every refusal is a status and one line of text; ingest.h counts those of uploads.
 * Threads: the server's.   Secrets: none. */
#ifndef ROLES_AGGREGATOR_HTTP_H
#define ROLES_AGGREGATOR_HTTP_H

#include "net/https_server.h"
#include "roles/aggregator/rounds.h"

#include <stdatomic.h>

enum { AGG_HTTP_WAIT_MAX_S = 60 };

typedef struct agg_http {
    const task *task;
    sefl_span envelope; /* the signed task */
    rounds *rounds;
    ingest *ingest;
    const char *vocab, *init; /* files */
    const sefl_clock *mono;
    sefl_log *log;
    atomic_bool closing; /* the server is about to stop: nobody waits any more */
} agg_http;

void agg_http_begin(https_request *r);

#endif
