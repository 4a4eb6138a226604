/* Threads beside a process that forks. A child has a copy of every lock as it stood, those of a
 * sanitizer's allocator too, so nothing may be allocated here while another thread forks: threads are
 * made under a lock that a fork waits for (a leg says when it has begun), carry bytes on their stack, and
 * end only when the relay does. */
#define _GNU_SOURCE
#include "support/relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 1024, PIECE = 1 << 16 };

typedef struct leg {
    relay *owner;
    unsigned number;
    int near; /* accepted */
    sem_t *begun;
    pthread_t thread;
} leg;

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&making);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&making);
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

struct relay {
    int listener, stop[2];
    uint16_t port;
    struct sockaddr_in target;
    char record[512];
    pthread_t thread;
    leg legs[CONNECTIONS_MAX];
    _Atomic unsigned count;
    _Atomic uint64_t bytes;
};

static bool write_all(int fd, const uint8_t *p, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k, n -= (size_t)k;
    }
    return true;
}

/* Carries what is there from a to b and into the record; *open is false at the end of a. */
static bool carry(relay *r, int a, int b, int record, bool *open)
{
    uint8_t piece[PIECE];
    ssize_t n = read(a, piece, sizeof piece);
    if (n < 0)
        return errno == EINTR;
    if (n == 0) {
        *open = false;
        (void)shutdown(b, SHUT_WR);
        return true;
    }
    r->bytes += (uint64_t)n;
    return write_all(record, piece, (size_t)n) && write_all(b, piece, (size_t)n);
}

static int record_file(const leg *l, const char *way)
{
    char path[600];
    snprintf(path, sizeof path, "%s-%04u.%s", l->owner->record, l->number, way);
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

static void *run_leg(void *arg)
{
    leg *l = arg;
    relay *r = l->owner;
    sem_post(l->begun);
    int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    int up = record_file(l, "up"), down = record_file(l, "down");
    bool up_open = true, down_open = true;
    if (far < 0 || up < 0 || down < 0 ||
        connect(far, (struct sockaddr *)&r->target, sizeof r->target) != 0)
        goto done;
    (void)setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(l->near, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while (up_open || down_open) {
        struct pollfd p[3] = { { .fd = up_open ? l->near : -1, .events = POLLIN },
                               { .fd = down_open ? far : -1, .events = POLLIN },
                               { .fd = r->stop[0], .events = POLLIN } };
        if (poll(p, 3, -1) < 0 && errno != EINTR)
            break;
        if (p[2].revents)
            break;
        if (p[0].revents && !carry(r, l->near, far, up, &up_open))
            break;
        if (p[1].revents && !carry(r, far, l->near, down, &down_open))
            break;
    }
done:
    if (far >= 0)
        close(far);
    if (up >= 0)
        close(up);
    if (down >= 0)
        close(down);
    close(l->near);
    struct pollfd end = { .fd = r->stop[0], .events = POLLIN };
    while (poll(&end, 1, -1) < 0 && errno == EINTR)
        ;
    return NULL;
}

static void *run(void *arg)
{
    relay *r = arg;
    for (;;) {
        struct pollfd p[2] = { { .fd = r->listener, .events = POLLIN },
                               { .fd = r->stop[0], .events = POLLIN } };
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (p[1].revents)
            return NULL;
        int fd = p[0].revents ? accept4(r->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (fd < 0)
            continue;
        if (r->count == CONNECTIONS_MAX) {
            close(fd);
            continue;
        }
        leg *l = &r->legs[r->count];
        sem_t begun;
        sem_init(&begun, 0, 0);
        *l = (leg){ .owner = r, .number = r->count + 1, .near = fd, .begun = &begun };
        pthread_mutex_lock(&making);
        bool made = pthread_create(&l->thread, NULL, run_leg, l) == 0;
        while (made && sem_wait(&begun) != 0)
            ;
        pthread_mutex_unlock(&making);
        sem_destroy(&begun);
        if (made)
            r->count++;
        else
            close(fd);
    }
}

sefl_status relay_start(relay **out, const char *host, uint16_t port, const char *record)
{
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof here;
    relay *r = calloc(1, sizeof *r);
    *out = NULL;
    (void)pthread_once(&once, watch_forks);
    if (!r)
        return sefl_fail(SEFL_ENOMEM, "relay: out of memory");
    r->target = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
    r->stop[0] = r->stop[1] = -1;
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (r->listener < 0 || inet_pton(AF_INET, host, &r->target.sin_addr) != 1 ||
        (size_t)snprintf(r->record, sizeof r->record, "%s", record) >= sizeof r->record ||
        pipe2(r->stop, O_CLOEXEC) != 0 ||
        bind(r->listener, (struct sockaddr *)&here, sizeof here) != 0 ||
        listen(r->listener, 64) != 0 || getsockname(r->listener, (struct sockaddr *)&here, &n) != 0)
        goto failed;
    r->port = ntohs(here.sin_port);
    if (pthread_create(&r->thread, NULL, run, r) != 0)
        goto failed;
    *out = r;
    return SEFL_OK;
failed:
    (void)sefl_fail(SEFL_EIO, "relay: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        if (r->stop[i] >= 0)
            close(r->stop[i]);
    if (r->listener >= 0)
        close(r->listener);
    free(r);
    return SEFL_EIO;
}

uint16_t relay_port(const relay *r)
{
    return r->port;
}

unsigned relay_connections(const relay *r)
{
    return r->count;
}

uint64_t relay_bytes(const relay *r)
{
    return r->bytes;
}

void relay_stop(relay *r)
{
    if (!r)
        return;
    close(r->stop[1]); /* every poll sees the hang-up */
    pthread_join(r->thread, NULL);
    for (unsigned i = 0; i < r->count; i++)
        pthread_join(r->legs[i].thread, NULL);
    close(r->stop[0]);
    close(r->listener);
    free(r);
}
