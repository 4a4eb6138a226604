/* Design. The table sefl_store(role, version) stands for SQLite's application_id, user_version and
 * sefl_role. A transaction knows its number (txid_current) from the statement that takes the
 * writers' lock, so the driver can ask what became of an unanswered COMMIT. Only "aborted" is an
 * answer: a server that crashed before it flushed the commit gives the same number to a new
 * transaction, and "committed" may be about that one. A statement outside a
 * transaction is either a SELECT, which may be repeated on a new connection, or gets a transaction
 * of its own. */
#include "store/pg/pg.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "store/pg/pg_inside.h"

#include <ctype.h>
#include <endian.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 15000, ARGS_MAX = 16, SQL_MAX = 1024, OUTCOME_TRIES = 100 };
enum { OID_BYTEA = 17, OID_INT8 = 20, OID_TEXT = 25 };

typedef struct pg_row {
    db_row base;
    const PGresult *r;
    int line;
} pg_row;

static pg *of(db *d)
{
    return (pg *)d;
}

const char *pg_version(void)
{
    static _Thread_local char text[24];
    int v = PQlibVersion();
    snprintf(text, sizeof text, "%d.%d", v / 10000, v % 10000);
    return text;
}

/* ---- failures ------------------------------------------------------------------------------ */

static sefl_status code_of(const char *state)
{
    static const struct {
        const char *prefix;
        sefl_status st;
    } codes[] = {
        { "23505", SEFL_EEXIST },   { "23", SEFL_EINVAL },      { "55P03", SEFL_ETIMEOUT },
        { "57014", SEFL_ETIMEOUT }, { "40P01", SEFL_ETIMEOUT }, { "22", SEFL_ERANGE },
        { "54", SEFL_ERANGE },      { "28", SEFL_EAUTH },       { "42501", SEFL_EAUTH },
        { "XX001", SEFL_EPROTO },   { "XX002", SEFL_EPROTO },
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strncmp(state, codes[i].prefix, strlen(codes[i].prefix)) == 0)
            return codes[i].st;
    return SEFL_EIO;
}

/* Also true while the server shuts down or starts (57P01 to 57P03), and after it ended the session
 * of an idle transaction (25P03). */
static bool connection_lost(const pg *d, const char *state)
{
    return !d->conn || PQstatus(d->conn) != CONNECTION_OK || strncmp(state, "57P", 3) == 0 ||
           strncmp(state, "08", 2) == 0 || strcmp(state, "25P03") == 0;
}

/* Of a failed result (NULL: none came). Drops a lost connection. */
static sefl_status fail(pg *d, const PGresult *r)
{
    const char *state = r ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;
    const char *message = r ? PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    char why[200];
    state = state ? state : "";
    pg_reason(message ? message : d->conn ? PQerrorMessage(d->conn) : "", why);
    if (connection_lost(d, state)) {
        pg_disconnect(d);
        d->lost = d->in_transaction;
        return sefl_fail(SEFL_EIO, "%s: the connection was lost (%s)", d->base.place, why);
    }
    if (strcmp(state, "53100") == 0)
        return sefl_fail(SEFL_EIO, "%s: no space left on its disk", d->base.place);
    return sefl_fail(code_of(state), "%s: %s", d->base.place, why);
}

/* ---- statements ---------------------------------------------------------------------------- */

/* Several statements without values; out (may be NULL) gets column `col` of the last one. */
static sefl_status script(pg *d, const char *sql, int col, char out[24])
{
    sefl_status st = SEFL_OK;
    SEFL_NEED(d->conn, SEFL_EIO, "%s: there is no connection", d->base.place);
    PGresult *r = PQexec(d->conn, sql);
    ExecStatusType how = PQresultStatus(r);
    if (how != PGRES_COMMAND_OK && how != PGRES_TUPLES_OK)
        st = fail(d, r);
    else if (out)
        snprintf(out, 24, "%s", PQntuples(r) == 1 ? PQgetvalue(r, 0, col) : "");
    PQclear(r);
    return st;
}

/* `?` and `?3` become $1 and $3; text in quotes stays. */
static sefl_status translate(char out[SQL_MAX], const char *sql)
{
    size_t n = 0;
    unsigned next = 1;
    bool quoted = false;
    for (; *sql; sql++) {
        SEFL_NEED(n + 8 < SQL_MAX, SEFL_ERANGE, "a statement is too long");
        quoted ^= *sql == '\'';
        if (*sql != '?' || quoted)
            out[n++] = *sql;
        else if (isdigit((unsigned char)sql[1]))
            out[n++] = '$';
        else
            n += (size_t)snprintf(out + n, SQL_MAX - n, "$%u", next++);
    }
    out[n] = 0;
    return SEFL_OK;
}

typedef struct values {
    int n;
    Oid types[ARGS_MAX];
    const char *at[ARGS_MAX];
    int lengths[ARGS_MAX], formats[ARGS_MAX];
    uint64_t numbers[ARGS_MAX]; /* big-endian */
} values;

static sefl_status values_of(values *v, const db_value *args)
{
    for (v->n = 0; args[v->n].type != DB_END; v->n++) {
        const int i = v->n;
        const db_value *a = &args[i];
        SEFL_NEED(i < ARGS_MAX && a->s.n <= INT_MAX, SEFL_ERANGE, "too many values, or too long");
        v->formats[i] = 1;
        v->numbers[i] = htobe64((uint64_t)a->i);
        v->types[i] = a->type == DB_I64    ? OID_INT8
                      : a->type == DB_TEXT ? OID_TEXT
                      : a->type == DB_BLOB ? OID_BYTEA
                                           : 0;
        v->at[i] = a->type == DB_I64    ? (const char *)&v->numbers[i]
                   : a->type == DB_NULL ? NULL
                   : a->s.p             ? (const char *)a->s.p
                                        : "";
        v->lengths[i] = a->type == DB_I64 ? 8 : (int)a->s.n;
    }
    return SEFL_OK;
}

/* The number of the prepared statement with this text; prepares it on its first use. */
static sefl_status prepared(pg *d, const char *sql, const values *v, char name[8])
{
    char text[SQL_MAX];
    unsigned i = 0;
    while (i < PG_KEPT && d->kept[i] && strcmp(d->kept[i], sql) != 0)
        i++;
    if (i == PG_KEPT) { /* more texts than the program has */
        SEFL_PASS(script(d, "DEALLOCATE ALL", 0, NULL));
        for (i = 0; i < PG_KEPT; i++) {
            sefl_free(d->kept[i]);
            d->kept[i] = NULL;
        }
        i = 0;
    }
    snprintf(name, 8, "s%u", i);
    if (d->kept[i])
        return SEFL_OK;
    char *kept;
    SEFL_PASS(translate(text, sql));
    SEFL_PASS(sefl_strdup(&kept, sql));
    PGresult *r = PQprepare(d->conn, name, text, v->n, v->types);
    sefl_status st = PQresultStatus(r) == PGRES_COMMAND_OK ? SEFL_OK : fail(d, r);
    PQclear(r);
    if (st == SEFL_OK)
        d->kept[i] = kept;
    else
        sefl_free(kept);
    return st;
}

/* Tests: the connection breaks. */
static sefl_status cut(pg *d)
{
    pg_disconnect(d);
    d->lost = d->in_transaction;
    return sefl_fail(SEFL_EIO, "%s: the connection was lost", d->base.place);
}

/* The whole result is here before the first row function runs, so that function may use d. */
static sefl_status execute(pg *d, const char *sql, const db_value *args, db_row_fn *fn, void *ctx)
{
    sefl_status st = SEFL_OK;
    values v;
    char name[8];
    SEFL_PASS(values_of(&v, args));
    if (d->in_transaction && fault_hit(FAULT_WRITE))
        return cut(d);
    if (v.n > 0) /* a text without values runs once */
        SEFL_PASS(prepared(d, sql, &v, name));
    PGresult *r = v.n > 0 ? PQexecPrepared(d->conn, name, v.n, v.at, v.lengths, v.formats, 1)
                          : PQexecParams(d->conn, sql, 0, NULL, NULL, NULL, NULL, 1);
    ExecStatusType how = PQresultStatus(r);
    if (how != PGRES_TUPLES_OK && how != PGRES_COMMAND_OK)
        st = fail(d, r);
    for (int i = 0; st == SEFL_OK && fn && i < PQntuples(r); i++)
        st = fn(ctx, &(const pg_row){ { &db_pg }, r, i }.base);
    PQclear(r);
    return st;
}

static bool is_select(const char *sql)
{
    return strncmp(sql, "SELECT", 6) == 0;
}

static sefl_status pg_begin(db *base, bool alone);
static sefl_status pg_commit(db *base);
static void pg_rollback(db *base);

static sefl_status pg_each(db *base, const char *sql, const db_value *args, db_row_fn *fn,
                           void *ctx)
{
    pg *d = of(base);
    if (d->in_transaction) {
        SEFL_NEED(!d->lost && d->conn, SEFL_EIO, "%s: the transaction's connection was lost",
                  base->place);
        return execute(d, sql, args, fn, ctx);
    }
    if (is_select(sql)) {
        bool had = d->conn != NULL;
        SEFL_PASS(pg_connect(d, PATIENCE_MS));
        sefl_status st = execute(d, sql, args, fn, ctx);
        if (st != SEFL_EIO || d->conn || !had)
            return st;
        SEFL_PASS(pg_connect(d, PATIENCE_MS)); /* the old connection was dead: once more */
        return execute(d, sql, args, fn, ctx);
    }
    SEFL_PASS(pg_begin(base, false));
    sefl_status st = execute(d, sql, args, fn, ctx);
    if (st == SEFL_OK)
        return pg_commit(base);
    pg_rollback(base);
    return st;
}

static uint64_t pg_u64(const db_row *row, int col)
{
    const pg_row *w = (const pg_row *)row;
    const uint8_t *p = (const uint8_t *)PQgetvalue(w->r, w->line, col);
    uint64_t v = 0;
    int n = PQgetisnull(w->r, w->line, col) ? 0 : PQgetlength(w->r, w->line, col);
    if (n > 8)
        return 0; /* not a number */
    for (int i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

static sefl_span pg_bytes(const db_row *row, int col)
{
    const pg_row *w = (const pg_row *)row;
    return span_of((const uint8_t *)PQgetvalue(w->r, w->line, col),
                   (size_t)PQgetlength(w->r, w->line, col));
}

static bool pg_null(const db_row *row, int col)
{
    const pg_row *w = (const pg_row *)row;
    return PQgetisnull(w->r, w->line, col) == 1;
}

/* ---- transactions -------------------------------------------------------------------------- */

static sefl_status begin_once(pg *d, bool alone)
{
    SEFL_PASS(pg_connect(d, PATIENCE_MS));
    d->in_transaction = true;
    d->lost = false;
    sefl_status st = script(
        d,
        alone ? "BEGIN ISOLATION LEVEL READ COMMITTED;"
                "SELECT pg_advisory_xact_lock(1397048908, hashtext(current_schema())),"
                " txid_current()"
              : "BEGIN ISOLATION LEVEL READ COMMITTED;"
                "SELECT pg_advisory_xact_lock_shared(1397048908, hashtext(current_schema())),"
                " txid_current()",
        1, d->xid);
    if (st != SEFL_OK)
        pg_rollback(&d->base);
    return st;
}

static sefl_status pg_begin(db *base, bool alone)
{
    pg *d = of(base);
    SEFL_NEED(!d->in_transaction, SEFL_ESTATE, "a transaction inside a transaction");
    sefl_status st = begin_once(d, alone);
    if (st == SEFL_EIO && !d->conn) /* nothing has happened yet: a new connection may do */
        st = begin_once(d, alone);
    return st;
}

static void pg_rollback(db *base)
{
    pg *d = of(base);
    if (!d->in_transaction)
        return;
    if (d->conn) {
        PGresult *r = PQexec(d->conn, "ROLLBACK");
        if (PQresultStatus(r) != PGRES_COMMAND_OK)
            pg_disconnect(d); /* the server rolls back when the connection ends */
        PQclear(r);
    }
    d->in_transaction = d->lost = false;
}

/* What became of a transaction whose COMMIT got no answer. */
static sefl_status outcome(pg *d)
{
    char sql[64], what[24] = "";
    snprintf(sql, sizeof sql, "SELECT txid_status(%.20s)", d->xid);
    for (int i = 0; i < OUTCOME_TRIES; i++) {
        sefl_status st = pg_connect(d, PATIENCE_MS);
        if (st == SEFL_OK)
            st = script(d, sql, 0, what);
        SEFL_NEED(st != SEFL_OK || strcmp(what, "aborted") != 0, SEFL_EIO,
                  "%s: the connection was lost; the transaction was rolled back", d->base.place);
        if (st != SEFL_OK || strcmp(what, "in progress") != 0)
            break;
        clock_pause_ms(100);
    }
    return sefl_fail(SEFL_EIO,
                     "%s: the connection was lost during a commit, and its outcome is unknown",
                     d->base.place);
}

static sefl_status pg_commit(db *base)
{
    pg *d = of(base);
    char tag[32];
    SEFL_NEED(d->in_transaction, SEFL_ESTATE, "no transaction to commit");
    if (fault_hit(FAULT_SYNC))
        (void)cut(d);
    if (d->lost || !d->conn) {
        pg_rollback(base);
        return sefl_fail(SEFL_EIO, "%s: the transaction's connection was lost", base->place);
    }
    d->warned = false;
    PGresult *r = PQexec(d->conn, "COMMIT");
    bool ok = PQresultStatus(r) == PGRES_COMMAND_OK;
    snprintf(tag, sizeof tag, "%s", ok ? PQcmdStatus(r) : "");
    sefl_status st = ok ? SEFL_OK : fail(d, r);
    PQclear(r);
    d->in_transaction = d->lost = false;
    if (!ok && !d->conn)
        return outcome(d);
    /* the answer to COMMIT after a failed statement is ROLLBACK */
    SEFL_NEED(!ok || strcmp(tag, "COMMIT") == 0, SEFL_EIO, "%s: the transaction was rolled back",
              base->place);
    /* the server gave up the wait for its standby (statement_timeout, or an operator's cancel) */
    SEFL_NEED(!ok || !d->warned, SEFL_EIO,
              "%s: the standby did not confirm a commit, and its outcome is unknown", base->place);
    return st;
}

static sefl_status pg_now(db *d, uint64_t *out)
{
    return db_each(d, db_take_u64, out,
                   "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)");
}

static sefl_status pg_tidy(db *base, const char *table)
{
    pg *d = of(base);
    char sql[96];
    SEFL_NEED(!d->in_transaction, SEFL_ESTATE, "VACUUM inside a transaction");
    snprintf(sql, sizeof sql, "VACUUM (SKIP_LOCKED) %.60s", table);
    SEFL_PASS(pg_connect(d, PATIENCE_MS));
    return script(d, sql, 0, NULL);
}

/* ---- opening ------------------------------------------------------------------------------- */

typedef struct found {
    db_word role;
    uint64_t version;
} found;

static sefl_status take_found(void *ctx, const db_row *row)
{
    found *f = ctx;
    f->version = db_col_u64(row, 1);
    return db_take_word(&f->role, row);
}

/* Checks that the schema is ours, of this role and of a known version. */
static sefl_status pg_look(pg *d, const char *role, unsigned nsteps, uint64_t *version)
{
    uint64_t what = 0; /* 2: has our table, 1: has others, 0: is empty */
    found f = { .version = 0 };
    SEFL_PASS(db_each(&d->base, db_take_u64, &what,
                      "SELECT coalesce(max(CASE WHEN tablename = 'sefl_store' THEN 2 ELSE 1 END), "
                      "0) FROM pg_tables WHERE schemaname = current_schema()"));
    if (what == 0)
        return SEFL_OK;
    SEFL_NEED(what == 2, SEFL_EPROTO, "%s is a database of another program", d->base.place);
    SEFL_PASS(db_each(&d->base, take_found, &f, "SELECT role, version FROM sefl_store"));
    *version = f.version;
    SEFL_NEED(*version <= nsteps, SEFL_EUNSUPPORTED,
              "%s has version %llu, but this program supports versions up to %u: use a newer sefl",
              d->base.place, (unsigned long long)*version, nsteps);
    SEFL_NEED(strcmp(f.role.text, role) == 0, SEFL_ESTATE, "%s belongs to a %s, not to a %s",
              d->base.place, f.role.text, role);
    return SEFL_OK;
}

/* In one transaction, which excludes another process that opens the same new database. */
static sefl_status migrate(pg *d, const char *role, const char *const *steps, unsigned nsteps)
{
    sefl_status st = SEFL_OK;
    uint64_t version = 0;
    SEFL_PASS(pg_look(d, role, nsteps, &version));
    if (version == nsteps)
        return SEFL_OK;
    SEFL_TRY(db_begin(&d->base));
    version = 0;
    SEFL_TRY(pg_look(d, role, nsteps, &version));
    if (version == 0) {
        SEFL_TRY(script(d, "CREATE TABLE sefl_store(role TEXT NOT NULL, version BIGINT NOT NULL)",
                        0, NULL));
        SEFL_TRY(db_run(&d->base, "INSERT INTO sefl_store VALUES(?, 0)", db_text(role)));
    }
    for (; version < nsteps; version++)
        SEFL_TRY(script(d, steps[version], 0, NULL));
    SEFL_TRY(db_run(&d->base, "UPDATE sefl_store SET version = ?", db_u64(version)));
    SEFL_TRY(db_commit(&d->base));
done:
    if (st != SEFL_OK)
        db_rollback(&d->base);
    return st;
}

static void pg_close(db *base)
{
    pg *d = of(base);
    if (!d)
        return;
    pg_rollback(base);
    pg_disconnect(d);
    sefl_free(d->url);
    sefl_free(d->base.place);
    sefl_free(d);
}

static sefl_status pg_open(db **out, const char *url, const char *role, const char *const *steps,
                           unsigned nsteps, const sefl_progress *going)
{
    sefl_status st = SEFL_OK;
    pg *d = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&d, 1, sizeof *d));
    d->base.driver = &db_pg;
    d->going = going;
    SEFL_TRY(pg_take_url(d, url));
    SEFL_TRY(pg_connect(d, PATIENCE_MS));
    SEFL_TRY(migrate(d, role, steps, nsteps));
    *out = &d->base, d = NULL;
done:
    pg_close(d ? &d->base : NULL);
    return st;
}

sefl_status pg_reach(const char *url)
{
    sefl_status st = SEFL_OK;
    pg *d = NULL;
    SEFL_TRY(sefl_new(&d, 1, sizeof *d));
    SEFL_TRY(pg_take_url(d, url));
    SEFL_TRY(pg_connect(d, 0));
done:
    pg_close(d ? &d->base : NULL);
    return st;
}

const db_driver db_pg = {
    .open = pg_open,
    .close = pg_close,
    .begin = pg_begin,
    .commit = pg_commit,
    .rollback = pg_rollback,
    .each = pg_each,
    .col_u64 = pg_u64,
    .col_bytes = pg_bytes,
    .col_null = pg_null,
    .now_ms = pg_now,
    .tidy = pg_tidy,
};
