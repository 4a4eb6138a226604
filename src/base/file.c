#include "base/file.h"

#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static sefl_status fail_errno(const char *what, const char *path)
{
    return sefl_fail(errno == ENOENT   ? SEFL_ENOTFOUND
                     : errno == EEXIST ? SEFL_EEXIST
                                       : SEFL_EIO,
                     "cannot %s %s: %s", what, path, strerror(errno));
}

sefl_status file_read(sefl_buf *out, const char *path, size_t max)
{
    sefl_status st = SEFL_OK;
    size_t before = out->n;
    struct stat sb;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return fail_errno("open", path);
    SEFL_CHECK(fstat(fd, &sb) == 0, SEFL_EIO, "cannot stat %s: %s", path, strerror(errno));
    SEFL_CHECK(S_ISREG(sb.st_mode) || S_ISFIFO(sb.st_mode), SEFL_EINVAL, "%s is not a file", path);
    SEFL_CHECK(sb.st_size <= 0 || (uintmax_t)sb.st_size <= max, SEFL_ERANGE,
               "%s has %jd bytes, at most %zu are taken", path, (intmax_t)sb.st_size, max);
    for (;;) { /* the size may change while we read: trust only what arrives */
        uint8_t *at;
        size_t used = out->n, room = max - (used - before);
        size_t piece = (size_t)sb.st_size + 1 > 65536 ? (size_t)sb.st_size + 1 : 65536;
        if (piece - 1 > room) /* so written, SIZE_MAX is a limit like any other */
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

sefl_status file_sync(int fd, const char *path)
{
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

static sefl_status sync_folder_of(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= sizeof dir)
        return sefl_fail(SEFL_EINVAL, "path is too long");
    snprintf(dir, sizeof dir, "%.*s", (int)n, path);
    return file_sync_folder(n ? dir : slash ? "/" : ".");
}

sefl_status file_make_folder(const char *folder, mode_t mode)
{
    struct stat sb;
    if (mkdir(folder, mode) == 0)
        return sync_folder_of(folder);
    if (errno != EEXIST)
        return fail_errno("make the folder", folder);
    if (stat(folder, &sb) != 0 || !S_ISDIR(sb.st_mode))
        return sefl_fail(SEFL_EEXIST, "%s is there and is not a folder", folder);
    return SEFL_OK;
}

static sefl_status write_file(const char *path, sefl_span bytes, mode_t mode, bool replace)
{
    sefl_status st = SEFL_OK;
    char tmp[PATH_MAX];
    int fd = -1, n = snprintf(tmp, sizeof tmp, "%s.tmp-%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof tmp)
        return sefl_fail(SEFL_EINVAL, "path is too long");
    struct stat sb;
    if (replace && lstat(path, &sb) == 0 && !S_ISREG(sb.st_mode)) /* never a device or a link */
        return sefl_fail(SEFL_EEXIST, "%s is not a regular file: not replaced", path);
    unlink(tmp); /* left by a process of the same id that died */
    fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return fail_errno("create", path);
    st = file_write_all(fd, bytes);
    if (st != SEFL_OK)
        st = sefl_fail_at(st, "%s", path);
    if (st == SEFL_OK)
        st = file_sync(fd, path);
    if (close(fd) != 0 && st == SEFL_OK)
        st = fail_errno("close", path);
    if (st == SEFL_OK && replace && rename(tmp, path) != 0)
        st = fail_errno("rename", path);
    if (st == SEFL_OK && !replace && link(tmp, path) != 0) /* link fails where path exists */
        st = fail_errno("create", path);
    if (st != SEFL_OK || !replace)
        unlink(tmp);
    if (st == SEFL_OK)
        st = sync_folder_of(path);
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
