/* Design. A part's bytes and the running hash never differ: a write that fails half-way is cut off
 * again, and reopening a part hashes its content. The lock is on the part's inode. The part may be
 * renamed or deleted between open and flock, so open_part checks its name again afterwards. In a
 * room, bytes [0, written) are in the file and [0, hashed) in the hash, which runs ahead because
 * the bytes are still in a cache. There a failed write ends the spool. */
#define _GNU_SOURCE
#include "store/journal/spool.h"

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/hex.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { READ_PIECE = 1 << 16, HASH_PIECE = 1 << 14, LEAVE = 1 << 20, HEX = 2 * BLAKE3_BYTES };

struct spool {
    int fd; /* of the part; -1: the body is complete */
    bool broken;
    uint64_t offset, total;   /* the next byte; bytes of the body */
    uint8_t *room;            /* NULL: bytes are written as they come */
    uint64_t written, hashed; /* of those in the room */
    uint64_t skip;            /* bytes in front that are not hashed */
    update_name name;         /* of the bytes [skip, offset), or [skip, hashed) in a room */
    uint8_t hash[BLAKE3_BYTES];
    char *folder, *part, *whole;
};

/* ---- names --------------------------------------------------------------------------------- */

static sefl_status path_of(char out[PATH_MAX], const char *folder, const uint8_t hash[BLAKE3_BYTES],
                           const char *tail)
{
    char hex[HEX + 1];
    hex_write(hex, hash, BLAKE3_BYTES);
    return file_path(out, "%s/%s%s", folder, hex, tail);
}

static bool is_part(const char *name)
{
    return strlen(name) == HEX + 5 && hex_length(name) == HEX && strcmp(name + HEX, ".part") == 0;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Opens the part under its name and locks it. */
static sefl_status open_part(spool *s)
{
    sefl_status st = SEFL_OK;
    struct stat mine, named;
    for (int tries = 0; tries < 16; tries++) {
        s->fd = open(s->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
        SEFL_CHECK(s->fd >= 0, SEFL_EIO, "cannot open %s: %s", s->part, strerror(errno));
        SEFL_CHECK(flock(s->fd, LOCK_EX | LOCK_NB) == 0, SEFL_ESTATE,
                   "another connection is already uploading these bytes");
        SEFL_CHECK(fstat(s->fd, &mine) == 0 && S_ISREG(mine.st_mode), SEFL_EIO, "%s is not a file",
                   s->part);
        if (stat(s->part, &named) == 0 && named.st_ino == mine.st_ino &&
            named.st_dev == mine.st_dev)
            return SEFL_OK;
        close(s->fd); /* finished or deleted meanwhile */
        s->fd = -1;
    }
    st = sefl_fail(SEFL_ESTATE, "another connection is already uploading these bytes");
done:
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    return st;
}

/* Hashes these bytes, which are at this offset of the body. */
static void hash_at(spool *s, uint64_t at, sefl_span bytes)
{
    uint64_t head = at < s->skip ? s->skip - at : 0;
    if (head < bytes.n)
        update_name_add(&s->name, span_of(bytes.p + head, bytes.n - (size_t)head));
}

/* Hashes what the file has, up to a byte more than the body: s->offset. */
static sefl_status hash_file(spool *s, int fd, const char *path)
{
    sefl_status st = SEFL_OK;
    uint8_t *piece = NULL;
    SEFL_TRY(sefl_new(&piece, READ_PIECE, 1));
    update_name_init(&s->name);
    for (s->offset = 0; s->offset <= s->total;) {
        ssize_t got = fault_hit(FAULT_READ) ? (errno = EIO, -1) : read(fd, piece, READ_PIECE);
        if (got < 0 && errno == EINTR)
            continue;
        SEFL_CHECK(got >= 0, SEFL_EIO, "cannot read %s: %s", path, strerror(errno));
        if (got == 0)
            break;
        hash_at(s, s->offset, span_of(piece, (size_t)got));
        s->offset += (uint64_t)got;
    }
done:
    sefl_free(piece);
    return st;
}

/* Reads the part; empties a part that is longer than the body. */
static sefl_status take_in(spool *s)
{
    SEFL_PASS(hash_file(s, s->fd, s->part));
    if (s->offset > s->total) {
        SEFL_NEED(ftruncate(s->fd, 0) == 0 && lseek(s->fd, 0, SEEK_SET) == 0, SEFL_EIO,
                  "cannot cut %s: %s", s->part, strerror(errno));
        update_name_init(&s->name);
        s->offset = 0;
    }
    return SEFL_OK;
}

static sefl_status end_hash(spool *s)
{
    uint8_t got[BLAKE3_BYTES];
    update_name_end(&s->name, got);
    return memcmp(got, s->hash, sizeof got) == 0
               ? SEFL_OK
               : sefl_fail(SEFL_EAUTH, "the bytes do not have the hash that was announced");
}

/* The body is already complete. */
static sefl_status take_whole(spool *s)
{
    sefl_status st = SEFL_OK;
    struct stat sb;
    int fd = open(s->whole, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    SEFL_CHECK(fd >= 0, SEFL_EIO, "cannot open %s: %s", s->whole, strerror(errno));
    SEFL_CHECK(fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode) && (uint64_t)sb.st_size == s->total,
               SEFL_EINVAL, "%s already exists with %jd bytes, not %" PRIu64, s->whole,
               (intmax_t)sb.st_size, s->total);
    SEFL_TRY(hash_file(s, fd, s->whole));
    SEFL_CHECK(s->offset == s->total, SEFL_EIO, "%s has changed", s->whole);
    st = end_hash(s);
    if (st == SEFL_EAUTH)
        unlink(s->whole);
done:
    if (fd >= 0)
        close(fd);
    return st;
}

sefl_status spool_open(spool **out, const char *folder, const uint8_t hash[BLAKE3_BYTES],
                       uint64_t skip, uint64_t total, uint8_t *room)
{
    SEFL_MAKE(spool, s, out);
    struct stat sb;
    char path[PATH_MAX];
    s->fd = -1, s->skip = skip, s->total = total;
    memcpy(s->hash, hash, sizeof s->hash);
    SEFL_TRY(sefl_strdup(&s->folder, folder));
    SEFL_TRY(path_of(path, folder, hash, ".part"));
    SEFL_TRY(sefl_strdup(&s->part, path));
    SEFL_TRY(path_of(path, folder, hash, ""));
    SEFL_TRY(sefl_strdup(&s->whole, path));
    SEFL_TRY(file_make_folder(folder, 0700));
    if (stat(s->whole, &sb) != 0) {
        SEFL_TRY(open_part(s));
        if (stat(s->whole, &sb) != 0) { /* it may have been finished just before we had the lock */
            SEFL_TRY(take_in(s));
            s->room = s->offset == 0 ? room : NULL;
            *out = s, s = NULL;
            goto done;
        }
        unlink(s->part);
        close(s->fd);
        s->fd = -1;
    }
    SEFL_TRY(take_whole(s));
    SEFL_HAND_OVER(out, s, spool_close);
}

uint64_t spool_offset(const spool *s)
{
    return s->offset;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Writes all bytes, or none: half a piece must not remain after the bytes that are hashed. */
static sefl_status spool_put(spool *s, uint64_t at, sefl_span bytes)
{
    sefl_status st = file_write_all(s->fd, bytes);
    if (st == SEFL_OK)
        return SEFL_OK;
    if (ftruncate(s->fd, (off_t)at) != 0 || lseek(s->fd, (off_t)at, SEEK_SET) != (off_t)at)
        s->broken = true;
    sefl_note_before("%s", s->part);
    return st;
}

/* Writes the next n bytes, whole blocks, bypassing the page cache. False: nothing was written. */
static bool put_direct(spool *s, size_t n)
{
    sefl_span bytes = span_of(s->room + s->written, n);
    if (n == 0 || fcntl(s->fd, F_SETFL, O_DIRECT) != 0)
        return false;
    ssize_t got = fault_hit(FAULT_WRITE) ? -1 : write(s->fd, bytes.p, bytes.n);
    (void)fcntl(s->fd, F_SETFL, 0);
    if (got == (ssize_t)n)
        return true;
    /* not supported here, or the disk fails: an ordinary write shows which */
    if (got > 0 && lseek(s->fd, (off_t)s->written, SEEK_SET) != (off_t)s->written)
        s->broken = true;
    return false;
}

/* Writes the collected bytes. If they cannot be written, they are lost and the spool is broken. */
static sefl_status leave(spool *s)
{
    sefl_status st = SEFL_OK;
    size_t n = (size_t)(s->offset - s->written), whole = n - n % SPOOL_BLOCK;
    if (put_direct(s, whole))
        s->written += whole, n -= whole;
    SEFL_CHECK(!s->broken, SEFL_EIO, "cannot write %s: %s", s->part, strerror(errno));
    if (n > 0)
        SEFL_TRY(spool_put(s, s->written, span_of(s->room + s->written, n)));
    s->written += n;
done:
    s->broken = s->broken || st != SEFL_OK;
    return st;
}

static void hash_to(spool *s, uint64_t end)
{
    hash_at(s, s->hashed, span_of(s->room + s->hashed, (size_t)(end - s->hashed)));
    s->hashed = end;
}

static sefl_status gather(spool *s, sefl_span bytes)
{
    while (bytes.n > 0) {
        size_t room = (size_t)(s->written + LEAVE - s->offset), n = bytes.n < room ? bytes.n : room;
        memcpy(s->room + s->offset, bytes.p, n);
        s->offset += n;
        bytes = span_of(bytes.p + n, bytes.n - n);
        if (s->offset - s->hashed >= HASH_PIECE)
            hash_to(s, s->offset - s->offset % HASH_PIECE);
        if (n == room)
            SEFL_PASS(leave(s));
    }
    return SEFL_OK;
}

sefl_status spool_write(spool *s, sefl_span bytes)
{
    SEFL_NEED(!s->broken, SEFL_ESTATE, "%s failed before: open it again", s->part);
    SEFL_NEED(bytes.n <= s->total - s->offset, SEFL_EPROTO,
              "more bytes than the %" PRIu64 " that were announced", s->total);
    if (bytes.n == 0)
        return SEFL_OK;
    if (s->room)
        return gather(s, bytes);
    SEFL_PASS(spool_put(s, s->offset, bytes));
    hash_at(s, s->offset, bytes);
    s->offset += bytes.n;
    return SEFL_OK;
}

sefl_status spool_finish(spool *s)
{
    sefl_status st = SEFL_OK;
    bool unsure = false; /* whether the part's bytes are good */
    SEFL_CHECK(!s->broken, SEFL_ESTATE, "%s failed before: open it again", s->part);
    SEFL_CHECK(s->offset == s->total, SEFL_ESTATE, "%" PRIu64 " of %" PRIu64 " bytes are here",
               s->offset, s->total);
    if (s->fd >= 0) {
        if (s->room) {
            hash_to(s, s->total);
            SEFL_TRY(leave(s));
        }
        unsure = s->broken = true; /* until it is in place: what fails below cannot be repeated */
        SEFL_TRY(end_hash(s));
        /* after a failed sync the kernel may treat pages as clean that it never wrote: such a part
         * must not be read or synced again */
        SEFL_TRY(file_sync(s->fd, s->part));
        SEFL_CHECK(rename(s->part, s->whole) == 0, SEFL_EIO, "cannot rename %s: %s", s->part,
                   strerror(errno));
        close(s->fd);
        s->fd = -1;
        unsure = s->broken = false;
    }
    SEFL_TRY(
        file_sync_folder(s->folder)); /* even if another process renamed it and died before this */
done:
    if (unsure)
        unlink(s->part);
    return st;
}

bool spool_in_room(const spool *s)
{
    return s->room != NULL;
}

void spool_close(spool *s)
{
    if (!s)
        return;
    if (s->fd >= 0 && s->room && !s->broken && s->offset > s->written)
        (void)leave(s); /* for a resumption; what cannot be written is sent again */
    if (s->fd >= 0)
        close(s->fd);
    sefl_free(s->folder);
    sefl_free(s->part);
    sefl_free(s->whole);
    sefl_free(s);
}

/* ---- parts on disk -------------------------------------------------------------------------- */

uint64_t spool_have(const char *folder, const uint8_t hash[BLAKE3_BYTES], uint64_t total)
{
    char path[PATH_MAX];
    struct stat sb;
    if (path_of(path, folder, hash, "") == SEFL_OK && stat(path, &sb) == 0 && S_ISREG(sb.st_mode) &&
        (uint64_t)sb.st_size == total)
        return total;
    if (path_of(path, folder, hash, ".part") == SEFL_OK && stat(path, &sb) == 0 &&
        S_ISREG(sb.st_mode) && (uint64_t)sb.st_size <= total)
        return (uint64_t)sb.st_size;
    return 0;
}

/* Deletes it unless a connection is writing it. */
static bool delete_idle(int dir, const char *name)
{
    bool gone = false;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    if (fd < 0)
        return false;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        gone = unlinkat(dir, name, 0) == 0;
    close(fd);
    return gone;
}

sefl_status spool_sweep(const char *folder, uint64_t age_s, size_t *parts, uint64_t *bytes)
{
    *parts = 0, *bytes = 0;
    DIR *d = opendir(folder);
    if (!d)
        return errno == ENOENT
                   ? SEFL_OK
                   : sefl_fail(SEFL_EIO, "cannot read folder %s: %s", folder, strerror(errno));
    time_t now = time(NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat sb;
        if (!is_part(e->d_name) || fstatat(dirfd(d), e->d_name, &sb, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        bool old = now >= sb.st_mtime && (uint64_t)(now - sb.st_mtime) >= age_s;
        if (old && delete_idle(dirfd(d), e->d_name))
            continue;
        ++*parts, *bytes += (uint64_t)sb.st_size;
    }
    closedir(d);
    return SEFL_OK;
}
