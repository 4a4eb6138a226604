#define _GNU_SOURCE /* O_TMPFILE */
#include "base/file.h"

#include "base/alloc.h"
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_PIECE = 256 << 10 };

static sefl_status fail_errno(const char *what, const char *path)
{
    return sefl_fail(errno == ENOENT   ? SEFL_ENOTFOUND
                     : errno == EEXIST ? SEFL_EEXIST
                                       : SEFL_EIO,
                     "cannot %s %s: %s", what, path, strerror(errno));
}

sefl_status file_open(int *fd, uint64_t *size, const char *path, bool pipes)
{
    sefl_status st = SEFL_OK;
    struct stat sb;
    /* a pipe without a writer must not block a caller that refuses pipes */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (pipes ? 0 : O_NONBLOCK));
    if (*fd < 0)
        return fail_errno("open", path);
    SEFL_CHECK(fstat(*fd, &sb) == 0, SEFL_EIO, "cannot stat %s: %s", path, strerror(errno));
    SEFL_CHECK(!S_ISDIR(sb.st_mode), SEFL_EINVAL, "%s is a folder, expected a file", path);
    SEFL_CHECK(S_ISREG(sb.st_mode) || (pipes && S_ISFIFO(sb.st_mode)), SEFL_EINVAL,
               "%s is not a file", path);
    *size = sb.st_size > 0 ? (uint64_t)sb.st_size : 0;
done:
    if (st != SEFL_OK) {
        close(*fd);
        *fd = -1;
    }
    return st;
}

static sefl_status read_whole(sefl_buf *out, const char *path, size_t max, bool pipes)
{
    sefl_status st = SEFL_OK;
    size_t before = out->n;
    uint64_t size;
    int fd;
    SEFL_PASS(file_open(&fd, &size, path, pipes));
    SEFL_CHECK(size <= max, SEFL_ERANGE, "%s has %llu bytes, at most %zu are allowed", path,
               (unsigned long long)size, max);
    for (;;) { /* the size may change while we read, so count the bytes read */
        uint8_t *at;
        size_t used = out->n, room = max - (used - before);
        size_t piece = (size_t)size + 1 > 65536 ? (size_t)size + 1 : 65536;
        if (piece - 1 > room) /* in this form max may be SIZE_MAX */
            piece = room + 1;
        SEFL_TRY(buf_extend(out, &at, piece));
        ssize_t got = fault_hit(FAULT_READ) ? (errno = EIO, -1) : read(fd, at, piece);
        out->n = used + (got > 0 ? (size_t)got : 0);
        if (got < 0 && errno == EINTR)
            continue;
        SEFL_CHECK(got >= 0, SEFL_EIO, "cannot read %s: %s", path, strerror(errno));
        if (got == 0)
            break;
        SEFL_CHECK(out->n - before <= max, SEFL_ERANGE, "%s has more than %zu bytes", path, max);
    }
done:
    close(fd);
    if (st != SEFL_OK)
        out->n = before;
    return st;
}

sefl_status file_read(sefl_buf *out, const char *path, size_t max)
{
    return read_whole(out, path, max, true);
}

sefl_status file_read_plain(sefl_buf *out, const char *path, size_t max)
{
    return read_whole(out, path, max, false);
}

sefl_status file_write_all(int fd, sefl_span bytes)
{
    while (bytes.n > 0) {
        ssize_t put = fault_hit(FAULT_WRITE) ? (errno = ENOSPC, -1) : write(fd, bytes.p, bytes.n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return sefl_fail(SEFL_EIO, "cannot write: %s", strerror(errno));
        bytes.p += put;
        bytes.n -= (size_t)put;
    }
    return SEFL_OK;
}

sefl_status file_read_at(int fd, const char *path, uint64_t offset, void *out, size_t n,
                         size_t *got)
{
    for (*got = 0; *got < n;) {
        ssize_t k = fault_hit(FAULT_READ)
                        ? (errno = EIO, -1)
                        : pread(fd, (uint8_t *)out + *got, n - *got, (off_t)(offset + *got));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return fail_errno("read", path);
        if (k == 0)
            break;
        *got += (size_t)k;
    }
    return SEFL_OK;
}

sefl_status file_write_at(int fd, const char *path, uint64_t offset, sefl_span bytes)
{
    if (lseek(fd, (off_t)offset, SEEK_SET) != (off_t)offset)
        return fail_errno("seek in", path);
    return sefl_at(file_write_all(fd, bytes), "%s", path);
}

sefl_status file_cut(int fd, const char *path, uint64_t size)
{
    return ftruncate(fd, (off_t)size) == 0 ? SEFL_OK : fail_errno("cut", path);
}

sefl_status file_size(uint64_t *size, int fd, const char *path)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0)
        return fail_errno("stat", path);
    *size = (uint64_t)sb.st_size;
    return S_ISREG(sb.st_mode) ? SEFL_OK : sefl_fail(SEFL_EINVAL, "%s is not a file", path);
}

sefl_status file_last_line(sefl_buf *out, uint64_t *end, int fd, const char *path, size_t window)
{
    const uint64_t from = *end > window ? *end - window : 0;
    uint8_t *p;
    size_t n, begin;
    buf_reset(out);
    SEFL_PASS(buf_extend(out, &p, (size_t)(*end - from)));
    SEFL_PASS(file_read_at(fd, path, from, p, (size_t)(*end - from), &n));
    while (n > 0 && p[n - 1] != '\n')
        n--;
    *end = from + n;
    out->n = 0;
    if (n == 0)
        return SEFL_OK;
    begin = --n;
    while (begin > 0 && p[begin - 1] != '\n')
        begin--;
    memmove(p, p + begin, n - begin);
    out->n = n - begin;
    return SEFL_OK;
}

static _Thread_local bool sync_skipped;

void file_sync_skip(bool skip)
{
    sync_skipped = skip;
}

sefl_status file_sync(int fd, const char *path)
{
    if (sync_skipped)
        return SEFL_OK;
    if (fault_hit(FAULT_SYNC) ? (errno = EIO, true) : fsync(fd) != 0)
        return fail_errno("sync", path);
    return SEFL_OK;
}

sefl_status file_sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno("open the folder", folder);
    sefl_status st = file_sync(fd, folder);
    close(fd);
    return st;
}

static sefl_status folder_of(char out[PATH_MAX], const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= PATH_MAX)
        return sefl_fail(SEFL_EINVAL, "path is too long: at most %d bytes", PATH_MAX - 1);
    snprintf(out, PATH_MAX, "%.*s", n ? (int)n : 1, n ? path : slash ? "/" : ".");
    return SEFL_OK;
}

sefl_status file_sync_parent(const char *path)
{
    char folder[PATH_MAX];
    SEFL_PASS(folder_of(folder, path));
    return file_sync_folder(folder);
}

sefl_status file_new_folder(const char *folder, mode_t mode)
{
    if (mkdir(folder, mode) == 0)
        return file_sync_parent(folder);
    return errno == EEXIST ? sefl_fail(SEFL_EEXIST, "%s exists already", folder)
                           : fail_errno("create the folder", folder);
}

sefl_status file_make_folder(const char *folder, mode_t mode)
{
    struct stat sb;
    sefl_status st = file_new_folder(folder, mode);
    if (st != SEFL_EEXIST)
        return st;
    if (stat(folder, &sb) != 0 || !S_ISDIR(sb.st_mode))
        return sefl_fail(SEFL_EEXIST, "%s exists and is not a folder", folder);
    return SEFL_OK;
}

/* Opens an unnamed file in the folder of path. Returns -1 if the file system has no unnamed files,
 * or if the file could not get a name later (which needs /proc). */
static int open_nameless(const char *path, mode_t mode)
{
    char folder[PATH_MAX], link[64];
    if (folder_of(folder, path) != SEFL_OK || fault_hit(FAULT_NAMELESS))
        return -1;
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fd >= 0 && access(link, F_OK) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

sefl_status file_tmp_open(file_tmp *t, const char *path, mode_t mode)
{
    sefl_status st = SEFL_OK;
    size_t n = strlen(path) + 32;
    *t = (file_tmp){ .fd = -1 };
    SEFL_TRY(sefl_new(&t->name, n, 1));
    snprintf(t->name, n, "%s.tmp-%ld", path, (long)getpid());
    unlink(t->name); /* left by an earlier process with the same id */
    t->fd = open_nameless(path, mode);
    if (t->fd < 0) {
        t->fd = open(t->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        t->named = t->fd >= 0;
    }
    if (t->fd < 0)
        st = fail_errno("create", path);
done:
    if (st != SEFL_OK)
        file_tmp_clear(t);
    return st;
}

sefl_status file_tmp_publish(file_tmp *t, const char *path, bool replace)
{
    char here[64];
    sefl_status st = SEFL_OK;
    snprintf(here, sizeof here, "/proc/self/fd/%d", t->fd);
    if (!t->named && linkat(AT_FDCWD, here, AT_FDCWD, t->name, AT_SYMLINK_FOLLOW) != 0)
        return fail_errno("create", path);
    t->named = true;
    int rc = close(t->fd);
    t->fd = -1;
    if (rc != 0)
        st = fail_errno("close", path);
    else if (replace && rename(t->name, path) != 0)
        st = fail_errno("rename", path);
    else if (!replace && link(t->name, path) != 0) /* link fails where path exists */
        st = fail_errno("create", path);
    else if (replace)
        t->name[0] = 0; /* renamed: nothing to remove */
    file_tmp_clear(t);
    return st;
}

void file_tmp_clear(file_tmp *t)
{
    if (!t->name)
        return;
    if (t->fd >= 0)
        close(t->fd);
    if (t->named && t->name[0])
        unlink(t->name);
    sefl_free(t->name);
    *t = (file_tmp){ .fd = -1 };
}

static sefl_status write_file(const char *path, sefl_span bytes, mode_t mode, bool replace)
{
    sefl_status st = SEFL_OK;
    file_tmp t = { .fd = -1 };
    struct stat sb;
    if (replace && lstat(path, &sb) == 0 && !S_ISREG(sb.st_mode)) /* never a device or a link */
        return sefl_fail(SEFL_EEXIST, "%s is not a regular file: not replaced", path);
    SEFL_TRY(file_tmp_open(&t, path, mode));
    SEFL_TRY(sefl_at(file_write_all(t.fd, bytes), "%s", path));
    SEFL_TRY(file_sync(t.fd, path));
    SEFL_TRY(file_tmp_publish(&t, path, replace));
    SEFL_TRY(file_sync_parent(path));
done:
    file_tmp_clear(&t);
    return st;
}

sefl_status file_write_atomic(const char *path, sefl_span bytes, mode_t mode)
{
    return write_file(path, bytes, mode, true);
}

sefl_status file_write_new(const char *path, sefl_span bytes, mode_t mode)
{
    return write_file(path, bytes, mode, false);
}

bool file_exists(const char *path)
{
    struct stat sb;
    return lstat(path, &sb) == 0;
}

sefl_status file_need_plain(const char *path)
{
    uint64_t size;
    int fd;
    SEFL_PASS(file_open(&fd, &size, path, false));
    close(fd);
    return SEFL_OK;
}

sefl_status file_temp_folder(char *out, size_t n, const char *prefix)
{
    sefl_status st = SEFL_OK;
    const char *tmp = getenv("TMPDIR");
    int len = snprintf(out, n, "%s/%s-XXXXXX", tmp && *tmp ? tmp : "/tmp", prefix);
    SEFL_CHECK(len > 0 && (size_t)len < n, SEFL_ERANGE, "TMPDIR: a path of %d bytes is too long",
               len);
    SEFL_CHECK(mkdtemp(out), SEFL_EIO, "%s: cannot create a temporary folder: %s (check TMPDIR)",
               out, strerror(errno));
done:
    if (st != SEFL_OK)
        out[0] = 0;
    return st;
}

sefl_status file_sha256(uint8_t out[SHA256_BYTES], uint64_t *bytes, const char *path)
{
    sefl_status st = SEFL_OK;
    uint8_t *piece = NULL;
    sha256 h;
    uint64_t n = 0, size;
    size_t got = READ_PIECE;
    int fd;
    SEFL_PASS(file_open(&fd, &size, path, false));
    SEFL_TRY(sefl_new(&piece, 1, READ_PIECE));
    sha256_init(&h);
    for (; got == READ_PIECE; n += got) {
        SEFL_TRY(file_read_at(fd, path, n, piece, READ_PIECE, &got));
        sha256_add(&h, span_of(piece, got));
    }
    sha256_end(&h, out);
    if (bytes)
        *bytes = n;
done:
    close(fd);
    sefl_free(piece);
    return st;
}

sefl_status file_path(char out[PATH_MAX], const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(out, PATH_MAX, fmt, args);
    va_end(args);
    return n > 0 && n < PATH_MAX
               ? SEFL_OK
               : sefl_fail(SEFL_EINVAL, "path is too long: at most %d bytes", PATH_MAX - 1);
}
