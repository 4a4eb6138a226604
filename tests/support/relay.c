/* The relay is a process, not threads of the test: tests fork while it runs, and a child of a
 * process with threads inherits every lock as it was, including those of a sanitizer's allocator; a
 * held lock stays held forever there. The relay creates threads only after the fork. */
#define _GNU_SOURCE
#include "support/relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 1024, PIECE = 1 << 16 };

typedef struct tally { /* seen by both processes */
    _Atomic unsigned count;
    _Atomic uint64_t bytes;
    _Atomic unsigned mute_up_to; /* connections; numbers begin with 1 */
    _Atomic uint64_t mute_from;  /* value of `bytes` */
} tally;

struct relay {
    uint16_t port;
    pid_t pid;
    tally *seen;
};

/* ---- in the relay's process ------------------------------------------------------------------ */

typedef struct carrier {
    int listener;
    struct sockaddr_in target;
    char record[512];
    tally *seen;
} carrier;

typedef struct leg {
    const carrier *owner;
    unsigned number;
    int near; /* accepted */
} leg;

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

/* Copies what is available from a to b and into the recording; *open is false at the end of a. */
static bool carry(const leg *l, int a, int b, int record, bool *open)
{
    tally *seen = l->owner->seen;
    uint8_t piece[PIECE];
    ssize_t n = read(a, piece, sizeof piece);
    if (l->number <= seen->mute_up_to && seen->bytes >= seen->mute_from) {
        *open = n > 0; /* the other side does not see the end either */
        return true;
    }
    if (n < 0)
        return errno == EINTR;
    if (n == 0) {
        *open = false;
        (void)shutdown(b, SHUT_WR);
        return true;
    }
    if (!write_all(record, piece, (size_t)n))
        return false;
    seen->bytes += (uint64_t)n;
    return write_all(b, piece, (size_t)n);
}

static int record_file(const leg *l, const char *way)
{
    char path[600];
    snprintf(path, sizeof path, "%s-%04u.%s", l->owner->record, l->number, way);
    return open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
}

static void *run_leg(void *arg)
{
    leg *l = arg;
    const carrier *c = l->owner;
    int far = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    int up = record_file(l, "up"), down = record_file(l, "down");
    bool up_open = true, down_open = true;
    if (far < 0 || up < 0 || down < 0 ||
        connect(far, (const struct sockaddr *)&c->target, sizeof c->target) != 0)
        goto done;
    (void)setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(l->near, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while (up_open || down_open) {
        struct pollfd p[2] = { { .fd = up_open ? l->near : -1, .events = POLLIN },
                               { .fd = down_open ? far : -1, .events = POLLIN } };
        if (poll(p, 2, -1) < 0) {
            if (errno == EINTR)
                continue;
            break;
        }
        if (p[0].revents && !carry(l, l->near, far, up, &up_open))
            break;
        if (p[1].revents && !carry(l, far, l->near, down, &down_open))
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
    return NULL;
}

/* Until it is killed. */
static _Noreturn void run(const carrier *c)
{
    static leg legs[CONNECTIONS_MAX];
    (void)signal(SIGPIPE, SIG_IGN);
    for (;;) {
        pthread_t thread;
        int fd = accept(c->listener, NULL, NULL);
        if (fd < 0)
            continue;
        unsigned n = c->seen->count;
        if (n == CONNECTIONS_MAX) {
            close(fd);
            continue;
        }
        legs[n] = (leg){ .owner = c, .number = n + 1, .near = fd };
        if (pthread_create(&thread, NULL, run_leg, &legs[n]) != 0) {
            close(fd);
            continue;
        }
        (void)pthread_detach(thread);
        c->seen->count = n + 1;
    }
}

/* ---- in the test's ---------------------------------------------------------------------------- */

sefl_status relay_start(relay **out, const char *host, uint16_t port, const char *record)
{
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof here;
    carrier c = { .target = { .sin_family = AF_INET, .sin_port = htons(port) } };
    relay *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return sefl_fail(SEFL_ENOMEM, "relay: out of memory");
    r->seen =
        mmap(NULL, sizeof *r->seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    c.seen = r->seen;
    c.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (r->seen == MAP_FAILED || c.listener < 0 ||
        inet_pton(AF_INET, host, &c.target.sin_addr) != 1 ||
        (size_t)snprintf(c.record, sizeof c.record, "%s", record) >= sizeof c.record ||
        bind(c.listener, (struct sockaddr *)&here, sizeof here) != 0 ||
        listen(c.listener, 64) != 0 || getsockname(c.listener, (struct sockaddr *)&here, &n) != 0)
        goto failed;
    r->port = ntohs(here.sin_port);
    (void)fflush(NULL);
    r->pid = fork();
    if (r->pid < 0)
        goto failed;
    if (r->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlives the test */
        run(&c);
    }
    close(c.listener);
    *out = r;
    return SEFL_OK;
failed:
    (void)sefl_fail(SEFL_EIO, "relay: %s", strerror(errno));
    if (c.listener >= 0)
        close(c.listener);
    if (r->seen != MAP_FAILED)
        (void)munmap(r->seen, sizeof *r->seen);
    free(r);
    return SEFL_EIO;
}

uint16_t relay_port(const relay *r)
{
    return r->port;
}

unsigned relay_connections(const relay *r)
{
    return r->seen->count;
}

uint64_t relay_bytes(const relay *r)
{
    return r->seen->bytes;
}

void relay_mute_after(relay *r, uint64_t bytes)
{
    r->seen->mute_up_to = 0;
    r->seen->mute_from = r->seen->bytes + bytes;
    r->seen->mute_up_to = r->seen->count ? r->seen->count : 1;
}

void relay_stop(relay *r)
{
    if (!r)
        return;
    (void)kill(r->pid, SIGKILL);
    (void)waitpid(r->pid, NULL, 0);
    (void)munmap(r->seen, sizeof *r->seen);
    free(r);
}
