/* db: opens SQLite with WAL, synchronous=FULL, foreign keys, one writer and a versioned schema.
 *
 *     SEFL_TRY(db_open(&db, path, "aggregator", steps, nsteps));     // creates or migrates
 *     SEFL_TRY(db_begin(db));
 *     SEFL_TRY(db_run(db, "INSERT INTO t VALUES(?,?,?)", db_u64(7), db_text("x"), db_blob(span)));
 *     SEFL_TRY(db_commit(db));                                        // durable on return
 *
 * steps[i] is the SQL that migrates version i to i + 1; db_open applies each step and its version
 * number in one transaction. It refuses, with the reason, a file with a later version, another
 * role's file, and a file that is not a database. A full disk is SEFL_EIO with "no space left":
 * SQLite rolls the transaction back, the file stays intact, and a later transaction may succeed.
 * Threads: one owner; callers lock.   Secrets: none in plaintext. */
#ifndef STORE_JOURNAL_DB_H
#define STORE_JOURNAL_DB_H

#include "base/buf.h"
#include "base/span.h"

#include <stdbool.h>

typedef struct db db;

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

sefl_status db_open(db **out, const char *path, const char *role, const char *const *steps,
                    unsigned nsteps) SEFL_MUST_CHECK;
void db_close(db *d);

sefl_status db_begin(db *d) SEFL_MUST_CHECK;
sefl_status db_commit(db *d) SEFL_MUST_CHECK;
void db_rollback(db *d); /* does nothing outside a transaction */

/* Runs one statement and calls fn (may be NULL) for each result row; fn reads it with db_col_*. If
 * fn fails, the call ends. args ends with DB_END, which the macros append. SEFL_EEXIST if a UNIQUE
 * constraint fails. */
typedef struct db_row db_row;
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

#endif
