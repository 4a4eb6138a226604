/* Design. The file itself records role and version: application_id marks it as ours, user_version
 * counts the steps that have run, table sefl_role names the role. All three change in the
 * transaction of a step, so a crash leaves the version before or the version after. db_open checks
 * a file before it changes anything in it (the switch to WAL comes after the checks). */
#include "store/journal/db.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { APPLICATION_ID = 0x5345464c /* "SEFL" */, BUSY_MS = 5000, KEPT = 8 };

struct db {
    sqlite3 *sql;
    char *path;
    sqlite3_stmt *kept[KEPT]; /* reset, for the next call with the same text; NULL: none */
    unsigned oldest;
};

struct db_row {
    sqlite3_stmt *stmt;
};

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
static sefl_status fail_sql(const db *d, int rc)
{
    int err = errno;
    sefl_status st = code_of(rc & 0xff, sqlite3_extended_errcode(d->sql));
    if ((rc & 0xff) == SQLITE_FULL)
        return sefl_fail(st, "%s: no space left on its disk", d->path);
    if (st == SEFL_EIO && (rc & 0xff) != SQLITE_ERROR && err != 0)
        return sefl_fail(st, "%s: %s (%s)", d->path, sqlite3_errmsg(d->sql), strerror(err));
    return sefl_fail(st, "%s: %s", d->path, sqlite3_errmsg(d->sql));
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

/* A statement for this text: the kept one, which leaves the list, or a new one. */
static int take_statement(db *d, const char *sql, sqlite3_stmt **out)
{
    for (unsigned i = 0; i < KEPT; i++)
        if (d->kept[i] && strcmp(sqlite3_sql(d->kept[i]), sql) == 0) {
            *out = d->kept[i];
            d->kept[i] = NULL;
            return SQLITE_OK;
        }
    return sqlite3_prepare_v2(d->sql, sql, -1, out, NULL);
}

/* Keeps a statement for reuse; not after a failure, and not one without values, which runs once. */
static void give_statement(db *d, sqlite3_stmt *s, bool keep)
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

sefl_status db_each_args(db *d, const char *sql, const db_value *args, db_row_fn *fn, void *ctx)
{
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
            SEFL_TRY(fn(ctx, &(db_row){ s }));
    }
    if (rc != SQLITE_DONE)
        st = fail_sql(d, rc);
done:
    give_statement(d, s, st == SEFL_OK && args[0].type != DB_END);
    return st;
}

uint64_t db_col_u64(const db_row *r, int col)
{
    return (uint64_t)sqlite3_column_int64(r->stmt, col);
}

sefl_span db_col_bytes(const db_row *r, int col)
{
    const void *p = sqlite3_column_blob(r->stmt, col); /* before _bytes: it may convert */
    return span_of(p, (size_t)sqlite3_column_bytes(r->stmt, col));
}

bool db_col_null(const db_row *r, int col)
{
    return sqlite3_column_type(r->stmt, col) == SQLITE_NULL;
}

/* Several statements without values. */
static sefl_status script(db *d, const char *sql)
{
    errno = 0;
    int rc = sqlite3_exec(d->sql, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? SEFL_OK : fail_sql(d, rc);
}

/* ---- transactions -------------------------------------------------------------------------- */

sefl_status db_begin(db *d)
{
    return script(d, "BEGIN IMMEDIATE");
}

sefl_status db_commit(db *d)
{
    sefl_status st = script(d, "COMMIT");
    if (st != SEFL_OK)
        db_rollback(d);
    return st;
}

void db_rollback(db *d)
{
    if (d->sql && !sqlite3_get_autocommit(d->sql)) /* some failures have rolled back already */
        (void)sqlite3_exec(d->sql, "ROLLBACK", NULL, NULL, NULL);
}

/* ---- opening ------------------------------------------------------------------------------- */

sefl_status db_take_u64(void *ctx, const db_row *row)
{
    *(uint64_t *)ctx = db_col_u64(row, 0);
    return SEFL_OK;
}

typedef struct role_name {
    char text[64];
} role_name;

static sefl_status take_role(void *ctx, const db_row *row)
{
    role_name *r = ctx;
    sefl_span s = db_col_bytes(row, 0);
    snprintf(r->text, sizeof r->text, "%.*s", (int)(s.n < 60 ? s.n : 60), (const char *)s.p);
    return SEFL_OK;
}

/* Checks that the file is ours, of this role and of a known version. *version: number of steps that
 * have run. Changes nothing. */
static sefl_status look(db *d, const char *role, unsigned nsteps, uint64_t *version)
{
    uint64_t id = 0, tables = 0;
    role_name found = { "" };
    SEFL_PASS(db_each(d, db_take_u64, &id, "PRAGMA application_id"));
    SEFL_PASS(db_each(d, db_take_u64, version, "PRAGMA user_version"));
    SEFL_PASS(db_each(d, db_take_u64, &tables, "SELECT count(*) FROM sqlite_master"));
    if (id == 0 && *version == 0 && tables == 0)
        return SEFL_OK; /* new, or its maker died before the first step */
    SEFL_NEED(id == APPLICATION_ID && *version > 0, SEFL_EPROTO,
              "%s is a database of another program", d->path);
    SEFL_NEED(*version <= nsteps, SEFL_EUNSUPPORTED,
              "%s has version %llu, but this program supports versions up to %u: use a newer sefl",
              d->path, (unsigned long long)*version, nsteps);
    SEFL_PASS(db_each(d, take_role, &found, "SELECT name FROM sefl_role"));
    SEFL_NEED(strcmp(found.text, role) == 0, SEFL_ESTATE, "%s belongs to a %s, not to a %s",
              d->path, found.text, role);
    return SEFL_OK;
}

static sefl_status step(db *d, const char *role, const char *sql, uint64_t to)
{
    sefl_status st = SEFL_OK;
    char pragma[96];
    snprintf(pragma, sizeof pragma, "PRAGMA application_id=%d; PRAGMA user_version=%llu",
             APPLICATION_ID, (unsigned long long)to);
    SEFL_TRY(db_begin(d));
    if (to == 1) {
        SEFL_TRY(script(d, "CREATE TABLE sefl_role(name TEXT NOT NULL)"));
        SEFL_TRY(db_run(d, "INSERT INTO sefl_role VALUES(?)", db_text(role)));
    }
    SEFL_TRY(script(d, sql));
    SEFL_TRY(script(d, pragma));
    SEFL_TRY(db_commit(d));
done:
    if (st != SEFL_OK)
        db_rollback(d);
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

static sefl_status settings_of(db *d)
{
    role_name mode = { "" };
    SEFL_PASS(db_each(d, take_role, &mode, "PRAGMA journal_mode=WAL"));
    SEFL_NEED(strcmp(mode.text, "wal") == 0, SEFL_EIO,
              "%s: its file system does not support a write-ahead log (mode is %s)", d->path,
              mode.text);
    return script(d, "PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON");
}

sefl_status db_open(db **out, const char *path, const char *role, const char *const *steps,
                    unsigned nsteps)
{
    SEFL_MAKE(db, d, out);
    uint64_t version = 0;
    SEFL_TRY(sefl_strdup(&d->path, path));
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
    SEFL_TRY(look(d, role, nsteps, &version));
    SEFL_TRY(settings_of(d));
    for (; version < nsteps; version++)
        SEFL_TRY(step(d, role, steps[version], version + 1));
    SEFL_HAND_OVER(out, d, db_close);
}

void db_close(db *d)
{
    if (!d)
        return;
    db_rollback(d);
    for (unsigned i = 0; i < KEPT; i++)
        sqlite3_finalize(d->kept[i]);
    sqlite3_close(d->sql); /* NULL is fine; no other statement outlives its call */
    sefl_free(d->path);
    sefl_free(d);
}
