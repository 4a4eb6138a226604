/* store_place: opens the journals of a test in the store that the test runs against.
 *
 *     CHECK_OK(store_open(&j, folder_path("state"), "csp", task));
 *
 * Without SEFL_TEST_PG that is journal_open: SQLite in the folder. With it, the variable is the URL
 * of a PostgreSQL server (tests/support/pg_server), and each folder has a schema of its own there,
 * named after its path: opening the folder again finds the same rows. CMake runs each program of
 * the store once per implementation. */
#ifndef SUPPORT_STORE_PLACE_H
#define SUPPORT_STORE_PLACE_H

#include "base/hex.h"
#include "base/sha256.h"
#include "store/journal/journal.h"
#include "support/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SEFL_PG
#include <libpq-fe.h>
#endif

static const uint8_t store_root[32] = "the root of a store of the tests";

static inline bool store_is_pg(void)
{
    return getenv("SEFL_TEST_PG") != NULL;
}

/* Leaves out a test that looks at SQLite's files. */
#define SQLITE_ONLY()      \
    do {                   \
        if (store_is_pg()) \
            skip();        \
    } while (0)

#ifdef SEFL_PG
static inline void store_sql(const char *sql)
{
    PGconn *c = PQconnectdb(getenv("SEFL_TEST_PG"));
    PQclear(PQexec(c, "SET client_min_messages = warning"));
    PGresult *r = PQexec(c, sql);
    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK) {
        fprintf(stderr, "%s: %s\n", sql, PQerrorMessage(c));
        abort();
    }
    PQclear(r);
    PQfinish(c);
}

static char store_made[32]; /* the schema that this process made last */

/* The schema of a folder. */
static inline const char *store_schema(const char *folder)
{
    static char name[32];
    uint8_t hash[SHA256_BYTES];
    char hex[HEX_CHARS(8)];
    sha256_of(hash, span_of_str(folder));
    snprintf(name, sizeof name, "t%s", hex_write(hex, hash, 8));
    return name;
}

/* The URL of a folder's schema, which it makes. */
static inline const char *store_url(const char *folder)
{
    static char url[400];
    char sql[96];
    if (strcmp(store_made, store_schema(folder)) != 0) {
        snprintf(store_made, sizeof store_made, "%s", store_schema(folder));
        snprintf(sql, sizeof sql, "CREATE SCHEMA IF NOT EXISTS %s", store_made);
        store_sql(sql);
    }
    snprintf(url, sizeof url, "%s&options=-csearch_path%%3D%s", getenv("SEFL_TEST_PG"),
             store_schema(folder));
    return url;
}
static inline void store_drop(const char *folder)
{
    char sql[96];
    snprintf(sql, sizeof sql, "DROP SCHEMA IF EXISTS %s CASCADE", store_schema(folder));
    store_sql(sql);
    store_made[0] = 0;
}

static inline uint64_t store_count(const char *folder, const char *table)
{
    char sql[200];
    PGconn *c = PQconnectdb(getenv("SEFL_TEST_PG"));
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s.%s", store_schema(folder), table);
    PGresult *r = PQexec(c, sql);
    uint64_t n = PQntuples(r) == 1 ? strtoull(PQgetvalue(r, 0, 0), NULL, 10) : UINT64_MAX;
    PQclear(r);
    PQfinish(c);
    return n;
}

/* Replaces the rows of one folder by those of another, as an old backup would. */
static inline void store_copy_rows(const char *to, const char *from)
{
    char a[32], sql[700];
    snprintf(a, sizeof a, "%s", store_schema(to));
    const char *b = store_schema(from);
    snprintf(sql, sizeof sql,
             "DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %s; DO $$ DECLARE t text; BEGIN "
             "FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = '%s' LOOP "
             "EXECUTE format('CREATE TABLE %s.%%I (LIKE %s.%%I INCLUDING ALL)', t, t); "
             "EXECUTE format('INSERT INTO %s.%%I SELECT * FROM %s.%%I', t, t); "
             "END LOOP; END $$",
             a, a, b, a, b, a, b);
    store_sql(sql);
}
#else
static inline void store_drop(const char *folder)
{
    (void)folder;
}
static inline void store_copy_rows(const char *to, const char *from)
{
    (void)to, (void)from;
}
static inline uint64_t store_count(const char *folder, const char *table)
{
    (void)folder, (void)table;
    return 0;
}
static inline const char *store_url(const char *folder)
{
    (void)folder;
    return "postgresql://without";
}
#endif

/* Replaces a journal by a copy of another; both arguments are folders. */
static inline void store_copy(const char *to, const char *from)
{
    folder_copy(to, from);
    if (store_is_pg())
        store_copy_rows(to, from);
}

static inline sefl_status store_open(journal **out, const char *folder, const char *role,
                                     const uint8_t *task_id)
{
    journal_place at = { .folder = folder, .root = store_root };
    at.store = store_is_pg() ? store_url(folder) : NULL;
    return journal_open_at(out, &at, role, task_id);
}

#endif
