/* Design. The socket is non-blocking; waits use poll(2). GnuTLS works on our two buffers of
 * encrypted bytes and never on the socket:
 *  1. out[out_at, out_n) is encrypted and waits for the kernel. GnuTLS's push function appends to
 *     it; there is always room, since put_record drains it first if need be (RECORD_ROOM).
 *  2. raw[raw_at, raw_n) came from the kernel and waits for GnuTLS's pull function: one system call
 *     for many records, where GnuTLS itself would need two for each.
 *  3. held[0, held_n) collects small sends until they fill a record, or until flush.
 *  4. in[in_at, in_n) is decrypted but not yet requested: the rest of a record, and what a blocked
 *     send read ahead, up to CHANNEL_INBOX.
 *  5. The keeper thread sends heartbeats. It uses the stream only while it holds `lock`, and never
 *     waits for it: an owner that holds the lock is inside send, recv or flush, where it either
 *     moves bytes or waits for the peer, and a peer that we wait for does not wait for us.
 *  6. A wait to send also receives while there is room, so that two peers that both send cannot
 *     block each other.
 *
 * GnuTLS's own AES-GCM encrypts about 2.8 GB/s in records of 16 KiB: a quarter of the time of noise
 * shares over TLS. OpenSSL reaches 4.3 GB/s and libipsec-mb 12 GB/s, but GnuTLS ignores replacement
 * ciphers since version 3.7, and libipsec-mb has no handshake and no records. A second TLS library
 * is not worth about 120 ns per value; for more throughput, lanes encrypt in parallel. */
#define _GNU_SOURCE
#include "net/tls.h"

#include "base/alloc.h"
#include "base/cond.h"
#include "net/socket.h"
#include "net/tls_inside.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    RECORD = 16 << 10, /* maximum payload of a TLS record */
    RECORD_ROOM = RECORD + 512,
    BEAT_MAX_MS = 5000,
    OUT_BYTES = 256 << 10,
    RAW_BYTES = 256 << 10,
};

struct tls {
    channel ch;
    int fd;
    unsigned idle_ms, silent_ms, beat_ms; /* beat_ms 0: no keeper */
    gnutls_session_t s;
    tls_id *id;
    x509_want want; /* during the handshake */
    x509_peer peer;
    bool asks_protocol;
    char protocol[TLS_PROTOCOL_MAX + 1]; /* the negotiated one; "" before */
    atomic_bool interrupted;
    uint64_t pulled;                /* bytes that GnuTLS has consumed */
    bool refuses_us;                /* the peer sent an alert */
    bool failed;                    /* a call of the owner failed: no more heartbeats */
    uint8_t *out, *raw, *held, *in; /* in: from sefl_grow */
    size_t out_at, out_n, raw_at, raw_n, held_n;
    size_t in_at, in_n, in_cap;

    pthread_mutex_t lock; /* guards all above, if there is a keeper */
    pthread_t keeper;
    bool kept;                 /* the keeper runs */
    pthread_mutex_t bell_lock; /* guards closing */
    pthread_cond_t bell;
    bool closing;
};

/* ---- between GnuTLS and our buffers ------------------------------------------------------ */

static ssize_t push(gnutls_transport_ptr_t ptr, const giovec_t *v, int n)
{
    tls *t = ptr;
    size_t all = 0;
    for (int i = 0; i < n; i++)
        all += v[i].iov_len;
    if (all > OUT_BYTES - t->out_n) { /* only the peer's handshake messages can fill it */
        gnutls_transport_set_errno(t->s, EAGAIN);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        memcpy(t->out + t->out_n, v[i].iov_base, v[i].iov_len);
        t->out_n += v[i].iov_len;
    }
    return (ssize_t)all;
}

static ssize_t pull(gnutls_transport_ptr_t ptr, void *to, size_t n)
{
    tls *t = ptr;
    if (t->raw_at == t->raw_n) {
        ssize_t got = recv(t->fd, t->raw, RAW_BYTES, 0);
        if (got <= 0) {
            gnutls_transport_set_errno(t->s, errno);
            return got;
        }
        t->raw_at = 0, t->raw_n = (size_t)got;
    }
    size_t k = t->raw_n - t->raw_at < n ? t->raw_n - t->raw_at : n;
    memcpy(to, t->raw + t->raw_at, k);
    t->raw_at += k, t->pulled += k;
    return (ssize_t)k;
}

static int pull_timeout(gnutls_transport_ptr_t ptr, unsigned ms)
{
    (void)ptr, (void)ms;
    return 1; /* pull never blocks */
}

/* ---- waits and failures ------------------------------------------------------------------ */

static sefl_status system_fail(const tls *t, const char *what)
{
    int e = errno;
    if (atomic_load(&t->interrupted))
        return sefl_fail(SEFL_ECLOSED, "tls: stopped on request");
    return sefl_fail(e == ECONNRESET || e == EPIPE ? SEFL_ECLOSED : SEFL_EIO, "tls: %s: %s", what,
                     strerror(e));
}

static bool is_about_certificate(gnutls_alert_description_t a)
{
    return a == GNUTLS_A_BAD_CERTIFICATE || a == GNUTLS_A_CERTIFICATE_REVOKED ||
           a == GNUTLS_A_CERTIFICATE_EXPIRED || a == GNUTLS_A_CERTIFICATE_UNKNOWN ||
           a == GNUTLS_A_UNSUPPORTED_CERTIFICATE || a == GNUTLS_A_UNKNOWN_CA ||
           a == GNUTLS_A_ACCESS_DENIED || a == GNUTLS_A_CERTIFICATE_REQUIRED;
}

/* What a fatal return code of GnuTLS means. */
static sefl_status session_fail(const tls *t, int rc)
{
    if (atomic_load(&t->interrupted))
        return sefl_fail(SEFL_ECLOSED, "tls: stopped on request");
    switch (rc) {
    case GNUTLS_E_FATAL_ALERT_RECEIVED: {
        gnutls_alert_description_t a = gnutls_alert_get(t->s);
        const char *name = gnutls_alert_get_name(a);
        if (is_about_certificate(a))
            return sefl_fail(SEFL_EAUTH, "tls: the peer refuses our certificate (%s)",
                             name ? name : "?");
        return sefl_fail(SEFL_EPROTO, "tls: the peer refuses the connection (%s)",
                         name ? name : "?");
    }
    case GNUTLS_E_PREMATURE_TERMINATION:
    case GNUTLS_E_PULL_ERROR:
    case GNUTLS_E_PUSH_ERROR:
        return sefl_fail(SEFL_ECLOSED, "tls: the connection was cut");
    case GNUTLS_E_NO_APPLICATION_PROTOCOL:
        return sefl_fail(SEFL_EPROTO, "tls: the peer offers no protocol that this port serves");
    case GNUTLS_E_UNSUPPORTED_VERSION_PACKET:
    case GNUTLS_E_NO_CIPHER_SUITES:
        return sefl_fail(SEFL_EPROTO, "tls: the peer does not offer TLS 1.3 as we require it (%s)",
                         gnutls_strerror(rc));
    case GNUTLS_E_NO_CERTIFICATE_FOUND:
    case GNUTLS_E_CERTIFICATE_REQUIRED:
        return sefl_fail(SEFL_EAUTH, "tls: the peer presents no certificate");
    default:
        return tls_fail(SEFL_EPROTO, rc, "tls");
    }
}

static bool again(ssize_t rc)
{
    return rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED ||
           (rc < 0 && !gnutls_error_is_fatal((int)rc));
}

/* Waits for one of the events; *since_ms: time of the last progress, 0: now. SEFL_ETIMEOUT after
 * idle_ms without progress, or after silent_ms without a byte, which counts only while we wait for
 * input. */
static sefl_status wait_for(const tls *t, short events, uint64_t *since_ms, short *seen)
{
    uint64_t now = socket_now_ms();
    if (*since_ms == 0)
        *since_ms = now;
    uint64_t late = *since_ms + t->idle_ms;
    uint64_t silent = events & POLLIN ? now + t->silent_ms : UINT64_MAX;
    SEFL_PASS(socket_wait(t->fd, events, late < silent ? late : silent, seen));
    SEFL_NEED(!atomic_load(&t->interrupted), SEFL_ECLOSED, "tls: stopped on request");
    SEFL_NEED(*seen != 0 || silent > late, SEFL_ETIMEOUT, "tls: the peer was silent for %u ms",
              t->silent_ms);
    SEFL_NEED(*seen != 0 && socket_now_ms() < late, SEFL_ETIMEOUT,
              "tls: the peer made no progress for %u ms", t->idle_ms);
    return SEFL_OK;
}

/* ---- the way in -------------------------------------------------------------------------- */

/* Decrypts one record, or returns why there is none. A TLS-internal message (a key update) yields
 * no record, but raw may have more after it, which poll would not report: then it tries again. */
static ssize_t open_record(tls *t, uint8_t *to, size_t room)
{
    for (;;) {
        uint64_t before = t->pulled;
        ssize_t n = gnutls_record_recv(t->s, to, room);
        if (n >= 0 || !again(n) || t->raw_at == t->raw_n || t->pulled == before)
            return n;
    }
}

/* Decrypts available records until `limit` bytes are ready. *got = 0: none was available. */
static sefl_status read_ahead(tls *t, size_t limit, size_t *got)
{
    *got = 0;
    if (t->in_at == t->in_n)
        t->in_at = t->in_n = 0;
    while (t->in_n - t->in_at < limit) {
        if (t->in_cap - t->in_n < RECORD) {
            if (t->in_at > 0 && t->in_at >= t->in_n - t->in_at) {
                memcpy(t->in, t->in + t->in_at, t->in_n - t->in_at);
                t->in_n -= t->in_at, t->in_at = 0;
            }
            if (t->in_cap - t->in_n < RECORD) {
                size_t cap = t->in_cap ? 2 * t->in_cap : 4 * RECORD;
                SEFL_PASS(sefl_grow(&t->in, t->in_cap, cap));
                t->in_cap = cap;
            }
        }
        ssize_t n = open_record(t, t->in + t->in_n, RECORD);
        if (n == 0)
            return sefl_fail(SEFL_ECLOSED, "tls: closed by the peer");
        if (n < 0)
            return again(n) ? SEFL_OK : session_fail(t, (int)n);
        t->in_n += (size_t)n;
        *got += (size_t)n;
    }
    return SEFL_OK;
}

/* ---- the way out ------------------------------------------------------------------------- */

/* Sends what the kernel accepts at once. True: everything; false: errno has the reason. */
static bool drain_some(tls *t)
{
    while (t->out_at < t->out_n) {
        ssize_t k = send(t->fd, t->out + t->out_at, t->out_n - t->out_at, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        t->out_at += (size_t)k;
    }
    t->out_at = t->out_n = 0;
    return true;
}

/* Sends everything that is encrypted. */
static sefl_status drain(tls *t)
{
    uint64_t since = 0;
    for (size_t at = t->out_at, got; !drain_some(t); at = t->out_at) {
        if (errno != EAGAIN)
            return system_fail(t, "send");
        if (t->out_at > at)
            since = 0;
        short seen = 0, room = t->in_n - t->in_at < CHANNEL_INBOX ? POLLIN : 0;
        SEFL_PASS(wait_for(t, (short)(POLLOUT | room), &since, &seen));
        if (seen & (POLLIN | POLLHUP | POLLERR)) {
            SEFL_PASS(read_ahead(t, CHANNEL_INBOX, &got));
            if (got > 0)
                since = 0;
        }
    }
    return SEFL_OK;
}

/* Encrypts n <= RECORD bytes. */
static sefl_status put_record(tls *t, const uint8_t *p, size_t n)
{
    if (t->out_n + RECORD_ROOM > OUT_BYTES)
        SEFL_PASS(drain(t));
    ssize_t rc = gnutls_record_send(t->s, p, n);
    if (rc < 0)
        SEFL_PASS(session_fail(t, (int)rc));
    SEFL_NEED((size_t)rc == n, SEFL_EIO, "tls: a record was truncated");
    return SEFL_OK;
}

static sefl_status flush_all(tls *t)
{
    if (t->held_n > 0)
        SEFL_PASS(put_record(t, t->held, t->held_n));
    t->held_n = 0;
    return drain(t);
}

static sefl_status send_all(tls *t, const uint8_t *p, size_t n)
{
    if (t->held_n > 0 && n > 0) {
        size_t k = RECORD - t->held_n < n ? RECORD - t->held_n : n;
        memcpy(t->held + t->held_n, p, k);
        t->held_n += k, p += k, n -= k;
        if (t->held_n < RECORD)
            return SEFL_OK;
        SEFL_PASS(put_record(t, t->held, RECORD));
        t->held_n = 0;
    }
    for (; n >= RECORD; p += RECORD, n -= RECORD)
        SEFL_PASS(put_record(t, p, RECORD));
    if (n > 0)
        memcpy(t->held, p, n);
    t->held_n = n;
    return SEFL_OK;
}

static sefl_status recv_all(tls *t, uint8_t *to, size_t n)
{
    uint64_t since = 0;
    if (t->held_n > 0 || t->out_at < t->out_n)
        SEFL_PASS(flush_all(t));
    while (n > 0) {
        size_t have = t->in_n - t->in_at, got = 0;
        if (have > 0) {
            size_t k = have < n ? have : n;
            memcpy(to, t->in + t->in_at, k);
            t->in_at += k, to += k, n -= k;
            since = 0;
            continue;
        }
        if (n >= RECORD) { /* directly into the caller's buffer */
            ssize_t k = open_record(t, to, n);
            SEFL_NEED(k != 0, SEFL_ECLOSED, "tls: closed by the peer");
            if (k > 0) {
                to += k, n -= (size_t)k;
                since = 0;
                continue;
            }
            if (!again(k))
                SEFL_PASS(session_fail(t, (int)k));
        } else {
            SEFL_PASS(read_ahead(t, 1, &got));
        }
        if (t->out_at < t->out_n) /* a TLS-internal answer, such as to a key update */
            SEFL_PASS(drain(t));
        short seen;
        if (got == 0)
            SEFL_PASS(wait_for(t, POLLIN, &since, &seen));
    }
    return SEFL_OK;
}

/* ---- a channel, with its keeper ------------------------------------------------------------- */

static void enter(tls *t)
{
    if (t->kept)
        pthread_mutex_lock(&t->lock);
}

static sefl_status leave(tls *t, sefl_status st)
{
    t->failed |= st != SEFL_OK;
    if (t->kept)
        pthread_mutex_unlock(&t->lock);
    return st;
}

static sefl_status tls_send(void *self, const void *p, size_t n)
{
    enter(self);
    return leave(self, send_all(self, p, n));
}

static sefl_status tls_recv(void *self, void *p, size_t n)
{
    enter(self);
    return leave(self, recv_all(self, p, n));
}

static sefl_status tls_flush(void *self)
{
    enter(self);
    return leave(self, flush_all(self));
}

/* If this fails, the owner's next call reports it. */
static void beat(tls *t)
{
    if (pthread_mutex_trylock(&t->lock) != 0)
        return;
    if (!t->failed) {
        if (t->out_at == t->out_n)
            (void)gnutls_record_send2(t->s, "", 0, 1, 0); /* no bytes, so some padding */
        (void)drain_some(t);
    }
    pthread_mutex_unlock(&t->lock);
}

static void *keep(void *arg)
{
    tls *t = arg;
    pthread_mutex_lock(&t->bell_lock);
    while (!t->closing) {
        struct timespec until = cond_after(t->beat_ms);
        while (!t->closing && pthread_cond_timedwait(&t->bell, &t->bell_lock, &until) == 0)
            ;
        pthread_mutex_unlock(&t->bell_lock);
        beat(t);
        pthread_mutex_lock(&t->bell_lock);
    }
    pthread_mutex_unlock(&t->bell_lock);
    return NULL;
}

static sefl_status start_keeper(tls *t)
{
    pthread_mutex_init(&t->lock, NULL);
    pthread_mutex_init(&t->bell_lock, NULL);
    cond_init(&t->bell);
    sefl_status st = thread_start(&t->keeper, keep, t);
    t->kept = st == SEFL_OK;
    return st;
}

static void stop_keeper(tls *t)
{
    if (!t->kept)
        return;
    pthread_mutex_lock(&t->bell_lock);
    t->closing = true;
    pthread_cond_signal(&t->bell);
    pthread_mutex_unlock(&t->bell_lock);
    pthread_join(t->keeper, NULL);
    t->kept = false;
    pthread_cond_destroy(&t->bell);
    pthread_mutex_destroy(&t->bell_lock);
    pthread_mutex_destroy(&t->lock);
}

static const channel_ops tls_ops = { tls_send, tls_recv, tls_flush };

/* ---- connections ------------------------------------------------------------------------- */

static int verify(gnutls_session_t s)
{
    tls *t = gnutls_session_get_ptr(s);
    x509_check_session(&t->peer, s, t->id->trust, &t->want);
    return t->peer.code == X509_OK ? 0 : GNUTLS_E_CERTIFICATE_ERROR;
}

/* Runs before GnuTLS computes with the key that the peer has presented. */
static int before_signature(gnutls_session_t s, unsigned type, unsigned when, unsigned incoming,
                            const gnutls_datum_t *msg)
{
    tls *t = gnutls_session_get_ptr(s);
    x509_peer p;
    (void)type, (void)when, (void)msg;
    if (!incoming || x509_shown_affordable(&p, s))
        return 0; /* no verdict about the peer yet */
    t->peer = p;
    return GNUTLS_E_CERTIFICATE_ERROR;
}

/* Sets the protocol names that we offer or serve. */
static sefl_status ask_protocol(tls *t, const tls_peer *want)
{
    gnutls_datum_t names[TLS_PROTOCOLS];
    unsigned n = 0;
    for (; n < TLS_PROTOCOLS && want->protocols[n]; n++)
        names[n] = TLS_DATUM(span_of_str(want->protocols[n]));
    t->asks_protocol = n > 0;
    if (n > 0)
        GNUTLS_PASS(gnutls_alpn_set_protocols(t->s, names, n, GNUTLS_ALPN_MANDATORY), "tls");
    return SEFL_OK;
}

/* GnuTLS accepts a peer that names no protocol at all; we do not. */
static sefl_status learn_protocol(tls *t)
{
    gnutls_datum_t name = { 0 };
    if (!t->asks_protocol)
        return SEFL_OK;
    if (gnutls_alpn_get_selected_protocol(t->s, &name) < 0 || name.size > TLS_PROTOCOL_MAX) {
        gnutls_alert_send(t->s, GNUTLS_AL_FATAL, GNUTLS_A_NO_APPLICATION_PROTOCOL);
        (void)drain_some(t);
        return session_fail(t, GNUTLS_E_NO_APPLICATION_PROTOCOL);
    }
    memcpy(t->protocol, name.data, name.size);
    return SEFL_OK;
}

static sefl_status set_up(tls *t, bool server, const char *host, const tls_peer *want)
{
    uint8_t ip[16];
    GNUTLS_PASS(gnutls_init(&t->s, (server ? GNUTLS_SERVER : GNUTLS_CLIENT) | GNUTLS_NONBLOCK |
                                       GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS),
                "tls");
    gnutls_session_set_ptr(t->s, t);
    gnutls_transport_set_ptr(t->s, t);
    gnutls_transport_set_vec_push_function(t->s, push);
    gnutls_transport_set_pull_function(t->s, pull);
    gnutls_transport_set_pull_timeout_function(t->s, pull_timeout);
    gnutls_handshake_set_timeout(t->s, 0); /* ours to watch */
    gnutls_session_set_verify_function(t->s, verify);
    gnutls_handshake_set_hook_function(t->s, GNUTLS_HANDSHAKE_CERTIFICATE_VERIFY, GNUTLS_HOOK_PRE,
                                       before_signature);
    GNUTLS_PASS(gnutls_priority_set(t->s, t->id->priority), "tls");
    GNUTLS_PASS(gnutls_credentials_set(t->s, GNUTLS_CRD_CERTIFICATE, t->id->cred), "tls");
    SEFL_PASS(ask_protocol(t, want));
    if (server) {
        gnutls_certificate_server_set_request(t->s, GNUTLS_CERT_REQUIRE);
        /* do not reveal the names of our CAs; the peer has only one certificate anyway */
        gnutls_certificate_send_x509_rdn_sequence(t->s, 1);
    } else if (x509_address(ip, host) == 0) {
        GNUTLS_PASS(gnutls_server_name_set(t->s, GNUTLS_NAME_DNS, host, strlen(host)), "tls");
    }
    return SEFL_OK;
}

sefl_status tls_shake(tls *t, bool *done)
{
    static const char binding[] = "EXPORTER-sefl-stream"; /* RFC 8446, section 7.5 */
    int rc = gnutls_handshake(t->s);
    (void)drain_some(t);
    *done = rc == 0 && t->out_at == t->out_n;
    t->refuses_us = rc == GNUTLS_E_FATAL_ALERT_RECEIVED;
    if (rc < 0 && !again(rc)) {
        gnutls_alert_send_appropriate(t->s, rc);
        (void)drain_some(t);
        SEFL_NEED(t->peer.code == X509_OK, SEFL_EAUTH, "tls: %s", t->peer.why);
        SEFL_PASS(session_fail(t, rc));
    }
    if (!*done)
        return SEFL_OK;
    /* the callback verified it; without a certificate it would not have been called */
    SEFL_NEED(t->peer.code == X509_OK && t->peer.role[0] != 0, SEFL_EAUTH,
              "tls: the peer presents no certificate");
    SEFL_PASS(learn_protocol(t));
    t->want = (x509_want){ 0 }; /* the caller's memory */
    t->ch = (channel){ .ops = &tls_ops, .self = t, .binding_n = CHANNEL_BINDING };
    GNUTLS_PASS(gnutls_prf_rfc5705(t->s, sizeof binding - 1, binding, 0, NULL, CHANNEL_BINDING,
                                   (char *)t->ch.binding),
                "tls");
    return t->beat_ms > 0 ? start_keeper(t) : SEFL_OK;
}

short tls_shake_events(const tls *t)
{
    return t->out_at < t->out_n ? POLLOUT : POLLIN;
}

int tls_fd(const tls *t)
{
    return t->fd;
}

void tls_want(tls *t, const tls_peer *want)
{
    t->want.role = want->role;
    t->want.fingerprint = want->fingerprint;
    t->want.allowlist = want->allowlist;
}

void tls_tell_refused(const tls *t, const tls_peer *want)
{
    x509_peer who = t->peer;
    if (who.code == X509_OK) /* no certificate was verified */
        who.code = X509_NONE;
    if (want->refused && !t->refuses_us)
        want->refused(want->ctx, &who);
}

sefl_status tls_wrap(tls **out, int fd, bool server, const char *host, const tls_id *id,
                     const tls_peer *want, const tls_limits *lim)
{
    SEFL_MAKE(tls, t, out);
    t->fd = fd, fd = -1;
    t->id = tls_id_hold(id);
    t->idle_ms = lim && lim->idle_ms ? lim->idle_ms : TLS_IDLE_MS;
    t->silent_ms = lim && lim->silent_ms ? lim->silent_ms : t->idle_ms;
    if (lim && lim->silent_ms)
        t->beat_ms = t->silent_ms / 4 < BEAT_MAX_MS ? t->silent_ms / 4 + 1 : BEAT_MAX_MS;
    t->want = (x509_want){ .host = host, .server = !server };
    tls_want(t, want);
    SEFL_CHECK(want->role != NULL, SEFL_EINVAL, "tls: the peer's role is not given");
    SEFL_TRY(sefl_new(&t->out, OUT_BYTES, 1));
    SEFL_TRY(sefl_new(&t->raw, RAW_BYTES, 1));
    SEFL_TRY(sefl_new(&t->held, RECORD, 1));
    SEFL_TRY(set_up(t, server, host, want));
    *out = t, t = NULL;
done:
    tls_close(t);
    if (fd >= 0)
        close(fd);
    return st;
}

sefl_status tls_listen(int *fd, const char *address, uint16_t port, uint16_t *bound)
{
    return socket_listen(fd, address, port, bound);
}

sefl_status tls_dial(tls **out, const char *host, uint16_t port, const tls_id *id,
                     const tls_peer *want, const tls_limits *lim)
{
    uint64_t until = socket_now_ms() + (lim && lim->connect_ms ? lim->connect_ms : TLS_CONNECT_MS);
    sefl_status st = SEFL_OK;
    tls *t = NULL;
    bool done = false;
    int fd;
    *out = NULL;
    SEFL_PASS(socket_dial(&fd, host, port, until));
    SEFL_TRY(tls_wrap(&t, fd, false, host, id, want, lim));
    for (;;) {
        short seen;
        st = tls_shake(t, &done);
        if (st == SEFL_EAUTH)
            tls_tell_refused(t, want);
        SEFL_TRY(st);
        if (done)
            break;
        SEFL_TRY(socket_wait(t->fd, tls_shake_events(t), until, &seen));
        SEFL_CHECK(seen != 0, SEFL_ETIMEOUT, "tls: the peer did not finish the handshake in time");
    }
    *out = t, t = NULL;
done:
    tls_close(t);
    return sefl_at(st, "%.128s port %u", host, port);
}

channel *tls_channel(tls *t)
{
    return &t->ch;
}

const x509_peer *tls_peer_info(const tls *t)
{
    return &t->peer;
}

const char *tls_protocol(const tls *t)
{
    return t->protocol;
}

void tls_interrupt(tls *t)
{
    atomic_store(&t->interrupted, true);
    shutdown(t->fd, SHUT_RDWR); /* wakes the poll; the owner closes */
}

void tls_close(tls *t)
{
    if (!t)
        return;
    stop_keeper(t);
    if (t->s) {
        if (t->ch.ops && !t->ch.dead && t->out_at == t->out_n) {
            gnutls_bye(t->s, GNUTLS_SHUT_WR);
            (void)drain_some(t);
        }
        gnutls_deinit(t->s);
    }
    if (t->fd >= 0)
        close(t->fd);
    tls_id_free(t->id);
    sefl_free(t->out);
    sefl_free(t->raw);
    sefl_free_secret(t->held, RECORD);
    sefl_free_secret(t->in, t->in_cap);
    sefl_free(t);
}
