#include "net/handshakes.h"
#include "net_ids.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PLACES = 64, MS = 20000 };

static const tls_peer want_as = { .role = "aggregator" };
static const tls_limits slow = { .connect_ms = MS, .idle_ms = MS };
static tls_id *as, *csp;
static int listener;
static uint16_t port;

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A silent connection from 127.0.0.LAST. */
static int stranger(unsigned last)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + last);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(port);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static bool was_cut(int fd)
{
    char x;
    ssize_t n = recv(fd, &x, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* The expected peer, in a thread: connects and waits for a byte. */
typedef struct awaited {
    sefl_status st;
    const char *protocol; /* NULL: it names none */
    atomic_bool done;
    pthread_t thread;
} awaited;

static void *awaited_thread(void *p)
{
    awaited *a = p;
    tls *t;
    char x;
    a->st = tls_dial(&t, "127.0.0.1", port, as,
                     &(tls_peer){ .role = "csp", .protocols = { a->protocol } }, &slow);
    if (a->st == SEFL_OK)
        a->st = channel_recv(tls_channel(t), &x, 1);
    tls_close(t);
    a->done = true;
    return NULL;
}

static void dials(awaited *a)
{
    assert_int_equal(pthread_create(&a->thread, NULL, awaited_thread, a), 0);
}

static void is_let_in(awaited *a, tls *t)
{
    CHECK_OK(channel_send(tls_channel(t), "x", 1));
    CHECK_OK(channel_flush(tls_channel(t)));
    pthread_join(a->thread, NULL);
    CHECK_OK(a->st);
    tls_close(t);
}

/* Calls until a peer is admitted. */
static tls *next(handshakes *p)
{
    tls *t = NULL;
    uint64_t end = now_ms() + MS;
    while (!t && now_ms() < end)
        (void)!handshakes_accept(&t, p, csp, &want_as, 50, &slow);
    assert_non_null(t);
    return t;
}

static bool somebody_dials(int wait_ms)
{
    return poll(&(struct pollfd){ .fd = listener, .events = POLLIN }, 1, wait_ms) == 1;
}

/* Calls until all have been accepted; returns the number of events. */
static unsigned all_news(handshakes *p)
{
    tls *t;
    unsigned n = 0;
    do
        n += handshakes_accept(&t, p, csp, &want_as, 20, &slow) != SEFL_ETIMEOUT;
    while (somebody_dials(0));
    assert_null(t);
    return n;
}

static void callers_are_not_kept(void **state)
{
    (void)state;
    handshakes *p;
    tls *t;
    awaited a = { 0 };
    CHECK_OK(handshakes_new(&p, listener));
    int fd = stranger(1);
    uint64_t before = now_ms();
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(handshakes_accept(&t, p, csp, &want_as, 20, &slow), SEFL_ETIMEOUT);
    assert_in_range(now_ms() - before, 55, MS / 2); /* it does not wait for the stranger */
    dials(&a);
    is_let_in(&a, next(p));
    assert_false(was_cut(fd)); /* it has time left */
    handshakes_free(p);
    assert_true(was_cut(fd));
    close(fd);
}

static void handshakes_outlive_calls(void **state)
{
    (void)state;
    handshakes *p;
    tls *t = NULL;
    awaited a = { 0 };
    unsigned calls = 0;
    CHECK_OK(handshakes_new(&p, listener));
    dials(&a);
    for (uint64_t end = now_ms() + MS; !t && now_ms() < end; calls++)
        (void)!handshakes_accept(&t, p, csp, &want_as, 0, &slow); /* at most one step */
    assert_non_null(t);
    assert_in_range(calls, 3, UINT_MAX);
    is_let_in(&a, t);
    handshakes_free(p);
}

/* A peer that connected under an earlier rule is verified by the current one. */
static void the_present_rule_counts(void **state)
{
    (void)state;
    static const tls_peer want_client = { .role = "client" };
    handshakes *p;
    tls *t = NULL;
    awaited a = { 0 };
    CHECK_OK(handshakes_new(&p, listener));
    dials(&a);
    assert_true(somebody_dials(MS));
    CHECK_STATUS(handshakes_accept(&t, p, csp, &want_client, 0, &slow), SEFL_ETIMEOUT);
    is_let_in(&a, next(p));
    handshakes_free(p);
}

static void the_late_are_cut(void **state)
{
    (void)state;
    handshakes *p;
    tls *t;
    const tls_limits quick = { .connect_ms = 30 };
    CHECK_OK(handshakes_new(&p, listener));
    int fd = stranger(1);
    CHECK_STATUS(handshakes_accept(&t, p, csp, &want_as, MS, &quick), SEFL_EIO);
    assert_non_null(strstr(sefl_last_error(), "in time"));
    assert_true(was_cut(fd));
    close(fd);
    handshakes_free(p);
}

static void floods_push_out_themselves(void **state)
{
    (void)state;
    enum { FLOOD = 200 };
    handshakes *p;
    awaited a = { 0 };
    int other = -1, fd[FLOOD];
    CHECK_OK(handshakes_new(&p, listener));
    other = stranger(2);
    for (int i = 0; i < FLOOD; i++)
        fd[i] = stranger(1);
    assert_in_range(all_news(p), 1, FLOOD);
    assert_false(was_cut(other)); /* the oldest of all, but alone */
    for (int i = 0; i < FLOOD; i++)
        assert_int_equal(was_cut(fd[i]), i < FLOOD - (PLACES - 1));
    dials(&a); /* from the flood's own address */
    is_let_in(&a, next(p));
    assert_false(was_cut(other));
    handshakes_free(p);
    for (int i = 0; i < FLOOD; i++)
        close(fd[i]);
    close(other);
}

/* Many addresses with one connection each: the oldest is replaced. */
static void among_equals_the_oldest_goes(void **state)
{
    (void)state;
    handshakes *p;
    int fd[PLACES + 3];
    CHECK_OK(handshakes_new(&p, listener));
    for (unsigned i = 0; i < PLACES + 3; i++)
        fd[i] = stranger(1 + i);
    all_news(p);
    for (int i = 0; i < PLACES + 3; i++)
        assert_int_equal(was_cut(fd[i]), i < 3);
    handshakes_free(p);
    for (int i = 0; i < PLACES + 3; i++)
        close(fd[i]);
}

/* The new connection counts too: it replaces one from its own address before another address' only
 * one. */
static void a_newcomer_counts(void **state)
{
    (void)state;
    handshakes *p;
    int fd[PLACES + 1];
    CHECK_OK(handshakes_new(&p, listener));
    for (unsigned i = 0; i < PLACES; i++)
        fd[i] = stranger(1 + i);
    all_news(p);
    fd[PLACES] = stranger(10);
    all_news(p);
    for (int i = 0; i <= PLACES; i++)
        assert_int_equal(was_cut(fd[i]), i == 9);
    handshakes_free(p);
    for (int i = 0; i <= PLACES; i++)
        close(fd[i]);
}

static atomic_bool flood_on;

/* 200 silent connections per second, each kept for a second. */
static void *flood(void *arg)
{
    int fd[200];
    unsigned n = 0;
    (void)arg;
    for (; flood_on; n++) {
        if (n >= 200)
            close(fd[n % 200]);
        fd[n % 200] = stranger(1);
        usleep(5000);
    }
    for (unsigned i = 0; i < (n < 200 ? n : 200); i++)
        close(fd[i]);
    return NULL;
}

static void floods_keep_nobody_out(void **state)
{
    (void)state;
    handshakes *p;
    pthread_t thread;
    CHECK_OK(handshakes_new(&p, listener));
    flood_on = true;
    assert_int_equal(pthread_create(&thread, NULL, flood, NULL), 0);
    for (uint64_t end = now_ms() + 500; now_ms() < end;) {
        tls *t;
        (void)!handshakes_accept(&t, p, csp, &want_as, 50, &slow);
        assert_null(t);
    }
    for (int i = 0; i < 3; i++) {
        awaited a = { 0 };
        dials(&a);
        is_let_in(&a, next(p));
    }
    flood_on = false;
    pthread_join(thread, NULL);
    handshakes_free(p);
}

/* No file descriptor for a new connection: reported at once, and existing connections continue. */
static void no_room_keeps_nobody_back(void **state)
{
    (void)state;
    enum { LIMIT = 200 }; /* poll wants it above the number of places */
    handshakes *p;
    tls *t = NULL, *nobody;
    awaited a = { 0 };
    struct rlimit had;
    int fill[LIMIT], n = 0;
    CHECK_OK(handshakes_new(&p, listener));
    all_news(p); /* connections left from other tests */
    dials(&a);
    assert_true(somebody_dials(MS));
    sefl_status st;
    do
        st = handshakes_accept(&t, p, csp, &want_as, 0, &slow);
    while (st == SEFL_ECLOSED);      /* the last of the flood before */
    CHECK_STATUS(st, SEFL_ETIMEOUT); /* on the handshakes */
    int fd = stranger(1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
    struct rlimit few = { .rlim_cur = LIMIT, .rlim_max = had.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (n < LIMIT && (fill[n] = dup(fd)) >= 0)
        n++;
    for (uint64_t end = now_ms() + MS; !t && now_ms() < end;)
        (void)!handshakes_accept(&t, p, csp, &want_as, 20, &slow);
    CHECK_STATUS(handshakes_accept(&nobody, p, csp, &want_as, MS, &slow), SEFL_ENOMEM);
    while (n > 0)
        close(fill[--n]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
    assert_non_null(t);
    is_let_in(&a, t);
    close(fd);
    handshakes_free(p);
}

/* Two kinds of stream on one port; a peer without a protocol name is refused. */
static void streams_are_told_apart(void **state)
{
    (void)state;
    static const char *const names[] = { "link", "lane", NULL };
    const tls_peer want = { .role = "aggregator", .protocols = { "link", "lane" } };
    awaited a[3] = { { 0 } };
    tls *t[2] = { NULL };
    unsigned in = 0;
    uint64_t end = now_ms() + MS;
    handshakes *p;
    CHECK_OK(handshakes_new(&p, listener));
    for (int i = 0; i < 3; i++)
        a[i].protocol = names[i], dials(&a[i]);
    while ((in < 2 || !a[2].done) && now_ms() < end) {
        tls *one;
        if (handshakes_accept(&one, p, csp, &want, 50, &slow) != SEFL_OK)
            continue;
        in++;
        t[strcmp(tls_protocol(one), "lane") == 0] = one;
    }
    assert_int_equal(in, 2);
    assert_non_null(t[0]);
    assert_non_null(t[1]);
    is_let_in(&a[0], t[0]);
    is_let_in(&a[1], t[1]);
    pthread_join(a[2].thread, NULL);
    assert_int_not_equal(a[2].st, SEFL_OK);
    handshakes_free(p);
}

static void no_memory_is_said(void **state)
{
    (void)state;
    handshakes *p = NULL;
    TEST_FAULTS(FAULT_ALLOC, st = handshakes_new(&p, listener), handshakes_free(p));
}

static int begin(void **state)
{
    if (folder_make(state) != 0)
        return -1;
    net_ca("ca-as"), net_ca("ca-csp");
    net_cert("as", "aggregator", "127.0.0.1", "ca-as");
    net_cert("csp", "csp", "127.0.0.1", "ca-csp");
    as = net_id("as", "ca-csp");
    csp = net_id("csp", "ca-as");
    return tls_listen(&listener, "127.0.0.1", 0, &port) == SEFL_OK ? 0 : -1;
}

static int end(void **state)
{
    tls_id_free(as);
    tls_id_free(csp);
    close(listener);
    return folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_are_not_kept),
        cmocka_unit_test(handshakes_outlive_calls),
        cmocka_unit_test(the_present_rule_counts),
        cmocka_unit_test(the_late_are_cut),
        cmocka_unit_test(floods_push_out_themselves),
        cmocka_unit_test(among_equals_the_oldest_goes),
        cmocka_unit_test(a_newcomer_counts),
        cmocka_unit_test(floods_keep_nobody_out),
        cmocka_unit_test(no_room_keeps_nobody_back),
        cmocka_unit_test(no_memory_is_said),
        cmocka_unit_test(streams_are_told_apart),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
