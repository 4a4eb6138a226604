/* https_server: an HTTPS server with mutual TLS 1.3 (libmicrohttpd over GnuTLS) for one handler.
 *
 * libmicrohttpd only *requests* a client certificate. This module verifies the chain, dates and
 * role and, if there is an allowlist (net/allowlist.h), membership and revocation, before it
 * accepts a byte of a body. A refused peer gets a generic 403; the reason goes to the log and to
 * `refused`. One path (open_path) may be open to peers without a certificate, for enrolment.
 *
 *     https_server *s;
 *     SEFL_TRY(https_server_start(&s, &(https_server_config){ .port = 7000, .id = id,
 *                                 .peer_role = "client", .begin = f, .ctx = me }));
 *
 * The server calls `begin` once per request, before the body; method, path and peer are known then.
 * The handler answers (https_answer_*), or accepts the body (sets req->body, req->end, req->drop),
 * or parks the request (long poll: https_park(req, until_ms)) and answers later in req->resume. If
 * it does none of these, the request gets 500.
 *
 * Order of calls for one request: begin; body, any number of times; end, once, if a body was
 * accepted; resume, after each https_park; drop, last, if it is set. A body needs a Content-Length:
 * without one it gets 411, above body_max 413, both before begin. If the peer disconnects during
 * the body, or the server disconnects a slow peer, end gets SEFL_ECLOSED and its answer is dropped.
 * If the handler rejects a body, the server answers at once; a peer that then sends over 4 MiB, or
 * has not closed after 10 s (or idle_s, if less), is disconnected and counted as slow. Paths have
 * at most 1,024 printable characters, without "..", "//" or a backslash; any other gets 400, and so
 * does a malformed field or query (https_form.h).
 *
 * Threads: handlers run concurrently on the server's threads (config.threads, default 2); the
 * requests of one connection run one after another. A handler that blocks delays the other
 * connections on its thread. This slows down incoming bodies, as intended; a request that waits for
 * anything else should be parked.
 *
 * Limits. The server limits connections in total, per address, per peer and per issuer with
 * unlisted members, and new connections per address and second. Half of all slots are reserved for
 * peers with a valid certificate: when others fill the other half, the server closes the oldest of
 * them to admit the next. Handshake time, headers (32 KiB), body size and speed are limited too:
 * the server closes a connection without a complete request header within idle_s, or with a body
 * slower than rate_min bytes per second over idle_s. A peer over its limit of requests or body
 * bytes per second gets 429 with Retry-After. A parked request whose peer has disconnected ends
 * within two seconds. IPv6 addresses are counted by /64. The server counts every refusal by its
 * reason (HTTPS_EVENTS). Memory: at most about 150 KiB per connection (TLS and HTTP buffers).
 * Secrets: the key. */
#ifndef NET_HTTPS_SERVER_H
#define NET_HTTPS_SERVER_H

#include "base/buf.h"
#include "base/log.h"
#include "net/allowlist.h"
#include "net/tls.h"

#include <stdbool.h>
#include <sys/types.h>

/* The events that the server counts: X(name, counter's name). */
#define HTTPS_EVENTS(X)                                                                   \
    X(CONNECTED, "connections")                /* accepted */                             \
    X(REQUESTS, "requests")                    /* with a complete header */               \
    X(FULL, "connections_full")                /* refused: no free slot */                \
    X(ADDRESS_FULL, "connections_per_address") /* refused: the address is at its limit */ \
    X(ADDRESS_RATE, "connection_rate")         /* refused: too many per second */         \
    X(STRANGER, "stranger_cut")                /* closed to free a slot for another */    \
    X(HANDSHAKE, "handshake_failed")           /* ended during the handshake */           \
    X(HANDSHAKE_SLOW, "handshake_slow")        /* handshake not complete in time */       \
    X(HEADER_SLOW, "header_slow")              /* no complete request header in time */   \
    X(NOT_HTTP, "not_http")                    /* ended without a valid request */        \
    X(CERTIFICATE, "certificate")              /* 403 */                                  \
    X(PEER_FULL, "connections_per_peer")       /* 429 */                                  \
    X(ISSUER_FULL, "connections_per_issuer")   /* 429 */                                  \
    X(PEER_RATE, "request_rate")               /* 429 */                                  \
    X(PEER_BYTES, "byte_rate")                 /* 429 */                                  \
    X(HEADERS, "headers_too_large")            /* 431 */                                  \
    X(PATH, "bad_path")                        /* 400 */                                  \
    X(FORM, "bad_form")                        /* 400 (https_form.h) */                   \
    X(LENGTH, "no_length")                     /* 411; 400: not a number */               \
    X(TOO_LARGE, "body_too_large")             /* 413 */                                  \
    X(BODY_SLOW, "body_slow")                  /* body too slow: closed */                \
    X(BODY_CUT, "body_cut")                    /* the peer disconnected during the body */

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
    const uint8_t *origin; /* peer's address, for rate limits: 32 bytes (socket_origin_of) */
    uint64_t body_bytes;   /* Content-Length; 0: no body */
    void *server_ctx;      /* config.ctx */

    /* begin sets these to accept a body. body gets the next bytes; if it fails, the rest is not
     * read and end gets the failure. end runs when the body is complete or has failed; it answers
     * or, if complete, parks. resume runs when the request is woken or its time is over; it answers
     * or parks. drop always runs last and frees `state`. */
    sefl_status (*body)(https_request *r, sefl_span bytes);
    void (*end)(https_request *r, sefl_status st);
    void (*resume)(https_request *r);
    void (*drop)(https_request *r);
    void *state;
    void *inner; /* private to this module */
};

/* A count or rate of 0 means no limit unless stated. */
typedef struct https_limits {
    unsigned connections;     /* 0: 512 */
    unsigned per_address;     /* connections; 0: 64 */
    unsigned per_peer;        /* connections; the fingerprint of its key identifies a peer */
    unsigned per_issuer;      /* connections of all peers of a CA whose members are not listed */
    unsigned connection_rate; /* new ones per address and second; bursts of ten times that */
    unsigned request_rate;    /* per peer and second; bursts of five times that */
    unsigned idle_s;          /* 0: 60 */
    unsigned rate_min;        /* bytes/s; 0: 1024 */
} https_limits;

typedef struct https_server_config {
    const char *address; /* NULL: "127.0.0.1" */
    uint16_t port;       /* 0: the system chooses */
    const int *listener; /* NULL, or a socket that listens on `port`; the server will own it */
    const tls_id *id;
    const char *peer_role;
    const allowlist *allowlist; /* who may connect; NULL: any peer certified by the id's CAs */
    const char *open_path; /* a POST here needs no certificate, but a bad one is refused; or NULL */
    uint64_t open_max;     /* maximum body size of such a POST */
    unsigned threads;      /* 0: 2 */
    https_limits limits;
    uint64_t body_max;
    const char *headers; /* "Name: value\n" lines for every answer, or NULL */
    double bytes_rate;   /* announced body bytes per peer and second; 0: no limit */
    double bytes_burst;  /* maximum number of such bytes in a burst */
    void (*begin)(https_request *r);
    void (*refused)(void *ctx, const x509_peer *p); /* called on any thread; may be NULL */
    void (*tick)(void *ctx); /* about once a second, on the server's watcher thread; may be NULL */
    void *ctx;
    sefl_log *log; /* https_may_log limits the lines about refusals */
} https_server_config;

sefl_status https_server_start(https_server **out, const https_server_config *c) SEFL_MUST_CHECK;
uint16_t https_server_port(const https_server *s);
/* Returns the number of times the event has happened since the start. */
uint64_t https_server_count(const https_server *s, https_event e);
/* Returns the number of bytes in the bodies of all answers since the start. */
uint64_t https_server_sent(const https_server *s);
/* Replaces the certificate, key and CAs without a restart: new connections use them, and the server
 * checks every open connection again at its next request. */
void https_server_set_id(https_server *s, const tls_id *id);
/* Replaces the allowlist and closes every open connection whose peer it no longer allows, even
 * during a request (calls `refused` for each). */
void https_server_set_allowlist(https_server *s, const allowlist *g);
/* Stops accepting connections, resumes parked requests, gives running requests 3 s to end, then
 * shuts down. NULL is allowed. */
void https_server_stop(https_server *s);

const char *https_query(const https_request *r, const char *name); /* NULL if missing */
const char *https_header(const https_request *r, const char *name);

/* True if another line about a refusal of this peer may be logged. The limits per second are ten
 * lines about strangers (no certificate, or one from an unknown CA), ten about each member of the
 * list, and ten about the other certificates from each CA: a flood must neither fill the disk nor
 * hide other peers. Once a second, a line reports how many lines were omitted; the counters include
 * every event. */
bool https_may_log(const https_request *r);
/* Logs a refusal if https_may_log allows it: the reason (a counter's name), the peer's name, and
 * the keys of the peer and its issuer in hex. The name comes from the certificate; two peers may
 * share it. */
void https_log_refused(const https_request *r, const char *event, const char *reason,
                       const char *why);

/* Call it in begin. Charges n bytes that Content-Length does not include (stored bytes, which are
 * read again) to the peer's byte limit. If the limit is reached, answers 429 and returns false. */
bool https_take_bytes(https_request *r, uint64_t n);

/* Answers the request; a second answer is ignored. Headers: "Name: value\n" lines, or NULL. */
void https_answer(https_request *r, unsigned status, const char *type, const char *headers,
                  sefl_span body);
/* Answers with a one-line message and adds the newline. */
void https_answer_text(https_request *r, unsigned status, const char *fmt, ...) SEFL_PRINTF(3, 4);
/* Answers with a file; supports Range (206, 416), If-Range and If-None-Match (304). etag: without
 * quotes. While it is sent, the file may be deleted or replaced by a rename, but not changed. 404
 * if it does not exist. */
void https_answer_file(https_request *r, const char *path, const char *type, const char *etag);

/* Parks the request; call it in begin, in end (of a complete body) or in resume. The server calls
 * resume after https_wake, or at the time until_ms (monotonic). Check the state first, then park: a
 * wake that happens after this begin, end or resume started is not lost. */
void https_park(https_request *r, uint64_t until_ms);
/* Wakes all parked requests, from any thread. Do not call it under a lock that a handler takes. */
void https_wake(https_server *s);

#endif
