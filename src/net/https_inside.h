/* https_inside: what the two halves of https_server share. */
#ifndef NET_HTTPS_INSIDE_H
#define NET_HTTPS_INSIDE_H

#include "net/https_server.h"
#include "net/tls_inside.h"

#include <microhttpd.h>
#include <stdatomic.h>

/* A connection, from its accept to its end. */
typedef struct https_conn {
    struct https_conn *prev, *next; /* in the server's list; under its lock */
    https_server *server;
    struct MHD_Connection *mhd;
    int fd;
    gnutls_session_t tls;
    uint8_t address[32]; /* IPv4, or the first 64 bits of IPv6 */
    uint64_t since_ms;
    bool known;         /* has shown a good certificate; under the lock, as peer */
    bool surplus;       /* its peer has connections enough: answers are 429; its own thread's */
    bool was_cut;       /* by us, and counted; under the lock */
    bool gone;          /* no longer welcome: nothing of it is served any more; under the lock */
    atomic_bool shook;  /* the handshake is over */
    atomic_bool heard;  /* a request had a whole header */
    uint64_t due_ms;    /* a whole request header must be here by then; 0: one is; under the lock */
    bool judged;        /* these are written by its thread, under the lock */
    unsigned judged_by; /* generation of id and gate */
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

/* Gives the answer to libmicrohttpd; MHD_NO: close. */
enum MHD_Result https_answer_queue(https_inner *in);
/* Writes it past libmicrohttpd, which takes no answer in the middle of a body. */
void https_answer_early(https_inner *in);
void https_answer_clear(https_inner *in);

#endif
