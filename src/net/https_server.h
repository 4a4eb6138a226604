/* https_server: an HTTPS server with mutual TLS 1.3 (libmicrohttpd over GnuTLS) for one handler.
 *
 * libmicrohttpd only *asks* for a client certificate: this module verifies chain, dates and role
 * itself, before any byte of a body is taken, and gives a refused peer a generic 403.
 *
 *     https_server *s;
 *     SEFL_TRY(https_server_start(&s, &(https_server_config){ .address = "::", .port = 7000, .id = id,
 *                                 .peer_role = "client", .begin = f, .ctx = me }));
 *
 * For each request `begin` is called once with method, path, query and peer, before the body. It
 * either answers (https_answer_*), or takes the body: sets req->body / req->end / req->drop; or parks
 * the request (long poll): https_park(req, until_ms) and answers later from https_wake's call.
 * Threads: handlers run on the server's threads (config.threads, default 2), any number at once;
 * the requests of one connection one after another.   Limits: connections in all and per address,
 * idle time, header size, body size (413 before it is read).   Secrets: the key. */
#ifndef NET_HTTPS_SERVER_H
#define NET_HTTPS_SERVER_H

#include "base/buf.h"
#include "base/log.h"
#include "net/tls.h"

#include <stdbool.h>
#include <sys/types.h>

typedef struct https_server https_server;
typedef struct https_request https_request;

struct https_request {
    const char *method, *path;
    x509_peer peer;
    uint64_t body_bytes; /* Content-Length; UINT64_MAX: not said */
    void *server_ctx;    /* config.ctx */

    /* set by begin to take a body: */
    sefl_status (*body)(https_request *r,
                        sefl_span bytes);          /* a failure: the body's rest is not read,
                                                             * `end` is called with it */
    void (*end)(https_request *r, sefl_status st); /* the body is complete, or failed: answer now */
    void (*resume)(https_request *r); /* parked: woken, or its time is over: answer now */
    void (*drop)(https_request *r);   /* always last, answered or not: free `state` */
    void *state;
    void *inner; /* the module's */
};

typedef struct https_server_config {
    const char *address; /* NULL: "127.0.0.1" */
    uint16_t port;       /* 0: the system chooses */
    const tls_id *id;
    const char *peer_role;
    unsigned threads, connections_max, connections_per_address, idle_s; /* 0: 2, 512, 64, 60 */
    uint64_t body_max;
    void (*begin)(https_request *r);
    void (*refused)(void *ctx, const x509_peer *p); /* count and log it; may be NULL */
    void *ctx;
    sefl_log *log;
} https_server_config;

sefl_status https_server_start(https_server **out, const https_server_config *c) SEFL_MUST_CHECK;
uint16_t https_server_port(const https_server *s);
void https_server_stop(https_server *s); /* answers what is under way, then ends */

const char *https_query(const https_request *r, const char *name); /* NULL if it is not there */
const char *https_header(const https_request *r, const char *name);

/* One answer a request. Headers: "Name: value\n" lines, or NULL. */
void https_answer(https_request *r, unsigned status, const char *type, const char *headers,
                  sefl_span body);
void https_answer_text(https_request *r, unsigned status, const char *fmt, ...) SEFL_PRINTF(3, 4);
/* A file with ETag and Range (206, 416) and If-None-Match (304). etag: without quotes. */
void https_answer_file(https_request *r, const char *path, const char *type, const char *etag);

/* Only in begin: the request waits; resume is called when https_wake is, or at until_ms (monotonic). */
void https_park(https_request *r, uint64_t until_ms);
void https_wake(https_server *s);

#endif
