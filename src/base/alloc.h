/* alloc: the one door to the heap, so that sizes are checked for overflow and tests can make any
 * allocation fail. Memory is zeroed. Owners of secrets wipe before they free.
 *
 *     SEFL_TRY(sefl_new(&table, count, sizeof *table));
 *
 * Threads: any. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include "base/status.h"

#include <stddef.h>

/* Sets *(void **)out to count*size zeroed bytes (never NULL, also for zero bytes); on failure to
 * NULL with SEFL_ENOMEM. Aligned to 64 bytes, a cache line and an AVX-512 register. From 4 MiB on
 * the system is asked for huge pages. */
sefl_status sefl_new(void *out, size_t count, size_t size) SEFL_MUST_CHECK;

/* Grows or shrinks *(void **)ptr, which came from sefl_grow or is NULL, to size bytes. New bytes
 * are not zeroed; the old block is wiped when it moves. On failure it stays as it was. Not for
 * blocks of sefl_new. */
sefl_status sefl_grow(void *ptr, size_t old_size, size_t size) SEFL_MUST_CHECK;

/* Makes the array at *(void **)ptr hold at least `want` items of `size` bytes: *cap items now, at
 * least twice as many when it grows. ptr and *cap as sefl_grow wants: NULL and 0 at first. */
sefl_status sefl_room(void *ptr, size_t *cap, size_t want, size_t size) SEFL_MUST_CHECK;

/* A copy of the string on the heap. */
sefl_status sefl_strdup(char **out, const char *s) SEFL_MUST_CHECK;

/* Frees what any of the above gave; NULL is fine. */
void sefl_free(void *p);

/* Wipes n bytes, then frees; NULL is fine whatever n is. */
void sefl_free_secret(void *p, size_t n);

/* Bytes that came through this door and are not freed, and the most there were since sefl_heap_mark:
 * what a piece of work takes is the difference. Of all threads together. */
size_t sefl_heap_live(void);
size_t sefl_heap_peak(void);
void sefl_heap_mark(void);

#endif
