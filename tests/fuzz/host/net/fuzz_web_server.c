/* The life of connections and event streams at the operator's page: connect, requests, streams,
 * published events, beats, slow and silent peers, a new certificate and the end, in any order.
 * libmicrohttpd and GnuTLS are fake (fake_mhd.h). Input: a byte of limits, then steps. After each
 * step the server's lists are those of the connections that are open, and each stream sends whole
 * events, each at most once and the newest last. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "fuzz/fake_mhd.h"
#include "net/socket.h"
#include "net/tls_inside.h"

#include <fcntl.h>

static void check_session(x509_peer *p, gnutls_session_t s, const x509_want *want);

#define socket_listen(fd, address, port, bound) (*(fd) = -1, *(bound) = 7020, SEFL_OK)
#define x509_shown_affordable(p, s)             ((void)(p), fake_of(s)->peer != 1)
#define x509_check_session(p, s, cas, ...)      check_session(p, s, __VA_ARGS__)
#define clock_pause_ms(ms)                      fake_read_all()

static void fake_read_all(void);

#include "net/web_server.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static web_server *server;
static unsigned published;
/* What the stream of a connection has sent of the event that it is in, and of which it was last. */
static struct {
    char bytes[32];
    size_t n;
    unsigned last;
} seen[FAKE_CONNECTIONS];

static void check_session(x509_peer *p, gnutls_session_t s, const x509_want *want)
{
    MUST(want->pin_only);
    *p = (x509_peer){ .code = fake_of(s)->peer ? X509_OK : X509_NONE };
    p->fingerprint[0] = (uint8_t)fake_of(s)->peer;
}

static void handle(void *ctx, const web_request *r, web_answer *a)
{
    const struct MHD_Connection *c = r->inner;
    const char *host = web_header(r, "Host");
    fake_unlocked();
    MUST(ctx == &server && !web_header(r, "Bad name") && r->port == 7020);
    MUST(strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0);
    MUST(!server->c.id || r->peer.fingerprint[0] == c->peer);
    MUST(web_host_fits(host, r->port) ==
         (host && (strcmp(host, "localhost:7020") == 0 || strcmp(host, "127.0.0.1:7020") == 0)));
    MUST(!web_query(r, "q") || strcmp(web_query(r, "q"), "v") == 0);
    switch (r->path[1]) {
    case 's':
        a->stream = true;
        MUST_OK(wr_fmt(&a->body, "<0>"));
        break;
    case 'f':
        a->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        break;
    case 'h':
        MUST_OK(wr_fmt(&a->headers, "Location: /a\nno colon\nA: b\nno end"));
        a->status = 303;
        break;
    case 'c':
        MUST_OK(wr_fmt(&a->body, "%s", web_cookie(r, "k") ? "yes" : "no"));
        break;
    default:
        a->status = 404; /* an empty body */
    }
}

static const char *const paths[] = { "/a", "/s", "/f", "/h", "/c", "/s", "/s", "/a\x01" };
static const char *const methods[] = { "GET", "HEAD", "POST", "GET" };
static const fake_value fields[] = {
    { MHD_HEADER_KIND, "Host", "localhost:7020" },
    { MHD_HEADER_KIND, "Host", "127.0.0.1:7020" },
    { MHD_HEADER_KIND, "Host", "evil.example:7020" },
    { MHD_HEADER_KIND, "Bad name", "x" },
    { MHD_GET_ARGUMENT_KIND, "q", "v" },
    { MHD_GET_ARGUMENT_KIND, "q", "\n" },
    { MHD_COOKIE_KIND, "k", "v" },
    { MHD_HEADER_KIND, "Content-Length", "5" },
};

static void ask(struct MHD_Connection *c, rd *in)
{
    const uint8_t b = fake_take(in), n = fake_take(in) % FAKE_VALUES;
    if (!c->open || c->asking || c->cut)
        return;
    snprintf(c->path, sizeof c->path, "%s", paths[b % 8]);
    snprintf(c->method, sizeof c->method, "%s", methods[b / 8 % 4]);
    memset(c->values, 0, sizeof c->values);
    for (unsigned i = 0; i < n; i++)
        c->values[i] = fields[fake_take(in) % (sizeof fields / sizeof *fields)];
    memset(&seen[c - fake.at], 0, sizeof *seen);
    fake_ask(c);
}

/* The peer of a stream reads at most `most` bytes: whole events "<number>" and beats. */
static void read_stream(struct MHD_Connection *c, size_t most)
{
    char out[64];
    const size_t at = (size_t)(c - fake.at), room = most % 32 + sizeof BEAT;
    if (!c->open || !c->answer || c->suspended || !c->answer->read ||
        strcmp(c->method, "GET") != 0) {
        fake_sent(c, most);
        return;
    }
    fake_unlocked();
    c->callback = true;
    const ssize_t n = c->answer->read(c->answer->cls, 0, out, room);
    c->callback = false;
    MUST(n <= (ssize_t)room && (n != 0 || c->suspended));
    for (ssize_t i = 0; i < n; i++) {
        const char b = out[i];
        if (seen[at].n == 0 && strchr(BEAT, b))
            continue;
        MUST(seen[at].n + 1 < sizeof seen[at].bytes && (b == '<') == (seen[at].n == 0));
        seen[at].bytes[seen[at].n++] = b;
        if (b == '>') {
            unsigned number;
            seen[at].bytes[seen[at].n] = 0;
            MUST(sscanf(seen[at].bytes, "<%u>", &number) == 1);
            MUST(number <= published && (number > seen[at].last || number == 0));
            seen[at].last = number, seen[at].n = 0;
        }
    }
    if (n < 0) {
        MUST(n == MHD_CONTENT_READER_END_OF_STREAM);
        fake_complete(c, MHD_REQUEST_TERMINATED_COMPLETED_OK);
        fake_close(c);
    }
}

static void fake_read_all(void)
{
    for (int i = 0; i < FAKE_CONNECTIONS; i++)
        if (fake.at[i].open && fake.at[i].answer)
            read_stream(&fake.at[i], 31);
}

static void check(void)
{
    unsigned open = 0, streams = 0, visitors = 0, listed = 0;
    for (int i = 0; i < FAKE_CONNECTIONS; i++) {
        const struct MHD_Connection *c = &fake.at[i];
        open += c->open, visitors += c->open && c->own;
        streams += c->open && c->answer && c->answer->read;
    }
    for (const visitor *v = server->visitors; v; v = v->next)
        listed++;
    MUST(open == server->connections_n && visitors == listed && open <= server->c.connections);
    listed = 0;
    unsigned going = 0;
    for (const stream *t = server->streams; t; t = t->next) {
        listed++, going += !t->end;
        MUST(t->asleep == t->conn->suspended && t->conn->answer->cls == t);
    }
    MUST(streams == listed && listed == web_server_streams(server) && going <= server->c.streams);
}

static void publish(bool last)
{
    char text[16];
    snprintf(text, sizeof text, "<%u>", ++published);
    if (last)
        web_server_finish(server, span_of_str(text));
    else
        web_server_publish(server, span_of_str(text));
}

static void handshake(struct MHD_Connection *c)
{
    static gnutls_pcert_st *certs;
    static gnutls_ocsp_data_st *ocsp;
    gnutls_privkey_t key;
    unsigned n, flags;
    if (!server->c.id)
        return;
    MUST(own_certificate(fake_session(c), NULL, &certs, &n, &ocsp, &n, &key, &flags) == 0);
    if (fake_hook(fake_session(c), 0, 0, 1, NULL) != 0)
        fake_close(c);
}

static void step(rd *in, tls_id *id)
{
    const uint8_t b = fake_take(in);
    struct MHD_Connection *c = &fake.at[b / 10 % FAKE_CONNECTIONS];
    switch (b % 10) {
    case 0:
    case 1:
        c = fake_connect(1, b / 10 % 4);
        if (c)
            handshake(c);
        break;
    case 2:
    case 3:
        ask(c, in);
        break;
    case 4:
        read_stream(c, fake_take(in));
        break;
    case 5:
        fake_close(c);
        break;
    case 6:
        publish(false);
        break;
    case 7:
        web_server_beat(server);
        break;
    case 8:
        if (b > 128)
            web_server_end_streams(server);
        fake_read_all();
        break;
    default:
        if (server->c.id)
            web_server_set_id(server, id);
    }
    fake_turn();
    check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tls_id id = { .holders = 1000000 };
    rd in = rd_over(span_of(data, size));
    const uint8_t few = fake_take(&in);
    memset(&fake, 0, sizeof fake);
    memset(seen, 0, sizeof seen);
    published = 0, fake_lock = NULL;
    id.holders = 1000000;
    MUST(web_server_check_loopback("192.0.2.1") == SEFL_EINVAL);
    MUST_OK(web_server_start(&server,
                             &(web_server_config){ .address = "127.0.0.1",
                                                   .id = few & 1 ? &id : NULL,
                                                   .connections = 2 + few / 2 % 7,
                                                   .streams = few / 16 % 4,
                                                   .headers = few & 0x80 ? "X: y\nZ: w\n" : NULL,
                                                   .handle = handle,
                                                   .ctx = &server }));
    MUST(web_server_port(server) == 7020);
    fake_lock = &server->lock;
    for (int i = 0; i < 256 && rd_left(&in) > 0; i++)
        step(&in, &id);
    if (few & 0x40) {
        publish(true);
        MUST(web_server_streams(server) == 0);
    }
    fake_turn();
    fake_lock = NULL;
    web_server_stop(server);
    return 0;
}
