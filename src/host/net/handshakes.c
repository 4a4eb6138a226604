#include "net/handshakes.h"

#include "base/alloc.h"
#include "net/socket.h"
#include "net/tls_inside.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    PLACES = 64,
    AT_ONCE = 16, /* accepted before the pending handshakes continue */
};

typedef struct guest {
    tls *t;
    uint64_t came_ms;
    uint8_t from[SOCKET_ORIGIN];
    bool moved; /* poll reported an event */
} guest;

struct handshakes {
    int fd;
    unsigned n;
    guest at[PLACES]; /* oldest first */
};

sefl_status handshakes_new(handshakes **out, int fd)
{
    SEFL_PASS(sefl_new(out, 1, sizeof **out));
    (*out)->fd = fd;
    return SEFL_OK;
}

static void take_off(handshakes *p, unsigned i)
{
    p->n--;
    memmove(p->at + i, p->at + i + 1, (p->n - i) * sizeof *p->at);
}

static void drop(handshakes *p, unsigned i)
{
    tls_close(p->at[i].t);
    take_off(p, i);
}

void handshakes_free(handshakes *p)
{
    if (!p)
        return;
    while (p->n > 0)
        drop(p, p->n - 1);
    sefl_free(p);
}

/* Returns the oldest connection from the address with the most slots; the newcomer counts for its
 * own. */
static unsigned who_must_go(const handshakes *p, const guest *newcomer)
{
    unsigned found = 0, most = 0;
    for (unsigned i = 0; i < p->n; i++) {
        unsigned same = memcmp(p->at[i].from, newcomer->from, SOCKET_ORIGIN) == 0;
        for (unsigned k = i; k < p->n; k++)
            same += memcmp(p->at[i].from, p->at[k].from, SOCKET_ORIGIN) == 0;
        if (same > most) /* the oldest of an address counts all of it */
            found = i, most = same;
    }
    return found;
}

/* Accepts waiting connections. *pushed: an older connection was closed for a new one. */
static sefl_status take_in(handshakes *p, const tls_id *id, const tls_peer *want,
                           const tls_limits *lim, bool *pushed)
{
    for (unsigned i = 0; i < AT_ONCE; i++) {
        guest g = { .came_ms = socket_now_ms() };
        int fd;
        sefl_status st = socket_accept(&fd, p->fd, 0);
        if (st == SEFL_ETIMEOUT)
            return SEFL_OK;
        SEFL_PASS(st);
        socket_origin(g.from, fd);
        SEFL_PASS(tls_wrap(&g.t, fd, true, NULL, id, want, lim));
        if (p->n == PLACES) {
            drop(p, who_must_go(p, &g));
            *pushed = true;
        }
        p->at[p->n++] = g;
    }
    return SEFL_OK;
}

/* Waits until a handshake can continue or expires, at most until until_ms. *dialled: a connection
 * waits to be accepted. */
static sefl_status wait_for_any(handshakes *p, uint64_t until_ms, unsigned connect_ms,
                                bool *dialled)
{
    struct pollfd v[PLACES + 1];
    for (unsigned i = 0; i < p->n; i++) {
        v[i] = (struct pollfd){ .fd = tls_fd(p->at[i].t), .events = tls_shake_events(p->at[i].t) };
        if (p->at[i].came_ms + connect_ms < until_ms)
            until_ms = p->at[i].came_ms + connect_ms;
    }
    v[p->n] = (struct pollfd){ .fd = p->fd, .events = POLLIN };
    uint64_t now = socket_now_ms(), left = until_ms > now ? until_ms - now : 0;
    int rc = poll(v, p->n + 1, left > 3600000 ? 3600000 : (int)left);
    if (rc < 0 && errno != EINTR)
        return sefl_fail(SEFL_EIO, "poll: %s", strerror(errno));
    for (unsigned i = 0; i < p->n; i++)
        p->at[i].moved = rc > 0 && v[i].revents != 0;
    *dialled = rc > 0 && v[p->n].revents != 0;
    return SEFL_OK;
}

/* Makes one step of every handshake that can continue, until *out is set. Returns the last
 * failure. */
static sefl_status step(tls **out, handshakes *p, const tls_peer *want, unsigned connect_ms)
{
    sefl_status news = SEFL_OK;
    uint64_t now = socket_now_ms();
    for (unsigned i = 0; i < p->n && !*out;) {
        guest *g = &p->at[i];
        bool done = false;
        sefl_status st = SEFL_OK;
        if (g->came_ms + connect_ms <= now) /* however busy it is */
            st = sefl_fail(SEFL_EIO, "tls: the peer did not finish the handshake in time");
        else if (g->moved)
            st = tls_shake(g->t, &done);
        g->moved = false;
        if (st == SEFL_EAUTH)
            tls_tell_refused(g->t, want);
        if (st != SEFL_OK) {
            news = st;
            drop(p, i);
        } else if (done) {
            *out = g->t;
            take_off(p, i);
        } else {
            i++;
        }
    }
    return news;
}

sefl_status handshakes_accept(tls **out, handshakes *p, const tls_id *id, const tls_peer *want,
                              unsigned wait_ms, const tls_limits *lim)
{
    static const tls_limits none;
    const tls_limits *l = lim ? lim : &none;
    const unsigned connect_ms = l->connect_ms ? l->connect_ms : TLS_CONNECT_MS;
    const uint64_t until = socket_now_ms() + wait_ms;
    *out = NULL;
    for (unsigned i = 0; i < p->n; i++)
        tls_want(p->at[i].t, want); /* the allowlist may have changed */
    do {
        bool dialled, pushed = false;
        SEFL_PASS(wait_for_any(p, until, connect_ms, &dialled));
        sefl_status took = SEFL_OK; /* a failure must not delay other handshakes */
        if (dialled)
            took = take_in(p, id, want, l, &pushed);
        sefl_status st = step(out, p, want, connect_ms);
        if (*out)
            return SEFL_OK;
        SEFL_PASS(st);
        SEFL_PASS(took); /* its message is still the last one: no step failed */
        SEFL_NEED(!pushed, SEFL_EIO, "tls: too many handshakes at once: closed the oldest");
    } while (socket_now_ms() < until);
    return sefl_fail(SEFL_ETIMEOUT, "no connection within %u ms", wait_ms);
}

sefl_status tls_accept(tls **out, int fd, const tls_id *id, const tls_peer *want, unsigned wait_ms,
                       const tls_limits *lim)
{
    handshakes *p;
    uint64_t until = socket_now_ms() + wait_ms;
    *out = NULL;
    SEFL_PASS(handshakes_new(&p, fd));
    sefl_status st = handshakes_accept(out, p, id, want, wait_ms, lim);
    while (st != SEFL_OK && st != SEFL_ENOMEM && p->n > 0) {
        uint64_t now = socket_now_ms();
        if (now >= until)
            p->fd = -1; /* no new connections; pending ones may finish */
        st = handshakes_accept(out, p, id, want,
                               now < until ? (unsigned)(until - now) : TLS_CONNECT_MS, lim);
    }
    handshakes_free(p);
    return st;
}
