#define _GNU_SOURCE
#include "roles/aggregator/readback.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WINDOW = 8 << 20, PAGE = 4096 /* minimum page size: bounds mincore's results */ };

sefl_status readback_open(readback *r, const char *path, uint64_t total, bool with_read)
{
    sefl_status st = SEFL_OK;
    struct stat sb;
    *r = (readback){ .path = path, .total = total, .with_read = with_read };
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    SEFL_CHECK(r->fd >= 0, errno == ENOENT ? SEFL_ECRYPTO : SEFL_EIO, "cannot open %s: %s", path,
               strerror(errno));
    SEFL_CHECK(fstat(r->fd, &sb) == 0, SEFL_EIO, "cannot stat %s: %s", path, strerror(errno));
    SEFL_CHECK(S_ISREG(sb.st_mode), SEFL_ECRYPTO, "%s is not a file", path);
    SEFL_CHECK((uint64_t)sb.st_size == total, SEFL_ECRYPTO,
               "cannot read %s: it has %jd bytes, not %" PRIu64, path, (intmax_t)sb.st_size, total);
done:
    if (st != SEFL_OK)
        readback_close(r);
    return st;
}

static void unmap(readback *r)
{
    if (r->map)
        munmap(r->map, r->map_bytes);
    r->map = NULL;
}

/* Maps a window with the next n bytes if all of it is in memory. */
static void map_next(readback *r, size_t n)
{
    unsigned char here[WINDOW / PAGE];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    unmap(r);
    r->map_from = r->at - r->at % page;
    uint64_t left = r->total - r->map_from;
    r->map_bytes = left < WINDOW ? (size_t)left : WINDOW;
    if (r->at + n > r->map_from + r->map_bytes)
        return; /* larger than a window: read it */
    void *p =
        mmap(NULL, r->map_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, r->fd, (off_t)r->map_from);
    if (p == MAP_FAILED)
        return;
    size_t pages = (r->map_bytes + page - 1) / page;
    bool all = mincore(p, r->map_bytes, here) == 0;
    for (size_t i = 0; all && i < pages; i++)
        all = here[i] & 1;
    if (all)
        r->map = p;
    else
        munmap(p, r->map_bytes);
}

static sefl_status read_next(const readback *r, uint8_t *out, size_t n)
{
    size_t got;
    sefl_status st = file_read_at(r->fd, r->path, r->at, out, n, &got);
    return st == SEFL_OK && got < n ? sefl_fail(SEFL_ECRYPTO, "%s is too short", r->path) : st;
}

sefl_status readback_next(readback *r, const uint8_t **out, size_t n, uint8_t *room)
{
    SEFL_NEED(n <= r->total - r->at, SEFL_ECRYPTO, "cannot read %s: it is too short", r->path);
    bool there = r->map && r->at + n <= r->map_from + r->map_bytes;
    if (!there && !r->with_read) {
        map_next(r, n);
        there = r->map != NULL;
    }
    if (!there) {
        SEFL_PASS(read_next(r, room, n));
        *out = room;
    } else {
        *out = r->map + (r->at - r->map_from);
    }
    r->at += n;
    return SEFL_OK;
}

void readback_close(readback *r)
{
    unmap(r);
    if (r->path && r->fd >= 0)
        close(r->fd);
    r->fd = -1;
}
