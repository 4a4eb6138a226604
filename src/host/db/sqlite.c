/* Design. The file itself records role and version: application_id marks it as ours, user_version
 * counts the steps that have run, table sefl_role names the role. All three change in the
 * transaction of a step, so a crash leaves the version before or the version after. Opening checks
 * a file before it changes anything in it (the switch to WAL comes after the checks). */
#include "store/db/db.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { APPLICATION_ID = 0x5345464c /* "SEFL" */, BUSY_MS = 5000, KEPT = 8 };

typedef struct lite {
    db base;
    sqlite3 *sql;
    sqlite3_stmt *kept[KEPT]; /* reset, for the next call with the same text; NULL: none */
    unsigned oldest;
} lite;

typedef struct lite_row {
    db_row base;
    sqlite3_stmt *stmt;
} lite_row;

/* ---- failures ------------------------------------------------------------------------------ */

static sefl_status code_of(int rc, int extended)
{
    switch (rc) {
    case SQLITE_NOMEM:
        return SEFL_ENOMEM;
    case SQLITE_CONSTRAINT:
        return extended == SQLITE_CONSTRAINT_UNIQUE || extended == SQLITE_CONSTRAINT_PRIMARYKEY ||
                       extended == SQLITE_CONSTRAINT_ROWID
                   ? SEFL_EEXIST
                   : SEFL_EINVAL;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_FORMAT:
        return SEFL_EPROTO;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return SEFL_ESTATE;
    case SQLITE_TOOBIG:
        return SEFL_ERANGE;
    default:
        return SEFL_EIO;
    }
}

/* Of the latest failing call on d->sql, before which errno was 0: SQLite keeps the system's reason
 * of failed opens only. */
static sefl_status fail_sql(const lite *d, int rc)
{
    int err = errno;
    sefl_status st = code_of(rc & 0xff, sqlite3_extended_errcode(d->sql));
    if ((rc & 0xff) == SQLITE_FULL)
        return sefl_fail(st, "%s: no space left on its disk", d->base.place);
    if (st == SEFL_EIO && (rc & 0xff) != SQLITE_ERROR && err != 0)
        return sefl_fail(st, "%s: %s (%s)", d->base.place, sqlite3_errmsg(d->sql), strerror(err));
    return sefl_fail(st, "%s: %s", d->base.place, sqlite3_errmsg(d->sql));
}

/* ---- statements ---------------------------------------------------------------------------- */

static int bind(sqlite3_stmt *s, int at, const db_value *v)
{
    static const char nothing[1]; /* a NULL pointer would bind NULL */
    const void *p = v->s.p ? (const void *)v->s.p : nothing;
    switch (v->type) {
    case DB_I64:
        return sqlite3_bind_int64(s, at, v->i);
    case DB_TEXT:
        return sqlite3_bind_text64(s, at, p, v->s.n, SQLITE_STATIC, SQLITE_UTF8);
    case DB_BLOB:
        return sqlite3_bind_blob64(s, at, p, v->s.n, SQLITE_STATIC);
    default:
        return sqlite3_bind_null(s, at);
    }
}

/* The text without a lock at its end, which SQLite does not know. */
static size_t length_of(const char *sql)
{
    static const char *const ends[] = { " FOR UPDATE", " FOR NO KEY UPDATE", " FOR SHARE",
                                        " FOR KEY SHARE" };
    size_t n = strlen(sql);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t m = strlen(ends[i]);
        if (n > m && strcmp(sql + n - m, ends[i]) == 0)
            return n - m;
    }
    return n;
}

/* A statement for this text: the kept one, which leaves the list, or a new one. */
static int take_statement(lite *d, const char *sql, sqlite3_stmt **out)
{
    const size_t n = length_of(sql);
    for (unsigned i = 0; i < KEPT; i++) {
        const char *kept = d->kept[i] ? sqlite3_sql(d->kept[i]) : NULL;
        if (kept && strncmp(kept, sql, n) == 0 && kept[n] == 0) {
            *out = d->kept[i];
            d->kept[i] = NULL;
            return SQLITE_OK;
        }
    }
    return sqlite3_prepare_v2(d->sql, sql, (int)n, out, NULL);
}

/* Keeps a statement for reuse; not after a failure, and not one without values, which runs once. */
static void give_statement(lite *d, sqlite3_stmt *s, bool keep)
{
    if (!s || !keep || sqlite3_reset(s) != SQLITE_OK || sqlite3_clear_bindings(s) != SQLITE_OK) {
        sqlite3_finalize(s); /* repeats the failure that we have */
        return;
    }
    unsigned at = d->oldest++ % KEPT;
    for (unsigned i = 0; i < KEPT; i++)
        if (!d->kept[i])
            at = i;
    sqlite3_finalize(d->kept[at]);
    d->kept[at] = s;
}

static sefl_status lite_each(db *base, const char *sql, const db_value *args, db_row_fn *fn,
                             void *ctx)
{
    lite *d = (lite *)base;
    sefl_status st = SEFL_OK;
    sqlite3_stmt *s = NULL;
    errno = 0;
    int rc = take_statement(d, sql, &s);
    if (rc != SQLITE_OK)
        return fail_sql(d, rc);
    for (int i = 0; args[i].type != DB_END; i++) {
        rc = bind(s, i + 1, &args[i]);
        if (rc != SQLITE_OK) {
            st = fail_sql(d, rc);
            goto done;
        }
    }
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        if (fn)
            SEFL_TRY(fn(ctx, &(const lite_row){ { &db_sqlite }, s }.base));
    }
    if (rc != SQLITE_DONE)
        st = fail_sql(d, rc);
done:
    give_statement(d, s, st == SEFL_OK && args[0].type != DB_END);
    return st;
}

static sqlite3_stmt *of(const db_row *r)
{
    return ((const lite_row *)r)->stmt;
}

static uint64_t lite_u64(const db_row *r, int col)
{
    return (uint64_t)sqlite3_column_int64(of(r), col);
}

static sefl_span lite_bytes(const db_row *r, int col)
{
    const void *p = sqlite3_column_blob(of(r), col); /* before _bytes: it may convert */
    return span_of(p, (size_t)sqlite3_column_bytes(of(r), col));
}

static bool lite_null(const db_row *r, int col)
{
    return sqlite3_column_type(of(r), col) == SQLITE_NULL;
}

/* Several statements without values. */
static sefl_status script(lite *d, const char *sql)
{
    errno = 0;
    int rc = sqlite3_exec(d->sql, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? SEFL_OK : fail_sql(d, rc);
}

/* ---- transactions -------------------------------------------------------------------------- */

static sefl_status lite_begin(db *d, bool alone)
{
    (void)alone; /* SQLite has one writer */
    return script((lite *)d, "BEGIN IMMEDIATE");
}

static void lite_rollback(db *base)
{
    lite *d = (lite *)base;
    if (d->sql && !sqlite3_get_autocommit(d->sql)) /* some failures have rolled back already */
        (void)sqlite3_exec(d->sql, "ROLLBACK", NULL, NULL, NULL);
}

static sefl_status lite_commit(db *d)
{
    sefl_status st = script((lite *)d, "COMMIT");
    if (st != SEFL_OK)
        lite_rollback(d);
    return st;
}

static sefl_status lite_now(db *d, uint64_t *out)
{
    return db_each(d, db_take_u64, out,
                   "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)");
}

static sefl_status lite_tidy(db *d, const char *table)
{
    (void)d, (void)table; /* SQLite reuses the pages of deleted rows at once */
    return SEFL_OK;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Checks that the file is ours, of this role and of a known version. *version: number of steps that
 * have run. Changes nothing. */
static sefl_status sqlite_look(lite *d, const char *role, unsigned nsteps, uint64_t *version)
{
    uint64_t id = 0, tables = 0;
    db_word found = { "" };
    SEFL_PASS(db_each(&d->base, db_take_u64, &id, "PRAGMA application_id"));
    SEFL_PASS(db_each(&d->base, db_take_u64, version, "PRAGMA user_version"));
    SEFL_PASS(db_each(&d->base, db_take_u64, &tables, "SELECT count(*) FROM sqlite_master"));
    if (id == 0 && *version == 0 && tables == 0)
        return SEFL_OK; /* new, or its maker died before the first step */
    SEFL_NEED(id == APPLICATION_ID && *version > 0, SEFL_EPROTO,
              "%s is a database of another program", d->base.place);
    SEFL_NEED(*version <= nsteps, SEFL_EUNSUPPORTED,
              "%s has version %llu, but this program supports versions up to %u: use a newer sefl",
              d->base.place, (unsigned long long)*version, nsteps);
    SEFL_PASS(db_each(&d->base, db_take_word, &found, "SELECT name FROM sefl_role"));
    SEFL_NEED(strcmp(found.text, role) == 0, SEFL_ESTATE, "%s belongs to a %s, not to a %s",
              d->base.place, found.text, role);
    return SEFL_OK;
}

static sefl_status step(lite *d, const char *role, const char *sql, uint64_t to)
{
    sefl_status st = SEFL_OK;
    char pragma[96];
    snprintf(pragma, sizeof pragma, "PRAGMA application_id=%d; PRAGMA user_version=%llu",
             APPLICATION_ID, (unsigned long long)to);
    SEFL_TRY(db_begin(&d->base));
    if (to == 1) {
        SEFL_TRY(script(d, "CREATE TABLE sefl_role(name TEXT NOT NULL)"));
        SEFL_TRY(db_run(&d->base, "INSERT INTO sefl_role VALUES(?)", db_text(role)));
    }
    SEFL_TRY(script(d, sql));
    SEFL_TRY(script(d, pragma));
    SEFL_TRY(db_commit(&d->base));
done:
    if (st != SEFL_OK)
        db_rollback(&d->base);
    return st;
}

/* SQLite would create it readable by others; -wal and -shm copy the mode of the file. */
static sefl_status make_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    if (fd < 0)
        return sefl_fail(SEFL_EIO, "cannot open %s: %s", path, strerror(errno));
    close(fd);
    return SEFL_OK;
}

static sefl_status settings_of(lite *d)
{
    db_word mode = { "" };
    SEFL_PASS(db_each(&d->base, db_take_word, &mode, "PRAGMA journal_mode=WAL"));
    SEFL_NEED(strcmp(mode.text, "wal") == 0, SEFL_EIO,
              "%s: its file system does not support a write-ahead log (mode is %s)", d->base.place,
              mode.text);
    return script(d, "PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON");
}

static void lite_close(db *base)
{
    lite *d = (lite *)base;
    if (!d)
        return;
    lite_rollback(base);
    for (unsigned i = 0; i < KEPT; i++)
        sqlite3_finalize(d->kept[i]);
    sqlite3_close(d->sql); /* NULL is fine; no other statement outlives its call */
    sefl_free(d->base.place);
    sefl_free(d);
}

static sefl_status lite_open(db **out, const char *path, const char *role, const char *const *steps,
                             unsigned nsteps, const sefl_progress *going)
{
    sefl_status st = SEFL_OK;
    lite *d = NULL;
    uint64_t version = 0;
    (void)going; /* a file is there at once */
    *out = NULL;
    SEFL_TRY(sefl_new(&d, 1, sizeof *d));
    d->base.driver = &db_sqlite;
    SEFL_TRY(sefl_strdup(&d->base.place, path));
    SEFL_TRY(make_file(path));
    errno = 0;
    int rc = sqlite3_open_v2(
        path, &d->sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    SEFL_CHECK(d->sql != NULL, SEFL_ENOMEM, "out of memory opening %s", path);
    if (rc != SQLITE_OK) {
        st = fail_sql(d, rc);
        goto done;
    }
    sqlite3_busy_timeout(d->sql, BUSY_MS); /* another tool may be reading it */
    SEFL_TRY(script(d, "PRAGMA trusted_schema=OFF"));
    SEFL_TRY(sqlite_look(d, role, nsteps, &version));
    SEFL_TRY(settings_of(d));
    for (; version < nsteps; version++)
        SEFL_TRY(step(d, role, steps[version], version + 1));
    *out = &d->base, d = NULL;
done:
    lite_close(d ? &d->base : NULL);
    return st;
}

const db_driver db_sqlite = {
    .open = lite_open,
    .close = lite_close,
    .begin = lite_begin,
    .commit = lite_commit,
    .rollback = lite_rollback,
    .each = lite_each,
    .col_u64 = lite_u64,
    .col_bytes = lite_bytes,
    .col_null = lite_null,
    .now_ms = lite_now,
    .tidy = lite_tidy,
};
