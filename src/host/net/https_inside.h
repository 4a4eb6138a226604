/* https_inside: types and functions that the parts of https_server share. */
#ifndef NET_HTTPS_INSIDE_H
#define NET_HTTPS_INSIDE_H

#include "net/buckets.h"
#include "net/https_server.h"
#include "net/tls_inside.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/socket.h>

/* A connection, from accept to close. "Under the lock" means the server's lock. */
typedef struct https_conn {
    struct https_conn *next; /* in the server's list; under the lock */
    https_server *server;
    struct MHD_Connection *mhd;
    int fd;
    gnutls_session_t tls;
    uint8_t address[32]; /* socket_origin_of */
    uint64_t since_ms;
    bool known;        /* certified, and within its limits; under the lock, like peer */
    bool surplus;      /* its peer has too many connections: it gets 429; used by its thread only */
    bool crowded;      /* its issuer's peers have too many: it gets 429; used by its thread only */
    bool was_cut;      /* the server closed and counted it; under the lock */
    bool gone;         /* revoked or disconnected: no longer served; under the lock */
    atomic_bool shook; /* the handshake is complete */
    atomic_bool heard; /* so far, every request had a complete header */
    uint64_t due_ms;   /* deadline for a complete request header; 0: received; under the lock */
    uint64_t late_ms;  /* due_ms, or its last non-zero value; under the lock */
    bool discards;     /* answered during the body: the peer must close by due_ms; under the lock */
    bool busy;         /* a request is in progress; used by its thread only, like the next two */
    size_t idle_in, idle_out; /* TLS bytes received and sent since the last request */
    bool judged;        /* peer is set; its thread writes it under the lock, like the next two */
    unsigned judged_by; /* generation of the id and allowlist that peer was checked against */
    x509_peer peer;
} https_conn;

typedef enum https_phase {
    HTTPS_BEGIN,   /* begin has not returned yet */
    HTTPS_BODY,    /* the body is arriving */
    HTTPS_END,     /* the body is complete, or there is none */
    HTTPS_DISCARD, /* answered during the body: the rest is discarded, within limits */
} https_phase;

/* A request and its answer. */
typedef struct https_inner {
    https_request r; /* first */
    https_conn *conn;
    https_phase phase;
    uint64_t got, began_ms;
    size_t discarded;
    bool ended; /* end was called */
    bool slow;  /* closed because it was slow, and counted */

    unsigned status; /* the answer's status; 0: not answered yet */
    char *type, *headers;
    sefl_buf body;
    int fd; /* file to send, or -1 */
    uint64_t file_at, file_n;

    struct https_inner *park_next; /* under the server's lock */
    bool park_wanted;
    uint64_t park_until, wakes_seen;
} https_inner;

enum { HTTPS_IDS_MAX = 64 };

/* The server. */
struct https_server {
    https_server_config c;
    struct MHD_Daemon *daemon;
    int listener; /* listening socket; -1: the daemon owns it */
    uint16_t port;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    https_conn *conns;
    unsigned conns_n, strangers; /* all connections; those that have no valid certificate yet */
    https_inner *parked;
    tls_id *ids[HTTPS_IDS_MAX]; /* every id that was set: a handshake may still use an old one */
    unsigned ids_n, generation;
    allowlist *allowlist; /* NULL: none */
    unsigned requests;
    uint64_t wakes;
    atomic_bool stopping;
    bool over;
    pthread_t watcher;
    bool watching;

    buckets *address_rate, *peer_rate, *peer_bytes, *lines; /* NULL: no limit */
    _Atomic uint64_t counts[HTTPS_EVENTS_N];
    _Atomic uint64_t sent;      /* bytes of bodies */
    _Atomic uint64_t unsaid[2]; /* omitted log lines: about strangers, about peers of a known CA */
};

void https_count(https_server *s, https_event e);
/* True if another log line about a refusal of this peer is within the limits (https_may_log). */
bool https_may_talk(https_server *s, const x509_peer *p);
/* Logs a refusal, within the limits, with the keys that an operator needs to revoke the peer. */
void https_say_refused(https_server *s, const x509_peer *p, const char *event, const char *reason,
                       const char *why);
/* Logs the number of lines omitted since the last call, if any. */
void https_say_unsaid(https_server *s);

/* Connection callbacks for GnuTLS and libmicrohttpd (https_conn.c). */
int https_own_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                          gnutls_pcert_st **certs, unsigned *certs_n, gnutls_ocsp_data_st **ocsp,
                          unsigned *ocsp_n, gnutls_privkey_t *key, unsigned *flags);
enum MHD_Result https_on_accept(void *cls, const struct sockaddr *from, socklen_t n);
void https_on_connection(void *cls, struct MHD_Connection *mhd, void **ctx,
                         enum MHD_ConnectionNotificationCode what);
/* Sets conn->peer: checks the peer once per id and allowlist, and again after the certificate has
 * expired. */
void https_judge(https_conn *conn);
/* Counts and logs a refusal and calls `refused`. Do not hold the lock. */
void https_tell_refused(https_server *s, const x509_peer *p);
/* Resumes a parked request. Hold the lock. */
void https_unpark(https_server *s, https_inner *in);

/* Passes libmicrohttpd's messages to a sefl_log. */
void https_mhd_log(void *log, const char *fmt, va_list ap) SEFL_PRINTF(2, 0);

/* Makes the line printable, adds the newline and answers with it. */
void https_answer_line(https_request *r, unsigned status, const char *headers, const char *line);
/* Passes the answer to libmicrohttpd; MHD_NO closes the connection. */
enum MHD_Result https_answer_queue(https_inner *in);
/* Writes the answer to the TLS session itself, since libmicrohttpd accepts none during a body. */
void https_answer_early(https_inner *in);
void https_answer_clear(https_inner *in);

#endif
