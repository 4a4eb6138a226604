#include "base/arena.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

enum { ALIGN = 64 };

sefl_status arena_init(arena *a, size_t bytes)
{
    *a = (arena){ 0 };
    SEFL_PASS(sefl_new(&a->p, bytes, 1));
    a->cap = bytes;
    return SEFL_OK;
}

size_t arena_cost(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ALIGN)
        return 0;
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

void *arena_take(arena *a, size_t count, size_t size)
{
    size_t bytes = arena_cost(count, size);
    if ((bytes == 0 && count != 0 && size != 0) || bytes > a->cap - a->used)
        return NULL;
    void *p = a->p + a->used;
    memset(p, 0, bytes);
    a->used += bytes;
    if (a->used > a->peak)
        a->peak = a->used;
    return p;
}

void arena_clear(arena *a)
{
    sefl_free_secret(a->p, a->cap);
    *a = (arena){ 0 };
}
