/* kill -9 at any moment. A child works on a journal and reports each acknowledged step through a
 * pipe; the parent kills it; the next process opens the journal and finds everything that was
 * acknowledged, and all or nothing of the interrupted step.  - by_system_call: the parent follows
 * the child with ptrace(2) and kills it at the n-th stop
 *    (before and after each system call): a seeded sample of n, every n under SEFL_SOAK. The same
 *    trace shows what a power cut would need: at an acknowledgement every file that was written has
 *    been synced, and after the last rename, link or deletion a folder has.
 *  - at_random: no trace, the clock decides; one journal lives through all the kills. */
#include "support/check.h"
#include "support/folder.h"
#include "support/store_place.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "store/journal/journal.h"
#include "store/journal/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ACK_FD = 77, BODY = 20000 };
static const uint8_t task[32] = { 5 };
static char folder[256];

/* ---- the child's work ---------------------------------------------------------------------- */

/* One lap n (from 1) is these steps; each leaves the number n somewhere. Round 1 is there for all
 * laps; round 1 + n is made and wiped again. */
typedef enum step {
    STEP_OPEN,   /* journal_open */
    STEP_ROUND,  /* round 1, attempt n */
    STEP_PAIR,   /* two facts in a transaction */
    STEP_SECRET, /* sealed, replaces that of the lap before */
    STEP_FILE,
    STEP_TEMPORARY, /* a secret in round 1 + n ... */
    STEP_KEM,       /* and bytes of a sealing key ... */
    STEP_SEED,      /* and the secret of a session ... */
    STEP_UPDATE,    /* a spooled body, then its row */
    STEP_SEED_WIPE,
    STEP_KEM_WIPE, /* ... that are wiped before the secret */
    STEP_WIPE,     /* ... that is wiped */
    STEPS
} step;

static sefl_status put_pair(journal *j, sefl_span value)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(journal_begin(j));
    SEFL_TRY(journal_fact_put(j, 1, "one", value));
    SEFL_TRY(journal_fact_put(j, 1, "two", value));
    SEFL_TRY(journal_commit(j));
done:
    if (st != SEFL_OK)
        journal_rollback(j);
    return st;
}

static void body_of(uint8_t *body, uint8_t hash[32], uint64_t n)
{
    for (size_t i = 0; i < BODY; i++)
        body[i] = (uint8_t)(i * 31 + n * 7 + (i >> 8));
    update_name_of(hash, span_of(body, BODY));
}

static sefl_status put_update(journal *j, uint64_t n)
{
    sefl_status st = SEFL_OK;
    static uint8_t body[BODY];
    static _Alignas(SPOOL_BLOCK) uint8_t room[SPOOL_ROOM(BODY)]; /* every other one */
    journal_update u = { .round = 1, .bytes = BODY };
    sefl_buf path = { 0 };
    spool *s = NULL;
    store_u64(u.client, n);
    body_of(body, u.body, n);
    SEFL_TRY(journal_path(j, &path, 1, "bodies"));
    SEFL_TRY(spool_open(&s, (char *)path.p, u.body, 0, BODY, n % 2 ? room : NULL));
    uint64_t half = spool_offset(s) < BODY / 2 ? BODY / 2 : spool_offset(s);
    SEFL_TRY(spool_write(s, span_of(body + spool_offset(s), half - spool_offset(s))));
    SEFL_TRY(spool_write(s, span_of(body + half, BODY - half)));
    SEFL_TRY(spool_finish(s));
    SEFL_TRY(journal_update_put(j, &u));
done:
    spool_close(s);
    buf_clear(&path);
    return st;
}

static sefl_status do_step(journal **j, step k, uint64_t n)
{
    sefl_rng rng = rng_system();
    uint8_t value[8], kem[JOURNAL_KEM] = { 0 };
    sefl_status st;
    store_u64(value, n);
    store_u64(kem, n);
    sefl_span v = span_of(value, sizeof value);
    switch (k) {
    case STEP_OPEN:
        return *j ? SEFL_OK : store_open(j, folder, "aggregator", task);
    case STEP_ROUND:
        return journal_round_put(*j, &(journal_round){ .round = 1, .attempt = n });
    case STEP_PAIR:
        return put_pair(*j, v);
    case STEP_SECRET:
        return journal_secret_put(*j, 1, "secret", v, &rng);
    case STEP_FILE:
        return journal_file_put(*j, 1, "file", v);
    case STEP_TEMPORARY:
        return journal_secret_put(*j, 1 + n, "temporary", v, &rng);
    case STEP_UPDATE:
        return put_update(*j, n);
    case STEP_KEM:
        return journal_kem_put(*j, 1 + n, kem);
    case STEP_SEED:
        return journal_seed_put(*j, 0, kem, kem);
    case STEP_SEED_WIPE: /* perhaps again */
        st = journal_seed_wipe(*j, 0, kem);
        return st == SEFL_ENOTFOUND ? SEFL_OK : st;
    case STEP_KEM_WIPE:
        return journal_kem_wipe(*j, 1 + n);
    default:
        return journal_round_wipe(*j, 1 + n);
    }
}

/* In the child: laps from..to, each step acknowledged with a byte. */
static void work(uint64_t from, uint64_t to)
{
    journal *j = NULL;
    for (uint64_t n = from; n <= to; n++)
        for (step k = STEP_OPEN; k < STEPS; k++) {
            if (do_step(&j, k, n) != SEFL_OK) {
                fprintf(stderr, "lap %llu step %d: %s\n", (unsigned long long)n, k,
                        sefl_last_error());
                _exit(6);
            }
            uint8_t done = (uint8_t)k;
            if (write(ACK_FD, &done, 1) != 1)
                _exit(7);
        }
    journal_close(j);
    _exit(0);
}

static pid_t start(int *acks, uint64_t from, uint64_t to, bool traced)
{
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fd[0]);
        if (dup2(fd[1], ACK_FD) != ACK_FD)
            _exit(3);
        close(fd[1]);
        if (traced && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(4);
        if (traced)
            raise(SIGSTOP);
        work(from, to);
    }
    close(fd[1]);
    *acks = fd[0];
    return pid;
}

/* Total number of acknowledged steps. */
static size_t read_acks(int fd)
{
    size_t n = 0;
    uint8_t buf[512];
    for (ssize_t got; (got = read(fd, buf, sizeof buf)) != 0;) {
        assert_true(got > 0);
        n += (size_t)got;
    }
    close(fd);
    return n;
}

/* ---- what the next process finds ----------------------------------------------------------- */

/* done: the highest lap in which this step was acknowledged. Found: that lap, or the interrupted
 * one. */
static void check_number(const char *what, uint64_t found, uint64_t done)
{
    if (found != done && found != done + 1)
        fail_msg("%s: found %llu, acknowledged %llu", what, (unsigned long long)found,
                 (unsigned long long)done);
}

static bool has_leftovers(const char *path)
{
    bool any = false;
    DIR *d = opendir(path);
    if (!d)
        return false;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        any |= strstr(e->d_name, ".tmp-") || strstr(e->d_name, ".wipe");
    closedir(d);
    return any;
}

static void check_sound(void)
{
    sqlite3 *s;
    sqlite3_stmt *q;
    char path[300];
    snprintf(path, sizeof path, "%s/journal.db", folder);
    assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(s, "PRAGMA integrity_check", -1, &q, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(q, 0), "ok");
    sqlite3_finalize(q);
    sqlite3_close(s);
}

typedef struct bodies {
    const char *path;
    unsigned n;
} bodies;

static sefl_status check_body(void *ctx, const journal_update *u)
{
    bodies *b = ctx;
    assert_int_equal(spool_have(b->path, u->body, BODY), BODY);
    sefl_buf file = { 0 };
    char path[600];
    uint8_t hash[32];
    int n = snprintf(path, sizeof path, "%s/", b->path);
    for (int i = 0; i < 32; i++)
        n += snprintf(path + n, sizeof path - (size_t)n, "%02x", u->body[i]);
    CHECK_OK(file_read(&file, path, BODY));
    update_name_of(hash, buf_span(&file));
    assert_memory_equal(hash, u->body, 32);
    buf_clear(&file);
    b->n++;
    return SEFL_OK;
}

/* done[k]: laps in which step k was acknowledged. Returns the lap to continue with. */
static uint64_t check_all(const uint64_t done[STEPS])
{
    journal *j;
    journal_round r = { 0 };
    sefl_buf b = { 0 };
    char path[300];
    CHECK_OK(store_open(&j, folder, "aggregator", task));
    (void)!journal_round_get(j, 1, &r);
    check_number("round", r.attempt, done[STEP_ROUND]);
    (void)!journal_fact_get(j, 1, "one", &b);
    (void)!journal_fact_get(j, 1, "two", &b);
    assert_true(b.n == 0 || (b.n == 16 && memcmp(b.p, b.p + 8, 8) == 0));
    check_number("pair", b.n ? load_u64(b.p) : 0, done[STEP_PAIR]);
    static const char *const name[] = { "secret", "file", "temporary" };
    for (int i = 0; i < 3; i++) {
        step k = i == 0 ? STEP_SECRET : i == 1 ? STEP_FILE : STEP_TEMPORARY;
        /* of the temporary ones only the latest can be there */
        uint64_t lap =
            done[STEP_TEMPORARY] > done[STEP_WIPE] ? done[STEP_TEMPORARY] : done[STEP_WIPE] + 1;
        buf_reset(&b);
        sefl_status st = i == 1 ? journal_file_get(j, 1, name[i], &b)
                                : journal_secret_get(j, i == 0 ? 1 : 1 + lap, name[i], &b);
        assert_true(st == SEFL_OK || st == SEFL_ENOTFOUND); /* never SEFL_ECRYPTO */
        assert_true(st != SEFL_OK || b.n == 8);
        if (i < 2)
            check_number(name[i], b.n ? load_u64(b.p) : 0, done[k]);
        else if (st == SEFL_OK)
            assert_int_equal(load_u64(b.p), lap);
        else /* never there, or its wipe was interrupted (its update was acknowledged) */
            assert_true(done[STEP_TEMPORARY] == done[STEP_WIPE] ||
                        done[STEP_UPDATE] == done[STEP_TEMPORARY]);
    }
    uint8_t kem[JOURNAL_KEM];
    uint64_t at = done[STEP_KEM] > done[STEP_KEM_WIPE] ? done[STEP_KEM] : done[STEP_KEM_WIPE] + 1;
    sefl_status got = journal_kem_get(j, 1 + at, kem);
    if (got == SEFL_OK) {
        assert_int_equal(load_u64(kem), at);
    } else { /* never there, or its wipe was interrupted */
        assert_int_equal(got, SEFL_ENOTFOUND);
        assert_true(done[STEP_KEM] == done[STEP_KEM_WIPE] || done[STEP_UPDATE] == done[STEP_KEM]);
    }
    uint8_t id[32] = { 0 };
    at = done[STEP_SEED] > done[STEP_SEED_WIPE] ? done[STEP_SEED] : done[STEP_SEED_WIPE] + 1;
    store_u64(id, at);
    got = journal_seed_get(j, 0, id, kem);
    if (got == SEFL_OK) {
        assert_memory_equal(kem, id, 32);
    } else { /* never there, or its wipe was interrupted */
        assert_int_equal(got, SEFL_ENOTFOUND);
        assert_true(done[STEP_SEED] == done[STEP_SEED_WIPE] ||
                    done[STEP_UPDATE] == done[STEP_SEED]);
    }
    for (uint64_t n = 1; n <= done[STEP_SEED_WIPE]; n++) {
        store_u64(id, n);
        CHECK_STATUS(journal_seed_get(j, 0, id, kem), SEFL_ENOTFOUND);
    }
    for (uint64_t n = 1; n <= done[STEP_KEM_WIPE]; n++) {
        snprintf(path, sizeof path, "%s/task-1/round-%llu.kem", folder,
                 (unsigned long long)(1 + n));
        assert_false(file_exists(path));
    }
    for (uint64_t n = 1; n <= done[STEP_WIPE]; n++) {
        snprintf(path, sizeof path, "%s/task-1/round-%llu", folder, (unsigned long long)(1 + n));
        assert_false(file_exists(path));
    }
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/task-1%s", folder, i ? "/round-1" : "");
        assert_false(has_leftovers(path));
    }
    buf_reset(&b);
    CHECK_OK(journal_path(j, &b, 1, "bodies"));
    bodies found = { .path = (char *)b.p };
    CHECK_OK(journal_updates(j, 1, check_body, &found));
    check_number("updates", found.n, done[STEP_UPDATE]);
    /* the next child continues where this one stopped: it repeats steps that were done but not
     * acknowledged, except the update, which is there */
    uint64_t next = done[STEP_WIPE] + 1;
    journal_update u;
    uint8_t client[32] = { 0 };
    store_u64(client, next);
    if (journal_update_get(j, 1, client, &u) == SEFL_OK) {
        CHECK_OK(do_step(&j, STEP_SEED_WIPE, next));
        CHECK_OK(journal_kem_wipe(j, 1 + next));
        CHECK_OK(journal_round_wipe(j, 1 + next));
        CHECK_OK(journal_round_put(j, &(journal_round){ .round = 1, .attempt = next }));
        next++;
    }
    journal_close(j);
    check_sound();
    buf_clear(&b);
    return next;
}

/* ---- by system call ------------------------------------------------------------------------ */

typedef struct trace {
    ino_t dirty_file[64]; /* written, not synced */
    unsigned dirty;
    bool names;           /* a name has changed and no folder was synced since then */
    unsigned stops, acks; /* system call stops, acknowledgements */
} trace;

static bool counts(pid_t pid, uint64_t fd)
{
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/%ld/fd/%llu", (long)pid, (unsigned long long)fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    const char *shm = strstr(path, "-shm"); /* created again after a crash */
    const char *lock = strstr(path, "/lock");
    return strstr(path, folder) && !(shm && !shm[4]) && !(lock && !lock[5]);
}

static struct stat stat_of(pid_t pid, uint64_t fd)
{
    char link[64];
    struct stat sb = { 0 };
    snprintf(link, sizeof link, "/proc/%ld/fd/%llu", (long)pid, (unsigned long long)fd);
    (void)!stat(link, &sb);
    return sb;
}

static void clean(trace *t, ino_t file)
{
    for (unsigned i = 0; i < t->dirty; i++)
        if (t->dirty_file[i] == file)
            t->dirty_file[i--] = t->dirty_file[--t->dirty];
}

static void look_at(trace *t, pid_t pid, struct __ptrace_syscall_info *entry)
{
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof info, &info) <= 0)
        return;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        *entry = info;
        uint64_t nr = info.entry.nr, fd = info.entry.args[0];
        if (nr == SYS_write && fd == ACK_FD) {
            if (t->dirty > 0 || t->names)
                fail_msg("acknowledgement %u: %u files not synced, names %s", t->acks, t->dirty,
                         t->names ? "not synced" : "synced");
            t->acks++;
        } else if ((nr == SYS_write || nr == SYS_pwrite64) && counts(pid, fd)) {
            struct stat sb = stat_of(pid, fd);
            clean(t, sb.st_ino);
            assert_true(sb.st_ino != 0 && t->dirty < 64);
            t->dirty_file[t->dirty++] = sb.st_ino;
        }
    } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && entry->op == PTRACE_SYSCALL_INFO_ENTRY &&
               info.exit.rval == 0) {
        uint64_t nr = entry->entry.nr, fd = entry->entry.args[0];
        if (nr == SYS_fsync || nr == SYS_fdatasync) {
            struct stat sb = stat_of(pid, fd);
            clean(t, sb.st_ino);
            if (S_ISDIR(sb.st_mode))
                t->names = false;
        }
        bool names = nr == SYS_renameat2 || nr == SYS_linkat || nr == SYS_mkdirat;
#ifdef SYS_rename
        names |= nr == SYS_rename || nr == SYS_link || nr == SYS_mkdir;
#endif
        if (nr == SYS_unlinkat) /* wipes; SQLite deletes worthless files with unlink */
            names = true;
        t->names |= names;
    }
}

/* Runs the child over one lap and kills it at stop `at`; false when it ended by itself before. */
static bool run_and_kill(unsigned at, trace *t, size_t *acked)
{
    int status, acks;
    bool killed = false;
    pid_t pid = start(&acks, 1, 1, true);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 4) {
        print_message("ptrace is not allowed here: skipped\n");
        close(acks);
        skip();
    }
    assert_true(WIFSTOPPED(status));
    assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD), 0);
    struct __ptrace_syscall_info entry = { 0 };
    for (*t = (trace){ 0 };; t->stops++) {
        if (t->stops == at) {
            killed = true;
            kill(pid, SIGKILL);
            assert_int_equal(waitpid(pid, &status, 0), pid);
            break;
        }
        assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            break;
        }
        look_at(t, pid, &entry);
    }
    *acked = read_acks(acks);
    return killed;
}

static void laps_of(uint64_t done[STEPS], size_t acks)
{
    for (size_t i = 0; i < acks; i++)
        done[i % STEPS]++;
}

static void one_kill(unsigned at, unsigned lap, trace *t, bool *killed)
{
    char name[64];
    size_t acked;
    snprintf(name, sizeof name, "call-%u", lap);
    snprintf(folder, sizeof folder, "%s", folder_path(name));
    *killed = run_and_kill(at, t, &acked);
    uint64_t done[STEPS] = { 0 };
    laps_of(done, acked);
    /* and a whole lap after it */
    journal *j = NULL;
    uint64_t n = acked > 0 ? check_all(done) : 1;
    for (step k = STEP_OPEN; k < STEPS; k++) {
        sefl_status st = do_step(&j, k, n);
        if (k == STEP_UPDATE && acked == 0)
            assert_true(st == SEFL_OK || st == SEFL_EEXIST);
        else
            CHECK_OK(st);
    }
    journal_close(j);
}

static void by_system_call(void **state)
{
    (void)state;
    trace t;
    bool killed;
    seeded g;
    test_seed(&g, "kill");
    sefl_rng rng = seeded_rng(&g);
    one_kill(UINT32_MAX, 0, &t, &killed);
    assert_false(killed);
    assert_int_equal(t.acks, STEPS);
    unsigned stops = t.stops, lap = 1, kills = 0;
    unsigned long trials = test_count(60, stops);
    for (unsigned long i = 0; i < trials; i++) {
        uint64_t at = i;
        if (trials < stops)
            CHECK_OK(rng_below(&rng, &at, stops));
        one_kill((unsigned)at, lap++, &t, &killed);
        kills += killed;
    }
    print_message("killed at %u of %u points\n", kills, stops);
    assert_true(stops > 200 && kills > 40);
}

/* ---- at random ----------------------------------------------------------------------------- */

static void at_random(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "random kills");
    sefl_rng rng = seeded_rng(&g);
    uint64_t done[STEPS] = { 0 }, next = 1;
    unsigned long kills = test_count(30, 1500), inside = 0;
    snprintf(folder, sizeof folder, "%s", folder_path("random"));
    for (unsigned long i = 0; i < kills; i++) {
        int acks, status;
        uint64_t us, first;
        uint8_t byte;
        CHECK_OK(rng_below(&rng, &us, 2000));
        CHECK_OK(rng_below(&rng, &first, 3 * STEPS));
        pid_t pid = start(&acks, next, next + 1000, false);
        for (uint64_t k = 0; k < first; k++) /* at least this far, even on a busy machine */
            assert_int_equal(read(acks, &byte, 1), 1);
        usleep((useconds_t)us);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        size_t acked = first + read_acks(acks);
        inside += acked % STEPS != 0;
        for (int k = 0; k < STEPS; k++)
            done[k] = next - 1;
        laps_of(done, acked);
        next = check_all(done);
    }
    print_message("%lu kills, %lu inside a lap, %llu laps\n", kills, inside,
                  (unsigned long long)next - 1);
    assert_true(next > 10 && inside > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_system_call),
        cmocka_unit_test(at_random),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
