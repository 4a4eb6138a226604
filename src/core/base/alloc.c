#include "base/alloc.h"

#include "base/ct.h"
#include "base/fault.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 64, PAGE = 4096, HUGE_FROM = 4 << 20 };

static _Atomic size_t live, peak;

static void alloc_add(void *p)
{
    size_t bytes = malloc_usable_size(p);
    size_t now = atomic_fetch_add_explicit(&live, bytes, memory_order_relaxed) + bytes;
    size_t most = atomic_load_explicit(&peak, memory_order_relaxed);
    while (most < now && !atomic_compare_exchange_weak_explicit(
                             &peak, &most, now, memory_order_relaxed, memory_order_relaxed))
        ;
}

size_t sefl_heap_live(void)
{
    return atomic_load_explicit(&live, memory_order_relaxed);
}

size_t sefl_heap_peak(void)
{
    return atomic_load_explicit(&peak, memory_order_relaxed);
}

void sefl_heap_mark(void)
{
    atomic_store_explicit(&peak, sefl_heap_live(), memory_order_relaxed);
}

static sefl_status no_memory(size_t bytes)
{
    return sefl_fail(SEFL_ENOMEM, "out of memory: %zu bytes requested", bytes);
}

/* Call it before the first access. Without huge pages, lookups in a table of 80 MB lose 7 % to
 * address translation. */
static void ask_huge(void *p, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    if (bytes >= HUGE_FROM) {
        size_t into = (PAGE - (uintptr_t)p % PAGE) % PAGE;
        int ignored = madvise((uint8_t *)p + into, (bytes - into) / PAGE * PAGE, MADV_HUGEPAGE);
        (void)ignored; /* only a hint */
    }
#else
    (void)p, (void)bytes;
#endif
}

sefl_status sefl_new(void *out, size_t count, size_t size)
{
    void **slot = out;
    size_t bytes;
    *slot = NULL;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ALIGN)
        return sefl_fail(SEFL_ENOMEM, "out of memory: %zu x %zu bytes requested", count, size);
    if (fault_hit(FAULT_ALLOC))
        return no_memory(bytes);
    size_t rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    void *p = aligned_alloc(ALIGN, rounded ? rounded : ALIGN);
    if (!p)
        return no_memory(bytes);
    alloc_add(p);
    ask_huge(p, rounded);
    memset(p, 0, rounded ? rounded : ALIGN);
    *slot = p;
    return SEFL_OK;
}

sefl_status sefl_grow(void *ptr, size_t old_size, size_t size)
{
    void **slot = ptr;
    if (fault_hit(FAULT_ALLOC))
        return no_memory(size);
    void *p = malloc(size ? size : 1);
    if (!p)
        return no_memory(size);
    alloc_add(p);
    if (*slot) {
        memcpy(p, *slot, old_size < size ? old_size : size);
        sefl_free_secret(*slot, old_size);
    }
    *slot = p;
    return SEFL_OK;
}

sefl_status sefl_room(void *ptr, size_t *cap, size_t want, size_t size)
{
    if (want <= *cap)
        return SEFL_OK;
    size_t items = *cap < 8 ? 16 : 2 * *cap, bytes;
    items = items < want ? want : items;
    if (__builtin_mul_overflow(items, size, &bytes))
        return sefl_fail(SEFL_ENOMEM, "out of memory: %zu x %zu bytes requested", items, size);
    SEFL_PASS(sefl_grow(ptr, *cap * size, bytes));
    *cap = items;
    return SEFL_OK;
}

sefl_status sefl_strdup(char **out, const char *s)
{
    size_t n = strlen(s) + 1;
    SEFL_PASS(sefl_new(out, n, 1));
    memcpy(*out, s, n);
    return SEFL_OK;
}

void sefl_free(void *p)
{
    atomic_fetch_sub_explicit(&live, malloc_usable_size(p), memory_order_relaxed);
    free(p);
}

void sefl_free_secret(void *p, size_t n)
{
    if (p)
        sefl_wipe(p, n);
    sefl_free(p);
}
