#include "store/journal/journal.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/file.h"
#include "store/journal/journal_inside.h"
#ifdef SEFL_PG
#include "store/pg/pg.h"
#endif

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { FACT_MAX = 1 << 23, FACT_NAME_MAX = 255, PAGE = 4096 };
enum { LOG_MAX = 1 << 28, LOG_PIECE = 1 << 20, LOG_PAGE = 64 };
enum { GOES_ON = 0, SKIPPED = 1, SKIPPED_CHARGED = 2 }; /* column round.skipped */

/* Attendance (attendance.h); `bytes` is the type of bytes. */
#define ATTENDANCE_TABLES(bytes)                                                        \
    "CREATE TABLE attendee(task BIGINT NOT NULL, number BIGINT NOT NULL, client " bytes \
    " NOT NULL, name TEXT NOT NULL, PRIMARY KEY(task, number), UNIQUE(task, client));"  \
    "CREATE TABLE attendance(task BIGINT NOT NULL, round BIGINT NOT NULL,"              \
    " ended BIGINT NOT NULL, fates " bytes " NOT NULL, PRIMARY KEY(task, round));"      \
    "CREATE TABLE attendance_why(task BIGINT NOT NULL, round BIGINT NOT NULL,"          \
    " client BIGINT NOT NULL, why TEXT NOT NULL, PRIMARY KEY(task, round, client));"

/* A version's SQL is never changed once it has been used: a change is another step. */
static const char *const steps[] = {
    "CREATE TABLE task(number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE);"
    "CREATE TABLE round(task INTEGER NOT NULL REFERENCES task, round INTEGER NOT NULL,"
    " state INTEGER NOT NULL, attempt INTEGER NOT NULL, opened_ms INTEGER NOT NULL,"
    " deadline_ms INTEGER NOT NULL, closed_ms INTEGER NOT NULL, clients INTEGER NOT NULL,"
    " extensions INTEGER NOT NULL, skipped INTEGER NOT NULL, set_hash BLOB, model BLOB,"
    " PRIMARY KEY(task, round)) WITHOUT ROWID;"
    "CREATE TABLE fact(task INTEGER NOT NULL REFERENCES task, round INTEGER NOT NULL,"
    " name TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY(task, round, name));"
    "CREATE TABLE lasting(name TEXT PRIMARY KEY, value BLOB NOT NULL);"
    "CREATE TABLE body(task INTEGER NOT NULL REFERENCES task, round INTEGER NOT NULL,"
    " client BLOB NOT NULL, name TEXT NOT NULL, hash BLOB NOT NULL, bytes INTEGER NOT NULL,"
    " when_ms INTEGER NOT NULL, receipt BLOB NOT NULL,"
    " PRIMARY KEY(task, round, client)) WITHOUT ROWID;"
    "CREATE INDEX body_of_client ON body(task, client);",
    "CREATE INDEX body_by_hash ON body(task, hash);",
    /* what is called by its content is found by its hash */
    ("ALTER TABLE body ADD COLUMN content BLOB;"
     "CREATE INDEX body_by_content ON body(task, content) WHERE content != hash;"),
    /* AS signs a receipt again when it is asked for: the same bytes */
    "ALTER TABLE body DROP COLUMN receipt;",
    /* an update has one name, its hash */
    "DROP INDEX body_by_content; ALTER TABLE body DROP COLUMN content;",
    ("CREATE TABLE lease(name TEXT PRIMARY KEY, holder TEXT NOT NULL, fence INTEGER NOT NULL,"
     " expires_ms INTEGER NOT NULL);"
     "CREATE TABLE log(name TEXT NOT NULL, at INTEGER NOT NULL, bytes BLOB NOT NULL,"
     " PRIMARY KEY(name, at));"),
    ATTENDANCE_TABLES("BLOB"),
};
enum { STEPS = sizeof steps / sizeof steps[0] };

#ifdef SEFL_PG
/* The same tables in PostgreSQL, and those of db_files.c. Files are stored as they are: ciphertext
 * cannot be compressed. */
static const char *const pg_steps[] = {
    "CREATE TABLE task(number BIGINT PRIMARY KEY, id BYTEA NOT NULL UNIQUE);"
    "CREATE TABLE round(task BIGINT NOT NULL, round BIGINT NOT NULL,"
    " state BIGINT NOT NULL, attempt BIGINT NOT NULL, opened_ms BIGINT NOT NULL,"
    " deadline_ms BIGINT NOT NULL, closed_ms BIGINT NOT NULL, clients BIGINT NOT NULL,"
    " extensions BIGINT NOT NULL, skipped BIGINT NOT NULL, set_hash BYTEA, model BYTEA,"
    " PRIMARY KEY(task, round));"
    "CREATE TABLE fact(task BIGINT NOT NULL, round BIGINT NOT NULL, name TEXT NOT NULL,"
    " value BYTEA NOT NULL, PRIMARY KEY(task, round, name));"
    "CREATE TABLE lasting(name TEXT PRIMARY KEY, value BYTEA NOT NULL);"
    "CREATE TABLE body(task BIGINT NOT NULL, round BIGINT NOT NULL, client BYTEA NOT NULL,"
    " name TEXT NOT NULL, hash BYTEA NOT NULL, bytes BIGINT NOT NULL, when_ms BIGINT NOT NULL,"
    " PRIMARY KEY(task, round, client));"
    "CREATE INDEX body_of_client ON body(task, client);"
    "CREATE INDEX body_by_hash ON body(task, hash);"
    "CREATE TABLE lease(name TEXT PRIMARY KEY, holder TEXT NOT NULL, fence BIGINT NOT NULL,"
    " expires_ms BIGINT NOT NULL);"
    "CREATE TABLE log(name TEXT NOT NULL, at BIGINT NOT NULL, bytes BYTEA NOT NULL,"
    " PRIMARY KEY(name, at));"
    "CREATE TABLE round_key(task BIGINT NOT NULL, round BIGINT NOT NULL, kind BIGINT NOT NULL,"
    " bytes BYTEA NOT NULL, PRIMARY KEY(task, round, kind));"
    "CREATE TABLE file(task BIGINT NOT NULL, round BIGINT NOT NULL, name TEXT NOT NULL,"
    " piece BIGINT NOT NULL, bytes BYTEA NOT NULL, PRIMARY KEY(task, round, name, piece));"
    "ALTER TABLE file ALTER COLUMN bytes SET STORAGE EXTERNAL;",
    ATTENDANCE_TABLES("BYTEA"),
};
enum { PG_STEPS = sizeof pg_steps / sizeof pg_steps[0] };
#endif

/* ---- rows ---------------------------------------------------------------------------------- */

sefl_status journal_take(const db_row *row, int col, void *out, size_t n)
{
    sefl_span s = db_col_bytes(row, col);
    if (s.n != n)
        return sefl_fail(SEFL_EPROTO, "journal: a column has %zu bytes, not %zu", s.n, n);
    memcpy(out, s.p, n);
    return SEFL_OK;
}

/* Runs one statement, with `rows` locked; a write outside a transaction checks the guard in one of
 * its own. */
static sefl_status statement(journal *j, db_row_fn *fn, void *ctx, const char *sql,
                             const db_value *args)
{
    if (j->in_transaction || !j->guard.name[0] || strncmp(sql, "SELECT", 6) == 0)
        return db_each_args(j->d, sql, args, fn, ctx);
    SEFL_PASS(db_begin_shared(j->d));
    sefl_status st = guard_check(j, j->d);
    if (st == SEFL_OK)
        st = db_each_args(j->d, sql, args, fn, ctx);
    if (st == SEFL_OK)
        return db_commit(j->d);
    db_rollback(j->d);
    return st;
}

sefl_status journal_rows_args(journal *j, uint64_t round, db_row_fn *fn, void *ctx, const char *sql,
                              const db_value *args)
{
    SEFL_NEED(round <= INT64_MAX, SEFL_ERANGE, "round %" PRIu64 " is too high", round);
    pthread_mutex_lock(&j->rows);
    sefl_status st = statement(j, fn, ctx, sql, args);
    pthread_mutex_unlock(&j->rows);
    return st;
}

/* ---- opening ------------------------------------------------------------------------------- */

static sefl_status lock_folder(journal *j)
{
    char path[PATH_MAX], who[32] = "";
    SEFL_PASS(file_path(path, "%s/lock", j->folder));
    j->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    SEFL_NEED(j->lock >= 0, SEFL_EIO, "cannot open %s: %s", path, strerror(errno));
    if (flock(j->lock, LOCK_EX | LOCK_NB) != 0) {
        ssize_t got = pread(j->lock, who, sizeof who - 1, 0);
        who[got > 0 ? strspn(who, "0123456789") : 0] = 0;
        SEFL_NEED(false, SEFL_ESTATE, "%s is in use by process %s", j->folder, who[0] ? who : "?");
    }
    /* for people only: the lock holds even if this cannot be written */
    int n = snprintf(who, sizeof who, "%ld\n", (long)getpid());
    if (ftruncate(j->lock, 0) != 0 || pwrite(j->lock, who, (size_t)n, 0) != n)
        errno = 0;
    return SEFL_OK;
}

static sefl_status make_locks(journal *j)
{
    pthread_mutexattr_t a;
    SEFL_NEED(pthread_mutexattr_init(&a) == 0, SEFL_ENOMEM, "out of memory for a lock");
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    j->has_rows = pthread_mutex_init(&j->rows, &a) == 0;
    pthread_mutexattr_destroy(&a);
    j->has_files = pthread_mutex_init(&j->files, NULL) == 0;
    SEFL_NEED(j->has_rows && j->has_files, SEFL_ENOMEM, "out of memory for a lock");
    return SEFL_OK;
}

static sefl_status number_of(journal *j, const uint8_t task[32], uint64_t *tasks, uint64_t *number)
{
    *tasks = *number = 0;
    SEFL_PASS(db_each(j->d, db_take_u64, tasks, "SELECT coalesce(max(number), 0) FROM task"));
    return task ? db_each(j->d, db_take_u64, number, "SELECT number FROM task WHERE id = ?",
                          db_blob(span_of(task, 32)))
                : SEFL_OK;
}

/* Gives a new task its number. Another process may be doing the same. */
static sefl_status add_task(journal *j, const uint8_t task[32], uint64_t *number)
{
    sefl_status st = SEFL_OK;
    uint64_t tasks;
    SEFL_TRY(db_begin(j->d));
    SEFL_TRY(number_of(j, task, &tasks, number));
    if (*number == 0) {
        *number = tasks + 1;
        SEFL_TRY(db_run(j->d, "INSERT INTO task VALUES(?, ?)", db_u64(*number),
                        db_blob(span_of(task, 32))));
    }
    SEFL_TRY(db_commit(j->d));
done:
    if (st != SEFL_OK)
        db_rollback(j->d);
    return st;
}

/* Sets this task's number, new for a new task. The row is durable before the folder exists. */
static sefl_status enter_task(journal *j, const uint8_t task[32])
{
    uint64_t tasks, number;
    SEFL_PASS(number_of(j, task, &tasks, &number));
    sefl_status st = files_settle(j, tasks);
    if (st == SEFL_ESTATE && j->big) { /* or another process has just begun a task */
        SEFL_PASS(number_of(j, task, &tasks, &number));
        st = files_settle(j, tasks);
    }
    SEFL_PASS(st);
    j->number = 0; /* no task has it */
    if (!task)
        return SEFL_OK;
    if (number == 0)
        SEFL_PASS(add_task(j, task, &number));
    j->number = number;
    memcpy(j->task, task, 32);
    return SEFL_OK;
}

#ifdef SEFL_PG
sefl_status journal_check_store(const char *url)
{
    return pg_check_url(url);
}

sefl_status journal_reach_store(const char *url)
{
    return pg_reach(url);
}

static sefl_status open_shared(journal *j, const journal_place *at, const char *role)
{
    SEFL_NEED(at->root != NULL, SEFL_EINVAL, "a shared store needs its root");
    memcpy(j->root, at->root, sizeof j->root);
    j->f = &db_files;
    SEFL_PASS(db_open_while(&j->d, &db_pg, at->store, role, pg_steps, PG_STEPS, at->going));
    SEFL_PASS(owner_bind(j->d, at));
    return db_open_while(&j->big, &db_pg, at->store, role, pg_steps, PG_STEPS, at->going);
}
#else
sefl_status journal_check_store(const char *url)
{
    (void)url;
    return sefl_fail(SEFL_EUNSUPPORTED,
                     "this build has no PostgreSQL: build with -DSEFL_PG=ON, or leave the "
                     "setting out to keep the store in the state folder");
}

sefl_status journal_reach_store(const char *url)
{
    return journal_check_store(url);
}

static sefl_status open_shared(journal *j, const journal_place *at, const char *role)
{
    (void)j, (void)role;
    return journal_check_store(at->store);
}
#endif

static sefl_status open_alone(journal *j, const char *role)
{
    char path[PATH_MAX];
    j->f = &folder_files;
    SEFL_PASS(lock_folder(j));
    SEFL_PASS(file_path(path, "%s/journal.db", j->folder));
    SEFL_PASS(db_open(&j->d, &db_sqlite, path, role, steps, STEPS));
    return file_sync_folder(j->folder); /* the database's name */
}

sefl_status journal_open_at(journal **out, const journal_place *at, const char *role,
                            const uint8_t task[32])
{
    SEFL_MAKE(journal, j, out);
    j->lock = -1;
    SEFL_TRY(make_locks(j));
    SEFL_TRY(sefl_strdup(&j->folder, at->folder));
    SEFL_TRY(file_make_folder(at->folder, 0700));
    SEFL_TRY(at->store ? open_shared(j, at, role) : open_alone(j, role));
    SEFL_TRY(enter_task(j, task));
    SEFL_HAND_OVER(out, j, journal_close);
}

sefl_status journal_open(journal **out, const char *folder, const char *role,
                         const uint8_t task[32])
{
    return journal_open_at(out, &(journal_place){ .folder = folder }, role, task);
}

void journal_close(journal *j)
{
    if (!j)
        return;
    if (j->d)
        journal_rollback(j);
    db_close(j->d);
    db_close(j->big);
    sefl_wipe(j->root, sizeof j->root);
    if (j->lock >= 0)
        close(j->lock);
    if (j->has_rows)
        pthread_mutex_destroy(&j->rows);
    if (j->has_files)
        pthread_mutex_destroy(&j->files);
    sefl_free(j->folder);
    sefl_free(j);
}

const char *journal_folder(const journal *j)
{
    return j->folder;
}

const char *journal_place_name(const journal *j)
{
    return j->big ? db_place(j->d) : j->folder;
}

bool journal_is_shared(const journal *j)
{
    return j->big != NULL;
}

/* ---- transactions -------------------------------------------------------------------------- */

static sefl_status begin(journal *j, bool alone)
{
    sefl_status st = SEFL_OK;
    pthread_mutex_lock(&j->rows);
    SEFL_CHECK(!j->in_transaction, SEFL_ESTATE, "journal: a transaction inside a transaction");
    SEFL_TRY(alone ? db_begin(j->d) : db_begin_shared(j->d));
    st = guard_check(j, j->d);
    if (st != SEFL_OK) {
        db_rollback(j->d);
        goto done;
    }
    j->in_transaction = true;
    return SEFL_OK; /* keeps the lock */
done:
    pthread_mutex_unlock(&j->rows);
    return st;
}

sefl_status journal_begin(journal *j)
{
    return begin(j, true);
}

sefl_status journal_begin_shared(journal *j)
{
    return begin(j, false);
}

sefl_status journal_commit(journal *j)
{
    sefl_status st = SEFL_OK;
    pthread_mutex_lock(&j->rows);
    SEFL_CHECK(j->in_transaction, SEFL_ESTATE, "journal: no transaction to commit");
    j->in_transaction = false;
    st = db_commit(j->d);
    pthread_mutex_unlock(&j->rows); /* that of begin */
done:
    pthread_mutex_unlock(&j->rows);
    return st;
}

void journal_rollback(journal *j)
{
    pthread_mutex_lock(&j->rows);
    if (j->in_transaction) { /* ours: another thread's would hold the lock */
        j->in_transaction = false;
        db_rollback(j->d);
        pthread_mutex_unlock(&j->rows);
    }
    pthread_mutex_unlock(&j->rows);
}

/* ---- rounds -------------------------------------------------------------------------------- */

sefl_status journal_round_put(journal *j, const journal_round *r)
{
    const db_value none = { .type = DB_NULL };
    const uint64_t skipped = !r->skipped ? GOES_ON : r->charged ? SKIPPED_CHARGED : SKIPPED;
    return journal_rows(
        j, r->round, NULL, NULL,
        "INSERT INTO round VALUES(?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(task, round) DO "
        "UPDATE SET state = excluded.state, attempt = excluded.attempt, "
        "opened_ms = excluded.opened_ms, deadline_ms = excluded.deadline_ms, "
        "closed_ms = excluded.closed_ms, clients = excluded.clients, "
        "extensions = excluded.extensions, skipped = excluded.skipped, "
        "set_hash = excluded.set_hash, model = excluded.model",
        db_u64(j->number), db_u64(r->round), db_u64(r->state), db_u64(r->attempt),
        db_u64(r->opened_ms), db_u64(r->deadline_ms), db_u64(r->closed_ms), db_u64(r->clients),
        db_u64(r->extensions), db_u64(skipped),
        r->has_set ? db_blob(span_of(r->set, sizeof r->set)) : none,
        r->has_model ? db_blob(span_of(r->model, sizeof r->model)) : none);
}

typedef struct round_found {
    bool found;
    journal_round r;
} round_found;

static sefl_status take_round(void *ctx, const db_row *row)
{
    round_found *f = ctx;
    f->r = (journal_round){
        .round = db_col_u64(row, 0),
        .state = (unsigned)db_col_u64(row, 1),
        .attempt = db_col_u64(row, 2),
        .opened_ms = db_col_u64(row, 3),
        .deadline_ms = db_col_u64(row, 4),
        .closed_ms = db_col_u64(row, 5),
        .clients = (uint32_t)db_col_u64(row, 6),
        .extensions = (uint32_t)db_col_u64(row, 7),
        .skipped = db_col_u64(row, 8) != GOES_ON,
        .charged = db_col_u64(row, 8) == SKIPPED_CHARGED,
        .has_set = !db_col_null(row, 9),
        .has_model = !db_col_null(row, 10),
    };
    if (f->r.has_set)
        SEFL_PASS(journal_take(row, 9, f->r.set, sizeof f->r.set));
    if (f->r.has_model)
        SEFL_PASS(journal_take(row, 10, f->r.model, sizeof f->r.model));
    f->found = true;
    return SEFL_OK;
}

#define SELECT_ROUND                                                                         \
    "SELECT round, state, attempt, opened_ms, deadline_ms, closed_ms, clients, extensions, " \
    "skipped, set_hash, model FROM round WHERE task = ? "

sefl_status journal_round_get(journal *j, uint64_t round, journal_round *out)
{
    round_found f = { 0 };
    SEFL_PASS(journal_rows(j, round, take_round, &f, SELECT_ROUND "AND round = ?",
                           db_u64(j->number), db_u64(round)));
    SEFL_NEED(f.found, SEFL_ENOTFOUND, "the journal has no round %" PRIu64, round);
    *out = f.r;
    return SEFL_OK;
}

sefl_status journal_round_last(journal *j, journal_round *out)
{
    round_found f = { 0 };
    SEFL_PASS(journal_rows(j, 0, take_round, &f, SELECT_ROUND "ORDER BY round DESC LIMIT 1",
                           db_u64(j->number)));
    SEFL_NEED(f.found, SEFL_ENOTFOUND, "the journal has no round yet");
    *out = f.r;
    return SEFL_OK;
}

sefl_status journal_round_highest(journal *j, unsigned state, uint64_t *out)
{
    return journal_rows(j, 0, db_take_u64, out,
                        "SELECT coalesce(max(round), 0) FROM round WHERE task = ? AND state = ?",
                        db_u64(j->number), db_u64(state));
}

/* ---- facts --------------------------------------------------------------------------------- */

static sefl_status check_fact(const char *name, size_t bytes)
{
    size_t n = strlen(name);
    if (n < 1 || n > FACT_NAME_MAX)
        return sefl_fail(SEFL_EINVAL, "journal: a fact's name has %zu bytes", n);
    if (bytes > FACT_MAX)
        return sefl_fail(SEFL_ERANGE, "journal: fact %s has %zu bytes, at most %d fit", name, bytes,
                         FACT_MAX);
    return SEFL_OK;
}

typedef struct bytes_found {
    bool found;
    sefl_buf *out;
} bytes_found;

static sefl_status take_bytes(void *ctx, const db_row *row)
{
    bytes_found *f = ctx;
    sefl_span s = db_col_bytes(row, 0);
    f->found = true;
    return f->out ? wr_raw(f->out, s.p, s.n) : SEFL_OK;
}

sefl_status journal_fact_put(journal *j, uint64_t round, const char *name, sefl_span value)
{
    SEFL_PASS(check_fact(name, value.n));
    return journal_rows(
        j, round, NULL, NULL,
        "INSERT INTO fact VALUES(?,?,?,?) ON CONFLICT(task, round, name) DO UPDATE SET "
        "value = excluded.value",
        db_u64(j->number), db_u64(round), db_text(name), db_blob(value));
}

sefl_status journal_fact_get(journal *j, uint64_t round, const char *name, sefl_buf *out)
{
    bytes_found f = { .out = out };
    SEFL_PASS(journal_rows(j, round, take_bytes, &f,
                           "SELECT value FROM fact WHERE task = ? AND round = ? AND name = ?",
                           db_u64(j->number), db_u64(round), db_text(name)));
    SEFL_NEED(f.found, SEFL_ENOTFOUND, "the journal has no %s of round %" PRIu64, name, round);
    return SEFL_OK;
}

sefl_status journal_fact_fixed(journal *j, uint64_t round, const char *name, void *out, size_t n)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(journal_fact_get(j, round, name, &b));
    SEFL_CHECK(b.n == n, SEFL_EPROTO, "journal: %s of round %" PRIu64 " has %zu bytes, not %zu",
               name, round, b.n, n);
    memcpy(out, b.p, n);
done:
    buf_clear(&b);
    return st;
}

sefl_status journal_fact_has(journal *j, uint64_t round, const char *name, bool *out)
{
    sefl_status st = journal_fact_get(j, round, name, NULL);
    *out = st == SEFL_OK;
    return st == SEFL_ENOTFOUND ? SEFL_OK : st;
}

sefl_status journal_lasting_put(journal *j, const char *name, sefl_span value)
{
    SEFL_PASS(check_fact(name, value.n));
    return journal_rows(j, 0, NULL, NULL,
                        "INSERT INTO lasting VALUES(?,?) ON CONFLICT(name) DO UPDATE SET "
                        "value = excluded.value",
                        db_text(name), db_blob(value));
}

sefl_status journal_lasting_get(journal *j, const char *name, sefl_buf *out)
{
    bytes_found f = { .out = out };
    SEFL_PASS(journal_rows(j, 0, take_bytes, &f, "SELECT value FROM lasting WHERE name = ?",
                           db_text(name)));
    SEFL_NEED(f.found, SEFL_ENOTFOUND, "the journal has no %s", name);
    return SEFL_OK;
}

/* ---- logs ---------------------------------------------------------------------------------- */

static sefl_status log_size(journal *j, const char *name, uint64_t *out)
{
    *out = 0;
    return journal_rows(
        j, 0, db_take_u64, out,
        "SELECT at + length(bytes) FROM log WHERE name = ? ORDER BY at DESC LIMIT 1",
        db_text(name));
}

sefl_status journal_log_append(journal *j, const char *name, uint64_t at, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    uint64_t size;
    SEFL_PASS(check_fact(name, 0));
    SEFL_NEED(bytes.n > 0 && bytes.n <= LOG_MAX && at <= LOG_MAX - bytes.n, SEFL_ERANGE,
              "journal: log %s is too long", name);
    SEFL_PASS(journal_begin(j));
    SEFL_TRY(log_size(j, name, &size));
    SEFL_CHECK(size == at, SEFL_ESTATE,
               "log %s has %" PRIu64 " bytes, not %" PRIu64 ": another process continued it", name,
               size, at);
    for (size_t done_n = 0; done_n < bytes.n; done_n += LOG_PIECE) {
        size_t n = bytes.n - done_n < LOG_PIECE ? bytes.n - done_n : LOG_PIECE;
        SEFL_TRY(journal_rows(j, 0, NULL, NULL, "INSERT INTO log VALUES(?,?,?)", db_text(name),
                              db_u64(at + done_n), db_blob(span_of(bytes.p + done_n, n))));
    }
    SEFL_TRY(journal_commit(j));
done:
    if (st != SEFL_OK)
        journal_rollback(j);
    return st;
}

typedef struct log_walk {
    sefl_buf *out;
    size_t before;
    unsigned n;
} log_walk;

static sefl_status walk_log(void *ctx, const db_row *row)
{
    log_walk *w = ctx;
    sefl_span s = db_col_bytes(row, 1);
    w->n++;
    SEFL_NEED(db_col_u64(row, 0) == w->out->n - w->before, SEFL_EPROTO,
              "journal: a log has a gap at byte %zu", w->out->n - w->before);
    return wr_raw(w->out, s.p, s.n);
}

sefl_status journal_log_read(journal *j, const char *name, sefl_buf *out)
{
    log_walk w = { out, out->n, LOG_PAGE };
    sefl_status st = SEFL_OK;
    while (st == SEFL_OK && w.n == LOG_PAGE) {
        w.n = 0;
        st =
            journal_rows(j, 0, walk_log, &w,
                         "SELECT at, bytes FROM log WHERE name = ? AND at >= ? ORDER BY at LIMIT ?",
                         db_text(name), db_u64(out->n - w.before), db_u64(LOG_PAGE));
    }
    if (st != SEFL_OK)
        out->n = w.before;
    SEFL_NEED(st != SEFL_OK || out->n > w.before, SEFL_ENOTFOUND, "the journal has no log %s",
              name);
    return st;
}

/* ---- updates ------------------------------------------------------------------------------- */

sefl_status journal_update_put(journal *j, const journal_update *u)
{
    SEFL_NEED(memchr(u->name, 0, sizeof u->name) != NULL, SEFL_EINVAL,
              "the client's name is too long");
    sefl_status st = journal_rows(
        j, u->round, NULL, NULL, "INSERT INTO body VALUES(?,?,?,?,?,?,?)", db_u64(j->number),
        db_u64(u->round), db_blob(span_of(u->client, sizeof u->client)), db_text(u->name),
        db_blob(span_of(u->body, sizeof u->body)), db_u64(u->bytes), db_u64(u->when_ms));
    if (st == SEFL_EEXIST)
        st = sefl_fail(st, "round %" PRIu64 " has an update of client %s already", u->round,
                       u->name);
    return st;
}

typedef struct update_walk {
    journal_update_fn *fn;
    void *ctx;
    bool found; /* any row */
} update_walk;

static sefl_status walk_update(void *ctx, const db_row *row)
{
    update_walk *w = ctx;
    journal_update u = { .round = db_col_u64(row, 0),
                         .bytes = db_col_u64(row, 4),
                         .when_ms = db_col_u64(row, 5) };
    sefl_span name = db_col_bytes(row, 2);
    SEFL_NEED(name.n < sizeof u.name, SEFL_EPROTO, "journal: a name of %zu bytes", name.n);
    if (name.n > 0)
        memcpy(u.name, name.p, name.n);
    SEFL_PASS(journal_take(row, 1, u.client, sizeof u.client));
    SEFL_PASS(journal_take(row, 3, u.body, sizeof u.body));
    w->found = true;
    return w->fn(w->ctx, &u);
}

#define SELECT_UPDATE \
    "SELECT round, client, name, hash, bytes, when_ms FROM body WHERE task = ? AND round = ? "

static sefl_status take_update(void *ctx, const journal_update *u)
{
    *(journal_update *)ctx = *u;
    return SEFL_OK;
}

sefl_status journal_update_get(journal *j, uint64_t round, const uint8_t client[32],
                               journal_update *out)
{
    update_walk w = { .fn = take_update, .ctx = out };
    SEFL_PASS(journal_rows(j, round, walk_update, &w, SELECT_UPDATE "AND client = ?",
                           db_u64(j->number), db_u64(round), db_blob(span_of(client, 32))));
    SEFL_NEED(w.found, SEFL_ENOTFOUND, "round %" PRIu64 " has no update of this client", round);
    return SEFL_OK;
}

/* One page, after the client `after`; sets *after to its last client. */
typedef struct page {
    update_walk w;
    uint8_t after[32];
    unsigned n;
} page;

static sefl_status walk_page(void *ctx, const db_row *row)
{
    page *p = ctx;
    p->n++;
    SEFL_PASS(journal_take(row, 1, p->after, sizeof p->after));
    return walk_update(&p->w, row);
}

sefl_status journal_updates(journal *j, uint64_t round, journal_update_fn *fn, void *ctx)
{
    sefl_status st = SEFL_OK;
    page p = { .w = { .fn = fn, .ctx = ctx }, .n = PAGE };
    pthread_mutex_lock(&j->rows);
    for (bool first = true; st == SEFL_OK && p.n == PAGE; first = false) {
        uint8_t after[32];
        memcpy(after, p.after, sizeof after);
        p.n = 0;
        st = journal_rows(j, round, walk_page, &p,
                          SELECT_UPDATE "AND client > ? ORDER BY client LIMIT ?", db_u64(j->number),
                          db_u64(round), db_blob(span_of(after, first ? 0 : 32)), db_u64(PAGE));
    }
    pthread_mutex_unlock(&j->rows);
    return st;
}

sefl_status journal_update_count(journal *j, uint64_t round, uint32_t *out)
{
    uint64_t n = 0;
    sefl_status st = journal_rows(j, round, db_take_u64, &n,
                                  "SELECT count(*) FROM body WHERE task = ? AND round = ?",
                                  db_u64(j->number), db_u64(round));
    *out = (uint32_t)n;
    return st;
}

static sefl_status take_two(void *ctx, const db_row *row)
{
    uint64_t *v = ctx;
    v[0] = db_col_u64(row, 0);
    v[1] = db_col_u64(row, 1);
    return SEFL_OK;
}

sefl_status journal_client_rounds(journal *j, const uint8_t client[32], uint64_t *out,
                                  uint64_t *last)
{
    uint64_t got[2] = { 0, 0 };
    SEFL_PASS(journal_rows(
        j, 0, take_two, got,
        "SELECT count(*), coalesce(max(b.round), 0) FROM body b LEFT JOIN round r ON r.task = "
        "b.task AND "
        "r.round = b.round WHERE b.task = ? AND b.client = ? AND coalesce(r.skipped, 0) != 1",
        db_u64(j->number), db_blob(span_of(client, 32))));
    *out = got[0];
    *last = got[1];
    return SEFL_OK;
}

sefl_status journal_body_before(journal *j, uint64_t round, const uint8_t body[32], bool *out)
{
    uint64_t n = 0;
    sefl_status st = journal_rows(
        j, round, db_take_u64, &n,
        "SELECT EXISTS(SELECT 1 FROM body WHERE task = ?1 AND hash = ?3 AND round != ?2)",
        db_u64(j->number), db_u64(round), db_blob(span_of(body, 32)));
    *out = n != 0;
    return st;
}
