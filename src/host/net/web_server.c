/* Design. libmicrohttpd's thread polls, parses and calls on_request; a stream is an answer whose
 * bytes stream_read supplies.
 *  1. A stream without bytes to send is asleep: its connection is suspended. Under the lock, each
 *     stream is asleep or has been resumed since the last event, so no event is lost.
 *  2. The lock guards the streams and the newest event. libmicrohttpd's own lock is taken inside it
 *     (suspend, resume), never the other way.
 *  3. Events are shared: a stream holds the one that it is sending, and the server the newest.
 *  4. libmicrohttpd cuts silent connections only, and at its limit it accepts no more. So the one
 *     that takes the last place cuts the oldest that has not sent its request (visitor). */
#include "net/web_server.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "net/https_form.h"
#include "net/https_inside.h"
#include "net/socket.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CONNECTIONS = 16, IDLE_S = 5, CONNECTION_BYTES = 8 << 10, STREAM_BLOCK = 16 << 10 };
enum { IDS_MAX = 16, FINISH_MS = 500 };

#define BEAT ":\n\n"

typedef struct message {
    unsigned holders; /* under the lock */
    sefl_buf bytes;
} message;

typedef struct stream {
    struct stream *next; /* newest first */
    web_server *server;
    struct MHD_Connection *conn;
    message *now; /* being sent; NULL: none */
    size_t at;    /* bytes of it that are sent */
    uint64_t seen, beat;
    bool asleep, end;
} stream;

/* A connection. libmicrohttpd's thread alone uses it. */
typedef struct visitor {
    struct visitor *next; /* oldest first */
    int fd;
    bool asked, cut; /* asked: its request has arrived */
} visitor;

struct web_server {
    web_server_config c;
    visitor *visitors;
    unsigned connections_n;
    struct MHD_Daemon *daemon;
    uint16_t port;
    pthread_mutex_t lock;
    stream *streams;
    unsigned streams_n;
    message *newest;
    uint64_t version, beat;
    bool stopping, finishing; /* finishing: a stream ends after the newest event */
    tls_id *ids[IDS_MAX];     /* a handshake may still use an old one */
    unsigned ids_n;
};

const char *web_query(const web_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->inner, MHD_GET_ARGUMENT_KIND, name);
}

const char *web_header(const web_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->inner, MHD_HEADER_KIND, name);
}

const char *web_cookie(const web_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->inner, MHD_COOKIE_KIND, name);
}

bool web_host_fits(const char *host, uint16_t port)
{
    char end[8];
    const size_t all = host ? strlen(host) : 0;
    const size_t k = (size_t)snprintf(end, sizeof end, ":%u", port);
    if (!host || all <= k || strcmp(host + all - k, end) != 0)
        return false;
    const size_t n = all - k;
    /* any other 127.x.y.z that the operator chose is this machine too, and no DNS name */
    return (n == 9 && memcmp(host, "localhost", n) == 0) ||
           (n == 5 && memcmp(host, "[::1]", n) == 0) ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == n);
}

/* ---- streams --------------------------------------------------------------------------------- */

static sefl_status message_new(message **out, sefl_span bytes)
{
    SEFL_MAKE(message, m, out);
    SEFL_TRY(wr_raw(&m->bytes, bytes.p, bytes.n));
    m->holders = 1;
    *out = m, m = NULL;
done:
    sefl_free(m);
    return st;
}

/* Under the lock. NULL is allowed. */
static void message_drop(message *m)
{
    if (!m || --m->holders > 0)
        return;
    buf_clear(&m->bytes);
    sefl_free(m);
}

/* Under the lock. */
static void wake(stream *t)
{
    if (!t->asleep)
        return;
    t->asleep = false;
    MHD_resume_connection(t->conn);
}

/* Takes the newest event, if this stream has not had it. Under the lock. */
static void take_newest(stream *t)
{
    web_server *s = t->server;
    if (t->now || t->seen == s->version || !s->newest)
        return;
    t->now = s->newest;
    t->now->holders++;
    t->at = 0;
    t->seen = s->version;
    t->beat = s->beat;
}

static ssize_t stream_read(void *cls, uint64_t pos, char *out, size_t most)
{
    stream *t = cls;
    web_server *s = t->server;
    ssize_t n = 0;
    (void)pos;
    pthread_mutex_lock(&s->lock);
    take_newest(t);
    if (s->stopping || t->end || (s->finishing && !t->now)) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (t->now) {
        const size_t left = t->now->bytes.n - t->at;
        const size_t put = left < most ? left : most;
        memcpy(out, t->now->bytes.p + t->at, put);
        t->at += put;
        n = (ssize_t)put;
        if (t->at == t->now->bytes.n)
            message_drop(t->now), t->now = NULL;
    } else if (t->beat != s->beat && most >= sizeof BEAT - 1) {
        t->beat = s->beat;
        memcpy(out, BEAT, sizeof BEAT - 1);
        n = sizeof BEAT - 1;
    } else {
        t->asleep = true;
        MHD_suspend_connection(t->conn);
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* libmicrohttpd is done with the answer. */
static void stream_free(void *cls)
{
    stream *t = cls, **at = &t->server->streams;
    web_server *s = t->server;
    pthread_mutex_lock(&s->lock);
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    s->streams_n--;
    message_drop(t->now);
    pthread_mutex_unlock(&s->lock);
    sefl_free(t);
}

/* Under the lock. */
static void end_stream(stream *t)
{
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(t->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    t->end = true;
    if (fd && !t->asleep) /* it may wait for a peer that does not read */
        shutdown(fd->connect_fd, SHUT_RDWR);
    wake(t);
}

/* Ends the oldest stream that has not been told to end. Under the lock. */
static void end_oldest(web_server *s)
{
    stream *oldest = NULL;
    for (stream *t = s->streams; t; t = t->next)
        if (!t->end)
            oldest = t;
    if (oldest)
        end_stream(oldest);
}

static struct MHD_Response *stream_answer(web_server *s, struct MHD_Connection *conn,
                                          const web_answer *a)
{
    stream *t = NULL;
    message *first = NULL;
    if (s->c.streams == 0 || sefl_new(&t, 1, sizeof *t) != SEFL_OK ||
        message_new(&first, buf_span(&a->body)) != SEFL_OK) {
        sefl_free(t);
        return NULL;
    }
    t->server = s, t->conn = conn, t->now = first;
    pthread_mutex_lock(&s->lock);
    if (s->streams_n >= s->c.streams)
        end_oldest(s);
    t->seen = s->version, t->beat = s->beat;
    t->next = s->streams;
    s->streams = t;
    s->streams_n++;
    pthread_mutex_unlock(&s->lock);
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK,
                                                               stream_read, t, stream_free);
    if (!r)
        stream_free(t);
    return r;
}

static void wake_all(web_server *s)
{
    for (stream *t = s->streams; t; t = t->next)
        wake(t);
}

void web_server_publish(web_server *s, sefl_span event)
{
    message *m = NULL;
    if (message_new(&m, event) != SEFL_OK)
        return;
    pthread_mutex_lock(&s->lock);
    message_drop(s->newest);
    s->newest = m;
    s->version++;
    wake_all(s);
    pthread_mutex_unlock(&s->lock);
}

void web_server_beat(web_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->beat++;
    wake_all(s);
    pthread_mutex_unlock(&s->lock);
}

void web_server_end_streams(web_server *s)
{
    pthread_mutex_lock(&s->lock);
    for (stream *t = s->streams; t; t = t->next)
        if (!t->end)
            end_stream(t);
    pthread_mutex_unlock(&s->lock);
}

void web_server_finish(web_server *s, sefl_span event)
{
    pthread_mutex_lock(&s->lock);
    s->finishing = true;
    pthread_mutex_unlock(&s->lock);
    web_server_publish(s, event);
    for (int i = 0; i < FINISH_MS / 10 && web_server_streams(s) > 0; i++)
        clock_pause_ms(10);
}

unsigned web_server_streams(web_server *s)
{
    pthread_mutex_lock(&s->lock);
    unsigned n = s->streams_n;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void add_headers(struct MHD_Response *r, sefl_span lines)
{
    char line[512];
    size_t n;
    for (size_t at = 0; at < lines.n; at += n + 1) {
        const char *p = (const char *)lines.p + at, *stop = memchr(p, '\n', lines.n - at);
        if (!stop)
            break;
        n = (size_t)(stop - p);
        snprintf(line, sizeof line, "%.*s", (int)n, p);
        char *colon = strchr(line, ':');
        if (colon && colon[1] == ' ') {
            *colon = 0;
            MHD_add_response_header(r, line, colon + 2);
        }
    }
}

static struct MHD_Response *make_response(web_server *s, struct MHD_Connection *conn,
                                          const web_request *r, web_answer *a)
{
    if (a->stream && strcmp(r->method, "GET") == 0)
        return stream_answer(s, conn, a);
    if (a->fd >= 0) {
        struct MHD_Response *file = MHD_create_response_from_fd64(a->fd_bytes, a->fd);
        if (file)
            a->fd = -1; /* the response's now */
        return file;
    }
    /* libmicrohttpd only copies it */
    return MHD_create_response_from_buffer(a->body.n, (void *)(uintptr_t)a->body.p,
                                           MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result send_answer(web_server *s, struct MHD_Connection *conn, const web_request *r,
                                   web_answer *a)
{
    struct MHD_Response *made = make_response(s, conn, r, a);
    enum MHD_Result rc = MHD_NO;
    if (made) {
        MHD_add_response_header(made, "Content-Type", a->type);
        MHD_add_response_header(made, "Cache-Control", "no-store");
        MHD_add_response_header(made, "Connection", "close");
        add_headers(made, s->c.headers ? span_of_str(s->c.headers) : (sefl_span){ 0 });
        add_headers(made, buf_span(&a->headers));
        rc = MHD_queue_response(conn, a->status, made);
        MHD_destroy_response(made);
    }
    if (a->fd >= 0)
        close(a->fd);
    buf_clear(&a->headers);
    buf_clear(&a->body);
    return rc;
}

static void look_at_peer(web_request *r, struct MHD_Connection *conn)
{
    const union MHD_ConnectionInfo *session =
        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    r->peer.code = X509_NONE;
    if (session && session->tls_session)
        x509_check_session(&r->peer, session->tls_session, NULL, &(x509_want){ .pin_only = true });
}

static void visitor_free(web_server *s, visitor *v)
{
    visitor **at = &s->visitors;
    if (!v)
        return;
    while (*at != v)
        at = &(*at)->next;
    *at = v->next;
    sefl_free(v);
}

static void visitor_new(web_server *s, struct MHD_Connection *conn, void **ctx)
{
    visitor *v = NULL, **at = &s->visitors;
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (s->connections_n >= s->c.connections)
        for (visitor *old = s->visitors; old; old = old->next)
            if (!old->asked && !old->cut) {
                old->cut = true;
                shutdown(old->fd, SHUT_RDWR);
                break;
            }
    if (!fd || sefl_new(&v, 1, sizeof *v) != SEFL_OK)
        return; /* it cannot be cut */
    v->fd = fd->connect_fd;
    while (*at)
        at = &(*at)->next;
    *ctx = *at = v;
}

/* Answers in the first call: libmicrohttpd then closes the connection and reads no body. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *conn, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_n, void **ctx)
{
    web_server *s = cls;
    web_request r = { .method = method, .path = path, .port = s->port, .inner = conn };
    web_answer a = { .status = 200, .type = "text/plain; charset=utf-8", .fd = -1 };
    const union MHD_ConnectionInfo *own =
        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    const char *malformed = https_form_why(conn);
    (void)version, (void)data, (void)data_n, (void)ctx;
    if (own && own->socket_context)
        ((visitor *)own->socket_context)->asked = true;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        a.status = MHD_HTTP_METHOD_NOT_ALLOWED;
        if (wr_fmt(&a.headers, "Allow: GET, HEAD\n") != SEFL_OK ||
            wr_fmt(&a.body, "GET and HEAD only\n") != SEFL_OK)
            return MHD_NO;
    } else if (malformed) {
        a.status = MHD_HTTP_BAD_REQUEST;
        if (wr_fmt(&a.body, "%s\n", malformed) != SEFL_OK)
            return MHD_NO;
    } else {
        if (s->c.id)
            look_at_peer(&r, conn);
        s->c.handle(s->c.ctx, &r, &a);
    }
    return send_answer(s, conn, &r, &a);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

static int own_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                           gnutls_pcert_st **certs, unsigned *certs_n, gnutls_ocsp_data_st **ocsp,
                           unsigned *ocsp_n, gnutls_privkey_t *key, unsigned *flags)
{
    web_server *s = gnutls_session_get_ptr(session);
    (void)info;
    pthread_mutex_lock(&s->lock);
    const tls_id *id = s->ids[s->ids_n - 1];
    pthread_mutex_unlock(&s->lock);
    union {
        const gnutls_pcert_st *ours;
        gnutls_pcert_st *theirs; /* GnuTLS only reads it */
    } chain = { .ours = id->chain };
    *certs = chain.theirs;
    *certs_n = id->chain_n;
    *key = id->key;
    *ocsp = NULL, *ocsp_n = 0, *flags = 0;
    return 0;
}

static int on_handshake(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                        const gnutls_datum_t *msg)
{
    x509_peer p;
    (void)msg, (void)type, (void)when;
    return !incoming || x509_shown_affordable(&p, session) ? 0 : GNUTLS_E_CERTIFICATE_ERROR;
}

static void on_connection(void *cls, struct MHD_Connection *conn, void **ctx,
                          enum MHD_ConnectionNotificationCode what)
{
    web_server *s = cls;
    const union MHD_ConnectionInfo *session =
        s->c.id ? MHD_get_connection_info(conn, MHD_CONNECTION_INFO_GNUTLS_SESSION) : NULL;
    if (what != MHD_CONNECTION_NOTIFY_STARTED) {
        s->connections_n--;
        visitor_free(s, *ctx);
        return;
    }
    s->connections_n++;
    visitor_new(s, conn, ctx);
    if (!session || !session->tls_session)
        return;
    gnutls_session_set_ptr(session->tls_session, cls);
    gnutls_handshake_set_hook_function(session->tls_session, GNUTLS_HANDSHAKE_CERTIFICATE_VERIFY,
                                       GNUTLS_HOOK_PRE, on_handshake);
    gnutls_certificate_server_set_request(session->tls_session, GNUTLS_CERT_REQUEST);
    gnutls_certificate_send_x509_rdn_sequence(session->tls_session, 1);
}

void web_server_set_id(web_server *s, const tls_id *id)
{
    pthread_mutex_lock(&s->lock);
    if (s->ids_n == IDS_MAX) { /* drops the oldest: its handshakes are long over */
        tls_id_free(s->ids[0]);
        memmove(s->ids, s->ids + 1, --s->ids_n * sizeof(void *));
    }
    s->ids[s->ids_n++] = tls_id_hold(id);
    pthread_mutex_unlock(&s->lock);
}

/* ---- start and stop -------------------------------------------------------------------------- */

sefl_status web_server_check_loopback(const char *address)
{
    SEFL_NEED(socket_is_loopback(address), SEFL_EINVAL,
              "\"%.64s\" is not a loopback address: these pages need no certificate, so only this "
              "machine may read them; use 127.0.0.1:PORT or [::1]:PORT",
              address);
    return SEFL_OK;
}

/* The options of both kinds of server. */
#define OPTIONS(s, fd)                                                                     \
    MHD_OPTION_EXTERNAL_LOGGER, https_mhd_log, (s)->c.log, MHD_OPTION_LISTEN_SOCKET, (fd), \
        MHD_OPTION_CONNECTION_LIMIT, (s)->c.connections, MHD_OPTION_CONNECTION_TIMEOUT,    \
        (s)->c.idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,       \
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION, on_connection, (s), \
        MHD_OPTION_UNESCAPE_CALLBACK, https_form_unescape, NULL

static struct MHD_Daemon *start_daemon(web_server *s, int fd)
{
    const unsigned flags =
        MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME;
    if (!s->c.id)
        return MHD_start_daemon(flags, 0, NULL, NULL, on_request, s, OPTIONS(s, fd),
                                MHD_OPTION_END);
    return MHD_start_daemon(flags | MHD_USE_TLS, 0, NULL, NULL, on_request, s, OPTIONS(s, fd),
                            MHD_OPTION_HTTPS_CERT_CALLBACK2, own_certificate,
                            MHD_OPTION_HTTPS_PRIORITIES, TLS_PRIORITY, MHD_OPTION_END);
}

sefl_status web_server_start(web_server **out, const web_server_config *c)
{
    int fd = -1;
    SEFL_MAKE(web_server, s, out);
    pthread_mutex_init(&s->lock, NULL);
    if (!c->id)
        SEFL_TRY(web_server_check_loopback(c->address));
    s->c = *c;
    s->c.connections = c->connections ? c->connections : CONNECTIONS;
    s->c.idle_s = c->idle_s ? c->idle_s : IDLE_S;
    if (c->id)
        web_server_set_id(s, c->id);
    SEFL_TRY(socket_listen(&fd, c->address, c->port, &s->port));
    s->daemon = start_daemon(s, fd);
    SEFL_CHECK(s->daemon, SEFL_EIO, "the web server cannot start on %s port %u", c->address,
               s->port);
    fd = -1; /* the daemon's now */
    *out = s, s = NULL;
done:
    if (fd >= 0)
        close(fd);
    web_server_stop(s);
    return st;
}

uint16_t web_server_port(const web_server *s)
{
    return s->port;
}

void web_server_stop(web_server *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    wake_all(s);
    pthread_mutex_unlock(&s->lock);
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    message_drop(s->newest);
    for (unsigned i = 0; i < s->ids_n; i++)
        tls_id_free(s->ids[i]);
    pthread_mutex_destroy(&s->lock);
    sefl_free(s);
}
