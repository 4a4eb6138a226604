/* web_server: answers GET and HEAD over HTTP, for browsers and monitors (libmicrohttpd). One
 * handler makes every answer: bytes, a file, or a stream of server-sent events.
 *
 *     SEFL_TRY(web_server_start(&s, &(web_server_config){ .address = "127.0.0.1", .port = 7020,
 *                                                         .handle = answer, .ctx = me }));
 *     web_server_publish(s, span_of_str("event: state\ndata: {}\n\n"));   // to every open stream
 *     web_server_stop(s);
 *
 * Without an id (a certificate) the server speaks plain HTTP, and only on a loopback address: any
 * user of this machine can then connect, so the handler must check who asks. With an id it speaks
 * TLS 1.3 on any address and asks for a client certificate. It checks no chain: r->peer says
 * whether the certificate is valid by its dates and strong, and whose key it is; the handler
 * decides which keys it knows.
 *
 * The server refuses other methods than GET and HEAD with 405 and never reads a body. Each
 * connection carries one request. Limits: `connections`, 8 KiB of request header, idle_s seconds of
 * silence, `streams`. The connection that takes the last place cuts the oldest one whose request
 * has not arrived, so peers that send slowly do not keep others out. A new stream beyond its limit
 * ends the oldest one. A stream whose peer does not read holds one event and misses those that
 * follow, and ends after idle_s; a peer that has disconnected is noticed at the next event or
 * beat. So nothing that a peer does costs more than a fixed amount of memory, and only a peer that
 * connects all the time delays another one for longer than the handler takes.
 *
 * Threads: one server thread calls the handler; any thread may call web_server_publish.
 * Secrets: the id's key. */
#ifndef NET_WEB_SERVER_H
#define NET_WEB_SERVER_H

#include "base/buf.h"
#include "base/log.h"
#include "net/tls.h"
#include "net/x509.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct web_server web_server;

typedef struct web_request {
    const char *method, *path; /* path: without the query */
    uint16_t port;             /* the server's */
    x509_peer peer;            /* with TLS; otherwise X509_NONE */
    void *inner;               /* private to this module */
} web_request;

/* Return a parameter of the query, a header field or a cookie; NULL if there is none. */
const char *web_query(const web_request *r, const char *name);
const char *web_header(const web_request *r, const char *name);
const char *web_cookie(const web_request *r, const char *name);
/* True if this Host field names this machine by a loopback address or as localhost, with this port;
 * false for NULL. A page of another origin whose name was made to resolve to 127.0.0.1 (DNS
 * rebinding) sends its own name. */
bool web_host_fits(const char *host, uint16_t port);

/* The answer. The handler fills it; the server clears it. */
typedef struct web_answer {
    unsigned status;   /* 200 */
    const char *type;  /* Content-Type; a constant */
    sefl_buf headers;  /* "Name: value\n" lines for this answer */
    sefl_buf body;     /* for a stream: its first bytes */
    int fd;            /* -1, or a file to send instead of body, which the server closes */
    uint64_t fd_bytes; /* its size */
    bool stream;       /* the answer goes on with what is published */
} web_answer;

typedef struct web_server_config {
    const char *address;
    uint16_t port;        /* 0: the system chooses */
    const tls_id *id;     /* NULL: plain HTTP on loopback */
    unsigned connections; /* 0: 16 */
    unsigned streams;     /* 0: none; must be less than `connections` */
    unsigned idle_s;      /* 0: 5 */
    const char *headers;  /* "Name: value\n" lines for every answer; may be NULL */
    void (*handle)(void *ctx, const web_request *r, web_answer *a);
    void *ctx;
    sefl_log *log; /* NULL: no log */
} web_server_config;

/* SEFL_EINVAL for an address that other machines can reach. */
sefl_status web_server_check_loopback(const char *address) SEFL_MUST_CHECK;

sefl_status web_server_start(web_server **out, const web_server_config *c) SEFL_MUST_CHECK;
uint16_t web_server_port(const web_server *s);
/* New connections use this certificate; only for a server with TLS. */
void web_server_set_id(web_server *s, const tls_id *id);
/* Sends the event to every open stream; a stream that is still busy with an earlier event gets only
 * the newest one after it. If memory runs out, streams get the next event. */
void web_server_publish(web_server *s, sefl_span event);
/* Sends a comment to every stream, which shows both ends that the connection works. */
void web_server_beat(web_server *s);
unsigned web_server_streams(web_server *s);
/* Ends the streams that are open now. */
void web_server_end_streams(web_server *s);
/* Sends a last event to every stream and ends the stream after it. Waits at most half a second for
 * slow readers. Call only web_server_stop afterwards. */
void web_server_finish(web_server *s, sefl_span event);
/* Ends all streams and stops after the request in progress. NULL is allowed. */
void web_server_stop(web_server *s);

#endif
