/* alloc: all heap memory comes from here, so that sizes are checked for overflow and tests can make
 * any allocation fail. Memory is zeroed. Owners of secrets wipe before they free.
 *
 *     SEFL_TRY(sefl_new(&table, count, sizeof *table));
 *
 * Threads: any. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include "base/status.h"

#include <stddef.h>

/* Sets *(void **)out to count*size zeroed bytes (never NULL, also for zero bytes); on failure to
 * NULL with SEFL_ENOMEM. Aligned to 64 bytes, a cache line and an AVX-512 register. Asks
 * the system for huge pages from 4 MiB on. */
sefl_status sefl_new(void *out, size_t count, size_t size) SEFL_MUST_CHECK;

/* Sets *out to NULL and *object to a zeroed object: the start of a constructor. */
#define sefl_make(out, object) (*(out) = NULL, sefl_new((object), 1, sizeof **(object)))

/* A constructor: *out is NULL until the object is complete; a failure in between frees the object.
 *
 *     sefl_status thing_new(thing **out, size_t n)
 *     {
 *         SEFL_MAKE(thing, t, out);                       // declares st and t
 *         SEFL_TRY(sefl_new(&t->rows, n, sizeof *t->rows));
 *         SEFL_HAND_OVER(out, t, thing_free);             // defines done, returns st
 *     }                                                                                       */
#define SEFL_MAKE(type, object, out) \
    sefl_status st = SEFL_OK;        \
    type *object = NULL;             \
    SEFL_TRY(sefl_make(out, &object))

#define SEFL_HAND_OVER(out, object, release) \
    *(out) = (object), (object) = NULL;      \
    done:                                    \
    release(object);                         \
    return st

/* Grows or shrinks *(void **)ptr, which came from sefl_grow or is NULL, to size bytes. New bytes
 * are not zeroed; the old block is wiped when it moves. On failure it stays as it was. Not for
 * blocks of sefl_new. */
sefl_status sefl_grow(void *ptr, size_t old_size, size_t size) SEFL_MUST_CHECK;

/* Makes the array at *(void **)ptr hold at least `want` items of `size` bytes: *cap is how many it
 * holds, and at least doubles when it grows. Start with NULL and 0. */
sefl_status sefl_room(void *ptr, size_t *cap, size_t want, size_t size) SEFL_MUST_CHECK;

/* A copy of the string on the heap. */
sefl_status sefl_strdup(char **out, const char *s) SEFL_MUST_CHECK;

/* Frees memory of any function above; NULL is fine. */
void sefl_free(void *p);

/* Wipes n bytes, then frees; NULL is fine whatever n is. */
void sefl_free_secret(void *p, size_t n);

/* Bytes allocated here and not freed, and their maximum since sefl_heap_mark, over all threads. The
 * difference is what a piece of work takes. */
size_t sefl_heap_live(void);
size_t sefl_heap_peak(void);
void sefl_heap_mark(void);

#endif
