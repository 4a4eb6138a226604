/* Design. The socket does not block; waits are poll(2) with the channel's timeout.
 *  1. out holds bytes not yet passed to the kernel (at most OUT_BYTES); large sends bypass it.
 *  2. in[in_at, in_n) was read ahead: by recv in pieces of READ_AHEAD, by a blocked send up to
 *     CHANNEL_INBOX.
 *  3. While a send waits, it also reads input if there is room, so that two peers that both send
 *     cannot block each other. */
#define _GNU_SOURCE
#include "bench/round/loopback.h"

#include "base/alloc.h"
#include "net/socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OUT_BYTES = 64 << 10, READ_AHEAD = 64 << 10 };

struct loopback {
    channel ch;
    int fd;
    unsigned timeout_ms;
    uint8_t *out;
    size_t out_n;
    uint8_t *in; /* from sefl_grow */
    size_t in_at, in_n, in_cap;
};

static sefl_status system_fail(const char *what)
{
    return sefl_fail(errno == ECONNRESET || errno == EPIPE ? SEFL_ECLOSED : SEFL_EIO,
                     "loopback: %s: %s", what, strerror(errno));
}

/* Reads available input, up to `limit` bytes ahead. *got = 0: no input. */
static sefl_status read_ahead(loopback *lb, size_t limit, size_t *got)
{
    sefl_status st = SEFL_OK;
    *got = 0;
    if (lb->in_at == lb->in_n)
        lb->in_at = lb->in_n = 0;
    if (lb->in_n - lb->in_at >= limit)
        return SEFL_OK;
    if (lb->in_cap - lb->in_n < READ_AHEAD) {
        if (lb->in_at > 0) {
            memmove(lb->in, lb->in + lb->in_at, lb->in_n - lb->in_at);
            lb->in_n -= lb->in_at, lb->in_at = 0;
        }
        if (lb->in_cap - lb->in_n < READ_AHEAD) {
            size_t cap = lb->in_cap ? 2 * lb->in_cap : 2 * READ_AHEAD;
            SEFL_TRY(sefl_grow(&lb->in, lb->in_cap, cap));
            lb->in_cap = cap;
        }
    }
    ssize_t n = recv(lb->fd, lb->in + lb->in_n, lb->in_cap - lb->in_n, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return SEFL_OK;
    if (n < 0)
        return system_fail("receive");
    SEFL_CHECK(n > 0, SEFL_ECLOSED, "loopback: closed by the peer");
    lb->in_n += (size_t)n;
    *got = (size_t)n;
done:
    return st;
}

static sefl_status wait_for(loopback *lb, short events, short *seen)
{
    sefl_status st = socket_wait(lb->fd, events, socket_now_ms() + lb->timeout_ms, seen);
    if (st == SEFL_OK && *seen == 0)
        st = sefl_fail(SEFL_ETIMEOUT, "loopback: peer silent for %u ms", lb->timeout_ms);
    return st;
}

static sefl_status write_all(loopback *lb, const uint8_t *p, size_t n)
{
    sefl_status st = SEFL_OK;
    while (n > 0) {
        ssize_t k = send(lb->fd, p, n, MSG_NOSIGNAL);
        if (k > 0) {
            p += k, n -= (size_t)k;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR)
            return system_fail("send");
        short seen = 0, room = lb->in_n - lb->in_at < CHANNEL_INBOX ? POLLIN : 0;
        size_t got;
        SEFL_TRY(wait_for(lb, (short)(POLLOUT | room), &seen));
        if (seen & (POLLIN | POLLHUP | POLLERR))
            SEFL_TRY(read_ahead(lb, CHANNEL_INBOX, &got));
    }
done:
    return st;
}

static sefl_status lb_flush(void *self)
{
    loopback *lb = self;
    size_t n = lb->out_n;
    lb->out_n = 0;
    return write_all(lb, lb->out, n);
}

static sefl_status lb_send(void *self, const void *p, size_t n)
{
    loopback *lb = self;
    sefl_status st = SEFL_OK;
    if (lb->out_n + n > OUT_BYTES || n > OUT_BYTES / 2)
        SEFL_TRY(lb_flush(lb));
    if (n > OUT_BYTES / 2)
        return write_all(lb, p, n);
    memcpy(lb->out + lb->out_n, p, n);
    lb->out_n += n;
done:
    return st;
}

static sefl_status lb_recv(void *self, void *p, size_t n)
{
    loopback *lb = self;
    uint8_t *to = p;
    sefl_status st = SEFL_OK;
    if (lb->out_n > 0)
        SEFL_TRY(lb_flush(lb));
    while (n > 0) {
        size_t have = lb->in_n - lb->in_at, got = 0;
        if (have > 0) {
            size_t k = have < n ? have : n;
            memcpy(to, lb->in + lb->in_at, k);
            lb->in_at += k, to += k, n -= k;
            continue;
        }
        if (n >= READ_AHEAD) { /* directly into the caller's memory */
            ssize_t k = recv(lb->fd, to, n, 0);
            SEFL_CHECK(k != 0, SEFL_ECLOSED, "loopback: closed by the peer");
            if (k > 0) {
                to += k, n -= (size_t)k;
                continue;
            }
            if (errno != EAGAIN && errno != EINTR)
                return system_fail("receive");
        } else {
            SEFL_TRY(read_ahead(lb, READ_AHEAD, &got));
        }
        short seen;
        if (got == 0)
            SEFL_TRY(wait_for(lb, POLLIN, &seen));
    }
done:
    return st;
}

static const channel_ops lb_ops = { lb_send, lb_recv, lb_flush };

static sefl_status wrap(loopback **out, int fd, unsigned timeout_ms)
{
    sefl_status st = SEFL_OK;
    loopback *lb = NULL;
    SEFL_TRY(sefl_new(&lb, 1, sizeof *lb));
    lb->fd = fd, fd = -1;
    lb->timeout_ms = timeout_ms;
    SEFL_TRY(sefl_new(&lb->out, OUT_BYTES, 1));
    lb->ch = (channel){ .ops = &lb_ops, .self = lb };
    *out = lb, lb = NULL;
done:
    loopback_close(lb);
    if (fd >= 0)
        close(fd);
    return st;
}

sefl_status loopback_accept(loopback **out, int fd, unsigned timeout_ms)
{
    int conn;
    *out = NULL;
    sefl_status st = socket_accept(&conn, fd, timeout_ms);
    return st == SEFL_OK ? wrap(out, conn, timeout_ms) : st;
}

sefl_status loopback_dial(loopback **out, uint16_t port, unsigned timeout_ms)
{
    int conn;
    *out = NULL;
    sefl_status st = socket_dial(&conn, "127.0.0.1", port, socket_now_ms() + timeout_ms);
    return st == SEFL_OK ? wrap(out, conn, timeout_ms) : st;
}

channel *loopback_channel(loopback *lb)
{
    return &lb->ch;
}

void loopback_close(loopback *lb)
{
    if (!lb)
        return;
    if (lb->fd >= 0)
        close(lb->fd);
    sefl_free_secret(lb->out, OUT_BYTES);
    sefl_free_secret(lb->in, lb->in_cap);
    sefl_free(lb);
}
