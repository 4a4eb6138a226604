/* The server of pages: streams, slow readers, limits, TLS. */
#include "support/check.h"

#include "base/alloc.h"
#include "net/web_server.h"
#include "unit/host/net/net_ids.h"
#include "unit/host/net/net_raw.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

typedef struct seen {
    _Atomic unsigned requests;
    x509_peer peer;
} seen;

static void handle(void *ctx, const web_request *r, web_answer *a)
{
    seen *s = ctx;
    s->requests++;
    s->peer = r->peer;
    if (strcmp(r->path, "/events") == 0) {
        a->type = "text/event-stream";
        a->stream = true;
        (void)!wr_fmt(&a->body, "first\n\n");
    } else if (strcmp(r->path, "/what") == 0) {
        const char *q = web_query(r, "q"), *c = web_cookie(r, "c"), *h = web_header(r, "Host");
        (void)!wr_fmt(&a->body, "q=%s c=%s h=%s\n", q ? q : "-", c ? c : "-", h ? h : "-");
        (void)!wr_fmt(&a->headers, "X-More: yes\nX-Two: 2\n");
    } else {
        a->status = 404;
    }
}

static web_server *start(seen *s, unsigned streams, unsigned idle_s, const tls_id *id)
{
    web_server *w;
    *s = (seen){ 0 };
    CHECK_OK(web_server_start(&w, &(web_server_config){ .address = "127.0.0.1",
                                                        .connections = 24,
                                                        .streams = streams,
                                                        .idle_s = idle_s,
                                                        .headers = "X-All: here\n",
                                                        .id = id,
                                                        .handle = handle,
                                                        .ctx = s }));
    return w;
}

static int send_text(const web_server *w, const char *text)
{
    int fd = raw_connect(web_server_port(w));
    assert_true(fd >= 0);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return fd;
}

static void wait_streams(web_server *w, unsigned n)
{
    for (int i = 0; i < 2000 && web_server_streams(w) != n; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    assert_int_equal(web_server_streams(w), n);
}

static void answers(void **state)
{
    (void)state;
    seen s;
    web_server *w = start(&s, 4, 5, NULL);
    int fd = send_text(w, "GET /what?q=1%202 HTTP/1.1\r\nHost: x\r\nCookie: b=7; c=abc\r\n\r\n");
    const char *got = raw_until(fd, NULL, 5000);
    assert_non_null(strstr(got, "q=1 2 c=abc h=x"));
    assert_non_null(strstr(got, "X-More: yes\r\n"));
    assert_non_null(strstr(got, "X-Two: 2\r\n"));
    assert_non_null(strstr(got, "X-All: here\r\n"));
    assert_non_null(strstr(got, "no-store"));
    close(fd);
    fd = send_text(w, "PUT /what HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n");
    got = raw_until(fd, NULL, 5000);
    assert_non_null(strstr(got, " 405 "));
    assert_non_null(strstr(got, "Allow: GET, HEAD"));
    assert_non_null(strstr(got, "X-All: here\r\n"));
    assert_int_equal(s.requests, 1);
    close(fd);
    fd = send_text(w, "HEAD /events HTTP/1.1\r\nHost: x\r\n\r\n"); /* opens no stream */
    got = raw_until(fd, NULL, 5000);
    assert_non_null(strstr(got, " 200 "));
    assert_null(strstr(got, "first"));
    assert_int_equal(web_server_streams(w), 0);
    close(fd);
    web_server_stop(w);
}

static void streams(void **state)
{
    (void)state;
    seen s;
    web_server *w = start(&s, 4, 5, NULL);
    int a = send_text(w, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_non_null(strstr(raw_until(a, "first\n\n", 5000), "text/event-stream"));
    wait_streams(w, 1);
    web_server_publish(w, span_of_str("second\n\n"));
    assert_non_null(strstr(raw_until(a, "second\n\n", 5000), "second\n\n"));
    web_server_beat(w);
    assert_non_null(strstr(raw_until(a, ":\n\n", 5000), ":\n\n"));
    int b = send_text(w, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
    const char *got = raw_until(b, "first\n\n", 5000);
    assert_null(strstr(got, "second")); /* it is in the first bytes already */
    close(b);
    for (int i = 0; i < 200 && web_server_streams(w) > 1; i++) { /* the second write fails */
        web_server_publish(w, span_of_str("third\n\n"));
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    wait_streams(w, 1);
    web_server_stop(w); /* ends the stream */
    assert_non_null(strstr(raw_until(a, NULL, 5000), "third"));
    close(a);
}

/* Streams that never read, more than the limit, do not stop the server or another stream. */
static void no_readers(void **state)
{
    (void)state;
    enum { LAZY = 8 };
    seen s;
    int lazy[LAZY];
    web_server *w = start(&s, LAZY, 2, NULL);
    char *big = malloc(1 << 20);
    memset(big, 'x', 1 << 20);
    for (int i = 0; i < LAZY; i++) {
        lazy[i] = send_text(w, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
        wait_streams(w, (unsigned)i + 1);
    }
    for (int i = 0; i < 50; i++) { /* 50 MiB each, were they kept */
        const size_t before = sefl_heap_live();
        web_server_publish(w, span_of(big, 1 << 20));
        assert_true(sefl_heap_live() < before + (3 << 20));
    }
    assert_true(sefl_heap_live() < (LAZY + 2) * (size_t)(3 << 20));
    int fd = send_text(w, "GET /what HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_non_null(strstr(raw_until(fd, NULL, 5000), " 200 "));
    close(fd);
    int keen = send_text(w, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n"); /* ends the oldest */
    assert_non_null(strstr(raw_until(keen, "first\n\n", 5000), "first\n\n"));
    web_server_publish(w, span_of_str("small\n\n"));
    assert_non_null(strstr(raw_until(keen, "small\n\n", 5000), "small\n\n"));
    close(keen);
    for (int i = 0; i < 1000 && web_server_streams(w) > 0; i++) { /* silent for too long */
        web_server_publish(w, span_of(big, 1 << 20));
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
    assert_int_equal(web_server_streams(w), 0);
    for (int i = 0; i < LAZY; i++)
        close(lazy[i]);
    free(big);
    web_server_stop(w);
}

/* Peers that send one byte of their request after the other hold no place for long: somebody else
 * gets an answer each time. */
static void slow_requests(void **state)
{
    (void)state;
    enum { SLOW = 24 + 6 };
    seen s;
    int slow[SLOW];
    web_server *w = start(&s, 4, 60, NULL);
    for (int i = 0; i < SLOW; i++)
        slow[i] = send_text(w, "G");
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < SLOW; k++)
            (void)!send(slow[k], "E", 1, MSG_NOSIGNAL);
        int fd = send_text(w, "GET /what HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_non_null(strstr(raw_until(fd, NULL, test_ms(5000)), " 200 "));
        close(fd);
    }
    for (int i = 0; i < SLOW; i++)
        close(slow[i]);
    web_server_stop(w);
}

static void certificates(void **state)
{
    (void)state;
    seen s;
    char cert[300], key[300], got[2048];
    x509_info info;
    sefl_buf pem = { 0 };
    net_ca("ca"), net_ca("other");
    net_cert("server", "aggregator", "127.0.0.1", "ca");
    net_cert("viewer", "client", NULL, "other"); /* its CA does not matter, only its key */
    tls_id *id = net_id("server", "ca");
    web_server *w = start(&s, 4, 5, id);
    const char text[] = "GET /what HTTP/1.1\r\nHost: x\r\n\r\n";
    raw_tls c;
    assert_true(raw_open(&c, web_server_port(w), NULL, NULL, NULL) >= 0);
    assert_true(raw_send(&c, text, sizeof text - 1));
    assert_true(raw_read(&c, got, sizeof got, NULL) > 0);
    assert_int_equal(s.peer.code, X509_NONE);
    raw_close(&c);
    net_path(cert, "viewer", ".pem"), net_path(key, "viewer", ".key");
    CHECK_OK(x509_info_file(&info, &pem, cert));
    assert_true(raw_open(&c, web_server_port(w), cert, key, NULL) >= 0);
    assert_true(raw_send(&c, text, sizeof text - 1));
    assert_true(raw_read(&c, got, sizeof got, NULL) > 0);
    assert_int_equal(s.peer.code, X509_OK);
    assert_memory_equal(s.peer.fingerprint, info.fingerprint, 32);
    raw_close(&c);
    net_cert_at("old", "client", NULL, "other", time(NULL) - 86400 * 9, 2);
    net_path(cert, "old", ".pem"), net_path(key, "old", ".key");
    assert_true(raw_open(&c, web_server_port(w), cert, key, NULL) >= 0);
    assert_true(raw_send(&c, text, sizeof text - 1));
    assert_true(raw_read(&c, got, sizeof got, NULL) > 0);
    assert_int_equal(s.peer.code, X509_EXPIRED);
    raw_close(&c);
    web_server_set_id(w, id);
    buf_clear(&pem);
    web_server_stop(w);
    tls_id_free(id);
    CHECK_STATUS(
        web_server_start(&w, &(web_server_config){ .address = "0.0.0.0", .handle = handle }),
        SEFL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers),      cmocka_unit_test(streams),
        cmocka_unit_test(no_readers),   cmocka_unit_test(slow_requests),
        cmocka_unit_test(certificates),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
