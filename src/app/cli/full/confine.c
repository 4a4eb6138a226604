#define _GNU_SOURCE
#include "cli/full/confine.h"

#include "base/alloc.h"
#include "crypto/secmem.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

void confine_start(void)
{
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* sanitisers trace their own process */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

static sefl_status become(const struct passwd *p)
{
    SEFL_NEED(initgroups(p->pw_name, p->pw_gid) == 0 &&
                  setresgid(p->pw_gid, p->pw_gid, p->pw_gid) == 0 &&
                  setresuid(p->pw_uid, p->pw_uid, p->pw_uid) == 0,
              SEFL_EIO, "cannot switch to user %s: %s", p->pw_name, strerror(errno));
    SEFL_NEED(setuid(0) != 0 && geteuid() == p->pw_uid && getegid() == p->pw_gid, SEFL_EIO,
              "root could be regained after switching to %s", p->pw_name);
    confine_start(); /* changing the user resets the dumpable flag */
    return SEFL_OK;
}

sefl_status confine_user(const char *name)
{
    sefl_status st = SEFL_OK;
    enum { ROOM = 1 << 14 };
    struct passwd p, *found = NULL;
    char *room = NULL;
    if (!name || !*name)
        return SEFL_OK;
    SEFL_TRY(sefl_new(&room, ROOM, 1));
    SEFL_CHECK(getpwnam_r(name, &p, room, ROOM, &found) == 0 && found, SEFL_ENOTFOUND,
               "user: there is no user \"%.64s\" on this machine", name);
    if (geteuid() == 0) {
        SEFL_CHECK(p.pw_uid != 0, SEFL_EINVAL, "user: \"%.64s\" is root; name another user", name);
        SEFL_TRY(become(&p));
    } else {
        SEFL_CHECK(p.pw_uid == geteuid(), SEFL_EINVAL,
                   "user: only root can switch to \"%.64s\" (remove the setting)", name);
    }
done:
    sefl_free(room);
    return st;
}

void confine_warn(sefl_log *log, const char *user)
{
    if (geteuid() == 0 && (!user || !*user))
        log_warn(log, "running as root: name a user to switch to (--user)");
}

bool confine_others_read(const char *path, unsigned *mode)
{
    struct stat sb;
    const char *credentials = getenv("CREDENTIALS_DIRECTORY");
    size_t n = credentials ? strlen(credentials) : 0;
    if (stat(path, &sb) != 0 || !S_ISREG(sb.st_mode) ||
        (n > 0 && strncmp(path, credentials, n) == 0 && path[n] == '/'))
        return false;
    if (mode)
        *mode = sb.st_mode & 0777;
    return (sb.st_mode & 077) != 0;
}

static void warn_if_open(sefl_log *log, const char *event, const char *path)
{
    unsigned bits;
    char mode[8];
    if (!path || !confine_others_read(path, &bits))
        return;
    snprintf(mode, sizeof mode, "%03o", bits);
    log_warn(log, event, lf_str("file", path), lf_str("mode", mode));
}

void confine_key(sefl_log *log, const char *path)
{
    warn_if_open(log, "other users can read a private key: run chmod 600", path);
}

void confine_proxy(sefl_log *log, const char *proxy, const char *path)
{
    if (proxy && strchr(proxy, '@'))
        warn_if_open(log, "other users can read the proxy password: run chmod 600", path);
}

void confine_files(sefl_log *log, unsigned wanted)
{
    struct rlimit now, more;
    if (getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur >= wanted)
        return;
    more = now;
    more.rlim_cur = now.rlim_max < wanted ? now.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &more) == 0)
        now = more;
    if (now.rlim_cur < wanted)
        log_warn(log,
                 "the limit on open files is too low for this number of connections (ulimit -n)",
                 lf_u64("allowed", now.rlim_cur), lf_u64("wanted", wanted));
}

sefl_status confine_memory(sefl_log *log, const char *memory_lock)
{
    void *p = NULL;
    bool locked = true;
    secmem_require(strcmp(memory_lock, "required") == 0);
    sefl_status st = secmem_new(&p, CONFINE_LOCKED_BYTES, &locked);
    if (st == SEFL_OK && !locked)
        log_warn(log, "keys cannot be locked in memory and may be swapped out (memory_lock: try)");
    secmem_free(p);
    return st;
}
