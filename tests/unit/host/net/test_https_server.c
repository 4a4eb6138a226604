#include "net_ids.h"
#include "net_raw.h"

#include "net/https_client.h"
#include "net/https_server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* ---- the handler ------------------------------------------------------------------------- */

static struct site {
    _Atomic int begun, dropped, refused, ended_closed, body_calls, code;
    _Atomic uint64_t body_bytes;
    _Atomic int flag; /* what /poll waits for */
    char file[300];
} site;

static https_server *server;
static tls_id *as, *client;
static char client_cert[300], client_key[300];

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

typedef struct upload {
    uint64_t got, fail_at, until;
    bool park;
} upload;

static sefl_status up_body(https_request *r, sefl_span bytes)
{
    upload *u = r->state;
    u->got += bytes.n;
    site.body_calls++;
    site.body_bytes += bytes.n;
    if (u->fail_at && u->got >= u->fail_at)
        return sefl_fail(SEFL_EPROTO, "unit 3: not a ciphertext");
    return SEFL_OK;
}

static void up_answer(https_request *r)
{
    const upload *u = r->state;
    https_answer_text(r, 200, "got %llu", (unsigned long long)u->got);
}

static void up_end(https_request *r, sefl_status st)
{
    const upload *u = r->state;
    if (st == SEFL_ECLOSED)
        site.ended_closed++;
    if (st == SEFL_EPROTO)
        https_answer_text(r, 422, "%s", sefl_last_error());
    else if (u->park)
        https_park(r, now_ms() + 100);
    else
        up_answer(r);
}

static void drop(https_request *r)
{
    site.dropped++;
    free(r->state);
}

static void poll_resume(https_request *r)
{
    const uint64_t *until = r->state;
    if (site.flag)
        https_answer_text(r, 200, "flag %d", site.flag);
    else if (now_ms() >= *until)
        https_answer_text(r, 200, "waited");
    else
        https_park(r, *until);
}

static void begin(https_request *r)
{
    site.begun++;
    r->drop = drop;
    if (strcmp(r->path, "/hello") == 0) {
        const char *q = https_query(r, "q");
        https_answer_text(r, 200, "%s %s %s", r->method, r->peer.name, q ? q : "-");
        https_answer_text(r, 500, "a second answer");
    } else if (strcmp(r->path, "/bytes") == 0) {
        https_answer(r, 201, "application/octet-stream", "Sefl-Offset: 77\nX-Two: b\n",
                     span_of("a\0b", 3));
    } else if (strcmp(r->path, "/file") == 0) {
        https_answer_file(r, site.file, "application/octet-stream", "e1");
    } else if (strcmp(r->path, "/again") == 0) {
        if (https_take_bytes(r, 60))
            https_answer_text(r, 200, "looked at 60 bytes again");
    } else if (strcmp(r->path, "/gone") == 0) {
        https_answer_file(r, "/nonexistent/file", "text/plain", "e2");
    } else if (strcmp(r->path, "/poll") == 0) {
        uint64_t *until = malloc(sizeof *until);
        *until = now_ms() + strtoull(https_query(r, "ms"), NULL, 10);
        r->state = until;
        r->resume = poll_resume;
        poll_resume(r);
    } else if (strcmp(r->path, "/put") == 0) {
        upload *u = calloc(1, sizeof *u);
        const char *fail = https_query(r, "fail");
        u->fail_at = fail ? strtoull(fail, NULL, 10) : 0;
        u->park = https_query(r, "park") != NULL;
        r->state = u;
        r->body = up_body, r->end = up_end, r->resume = up_answer;
    }
}

static void refused(void *ctx, const x509_peer *p)
{
    struct site *s = ctx;
    s->refused++;
    s->code = (int)p->code;
}

/* Requests end on the server's threads a little after their answer is here. */
static void settle(void)
{
    for (unsigned i = 0; i < test_ms(200) && site.dropped != site.begun; i++)
        usleep(5000);
    assert_int_equal(site.dropped, site.begun);
}

/* ---- what tests send --------------------------------------------------------------------- */

static void with_client(raw_tls *c)
{
    assert_int_equal(raw_open(c, https_server_port(server), client_cert, client_key, NULL), 0);
}

/* Sends a request, with a byte 0 for each "$", and reads the answer, which ends the connection. */
static char answer[1 << 16];

static void ask(const char *request)
{
    raw_tls c;
    char text[4096];
    with_client(&c);
    snprintf(text, sizeof text, request, "Host: x\r\nConnection: close\r\n");
    const size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        text[i] = text[i] == '$' ? 0 : text[i];
    assert_true(raw_send(&c, text, n));
    raw_read(&c, answer, sizeof answer, NULL);
    raw_close(&c);
}

static void has(const char *word)
{
    if (!strstr(answer, word))
        fail_msg("no \"%s\" in:\n%s", word, answer);
}

static const char *body_of(void)
{
    const char *p = strstr(answer, "\r\n\r\n");
    assert_non_null(p);
    return p + 4;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void answers(void **state)
{
    (void)state;
    ask("GET /hello?q=a%%20b HTTP/1.1\r\n%s\r\n");
    has("HTTP/1.1 200 OK");
    assert_string_equal(body_of(), "GET client-01 a b\n");
    ask("GET /bytes HTTP/1.1\r\n%s\r\n");
    has("HTTP/1.1 201");
    has("Sefl-Offset: 77\r\n");
    has("X-Two: b\r\n");
    has("Content-Length: 3\r\n");
    assert_memory_equal(body_of(), "a\0b", 3);
    ask("HEAD /bytes HTTP/1.1\r\n%s\r\n");
    has("Content-Length: 3\r\n");
    assert_string_equal(body_of(), "");
    ask("GET /nothing HTTP/1.1\r\n%s\r\n");
    has("HTTP/1.1 500");
    settle();
}

static void bad_requests(void **state)
{
    (void)state;
    static const struct {
        const char *request, *word;
    } t[] = {
        { "GET /a/../hello HTTP/1.1\r\n%s\r\n", " 400 " },
        { "GET /a/%%2e%%2e/hello HTTP/1.1\r\n%s\r\n", " 400 " },
        { "GET //hello HTTP/1.1\r\n%s\r\n", " 400 " },
        { "GET /hel%%0alo HTTP/1.1\r\n%s\r\n", " 400 " },
        { "PUT /put HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", " 411 " },
        { "PUT /put HTTP/1.1\r\n%sContent-Length: 99999999999\r\n\r\n", " 413 " },
        { "PUT /put HTTP/1.1\r\n%sContent-Length: 5000001\r\n\r\n", " 413 " },
        { "PUT /put HTTP/1.1\r\n%sContent-Length: -5\r\n\r\n", " 400 " },
        { "nonsense\r\n%s\r\n", "" },
        { "GET /hello HTTP/9.9\r\n%s\r\n", "" },
    };
    int before = site.begun;
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        ask(t[i].request);
        has(t[i].word);
        if (strstr(answer, " 200 "))
            fail_msg("%s\n%s", t[i].request, answer);
    }
    assert_int_equal(site.begun, before);
    /* a path that is too long, headers without end */
    raw_tls c;
    char *big = malloc(1 << 20);
    memset(big, 'a', 1 << 20);
    memcpy(big, "GET /", 5);
    memcpy(big + 2000, " HTTP/1.1\r\nHost: x\r\n\r\n", 22);
    with_client(&c);
    assert_true(raw_send(&c, big, 2022));
    raw_read(&c, answer, sizeof answer, "\r\n\r\n");
    raw_close(&c);
    has(" 400 ");
    with_client(&c);
    memset(big, 'a', 1 << 20);
    memcpy(big, "GET /hello HTTP/1.1\r\nHost: x\r\nX: ", 33);
    memcpy(big + 33000, "\r\n\r\n", 4);
    assert_true(raw_send(&c, big, 33004));
    raw_read(&c, answer, sizeof answer, "\r\n\r\n");
    raw_close(&c);
    has(" 431 ");
    with_client(&c);
    memset(big, 'a', 1 << 20);
    memcpy(big, "GET /hello HTTP/1.1\r\nX: ", 24);
    raw_send(&c, big, 1 << 20);
    raw_read(&c, answer, sizeof answer, NULL);
    raw_close(&c);
    assert_null(strstr(answer, " 200 "));
    assert_int_equal(site.begun, before);
    free(big);
}

/* Requests that libmicrohttpd accepts and that two readers could understand differently; "$" is a
 * byte 0. Each gets 400, and no handler sees it. */
static void odd_forms(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "GET /hello%%00 HTTP/1.1\r\n%s\r\n",
        "GET /hello%%00/../x HTTP/1.1\r\n%s\r\n",
        "GET /hello?q=a%%00b HTTP/1.1\r\n%s\r\n",
        "GET /hello?q%%00x=a HTTP/1.1\r\n%s\r\n",
        "GET /hello?q%%00 HTTP/1.1\r\n%s\r\n",
        "GET /hello?q=a%%0ab HTTP/1.1\r\n%s\r\n",
        "GET /hello HTTP/1.1\r\nX$Y: a\r\n%s\r\n",
        "GET /hello HTTP/1.1\r\nX: a\x01b\r\n%s\r\n",
        "GET /hello HTTP/1.1\r\nX Y: a\r\n%s\r\n",
        "GET /hello HTTP/1.1\r\nX\t: a\r\n%s\r\n",
        "GET /hello HTTP/1.1\r\n X: a\r\n%s\r\n",
        "GET /hello HTTP/1.1\r\n: a\r\n%s\r\n",
        "GET /hello HTTP/1.1\r\nX(Y): a\r\n%s\r\n",
        "GET /hello HTTP/1.1\r\n%sHost: y\r\n\r\n",
        "PUT /put HTTP/1.1\r\n%sContent-Length : 5\r\n\r\nhello",
        "PUT /put HTTP/1.1\r\n%sContent-Length: 5\r\ncontent-length: 6\r\n\r\nhello",
        "PUT /put HTTP/1.1\r\n%sContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    };
    const int before = site.begun;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        ask(forms[i]);
        if (!strstr(answer, "HTTP/1.1 400 "))
            fail_msg("%s\n%s", forms[i], answer);
    }
    assert_int_equal(site.begun, before);
    assert_true(https_server_count(server, HTTPS_EVENT_FORM) > 10);
    ask("GET /hello?q=a%%01b HTTP/1.1\r\n%s\r\n"); /* and not by the trick with %00 alone */
    has(" 400 ");
    ask("GET /hello?q=a%%09%%7f HTTP/1.1\r\n%s\r\n");
    has(" 400 ");
    ask("GET /hello?q=%%2500 HTTP/1.1\r\nX: a\tb\r\n%s\r\n"); /* decoded once */
    has("client-01 %00\n");
    settle();
}

static void files(void **state)
{
    (void)state;
    ask("GET /file HTTP/1.1\r\n%s\r\n");
    has(" 200 ");
    has("ETag: \"e1\"\r\n");
    has("Content-Length: 10\r\n");
    assert_string_equal(body_of(), "0123456789");
    static const struct {
        const char *headers, *status, *range, *body;
    } t[] = {
        { "Range: bytes=3-5", " 206 ", "bytes 3-5/10", "345" },
        { "Range: bytes=7-", " 206 ", "bytes 7-9/10", "789" },
        { "Range: bytes=-2", " 206 ", "bytes 8-9/10", "89" },
        { "Range: bytes=-20", " 206 ", "bytes 0-9/10", "0123456789" },
        { "Range: bytes=5-500", " 206 ", "bytes 5-9/10", "56789" },
        { "Range: bytes=10-", " 416 ", "bytes */10", "" },
        { "Range: bytes=-0", " 416 ", "bytes */10", "" },
        { "Range: bytes=5-3", " 200 ", "", "0123456789" },
        { "Range: bytes=1-2,4-5", " 200 ", "", "0123456789" },
        { "Range: bytes=x", " 200 ", "", "0123456789" },
        { "Range: bytes=99999999999999999999999-", " 200 ", "", "0123456789" },
        { "Range: bytes=3-5\r\nIf-Range: \"e1\"", " 206 ", "bytes 3-5/10", "345" },
        { "Range: bytes=3-5\r\nIf-Range: \"e0\"", " 200 ", "", "0123456789" },
        { "If-None-Match: \"e1\"", " 304 ", "", "" },
        { "If-None-Match: \"e0\", W/\"e1\"", " 304 ", "", "" },
        { "If-None-Match: *", " 304 ", "", "" },
        { "If-None-Match: \"e0\"", " 200 ", "", "0123456789" },
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        char request[300];
        snprintf(request, sizeof request, "GET /file HTTP/1.1\r\n%%s%s\r\n\r\n", t[i].headers);
        ask(request);
        has(t[i].status);
        has(t[i].range);
        if (strcmp(body_of(), t[i].body) != 0)
            fail_msg("%s: \"%s\"", t[i].headers, answer);
    }
    ask("GET /gone HTTP/1.1\r\n%s\r\n");
    has(" 404 ");
    settle();
}

static void strangers_get_403(void **state)
{
    (void)state;
    static const char *const paths[] = { "/hello", "/put", "/file", "/poll?ms=1", "/" };
    static const struct {
        const char *name;
        x509_verdict_code code;
    } t[] = {
        { NULL, X509_NONE },       { "foreign", X509_UNKNOWN_ISSUER }, { "expired", X509_EXPIRED },
        { "as", X509_WRONG_ROLE }, { "early", X509_NOT_YET },
    };
    char cert[300], key[300];
    int begun = site.begun;
    uint64_t bytes = site.body_bytes;
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        if (t[i].name) {
            net_path(cert, t[i].name, ".pem");
            net_path(key, t[i].name, ".key");
        }
        for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
            raw_tls c;
            char request[300];
            int before = site.refused;
            assert_int_equal(
                raw_open(&c, https_server_port(server), t[i].name ? cert : NULL, key, NULL), 0);
            snprintf(request, sizeof request,
                     "PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", paths[p]);
            assert_true(raw_send(&c, request, strlen(request)));
            raw_read(&c, answer, sizeof answer, NULL);
            raw_close(&c);
            has("HTTP/1.1 403");
            assert_string_equal(body_of(), "certificate not accepted\n");
            assert_int_equal(site.refused, before + 1);
            assert_int_equal(site.code, t[i].code);
        }
    }
    assert_int_equal(site.begun, begun);
    assert_int_equal(site.body_bytes, bytes);
}

static void only_tls_13(void **state)
{
    (void)state;
    raw_tls c;
    assert_true(raw_open(&c, https_server_port(server), client_cert, client_key,
                         "NORMAL:-VERS-ALL:+VERS-TLS1.2") < 0);
    raw_close(&c);
    int fd = raw_connect(https_server_port(server));
    char x[100];
    assert_int_equal(write(fd, "GET /hello HTTP/1.1\r\n\r\n", 23), 23);
    while (read(fd, x, sizeof x) > 0)
        ;
    close(fd);
    ask("GET /hello HTTP/1.1\r\n%s\r\n");
    has(" 200 ");
}

static void uploads(void **state)
{
    (void)state;
    raw_tls c;
    static char head[200], body[3000000];
    ask("PUT /put HTTP/1.1\r\n%sContent-Length: 0\r\n\r\n");
    assert_string_equal(body_of(), "got 0\n");
    ask("PUT /put HTTP/1.1\r\n%sContent-Length: 5\r\n\r\nhello");
    assert_string_equal(body_of(), "got 5\n");
    ask("PUT /put?park=1 HTTP/1.1\r\n%sContent-Length: 5\r\n\r\nhello");
    assert_string_equal(body_of(), "got 5\n");
    /* two large ones on one connection, the first waits for 100 Continue */
    with_client(&c);
    for (int i = 0; i < 2; i++) {
        snprintf(head, sizeof head, "PUT /put HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n%s\r\n",
                 sizeof body, i == 0 ? "Expect: 100-continue\r\n" : "");
        assert_true(raw_send(&c, head, strlen(head)));
        if (i == 0) {
            raw_read(&c, answer, sizeof answer, "\r\n\r\n");
            has("HTTP/1.1 100");
        }
        assert_true(raw_send(&c, body, sizeof body));
        raw_read(&c, answer, sizeof answer, "got");
        has("got 3000000");
    }
    raw_close(&c);
    settle();
}

static void *wake_later(void *arg)
{
    (void)arg;
    usleep(100000);
    site.flag = 7;
    https_wake(server);
    return NULL;
}

static void a_body_that_fails(void **state)
{
    (void)state;
    raw_tls c;
    static char head[200], body[4500000];
    uint64_t before = site.body_bytes;
    with_client(&c);
    snprintf(head, sizeof head,
             "PUT /put?fail=100000 HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
             sizeof body);
    assert_true(raw_send(&c, head, strlen(head)));
    assert_true(raw_send(&c, body, 200000)); /* nothing more: the answer is due now */
    raw_read(&c, answer, sizeof answer, "ciphertext\n");
    raw_close(&c);
    has("HTTP/1.1 422");
    has("Connection: close\r\n");
    assert_string_equal(body_of(), "unit 3: not a ciphertext\n");
    assert_in_range(site.body_bytes - before, 100000, 100000 + 16384);
    /* a sender that continues is cut, and can still read its answer */
    before = site.body_bytes;
    with_client(&c);
    assert_true(raw_send(&c, head, strlen(head)));
    raw_send(&c, body, sizeof body);
    raw_read(&c, answer, sizeof answer, "ciphertext\n");
    raw_close(&c);
    assert_in_range(site.body_bytes - before, 100000, 100000 + 16384);
    /* a peer that leaves */
    int closed = site.ended_closed;
    with_client(&c);
    snprintf(head, sizeof head, "PUT /put HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\nabc");
    assert_true(raw_send(&c, head, strlen(head)));
    usleep(50000);
    raw_close(&c);
    settle();
    assert_int_equal(site.ended_closed, closed + 1);
}

static void long_polls(void **state)
{
    (void)state;
    pthread_t t;
    uint64_t began = now_ms();
    site.flag = 0;
    ask("GET /poll?ms=150 HTTP/1.1\r\n%s\r\n");
    assert_string_equal(body_of(), "waited\n");
    assert_in_range(now_ms() - began, 150, 4500);
    began = now_ms();
    assert_int_equal(pthread_create(&t, NULL, wake_later, NULL), 0);
    ask("GET /poll?ms=4000 HTTP/1.1\r\n%s\r\n");
    assert_string_equal(body_of(), "flag 7\n");
    assert_in_range(now_ms() - began, 90, 3900);
    pthread_join(t, NULL);
    settle();
}

/* ---- many at once ------------------------------------------------------------------------ */

typedef struct visitor {
    pthread_t thread;
    int kind, good;
} visitor;

static void *visit(void *arg)
{
    visitor *v = arg;
    static const char *const request[] = {
        "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n",
        "PUT /put HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        "GET /poll?ms=20000 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /file HTTP/1.1\r\nHost: x\r\nRange: bytes=1-3\r\n\r\n",
    };
    static const char *const want[] = { "GET client-01", "got 5", "flag", "123" };
    raw_tls c;
    char got[2000];
    if (raw_open(&c, https_server_port(server), client_cert, client_key, NULL) == 0)
        for (int i = 0; i < 5; i++) {
            int k = (v->kind + i) % 4;
            if (!raw_send(&c, request[k], strlen(request[k])))
                break;
            raw_read(&c, got, sizeof got, want[k]);
            v->good += strstr(got, want[k]) != NULL;
        }
    raw_close(&c);
    return NULL;
}

static void fifty_at_once(void **state)
{
    (void)state;
    static visitor v[50];
    site.flag = 0;
    for (int i = 0; i < 50; i++) {
        v[i] = (visitor){ .kind = i };
        assert_int_equal(pthread_create(&v[i].thread, NULL, visit, &v[i]), 0);
    }
    usleep(300000);
    site.flag = 1;
    https_wake(server);
    for (int i = 0; i < 50; i++) {
        pthread_join(v[i].thread, NULL);
        assert_int_equal(v[i].good, 5);
    }
    settle();
}

/* ---- tests with separate servers ---------------------------------------------------------- */

static sefl_log talk = { .fd = 2 };

static https_server_config config(void)
{
    return (https_server_config){ .id = as,
                                  .peer_role = "client",
                                  .body_max = 5000000,
                                  .begin = begin,
                                  .refused = refused,
                                  .ctx = &site,
                                  .log = getenv("NET_LOG") ? &talk : NULL };
}

static void limits_on_connections(void **state)
{
    (void)state;
    https_server *first = server;
    https_server_config k = config();
    raw_tls c[4];
    k.threads = 1, k.limits.per_address = 3, k.limits.idle_s = 1;
    CHECK_OK(https_server_start(&server, &k));
    for (int i = 0; i < 3; i++)
        with_client(&c[i]);
    assert_true(raw_open(&c[3], https_server_port(server), client_cert, client_key, NULL) != 0);
    raw_close(&c[3]);
    /* they send nothing, or almost nothing, and are cut after idle_s */
    assert_true(raw_send(&c[0], "GET", 3));
    uint64_t began = now_ms();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(raw_read(&c[i], answer, sizeof answer, NULL), 0);
        raw_close(&c[i]);
    }
    assert_in_range(now_ms() - began, 500, 4000);
    with_client(&c[0]); /* room again */
    raw_close(&c[0]);
    https_server_stop(server);
    server = first;
}

static unsigned status_line(raw_tls *c, const char *request)
{
    assert_true(raw_send(c, request, strlen(request)));
    raw_read(c, answer, sizeof answer, "\r\n\r\n");
    return strncmp(answer, "HTTP/1.1 ", 9) == 0 ? (unsigned)strtoul(answer + 9, NULL, 10) : 0;
}

/* Limits of one client, independent of its address. */
static void limits_of_a_peer(void **state)
{
    (void)state;
    https_server *first = server;
    https_server_config k = config();
    raw_tls c[3];
    unsigned refused_n = 0;
    const char *get = "HEAD /none HTTP/1.1\r\nHost: x\r\n\r\n";
    k.threads = 2, k.limits.per_peer = 2, k.limits.request_rate = 4, k.bytes_burst = 6000;
    CHECK_OK(https_server_start(&server, &k));
    for (int i = 0; i < 3; i++) {
        with_client(&c[i]);
        unsigned status = status_line(&c[i], get);
        if (i < 2)
            assert_true(status != 0 && status != 429);
        else
            assert_int_equal(status, 429);
    }
    assert_non_null(strstr(answer, "Retry-After"));
    assert_int_equal(https_server_count(server, HTTPS_EVENT_PEER_FULL), 1);
    raw_close(&c[2]);
    for (int i = 0; i < 30; i++)
        if (status_line(&c[0], get) == 429) { /* and closed */
            refused_n++;
            raw_close(&c[0]);
            usleep(20000);
            with_client(&c[0]);
        }
    assert_in_range(refused_n, 5, 15); /* 20 at once, 2 were gone */
    assert_true(https_server_count(server, HTTPS_EVENT_PEER_RATE) >= refused_n);
    usleep(1200000);
    /* announced bytes count before the first one arrives */
    const char *put = "PUT /put HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n";
    const int begun = site.begun;
    assert_true(raw_send(&c[0], put, strlen(put)));
    for (unsigned i = 0; i < test_ms(1000) && site.begun == begun; i++)
        usleep(5000);
    assert_int_equal(site.begun, begun + 1);
    assert_int_equal(status_line(&c[1], put), 429);
    assert_int_equal(https_server_count(server, HTTPS_EVENT_PEER_BYTES), 1);
    raw_close(&c[0]);
    raw_close(&c[1]);
    settle();
    https_server_stop(server);
    server = first;
}

/* Strangers fill their half: the oldest of them is cut, and a client is admitted and stays. */
static void strangers_make_place(void **state)
{
    (void)state;
    https_server *first = server;
    https_server_config k = config();
    raw_tls c;
    int fd[12];
    char byte;
    k.threads = 2, k.limits.connections = 8, k.limits.per_address = 100;
    CHECK_OK(https_server_start(&server, &k));
    for (int i = 0; i < 12; i++) {
        fd[i] = raw_connect(https_server_port(server));
        assert_true(fd[i] >= 0);
        usleep(20000);
    }
    assert_true(read(fd[0], &byte, 1) <= 0); /* cut */
    with_client(&c);
    assert_true(status_line(&c, "HEAD /none HTTP/1.1\r\nHost: x\r\n\r\n") != 0);
    for (int i = 0; i < 6; i++) {
        int more = raw_connect(https_server_port(server));
        usleep(20000);
        close(more);
    }
    assert_true(status_line(&c, "HEAD /none HTTP/1.1\r\nHost: x\r\n\r\n") != 0);
    assert_true(https_server_count(server, HTTPS_EVENT_STRANGER) >= 8);
    for (int i = 0; i < 12; i++)
        close(fd[i]);
    raw_close(&c);
    https_server_stop(server);
    server = first;
    /* and a limit on new connections from one address */
    k.limits.connection_rate = 1, k.limits.connections = 0;
    first = server;
    CHECK_OK(https_server_start(&server, &k));
    for (int i = 0; i < 12; i++) {
        fd[i] = raw_connect(https_server_port(server));
        usleep(5000);
    }
    usleep(100000);
    assert_in_range(https_server_count(server, HTTPS_EVENT_ADDRESS_RATE), 1, 2);
    for (int i = 0; i < 12; i++)
        close(fd[i]);
    https_server_stop(server);
    server = first;
}

static void slow_senders_are_cut(void **state)
{
    (void)state;
    https_server *first = server;
    https_server_config k = config();
    raw_tls c;
    k.threads = 1, k.limits.idle_s = 1, k.limits.rate_min = 1000;
    CHECK_OK(https_server_start(&server, &k));
    const char *head = "PUT /put HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n";
    int closed = site.ended_closed;
    uint64_t began = now_ms();
    with_client(&c);
    assert_true(raw_send(&c, head, strlen(head)));
    while (now_ms() - began < 4000 && raw_send(&c, "x", 1))
        usleep(100000);
    assert_in_range(now_ms() - began, 900, 3900);
    raw_close(&c);
    settle();
    assert_int_equal(site.ended_closed, closed + 1);
    https_server_stop(server);
    server = first;
}

/* Bytes that a handler processes again count like bytes that the peer sends. */
static void bytes_looked_at_again(void **state)
{
    (void)state;
    https_server *first = server;
    https_server_config k = config();
    k.threads = 1, k.bytes_burst = 100, k.bytes_rate = 0.01;
    CHECK_OK(https_server_start(&server, &k));
    ask("GET /again HTTP/1.1\r\n%s\r\n");
    has("200");
    ask("GET /again HTTP/1.1\r\n%s\r\n");
    has("429");
    has("Retry-After");
    assert_int_equal(https_server_count(server, HTTPS_EVENT_PEER_BYTES), 1);
    settle();
    https_server_stop(server);
    server = first;
}

/* A handshake that stops halfway does not block the server. */
static void half_a_handshake(void **state)
{
    (void)state;
    struct timespec a, b;
    int fd = raw_connect(https_server_port(server));
    assert_int_equal(write(fd, "\x16\x03\x01\x02\x00\x01", 6), 6);
    usleep(20000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    usleep(300000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    assert_true((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 < 100);
    close(fd);
}

static void *stop_later(void *arg)
{
    usleep(100000);
    https_server_stop(arg);
    return NULL;
}

static void stopping_answers_what_is_parked(void **state)
{
    (void)state;
    https_server *first = server;
    https_server_config k = config();
    raw_tls c;
    pthread_t t;
    const char *request = "GET /poll?ms=9000 HTTP/1.1\r\nHost: x\r\n\r\n";
    CHECK_OK(https_server_start(&server, &k));
    site.flag = 0;
    with_client(&c);
    assert_true(raw_send(&c, request, strlen(request)));
    usleep(50000);
    uint64_t began = now_ms();
    assert_int_equal(pthread_create(&t, NULL, stop_later, server), 0);
    raw_read(&c, answer, sizeof answer, NULL);
    pthread_join(t, NULL);
    assert_in_range(now_ms() - began, 0, 8000);
    has(" 503 ");
    raw_close(&c);
    server = first;
}

/* A new list of CAs applies to open connections too. */
static void another_identity(void **state)
{
    (void)state;
    https_server *first = server;
    https_server_config k = config();
    raw_tls c;
    const char *request = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
    tls_id *other = net_id("as", "ca-foreign");
    CHECK_OK(https_server_start(&server, &k));
    with_client(&c);
    assert_true(raw_send(&c, request, strlen(request)));
    raw_read(&c, answer, sizeof answer, "-\n");
    has(" 200 ");
    https_server_set_id(server, other);
    tls_id_free(other);
    assert_true(raw_send(&c, request, strlen(request)));
    raw_read(&c, answer, sizeof answer, NULL);
    has(" 403 ");
    raw_close(&c);
    https_server_stop(server);
    server = first;
}

static void bad_configurations(void **state)
{
    (void)state;
    https_server *s;
    https_server_config k = config();
    k.begin = NULL;
    CHECK_STATUS(https_server_start(&s, &k), SEFL_EINVAL);
    k = config();
    k.port = https_server_port(server);
    CHECK_STATUS(https_server_start(&s, &k), SEFL_EIO);
    assert_null(s);
    k = config();
    k.address = "::1";
    TEST_FAULTS(FAULT_ALLOC, st = https_server_start(&s, &k), https_server_stop(s));
}

static int set_up(void **state)
{
    int64_t now = time(NULL);
    if (folder_make(state) != 0)
        return -1;
    net_ca("ca-as");
    net_ca("ca-foreign");
    net_cert("as", "aggregator", "127.0.0.1,::1", "ca-as");
    net_cert("client-01", "client", NULL, "ca-as");
    net_cert("foreign", "client", NULL, "ca-foreign");
    net_cert_at("expired", "client", NULL, "ca-as", now - 2 * 86400, 1);
    net_cert_at("early", "client", NULL, "ca-as", now + 86400, 1);
    as = net_id("as", "ca-as");
    client = net_id("client-01", "ca-as");
    net_path(client_cert, "client-01", ".pem");
    net_path(client_key, "client-01", ".key");
    snprintf(site.file, sizeof site.file, "%s", folder_put("file", "0123456789", 10));
    https_server_config k = config();
    CHECK_OK(https_server_start(&server, &k));
    return 0;
}

static int tear_down(void **state)
{
    https_server_stop(server);
    tls_id_free(as);
    tls_id_free(client);
    return folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers),
        cmocka_unit_test(bad_requests),
        cmocka_unit_test(odd_forms),
        cmocka_unit_test(files),
        cmocka_unit_test(strangers_get_403),
        cmocka_unit_test(only_tls_13),
        cmocka_unit_test(a_body_that_fails),
        cmocka_unit_test(long_polls),
        cmocka_unit_test(uploads),
        cmocka_unit_test(fifty_at_once),
        cmocka_unit_test(limits_on_connections),
        cmocka_unit_test(limits_of_a_peer),
        cmocka_unit_test(strangers_make_place),
        cmocka_unit_test(slow_senders_are_cut),
        cmocka_unit_test(bytes_looked_at_again),
        cmocka_unit_test(half_a_handshake),
        cmocka_unit_test(stopping_answers_what_is_parked),
        cmocka_unit_test(another_identity),
        cmocka_unit_test(bad_configurations),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
