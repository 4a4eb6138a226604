/* https_client: sends requests to one server with mutual TLS 1.3 (libcurl over GnuTLS).
 *
 *     https_client_config cfg = { .host = "as.example", .port = 7000, .id = id };
 *     SEFL_TRY(https_client_new(&c, &cfg));
 *     SEFL_TRY(https_get(c, "/news", 1 << 20, 0, &r));                // r.status, r.body
 *     SEFL_TRY(https_get_file(c, "/model", file, max, NULL, &r));     // resumes with Range
 *     SEFL_TRY(https_put_file(c, "/update", file, offset, headers, NULL, &r));
 *
 * It connects to one host and port, over IPv4 or IPv6, through an HTTP CONNECT proxy if one is
 * configured or set in the environment (https_proxy, no_proxy). Before it sends a request, it
 * checks the server's certificate against the id's peers_ca, the host name and the role. A client
 * without a certificate pins the server's key instead (pin). It does not follow redirects.
 *
 * Every wait is bounded: connect_ms limits everything before the request (including a proxy's
 * answer), and stall_s limits later silence. A transfer fails if it averages below 1024 bytes per
 * second after 2 * stall_s.
 *
 * A transport failure is SEFL_EIO, SEFL_ETIMEOUT or SEFL_EAUTH with a message. An HTTP status is
 * not a failure: the caller checks r.status. Errors of file operations are those of base/file.h.
 * Every call fills r, even if it fails; the caller clears it. Threads: one owner; any thread may
 * call https_client_interrupt.   Secrets: the key. */
#ifndef NET_HTTPS_CLIENT_H
#define NET_HTTPS_CLIENT_H

#include "base/buf.h"
#include "base/progress.h"
#include "net/tls.h"

typedef struct https_client https_client;

typedef struct https_client_config {
    const char *host;
    uint16_t port;
    const tls_id *id;
    const uint8_t *pin;      /* instead of an id: the SHA-256 of the server's SPKI */
    const char *server_role; /* NULL: "aggregator" */
    const char *proxy;       /* "http://[user:password@]host:port"; NULL: environment; "": none */
    const char *headers;     /* "Name: value\n" lines for every request, or NULL */
    bool (*may_send)(const char *name, size_t n); /* is this a permitted header? NULL: all are */
    const char *number_field;     /* response header that fills r.number (borrowed), or NULL */
    unsigned connect_ms, stall_s; /* 0: 10 s, 30 s */
} https_client_config;

typedef struct https_reply {
    unsigned status;
    sefl_buf body;   /* cleared by https_reply_clear; at most the caller's limit */
    uint64_t number; /* value of number_field; UINT64_MAX if it is missing */
    char etag[80];
    uint64_t sent, received; /* body bytes */
} https_reply;

/* SEFL_EINVAL unless https_client_new accepts this value of `proxy`. */
sefl_status https_proxy_check(const char *proxy) SEFL_MUST_CHECK;

sefl_status https_client_new(https_client **out, const https_client_config *c) SEFL_MUST_CHECK;
void https_client_free(https_client *c);
/* Makes the current call and all later ones fail with SEFL_ECANCELLED. */
void https_client_interrupt(https_client *c);

/* Fetches at most max bytes. A long poll may stay silent for wait_s beyond stall_s. */
sefl_status https_get(https_client *c, const char *path, size_t max, unsigned wait_s,
                      https_reply *r) SEFL_MUST_CHECK;
/* headers: "Name: value\n" lines, or NULL. */
sefl_status https_head(https_client *c, const char *path, const char *headers,
                       https_reply *r) SEFL_MUST_CHECK;
/* Posts at most 64 KiB. The answer may take wait_s beyond stall_s. */
sefl_status https_post(https_client *c, const char *path, sefl_span body, size_t max,
                       unsigned wait_s, https_reply *r) SEFL_MUST_CHECK;
/* Downloads into to.part, syncs it and renames it to `to`. Resumes a partial download if its ETag
 * (to.part.etag) is unchanged; 416 makes it start over. Any other status except 200 and 206 changes
 * no file, and r->body has the server's message. SEFL_ERANGE if the file exceeds max bytes. */
sefl_status https_get_file(https_client *c, const char *path, const char *to, uint64_t max,
                           const sefl_progress *progress, https_reply *r) SEFL_MUST_CHECK;
/* Sends bytes [offset, size) of the file. headers: "Name: value\n" lines, or NULL. */
sefl_status https_put_file(https_client *c, const char *path, const char *from, uint64_t offset,
                           const char *headers, const sefl_progress *progress,
                           https_reply *r) SEFL_MUST_CHECK;
void https_reply_clear(https_reply *r);

/* Sets *seconds to how far our clock is ahead of the server's (negative: behind), by the Date of
 * its latest answer. False: no answer had one. */
bool https_ahead(const https_client *c, int64_t *seconds);
/* Fetches `path` for the Date of the answer alone, for https_ahead: verifies everything of the
 * server's certificate except the dates. For a machine whose own clock may be wrong. */
sefl_status https_ask_date(https_client *c, const char *path) SEFL_MUST_CHECK;

#endif
