/* sized: structs of the public interface that begin with their size, so that they can grow.
 *
 * A program compiled with an older header has a shorter struct, one compiled with a newer header a
 * longer one. Threads: any.   Secrets: none. */
#ifndef API_SIZED_H
#define API_SIZED_H

#include "base/status.h"

#include <stddef.h>

/* Copies the caller's struct `given` (NULL: all zero) to out, whose rest is zero. SEFL_EINVAL if
 * its size is not set; SEFL_EUNSUPPORTED if the caller set a member that this library does not
 * know. */
sefl_status sized_in(void *out, size_t bytes, const void *given) SEFL_MUST_CHECK;

/* Copies value to the caller's struct, as much as it has room for; its size stays. SEFL_EINVAL if
 * it is NULL or its size is not set. */
sefl_status sized_out(void *given, const void *value, size_t bytes) SEFL_MUST_CHECK;

#endif
