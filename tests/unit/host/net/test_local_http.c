/* Plain HTTP on loopback: its answers, and how it handles bad requests. */
#include "support/check.h"

#include "net/local_http.h"
#include "unit/host/net/net_raw.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct pages_ctx {
    unsigned status;
    sefl_status st;
    _Atomic unsigned made;
} pages_ctx;

static sefl_status page(void *ctx, sefl_buf *body, unsigned *status)
{
    pages_ctx *p = ctx;
    p->made++;
    if (p->st != SEFL_OK)
        return sefl_fail(p->st, "a secret of this server");
    *status = p->status;
    return wr_fmt(body, "{\"healthy\":true}\n");
}

static sefl_status text_page(void *ctx, sefl_buf *body, unsigned *status)
{
    (void)ctx, (void)status;
    return wr_fmt(body, "a text\n");
}

static const local_page pages[] = {
    { "/healthz", "application/json", page },
    { "/text", "text/plain; version=0.0.4", text_page },
};

static local_http *start(pages_ctx *p)
{
    local_http *h;
    *p = (pages_ctx){ .status = 200 };
    CHECK_OK(local_http_start(
        &h,
        &(local_http_config){ .address = "127.0.0.1", .pages = pages, .pages_n = 2, .ctx = p }));
    return h;
}

/* Everything that the server answers to these bytes until it closes; at most 15 s. */
static const char *ask(const local_http *h, const char *bytes, size_t n)
{
    static char got[4096];
    size_t have = 0;
    int fd = raw_connect(local_http_port(h));
    assert_true(fd >= 0);
    for (size_t sent = 0; sent < n;) {
        ssize_t k = send(fd, bytes + sent, n - sent, MSG_NOSIGNAL);
        if (k <= 0)
            break; /* it has read enough */
        sent += (size_t)k;
    }
    shutdown(fd, SHUT_WR);
    for (ssize_t k;
         have < sizeof got - 1 && (k = recv(fd, got + have, sizeof got - 1 - have, 0)) > 0;)
        have += (size_t)k;
    got[have] = 0;
    close(fd);
    return got;
}

/* Sends the text with the server's port instead of the first "@", and a byte 0 for each "$". */
static const char *say(const local_http *h, const char *text)
{
    char with[512], port[8];
    const size_t n = strcspn(text, "@");
    snprintf(port, sizeof port, "%u", local_http_port(h));
    snprintf(with, sizeof with, "%.*s%s%s", (int)n, text, text[n] ? port : "",
             text[n] ? text + n + 1 : "");
    const size_t all = strlen(with);
    for (size_t i = 0; i < all; i++)
        with[i] = with[i] == '$' ? 0 : with[i];
    return ask(h, with, all);
}

static void answers(void **state)
{
    (void)state;
    pages_ctx p;
    local_http *h = start(&p);
    const char *got = say(h, "GET /healthz HTTP/1.1\r\nHost: localhost:@\r\n\r\n");
    assert_ptr_equal(strstr(got, "HTTP/1.1 200 "), got);
    assert_non_null(strstr(got, "application/json"));
    assert_non_null(strstr(got, "\r\n\r\n{\"healthy\":true}\n"));
    got = say(h, "GET /text HTTP/1.1\r\nHost: localhost:@\r\n\r\n");
    assert_ptr_equal(strstr(got, "HTTP/1.1 200 "), got);
    assert_non_null(strstr(got, "Content-Type: text/plain; version=0.0.4\r\n"));
    assert_non_null(strstr(got, "\r\n\r\na text\n"));
    p.status = 503;
    got = say(h,
              "GET /healthz?verbose HTTP/1.0\r\nHost: 127.0.0.1:@\r\n\r\n"); /* ignores the query */
    assert_non_null(strstr(got, " 503 "));
    assert_non_null(strstr(got, "{\"healthy\":true}"));
    got = say(h, "HEAD /healthz HTTP/1.1\r\nHost: localhost:@\r\n\r\n");
    assert_non_null(strstr(got, " 503 "));
    assert_null(strstr(got, "healthy"));
    assert_int_equal(p.made, 3);
    p.st = SEFL_EIO;
    got = say(h, "GET /healthz HTTP/1.1\r\nHost: localhost:@\r\n\r\n");
    assert_non_null(strstr(got, " 500 "));
    assert_null(strstr(got, "secret"));
    local_http_stop(h);
}

static void bad_requests(void **state)
{
    (void)state;
    static const struct {
        const char *says, *gets; /* gets NULL: no answer, or one that is not 200 */
    } bad[] = {
        { "POST /healthz HTTP/1.1\r\nHost: localhost:@\r\nContent-Length: 5\r\n\r\nhello",
          " 405 " },
        { "POST /healthz HTTP/1.1\r\nHost: localhost:@\r\nContent-Length: 99999999999\r\n\r\n",
          " 405 " },
        { "DELETE /healthz HTTP/1.1\r\nHost: localhost:@\r\n\r\n", " 405 " },
        { "BREW /healthz HTTP/1.1\r\nHost: localhost:@\r\n\r\n", " 405 " },
        { "GET / HTTP/1.1\r\nHost: localhost:@\r\n\r\n", " 404 " },
        { "GET /healthz/ HTTP/1.1\r\nHost: localhost:@\r\n\r\n", " 404 " },
        { "GET //healthz HTTP/1.1\r\nHost: localhost:@\r\n\r\n", " 404 " },
        { "GET /../healthz HTTP/1.1\r\nHost: localhost:@\r\n\r\n", " 404 " },
        { "GET /HEALTHZ HTTP/1.1\r\nHost: localhost:@\r\n\r\n", " 404 " },
        { "GET /healthz HTTP/1.1\r\nHost: evil.example:@\r\n\r\n", " 403 " },
        { "GET /healthz HTTP/1.1\r\nHost: localhost:1\r\n\r\n", " 403 " },
        { "GET /healthz HTTP/1.0\r\n\r\n", " 403 " },
        { "GET /healthz%00 HTTP/1.1\r\nHost: localhost:@\r\n\r\n", " 404 " },
        { "GET /healthz?a%00=b HTTP/1.1\r\nHost: localhost:@\r\n\r\n", " 400 " },
        { "GET /healthz?a=%0a HTTP/1.1\r\nHost: localhost:@\r\n\r\n", " 400 " },
        { "GET /healthz HTTP/1.1\r\nHost: localhost:@\r\nX$Y: a\r\n\r\n", " 400 " },
        { "GET /healthz HTTP/1.1\r\nHost: localhost:@\r\nX Y: a\r\n\r\n", " 400 " },
        { "GET /healthz HTTP/1.1\r\nHost: localhost:@\r\nHost: evil.example\r\n\r\n", " 400 " },
        { "GET /healthz HTTP/1.1\r\nHost: localhost:@\r\nContent-Length : 5\r\n\r\nhello",
          " 400 " },
        { "GET /healthz HTTP/1.1\r\nHost: localhost:@\r\nContent-Length: 0\r\nContent-Length: 0"
          "\r\n\r\n",
          " 400 " },
        { "GET /healthz HTTP/9.9\r\n\r\n", NULL },
        { "GET /healthz HTTP/1.1\r\n\r\n", NULL }, /* 1.1 wants a Host */
        { "\x16\x03\x01\x02\x01\x01\xfc\x03\x03 a TLS hello\r\n\r\n", NULL },
        { "GET", NULL },
        { "\r\n\r\n\r\n", NULL },
    };
    pages_ctx p;
    local_http *h = start(&p);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *got = say(h, bad[i].says);
        if (bad[i].gets ? !strstr(got, bad[i].gets) : strstr(got, " 200 ") != NULL)
            fail_msg("to \"%.40s\" it says \"%.80s\"", bad[i].says, got);
    }
    char *big = malloc(1 << 20); /* a header without an end */
    memset(big, 'a', 1 << 20);
    memcpy(big, "GET /healthz HTTP/1.1\r\nX: ", 26);
    assert_null(strstr(ask(h, big, 1 << 20), " 200 "));
    free(big);
    unsigned made = p.made;
    int held[40]; /* more silent connections than it accepts */
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        held[i] = raw_connect(local_http_port(h));
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        if (held[i] >= 0)
            close(held[i]);
    const char *got = "";
    for (int i = 0; i < 100 && !strstr(got, " 200 ");
         i++) /* as soon as it detects that they left */
        got = say(h, "GET /healthz HTTP/1.1\r\nHost: localhost:@\r\n\r\n");
    assert_non_null(strstr(got, " 200 "));
    assert_int_equal(p.made, made + 1);
    local_http_stop(h);
}

static void this_machine_alone(void **state)
{
    (void)state;
    static const char *const others[] = {
        "0.0.0.0", "::", "10.0.0.1", "192.0.2.7", "", "localhost.x", "fe80::1", "::ffff:127.0.0.1"
    };
    pages_ctx p = { 0 };
    local_http *h;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        CHECK_STATUS(local_http_start(&h, &(local_http_config){ .address = others[i],
                                                                .pages = pages,
                                                                .pages_n = 2,
                                                                .ctx = &p }),
                     SEFL_EINVAL);
        assert_null(h);
        assert_non_null(strstr(sefl_last_error(), "loopback"));
    }
    h = start(&p);
    CHECK_STATUS(
        local_http_start(&(local_http *){ NULL }, &(local_http_config){ .address = "127.0.0.1",
                                                                        .port = local_http_port(h),
                                                                        .pages = pages,
                                                                        .pages_n = 2 }),
        SEFL_EIO); /* the port is in use */
    local_http_stop(h);
    local_http_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers),
        cmocka_unit_test(bad_requests),
        cmocka_unit_test(this_machine_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
