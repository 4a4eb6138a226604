/* trial: makes a process meet a bad disk or a wrong clock. Load it into any program:
 *
 *     LD_PRELOAD=trial.so TRIAL_UNDER=/fed/csp TRIAL_COUNT=n TRIAL_FAIL=17 sefl csp ...
 *
 *     TRIAL_UNDER   folders, separated by ':': only calls on files below one of them count
 *     TRIAL_ONLY    part of a path: only files with it in their path count
 *     TRIAL_COUNT   file with the number of calls so far, as text; the count goes on over restarts
 *     TRIAL_FAIL    the number of the first call that fails (0, the default: none fails), counted from 1
 *     TRIAL_TIMES   how many calls fail in a row (default: 1)
 *     TRIAL_LOG     file to which each counted call appends a line: number, call, path, "fails"
 *     TRIAL_KILL    1: the process dies (SIGKILL) in place of the call that would fail
 *     TRIAL_CLOCK   file with a number of milliseconds, as text, that is added to the wall clock at
 *                   each look; it may change at any time. The monotonic clocks stay as they are
 *     TRIAL_BOOT    file with the machine's boot id: another one looks like another boot
 *
 * Writes (write, pwrite, writev, pwritev, ftruncate, rename, link) and syncs (fsync, fdatasync) count
 * in one sequence. A write that fails writes nothing and sets ENOSPC; a sync that fails sets EIO.
 * Memory maps (SQLite's index of its log) and the sockets, pipes and logs elsewhere do not count.
 * Threads: any. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char *of_env(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static long number_of_env(const char *name, long other)
{
    const char *v = of_env(name);
    return v ? strtol(v, NULL, 10) : other;
}

/* Reads or writes a small file with system calls, which never count. */
static long number_in(const char *path)
{
    char text[32] = "";
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    long n = syscall(SYS_read, (int)fd, text, sizeof text - 1);
    syscall(SYS_close, (int)fd);
    return n > 0 ? strtol(text, NULL, 10) : 0;
}

/* ---- counting -------------------------------------------------------------------------------- */

static bool counts(const char *path)
{
    const char *under = of_env("TRIAL_UNDER"), *only = of_env("TRIAL_ONLY");
    if (only && !strstr(path, only))
        return false;
    while (under && *under) {
        size_t n = strcspn(under, ":");
        if (n > 0 && strncmp(path, under, n) == 0 && (path[n] == '/' || path[n] == '\0'))
            return true;
        under += n + (under[n] == ':');
    }
    return false;
}

/* The number of this call. Processes may share the file. */
static long next_number(void)
{
    const char *path = of_env("TRIAL_COUNT");
    static atomic_long alone;
    char text[32] = "";
    if (!path)
        return atomic_fetch_add(&alone, 1) + 1;
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        abort();
    syscall(SYS_flock, (int)fd, LOCK_EX);
    syscall(SYS_pread64, (int)fd, text, sizeof text - 1, 0L);
    const long now = strtol(text, NULL, 10) + 1;
    int n = snprintf(text, sizeof text, "%ld\n", now);
    syscall(SYS_pwrite64, (int)fd, text, (size_t)n, 0L);
    syscall(SYS_close, (int)fd);
    return now;
}

static void tell(long number, const char *call, const char *path, bool fails)
{
    char line[PATH_MAX + 64];
    const char *log = of_env("TRIAL_LOG");
    if (!log)
        return;
    int n = snprintf(line, sizeof line, "%ld %s %s%s\n", number, call, path, fails ? " fails" : "");
    long fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    syscall(SYS_write, (int)fd, line, (size_t)n);
    syscall(SYS_close, (int)fd);
}

static bool path_fails(const char *call, const char *path)
{
    if (!counts(path))
        return false;
    const long number = next_number(), first = number_of_env("TRIAL_FAIL", LONG_MAX);
    const bool fails =
        first > 0 && number >= first && number - first < number_of_env("TRIAL_TIMES", 1);
    tell(number, call, path, fails);
    if (fails && number_of_env("TRIAL_KILL", 0))
        kill(getpid(), SIGKILL);
    errno = fails ? (strstr(call, "sync") ? EIO : ENOSPC) : errno;
    return fails;
}

static bool fails(const char *call, int fd)
{
    char link[64], path[PATH_MAX];
    const int before = errno;
    if (!of_env("TRIAL_UNDER"))
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    errno = before;
    if (n <= 0)
        return false;
    path[n] = '\0';
    return path_fails(call, path);
}

static bool name_fails(const char *call, int folder, const char *name)
{
    char path[PATH_MAX], *whole;
    const int before = errno;
    if (!of_env("TRIAL_UNDER") || folder != AT_FDCWD)
        return false;
    snprintf(path, sizeof path, "%s", name); /* the file may not exist, its folder does */
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    whole = realpath(slash ? path : ".", NULL);
    if (whole)
        snprintf(path, sizeof path, "%s/%s", whole, slash ? strrchr(name, '/') + 1 : name);
    errno = before;
    bool no = whole && path_fails(call, path);
    free(whole);
    return no;
}

/* ---- the calls ------------------------------------------------------------------------------- */

#define REAL(result, name, ...)         \
    static result (*real)(__VA_ARGS__); \
    if (!real)                          \
    *(void **)(&real) = dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *p, size_t n)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    return fails("write", fd) ? -1 : real(fd, p, n);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    return fails("pwrite", fd) ? -1 : real(fd, p, n, at);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at)
{
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    return fails("pwrite", fd) ? -1 : real(fd, p, n, at);
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    return fails("writev", fd) ? -1 : real(fd, v, n);
}

ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at)
{
    REAL(ssize_t, "pwritev", int, const struct iovec *, int, off_t);
    return fails("pwritev", fd) ? -1 : real(fd, v, n, at);
}

int ftruncate(int fd, off_t n)
{
    REAL(int, "ftruncate", int, off_t);
    return fails("ftruncate", fd) ? -1 : real(fd, n);
}

int ftruncate64(int fd, off64_t n)
{
    REAL(int, "ftruncate64", int, off64_t);
    return fails("ftruncate", fd) ? -1 : real(fd, n);
}

int rename(const char *from, const char *to)
{
    REAL(int, "rename", const char *, const char *);
    return name_fails("rename", AT_FDCWD, to) ? -1 : real(from, to);
}

int linkat(int in, const char *from, int out, const char *to, int flags)
{
    REAL(int, "linkat", int, const char *, int, const char *, int);
    return name_fails("link", out, to) ? -1 : real(in, from, out, to, flags);
}

int link(const char *from, const char *to)
{
    REAL(int, "link", const char *, const char *);
    return name_fails("link", AT_FDCWD, to) ? -1 : real(from, to);
}

int fsync(int fd)
{
    REAL(int, "fsync", int);
    return fails("fsync", fd) ? -1 : real(fd);
}

int fdatasync(int fd)
{
    REAL(int, "fdatasync", int);
    return fails("fdatasync", fd) ? -1 : real(fd);
}

/* ---- the clock ------------------------------------------------------------------------------- */

static int64_t shift_ms(void)
{
    const char *path = of_env("TRIAL_CLOCK");
    const int before = errno;
    int64_t ms = path ? number_in(path) : 0;
    errno = before;
    return ms;
}

static const char *file_for(const char *path)
{
    const char *boot = of_env("TRIAL_BOOT");
    return boot && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0 ? boot : path;
}

FILE *fopen(const char *path, const char *mode)
{
    REAL(FILE *, "fopen", const char *, const char *);
    return real(file_for(path), mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    REAL(FILE *, "fopen64", const char *, const char *);
    return real(file_for(path), mode);
}

int clock_gettime(clockid_t which, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, which, t);
    if (rc != 0 || (which != CLOCK_REALTIME && which != CLOCK_REALTIME_COARSE))
        return rc;
    const int64_t ms = shift_ms(), ns = t->tv_nsec + ms % 1000 * 1000000;
    t->tv_sec += ms / 1000 + (ns < 0 ? -1 : ns / 1000000000);
    t->tv_nsec = (ns + 1000000000) % 1000000000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec t = { 0 };
    clock_gettime(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec t = { 0 };
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    *out = (struct timeval){ .tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000 };
    return 0;
}
