/* Each room is a separate mapping: the heap may keep memory that is freed, so it could not
 * guarantee the budget. */
#include "roles/aggregator/body_pool.h"

#include "base/alloc.h"
#include "base/fault.h"
#include "store/journal/spool.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

struct body_room {
    body_pool *of;
    body_room *next;
    uint8_t *bytes;
};

struct body_pool {
    size_t bytes, most;
    pthread_mutex_t lock;
    body_room *idle; /* most recently used first: its bytes are likely to be cached */
    size_t made, taken;
};

sefl_status body_pool_new(body_pool **out, uint64_t body_bytes, size_t budget)
{
    SEFL_MAKE(body_pool, rs, out);
    pthread_mutex_init(&rs->lock, NULL);
    if (body_bytes <= budget) {
        rs->bytes = (size_t)SPOOL_ROOM(body_bytes);
        rs->most = rs->bytes > 0 ? budget / rs->bytes : 0;
    }
    SEFL_HAND_OVER(out, rs, body_pool_free);
}

static void room_free(body_room *r)
{
    if (!r)
        return;
    if (r->bytes)
        munmap(r->bytes, r->of->bytes);
    sefl_free(r);
}

void body_pool_trim(body_pool *rs)
{
    if (!rs)
        return;
    pthread_mutex_lock(&rs->lock);
    body_room *idle = rs->idle;
    rs->idle = NULL;
    while (idle) { /* under the lock, so that the budget is never exceeded */
        body_room *r = idle;
        idle = r->next;
        room_free(r);
        rs->made--;
    }
    pthread_mutex_unlock(&rs->lock);
}

void body_pool_free(body_pool *rs)
{
    if (!rs)
        return;
    assert(rs->taken == 0);
    body_pool_trim(rs);
    pthread_mutex_destroy(&rs->lock);
    sefl_free(rs);
}

static sefl_status room_new(body_room **out, body_pool *rs)
{
    SEFL_MAKE(body_room, r, out);
    r->of = rs;
    void *p = fault_hit(FAULT_ALLOC) ? MAP_FAILED
                                     : mmap(NULL, rs->bytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SEFL_CHECK(p != MAP_FAILED, SEFL_ENOMEM, "out of memory: %zu bytes wanted", rs->bytes);
    r->bytes = p;
#ifdef MADV_HUGEPAGE
    (void)!madvise(p, rs->bytes, MADV_HUGEPAGE); /* optional: fewer pages to pin for the disk */
#endif
    SEFL_HAND_OVER(out, r, room_free);
}

body_room *body_pool_take(body_pool *rs)
{
    if (!rs)
        return NULL;
    pthread_mutex_lock(&rs->lock);
    body_room *r = rs->idle;
    bool make = !r && rs->made < rs->most;
    if (r)
        rs->idle = r->next;
    rs->made += make;
    rs->taken += r || make;
    pthread_mutex_unlock(&rs->lock);
    if (make && room_new(&r, rs) != SEFL_OK) { /* no memory: works without a room */
        pthread_mutex_lock(&rs->lock);
        rs->made--;
        rs->taken--;
        pthread_mutex_unlock(&rs->lock);
    }
    return r;
}

uint8_t *room_bytes(const body_room *r)
{
    return r->bytes;
}

void room_give(body_room *r)
{
    if (!r)
        return;
    body_pool *rs = r->of;
    pthread_mutex_lock(&rs->lock);
    r->next = rs->idle;
    rs->idle = r;
    rs->taken--;
    pthread_mutex_unlock(&rs->lock);
}

size_t body_pool_most(const body_pool *rs)
{
    return rs->most;
}

size_t body_pool_taken(body_pool *rs)
{
    pthread_mutex_lock(&rs->lock);
    size_t n = rs->taken;
    pthread_mutex_unlock(&rs->lock);
    return n;
}
