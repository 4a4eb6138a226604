/* The life of connections and requests at AS's HTTP server: accept, handshake, requests, bodies,
 * parking, limits, revocation and the end, in any order. libmicrohttpd, GnuTLS, certificates and
 * the clock are fake (fake_mhd.h); the parser is libmicrohttpd's, so requests come in pieces from
 * lists. Input: three bytes of limits, then steps. After each step the server's lists and counts
 * must be those of the connections that are open; every request has its calls in the manual's
 * order, and no handler sees a peer, path or form that is refused. */
#define _GNU_SOURCE
#include "base/cond.h"
#include "fuzz/fake_mhd.h"
#include "net/https_inside.h"
#include "net/socket.h"

#include <poll.h>

static int shown(x509_peer *p, gnutls_session_t s);
static void check_session(x509_peer *p, gnutls_session_t s, const x509_want *want);
static bool still(x509_peer *p);
static int fake_poll(struct pollfd *p);
static bool waits(bool *over);
static ssize_t record_send(gnutls_session_t s, size_t n);

#define socket_now_ms()                                  fake_now_ms()
#define socket_listen(fd, address, port, bound)          (*(fd) = -1, *(bound) = 7, SEFL_OK)
#define x509_shown_affordable(p, s)                      shown(p, s)
#define x509_check_session(p, s, cas, ...)               ((void)(cas), check_session(p, s, __VA_ARGS__))
#define allowlist_still(g, p)                            ((void)(g), still(p))
#define allowlist_hold(g)                                ((allowlist *)(uintptr_t)(g))
#define allowlist_free(g)                                ((void)(g))
#define poll(p, n, ms)                                   fake_poll(p)
#define cond_wait_ms(cond, lock, ms)                     ((void)(ms), waits(&s->over))
#define pthread_create(thread, attr, run, arg)           (*(thread) = pthread_self(), (void)(run), 0)
#define pthread_join(thread, out)                        ((void)(thread))
#define pthread_cond_timedwait(cond, lock, until)        ((void)(until), 1)
#define gnutls_record_send(s, p, n)                      record_send(s, n)
#define gnutls_transport_set_ptr(s, p)                   ((void)(s))
#define gnutls_transport_set_pull_function(s, f)         ((void)(s), pull = (f))
#define gnutls_transport_set_pull_timeout_function(s, f) ((void)(s), (void)(f))
#define gnutls_transport_set_push_function(s, f)         ((void)(s), push = (f))
#define recv(fd, p, n, flags)                            ((void)(p), fake_bytes(fd, n))
#define send(fd, p, n, flags)                            ((void)(p), fake_bytes(fd, n))

static ssize_t (*pull)(gnutls_transport_ptr_t, void *, size_t);
static ssize_t (*push)(gnutls_transport_ptr_t, const void *, size_t);

static ssize_t fake_bytes(int fd, size_t n)
{
    MUST(fd >= 1000);
    return (ssize_t)n;
}

#include "net/https_answer.c"
#undef set
#include "net/https_conn.c"
#include "net/https_server.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PEERS = 8, BODY_MAX = 600, OPEN_MAX = 200, PEER_NONE = 0, PEER_BAD = 1 };

/* Which peers the allowlist has, a bit for each; and whether their certificates have expired. */
static unsigned allowed, revoked_told;
static bool peer_left[FAKE_CONNECTIONS]; /* its socket is dead */
static unsigned live, parked_calls;
static https_server *server;

/* ---- peers ----------------------------------------------------------------------------------- */

static int shown(x509_peer *p, gnutls_session_t s)
{
    *p = (x509_peer){ .code = X509_WEAK };
    return fake_of(s)->peer != PEER_BAD || fake_of(s)->shook;
}

static void describe(x509_peer *p, int peer)
{
    *p = (x509_peer){ .code = X509_OK, .until = INT64_MAX, .listed = peer % 2 == 0 };
    p->fingerprint[0] = (uint8_t)peer;
    p->issuer[0] = (uint8_t)(1 + peer / 4);
    snprintf(p->name, sizeof p->name, "peer %d", peer);
    if (peer == PEER_NONE)
        *p = (x509_peer){ .code = X509_NONE };
    else if (peer == PEER_BAD || !(allowed >> peer & 1))
        p->code = X509_WITHDRAWN;
}

static void check_session(x509_peer *p, gnutls_session_t s, const x509_want *want)
{
    fake_unlocked();
    MUST(strcmp(want->role, "client") == 0);
    describe(p, fake_of(s)->peer);
}

static bool still(x509_peer *p)
{
    const bool good = allowed >> p->fingerprint[0] & 1;
    if (!good)
        p->code = X509_WITHDRAWN;
    return good;
}

static void refused(void *ctx, const x509_peer *p)
{
    (void)ctx;
    fake_unlocked();
    MUST(p->code != X509_OK);
    revoked_told++;
}

/* ---- time ------------------------------------------------------------------------------------ */

static int fake_poll(struct pollfd *p)
{
    return peer_left[p->fd - 1000];
}

/* The watcher goes round twice. */
static bool waits(bool *over)
{
    static unsigned turn;
    *over = ++turn % 2 == 0;
    return *over;
}

static void tick(void *ctx)
{
    (void)ctx;
    fake_unlocked();
}

static ssize_t record_send(gnutls_session_t s, size_t n)
{
    MUST(fake_of(s)->open && n > 0);
    return (ssize_t)n;
}

/* ---- the handler ----------------------------------------------------------------------------- */

typedef struct state {
    char way;
    bool accepts, ended, dropped;
    uint64_t got;
    unsigned resumed;
} state;

static sefl_status take(https_request *r, sefl_span bytes)
{
    state *t = r->state;
    fake_unlocked();
    MUST(t->accepts && !t->ended && bytes.n > 0);
    t->got += bytes.n;
    MUST(t->got <= r->body_bytes);
    return t->way == 'f' && t->got > 100 ? sefl_fail(SEFL_EPROTO, "bad\nunit") : SEFL_OK;
}

static void resume(https_request *r)
{
    state *t = r->state;
    fake_unlocked();
    MUST(!t->dropped);
    parked_calls++;
    if (t->resumed++ < 2)
        https_park(r, fake_ms + 1000);
    else
        https_answer_text(r, 200, "at last");
}

static void end(https_request *r, sefl_status st)
{
    state *t = r->state;
    fake_unlocked();
    MUST(!t->ended);
    t->ended = true;
    MUST(st != SEFL_OK || t->got == r->body_bytes);
    if (st == SEFL_OK && t->way == 'p')
        https_park(r, fake_ms + 2000);
    else if (t->way != 'n')
        https_answer_text(r, st == SEFL_OK ? 200 : 422, "%s", sefl_last_error());
}

static void drop(https_request *r)
{
    state *t = r->state;
    fake_unlocked();
    MUST(!t->dropped && (!t->accepts || t->ended));
    t->dropped = true;
    live--;
    free(t);
}

static void begin(https_request *r)
{
    const struct MHD_Connection *c = ((https_inner *)r->inner)->conn->mhd;
    state *t = calloc(1, sizeof *t);
    MUST(t);
    fake_unlocked();
    MUST(c->peer != PEER_BAD && r->peer.code == (c->peer == PEER_NONE ? X509_NONE : X509_OK));
    MUST(c->peer != PEER_NONE || strcmp(r->path, "/enrol") == 0);
    MUST(c->peer == PEER_NONE || r->peer.fingerprint[0] == c->peer);
    MUST(!strstr(r->path, "..") && r->body_bytes <= BODY_MAX && c->head <= HTTPS_HEAD_MAX);
    MUST(!https_header(r, "Bad name") && !https_header(r, "Transfer-Encoding"));
    live++;
    t->way = r->path[1];
    r->state = t;
    r->drop = drop;
    if (t->way == 'w' || t->way == 'p' || t->way == 'n')
        r->resume = t->way == 'n' ? NULL : resume;
    if (t->way == 'w') {
        https_park(r, fake_ms + 3000);
    } else if (t->way == 't') {
        if (https_take_bytes(r, 300))
            https_answer(r, 200, "text/plain", "A: b\nC: d\n", span_of_str("bytes"));
    } else if (t->way == 'x') {
        https_answer_file(r, "/nonexistent", "text/plain", "etag");
    } else if (t->way == 'a' || t->way == 'e') {
        https_answer_text(r, 200, "%s", https_query(r, "q") ? "query" : "plain");
        https_answer_text(r, 500, "a second answer");
    } else if (t->way != '0') {
        t->accepts = true;
        r->body = take, r->end = end;
    }
    if (t->way == 'l' && https_may_log(r))
        https_log_refused(r, "request refused", "reason", "why");
}

/* ---- requests -------------------------------------------------------------------------------- */

static const char *const paths[] = { "/a", "/b", "/w",     "/p",   "/f",     "/n",  "/t", "/x",
                                     "/0", "/l", "/enrol", "/a..", "/a\x01", "//a", "a",  "" };
static const char *const methods[] = { "GET", "POST", "PUT", "HEAD" };
static const fake_value fields[] = {
    { MHD_HEADER_KIND, "Host", "as:7000" },
    { MHD_HEADER_KIND, "Host", "other" },
    { MHD_HEADER_KIND, "Content-Length", "0" },
    { MHD_HEADER_KIND, "Content-Length", "7" },
    { MHD_HEADER_KIND, "content-length", "150" },
    { MHD_HEADER_KIND, "Content-Length", "600" },
    { MHD_HEADER_KIND, "Content-Length", "601" },
    { MHD_HEADER_KIND, "Content-Length", "-1" },
    { MHD_HEADER_KIND, "Transfer-Encoding", "chunked" },
    { MHD_HEADER_KIND, "Bad name", "x" },
    { MHD_HEADER_KIND, "Content-Length ", "5" },
    { MHD_HEADER_KIND, "Range", "bytes=1-" },
    { MHD_GET_ARGUMENT_KIND, "q", "v" },
    { MHD_GET_ARGUMENT_KIND, "q", "\x01" },
    { MHD_GET_ARGUMENT_KIND, "alone", NULL },
};

static void ask(struct MHD_Connection *c, rd *in)
{
    const uint8_t b = fake_take(in);
    if (!c->open || c->asking || c->cut)
        return;
    snprintf(c->path, sizeof c->path, "%s", paths[b % 16]);
    snprintf(c->method, sizeof c->method, "%s", methods[b >> 4 & 3]);
    c->head = b & 0x80 ? HTTPS_HEAD_MAX + (b >> 6 & 1) : 200;
    memset(c->values, 0, sizeof c->values);
    c->left = 0;
    const unsigned n = fake_take(in) % FAKE_VALUES;
    for (unsigned i = 0; i < n; i++) {
        const fake_value *v = &fields[fake_take(in) % (sizeof fields / sizeof *fields)];
        c->values[i] = *v;
        if (strcasecmp(v->name, "content-length") == 0 && v->value[0] != '-')
            c->left = strtoull(v->value, NULL, 10);
    }
    fake_ask(c);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The server's lists and numbers against what is open. */
static void check(void)
{
    unsigned open = 0, listed = 0, known = 0, asking = 0, parked = 0;
    unsigned peers[PEERS] = { 0 };
    for (int i = 0; i < FAKE_CONNECTIONS; i++) {
        const struct MHD_Connection *c = &fake.at[i];
        open += c->open, asking += c->open && c->asking, parked += c->open && c->suspended;
    }
    for (const https_conn *c = server->conns; c; c = c->next) {
        listed++, known += c->known;
        MUST(c->mhd->open && c->mhd->own == c);
        MUST(!c->known || ++peers[c->peer.fingerprint[0]] <= server->c.limits.per_peer);
    }
    for (const https_inner *in = server->parked; in; in = in->park_next)
        MUST(in->conn->mhd->suspended && parked-- > 0);
    MUST(parked == 0 && open == listed && open == server->conns_n);
    MUST(server->strangers == listed - known && server->requests == asking && live <= asking);
    MUST(open <= server->c.limits.connections);
    MUST(https_server_count(server, HTTPS_EVENT_CERTIFICATE) == revoked_told);
}

static void handshake(struct MHD_Connection *c)
{
    static gnutls_pcert_st *certs;
    static gnutls_ocsp_data_st *ocsp;
    gnutls_session_t session = fake_session(c);
    gnutls_privkey_t key;
    unsigned n, flags;
    if (!c->open || c->shook)
        return;
    MUST(https_own_certificate(session, NULL, &certs, &n, &ocsp, &n, &key, &flags) == 0);
    int rc = fake_hook(session, GNUTLS_HANDSHAKE_CERTIFICATE_VERIFY, GNUTLS_HOOK_PRE, 1, NULL);
    MUST((rc == 0) == (c->peer != PEER_BAD));
    if (rc == 0)
        rc = fake_hook(session, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST, 1, NULL);
    MUST(fake_hook(session, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST, 0, NULL) == 0);
    c->shook = rc == 0;
    if (rc != 0)
        fake_close(c);
}

static void watch_once(void)
{
    watch(server);
    server->over = false;
    fake_turn();
}

static void step(rd *in, tls_id *id)
{
    const uint8_t b = fake_take(in), what = b % 12, at = b / 12 % FAKE_CONNECTIONS;
    struct MHD_Connection *c = &fake.at[at];
    char bytes[1];
    switch (what) {
    case 0:
        fake_connect(fake_take(in) % 4, at % PEERS);
        break;
    case 1:
        handshake(c);
        break;
    case 2:
    case 3:
        if (!c->shook)
            handshake(c);
        ask(c, in);
        break;
    case 4:
        fake_piece(c, 1u + fake_take(in));
        break;
    case 5:
        fake_sent(c, fake_take(in));
        break;
    case 6:
        fake_close(c);
        break;
    case 7:
        fake_ms += 100ull * fake_take(in);
        watch_once();
        break;
    case 8:
        https_wake(server);
        fake_turn();
        break;
    case 9:
        allowed = fake_take(in);
        https_server_set_allowlist(server, (const allowlist *)(uintptr_t)(8 + b % 2 * 8));
        fake_turn();
        break;
    case 10:
        if (b & 0x80)
            https_server_set_id(server, id);
        else if (c->open)
            peer_left[at] = c->suspended;
        break;
    default: /* bytes that libmicrohttpd refuses by itself */
        if (c->open && c->shook && !c->suspended) {
            (void)pull(c->own, bytes, b);
            (void)push(c->own, bytes, 1);
        }
    }
    for (int i = 0; i < FAKE_CONNECTIONS; i++)
        peer_left[i] = peer_left[i] && fake.at[i].suspended;
    check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tls_id id = { .holders = 1000000 };
    rd in = rd_over(span_of(data, size));
    const uint8_t few = fake_take(&in), rates = fake_take(&in);
    int none = -1;
    memset(&fake, 0, sizeof fake);
    memset(peer_left, 0, sizeof peer_left);
    fake_ms = 1000000, allowed = fake_take(&in) | 0xc0, revoked_told = live = 0;
    fake_lock = NULL;
    id.holders = 1000000;
    MUST_OK(https_server_start(&server,
                               &(https_server_config){ .listener = &none,
                                                       .port = 7,
                                                       .id = &id,
                                                       .peer_role = "client",
                                                       .allowlist = (const allowlist *)(uintptr_t)8,
                                                       .open_path = "/enrol",
                                                       .open_max = OPEN_MAX,
                                                       .limits = { .connections = 2 + few % 7,
                                                                   .per_address = 1 + few / 8 % 4,
                                                                   .per_peer = 1 + few / 32 % 4,
                                                                   .per_issuer = few / 128 ? 2 : 0,
                                                                   .connection_rate = rates % 2,
                                                                   .request_rate = rates / 2 % 2,
                                                                   .idle_s = 3 + rates / 4 % 8,
                                                                   .rate_min = 100 },
                                                       .body_max = BODY_MAX,
                                                       .headers = "Sefl-Version: 0.2\n",
                                                       .bytes_rate = rates & 0x40 ? 100 : 0,
                                                       .bytes_burst = rates & 0x40 ? 1000 : 0,
                                                       .begin = begin,
                                                       .refused = refused,
                                                       .tick = tick }));
    fake_lock = &server->lock;
    for (int i = 0; i < 256 && rd_left(&in) > 0; i++)
        step(&in, &id);
    fake_lock = NULL;
    https_server_stop(server);
    MUST(live == 0);
    return 0;
}
