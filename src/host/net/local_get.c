#include "net/local_get.h"

#include "net/local_http.h"
#include "net/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS = 2000, HEAD_MAX = 8192, PIECE = 4096 };

sefl_status local_answer_read(sefl_span in, unsigned *status, size_t *body)
{
    static const char end[] = "\r\n\r\n";
    *status = 0, *body = 0;
    SEFL_NEED(in.n >= 13 && memcmp(in.p, "HTTP/1.", 7) == 0 && in.p[8] == ' ', SEFL_EPROTO,
              "the answer is not HTTP");
    for (int i = 9; i < 12; i++) {
        SEFL_NEED(in.p[i] >= '0' && in.p[i] <= '9', SEFL_EPROTO, "the answer has no HTTP status");
        *status = *status * 10 + (unsigned)(in.p[i] - '0');
    }
    for (size_t i = 12; i + 4 <= in.n && i < HEAD_MAX; i++)
        if (memcmp(in.p + i, end, 4) == 0) {
            *body = i + 4;
            return SEFL_OK;
        }
    return sefl_fail(SEFL_EPROTO, "the answer's header has no end");
}

static sefl_status send_all(int fd, sefl_span b, uint64_t until)
{
    short seen;
    while (b.n > 0) {
        ssize_t n = send(fd, b.p, b.n, MSG_NOSIGNAL);
        if (n > 0) {
            b.p += n, b.n -= (size_t)n;
            continue;
        }
        SEFL_NEED(errno == EAGAIN || errno == EINTR, SEFL_EIO, "%s", strerror(errno));
        SEFL_PASS(socket_wait(fd, POLLOUT, until, &seen));
        SEFL_NEED(seen, SEFL_ETIMEOUT, "no answer in time");
    }
    return SEFL_OK;
}

static sefl_status receive_all(sefl_buf *in, int fd, size_t max, uint64_t until)
{
    uint8_t piece[PIECE];
    short seen;
    for (;;) {
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        if (n == 0)
            return SEFL_OK;
        if (n > 0) {
            SEFL_NEED(in->n + (size_t)n <= max + HEAD_MAX, SEFL_ERANGE,
                      "the answer has more than %zu bytes", max);
            SEFL_PASS(wr_raw(in, piece, (size_t)n));
            continue;
        }
        SEFL_NEED(errno == EAGAIN || errno == EINTR, SEFL_EIO, "%s", strerror(errno));
        SEFL_PASS(socket_wait(fd, POLLIN, until, &seen));
        SEFL_NEED(seen, SEFL_ETIMEOUT, "no answer in time");
    }
}

sefl_status local_get(sefl_buf *body, unsigned *status, const char *host, uint16_t port,
                      const char *path, size_t max)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    size_t at;
    int fd = -1;
    const uint64_t until = socket_now_ms() + WAIT_MS;
    const bool six = strchr(host, ':') != NULL;
    SEFL_TRY(local_http_check(host));
    SEFL_TRY(socket_dial(&fd, host, port, until));
    SEFL_TRY(wr_fmt(&b, "GET %s HTTP/1.1\r\nHost: %s%s%s:%u\r\nConnection: close\r\n\r\n", path,
                    six ? "[" : "", host, six ? "]" : "", port));
    SEFL_TRY(send_all(fd, buf_span(&b), until));
    buf_reset(&b);
    SEFL_TRY(receive_all(&b, fd, max, until));
    SEFL_TRY(local_answer_read(buf_span(&b), status, &at));
    SEFL_TRY(wr_raw(body, b.p + at, b.n - at));
done:
    if (fd >= 0)
        close(fd);
    buf_clear(&b);
    return st;
}
