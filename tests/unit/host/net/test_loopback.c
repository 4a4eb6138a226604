#include "support/check.h"

#include "bench/round/loopback.h" /* the benchmarks' stream */
#include "net/socket.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BIG = 24 << 20 };

typedef struct peer {
    uint16_t port;
    sefl_status st;
    unsigned sum;
} peer;

/* Both ends send first and read afterwards: more than the kernel buffers, less than the inbox. */
static sefl_status swap(channel *ch, uint8_t fill, unsigned *sum)
{
    sefl_status st = SEFL_OK;
    uint8_t *p = malloc(BIG);
    memset(p, fill, BIG);
    SEFL_TRY(channel_send(ch, p, BIG));
    SEFL_TRY(channel_recv(ch, p, 3));
    SEFL_TRY(channel_recv(ch, p + 3, BIG - 3));
    *sum = 0;
    for (size_t i = 0; i < BIG; i++)
        *sum += p[i];
done:
    free(p);
    return st;
}

static void *dialler(void *arg)
{
    peer *p = arg;
    loopback *lb;
    p->st = loopback_dial(&lb, p->port, 5000);
    if (p->st == SEFL_OK)
        p->st = swap(loopback_channel(lb), 1, &p->sum);
    loopback_close(lb);
    return NULL;
}

static void both_ends_may_send_at_once(void **state)
{
    (void)state;
    int fd;
    peer p = { 0 };
    pthread_t t;
    loopback *lb;
    unsigned sum;
    CHECK_OK(socket_listen(&fd, "127.0.0.1", 0, &p.port));
    assert_int_equal(pthread_create(&t, NULL, dialler, &p), 0);
    CHECK_OK(loopback_accept(&lb, fd, 5000));
    CHECK_OK(swap(loopback_channel(lb), 2, &sum));
    pthread_join(t, NULL);
    CHECK_OK(p.st);
    assert_int_equal(sum, BIG);
    assert_int_equal(p.sum, 2u * BIG);
    loopback_close(lb);
    close(fd);
}

/* Small and large sends in any order arrive in that order. */
static void *sends_of_all_sizes(void *arg)
{
    peer *p = arg;
    loopback *lb;
    seeded g, sizes;
    seeded_init(&g, 1, "bytes");
    seeded_init(&sizes, 1, "sizes");
    uint8_t *buf = malloc(1 << 18);
    p->st = loopback_dial(&lb, p->port, 5000);
    for (int i = 0; i < 400 && p->st == SEFL_OK; i++) {
        size_t n = (size_t)seeded_below(&sizes, (uint64_t)1 << seeded_below(&sizes, 18)) + 1;
        seeded_fill(&g, buf, n);
        p->sum += (unsigned)n;
        p->st = channel_send(loopback_channel(lb), buf, n);
    }
    if (p->st == SEFL_OK)
        p->st = channel_flush(loopback_channel(lb));
    free(buf);
    loopback_close(lb);
    return NULL;
}

static void order_is_kept(void **state)
{
    (void)state;
    int fd;
    peer p = { 0 };
    pthread_t t;
    loopback *lb;
    seeded g, sizes;
    uint8_t *got = malloc(1 << 18), *want = malloc(1 << 18);
    uint8_t rest;
    size_t total = 0;
    seeded_init(&g, 1, "bytes");
    seeded_init(&sizes, 2, "other sizes");
    CHECK_OK(socket_listen(&fd, "127.0.0.1", 0, &p.port));
    assert_int_equal(pthread_create(&t, NULL, sends_of_all_sizes, &p), 0);
    CHECK_OK(loopback_accept(&lb, fd, 5000));
    for (int i = 0; i < 100; i++) {
        size_t n = (size_t)seeded_below(&sizes, (uint64_t)1 << seeded_below(&sizes, 18)) + 1;
        seeded_fill(&g, want, n);
        CHECK_OK(channel_recv(loopback_channel(lb), got, n));
        assert_memory_equal(got, want, n);
        total += n;
    }
    while (channel_recv(loopback_channel(lb), &rest, 1) == SEFL_OK) {
        seeded_fill(&g, want, 1);
        assert_int_equal(rest, want[0]);
        total++;
    }
    pthread_join(t, NULL);
    CHECK_OK(p.st);
    assert_int_equal(total, p.sum);
    loopback_close(lb);
    close(fd);
    free(got);
    free(want);
}

static void silence_and_closing_end_a_wait(void **state)
{
    (void)state;
    int fd;
    uint16_t port;
    loopback *a, *b;
    uint8_t x;
    CHECK_OK(socket_listen(&fd, "127.0.0.1", 0, &port));
    CHECK_STATUS(loopback_accept(&a, fd, 20), SEFL_ETIMEOUT);
    CHECK_OK(loopback_dial(&a, port, 50));
    CHECK_OK(loopback_accept(&b, fd, 50));
    CHECK_STATUS(channel_recv(loopback_channel(b), &x, 1), SEFL_ETIMEOUT);
    loopback_close(b);
    CHECK_STATUS(channel_recv(loopback_channel(a), &x, 1), SEFL_ECLOSED);
    loopback_close(a);
    close(fd);
    CHECK_STATUS(loopback_dial(&a, port, 50), SEFL_EIO);
}

/* The system gives the caller of a port where nobody listens, sooner or later, this port for its own end. */
static void nobody_meets_itself(void **state)
{
    (void)state;
    int fd, held = -1;
    uint16_t port;
    do { /* the system prefers even ports for callers, odd ones for a server that leaves it the choice */
        CHECK_OK(socket_listen(&fd, "127.0.0.1", 0, &port));
        close(fd);
        port ^= 1;
    } while (socket_listen(&fd, "127.0.0.1", port, &port) != SEFL_OK);
    close(fd);
    for (int i = 0; i < 65536; i++)
        CHECK_STATUS(socket_dial(&held, "127.0.0.1", port, socket_now_ms() + 1000), SEFL_EIO);
}

static void addresses_of_this_machine(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "0.0.0.0", "192.0.2.1", "::", "2001:db8::1", "localhost", ""
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(socket_is_loopback(bad[i]));
    assert_true(socket_is_loopback("127.0.0.1") && socket_is_loopback("127.9.8.7") &&
                socket_is_loopback("::1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_may_send_at_once),     cmocka_unit_test(order_is_kept),
        cmocka_unit_test(silence_and_closing_end_a_wait), cmocka_unit_test(nobody_meets_itself),
        cmocka_unit_test(addresses_of_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
