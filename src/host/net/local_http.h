/* local_http: serves a few pages over plain HTTP on a loopback address, for health checks and
 * monitors on the same machine.
 *
 *     static const local_page pages[] = { { "/healthz", "application/json", health } };
 *     SEFL_TRY(local_http_start(&h, &(local_http_config){
 *         .address = "127.0.0.1", .port = 7010, .pages = pages, .pages_n = 1, .ctx = me }));
 *     local_http_stop(h);
 *
 * It uses no certificate and no encryption, so it listens only on 127.0.0.0/8 or ::1 (SEFL_EINVAL
 * otherwise), and the pages must contain nothing that another user of this machine may not read. A
 * monitor on another machine needs an agent on this one, or a proxy that authenticates it.
 *
 * It answers only GET and HEAD for its paths: other methods get 405, other paths 404, and a Host
 * that is not this machine (web_host_fits) gets 403. It is a
 * web_server (net/web_server.h) with that module's limits: 16 connections, 5 s of silence each,
 * 8 KiB of request header. It uses only the method and the path and compares both in full.
 * Threads: one server thread at a time makes a page.   Secrets: none. */
#ifndef NET_LOCAL_HTTP_H
#define NET_LOCAL_HTTP_H

#include "base/buf.h"
#include "base/log.h"

#include <stdint.h>

typedef struct local_http local_http;

/* Appends the page to body; may change *status from 200. A failure is logged and gets 500. */
typedef sefl_status local_make(void *ctx, sefl_buf *body, unsigned *status);

typedef struct local_page {
    const char *path, *type; /* type: its Content-Type */
    local_make *make;
} local_page;

typedef struct local_http_config {
    const char *address;
    uint16_t port;           /* 0: the system chooses */
    const local_page *pages; /* borrowed while the server runs */
    size_t pages_n;
    void *ctx;     /* of every make */
    sefl_log *log; /* gets the address and any failures; NULL: no log */
} local_http_config;

/* SEFL_EINVAL for an address that other machines can reach. */
sefl_status local_http_check(const char *address) SEFL_MUST_CHECK;

sefl_status local_http_start(local_http **out, const local_http_config *c) SEFL_MUST_CHECK;
uint16_t local_http_port(const local_http *h);
/* Stops the server after a page in progress. NULL is allowed. */
void local_http_stop(local_http *h);

#endif
