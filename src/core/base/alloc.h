/* alloc: the only source of heap memory. It checks sizes for overflow, zeroes the memory, and lets
 * tests make any allocation fail. A module wipes its secrets before it frees them.
 *
 *     SEFL_TRY(sefl_new(&table, count, sizeof *table));
 *
 * Threads: any. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include "base/status.h"

#include <stddef.h>

/* Allocates count*size zeroed bytes and stores their address in *(void **)out. On success the
 * pointer is not NULL, even for zero bytes; on SEFL_ENOMEM it is NULL. The block is aligned to 64
 * bytes, the size of a cache line and of an AVX-512 register. For 4 MiB or more, sefl_new asks the
 * system for huge pages. */
sefl_status sefl_new(void *out, size_t count, size_t size) SEFL_MUST_CHECK;

/* Sets *out to NULL and *object to a new zeroed object; a constructor calls this first. */
#define sefl_make(out, object) (*(out) = NULL, sefl_new((object), 1, sizeof **(object)))

/* A constructor's frame: *out stays NULL until the object is complete; failure frees the object.
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

/* Resizes *(void **)ptr, which is NULL or came from sefl_grow (not sefl_new), to size bytes. New
 * bytes are not zeroed. On success the old block is wiped and freed; on failure it is unchanged. */
sefl_status sefl_grow(void *ptr, size_t old_size, size_t size) SEFL_MUST_CHECK;

/* Grows the array at *(void **)ptr to at least `want` items of `size` bytes. *cap is its capacity
 * in items, which at least doubles when the array grows. Initialise them with NULL and 0. */
sefl_status sefl_room(void *ptr, size_t *cap, size_t want, size_t size) SEFL_MUST_CHECK;

/* Sets *out to a copy of the string. */
sefl_status sefl_strdup(char **out, const char *s) SEFL_MUST_CHECK;

/* Frees memory from any function above. p may be NULL. */
void sefl_free(void *p);

/* Wipes n bytes, then frees them. If p is NULL, does nothing, whatever n is. */
void sefl_free_secret(void *p, size_t n);

/* sefl_heap_live returns the number of bytes allocated and not yet freed, sefl_heap_peak its
 * maximum since sefl_heap_mark. Peak minus live bytes at the mark is the extra memory used since
 * then. */
size_t sefl_heap_live(void);
size_t sefl_heap_peak(void);
void sefl_heap_mark(void);

#endif
