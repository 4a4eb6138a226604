#include "net_ids.h"
#include "net_raw.h"

#include "base/file.h"
#include "net/https_client.h"
#include "net/https_server.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BIG = 3000000 };

/* ---- a server ---------------------------------------------------------------------------- */

static struct site {
    _Atomic int requests, body_calls, with_version;
    char file[300], etag[20];
    _Atomic int last_offset;
} site;

static https_server *server;
static tls_id *as, *client;
static uint16_t port;
static uint8_t big[BIG];

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static sefl_status up_body(https_request *r, sefl_span bytes)
{
    uint64_t *got = r->state;
    site.body_calls++;
    if (memcmp(bytes.p, big + *got, bytes.n) != 0)
        return sefl_fail(SEFL_EPROTO, "other bytes at %llu", (unsigned long long)*got);
    *got += bytes.n;
    return SEFL_OK;
}

static void up_end(https_request *r, sefl_status st)
{
    const uint64_t *got = r->state;
    if (st != SEFL_OK)
        https_answer_text(r, 422, "%s", sefl_last_error());
    else
        https_answer_text(r, 200, "up to %llu", (unsigned long long)*got);
}

static void drop(https_request *r)
{
    free(r->state);
}

static void resume(https_request *r)
{
    https_answer_text(r, 200, "waited");
}

static void begin(https_request *r)
{
    const char *version = https_header(r, "Sefl-Version");
    site.requests++;
    site.with_version += version && strcmp(version, "9.7") == 0;
    if (strcmp(r->path, "/hello") == 0) {
        https_answer(r, 200, "text/plain", "ETag: \"abc\"\nSefl-Offset: 12345\n",
                     span_of("hello", 5));
    } else if (strcmp(r->path, "/moved") == 0) {
        https_answer(r, 302, NULL, "Location: /hello\n", (sefl_span){ 0 });
    } else if (strcmp(r->path, "/file") == 0) {
        https_answer_file(r, site.file, "application/octet-stream", site.etag);
    } else if (strcmp(r->path, "/wait") == 0) {
        r->resume = resume;
        https_park(r, now_ms() + strtoull(https_query(r, "ms"), NULL, 10));
    } else if (strcmp(r->path, "/put") == 0) {
        const char *o = https_header(r, "Sefl-Offset");
        uint64_t *got = calloc(1, sizeof *got);
        *got = o ? strtoull(o, NULL, 10) : 0;
        r->state = got;
        r->body = up_body, r->end = up_end, r->drop = drop;
    } else {
        https_answer_text(r, 404, "nothing here");
    }
}

static https_client *dial(void)
{
    https_client *c;
    CHECK_OK(https_client_new(&c, &(https_client_config){ .host = "127.0.0.1",
                                                          .port = port,
                                                          .id = client,
                                                          .proxy = "",
                                                          .number_field = "Sefl-Offset" }));
    return c;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void gets(void **state)
{
    (void)state;
    https_client *c = dial();
    https_reply r;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(https_get(c, "/hello", 100, 0, &r));
        assert_int_equal(r.status, 200);
        assert_int_equal(r.body.n, 5);
        assert_memory_equal(r.body.p, "hello", 5);
        assert_string_equal(r.etag, "abc");
        assert_int_equal(r.number, 12345);
        https_reply_clear(&r);
    }
    CHECK_OK(https_head(c, "/hello", NULL, &r));
    assert_int_equal(r.number, 12345);
    assert_int_equal(r.body.n, 0);
    https_reply_clear(&r);
    CHECK_STATUS(https_get(c, "/hello", 4, 0, &r), SEFL_ERANGE);
    https_reply_clear(&r);
    CHECK_OK(https_get(c, "/moved", 100, 0, &r));
    assert_int_equal(r.status, 302);
    assert_int_equal(r.number, UINT64_MAX);
    https_reply_clear(&r);
    CHECK_OK(https_get(c, "/none", 100, 0, &r));
    assert_int_equal(r.status, 404);
    https_reply_clear(&r);
    CHECK_STATUS(https_get(c, "no slash", 100, 0, &r), SEFL_EINVAL);
    https_reply_clear(&r);
    https_client_free(c);
}

static void downloads(void **state)
{
    (void)state;
    https_client *c = dial();
    https_reply r;
    sefl_buf b = { 0 };
    char to[300], part[310], side[320];
    snprintf(to, sizeof to, "%s", folder_path("got"));
    snprintf(part, sizeof part, "%s.part", to);
    snprintf(side, sizeof side, "%s.part.etag", to);
    static const struct {
        const char *have_etag;
        size_t have;
        uint64_t want_received;
    } t[] = {
        { NULL, 0, BIG },       { "v1", 1000000, BIG - 1000000 }, /* continues */
        { "v0", 1000000, BIG }, { NULL, 1000000, BIG }, /* of another file; of an unknown one */
        { "v1", 0, BIG },       { "v1", BIG + 5, BIG }, /* longer than the file: 416 */
        { "v1", BIG, BIG },
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        if (t[i].have) {
            FILE *f = fopen(part, "w");
            for (size_t n = 0; n < t[i].have; n++)
                fputc(n < BIG ? big[n] : 0, f);
            fclose(f);
        }
        if (t[i].have_etag)
            folder_put("got.part.etag", t[i].have_etag, 2);
        CHECK_OK(https_get_file(c, "/file", to, BIG, NULL, &r));
        assert_int_equal(r.status, 200 + (t[i].want_received != BIG) * 6);
        assert_int_equal(r.received, t[i].want_received);
        assert_string_equal(r.etag, "v1");
        https_reply_clear(&r);
        CHECK_OK(file_read(&b, to, BIG));
        assert_int_equal(b.n, BIG);
        assert_memory_equal(b.p, big, BIG);
        buf_clear(&b);
        assert_int_equal(access(part, F_OK), -1);
        assert_int_equal(access(side, F_OK), -1);
        unlink(to);
    }
    CHECK_STATUS(https_get_file(c, "/file", to, BIG - 1, NULL, &r), SEFL_ERANGE);
    https_reply_clear(&r);
    assert_int_equal(access(part, F_OK), -1);
    CHECK_OK(https_get_file(c, "/none", to, BIG, NULL, &r));
    assert_int_equal(r.status, 404);
    assert_memory_equal(r.body.p, "nothing here\n", 13);
    https_reply_clear(&r);
    assert_int_equal(access(to, F_OK), -1);
    /* the disk is full: reported, and the next attempt succeeds */
    TEST_FAULTS(FAULT_WRITE,
                (st = https_get_file(c, "/file", to, BIG, NULL, &r), https_reply_clear(&r)),
                (void)0);
    TEST_FAULTS(FAULT_SYNC,
                (st = https_get_file(c, "/file", to, BIG, NULL, &r), https_reply_clear(&r)),
                (void)0);
    CHECK_OK(file_read(&b, to, BIG));
    assert_memory_equal(b.p, big, BIG);
    buf_clear(&b);
    https_client_free(c);
}

static bool count(void *self, uint64_t done, uint64_t total)
{
    uint64_t *last = self;
    assert_true(done >= *last && total == BIG);
    *last = done;
    return true;
}

static bool refuse(void *self, uint64_t done, uint64_t total)
{
    (void)self, (void)total;
    return done < 100000;
}

static void uploads(void **state)
{
    (void)state;
    https_client *c = dial();
    https_reply r;
    uint64_t last = 0;
    const sefl_progress p = { .report = count, .self = &last }, stop = { .report = refuse };
    CHECK_OK(https_put_file(c, "/put", site.file, 0, NULL, &p, &r));
    assert_int_equal(r.status, 200);
    assert_memory_equal(r.body.p, "up to 3000000\n", 14);
    assert_int_equal(r.sent, BIG);
    assert_int_equal(last, BIG);
    https_reply_clear(&r);
    CHECK_OK(
        https_put_file(c, "/put", site.file, 2999990, "Sefl-Offset: 2999990\nX-A: b\n", NULL, &r));
    assert_memory_equal(r.body.p, "up to 3000000\n", 14);
    assert_int_equal(r.sent, 10);
    https_reply_clear(&r);
    CHECK_OK(https_put_file(c, "/put", site.file, BIG, "Sefl-Offset: 3000000\n", NULL, &r));
    assert_memory_equal(r.body.p, "up to 3000000\n", 14);
    https_reply_clear(&r);
    /* refused before the body is sent */
    int calls = site.body_calls;
    CHECK_OK(https_put_file(c, "/hello", site.file, 0, NULL, NULL, &r));
    assert_int_equal(r.status, 200);
    assert_int_equal(r.sent, 0);
    assert_int_equal(site.body_calls, calls);
    https_reply_clear(&r);
    /* a refusal in the middle arrives */
    CHECK_OK(https_put_file(c, "/put", site.file, 0, "Sefl-Offset: 7\n", NULL, &r));
    assert_int_equal(r.status, 422);
    assert_memory_equal(r.body.p, "other bytes at 7\n", 17);
    https_reply_clear(&r);
    CHECK_STATUS(https_put_file(c, "/put", site.file, 0, NULL, &stop, &r), SEFL_ECANCELLED);
    https_reply_clear(&r);
    CHECK_STATUS(https_put_file(c, "/put", "/nonexistent", 0, NULL, NULL, &r), SEFL_ENOTFOUND);
    https_reply_clear(&r);
    CHECK_STATUS(https_put_file(c, "/put", site.file, BIG + 1, NULL, NULL, &r), SEFL_EINVAL);
    https_reply_clear(&r);
    https_client_free(c);
}

static bool only_a(const char *name, size_t n)
{
    return n == 1 && *name == 'A';
}

/* A client with a list of headers sends no other, however its name was built. */
static void headers_of_a_list(void **state)
{
    (void)state;
    https_client *c;
    https_reply r;
    https_client_config k = { .host = "127.0.0.1",
                              .port = port,
                              .id = client,
                              .proxy = "",
                              .headers = "A: 1\nB: 2\n",
                              .may_send = only_a };
    CHECK_STATUS(https_client_new(&c, &k), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "no header \"B\""));
    k.headers = "A: 1\n";
    CHECK_OK(https_client_new(&c, &k));
    int before = site.requests;
    CHECK_OK(https_head(c, "/hello", "A: 2\n", &r));
    https_reply_clear(&r);
    CHECK_STATUS(https_head(c, "/hello", "A: 2\nAB: 3\n", &r), SEFL_EINVAL);
    https_reply_clear(&r);
    CHECK_STATUS(https_put_file(c, "/put", site.file, BIG, "Loss: 3\n", NULL, &r), SEFL_EINVAL);
    https_reply_clear(&r);
    assert_int_equal(site.requests - before, 1);
    https_client_free(c);
}

/* The common header lines are in every kind of request, with or without its own headers. */
static void lines_for_every_request(void **state)
{
    (void)state;
    https_client *c;
    https_reply r;
    char to[300];
    CHECK_OK(https_client_new(&c, &(https_client_config){ .host = "127.0.0.1",
                                                          .port = port,
                                                          .id = client,
                                                          .proxy = "",
                                                          .headers = "Sefl-Version: 9.7\n" }));
    snprintf(to, sizeof to, "%s", folder_path("every"));
    int before = site.requests, had = site.with_version;
    CHECK_OK(https_get(c, "/hello", 100, 0, &r));
    https_reply_clear(&r);
    CHECK_OK(https_head(c, "/hello", "X-A: b\n", &r));
    https_reply_clear(&r);
    CHECK_OK(https_post(c, "/put", span_of(big, 100), 100, 0, &r));
    assert_int_equal(r.status, 200);
    assert_memory_equal(r.body.p, "up to 100\n", 10);
    https_reply_clear(&r);
    CHECK_OK(https_put_file(c, "/put", site.file, BIG, "Sefl-Offset: 3000000\n", NULL, &r));
    https_reply_clear(&r);
    CHECK_OK(https_get_file(c, "/file", to, BIG, NULL, &r));
    https_reply_clear(&r);
    assert_int_equal(site.requests - before, 5);
    assert_int_equal(site.with_version - had, 5);
    https_client_free(c);
}

static void *interrupt_later(void *arg)
{
    usleep(100000);
    https_client_interrupt(arg);
    return NULL;
}

static void waits(void **state)
{
    (void)state;
    https_client *c;
    https_reply r;
    pthread_t t;
    CHECK_OK(https_client_new(&c, &(https_client_config){ .host = "127.0.0.1",
                                                          .port = port,
                                                          .id = client,
                                                          .stall_s = 1,
                                                          .connect_ms = test_ms(100) }));
    CHECK_OK(https_get(c, "/wait?ms=1500", 100, 10, &r));
    assert_memory_equal(r.body.p, "waited\n", 7);
    https_reply_clear(&r);
    uint64_t began = now_ms();
    CHECK_STATUS(https_get(c, "/wait?ms=9000", 100, 0, &r), SEFL_ETIMEOUT);
    assert_in_range(now_ms() - began, 1000, 8000);
    https_reply_clear(&r);
    began = now_ms();
    assert_int_equal(pthread_create(&t, NULL, interrupt_later, c), 0);
    CHECK_STATUS(https_get(c, "/wait?ms=9000", 100, 10, &r), SEFL_ECANCELLED);
    assert_in_range(now_ms() - began, 90, 8000);
    pthread_join(t, NULL);
    https_reply_clear(&r);
    CHECK_STATUS(https_get(c, "/hello", 100, 10, &r), SEFL_ECANCELLED);
    https_reply_clear(&r);
    https_client_free(c);
}

/* A server that answers at once, and then sends its body very slowly. */
static void *drip(void *arg)
{
    const int *fd = arg;
    tls *t;
    char c, last[4] = "";
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
    if (tls_accept(&t, *fd, as, &(tls_peer){ .role = "client" }, 10000,
                   &(tls_limits){ .idle_ms = 20000 }) != SEFL_OK)
        return NULL;
    channel *ch = tls_channel(t);
    while (memcmp(last, "\r\n\r\n", 4) != 0 && channel_recv(ch, &c, 1) == SEFL_OK) {
        memmove(last, last + 1, 3);
        last[3] = c;
    }
    sefl_status st = channel_send(ch, head, strlen(head));
    for (int i = 0; i < 300 && st == SEFL_OK; i++) {
        if ((st = channel_send(ch, "x", 1)) == SEFL_OK)
            st = channel_flush(ch);
        usleep(100000);
    }
    tls_close(t);
    return NULL;
}

static void drops_are_not_waited_for(void **state)
{
    (void)state;
    https_client *c;
    https_reply r;
    pthread_t t;
    int fd;
    uint16_t at;
    CHECK_OK(tls_listen(&fd, "127.0.0.1", 0, &at));
    assert_int_equal(pthread_create(&t, NULL, drip, &fd), 0);
    CHECK_OK(https_client_new(
        &c, &(https_client_config){
                .host = "127.0.0.1", .port = at, .id = client, .stall_s = 1, .proxy = "" }));
    uint64_t began = now_ms();
    CHECK_STATUS(https_get(c, "/slow", 100000, 0, &r), SEFL_ETIMEOUT);
    assert_in_range(now_ms() - began, 1900, 15000);
    assert_non_null(strstr(sefl_last_error(), "slower than 1024 bytes per second"));
    https_reply_clear(&r);
    https_client_free(c);
    pthread_join(t, NULL);
    close(fd);
}

/* The server is verified before the request leaves. */
static void servers_are_judged(void **state)
{
    (void)state;
    static const struct {
        const char *name, *role, *hosts, *ca, *trust, *word;
    } t[] = {
        { "s-role", "csp", "127.0.0.1", "ca-as", "ca-as",
          "role \"csp\" instead of \"aggregator\"" },
        { "s-host", "aggregator", "192.0.2.1,as.example", "ca-as", "ca-as", "127.0.0.1" },
        { "s-foreign", "aggregator", "127.0.0.1", "ca-foreign", "ca-as", "certificate" },
        { "s-old", "aggregator", "127.0.0.1", "ca-as", "ca-as", "expir" },
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        int64_t from = strcmp(t[i].name, "s-old") == 0 ? time(NULL) - 3 * 86400 : 0;
        net_cert_at(t[i].name, t[i].role, t[i].hosts, t[i].ca, from, 1);
        tls_id *id = net_id(t[i].name, "ca-as");
        https_server *s;
        https_client *c;
        https_reply r;
        int before = site.requests;
        CHECK_OK(https_server_start(
            &s, &(https_server_config){ .id = id, .peer_role = "client", .begin = begin }));
        CHECK_OK(https_client_new(&c, &(https_client_config){ .host = "127.0.0.1",
                                                              .port = https_server_port(s),
                                                              .id = client }));
        CHECK_STATUS(https_get(c, "/hello", 100, 0, &r), SEFL_EAUTH);
        if (!strstr(sefl_last_error(), t[i].word))
            fail_msg("\"%s\" does not say \"%s\"", sefl_last_error(), t[i].word);
        https_reply_clear(&r);
        assert_int_equal(site.requests, before);
        https_client_free(c);
        https_server_stop(s);
        tls_id_free(id);
    }
}

static void wrong_clients_are_told(void **state)
{
    (void)state;
    https_client *c;
    https_reply r;
    net_cert("c-foreign", "client", NULL, "ca-foreign");
    tls_id *id = net_id("c-foreign", "ca-as");
    CHECK_OK(https_client_new(
        &c, &(https_client_config){ .host = "127.0.0.1", .port = port, .id = id, .proxy = "" }));
    CHECK_OK(https_get(c, "/hello", 100, 0, &r));
    assert_int_equal(r.status, 403);
    https_reply_clear(&r);
    https_client_free(c);
    tls_id_free(id);
}

static void nobody_there(void **state)
{
    (void)state;
    https_client *c;
    https_reply r;
    int fd;
    uint16_t p;
    CHECK_OK(tls_listen(&fd, "::1", 0, &p)); /* accepts connections, sends nothing */
    CHECK_OK(https_client_new(
        &c, &(https_client_config){ .host = "::1", .port = p, .id = client, .connect_ms = 200 }));
    CHECK_STATUS(https_get(c, "/hello", 100, 0, &r), SEFL_ETIMEOUT);
    https_reply_clear(&r);
    close(fd);
    CHECK_STATUS(https_get(c, "/hello", 100, 0, &r), SEFL_EIO);
    https_reply_clear(&r);
    https_client_free(c);
    const https_client_config bad[] = {
        { .host = "", .port = 1, .id = client },
        { .host = "a/b", .port = 1, .id = client },
        { .host = "a", .port = 0, .id = client },
        { .host = "a", .port = 1 },
        { .host = "a", .port = 1, .id = client, .proxy = "socks5://x" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STATUS(https_client_new(&c, &bad[i]), SEFL_EINVAL);
    const https_client_config good = {
        .host = "a", .port = 1, .id = client, .proxy = "http://b:1"
    };
    TEST_FAULTS(FAULT_ALLOC, st = https_client_new(&c, &good), https_client_free(c));
}

/* libcurl 7.88 refuses an option on a handle after a failed look-up: every later request would fail
 * with "A libcurl function was given a bad argument", even if the name resolves again. The name has
 * a label that is too long, so no server is asked. */
static void a_name_that_is_not_found(void **state)
{
    (void)state;
    https_client *c;
    https_reply r;
    char host[81];
    memset(host, 'a', sizeof host - 1), host[sizeof host - 1] = 0;
    CHECK_OK(https_client_new(
        &c, &(https_client_config){ .host = host, .port = port, .id = client, .proxy = "" }));
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(https_get(c, "/", 100, 0, &r), SEFL_EIO);
        if (!strstr(sefl_last_error(), "resolve host"))
            fail_msg("try %d: %s", i, sefl_last_error());
        https_reply_clear(&r);
    }
    https_client_free(c);
}

static void over_ipv6(void **state)
{
    (void)state;
    https_server *s;
    https_client *c;
    https_reply r;
    CHECK_OK(https_server_start(
        &s, &(https_server_config){
                .address = "::1", .id = as, .peer_role = "client", .begin = begin }));
    CHECK_OK(https_client_new(
        &c, &(https_client_config){ .host = "::1", .port = https_server_port(s), .id = client }));
    CHECK_OK(https_get(c, "/hello", 100, 0, &r));
    assert_int_equal(r.status, 200);
    https_reply_clear(&r);
    https_client_free(c);
    https_server_stop(s);
}

/* ---- a small CONNECT proxy that can cut connections --------------------------------------- */

enum { FLOOD_MS = 8000 };

typedef struct proxy {
    int fd;
    uint16_t port;
    pthread_t thread;
    _Atomic long cut_after; /* bytes towards the client; 0: never */
    _Atomic int tunnels;
    _Atomic bool over, floods; /* floods: 407, and a body without end (for FLOOD_MS) */
    char seen[256];            /* the latest request line and headers */
} proxy;

static void relay(proxy *x, int a, int b)
{
    static char buf[1 << 14];
    long down = 0;
    while (!x->over) {
        struct pollfd p[2] = { { .fd = a, .events = POLLIN }, { .fd = b, .events = POLLIN } };
        if (poll(p, 2, 50) <= 0)
            continue;
        for (int i = 0; i < 2; i++) {
            if (!p[i].revents)
                continue;
            ssize_t n = read(p[i].fd, buf, sizeof buf);
            if (n <= 0)
                return;
            if (i == 1 && x->cut_after && (down += n) > x->cut_after)
                return;
            for (ssize_t at = 0; at < n;) {
                ssize_t k = send(i ? a : b, buf + at, (size_t)(n - at), MSG_NOSIGNAL);
                if (k <= 0)
                    return;
                at += k;
            }
        }
    }
}

/* Longer than any test waits, but not forever: a client that does not leave is detected as late. */
static void flood(proxy *x, int a)
{
    static const char bytes[1 << 14];
    const char *head = "HTTP/1.1 407 no\r\nProxy-Authenticate: Basic realm=\"x\"\r\n"
                       "Content-Length: 99999999999\r\n\r\n";
    uint64_t began = now_ms();
    x->tunnels++;
    ssize_t n = send(a, head, strlen(head), MSG_NOSIGNAL);
    while (n > 0 && !x->over && now_ms() - began < FLOOD_MS)
        n = send(a, bytes, sizeof bytes, MSG_NOSIGNAL);
}

static void *proxy_thread(void *arg)
{
    proxy *x = arg;
    while (!x->over) {
        struct pollfd p = { .fd = x->fd, .events = POLLIN };
        if (poll(&p, 1, 50) <= 0)
            continue;
        int a = accept(x->fd, NULL, NULL);
        size_t n = 0;
        while (n + 1 < sizeof x->seen && read(a, x->seen + n, 1) == 1) {
            x->seen[++n] = 0;
            if (n >= 4 && memcmp(x->seen + n - 4, "\r\n\r\n", 4) == 0)
                break;
        }
        if (x->floods) {
            flood(x, a);
            close(a);
            continue;
        }
        unsigned to = 0;
        const char *colon = strchr(x->seen, ':');
        if (strncmp(x->seen, "CONNECT ", 8) == 0 && colon)
            to = (unsigned)strtoul(colon + 1, NULL, 10);
        int b = to ? raw_connect((uint16_t)to) : -1;
        if (b >= 0) {
            x->tunnels++;
            const char *ok = "HTTP/1.1 200 ok\r\nETag: \"proxy\"\r\n\r\n";
            if (send(a, ok, strlen(ok), MSG_NOSIGNAL) > 0)
                relay(x, a, b);
            close(b);
        } else {
            (void)!send(a, "HTTP/1.1 403 no\r\n\r\n", 19, MSG_NOSIGNAL);
        }
        close(a);
    }
    return NULL;
}

static void proxy_start(proxy *x)
{
    CHECK_OK(tls_listen(&x->fd, "127.0.0.1", 0, &x->port));
    assert_int_equal(pthread_create(&x->thread, NULL, proxy_thread, x), 0);
}

static void proxy_stop(proxy *x)
{
    x->over = true;
    pthread_join(x->thread, NULL);
    close(x->fd);
}

static void through_a_proxy(void **state)
{
    (void)state;
    static proxy x;
    char url[64];
    https_client *c;
    https_reply r;
    x = (proxy){ 0 };
    proxy_start(&x);
    snprintf(url, sizeof url, "http://user:word@127.0.0.1:%u", x.port);
    for (int from_environment = 0; from_environment < 2; from_environment++) {
        setenv("https_proxy", from_environment ? url : "http://127.0.0.1:1", 1);
        CHECK_OK(
            https_client_new(&c, &(https_client_config){ .host = "127.0.0.1",
                                                         .port = port,
                                                         .id = client,
                                                         .proxy = from_environment ? NULL : url }));
        CHECK_OK(https_get(c, "/hello", 100, 0, &r));
        assert_int_equal(r.status, 200);
        assert_string_equal(r.etag, "abc");
        https_reply_clear(&r);
        https_client_free(c);
        assert_int_equal(x.tunnels, 1 + from_environment);
    }
    assert_non_null(strstr(x.seen, "Proxy-Authorization: Basic"));
    /* no proxy, although the environment names one */
    setenv("https_proxy", "http://127.0.0.1:1", 1);
    c = dial();
    CHECK_OK(https_get(c, "/hello", 100, 0, &r));
    https_reply_clear(&r);
    https_client_free(c);
    unsetenv("https_proxy");
    assert_int_equal(x.tunnels, 2);
    proxy_stop(&x);
}

/* A proxy with an endless refusal: the client gives up in time, and at once when asked to stop. */
static void a_proxy_that_floods(void **state)
{
    (void)state;
    static proxy x;
    char url[64];
    https_client *c;
    https_reply r;
    pthread_t t;
    x = (proxy){ .floods = true };
    proxy_start(&x);
    snprintf(url, sizeof url, "http://127.0.0.1:%u", x.port);
    CHECK_OK(https_client_new(
        &c,
        &(https_client_config){
            .host = "127.0.0.1", .port = port, .id = client, .proxy = url, .connect_ms = 500 }));
    uint64_t began = now_ms();
    CHECK_STATUS(https_get(c, "/hello", 100, 0, &r), SEFL_ETIMEOUT);
    assert_in_range(now_ms() - began, 500, FLOOD_MS - 2000);
    https_reply_clear(&r);
    https_client_free(c);
    CHECK_OK(https_client_new(
        &c,
        &(https_client_config){ .host = "127.0.0.1", .port = port, .id = client, .proxy = url }));
    began = now_ms();
    assert_int_equal(pthread_create(&t, NULL, interrupt_later, c), 0);
    CHECK_STATUS(https_get(c, "/hello", 100, 0, &r), SEFL_ECANCELLED);
    assert_in_range(now_ms() - began, 90, FLOOD_MS - 2000);
    pthread_join(t, NULL);
    https_reply_clear(&r);
    https_client_free(c);
    assert_int_equal(x.tunnels, 2);
    proxy_stop(&x);
}

static void a_cut_download_goes_on(void **state)
{
    (void)state;
    static proxy x;
    char url[64], to[300], part[310];
    https_client *c;
    https_reply r;
    struct stat sb;
    sefl_buf b = { 0 };
    x = (proxy){ .cut_after = 1000000 };
    proxy_start(&x);
    snprintf(url, sizeof url, "127.0.0.1:%u", x.port);
    snprintf(to, sizeof to, "%s", folder_path("cut"));
    snprintf(part, sizeof part, "%s.part", to);
    CHECK_OK(https_client_new(
        &c,
        &(https_client_config){ .host = "127.0.0.1", .port = port, .id = client, .proxy = url }));
    off_t had = 0;
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(https_get_file(c, "/file", to, BIG, NULL, &r), SEFL_EIO);
        https_reply_clear(&r);
        assert_int_equal(stat(part, &sb), 0);
        assert_true(sb.st_size > had + 500000);
        had = sb.st_size;
    }
    x.cut_after = 0;
    CHECK_OK(https_get_file(c, "/file", to, BIG, NULL, &r));
    assert_int_equal(r.status, 206);
    assert_int_equal(r.received, BIG - (uint64_t)had);
    https_reply_clear(&r);
    CHECK_OK(file_read(&b, to, BIG));
    assert_int_equal(b.n, BIG);
    assert_memory_equal(b.p, big, BIG);
    buf_clear(&b);
    https_client_free(c);
    proxy_stop(&x);
}

static int set_up(void **state)
{
    seeded g;
    if (folder_make(state) != 0)
        return -1;
    unsetenv("https_proxy"), unsetenv("HTTPS_PROXY"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
    unsetenv("no_proxy"), unsetenv("NO_PROXY");
    net_ca("ca-as");
    net_ca("ca-foreign");
    net_cert("as", "aggregator", "127.0.0.1,::1", "ca-as");
    net_cert("client-01", "client", NULL, "ca-as");
    as = net_id("as", "ca-as");
    client = net_id("client-01", "ca-as");
    seeded_init(&g, 1, "file");
    seeded_fill(&g, big, BIG);
    snprintf(site.file, sizeof site.file, "%s", folder_put("file", big, BIG));
    strcpy(site.etag, "v1");
    CHECK_OK(https_server_start(
        &server, &(https_server_config){
                     .id = as, .peer_role = "client", .body_max = BIG, .begin = begin }));
    port = https_server_port(server);
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
        cmocka_unit_test(gets),
        cmocka_unit_test(downloads),
        cmocka_unit_test(uploads),
        cmocka_unit_test(lines_for_every_request),
        cmocka_unit_test(headers_of_a_list),
        cmocka_unit_test(waits),
        cmocka_unit_test(drops_are_not_waited_for),
        cmocka_unit_test(servers_are_judged),
        cmocka_unit_test(wrong_clients_are_told),
        cmocka_unit_test(nobody_there),
        cmocka_unit_test(a_name_that_is_not_found),
        cmocka_unit_test(over_ipv6),
        cmocka_unit_test(through_a_proxy),
        cmocka_unit_test(a_proxy_that_floods),
        cmocka_unit_test(a_cut_download_goes_on),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
