/* net_raw: a blocking TLS client that sends arbitrary bytes. Header only. */
#ifndef NET_RAW_H
#define NET_RAW_H

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

typedef struct raw_tls {
    int fd;
    gnutls_session_t s;
    gnutls_certificate_credentials_t cred;
} raw_tls;

static inline int raw_connect(uint16_t port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct timeval t = { .tv_sec = 15 };
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Reads until the text is there, the peer closes, or ms are over. */
static inline const char *raw_until(int fd, const char *text, int ms)
{
    static char got[1 << 16];
    size_t n = 0;
    got[0] = 0;
    while (n < sizeof got - 1 && !(text && strstr(got, text))) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        ssize_t k = poll(&p, 1, ms) == 1 ? recv(fd, got + n, sizeof got - 1 - n, 0) : 0;
        if (k <= 0)
            break;
        n += (size_t)k;
        got[n] = 0;
    }
    return got;
}

/* cert NULL: none. The result of the handshake. */
static inline int raw_open(raw_tls *c, uint16_t port, const char *cert, const char *key,
                           const char *priority)
{
    *c = (raw_tls){ .fd = raw_connect(port) };
    if (c->fd < 0)
        return -1;
    gnutls_certificate_allocate_credentials(&c->cred);
    if (cert && gnutls_certificate_set_x509_key_file(c->cred, cert, key, GNUTLS_X509_FMT_PEM) < 0)
        return -1;
    gnutls_init(&c->s, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL);
    gnutls_priority_set_direct(c->s, priority ? priority : "NORMAL", NULL);
    gnutls_credentials_set(c->s, GNUTLS_CRD_CERTIFICATE, c->cred);
    gnutls_transport_set_int(c->s, c->fd);
    gnutls_handshake_set_timeout(c->s, 15000);
    int rc;
    do
        rc = gnutls_handshake(c->s);
    while (rc < 0 && !gnutls_error_is_fatal(rc));
    return rc;
}

static inline bool raw_send(raw_tls *c, const void *p, size_t n)
{
    const char *at = p;
    while (n > 0) {
        ssize_t k = gnutls_record_send(c->s, at, n);
        if (k <= 0)
            return false;
        at += k, n -= (size_t)k;
    }
    return true;
}

/* Reads until the peer closes or `out` is full; a string. until: stop once it is there. */
static inline size_t raw_read(raw_tls *c, char *out, size_t room, const char *until)
{
    size_t n = 0;
    out[0] = 0;
    while (n + 1 < room) {
        ssize_t k = gnutls_record_recv(c->s, out + n, room - 1 - n);
        if (k < 0 && !gnutls_error_is_fatal((int)k) && k != GNUTLS_E_AGAIN)
            continue;
        if (k <= 0)
            break;
        n += (size_t)k;
        out[n] = 0;
        if (until && strstr(out, until))
            break;
    }
    return n;
}

static inline void raw_close(raw_tls *c)
{
    if (c->s)
        gnutls_deinit(c->s);
    if (c->cred)
        gnutls_certificate_free_credentials(c->cred);
    if (c->fd >= 0)
        close(c->fd);
}

#endif
