#include "roles/aggregator/rooms.h"

#include "base/alloc.h"
#include "store/journal/spool.h"

#include <assert.h>
#include <pthread.h>

struct body_room {
    rooms *of;
    body_room *next;
    uint8_t *memory, *bytes;
};

struct rooms {
    size_t bytes, most;
    pthread_mutex_t lock;
    body_room *idle; /* the last given first: its bytes are the likeliest to be in a cache */
    size_t made, taken;
};

sefl_status rooms_new(rooms **out, uint64_t body_bytes, size_t budget)
{
    sefl_status st = SEFL_OK;
    rooms *rs = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&rs, 1, sizeof *rs));
    pthread_mutex_init(&rs->lock, NULL);
    if (body_bytes <= budget) {
        rs->bytes = (size_t)SPOOL_ROOM(body_bytes) + SPOOL_BLOCK;
        rs->most = budget / rs->bytes;
    }
    *out = rs;
done:
    return st;
}

static void room_free(body_room *r)
{
    if (!r)
        return;
    sefl_free(r->memory);
    sefl_free(r);
}

void rooms_trim(rooms *rs)
{
    if (!rs)
        return;
    pthread_mutex_lock(&rs->lock);
    body_room *idle = rs->idle;
    rs->idle = NULL;
    for (const body_room *r = idle; r; r = r->next)
        rs->made--;
    pthread_mutex_unlock(&rs->lock);
    while (idle) {
        body_room *r = idle;
        idle = r->next;
        room_free(r);
    }
}

void rooms_free(rooms *rs)
{
    if (!rs)
        return;
    assert(rs->taken == 0);
    rooms_trim(rs);
    pthread_mutex_destroy(&rs->lock);
    sefl_free(rs);
}

static sefl_status room_new(body_room **out, rooms *rs)
{
    sefl_status st = SEFL_OK;
    body_room *r = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&r, 1, sizeof *r));
    r->of = rs;
    SEFL_TRY(sefl_new(&r->memory, rs->bytes, 1));
    r->bytes = r->memory + (SPOOL_BLOCK - (uintptr_t)r->memory % SPOOL_BLOCK) % SPOOL_BLOCK;
    *out = r, r = NULL;
done:
    room_free(r);
    return st;
}

body_room *rooms_take(rooms *rs)
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
    if (make && room_new(&r, rs) != SEFL_OK) { /* no memory: it works without */
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
    rooms *rs = r->of;
    pthread_mutex_lock(&rs->lock);
    r->next = rs->idle;
    rs->idle = r;
    rs->taken--;
    pthread_mutex_unlock(&rs->lock);
}

size_t rooms_most(const rooms *rs)
{
    return rs->most;
}

size_t rooms_taken(rooms *rs)
{
    pthread_mutex_lock(&rs->lock);
    size_t n = rs->taken;
    pthread_mutex_unlock(&rs->lock);
    return n;
}
