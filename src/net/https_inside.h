/* https_inside: what the parts of https_server share. */
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

/* A connection, from its accept to its end. */
typedef struct https_conn {
    struct https_conn *prev, *next; /* in the server's list; under its lock */
    https_server *server;
    struct MHD_Connection *mhd;
    int fd;
    gnutls_session_t tls;
    uint8_t address[32]; /* IPv4, or the first 64 bits of IPv6 */
    uint64_t since_ms;
    bool known;   /* has shown a good certificate, and is no surplus; under the lock, as peer */
    bool surplus; /* its peer has connections enough: answers are 429; its own thread's */
    bool crowded; /* those of its issuer have; as surplus */
    bool was_cut; /* by us, and counted; under the lock */
    bool gone; /* no longer welcome, or no longer there: nothing of it is served; under the lock */
    atomic_bool shook; /* the handshake is over */
    atomic_bool heard; /* whatever it sent was a request with a whole header, so far */
    uint64_t due_ms;   /* a whole request header must be here by then; 0: one is; under the lock */
    uint64_t late_ms;  /* what due_ms was, or is; under the lock */
    bool discards;     /* answered in the middle of a body: the peer must go by due_ms; as due_ms */
    bool busy;         /* a request is under way; its own thread's, as these: */
    size_t idle_in, idle_out; /* bytes on the wire since the latest request ended */
    bool judged;              /* these are written by its thread, under the lock */
    unsigned judged_by;       /* generation of id and allowlist */
    x509_peer peer;
} https_conn;

typedef enum https_phase {
    HTTPS_BEGIN,   /* not begun, or inside begin */
    HTTPS_BODY,    /* the body comes in */
    HTTPS_END,     /* it is complete, or there was none */
    HTTPS_DISCARD, /* answered in the middle of it: the rest is thrown away, within limits */
} https_phase;

/* A request and its answer. */
typedef struct https_inner {
    https_request r; /* first */
    https_conn *conn;
    https_phase phase;
    uint64_t got, began_ms;
    size_t discarded;
    bool ended; /* end was called */
    bool slow;  /* cut for it, and counted */

    unsigned status; /* of the answer; 0: none yet */
    char *type, *headers;
    sefl_buf body;
    int fd; /* file to send, or -1 */
    uint64_t file_at, file_n;

    struct https_inner *park_prev, *park_next; /* under the server's lock */
    bool park_wanted, parked;
    uint64_t park_until, wakes_seen;
} https_inner;

enum { HTTPS_IDS_MAX = 64 };

/* The server. */
struct https_server {
    https_server_config c;
    struct MHD_Daemon *daemon;
    int listener; /* ours only after quiesce */
    uint16_t port;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    https_conn *conns;
    unsigned conns_n, strangers; /* connections; those without a good certificate yet */
    https_inner *parked;
    tls_id *ids[HTTPS_IDS_MAX]; /* all that were ever set: a handshake may still use an old one */
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
    _Atomic uint64_t unsaid[2]; /* lines left out: about strangers, about peers of a known CA */
};

void https_count(https_server *s, https_event e);
/* May another line about a refusal of this peer be logged (https_may_log)? */
bool https_may_talk(https_server *s, const x509_peer *p);
/* Logs a refusal if it may, with the keys that an operator needs to revoke the peer. */
void https_say_refused(https_server *s, const x509_peer *p, const char *event, const char *reason,
                       const char *why);
/* How many lines were left out since the last call, if any. */
void https_say_unsaid(https_server *s);

/* Callbacks of GnuTLS and libmicrohttpd about connections (https_conn.c). */
int https_own_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                          gnutls_pcert_st **certs, unsigned *certs_n, gnutls_ocsp_data_st **ocsp,
                          unsigned *ocsp_n, gnutls_privkey_t *key, unsigned *flags);
enum MHD_Result https_on_accept(void *cls, const struct sockaddr *from, socklen_t n);
void https_on_connection(void *cls, struct MHD_Connection *mhd, void **ctx,
                         enum MHD_ConnectionNotificationCode what);
/* One verdict a connection, id and allowlist, until the certificate expires: conn->peer. */
void https_judge(https_conn *conn);
/* Counts, logs and tells a refusal; without the lock. */
void https_tell_refused(https_server *s, const x509_peer *p);
/* Under the lock. */
void https_unpark(https_server *s, https_inner *in);

/* libmicrohttpd's own words, for a sefl_log. */
void https_mhd_log(void *log, const char *fmt, va_list ap) SEFL_PRINTF(2, 0);

/* One line of text, made printable, with its newline. */
void https_answer_line(https_request *r, unsigned status, const char *headers, const char *line);
/* Gives the answer to libmicrohttpd; MHD_NO: close. */
enum MHD_Result https_answer_queue(https_inner *in);
/* Writes it past libmicrohttpd, which takes no answer in the middle of a body. */
void https_answer_early(https_inner *in);
void https_answer_clear(https_inner *in);

#endif
