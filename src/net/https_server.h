/* https_server: an HTTPS server with mutual TLS 1.3 (libmicrohttpd over GnuTLS) for one handler.
 *
 * libmicrohttpd only *asks* for a client certificate. This module itself verifies chain, dates and
 * role and, with an allowlist (net/allowlist.h), membership and revocation, before it takes any
 * byte of a body. A refused peer gets a generic 403 whatever the reason; the log and `refused` get
 * the reason. One path may be open to peers without a certificate (open_path): enrolment.
 *
 *     https_server *s;
 *     SEFL_TRY(https_server_start(&s, &(https_server_config){ .port = 7000, .id = id,
 *                                 .peer_role = "client", .begin = f, .ctx = me }));
 *
 * The server calls `begin` once per request, before the body, with method, path, query and peer. It
 * answers (https_answer_*), or takes the body (sets req->body, req->end, req->drop), or parks the
 * request (long poll): https_park(req, until_ms), and answers later in req->resume. A request that
 * does none of these gets 500.
 *
 * Order of calls for one request: begin; body, any number of times; end, once, if a body was taken;
 * resume, after each https_park; drop, last, if it is set. Content-Length announces a body: one
 * above body_max gets 413 before begin, one without a length 411. If the peer disconnects in the
 * middle of a body, or is cut because it is slow, end gets SEFL_ECLOSED and its answer goes
 * nowhere. A body that the handler rejects is answered at once; the peer then has 10 s (or idle_s,
 * if that is less) and 4 MiB to read the answer and close, otherwise it is cut and counted as slow.
 * Paths have at most 1,024 printable characters, without "..", "//" or a backslash; others get 400.
 *
 * Threads: handlers run on the server's threads (config.threads, default 2), any number at once;
 * the requests of one connection run one after another. A handler that blocks delays the other
 * connections of its thread: this is the back-pressure on bodies. Park what takes long elsewhere.
 *
 * Limits. Connections in all, per address, new ones per address and second, per peer, and per
 * issuer whose members the allowlist does not list. Half of all places are reserved for peers with
 * a valid certificate: when peers without one fill the other half, the oldest of them is cut for
 * the next. Handshake and idle time, 32 KiB of headers, body size, and speed: a connection is cut
 * if it has not sent a whole request header within idle_s, or if its body arrives at less than
 * rate_min bytes per second over idle_s. Requests per peer and second, and bytes of bodies per
 * peer, get 429 with Retry-After. A parked request whose peer has disconnected ends within two
 * seconds. An IPv6 address counts by its /64. Memory: at most about 150 KiB per connection (TLS and
 * HTTP buffers). Every refusal is counted by its reason (HTTPS_EVENTS).   Secrets: the key. */
#ifndef NET_HTTPS_SERVER_H
#define NET_HTTPS_SERVER_H

#include "base/buf.h"
#include "base/log.h"
#include "net/allowlist.h"
#include "net/tls.h"

#include <stdbool.h>
#include <sys/types.h>

/* What happens to connections and requests before a handler runs: X(name, counter's name). */
#define HTTPS_EVENTS(X)                                                                   \
    X(CONNECTED, "connections")                /* accepted */                             \
    X(REQUESTS, "requests")                    /* with a whole header */                  \
    X(FULL, "connections_full")                /* refused: no place at all */             \
    X(ADDRESS_FULL, "connections_per_address") /* refused: the address has its share */   \
    X(ADDRESS_RATE, "connection_rate")         /* refused: too many new ones a second */  \
    X(STRANGER, "stranger_cut")                /* cut to make place for another */        \
    X(HANDSHAKE, "handshake_failed")           /* ended before a request: garbage, cut */ \
    X(HANDSHAKE_SLOW, "handshake_slow")        /* ... or too slow */                      \
    X(HEADER_SLOW, "header_slow")              /* a request header that does not come */  \
    X(NOT_HTTP, "not_http")                    /* refused by libmicrohttpd's parser */    \
    X(CERTIFICATE, "certificate")              /* 403 */                                  \
    X(PEER_FULL, "connections_per_peer")       /* 429 */                                  \
    X(ISSUER_FULL, "connections_per_issuer")   /* 429 */                                  \
    X(PEER_RATE, "request_rate")               /* 429 */                                  \
    X(PEER_BYTES, "byte_rate")                 /* 429 */                                  \
    X(HEADERS, "headers_too_large")            /* 431 */                                  \
    X(PATH, "bad_path")                        /* 400 */                                  \
    X(LENGTH, "no_length")                     /* 411, or 400: no number */               \
    X(TOO_LARGE, "body_too_large")             /* 413 */                                  \
    X(BODY_SLOW, "body_slow")                  /* cut */                                  \
    X(BODY_CUT, "body_cut")                    /* the peer went away in a body */

typedef enum https_event {
#define HTTPS_EVENT_ENUM(name, text) HTTPS_EVENT_##name,
    HTTPS_EVENTS(HTTPS_EVENT_ENUM)
#undef HTTPS_EVENT_ENUM
        HTTPS_EVENTS_N
} https_event;

const char *https_event_name(https_event e);

typedef struct https_server https_server;
typedef struct https_request https_request;

struct https_request {
    const char *method, *path;
    x509_peer peer;        /* X509_OK, or X509_NONE on the open path */
    const uint8_t *origin; /* where it comes from, for counting: 32 bytes, IPv4 or an IPv6 /64 */
    uint64_t body_bytes;   /* Content-Length; 0: no body */
    void *server_ctx;      /* config.ctx */

    /* set by begin to take a body: */
    sefl_status (*body)(https_request *r,
                        sefl_span bytes);          /* a failure: the body's rest is not read,
                                                             * `end` is called with it */
    void (*end)(https_request *r, sefl_status st); /* the body is complete, or failed: answer now
                                                    * (a complete one: or park) */
    void (*resume)(
        https_request *r);          /* parked: woken, or its time is over: answer, or park again */
    void (*drop)(https_request *r); /* always last, answered or not: free `state` */
    void *state;
    void *inner; /* the module's */
};

typedef struct https_server_config {
    const char *address; /* NULL: "127.0.0.1" */
    uint16_t port;       /* 0: the system chooses */
    const int
        *listener; /* a socket that listens already (tls_listen), with `port`: taken; or NULL */
    const tls_id *id;
    const char *peer_role;
    const allowlist
        *allowlist;        /* who may connect; NULL: peers with a certificate of the id's CAs */
    const char *open_path; /* POST to it needs no certificate; a bad one is refused; NULL: none */
    uint64_t open_max;     /* bytes of its body */
    unsigned threads, connections_max, connections_per_address, idle_s; /* 0: 2, 512, 64, 60 */
    unsigned rate_min;                                                  /* bytes/s; 0: 1024 */
    uint64_t body_max;
    const char *headers; /* "Name: value\n" lines for every answer, or NULL */
    /* 0: no such limit */
    unsigned connection_rate;      /* new ones per address and second; ten times that at once */
    unsigned connections_per_peer; /* by the fingerprint of its key */
    /* of all peers of one CA without a list of members: such a CA can issue any number */
    unsigned connections_per_issuer;
    unsigned request_rate; /* per peer and second; five times that at once */
    double bytes_rate;     /* of bodies, per peer and second, as announced ... */
    double bytes_burst;    /* ... and at once */
    void (*begin)(https_request *r);
    void (*refused)(void *ctx, const x509_peer *p); /* count and log it; may be NULL; any thread */
    void (*tick)(void *ctx); /* about once a second, on a thread of the server; may be NULL */
    void *ctx;
    sefl_log *log; /* https_may_log limits lines about refusals */
} https_server_config;

sefl_status https_server_start(https_server **out, const https_server_config *c) SEFL_MUST_CHECK;
uint16_t https_server_port(const https_server *s);
/* Since the start. */
uint64_t https_server_count(const https_server *s, https_event e);
/* Another certificate, key and list of CAs, without a restart: new connections get them, and every
 * open connection is checked again at its next request. */
void https_server_set_id(https_server *s, const tls_id *id);
/* Another trust list. Closes every open connection whose peer it no longer allows, even in the
 * middle of a request (`refused` hears of each). */
void https_server_set_allowlist(https_server *s, const allowlist *g);
/* Takes no new connections, resumes what is parked, lets requests under way end for at most 3 s,
 * then ends. NULL is fine. */
void https_server_stop(https_server *s);

const char *https_query(const https_request *r, const char *name); /* NULL if it is not there */
const char *https_header(const https_request *r, const char *name);

/* May another line about a refusal of this peer be logged? Per second at most ten about strangers
 * (no certificate, or one of an unknown CA), ten about each member of the list, and ten about the
 * other certificates of each CA: a flood must neither fill the disk nor hide other peers. A line
 * per second counts what was left out; the counters have everything. */
bool https_may_log(const https_request *r);
/* Logs such a line if https_may_log allows it: the reason (a counter's name), the peer's name and
 * the digits of its key and of its issuer's. The name comes from the certificate; two peers may
 * share it. */
void https_log_refused(const https_request *r, const char *event, const char *reason,
                       const char *why);

/* In begin: charges n bytes that were not announced (stored bytes that are checked again) like
 * bytes of a body. False: the peer's limit is reached, and it got 429. */
bool https_take_bytes(https_request *r, uint64_t n);

/* One answer a request; a second one is ignored. Headers: "Name: value\n" lines, or NULL. */
void https_answer(https_request *r, unsigned status, const char *type, const char *headers,
                  sefl_span body);
/* One line of text; the newline is added. */
void https_answer_text(https_request *r, unsigned status, const char *fmt, ...) SEFL_PRINTF(3, 4);
/* A file with ETag and Range (206, 416), If-Range and If-None-Match (304). etag: without quotes.
 * The file may be renamed over or deleted meanwhile, not changed. 404 if it is not there. */
void https_answer_file(https_request *r, const char *path, const char *type, const char *etag);

/* In begin, end (of a complete body) or resume: the request waits; resume is called when https_wake
 * is, or at until_ms (monotonic). A wake that comes after this call of begin, end or resume has
 * begun counts: look at the state first, then park. */
void https_park(https_request *r, uint64_t until_ms);
/* From any thread, but not while holding a lock that a handler takes. */
void https_wake(https_server *s);

#endif
