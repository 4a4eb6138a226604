/* The pair in memory. One lock covers both directions. Each direction is a ring buffer that grows
 * up to `limit` bytes, or up to CHANNEL_INBOX while both ends are blocked in a send. */
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/channel.h"
#include "base/cond.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct queue {
    uint8_t *p;
    size_t cap, at, n; /* n bytes from `at` on, wrapping at cap */
} queue;

typedef struct pair {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    queue q[2];                 /* q[i]: unread bytes that end i has sent */
    bool closed[2], sending[2]; /* sending: blocked in a send */
    size_t limit;
    unsigned timeout_ms;
    struct end {
        struct pair *pair;
        int side;
    } end[2];
} pair;

static sefl_status wait_moved(pair *p, const struct timespec *until)
{
    if (pthread_cond_timedwait(&p->moved, &p->lock, until) != 0)
        return sefl_fail(SEFL_ETIMEOUT, "channel: peer silent for %u ms", p->timeout_ms);
    return SEFL_OK;
}

static sefl_status queue_room(queue *q, size_t n, size_t most)
{
    size_t cap = q->cap ? q->cap : 1 << 12;
    uint8_t *bigger;
    if (q->cap - q->n >= n || q->cap >= most)
        return SEFL_OK;
    while (cap - q->n < n && cap < most)
        cap *= 2;
    SEFL_PASS(sefl_new(&bigger, cap, 1));
    size_t first = q->n < q->cap - q->at ? q->n : q->cap - q->at;
    if (q->n > 0) {
        memcpy(bigger, q->p + q->at, first);
        memcpy(bigger + first, q->p, q->n - first);
    }
    sefl_free_secret(q->p, q->cap);
    *q = (queue){ .p = bigger, .cap = cap, .n = q->n };
    return SEFL_OK;
}

static sefl_status pair_send(void *self, const void *bytes, size_t n)
{
    const struct end *e = self;
    pair *p = e->pair;
    queue *q = &p->q[e->side];
    const uint8_t *from = bytes;
    sefl_status st = SEFL_OK;
    struct timespec until = cond_after(p->timeout_ms);
    pthread_mutex_lock(&p->lock);
    while (n > 0) {
        SEFL_CHECK(!p->closed[!e->side], SEFL_ECLOSED, "channel: the peer closed the connection");
        SEFL_TRY(queue_room(q, n, p->sending[!e->side] ? CHANNEL_INBOX : p->limit));
        size_t end = (q->at + q->n) % q->cap;
        size_t take = q->cap - q->n < n ? q->cap - q->n : n;
        if (take > q->cap - end)
            take = q->cap - end;
        if (take == 0) {
            p->sending[e->side] = true;
            st = wait_moved(p, &until);
            p->sending[e->side] = false;
            SEFL_TRY(st);
            continue;
        }
        memcpy(q->p + end, from, take);
        q->n += take, from += take, n -= take;
        pthread_cond_broadcast(&p->moved);
    }
done:
    pthread_mutex_unlock(&p->lock);
    return st;
}

static sefl_status pair_recv(void *self, void *bytes, size_t n)
{
    const struct end *e = self;
    pair *p = e->pair;
    queue *q = &p->q[!e->side];
    uint8_t *to = bytes;
    sefl_status st = SEFL_OK;
    struct timespec until = cond_after(p->timeout_ms);
    pthread_mutex_lock(&p->lock);
    while (n > 0) {
        size_t take = q->n < n ? q->n : n;
        if (take > q->cap - q->at)
            take = q->cap - q->at;
        if (take == 0) {
            SEFL_CHECK(!p->closed[!e->side], SEFL_ECLOSED,
                       "channel: the peer closed the connection");
            SEFL_TRY(wait_moved(p, &until));
            continue;
        }
        memcpy(to, q->p + q->at, take);
        q->at = (q->at + take) % q->cap;
        q->n -= take, to += take, n -= take;
        pthread_cond_broadcast(&p->moved);
    }
done:
    pthread_mutex_unlock(&p->lock);
    return st;
}

static sefl_status pair_flush(void *self)
{
    (void)self;
    return SEFL_OK;
}

static const channel_ops pair_ops = { pair_send, pair_recv, pair_flush };

sefl_status channel_pair_new(channel *a, channel *b, unsigned timeout_ms)
{
    pair *p;
    *a = *b = (channel){ .dead = true };
    SEFL_PASS(sefl_new(&p, 1, sizeof *p));
    pthread_mutex_init(&p->lock, NULL);
    cond_init(&p->moved);
    p->timeout_ms = timeout_ms;
    p->limit = CHANNEL_INBOX;
    for (int i = 0; i < 2; i++)
        p->end[i] = (struct end){ .pair = p, .side = i };
    *a = (channel){ .ops = &pair_ops, .self = &p->end[0] };
    *b = (channel){ .ops = &pair_ops, .self = &p->end[1] };
    return SEFL_OK;
}

sefl_status channel_pair_limit(channel *end, size_t bytes)
{
    pair *p = ((const struct end *)end->self)->pair;
    p->limit = bytes;
    for (int i = 0; i < 2; i++)
        SEFL_PASS(queue_room(&p->q[i], bytes, bytes));
    return SEFL_OK;
}

void channel_pair_close(channel *end)
{
    const struct end *e = end->self;
    if (!e)
        return;
    pair *p = e->pair;
    pthread_mutex_lock(&p->lock);
    p->closed[e->side] = true;
    bool last = p->closed[!e->side];
    pthread_cond_broadcast(&p->moved);
    pthread_mutex_unlock(&p->lock);
    *end = (channel){ .dead = true };
    if (!last)
        return;
    for (int i = 0; i < 2; i++)
        sefl_free_secret(p->q[i].p, p->q[i].cap);
    pthread_cond_destroy(&p->moved);
    pthread_mutex_destroy(&p->lock);
    sefl_free(p);
}

typedef struct running {
    channel_side side;
    channel ch;
    sefl_status st;
    char why[512];
} running;

static void *run_side(void *arg)
{
    running *r = arg;
    r->st = r->side.run(r->side.ctx, &r->ch);
    if (r->st != SEFL_OK)
        snprintf(r->why, sizeof r->why, "%s", sefl_last_error());
    channel_pair_close(&r->ch);
    return NULL;
}

sefl_status channel_pair_run(channel_side here, channel_side there, unsigned timeout_ms,
                             size_t limit)
{
    sefl_status st = SEFL_OK;
    running a = { .side = here }, b = { .side = there };
    pthread_t thread;
    SEFL_PASS(channel_pair_new(&a.ch, &b.ch, timeout_ms));
    SEFL_TRY(channel_pair_limit(&a.ch, limit));
    SEFL_TRY(thread_start(&thread, run_side, &b));
    run_side(&a);
    pthread_join(thread, NULL);
    if (b.st != SEFL_OK && (a.st == SEFL_OK || a.st == SEFL_ECLOSED))
        a = b; /* report the side that failed first, not the one that saw it close */
    SEFL_CHECK(a.st == SEFL_OK, a.st, "%s", a.why);
done:
    channel_pair_close(&a.ch);
    channel_pair_close(&b.ch);
    return st;
}
