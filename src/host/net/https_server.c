/* Design. libmicrohttpd polls, speaks TLS and parses; this module verifies peers, calls the
 * handlers in their order (https_server.h), parks requests, and enforces time limits.
 *  1. Connections are in a list from accept to close. A watcher thread wakes parked requests when
 *     their time comes, and shuts down connections that are late with a request header. Other than
 *     that, only https_wake and https_server_set_allowlist touch another thread's connection.
 *  2. The lock guards the two lists, the id and the counters. It is never held while a handler
 *     runs. libmicrohttpd's own lock is taken inside it (suspend, resume), never the other way.
 *  3. No wake is lost: `wakes` is read before a handler runs, and a request that then wants to park
 *     is resumed at once if the number has changed meanwhile.
 *  4. libmicrohttpd accepts an answer only before the body or after it. If a body fails in the
 *     middle, the owning thread writes the answer directly to the TLS session and discards further
 *     bytes until the peer has read the answer and closes, within DISCARD_BYTES and DISCARD_MS;
 *     then the watcher cuts the connection even if it still sends.
 *  5. poll, not epoll: with epoll this version of libmicrohttpd keeps treating a socket as readable
 *     while a handshake waits, and spins. Parked requests are not polled: the watcher checks every
 *     second whether their peers have disconnected. */
#define _GNU_SOURCE
#include "net/https_server.h"

#include "base/alloc.h"
#include "base/cond.h"
#include "net/buckets.h"
#include "net/https_form.h"
#include "net/https_inside.h"
#include "net/https_text.h"
#include "net/socket.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECTION_BYTES = 96 << 10, /* headers, and one TLS record of body, with room to spare */
    DISCARD_BYTES = 4 << 20,
    DISCARD_MS = 10000, /* or idle_s, if that is less */
    STOP_MS = 3000,
    LINES_PER_S = 10,
};

const char *https_event_name(https_event e)
{
    static const char *const event_names[] = { HTTPS_EVENTS(SEFL_TEXT) };
    return (unsigned)e < HTTPS_EVENTS_N ? event_names[e] : "?";
}

uint64_t https_server_count(const https_server *s, https_event e)
{
    return atomic_load(&s->counts[e]);
}

uint64_t https_server_sent(const https_server *s)
{
    return atomic_load(&s->sent);
}

/* ---- parking ----------------------------------------------------------------------------- */

void https_unpark(https_server *s, https_inner *in) /* under the lock */
{
    https_inner **at = &s->parked;
    while (*at != in)
        at = &(*at)->park_next;
    *at = in->park_next;
    in->park_next = NULL;
    MHD_resume_connection(in->conn->mhd);
}

/* True if the request is parked. False: something happened since the handler was called. */
static bool park_now(https_server *s, https_inner *in)
{
    bool sleeps = false;
    pthread_mutex_lock(&s->lock);
    in->park_wanted = false;
    if (!s->stopping && !in->conn->gone && s->wakes == in->wakes_seen &&
        in->park_until > socket_now_ms()) {
        MHD_suspend_connection(in->conn->mhd);
        sleeps = true;
        in->park_next = s->parked;
        s->parked = in;
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return sleeps;
}

void https_park(https_request *r, uint64_t until_ms)
{
    https_inner *in = r->inner;
    in->park_wanted = true;
    in->park_until = until_ms;
}

void https_wake(https_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->wakes++;
    while (s->parked)
        https_unpark(s, s->parked);
    pthread_mutex_unlock(&s->lock);
}

/* Cuts a connection that has missed its deadline; an idle one is not counted. Under the lock. */
static void cut_late(https_server *s, https_conn *conn)
{
    if (conn->discards || !conn->heard) { /* closing an idle one is not a refusal */
        conn->was_cut = true;
        https_count(s, conn->discards ? HTTPS_EVENT_BODY_SLOW
                       : conn->shook  ? HTTPS_EVENT_HEADER_SLOW
                                      : HTTPS_EVENT_HANDSHAKE_SLOW);
    }
    shutdown(conn->fd, SHUT_RDWR); /* its thread notices and closes */
    conn->due_ms = 0;
}

/* Resumes parked requests whose peers have disconnected: libmicrohttpd does not poll them. Under
 * the lock. */
static void drop_dead(https_server *s)
{
    for (https_inner *in = s->parked, *after; in; in = after) {
        struct pollfd p = { .fd = in->conn->fd, .events = POLLRDHUP };
        after = in->park_next;
        if (poll(&p, 1, 0) > 0) {
            in->conn->gone = true;
            https_unpark(s, in);
        }
    }
}

static void *watch(void *arg)
{
    https_server *s = arg;
    uint64_t tick_ms = 0, looked_ms = 0;
    pthread_mutex_lock(&s->lock);
    while (!s->over) {
        uint64_t now = socket_now_ms(), next = now + 1000;
        for (https_inner *in = s->parked, *after; in; in = after) {
            after = in->park_next;
            if (in->park_until <= now)
                https_unpark(s, in);
            else if (in->park_until < next)
                next = in->park_until;
        }
        if (now >= looked_ms + 1000) {
            looked_ms = now;
            drop_dead(s);
        }
        for (https_conn *conn = s->conns; conn; conn = conn->next)
            if (conn->due_ms != 0 && conn->due_ms <= now)
                cut_late(s, conn);
        cond_wait_ms(&s->changed, &s->lock, next - now);
        if (!s->over && socket_now_ms() >= tick_ms) {
            pthread_mutex_unlock(&s->lock);
            https_say_unsaid(s);
            if (s->c.tick)
                s->c.tick(s->c.ctx);
            tick_ms = socket_now_ms() + 1000;
            pthread_mutex_lock(&s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- requests ---------------------------------------------------------------------------- */

/* Counts, logs and answers. */
static void SEFL_PRINTF(4, 5)
    refuse(https_inner *in, https_event e, unsigned status, const char *fmt, ...)
{
    https_server *s = in->conn->server;
    char line[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    https_count(s, e);
    https_say_refused(s, &in->r.peer, "request refused", https_event_name(e), line);
    https_answer_line(&in->r, status, status == 429 ? "Retry-After: 2\n" : NULL, line);
}

static sefl_span field(const https_request *r, const char *name)
{
    const char *value = https_header(r, name);
    return value ? span_of_str(value) : (sefl_span){ 0 };
}

/* Checks the peer, whatever it requests. True if the request may proceed. */
static bool admit_peer(https_server *s, https_inner *in, bool open)
{
    https_request *r = &in->r;
    https_judge(in->conn);
    r->peer = in->conn->peer;
    if (r->peer.code == X509_NONE && !open)
        https_tell_refused(s, &r->peer);
    if (r->peer.code != X509_OK && (r->peer.code != X509_NONE || !open))
        https_answer_text(r, 403, "certificate not accepted");
    else if (in->conn->surplus)
        refuse(in, HTTPS_EVENT_PEER_FULL, 429, "this client already has %u connections",
               s->c.limits.per_peer);
    else if (in->conn->crowded)
        refuse(in, HTTPS_EVENT_ISSUER_FULL, 429, "clients of your CA already have %u connections",
               s->c.limits.per_issuer);
    else if (s->peer_rate && r->peer.code == X509_OK &&
             !buckets_take(s->peer_rate, r->peer.fingerprint, 1, in->began_ms))
        refuse(in, HTTPS_EVENT_PEER_RATE, 429, "at most %u requests per second",
               s->c.limits.request_rate);
    return in->status == 0;
}

/* All checks before begin. True if the request may proceed. */
static bool admit(https_server *s, https_inner *in)
{
    https_request *r = &in->r;
    https_refusal no;
    bool open = https_is_open(r->method, r->path, s->c.open_path);
    const union MHD_ConnectionInfo *head =
        MHD_get_connection_info(in->conn->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (!admit_peer(s, in, open))
        return false;
    if (!https_said_check(&no, &r->body_bytes,
                          &(https_said){ .bytes = head ? head->header_size : SIZE_MAX,
                                         .path = span_of_str(r->path),
                                         .coding = field(r, "Transfer-Encoding"),
                                         .length = field(r, "Content-Length"),
                                         .form = https_form_why(in->conn->mhd) },
                          open ? s->c.open_max : s->c.body_max))
        refuse(in, no.event, no.status, "%s", no.why);
    else if (s->peer_bytes && r->body_bytes > 0 && r->peer.code == X509_OK &&
             !buckets_take(s->peer_bytes, r->peer.fingerprint, (double)r->body_bytes, in->began_ms))
        refuse(in, HTTPS_EVENT_PEER_BYTES, 429, "too many bytes in too short a time");
    return in->status == 0;
}

bool https_may_log(const https_request *r)
{
    const https_inner *in = r->inner;
    return https_may_talk(in->conn->server, &r->peer);
}

void https_log_refused(const https_request *r, const char *event, const char *reason,
                       const char *why)
{
    const https_inner *in = r->inner;
    https_say_refused(in->conn->server, &r->peer, event, reason, why);
}

bool https_take_bytes(https_request *r, uint64_t n)
{
    https_inner *in = r->inner;
    https_server *s = in->conn->server;
    double cost = (double)(n < s->c.body_max ? n : s->c.body_max);
    if (!s->peer_bytes || n == 0 ||
        buckets_take(s->peer_bytes, r->peer.fingerprint, cost, in->began_ms))
        return true;
    refuse(in, HTTPS_EVENT_PEER_BYTES, 429, "too many bytes in too short a time");
    return false;
}

static void note_wakes(https_server *s, https_inner *in)
{
    pthread_mutex_lock(&s->lock);
    in->wakes_seen = s->wakes;
    pthread_mutex_unlock(&s->lock);
}

static bool is_gone(https_server *s, const https_conn *conn)
{
    pthread_mutex_lock(&s->lock);
    bool gone = conn->gone;
    pthread_mutex_unlock(&s->lock);
    return gone;
}

/* After a handler has returned: answered, parked, or neither. */
static enum MHD_Result settle(https_server *s, https_inner *in)
{
    while (in->status == 0 && in->park_wanted) {
        if (park_now(s, in))
            return MHD_YES;
        if (is_gone(s, in->conn))
            return MHD_NO;
        if (s->stopping || !in->r.resume) {
            https_answer_text(&in->r, 503, "the server is stopping");
            break;
        }
        note_wakes(s, in);
        in->r.resume(&in->r);
    }
    if (in->status == 0) {
        log_error(s->c.log, "request received no answer", lf_str("path", in->r.path));
        https_answer_text(&in->r, 500, "the server produced no answer");
    }
    return https_answer_queue(in);
}

static enum MHD_Result first_call(https_server *s, struct MHD_Connection *mhd, const char *path,
                                  const char *method, void **ctx)
{
    https_inner *in;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    https_conn *conn = info ? info->socket_context : NULL;
    if (!conn || sefl_new(&in, 1, sizeof *in) != SEFL_OK)
        return MHD_NO;
    *ctx = in;
    in->conn = conn;
    in->fd = -1;
    in->began_ms = socket_now_ms();
    conn->heard = conn->busy = true;
    https_count(s, HTTPS_EVENT_REQUESTS);
    in->r = (https_request){
        .method = method, .path = path, .origin = conn->address, .server_ctx = s->c.ctx, .inner = in
    };
    pthread_mutex_lock(&s->lock);
    s->requests++;
    conn->due_ms = 0;
    in->wakes_seen = s->wakes;
    pthread_mutex_unlock(&s->lock);
    if (admit(s, in)) {
        if (in->r.body_bytes == 0)
            return MHD_YES; /* begin runs in the next call: an answer now closes the connection */
        s->c.begin(&in->r);
    }
    if (in->status == 0 && !in->park_wanted && in->r.body && in->r.end) {
        in->phase = HTTPS_BODY;
        return MHD_YES;
    }
    in->phase = HTTPS_END;
    return settle(s, in);
}

static void end_body(https_inner *in, sefl_status st)
{
    if (in->ended || !in->r.end)
        return;
    in->ended = true;
    in->r.end(&in->r, st);
}

static enum MHD_Result body_failed(https_server *s, https_inner *in, sefl_status st)
{
    https_conn *conn = in->conn;
    uint64_t idle_ms = 1000ull * s->c.limits.idle_s;
    end_body(in, st);
    if (in->status == 0)
        https_answer_text(&in->r, 500, "the server produced no answer");
    https_answer_early(in);
    in->phase = HTTPS_DISCARD;
    pthread_mutex_lock(&s->lock);
    conn->discards = true;
    conn->due_ms = conn->late_ms = socket_now_ms() + (idle_ms < DISCARD_MS ? idle_ms : DISCARD_MS);
    pthread_mutex_unlock(&s->lock);
    return MHD_YES;
}

static enum MHD_Result body_call(https_server *s, https_inner *in, const char *p, size_t n)
{
    if (in->phase != HTTPS_BODY) { /* already answered */
        in->discarded += n;
        return in->discarded > DISCARD_BYTES ? MHD_NO : MHD_YES;
    }
    uint64_t ms = socket_now_ms() - in->began_ms;
    in->got += n;
    if (ms > 1000ull * s->c.limits.idle_s && in->got < ms / 1000 * s->c.limits.rate_min) {
        https_count(s, HTTPS_EVENT_BODY_SLOW);
        in->slow = true;
        char why[80];
        snprintf(why, sizeof why, "%llu bytes in %llu ms", (unsigned long long)in->got,
                 (unsigned long long)ms);
        https_say_refused(s, &in->r.peer, "slow sender cut",
                          https_event_name(HTTPS_EVENT_BODY_SLOW), why);
        return MHD_NO; /* on_completed calls the handler */
    }
    sefl_status st = in->r.body(&in->r, span_of(p, n));
    return st == SEFL_OK ? MHD_YES : body_failed(s, in, st);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_n, void **ctx)
{
    https_server *s = cls;
    https_inner *in = *ctx;
    (void)version;
    if (!in)
        return first_call(s, mhd, path, method, ctx);
    if (is_gone(s, in->conn))
        return MHD_NO; /* on_completed calls the handler */
    if (*data_n > 0) {
        size_t n = *data_n;
        *data_n = 0;
        return body_call(s, in, data, n);
    }
    if (in->phase == HTTPS_DISCARD)
        return MHD_NO;
    if (in->status != 0)
        return MHD_YES; /* queued already */
    note_wakes(s, in);
    if (in->phase == HTTPS_BEGIN) { /* no body */
        in->phase = HTTPS_END;
        s->c.begin(&in->r);
        if (in->status == 0 && !in->park_wanted && in->r.end)
            end_body(in, SEFL_OK); /* an empty one */
    } else if (in->phase == HTTPS_BODY) {
        in->phase = HTTPS_END;
        end_body(in, SEFL_OK);
    } else if (in->r.resume) { /* parked until now */
        in->r.resume(&in->r);
    }
    return settle(s, in);
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **ctx,
                         enum MHD_RequestTerminationCode why)
{
    https_server *s = cls;
    https_inner *in = *ctx;
    (void)mhd;
    *ctx = NULL;
    if (!in)
        return;
    if (in->phase == HTTPS_BODY) {
        sefl_note("the peer disconnected after %llu of %llu bytes", (unsigned long long)in->got,
                  (unsigned long long)in->r.body_bytes);
        if (!in->slow)
            https_count(s, HTTPS_EVENT_BODY_CUT);
        end_body(in, SEFL_ECLOSED);
    }
    if (in->r.drop)
        in->r.drop(&in->r);
    https_answer_clear(in);
    in->conn->busy = why != MHD_REQUEST_TERMINATED_COMPLETED_OK; /* true: the connection ends */
    in->conn->idle_in = in->conn->idle_out = 0;
    uint64_t now = socket_now_ms();
    pthread_mutex_lock(&s->lock);
    /* libmicrohttpd's timeout may come before the watcher's */
    if (in->conn->discards && !in->conn->was_cut && now >= in->conn->late_ms)
        https_count(s, HTTPS_EVENT_BODY_SLOW);
    in->conn->discards = false;
    in->conn->due_ms = in->conn->late_ms = now + 1000ull * s->c.limits.idle_s;
    s->requests--;
    if (s->requests == 0)
        pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    sefl_free(in);
}

const char *https_query(const https_request *r, const char *name)
{
    const https_inner *in = r->inner;
    return MHD_lookup_connection_value(in->conn->mhd, MHD_GET_ARGUMENT_KIND, name);
}

const char *https_header(const https_request *r, const char *name)
{
    const https_inner *in = r->inner;
    return MHD_lookup_connection_value(in->conn->mhd, MHD_HEADER_KIND, name);
}

/* ---- the server -------------------------------------------------------------------------- */

void https_mhd_log(void *log, const char *fmt, va_list ap)
{
    char line[256];
    vsnprintf(line, sizeof line, fmt, ap);
    line[strcspn(line, "\n")] = 0;
    log_debug(log, "libmicrohttpd", lf_str("says", line));
}

static sefl_status start_daemon(https_server *s)
{
    const https_server_config *c = &s->c;
    s->daemon = MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_TLS | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
        0, https_on_accept, s, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, https_mhd_log, s->c.log,
        MHD_OPTION_LISTEN_SOCKET, s->listener, MHD_OPTION_HTTPS_CERT_CALLBACK2,
        https_own_certificate, MHD_OPTION_HTTPS_PRIORITIES, TLS_PRIORITY,
        MHD_OPTION_NOTIFY_CONNECTION, https_on_connection, s, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
        MHD_OPTION_CONNECTION_LIMIT,
        (c->limits.connections + 8) *
            c->threads, /* on_accept counts; this is shared by the threads */
        MHD_OPTION_CONNECTION_TIMEOUT, c->limits.idle_s, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_UNESCAPE_CALLBACK, https_form_unescape, NULL,
        c->threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, c->threads, MHD_OPTION_END);
    SEFL_NEED(s->daemon, SEFL_EIO, "https: the server cannot start on port %u", s->port);
    s->listener = -1; /* the daemon's now */
    return SEFL_OK;
}

static unsigned or_default(unsigned v, unsigned otherwise)
{
    return v ? v : otherwise;
}

/* burst 0: no limit. */
static sefl_status make_bucket(buckets **out, double burst, double per_s)
{
    return burst > 0 ? buckets_new(out, &(buckets_rule){ .burst = burst, .per_s = per_s })
                     : SEFL_OK;
}

static sefl_status make_buckets(https_server *s)
{
    const https_server_config *c = &s->c;
    SEFL_PASS(make_bucket(&s->lines, LINES_PER_S, LINES_PER_S));
    SEFL_PASS(
        make_bucket(&s->address_rate, 10.0 * c->limits.connection_rate, c->limits.connection_rate));
    SEFL_PASS(make_bucket(&s->peer_rate, 5.0 * c->limits.request_rate, c->limits.request_rate));
    return make_bucket(&s->peer_bytes, c->bytes_burst, c->bytes_rate);
}

sefl_status https_server_start(https_server **out, const https_server_config *c)
{
    SEFL_MAKE(https_server, s, out);
    pthread_mutex_init(&s->lock, NULL);
    cond_init(&s->changed);
    s->c = *c;
    s->listener = c->listener ? *c->listener : -1; /* closed here, whatever happens */
    s->c.threads = or_default(c->threads, 2);
    s->c.limits.connections = or_default(c->limits.connections, 512);
    s->c.limits.per_address = or_default(c->limits.per_address, 64);
    s->c.limits.idle_s = or_default(c->limits.idle_s, 60);
    s->c.limits.rate_min = or_default(c->limits.rate_min, 1024);
    SEFL_CHECK(c->id && c->begin && c->peer_role, SEFL_EINVAL,
               "https: a server needs an identity, a peer role and a handler");
    SEFL_TRY(make_buckets(s));
    s->ids[s->ids_n++] = tls_id_hold(c->id);
    s->allowlist = allowlist_hold(c->allowlist);
    if (c->listener)
        s->port = c->port;
    else
        SEFL_TRY(
            socket_listen(&s->listener, c->address ? c->address : "127.0.0.1", c->port, &s->port));
    SEFL_TRY(start_daemon(s));
    s->watching = pthread_create(&s->watcher, NULL, watch, s) == 0;
    SEFL_CHECK(s->watching, SEFL_EIO, "https: no thread");
    SEFL_HAND_OVER(out, s, https_server_stop);
}

uint16_t https_server_port(const https_server *s)
{
    return s->port;
}

void https_server_set_id(https_server *s, const tls_id *id)
{
    pthread_mutex_lock(&s->lock);
    if (s->ids_n == HTTPS_IDS_MAX) { /* drop the oldest: its handshakes are long over */
        tls_id_free(s->ids[0]);
        memmove(s->ids, s->ids + 1, --s->ids_n * sizeof(void *));
    }
    s->ids[s->ids_n++] = tls_id_hold(id);
    s->generation++;
    pthread_mutex_unlock(&s->lock);
}

void https_server_stop(https_server *s)
{
    if (!s)
        return;
    if (s->daemon)
        s->listener = MHD_quiesce_daemon(s->daemon);
    struct timespec until = cond_after(STOP_MS);
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    while (s->parked)
        https_unpark(s, s->parked);
    while (s->requests > 0 && pthread_cond_timedwait(&s->changed, &s->lock, &until) == 0)
        ;
    s->over = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->watching)
        pthread_join(s->watcher, NULL);
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    https_say_unsaid(s);
    if (s->listener >= 0)
        close(s->listener);
    buckets_free(s->address_rate);
    buckets_free(s->peer_rate);
    buckets_free(s->peer_bytes);
    buckets_free(s->lines);
    for (unsigned i = 0; i < s->ids_n; i++)
        tls_id_free(s->ids[i]);
    allowlist_free(s->allowlist);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    sefl_free(s);
}
