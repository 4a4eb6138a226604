/* Accepts, checks and closes the connections of https_server. The server has the lists and the lock
 * (https_server.c describes the design). */
#define _GNU_SOURCE
#include "base/alloc.h"
#include "net/https_inside.h"
#include "net/socket.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { HANDSHAKE_MS = 15000 /* or idle_s, if that is less */ };

void https_count(https_server *s, https_event e)
{
    atomic_fetch_add(&s->counts[e], 1);
}

/* ---- lines about refusals ---------------------------------------------------------------- */

/* True if a known CA signed its certificate. */
static bool is_vouched(const x509_peer *p)
{
    static const bool vouched[X509_VERDICTS] = {
        [X509_OK] = true,         [X509_EXPIRED] = true,   [X509_NOT_YET] = true,
        [X509_WRONG_ROLE] = true, [X509_WRONG_USE] = true, [X509_WITHDRAWN] = true,
        [X509_NOT_LISTED] = true,
    };
    return vouched[p->code];
}

/* One bucket for all strangers, one for each listed member, and one for the other certificates of
 * each CA: no flood hides other peers. */
bool https_may_talk(https_server *s, const x509_peer *p)
{
    uint8_t who[BUCKETS_KEY];
    bool vouched = is_vouched(p);
    memset(who, 0xff, sizeof who);
    if (vouched)
        memcpy(who, p->listed ? p->fingerprint : p->issuer, sizeof who);
    if (buckets_take(s->lines, who, 1, socket_now_ms()))
        return true;
    atomic_fetch_add(&s->unsaid[vouched], 1);
    return false;
}

void https_say_refused(https_server *s, const x509_peer *p, const char *event, const char *reason,
                       const char *why)
{
    if (https_may_talk(s, p))
        log_warn(s->c.log, event, lf_str("reason", reason), lf_str("name", p->name),
                 lf_key("key", p->fingerprint), lf_key("issuer", p->issuer), lf_str("why", why));
}

void https_say_unsaid(https_server *s)
{
    uint64_t strangers = atomic_exchange(&s->unsaid[0], 0);
    uint64_t known = atomic_exchange(&s->unsaid[1], 0);
    if (strangers > 0 || known > 0)
        log_warn(s->c.log, "more refused", lf_u64("strangers", strangers), lf_u64("known", known));
}

int https_own_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                          gnutls_pcert_st **certs, unsigned *certs_n, gnutls_ocsp_data_st **ocsp,
                          unsigned *ocsp_n, gnutls_privkey_t *key, unsigned *flags)
{
    https_server *s = ((https_conn *)gnutls_session_get_ptr(session))->server;
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
    https_conn *conn = gnutls_session_get_ptr(session);
    x509_peer p;
    (void)msg;
    if (!incoming)
        return 0;
    if (type == GNUTLS_HANDSHAKE_FINISHED && when == GNUTLS_HOOK_POST)
        conn->shook = true;
    if (type == GNUTLS_HANDSHAKE_CERTIFICATE_VERIFY && when == GNUTLS_HOOK_PRE &&
        !x509_shown_affordable(&p, session)) {
        https_tell_refused(conn->server, &p);
        return GNUTLS_E_CERTIFICATE_ERROR;
    }
    return 0;
}

/* ---- what is read and written ------------------------------------------------------------
 * libmicrohttpd itself refuses bytes that it cannot parse: it answers, or closes, and tells nobody.
 * Before a connection's first request, such a connection ends with `heard` false. After a good
 * request the wire shows it: more bytes came in than a close_notify, without a request; or more
 * went out, without an answer from us (bad bytes arrived together with a good request). note_idle
 * counts both while no request is in progress. It misses bytes that arrive together with a good
 * request and lead only to a close. */

enum { GOODBYE_BYTES = 24 /* a close_notify as TLS 1.3 seals it: 5 + 2 + 1 + 16 */ };

static void note_idle(https_conn *conn, size_t *sum, ssize_t n)
{
    if (n <= 0 || conn->busy)
        return;
    *sum += (size_t)n;
    if (*sum > GOODBYE_BYTES)
        conn->heard = false;
}

static ssize_t on_pull(gnutls_transport_ptr_t ptr, void *to, size_t n)
{
    https_conn *conn = ptr;
    ssize_t got = recv(conn->fd, to, n, 0);
    note_idle(conn, &conn->idle_in, got);
    return got;
}

/* GnuTLS would use our pointer as the descriptor. */
static int on_pull_timeout(gnutls_transport_ptr_t ptr, unsigned ms)
{
    const https_conn *conn = ptr;
    return gnutls_system_recv_timeout((gnutls_transport_ptr_t)(intptr_t)conn->fd, ms);
}

static ssize_t on_push(gnutls_transport_ptr_t ptr, const void *from, size_t n)
{
    https_conn *conn = ptr;
    ssize_t put = send(conn->fd, from, n, MSG_NOSIGNAL);
    note_idle(conn, &conn->idle_out, put);
    return put;
}

/* ---- accepting --------------------------------------------------------------------------- */

/* Frees a slot: closes the oldest connection without a valid certificate. Under the lock. */
static void cut_oldest_stranger(https_server *s)
{
    https_conn *oldest = NULL;
    for (https_conn *c = s->conns; c; c = c->next)
        if (!c->known && !c->was_cut && (!oldest || c->since_ms < oldest->since_ms))
            oldest = c;
    if (!oldest)
        return;
    oldest->was_cut = true;
    oldest->due_ms = 0;
    shutdown(oldest->fd, SHUT_RDWR); /* its thread notices and closes */
    https_count(s, HTTPS_EVENT_STRANGER);
}

/* Runs before a byte is read. */
enum MHD_Result https_on_accept(void *cls, const struct sockaddr *from, socklen_t n)
{
    https_server *s = cls;
    uint8_t address[BUCKETS_KEY];
    unsigned same = 0;
    bool full = false;
    (void)n;
    socket_origin_of(address, from);
    if (s->address_rate && !buckets_take(s->address_rate, address, 1, socket_now_ms())) {
        https_count(s, HTTPS_EVENT_ADDRESS_RATE);
        return MHD_NO;
    }
    pthread_mutex_lock(&s->lock);
    for (const https_conn *c = s->conns; c; c = c->next)
        same += memcmp(c->address, address, sizeof address) == 0;
    full = s->conns_n >= s->c.limits.connections;
    bool share = same >= s->c.limits.per_address;
    if (!full && !share && s->strangers >= (s->c.limits.connections + 1) / 2)
        cut_oldest_stranger(s);
    pthread_mutex_unlock(&s->lock);
    if (full || share)
        https_count(s, full ? HTTPS_EVENT_FULL : HTTPS_EVENT_ADDRESS_FULL);
    return full || share ? MHD_NO : MHD_YES;
}

static uint64_t handshake_ms(const https_server *s)
{
    return s->c.limits.idle_s < HANDSHAKE_MS / 1000 ? 1000ull * s->c.limits.idle_s : HANDSHAKE_MS;
}

static void conn_started(https_server *s, struct MHD_Connection *mhd, void **ctx)
{
    https_conn *conn;
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *session =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    const union MHD_ConnectionInfo *from =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    *ctx = NULL;
    if (!fd || !session)
        return;
    if (sefl_new(&conn, 1, sizeof *conn) != SEFL_OK) {
        shutdown(fd->connect_fd, SHUT_RDWR); /* ends in the handshake */
        return;
    }
    conn->server = s;
    conn->mhd = mhd;
    conn->fd = fd->connect_fd;
    conn->tls = session->tls_session;
    conn->since_ms = socket_now_ms();
    conn->due_ms = conn->late_ms = conn->since_ms + handshake_ms(s);
    if (from && from->client_addr)
        socket_origin_of(conn->address, from->client_addr);
    https_count(s, HTTPS_EVENT_CONNECTED);
    gnutls_session_set_ptr(conn->tls, conn);
    gnutls_transport_set_ptr(conn->tls, conn);
    gnutls_transport_set_pull_function(conn->tls, on_pull);
    gnutls_transport_set_pull_timeout_function(conn->tls, on_pull_timeout);
    gnutls_transport_set_push_function(conn->tls, on_push);
    gnutls_handshake_set_hook_function(conn->tls, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_BOTH,
                                       on_handshake);
    gnutls_certificate_server_set_request(conn->tls, GNUTLS_CERT_REQUEST);
    gnutls_certificate_send_x509_rdn_sequence(conn->tls, 1);
    pthread_mutex_lock(&s->lock);
    conn->next = s->conns;
    s->conns = conn;
    s->conns_n++, s->strangers++;
    pthread_mutex_unlock(&s->lock);
    *ctx = conn;
}

static void conn_closed(https_server *s, void **ctx)
{
    https_conn *conn = *ctx, **at = &s->conns;
    *ctx = NULL;
    if (!conn)
        return;
    pthread_mutex_lock(&s->lock);
    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
    s->conns_n--, s->strangers -= !conn->known;
    if (!conn->heard && !conn->was_cut && !conn->gone && !s->stopping) {
        /* libmicrohttpd's timeout may come before the watcher's */
        bool slow = socket_now_ms() >= conn->late_ms;
        if (conn->shook)
            https_count(s, slow ? HTTPS_EVENT_HEADER_SLOW : HTTPS_EVENT_NOT_HTTP);
        else
            https_count(s, slow ? HTTPS_EVENT_HANDSHAKE_SLOW : HTTPS_EVENT_HANDSHAKE);
    }
    pthread_mutex_unlock(&s->lock);
    sefl_free(conn);
}

void https_on_connection(void *cls, struct MHD_Connection *mhd, void **ctx,
                         enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        conn_started(cls, mhd, ctx);
    else
        conn_closed(cls, ctx);
}

void https_tell_refused(https_server *s, const x509_peer *p)
{
    https_count(s, HTTPS_EVENT_CERTIFICATE);
    https_say_refused(s, p, "peer refused", x509_verdict_text(p->code), p->why);
    if (s->c.refused)
        s->c.refused(s->c.ctx, p);
}

/* True if only the same CA vouches for both. */
static bool are_siblings(const x509_peer *a, const x509_peer *b)
{
    static const uint8_t nobody[sizeof a->issuer];
    return !a->listed && !b->listed && memcmp(a->issuer, b->issuer, sizeof a->issuer) == 0 &&
           memcmp(a->issuer, nobody, sizeof nobody) != 0;
}

/* Stores the verdict, and whether the peer or its issuer has too many connections including this
 * one, which then counts as a stranger until it is answered. Under the lock. */
static void settle_peer(https_conn *conn, const x509_peer *peer)
{
    https_server *s = conn->server;
    unsigned same = 1, siblings = 1;
    bool good = peer->code == X509_OK;
    for (const https_conn *c = s->conns; good && c; c = c->next) {
        if (c == conn || !c->known)
            continue;
        same += memcmp(c->peer.fingerprint, peer->fingerprint, sizeof peer->fingerprint) == 0;
        siblings += are_siblings(&c->peer, peer);
    }
    conn->peer = *peer;
    conn->surplus = s->c.limits.per_peer > 0 && same > s->c.limits.per_peer;
    conn->crowded = s->c.limits.per_issuer > 0 && siblings > s->c.limits.per_issuer;
    bool known = good && !conn->surplus && !conn->crowded;
    s->strangers += (unsigned)conn->known;
    s->strangers -= (unsigned)known;
    conn->known = known;
}

void https_judge(https_conn *conn)
{
    https_server *s = conn->server;
    x509_peer p = { .code = X509_OK };
    bool again = false;
    pthread_mutex_lock(&s->lock);
    while (!conn->judged || conn->judged_by != s->generation ||
           (conn->peer.code == X509_OK && conn->peer.until < (int64_t)time(NULL) && !again)) {
        const tls_id *id = s->ids[s->ids_n - 1];
        unsigned generation = s->generation;
        allowlist *g = allowlist_hold(s->allowlist);
        pthread_mutex_unlock(&s->lock);
        x509_check_session(&p, conn->tls, id->trust,
                           &(x509_want){ .role = s->c.peer_role, .allowlist = g });
        allowlist_free(g);
        pthread_mutex_lock(&s->lock);
        settle_peer(conn, &p);
        conn->judged = again = true;
        conn->judged_by = generation; /* if it changed meanwhile, repeat */
    }
    pthread_mutex_unlock(&s->lock);
    /* without a certificate: admit_peer refuses it, depending on the path */
    if (p.code != X509_OK && p.code != X509_NONE)
        https_tell_refused(s, &p);
}

/* Disconnects a peer. Under the lock. */
static void put_out(https_server *s, https_conn *conn)
{
    conn->gone = true;
    shutdown(conn->fd, SHUT_RDWR); /* its thread notices and closes */
    for (https_inner *in = s->parked, *after; in; in = after) {
        after = in->park_next;
        if (in->conn == conn)
            https_unpark(s, in);
    }
}

void https_server_set_allowlist(https_server *s, const allowlist *g)
{
    for (;;) { /* one at a time: `refused` is called without the lock */
        x509_peer p = { .code = X509_OK };
        pthread_mutex_lock(&s->lock);
        if (s->allowlist != g) {
            allowlist_free(s->allowlist);
            s->allowlist = allowlist_hold(g);
            s->generation++;
        }
        for (https_conn *conn = s->conns; conn && p.code == X509_OK; conn = conn->next) {
            if (!conn->judged || conn->gone || conn->peer.code != X509_OK)
                continue;
            p = conn->peer;
            if (!allowlist_still(g, &p))
                put_out(s, conn);
        }
        pthread_mutex_unlock(&s->lock);
        if (p.code == X509_OK)
            return;
        https_tell_refused(s, &p);
    }
}
