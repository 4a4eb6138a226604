/* readback: reads a stored body from start to end, and avoids copies where that is safe.
 *
 *     SEFL_TRY(readback_open(&r, path, total, false));      // SEFL_ECRYPTO unless it has this size
 *     SEFL_TRY(readback_next(&r, &p, n, room));              // the next n bytes, mapped or in room
 *     readback_close(&r);
 *
 * A body that was just written is in the page cache. readback maps it, one window at a time, and
 * asks the kernel which pages are in memory before it touches them. It uses read(2) for pages that
 * would come from the disk, so that a failing disk causes an error and not a signal during an
 * addition. (If another process of AS's user truncates the file between check and use, this process
 * dies.) with_read: maps nothing, for files that may have changed since they were written.
 *
 * A file that is gone or has another size is SEFL_ECRYPTO: the body is lost. SEFL_EIO: the disk did
 * not answer.
 *
 * Threads: one owner.   Secrets: none (ciphertexts).   Memory: a window of 8 MiB. */
#ifndef ROLES_AGGREGATOR_READBACK_H
#define ROLES_AGGREGATOR_READBACK_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct readback {
    const char *path; /* borrowed */
    int fd;
    bool with_read;
    uint64_t at, total;
    uint8_t *map; /* NULL: nothing is mapped */
    uint64_t map_from;
    size_t map_bytes;
} readback;

sefl_status readback_open(readback *r, const char *path, uint64_t total,
                          bool with_read) SEFL_MUST_CHECK;
/* room is the caller's buffer of n bytes. *out is valid until the next call. */
sefl_status readback_next(readback *r, const uint8_t **out, size_t n,
                          uint8_t *room) SEFL_MUST_CHECK;
/* Does nothing after a failed open, or if r is zero-filled. */
void readback_close(readback *r);

#endif
