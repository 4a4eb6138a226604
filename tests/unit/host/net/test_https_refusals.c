/* Requests that are refused before the handler is called or after it has answered: each refusal is
 * counted once, under its reason, and nothing else is counted. */
#include "net_ids.h"
#include "net_raw.h"

#include "net/https_server.h"

#include <stdatomic.h>
#include <unistd.h>

static https_server *server;
static tls_id *as;
static char client_cert[300], client_key[300];
static char answer[1 << 16];

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- a server: GET answers, PUT accepts a body and refuses it at its first byte ----------- */

static sefl_status body(https_request *r, sefl_span bytes)
{
    (void)r, (void)bytes;
    return sefl_fail(SEFL_EPROTO, "not a ciphertext");
}

static void end(https_request *r, sefl_status st)
{
    https_answer_text(r, st == SEFL_OK ? 200 : 422, "%s", st == SEFL_OK ? "ok" : sefl_last_error());
}

static void begin(https_request *r)
{
    if (strcmp(r->method, "PUT") == 0)
        r->body = body, r->end = end;
    else
        https_answer_text(r, 200, "hello");
}

static void serve(unsigned idle_s)
{
    CHECK_OK(https_server_start(&server, &(https_server_config){ .id = as,
                                                                 .peer_role = "client",
                                                                 .threads = 1,
                                                                 .limits.idle_s = idle_s,
                                                                 .limits.rate_min = 1000,
                                                                 .body_max = 5000000,
                                                                 .begin = begin }));
}

static void stop(void)
{
    https_server_stop(server);
    server = NULL;
}

/* ---- what tests send --------------------------------------------------------------------- */

static const char good[] = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

static void with_client(raw_tls *c)
{
    assert_int_equal(raw_open(c, https_server_port(server), client_cert, client_key, NULL), 0);
}

static void put(raw_tls *c, const char *text)
{
    assert_true(raw_send(c, text, strlen(text)));
}

/* A valid request on a connection that stays open. */
static void ask(raw_tls *c)
{
    put(c, good);
    raw_read(c, answer, sizeof answer, "hello\n");
    assert_non_null(strstr(answer, " 200 "));
}

/* All counters except those of successes. */
static uint64_t refusals(void)
{
    uint64_t sum = 0;
    for (int e = 0; e < HTTPS_EVENTS_N; e++)
        if (e != HTTPS_EVENT_CONNECTED && e != HTTPS_EVENT_REQUESTS)
            sum += https_server_count(server, (https_event)e);
    return sum;
}

/* The server sees the end of the connection a little later than we do. */
static void is_refused(https_event e, uint64_t times, const char *what)
{
    for (int i = 0; i < 400 && https_server_count(server, e) < times; i++)
        usleep(5000);
    usleep(20000);
    if (https_server_count(server, e) != times || refusals() != times)
        fail_msg("%s: %s is %llu, all refusals %llu, want %llu", what, https_event_name(e),
                 (unsigned long long)https_server_count(server, e), (unsigned long long)refusals(),
                 (unsigned long long)times);
}

/* ---- tests ------------------------------------------------------------------------------- */

static const char *const unreadable[] = {
    "PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "GET /a HTTP/9.9\r\nHost: x\r\n\r\n",
    "GET /a HTTP/1.1\r\nHost x\r\n\r\n",
    "nonsense\r\n\r\n",
    "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
};
enum { UNREADABLE = sizeof unreadable / sizeof *unreadable };

/* libmicrohttpd refuses these itself: as the first, the second or the fourth request. */
static void what_is_no_request(void **state)
{
    (void)state;
    raw_tls c;
    uint64_t n = 0;
    serve(30);
    for (int before = 0; before < 4; before += 1 + (before == 1))
        for (int i = 0; i < UNREADABLE; i++) {
            with_client(&c);
            for (int k = 0; k < before; k++)
                ask(&c);
            put(&c, unreadable[i]);
            raw_read(&c, answer, sizeof answer, NULL);
            raw_close(&c);
            assert_null(strstr(answer, " 200 "));
            is_refused(HTTPS_EVENT_NOT_HTTP, ++n, unreadable[i]);
        }
    assert_int_equal(https_server_count(server, HTTPS_EVENT_REQUESTS), 4 * UNREADABLE);
    stop();
}

/* ... an endless header too, and one that arrives in the same record as a valid request. */
static void heads_without_end(void **state)
{
    (void)state;
    raw_tls c;
    static char big[200000];
    serve(30);
    with_client(&c);
    ask(&c);
    memset(big, 'a', sizeof big);
    memcpy(big, "GET /a HTTP/1.1\r\nX: ", 20);
    raw_send(&c, big, sizeof big);
    raw_read(&c, answer, sizeof answer, NULL);
    raw_close(&c);
    is_refused(HTTPS_EVENT_NOT_HTTP, 1, "a long head");
    for (int i = 0; i < 2; i++) {
        char two[300];
        with_client(&c);
        snprintf(two, sizeof two, "%s%s", good, unreadable[i]);
        put(&c, two);
        raw_read(&c, answer, sizeof answer, NULL);
        raw_close(&c);
        assert_non_null(strstr(answer, " 200 "));
        is_refused(HTTPS_EVENT_NOT_HTTP, 2 + (uint64_t)i, two);
    }
    stop();
}

/* A peer that leaves in the middle of its next header, or sends it late. */
static void half_a_head(void **state)
{
    (void)state;
    raw_tls c;
    serve(1);
    with_client(&c);
    ask(&c);
    put(&c, "GET /a HTT");
    usleep(50000);
    raw_close(&c);
    is_refused(HTTPS_EVENT_NOT_HTTP, 1, "left");
    stop();
    serve(1);
    with_client(&c);
    ask(&c);
    put(&c, "GET /a HTT");
    raw_read(&c, answer, sizeof answer, NULL);
    raw_close(&c);
    is_refused(HTTPS_EVENT_HEADER_SLOW, 1, "late");
    stop();
}

/* A peer with valid requests is never counted as refused, however it waits and leaves. */
static void good_manners(void **state)
{
    (void)state;
    raw_tls c;
    serve(1);
    for (int i = 0; i < 4; i++) {
        with_client(&c);
        ask(&c);
        ask(&c);
        if (i == 1)
            gnutls_bye(c.s, GNUTLS_SHUT_WR);
        if (i == 2) {
            put(&c, "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            raw_read(&c, answer, sizeof answer, NULL);
        }
        if (i == 3) /* idle, until it is cut */
            assert_int_equal(raw_read(&c, answer, sizeof answer, NULL), 0);
        raw_close(&c);
    }
    usleep(100000);
    is_refused(HTTPS_EVENT_NOT_HTTP, 0, "nothing");
    assert_int_equal(https_server_count(server, HTTPS_EVENT_REQUESTS), 9);
    stop();
}

/* A body that was answered in the middle. True: the server cut the peer while it continued to send,
 * byte by byte. */
static bool drips_and_is_cut(raw_tls *c, uint64_t *ms)
{
    uint64_t began = now_ms();
    bool sent = true;
    while (sent && now_ms() - began < 8000) {
        sent = raw_send(c, "x", 1);
        usleep(50000);
    }
    *ms = now_ms() - began;
    return !sent;
}

static void after_an_early_answer(void **state)
{
    (void)state;
    static const char bytes[20000];
    raw_tls c;
    uint64_t ms;
    serve(1);
    for (int i = 0; i < 3; i++) {
        with_client(&c);
        put(&c, "PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n");
        assert_true(raw_send(&c, bytes, sizeof bytes));
        raw_read(&c, answer, sizeof answer, "ciphertext\n");
        assert_non_null(strstr(answer, " 422 "));
        if (i == 1) {
            assert_true(drips_and_is_cut(&c, &ms));
            assert_in_range(ms, 500, 5000);
        }
        if (i == 2) /* silent */
            assert_int_equal(raw_read(&c, answer, sizeof answer, NULL), 0);
        raw_close(&c);
        is_refused(HTTPS_EVENT_BODY_SLOW, (uint64_t)i,
                   "after an answer"); /* 0: it closed at once */
    }
    stop();
}

static int set_up(void **state)
{
    if (folder_make(state) != 0)
        return -1;
    net_ca("ca-as");
    net_cert("as", "aggregator", "127.0.0.1,::1", "ca-as");
    net_cert("client-01", "client", NULL, "ca-as");
    as = net_id("as", "ca-as");
    net_path(client_cert, "client-01", ".pem");
    net_path(client_key, "client-01", ".key");
    return 0;
}

static int tear_down(void **state)
{
    tls_id_free(as);
    return folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_request),    cmocka_unit_test(heads_without_end),
        cmocka_unit_test(half_a_head),           cmocka_unit_test(good_manners),
        cmocka_unit_test(after_an_early_answer),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
