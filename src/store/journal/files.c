/* Design. A round's folder is in one of three states, told apart by names alone:
 *     round-N              in use (a key of zeros inside: a wipe has begun)
 *     round-N.wipe         its key is overwritten; being deleted
 *     (none)               never used, or wiped
 * round-N.past is such a folder too, with the states round-N.past and round-N.past.wipe; it outlives
 * its round. round-N.kem holds CSP's bytes of the round's sealing key and has its own lifetime: it
 * outlives neither its round nor a change of task. A wipe overwrites the key, renames and
 * deletes; each step is durable before the next, and files_settle finds what a crash leaves. */
#include "base/ct.h"
#include "base/file.h"
#include "store/journal/inside.h"
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

enum { NAME_MAX_ = 64, DEPTH_MAX = 4 };
#define SECRET_MAX ((size_t)1 << 30)

/* ---- names --------------------------------------------------------------------------------- */

static sefl_status check_name(const char *name, size_t n)
{
    bool ok = n >= 1 && n <= NAME_MAX_ && name[0] != '.';
    for (size_t i = 0; ok && i < n; i++)
        ok = isalnum((unsigned char)name[i]) || strchr("._-", name[i]);
    ok = ok && !(n == 3 && memcmp(name, "key", 3) == 0) && strncmp(name, "key.tmp-", 8) != 0;
    return ok ? SEFL_OK : sefl_fail(SEFL_EINVAL, "\"%s\" is not a name for a round's file", name);
}

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

static sefl_status name_path(const journal *j, char out[PATH_MAX], uint64_t round, const char *name)
{
    sefl_status st = check_name(name, strlen(name));
    return st == SEFL_OK ? round_path(j, out, round, "/", name) : st;
}

static sefl_status make_round(const journal *j, char out[PATH_MAX], uint64_t round,
                              const char *tail)
{
    SEFL_PASS(task_path(j, out));
    SEFL_PASS(file_make_folder(out, 0700));
    SEFL_PASS(round_path(j, out, round, tail, ""));
    return file_make_folder(out, 0700);
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
    if (fd < 0)
        return sefl_fail(SEFL_EIO, "cannot delete %s: %s", name, strerror(why));
    sefl_status st = remove_inside(fd, name, depth);
    if (st == SEFL_OK && unlinkat(dir, name, AT_REMOVEDIR) != 0)
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
        SEFL_NEED(rename(round, gone) == 0, SEFL_EIO, "cannot rename %s: %s", round,
                  strerror(errno));
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
    if (strstr(name, ".kem.tmp-"))
        return wipe_kem(folder, path);
    if (!number_in(name, "round-", "", &n) && !number_in(name, "round-", ".past", &n))
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
        return sefl_fail(
            SEFL_ESTATE,
            "%s has rounds of tasks that its journal.db does not know: was it deleted, "
            "or an old copy put back?",
            folder);
    return each_in(ctx, path, settle_round);
}

sefl_status files_settle(journal *j, uint64_t tasks)
{
    j->number = tasks;
    return each_in(j, j->folder, settle_task);
}

/* ---- large things -------------------------------------------------------------------------- */

static sefl_status unlocked(journal *j, sefl_status st)
{
    pthread_mutex_unlock(&j->files);
    return st;
}
#define LOCKED(j, call) (pthread_mutex_lock(&(j)->files), unlocked((j), (call)))

/* In the folder round-N, or round-N with `tail`. */
static sefl_status secret_put(journal *j, uint64_t round, const char *tail, const char *name,
                              sefl_span bytes, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    char folder[PATH_MAX], path[PATH_MAX];
    uint8_t key[ROUNDKEY_BYTES] = { 0 };
    sefl_buf sealed = { 0 };
    SEFL_CHECK(bytes.n <= SECRET_MAX / 2, SEFL_ERANGE, "%s: %zu bytes are too many", name, bytes.n);
    SEFL_TRY(check_name(name, strlen(name)));
    SEFL_TRY(make_round(j, folder, round, tail));
    SEFL_TRY(file_path(path, "%s/%s", folder, name));
    SEFL_TRY(roundkey_make(key, folder, rng));
    SEFL_TRY(roundkey_seal(&sealed, key, &(roundkey_place){ j->task, round, name }, bytes, rng));
    SEFL_TRY(file_write_atomic(path, buf_span(&sealed), 0600));
done:
    sefl_wipe(key, sizeof key);
    buf_clear(&sealed);
    return st;
}

static sefl_status secret_get(journal *j, uint64_t round, const char *tail, const char *name,
                              sefl_buf *out)
{
    sefl_status st = SEFL_OK;
    char folder[PATH_MAX], path[PATH_MAX];
    uint8_t key[ROUNDKEY_BYTES] = { 0 };
    sefl_buf sealed = { 0 };
    SEFL_TRY(check_name(name, strlen(name)));
    SEFL_TRY(round_path(j, folder, round, tail, ""));
    SEFL_TRY(file_path(path, "%s/%s", folder, name));
    SEFL_TRY(file_read(&sealed, path, SECRET_MAX));
    st = roundkey_get(key, folder);
    if (st == SEFL_ENOTFOUND)
        st = sefl_fail(SEFL_ECRYPTO, "%s: the round's key is gone", path);
    if (st == SEFL_OK)
        st = roundkey_open(out, key, &(roundkey_place){ j->task, round, name }, buf_span(&sealed));
done:
    sefl_wipe(key, sizeof key);
    buf_clear(&sealed);
    return st;
}

sefl_status journal_secret_put(journal *j, uint64_t round, const char *name, sefl_span bytes,
                               const sefl_rng *rng)
{
    return LOCKED(j, secret_put(j, round, "", name, bytes, rng));
}

sefl_status journal_secret_get(journal *j, uint64_t round, const char *name, sefl_buf *out)
{
    return LOCKED(j, secret_get(j, round, "", name, out));
}

static sefl_status file_put(journal *j, uint64_t round, const char *name, sefl_span bytes)
{
    char path[PATH_MAX];
    SEFL_PASS(make_round(j, path, round, ""));
    SEFL_PASS(name_path(j, path, round, name));
    return file_write_atomic(path, bytes, 0600);
}

sefl_status journal_file_put(journal *j, uint64_t round, const char *name, sefl_span bytes)
{
    return LOCKED(j, file_put(j, round, name, bytes));
}

static sefl_status path_of(journal *j, sefl_buf *out, uint64_t round, const char *name)
{
    char path[PATH_MAX];
    SEFL_PASS(name_path(j, path, round, name));
    SEFL_PASS(make_round(j, path, round, ""));
    SEFL_PASS(name_path(j, path, round, name));
    SEFL_PASS(wr_raw(out, path, strlen(path) + 1));
    out->n--;
    return SEFL_OK;
}

sefl_status journal_path(journal *j, sefl_buf *out, uint64_t round, const char *name)
{
    return LOCKED(j, path_of(j, out, round, name));
}

static sefl_status round_wipe(journal *j, uint64_t round)
{
    char task[PATH_MAX], path[PATH_MAX];
    SEFL_PASS(task_path(j, task));
    SEFL_PASS(round_path(j, path, round, "", ""));
    return wipe_round(task, path);
}

sefl_status journal_round_wipe(journal *j, uint64_t round)
{
    return LOCKED(j, round_wipe(j, round));
}

/* ---- a secret that outlives its round -------------------------------------------------------- */

static const char past[] = ".past", kept[] = "kept";

sefl_status journal_past_put(journal *j, uint64_t round, sefl_span bytes, const sefl_rng *rng)
{
    return LOCKED(j, secret_put(j, round, past, kept, bytes, rng));
}

sefl_status journal_past_get(journal *j, uint64_t round, sefl_buf *out)
{
    return LOCKED(j, secret_get(j, round, past, kept, out));
}

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

sefl_status journal_past_keep(journal *j, uint64_t from, uint64_t to)
{
    keeping k = { .j = j, .from = from, .to = to };
    return LOCKED(j, each_in(&k, j->folder, keep_task));
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

sefl_status journal_kem_put(journal *j, uint64_t round, const uint8_t bytes[JOURNAL_KEM])
{
    SEFL_NEED(!roundkey_is_zero(bytes), SEFL_EINVAL, "a round key must not be all zeros");
    return LOCKED(j, kem_put(j, round, bytes));
}

sefl_status journal_kem_get(journal *j, uint64_t round, uint8_t bytes[JOURNAL_KEM])
{
    char task[PATH_MAX], path[PATH_MAX];
    memset(bytes, 0, JOURNAL_KEM);
    SEFL_PASS(kem_path(j, task, path, round));
    sefl_status st = LOCKED(j, roundkey_read(bytes, path));
    return st == SEFL_ECRYPTO ? SEFL_ENOTFOUND : st;
}

sefl_status journal_kem_wipe(journal *j, uint64_t round)
{
    return LOCKED(j, kem_put(j, round, NULL));
}

typedef struct sweep {
    journal *j;
    sefl_status (*keep)(void *ctx, uint64_t round, bool *yes);
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

sefl_status journal_kem_sweep(journal *j, sefl_status (*keep)(void *ctx, uint64_t round, bool *yes),
                              void *ctx)
{
    return each_in(&(sweep){ .j = j, .keep = keep, .ctx = ctx }, j->folder, sweep_task);
}
