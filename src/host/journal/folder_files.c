/* Design. A round's folder is in one of three states, told apart by names alone:
 *     round-N              in use (a key of zeros inside: a wipe has begun)
 *     round-N.wipe         its key is overwritten; being deleted
 *     (none)               never used, or wiped
 * round-N.past is such a folder too (round-N.past, round-N.past.wipe); it outlives its round.
 * round-N.kem holds CSP's bytes of the round's sealing key and has its own lifetime: it outlives
 * neither its round nor a change of task. lane-N.seed holds CSP's bytes of the seed of a noise
 * session, which has no round. A wipe overwrites the key, renames and
 * deletes; each step is durable before the next, and files_settle finds what a crash leaves. */
#include "base/ct.h"
#include "base/file.h"
#include "store/journal/journal_inside.h"
#include "store/journal/roundkey.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH_MAX = 4 };
#define SECRET_MAX ((size_t)1 << 30)

/* ---- names --------------------------------------------------------------------------------- */

static sefl_status task_path(const journal *j, char out[PATH_MAX])
{
    return file_path(out, "%s/task-%" PRIu64, j->folder, j->number);
}

/* folder/task-T/round-N with what follows */
static sefl_status round_path(const journal *j, char out[PATH_MAX], uint64_t round,
                              const char *between, const char *name)
{
    if (round > INT64_MAX)
        return sefl_fail(SEFL_ERANGE, "round %" PRIu64 " is too high", round);
    return file_path(out, "%s/task-%" PRIu64 "/round-%" PRIu64 "%s%s", j->folder, j->number, round,
                     between, name);
}

static const char past[] = ".past";

static const char *tail_of(round_part part)
{
    return part == ROUND_PAST ? past : "";
}

static sefl_status make_part(const journal *j, char out[PATH_MAX], uint64_t round, round_part part)
{
    SEFL_PASS(task_path(j, out));
    SEFL_PASS(file_make_folder(out, 0700));
    SEFL_PASS(round_path(j, out, round, tail_of(part), ""));
    return file_make_folder(out, 0700);
}

sefl_status folder_make_round(const journal *j, char out[PATH_MAX], uint64_t round)
{
    return make_part(j, out, round, ROUND_FILES);
}

/* "task-12" with prefix "task-" and tail "" -> 12 */
static bool number_in(const char *name, const char *prefix, const char *tail, uint64_t *out)
{
    size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0 || !isdigit((unsigned char)name[n]))
        return false;
    char *end;
    errno = 0;
    *out = strtoull(name + n, &end, 10);
    return errno == 0 && strcmp(end, tail) == 0;
}

/* ---- deleting ------------------------------------------------------------------------------ */

static sefl_status remove_tree(int dir, const char *name, int depth);

static sefl_status remove_inside(int fd, const char *name, int depth)
{
    sefl_status st = SEFL_OK;
    DIR *d = fdopendir(fd); /* takes fd */
    if (!d) {
        close(fd);
        return sefl_fail(SEFL_EIO, "cannot read folder %s: %s", name, strerror(errno));
    }
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            SEFL_TRY(remove_tree(dirfd(d), e->d_name, depth - 1));
done:
    closedir(d);
    return st;
}

/* Never follows a link. */
static sefl_status remove_tree(int dir, const char *name, int depth)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return SEFL_OK;
    int why = errno;
    int fd = depth > 0 ? openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0 && depth > 0 && errno == ENOENT)
        return SEFL_OK; /* another process that shares the folder deletes it, too */
    if (fd < 0)
        return sefl_fail(SEFL_EIO, "cannot delete %s: %s", name, strerror(why));
    sefl_status st = remove_inside(fd, name, depth);
    if (st == SEFL_OK && unlinkat(dir, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        st = sefl_fail(SEFL_EIO, "cannot delete folder %s: %s", name, strerror(errno));
    return st;
}

static sefl_status remove_durably(const char *folder, const char *path)
{
    sefl_status st = remove_tree(AT_FDCWD, path, DEPTH_MAX);
    return st == SEFL_OK ? file_sync_folder(folder) : st;
}

/* task: folder/task-T; round: its round-N */
static sefl_status wipe_round(const char *task, const char *round)
{
    char gone[PATH_MAX];
    SEFL_PASS(file_path(gone, "%s.wipe", round));
    if (file_exists(gone)) /* left by a wipe that failed */
        SEFL_PASS(remove_durably(task, gone));
    if (file_exists(round)) {
        SEFL_PASS(roundkey_wipe(round));
        SEFL_NEED(rename(round, gone) == 0 || errno == ENOENT, SEFL_EIO, "cannot rename %s: %s",
                  round, strerror(errno));
        SEFL_PASS(file_sync_folder(task));
        SEFL_PASS(remove_durably(task, gone));
    }
    return SEFL_OK;
}

/* Overwrites round-N.kem and deletes it, if it exists. */
static sefl_status wipe_kem(const char *task, const char *path)
{
    if (!file_exists(path))
        return SEFL_OK;
    SEFL_PASS(roundkey_overwrite(AT_FDCWD, path));
    return remove_durably(task, path);
}

/* ---- after a crash ------------------------------------------------------------------------- */

typedef sefl_status entry_fn(void *ctx, const char *folder, const char *path, const char *name);

/* Calls fn for each thing in a folder. fn may delete it. */
static sefl_status each_in(void *ctx, const char *folder, entry_fn *fn)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX];
    DIR *d = opendir(folder);
    SEFL_CHECK(d != NULL, SEFL_EIO, "cannot read folder %s: %s", folder, strerror(errno));
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        SEFL_TRY(file_path(path, "%s/%s", folder, e->d_name));
        SEFL_TRY(fn(ctx, folder, path, e->d_name));
    }
done:
    if (d)
        closedir(d);
    return st;
}

/* NAME.tmp-PID of a process that died while it wrote NAME; we have the lock, so no process uses
 * it. */
static sefl_status settle_file(void *ctx, const char *folder, const char *path, const char *name)
{
    (void)ctx;
    const char *tail = strstr(name, ".tmp-");
    if (tail && strspn(tail + 5, "0123456789") == strlen(tail + 5))
        return remove_durably(folder, path);
    return SEFL_OK;
}

static sefl_status settle_round(void *ctx, const char *folder, const char *path, const char *name)
{
    uint64_t n;
    bool wiped;
    if (number_in(name, "round-", ".wipe", &n) || number_in(name, "round-", ".past.wipe", &n))
        return remove_durably(folder, path);
    if (((const journal *)ctx)->big) /* other processes may be writing there */
        return SEFL_OK;
    if (strstr(name, ".kem.tmp-"))
        return wipe_kem(folder, path);
    if (!number_in(name, "round-", "", &n) && !number_in(name, "round-", past, &n))
        return SEFL_OK;
    sefl_status st = roundkey_is_wiped(&wiped, path);
    if (st != SEFL_OK)
        return st;
    return wiped ? wipe_round(folder, path) : each_in(ctx, path, settle_file);
}

static sefl_status settle_task(void *ctx, const char *folder, const char *path, const char *name)
{
    const journal *j = ctx;
    uint64_t n;
    if (!number_in(name, "task-", "", &n))
        return SEFL_OK;
    if (n == 0 || n > j->number) /* here: the number of tasks that the database knows */
        return sefl_fail(SEFL_ESTATE,
                         "%s has rounds of tasks that its database does not know: was it deleted, "
                         "or an old copy put back?",
                         folder);
    /* other processes may write the files of a shared folder now; the wipe of a round deletes what
     * one of them left there */
    return j->big ? SEFL_OK : each_in(ctx, path, settle_round);
}

sefl_status files_settle(journal *j, uint64_t tasks)
{
    j->number = tasks;
    return each_in(j, j->folder, settle_task);
}

/* ---- large things -------------------------------------------------------------------------- */

static sefl_status key_of(journal *j, uint64_t round, round_part part, uint8_t key[ROUNDKEY_BYTES],
                          const sefl_rng *rng)
{
    char folder[PATH_MAX];
    if (rng) {
        SEFL_PASS(make_part(j, folder, round, part));
        return roundkey_make(key, folder, rng);
    }
    SEFL_PASS(round_path(j, folder, round, tail_of(part), ""));
    return roundkey_get(key, folder);
}

static sefl_status folder_files_put(journal *j, uint64_t round, round_part part, const char *name,
                                    sefl_span bytes)
{
    char folder[PATH_MAX], path[PATH_MAX];
    SEFL_PASS(make_part(j, folder, round, part));
    SEFL_PASS(file_path(path, "%s/%s", folder, name));
    return file_write_atomic(path, bytes, 0600);
}

static sefl_status folder_files_get(journal *j, uint64_t round, round_part part, const char *name,
                                    sefl_buf *out)
{
    char folder[PATH_MAX], path[PATH_MAX];
    SEFL_PASS(round_path(j, folder, round, tail_of(part), ""));
    SEFL_PASS(file_path(path, "%s/%s", folder, name));
    return file_read(out, path, SECRET_MAX);
}

sefl_status folder_wipe_round(journal *j, uint64_t round)
{
    char task[PATH_MAX], path[PATH_MAX];
    SEFL_PASS(task_path(j, task));
    SEFL_PASS(round_path(j, path, round, "", ""));
    return wipe_round(task, path);
}

/* ---- a secret that outlives its round -------------------------------------------------------- */

typedef struct keeping {
    const journal *j;
    uint64_t from, to;
    uint64_t task; /* whose folder it is in */
} keeping;

static sefl_status wipe_past(void *ctx, const char *folder, const char *path, const char *name)
{
    const keeping *k = ctx;
    uint64_t round;
    if (!number_in(name, "round-", past, &round) ||
        (k->task == k->j->number && round >= k->from && round <= k->to))
        return SEFL_OK;
    return wipe_round(folder, path);
}

static sefl_status keep_task(void *ctx, const char *folder, const char *path, const char *name)
{
    keeping *k = ctx;
    (void)folder;
    return number_in(name, "task-", "", &k->task) ? each_in(k, path, wipe_past) : SEFL_OK;
}

static sefl_status past_keep(journal *j, uint64_t from, uint64_t to)
{
    return each_in(&(keeping){ .j = j, .from = from, .to = to }, j->folder, keep_task);
}

/* ---- CSP: the bytes of a round's sealing key ------------------------------------------------- */

_Static_assert((int)JOURNAL_KEM == (int)ROUNDKEY_BYTES,
               "roundkey_overwrite writes this many zeros");

static sefl_status kem_path(const journal *j, char task[PATH_MAX], char path[PATH_MAX],
                            uint64_t round)
{
    sefl_status st = task_path(j, task);
    return st == SEFL_OK ? round_path(j, path, round, ".kem", "") : st;
}

/* Wipes the bytes of a round, and writes others unless they are NULL. */
static sefl_status kem_put(journal *j, uint64_t round, const uint8_t *bytes)
{
    char task[PATH_MAX], path[PATH_MAX];
    SEFL_PASS(kem_path(j, task, path, round));
    if (bytes)
        SEFL_PASS(file_make_folder(task, 0700));
    SEFL_PASS(wipe_kem(task, path));
    return bytes ? file_write_new(path, span_of(bytes, JOURNAL_KEM), 0600) : SEFL_OK;
}

static sefl_status kem_get(journal *j, uint64_t round, uint8_t bytes[JOURNAL_KEM])
{
    char task[PATH_MAX], path[PATH_MAX];
    SEFL_PASS(kem_path(j, task, path, round));
    return roundkey_read(bytes, path);
}

typedef struct sweep {
    journal *j;
    kem_keep_fn *keep;
    void *ctx;
    uint64_t task; /* whose folder it is in */
} sweep;

static sefl_status sweep_kem(void *ctx, const char *folder, const char *path, const char *name)
{
    const sweep *w = ctx;
    uint64_t round;
    bool yes = false;
    if (!number_in(name, "round-", ".kem", &round))
        return SEFL_OK;
    if (w->task == w->j->number)
        SEFL_PASS(w->keep(w->ctx, round, &yes));
    if (!yes)
        SEFL_PASS(wipe_kem(folder, path));
    return SEFL_OK;
}

static sefl_status sweep_task(void *ctx, const char *folder, const char *path, const char *name)
{
    sweep *w = ctx;
    (void)folder;
    return number_in(name, "task-", "", &w->task) ? each_in(w, path, sweep_kem) : SEFL_OK;
}

static sefl_status kem_sweep(journal *j, kem_keep_fn *keep, void *ctx)
{
    return each_in(&(sweep){ .j = j, .keep = keep, .ctx = ctx }, j->folder, sweep_task);
}

/* ---- CSP: the secret of a noise session ---------------------------------------------------- */

enum { SEED_SECRET = ROUNDKEY_BYTES, SEED_FILE = SEED_SECRET + 32 }; /* secret, id */

static sefl_status seed_path(const journal *j, char task[PATH_MAX], char path[PATH_MAX],
                             unsigned lane)
{
    SEFL_PASS(task_path(j, task));
    return file_path(path, "%s/lane-%u.seed", task, lane);
}

sefl_status folder_seed_put(const journal *j, unsigned lane, const uint8_t id[32],
                            const uint8_t secret[32])
{
    sefl_status st = SEFL_OK;
    int fd = -1;
    char task[PATH_MAX], path[PATH_MAX];
    uint8_t bytes[SEED_FILE] = { 0 };
    SEFL_TRY(seed_path(j, task, path, lane));
    SEFL_TRY(file_make_folder(task, 0700));
    SEFL_TRY(wipe_kem(task, path));
    memcpy(bytes, secret, SEED_SECRET);
    memcpy(bytes + SEED_SECRET, id, 32);
    /* in place, so that a crash leaves no copy; an incomplete one is nobody's */
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    SEFL_CHECK(fd >= 0, SEFL_EIO, "cannot create %s: %s", path, strerror(errno));
    SEFL_TRY(file_write_all(fd, span_of(bytes, sizeof bytes)));
    SEFL_TRY(file_sync(fd, path));
    SEFL_TRY(file_sync_folder(task));
done:
    if (fd >= 0)
        close(fd);
    sefl_wipe(bytes, sizeof bytes);
    return st;
}

sefl_status folder_seed_get(const journal *j, unsigned lane, const uint8_t id[32],
                            uint8_t secret[32])
{
    sefl_status st = SEFL_OK;
    char task[PATH_MAX], path[PATH_MAX];
    sefl_buf b = { 0 };
    SEFL_TRY(seed_path(j, task, path, lane));
    SEFL_TRY(file_read_plain(&b, path, SEED_FILE));
    SEFL_CHECK(b.n == SEED_FILE && !roundkey_is_zero(b.p) && memcmp(b.p + SEED_SECRET, id, 32) == 0,
               SEFL_ENOTFOUND, "%s has another session, or was overwritten", path);
    memcpy(secret, b.p, SEED_SECRET);
done:
    buf_clear(&b);
    return st;
}

sefl_status folder_seed_wipe(const journal *j, unsigned lane, const uint8_t id[32])
{
    char task[PATH_MAX], path[PATH_MAX];
    uint8_t secret[SEED_SECRET];
    sefl_status st = folder_seed_get(j, lane, id, secret);
    sefl_wipe(secret, sizeof secret);
    SEFL_PASS(st);
    SEFL_PASS(seed_path(j, task, path, lane));
    return wipe_kem(task, path);
}

const round_files folder_files = {
    .key = key_of,
    .put = folder_files_put,
    .get = folder_files_get,
    .wipe = folder_wipe_round,
    .past_keep = past_keep,
    .kem_put = kem_put,
    .kem_get = kem_get,
    .kem_sweep = kem_sweep,
};
