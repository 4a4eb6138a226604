/* db: a role's database behind one small interface: SQLite in a file, or PostgreSQL on a server.
 *
 *     SEFL_TRY(db_open(&d, &db_sqlite, path, "aggregator", steps, nsteps)); // creates or migrates
 *     SEFL_TRY(db_begin(d));
 *     SEFL_TRY(db_run(d, "INSERT INTO t VALUES(?,?,?)", db_u64(7), db_text("x"), db_blob(span)));
 *     SEFL_TRY(db_commit(d));                                               // durable on return
 *
 * db_sqlite opens a file with WAL, synchronous=FULL and foreign keys. db_pg (store/pg/pg.h, in
 * builds with -DSEFL_PG=ON) opens postgresql://..., which several processes may share. Both accept
 * the same SQL: `?` (or ?1, ?2, ...) is a value, INSERT ... ON CONFLICT replaces a row, and a
 * SELECT may end with FOR [NO KEY] UPDATE or FOR [KEY] SHARE, which locks its rows until the end of
 * the transaction (NO KEY UPDATE and KEY SHARE do not exclude each other). (SQLite has one writer:
 * its transactions lock the whole database, and the driver drops these words.)
 *
 * steps[i] is the SQL that migrates version i to i + 1; db_open applies each step and its version
 * number in one transaction. It refuses, with the reason, a later version, another role's database,
 * and one of another program.
 *
 * Failures. A full disk is SEFL_EIO with "no space left"; the transaction is rolled back, the data
 * stay intact, and a later transaction may succeed. With a server, SEFL_EIO also means that the
 * connection was lost; the next call connects again. A lost transaction is rolled back. If the
 * connection breaks during a commit, the message says that the transaction was rolled back, or that
 * its outcome is unknown. Nothing may then be assumed: the caller reads what is there before it
 * goes on. SEFL_ETIMEOUT: a lock or a statement took too long,
 * nothing was changed.
 * Threads: one owner; callers lock.   Secrets: none in plaintext. */
#ifndef STORE_DB_DB_H
#define STORE_DB_DB_H

#include "base/buf.h"
#include "base/progress.h"
#include "base/span.h"

#include <stdbool.h>

typedef struct db db;
typedef struct db_row db_row;
typedef struct db_driver db_driver;
extern const db_driver db_sqlite;

typedef struct db_value {
    enum { DB_END, DB_NULL, DB_I64, DB_TEXT, DB_BLOB } type;
    int64_t i;
    sefl_span s;
} db_value;

static inline db_value db_u64(uint64_t v)
{
    return (db_value){ .type = DB_I64, .i = (int64_t)v };
}
static inline db_value db_text(const char *s)
{
    return (db_value){ .type = DB_TEXT, .s = span_of_str(s) };
}
static inline db_value db_blob(sefl_span s)
{
    return (db_value){ .type = DB_BLOB, .s = s };
}

/* The first entry is a placeholder that makes an empty list possible. */
#define DB_VALUES(...) \
    ((const db_value[]){ { .type = DB_END }, ##__VA_ARGS__, { .type = DB_END } } + 1)

sefl_status db_open(db **out, const db_driver *driver, const char *place, const char *role,
                    const char *const *steps, unsigned nsteps) SEFL_MUST_CHECK;
/* Like db_open. Whenever the driver waits for a connection, now or in a later call, it asks `going`
 * (may be NULL) about ten times a second; if that says no, the wait ends within half a second with
 * SEFL_ECANCELLED. `going` outlives d. */
sefl_status db_open_while(db **out, const db_driver *driver, const char *place, const char *role,
                          const char *const *steps, unsigned nsteps,
                          const sefl_progress *going) SEFL_MUST_CHECK;
void db_close(db *d);
/* Returns the path, or the server and database; never a password. */
const char *db_place(const db *d);

/* Begins a transaction that excludes every other writer: what it reads stays true until it ends. */
sefl_status db_begin(db *d) SEFL_MUST_CHECK;
/* Begins a transaction that other processes' db_begin_shared does not wait for (db_begin does): the
 * caller locks the rows that it relies on (FOR UPDATE, FOR SHARE). With SQLite: db_begin. */
sefl_status db_begin_shared(db *d) SEFL_MUST_CHECK;
sefl_status db_commit(db *d) SEFL_MUST_CHECK;
void db_rollback(db *d); /* does nothing outside a transaction */

/* Runs one statement and calls fn (may be NULL) for each result row (a server's driver holds all
 * rows in memory: ask for long lists in pages); fn reads it with db_col_*. If
 * fn fails, the call ends. args ends with DB_END, which the macros append.
 * SEFL_EEXIST if a UNIQUE constraint fails. After a failure inside a transaction, only db_rollback
 * makes sense. Outside a transaction, a statement other than SELECT is one of its own
 * (db_begin_shared). */
typedef sefl_status db_row_fn(void *ctx, const db_row *row);
sefl_status db_each_args(db *d, const char *sql, const db_value *args, db_row_fn *fn,
                         void *ctx) SEFL_MUST_CHECK;
#define db_each(d, fn, ctx, sql, ...) db_each_args((d), (sql), DB_VALUES(__VA_ARGS__), (fn), (ctx))
#define db_run(d, sql, ...)           db_each((d), NULL, NULL, sql, ##__VA_ARGS__)
uint64_t db_col_u64(const db_row *r, int col);
sefl_span db_col_bytes(const db_row *r, int col); /* valid until the row function returns */
bool db_col_null(const db_row *r, int col);
/* A db_row_fn: sets *(uint64_t *)ctx to column 0. */
sefl_status db_take_u64(void *ctx, const db_row *row) SEFL_MUST_CHECK;
/* A db_row_fn: sets *(db_word *)ctx to column 0, cut to its size. */
typedef struct db_word {
    char text[64];
} db_word;
sefl_status db_take_word(void *ctx, const db_row *row) SEFL_MUST_CHECK;

/* The database's clock, in ms since 1970: the same for every process that shares the database. */
sefl_status db_now_ms(db *d, uint64_t *out) SEFL_MUST_CHECK;
/* Frees the room of a table's deleted rows, as far as the database can; outside a transaction.
 * PostgreSQL: VACUUM. docs/THREATS.md says what remains. */
sefl_status db_tidy(db *d, const char *table) SEFL_MUST_CHECK;

/* ---- for drivers ----------------------------------------------------------------------------- */

/* A driver's own struct begins with a db, that of its row with a db_row. */
struct db {
    const db_driver *driver;
    char *place;
};
struct db_row {
    const db_driver *driver;
};
struct db_driver {
    sefl_status (*open)(db **out, const char *place, const char *role, const char *const *steps,
                        unsigned nsteps, const sefl_progress *going);
    void (*close)(db *d);
    sefl_status (*begin)(db *d, bool alone);
    sefl_status (*commit)(db *d);
    void (*rollback)(db *d);
    sefl_status (*each)(db *d, const char *sql, const db_value *args, db_row_fn *fn, void *ctx);
    uint64_t (*col_u64)(const db_row *r, int col);
    sefl_span (*col_bytes)(const db_row *r, int col);
    bool (*col_null)(const db_row *r, int col);
    sefl_status (*now_ms)(db *d, uint64_t *out);
    sefl_status (*tidy)(db *d, const char *table);
};

#endif
