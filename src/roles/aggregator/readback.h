/* readback: the bytes of a body that lies on disk, in order, without a copy where that is safe.
 *
 *     SEFL_TRY(readback_open(&r, path, total, false));      // SEFL_EIO unless it has this size
 *     SEFL_TRY(readback_next(&r, &p, n, room));              // the next n bytes: there, or in room
 *     readback_close(&r);
 *
 * A body that was just written is in the system's memory: readback maps it, a window at a time,
 * and asks which pages are in memory before it touches them. It reads pages that would come from
 * the disk, so that a failing disk gives a status and not a signal in the middle of a sum. (A
 * process of AS's own user that truncates a file of the state folder in the microseconds between
 * ends this process.) with_read: nothing is mapped; for files that may have changed since they
 * were written.
 *
 * Threads: one owner.   Secrets: none (ciphertexts).   Memory: a window of 8 MiB. */
#ifndef ROLES_AGGREGATOR_READBACK_H
#define ROLES_AGGREGATOR_READBACK_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct readback {
    const char *path; /* the caller's */
    int fd;
    bool with_read;
    uint64_t at, total;
    uint8_t *map; /* NULL: none */
    uint64_t map_from;
    size_t map_bytes;
} readback;

sefl_status readback_open(readback *r, const char *path, uint64_t total,
                          bool with_read) SEFL_MUST_CHECK;
/* room: n bytes of the caller's. *out lives until the next call. */
sefl_status readback_next(readback *r, const uint8_t **out, size_t n,
                          uint8_t *room) SEFL_MUST_CHECK;
/* Clearing one that failed to open, or zeros, is fine. */
void readback_close(readback *r);

#endif
