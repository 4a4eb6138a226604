/* round-N.kem, in a task's folder: it outlives neither its round nor the change to another task. */
#include "base/ct.h"
#include "base/file.h"
#include "store/journal/inside.h"
#include "store/journal/roundkey.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const uint8_t zeros[JOURNAL_KEM];
_Static_assert((int)JOURNAL_KEM == (int)ROUNDKEY_BYTES, "roundkey_overwrite writes so many zeros");

static sefl_status kem_path(const journal *j, char folder[PATH_MAX], char path[PATH_MAX],
                            uint64_t round)
{
    if (round > INT64_MAX)
        return sefl_fail(SEFL_ERANGE, "round %" PRIu64 " is too high", round);
    int n = snprintf(folder, PATH_MAX, "%s/task-%" PRIu64, j->folder, j->number);
    int m = n < 0 || n >= PATH_MAX
                ? -1
                : snprintf(path, PATH_MAX, "%s/task-%" PRIu64 "/round-%" PRIu64 ".kem", j->folder,
                           j->number, round);
    return m > 0 && m < PATH_MAX ? SEFL_OK : sefl_fail(SEFL_EINVAL, "path is too long");
}

static sefl_status wipe(const char *folder, const char *path)
{
    sefl_status st = SEFL_OK;
    if (!file_exists(path))
        goto done;
    SEFL_TRY(roundkey_overwrite(AT_FDCWD, path));
    SEFL_CHECK(unlinkat(AT_FDCWD, path, 0) == 0, SEFL_EIO, "cannot delete %s: %s", path,
               strerror(errno));
    SEFL_TRY(file_sync_folder(folder));
done:
    return st;
}

sefl_status kem_settle(const char *folder, const char *path)
{
    return wipe(folder, path);
}

sefl_status journal_kem_put(journal *j, uint64_t round, const uint8_t bytes[JOURNAL_KEM])
{
    sefl_status st = SEFL_OK;
    char folder[PATH_MAX], path[PATH_MAX];
    pthread_mutex_lock(&j->files);
    SEFL_CHECK(!ct_eq_bytes(bytes, zeros, JOURNAL_KEM), SEFL_EINVAL, "zeros are no round key");
    SEFL_TRY(kem_path(j, folder, path, round));
    SEFL_TRY(file_make_folder(folder, 0700));
    SEFL_TRY(wipe(folder, path));
    SEFL_TRY(file_write_new(path, span_of(bytes, JOURNAL_KEM), 0600));
done:
    pthread_mutex_unlock(&j->files);
    return st;
}

sefl_status journal_kem_get(journal *j, uint64_t round, uint8_t bytes[JOURNAL_KEM])
{
    sefl_status st = SEFL_OK;
    char folder[PATH_MAX], path[PATH_MAX];
    sefl_buf b = { 0 };
    memset(bytes, 0, JOURNAL_KEM);
    pthread_mutex_lock(&j->files);
    SEFL_TRY(kem_path(j, folder, path, round));
    SEFL_TRY(file_read(&b, path, JOURNAL_KEM));
    SEFL_CHECK(b.n == JOURNAL_KEM && !ct_eq_bytes(b.p, zeros, JOURNAL_KEM), SEFL_ENOTFOUND,
               "%s was overwritten", path);
    memcpy(bytes, b.p, JOURNAL_KEM);
done:
    pthread_mutex_unlock(&j->files);
    buf_clear(&b);
    return st;
}

sefl_status journal_kem_wipe(journal *j, uint64_t round)
{
    sefl_status st = SEFL_OK;
    char folder[PATH_MAX], path[PATH_MAX];
    pthread_mutex_lock(&j->files);
    SEFL_TRY(kem_path(j, folder, path, round));
    SEFL_TRY(wipe(folder, path));
done:
    pthread_mutex_unlock(&j->files);
    return st;
}

/* ---- what nobody needs any more -------------------------------------------------------------- */

typedef struct sweep {
    journal *j;
    sefl_status (*keep)(void *ctx, uint64_t round, bool *yes);
    void *ctx;
} sweep;

static sefl_status sweep_task(const sweep *w, uint64_t task)
{
    sefl_status st = SEFL_OK;
    char folder[PATH_MAX], path[PATH_MAX];
    DIR *d = NULL;
    int n = snprintf(folder, sizeof folder, "%s/task-%" PRIu64, w->j->folder, task);
    SEFL_CHECK(n > 0 && (size_t)n < sizeof folder, SEFL_EINVAL, "path is too long");
    d = opendir(folder);
    if (!d && errno == ENOENT)
        goto done;
    SEFL_CHECK(d != NULL, SEFL_EIO, "cannot read folder %s: %s", folder, strerror(errno));
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        uint64_t round;
        int end = 0;
        bool yes = false;
        if (sscanf(e->d_name, "round-%" SCNu64 ".kem%n", &round, &end) != 1 || end == 0 ||
            e->d_name[end] != 0)
            continue;
        if (task == w->j->number)
            SEFL_TRY(w->keep(w->ctx, round, &yes));
        n = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        SEFL_CHECK(n > 0 && (size_t)n < sizeof path, SEFL_EINVAL, "path is too long");
        if (!yes)
            SEFL_TRY(wipe(folder, path));
    }
done:
    if (d)
        closedir(d);
    return st;
}

sefl_status journal_kem_sweep(journal *j, sefl_status (*keep)(void *ctx, uint64_t round, bool *yes),
                              void *ctx)
{
    sefl_status st = SEFL_OK;
    const sweep w = { j, keep, ctx };
    DIR *d = opendir(j->folder);
    SEFL_CHECK(d != NULL, SEFL_EIO, "cannot read folder %s: %s", j->folder, strerror(errno));
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        uint64_t task;
        int end = 0;
        if (sscanf(e->d_name, "task-%" SCNu64 "%n", &task, &end) == 1 && e->d_name[end] == 0)
            SEFL_TRY(sweep_task(&w, task));
    }
done:
    if (d)
        closedir(d);
    return st;
}
