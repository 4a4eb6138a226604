#define _GNU_SOURCE
#include "net/socket.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

uint64_t socket_now_ms(void)
{
    sefl_clock c = clock_monotonic();
    return clock_ms(&c);
}

sefl_status socket_wait(int fd, short events, uint64_t until_ms, short *seen)
{
    struct pollfd p = { .fd = fd, .events = events };
    *seen = 0;
    for (;;) {
        uint64_t now = socket_now_ms(), left = until_ms > now ? until_ms - now : 0;
        int n = poll(&p, 1, left > 3600000 ? 3600000 : (int)left);
        if (n > 0) {
            *seen = p.revents;
            return SEFL_OK;
        }
        if (n < 0 && errno != EINTR)
            return sefl_fail(SEFL_EIO, "poll: %s", strerror(errno));
        if (n == 0 && left == 0)
            return SEFL_OK;
    }
}

static sefl_status resolve(struct addrinfo **out, const char *host, uint16_t port, int flags)
{
    char service[8];
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV };
    snprintf(service, sizeof service, "%u", port);
    *out = NULL;
    int rc = getaddrinfo(host, service, &hints, out);
    SEFL_NEED(rc != EAI_MEMORY, SEFL_ENOMEM, "out of memory");
    SEFL_NEED(rc == 0, SEFL_EIO, "cannot find host \"%.128s\": %s", host, gai_strerror(rc));
    return SEFL_OK;
}

static int socket_open(const struct addrinfo *a)
{
    int one = 1;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

sefl_status socket_listen(int *out, const char *address, uint16_t port, uint16_t *bound)
{
    sefl_status st = SEFL_OK;
    struct addrinfo *list = NULL;
    union {
        struct sockaddr_storage any;
        struct sockaddr plain;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = { 0 };
    socklen_t n = sizeof a;
    int fd = -1, one = 1, zero = 0;
    *out = -1;
    SEFL_TRY(resolve(&list, address, port, AI_PASSIVE));
    fd = socket_open(list);
    SEFL_CHECK(fd >= 0, SEFL_EIO, "socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (list->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    SEFL_CHECK(bind(fd, list->ai_addr, list->ai_addrlen) == 0 && listen(fd, 1024) == 0, SEFL_EIO,
               "cannot listen on %.128s port %u: %s", address, port, strerror(errno));
    SEFL_CHECK(getsockname(fd, &a.plain, &n) == 0, SEFL_EIO, "getsockname: %s", strerror(errno));
    *bound = ntohs(a.any.ss_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
    *out = fd, fd = -1;
done:
    if (list)
        freeaddrinfo(list);
    if (fd >= 0)
        close(fd);
    return st;
}

bool socket_is_loopback(const char *address)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, address, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

void socket_origin_of(uint8_t out[SOCKET_ORIGIN], const struct sockaddr *a)
{
    memset(out, 0, SOCKET_ORIGIN);
    if (a->sa_family == AF_INET) {
        out[0] = 4;
        memcpy(out + 1, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
    } else if (a->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
        out[0] = IN6_IS_ADDR_V4MAPPED(six) ? 4 : 6;
        if (out[0] == 4)
            memcpy(out + 1, six->s6_addr + 12, 4);
        else
            memcpy(out + 1, six->s6_addr, 8);
    }
}

void socket_origin(uint8_t out[SOCKET_ORIGIN], int fd)
{
    union {
        struct sockaddr_storage any;
        struct sockaddr plain;
    } a = { 0 };
    socklen_t n = sizeof a;
    if (getpeername(fd, &a.plain, &n) != 0)
        a.any.ss_family = AF_UNSPEC; /* it has disconnected */
    socket_origin_of(out, &a.plain);
}

sefl_status socket_accept(int *out, int fd, unsigned wait_ms)
{
    uint64_t until = socket_now_ms() + wait_ms;
    int one = 1;
    *out = -1;
    for (;;) {
        short seen;
        SEFL_PASS(socket_wait(fd, POLLIN, until, &seen));
        SEFL_NEED(seen, SEFL_ETIMEOUT, "no connection within %u ms", wait_ms);
        int conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (conn >= 0) {
            setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            *out = conn;
            return SEFL_OK;
        }
        /* a peer that disconnected before we accepted it is not our failure */
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            return sefl_fail(SEFL_ENOMEM, "accept: %s", strerror(errno));
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            return sefl_fail(SEFL_EIO, "accept: %s", strerror(errno));
    }
}

/* A caller of a port where nobody listens can get this port for its own end: then it has called
 * itself, and a server that comes back would find its port taken. */
static bool called_itself(int fd)
{
    union {
        struct sockaddr_storage any;
        struct sockaddr plain;
    } here = { 0 }, there = { 0 };
    socklen_t n = sizeof here, m = sizeof there;
    return getsockname(fd, &here.plain, &n) == 0 && getpeername(fd, &there.plain, &m) == 0 &&
           n == m && memcmp(&here, &there, n) == 0;
}

static sefl_status connect_one(int *out, const struct addrinfo *a, uint64_t until_ms)
{
    sefl_status st = SEFL_OK;
    int err = 0, fd = socket_open(a);
    socklen_t n = sizeof err;
    short seen = 0;
    SEFL_CHECK(fd >= 0, SEFL_EIO, "socket: %s", strerror(errno));
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
        SEFL_CHECK(errno == EINPROGRESS, SEFL_EIO, "%s", strerror(errno));
        SEFL_TRY(socket_wait(fd, POLLOUT, until_ms, &seen));
        SEFL_CHECK(seen != 0, SEFL_ETIMEOUT, "no answer in time");
        SEFL_CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n) == 0 && err == 0, SEFL_EIO, "%s",
                   strerror(err));
    }
    SEFL_CHECK(!called_itself(fd), SEFL_EIO, "%s", strerror(ECONNREFUSED));
    *out = fd, fd = -1;
done:
    if (fd >= 0)
        close(fd);
    return st;
}

sefl_status socket_dial(int *out, const char *host, uint16_t port, uint64_t until_ms)
{
    struct addrinfo *list = NULL;
    unsigned left = 0;
    *out = -1;
    SEFL_PASS(resolve(&list, host, port, 0));
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        left++;
    sefl_status st = SEFL_EIO;
    for (const struct addrinfo *a = list; a; a = a->ai_next, left--) {
        /* an address that does not answer uses its share of the time, not all of it */
        uint64_t now = socket_now_ms(), span = until_ms > now ? until_ms - now : 0;
        st = connect_one(out, a, now + span / left);
        if (st == SEFL_OK || st == SEFL_ENOMEM)
            break;
    }
    freeaddrinfo(list);
    return st == SEFL_OK ? st : sefl_fail_at(st, "cannot reach %.128s port %u", host, port);
}
