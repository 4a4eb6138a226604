/* fake_mhd: libmicrohttpd and GnuTLS without sockets, for harnesses of the code that they call.
 *
 * A harness defines the macros below, includes the sources under test, and moves connections with
 * fake_connect, fake_ask, fake_piece, fake_sent and fake_close. The fake calls back in the order
 * that libmicrohttpd 0.9.75 promises, and ends the process if its own functions are called against
 * its rules: a second answer, an answer in the middle of a body, a resume without a suspend.
 *
 * Everything runs on one thread, so the server's lock must be free when a callback runs. */
#ifndef TESTS_FUZZ_FAKE_MHD_H
#define TESTS_FUZZ_FAKE_MHD_H

#include "base/span.h"
#include "net/tls_inside.h"
#include "support/must.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FAKE_CONNECTIONS = 8, FAKE_VALUES = 6 };

typedef struct fake_value {
    enum MHD_ValueKind kind;
    const char *name, *value;
} fake_value;

struct MHD_Response {
    unsigned refs;
    int fd;
    bool close; /* Connection: close */
    void *data, *cls;
    uint64_t size;
    MHD_ContentReaderCallback read;
    MHD_ContentReaderFreeCallback free;
};

struct MHD_Connection {
    bool open, suspended, cut, shook; /* cut: the server has shut it down */
    bool asking, bodied, last;        /* in a request; its body has begun; no more of it comes */
    bool callback;                    /* our code runs for it */
    int peer;                         /* index that the harness gives a meaning */
    struct sockaddr_in from;
    void *own, *request, *session; /* contexts of the code under test */
    uint64_t left;                 /* bytes of the body that have not been sent */
    size_t head;
    char method[16], path[64];
    fake_value values[FAKE_VALUES];
    struct MHD_Response *answer;
    unsigned status;
};

struct MHD_Daemon {
    struct MHD_Connection at[FAKE_CONNECTIONS];
    MHD_AcceptPolicyCallback accept;
    MHD_AccessHandlerCallback handler;
    MHD_NotifyConnectionCallback connection;
    MHD_RequestCompletedCallback completed;
    void *accept_cls, *handler_cls, *connection_cls, *completed_cls;
    unsigned limit;
};

static struct MHD_Daemon fake;
static pthread_mutex_t *fake_lock; /* the server's; NULL: there is none */
static uint64_t fake_ms;           /* the time */

static inline uint64_t fake_now_ms(void)
{
    return fake_ms;
}

/* The next byte of the input, or 0 at its end. */
static inline uint8_t fake_take(rd *r)
{
    uint8_t b = 0;
    return rd_u8(r, &b) == SEFL_OK ? b : 0;
}

static inline void fake_unlocked(void)
{
    if (fake_lock) {
        MUST(pthread_mutex_trylock(fake_lock) == 0);
        pthread_mutex_unlock(fake_lock);
    }
}

/* ---- the library's functions ----------------------------------------------------------------- */

/* Options with one argument but for those listed; all are pointers, unsigned or size_t. */
static inline void fake_options(va_list ap)
{
    for (enum MHD_OPTION o; (o = va_arg(ap, enum MHD_OPTION)) != MHD_OPTION_END;) {
        switch (o) {
        case MHD_OPTION_NOTIFY_CONNECTION:
            fake.connection = va_arg(ap, MHD_NotifyConnectionCallback);
            fake.connection_cls = va_arg(ap, void *);
            break;
        case MHD_OPTION_NOTIFY_COMPLETED:
            fake.completed = va_arg(ap, MHD_RequestCompletedCallback);
            fake.completed_cls = va_arg(ap, void *);
            break;
        case MHD_OPTION_EXTERNAL_LOGGER:
        case MHD_OPTION_UNESCAPE_CALLBACK:
            (void)va_arg(ap, void *);
            (void)va_arg(ap, void *);
            break;
        case MHD_OPTION_CONNECTION_MEMORY_LIMIT:
            (void)va_arg(ap, size_t);
            break;
        case MHD_OPTION_HTTPS_CERT_CALLBACK2:
        case MHD_OPTION_HTTPS_PRIORITIES:
            (void)va_arg(ap, void *);
            break;
        case MHD_OPTION_CONNECTION_LIMIT:
            fake.limit = va_arg(ap, unsigned);
            break;
        default:
            (void)va_arg(ap, unsigned);
        }
    }
}

struct MHD_Daemon *MHD_start_daemon(unsigned flags, uint16_t port, MHD_AcceptPolicyCallback apc,
                                    void *apc_cls, MHD_AccessHandlerCallback dh, void *dh_cls, ...)
{
    va_list ap;
    (void)flags, (void)port;
    fake.accept = apc, fake.accept_cls = apc_cls;
    fake.handler = dh, fake.handler_cls = dh_cls;
    va_start(ap, dh_cls);
    fake_options(ap);
    va_end(ap);
    return &fake;
}

MHD_socket MHD_quiesce_daemon(struct MHD_Daemon *d)
{
    MUST(d == &fake);
    return -1;
}

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *c,
                                                        enum MHD_ConnectionInfoType what, ...)
{
    static union MHD_ConnectionInfo own, fd, session, from, head;
    own.socket_context = c->own;
    fd.connect_fd = 1000 + (int)(c - fake.at);
    session.tls_session = c;
    from.client_addr = (struct sockaddr *)(void *)&c->from;
    head.header_size = c->head;
    switch (what) {
    case MHD_CONNECTION_INFO_SOCKET_CONTEXT:
        return &own;
    case MHD_CONNECTION_INFO_CONNECTION_FD:
        return &fd;
    case MHD_CONNECTION_INFO_GNUTLS_SESSION:
        return &session;
    case MHD_CONNECTION_INFO_CLIENT_ADDRESS:
        return &from;
    case MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE:
        return &head;
    default:
        return NULL;
    }
}

const char *MHD_lookup_connection_value(struct MHD_Connection *c, enum MHD_ValueKind kind,
                                        const char *name)
{
    for (int i = 0; i < FAKE_VALUES; i++)
        if (c->values[i].name && c->values[i].kind == kind &&
            strcasecmp(c->values[i].name, name) == 0)
            return c->values[i].value;
    return NULL;
}

int MHD_get_connection_values_n(struct MHD_Connection *c, enum MHD_ValueKind kind,
                                MHD_KeyValueIteratorN look, void *cls)
{
    int n = 0;
    for (int i = 0; i < FAKE_VALUES; i++) {
        const fake_value *v = &c->values[i];
        if (!v->name || v->kind != kind)
            continue;
        n++;
        look(cls, kind, v->name, strlen(v->name), v->value, v->value ? strlen(v->value) : 0);
    }
    return n;
}

void MHD_suspend_connection(struct MHD_Connection *c)
{
    MUST(c->open && c->callback && !c->suspended);
    c->suspended = true;
}

void MHD_resume_connection(struct MHD_Connection *c)
{
    MUST(c->open && c->suspended);
    c->suspended = false;
}

static inline struct MHD_Response *fake_response(uint64_t size)
{
    struct MHD_Response *r = calloc(1, sizeof *r);
    MUST(r);
    *r = (struct MHD_Response){ .refs = 1, .fd = -1, .size = size };
    return r;
}

struct MHD_Response *MHD_create_response_from_buffer(size_t n, void *p,
                                                     enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *r = fake_response(n);
    MUST(n == 0 || mode == MHD_RESPMEM_MUST_COPY);
    r->data = n ? malloc(n) : NULL;
    MUST(n == 0 || r->data);
    if (n)
        memcpy(r->data, p, n);
    r->cls = r->data, r->free = n ? free : NULL;
    return r;
}

struct MHD_Response *MHD_create_response_from_buffer_with_free_callback_cls(
    size_t n, void *p, MHD_ContentReaderFreeCallback done, void *cls)
{
    struct MHD_Response *r = fake_response(n);
    r->data = p, r->free = done, r->cls = cls;
    return r;
}

struct MHD_Response *MHD_create_response_from_callback(uint64_t n, size_t block,
                                                       MHD_ContentReaderCallback read, void *cls,
                                                       MHD_ContentReaderFreeCallback done)
{
    struct MHD_Response *r = fake_response(n);
    MUST(block > 0);
    r->read = read, r->cls = cls, r->free = done;
    return r;
}

struct MHD_Response *MHD_create_response_from_fd64(uint64_t n, int fd)
{
    struct MHD_Response *r = fake_response(n);
    r->fd = fd;
    return r;
}

enum MHD_Result MHD_add_response_header(struct MHD_Response *r, const char *name, const char *value)
{
    MUST(name[0] && !strpbrk(name, "\r\n: ") && !strpbrk(value, "\r\n"));
    r->close = r->close || (strcasecmp(name, "Connection") == 0 && strcmp(value, "close") == 0);
    return MHD_YES;
}

void MHD_destroy_response(struct MHD_Response *r)
{
    MUST(r->refs > 0);
    if (--r->refs > 0)
        return;
    fake_unlocked();
    if (r->free)
        r->free(r->cls);
    if (r->fd >= 0)
        close(r->fd);
    free(r);
}

/* libmicrohttpd takes an answer before the body or after all of it. */
enum MHD_Result MHD_queue_response(struct MHD_Connection *c, unsigned status,
                                   struct MHD_Response *r)
{
    MUST(c->open && c->callback && c->asking && !c->answer && !c->suspended);
    MUST(!c->bodied || c->last);
    MUST(status >= 200 && status < 600);
    r->refs++;
    c->answer = r, c->status = status;
    return MHD_YES;
}

/* ---- what the network does ------------------------------------------------------------------- */

static inline void fake_complete(struct MHD_Connection *c, enum MHD_RequestTerminationCode why)
{
    struct MHD_Response *r = c->answer;
    fake_unlocked();
    if (c->asking && fake.completed)
        fake.completed(fake.completed_cls, c, &c->request, why);
    c->asking = false, c->answer = NULL, c->request = NULL;
    if (r)
        MHD_destroy_response(r);
}

/* A suspended connection is left alone, as libmicrohttpd does. */
static inline void fake_close(struct MHD_Connection *c)
{
    if (!c->open || c->suspended)
        return;
    fake_complete(c, MHD_REQUEST_TERMINATED_CLIENT_ABORT);
    fake.connection(fake.connection_cls, c, &c->own, MHD_CONNECTION_NOTIFY_CLOSED);
    *c = (struct MHD_Connection){ 0 };
}

static inline struct MHD_Connection *fake_connect(uint8_t address, int peer)
{
    struct MHD_Connection *c = fake.at;
    unsigned n = 0;
    for (int i = 0; i < FAKE_CONNECTIONS; i++)
        n += fake.at[i].open;
    while (c < fake.at + FAKE_CONNECTIONS && c->open)
        c++;
    if (c == fake.at + FAKE_CONNECTIONS || n >= fake.limit)
        return NULL;
    c->from.sin_family = AF_INET;
    c->from.sin_addr.s_addr = htonl(0x0a000000u + address);
    if (fake.accept && fake.accept(fake.accept_cls, (struct sockaddr *)(void *)&c->from,
                                   sizeof c->from) != MHD_YES) {
        *c = (struct MHD_Connection){ 0 };
        return NULL;
    }
    c->open = true;
    c->peer = peer;
    fake.connection(fake.connection_cls, c, &c->own, MHD_CONNECTION_NOTIFY_STARTED);
    return c;
}

/* Calls the handler; closes the connection if it says so. */
static inline void fake_call(struct MHD_Connection *c, const char *p, size_t n)
{
    size_t left = n;
    fake_unlocked();
    c->callback = true;
    enum MHD_Result ok =
        fake.handler(fake.handler_cls, c, c->path, c->method, "HTTP/1.1", p, &left, &c->request);
    c->callback = false;
    if (ok != MHD_YES) {
        MUST(!c->suspended);
        fake_close(c);
        return;
    }
    MUST(left == 0);
}

/* After the body, libmicrohttpd calls until there is an answer. */
static inline void fake_go_on(struct MHD_Connection *c)
{
    if (!c->open || !c->asking || c->suspended || c->answer || c->left > 0)
        return;
    c->last = true;
    fake_call(c, NULL, 0);
    MUST(!c->open || c->suspended || c->answer);
}

/* A complete header. The caller has set method, path, values, head and left. */
static inline void fake_ask(struct MHD_Connection *c)
{
    if (!c->open || c->asking || c->cut)
        return;
    c->asking = true;
    c->bodied = c->last = false;
    fake_call(c, NULL, 0);
    if (c->open && !c->suspended)
        fake_go_on(c);
}

/* The next bytes of the body. */
static inline void fake_piece(struct MHD_Connection *c, size_t n)
{
    static const char bytes[256] = { 'x' };
    n = n < sizeof bytes ? n : sizeof bytes;
    n = n < c->left ? n : (size_t)c->left;
    if (!c->open || !c->asking || c->suspended || c->answer || n == 0)
        return;
    c->bodied = true;
    c->left -= n;
    fake_call(c, bytes, n);
    if (c->open)
        fake_go_on(c);
}

/* The peer reads some of the answer; a complete one ends the request, and often the connection. */
static inline void fake_sent(struct MHD_Connection *c, size_t most)
{
    char out[4096];
    if (!c->open || !c->answer || c->suspended)
        return;
    struct MHD_Response *r = c->answer;
    if (r->read && strcmp(c->method, "HEAD") != 0) {
        fake_unlocked();
        c->callback = true;
        ssize_t n = r->read(r->cls, 0, out, most % sizeof out + 1);
        c->callback = false;
        MUST(n <= (ssize_t)(most % sizeof out + 1));
        if (n >= 0 && r->size == MHD_SIZE_UNKNOWN)
            return; /* a stream goes on */
    }
    bool close = r->close || c->left > 0;
    fake_complete(c, MHD_REQUEST_TERMINATED_COMPLETED_OK);
    if (close)
        fake_close(c);
}

/* What libmicrohttpd's thread does next: resumed requests go on, cut connections close. */
static inline void fake_turn(void)
{
    for (int i = 0; i < FAKE_CONNECTIONS; i++) {
        struct MHD_Connection *c = &fake.at[i];
        if (c->open && c->cut)
            fake_close(c);
        if (c->open && !c->answer)
            fake_go_on(c);
    }
}

void MHD_stop_daemon(struct MHD_Daemon *d)
{
    MUST(d == &fake);
    fake_turn();
    for (int i = 0; i < FAKE_CONNECTIONS; i++) {
        MUST(!fake.at[i].suspended);
        fake_close(&fake.at[i]);
    }
}

static inline int fake_shutdown(int fd, int how)
{
    MUST(fd >= 1000 && fd < 1000 + FAKE_CONNECTIONS && fake.at[fd - 1000].open);
    fake.at[fd - 1000].cut = true;
    return how - how;
}

/* ---- GnuTLS ---------------------------------------------------------------------------------- */

static inline struct MHD_Connection *fake_of(gnutls_session_t s)
{
    return (struct MHD_Connection *)(void *)s;
}

static inline gnutls_session_t fake_session(struct MHD_Connection *c)
{
    return (gnutls_session_t)(void *)c;
}

static inline void fake_set_ptr(gnutls_session_t s, void *p)
{
    fake_of(s)->session = p;
}

static inline void *fake_get_ptr(gnutls_session_t s)
{
    return fake_of(s)->session;
}

static int (*fake_hook)(gnutls_session_t, unsigned, unsigned, unsigned, const gnutls_datum_t *);

static inline void fake_set_hook(gnutls_session_t s, unsigned type, int when,
                                 int (*hook)(gnutls_session_t, unsigned, unsigned, unsigned,
                                             const gnutls_datum_t *))
{
    (void)s, (void)type, (void)when;
    fake_hook = hook;
}

#define gnutls_session_set_ptr                             fake_set_ptr
#define gnutls_session_get_ptr                             fake_get_ptr
#define gnutls_handshake_set_hook_function                 fake_set_hook
#define gnutls_certificate_server_set_request(s, what)     ((void)(s))
#define gnutls_certificate_send_x509_rdn_sequence(s, what) ((void)(s))
#define shutdown                                           fake_shutdown

#endif
