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
    snprintf(sql, sizeof sql, "CREATE SCHEMA IF NOT EXISTS %s", store_schema(folder));
    store_sql(sql);
    snprintf(url, sizeof url, "%s&options=-csearch_path%%3D%s", getenv("SEFL_TEST_PG"),
             store_schema(folder));
    return url;
}
#else
static inline const char *store_url(const char *folder)
{
    (void)folder;
    return "postgresql://without";
}
#endif

static inline sefl_status store_open(journal **out, const char *folder, const char *role,
                                     const uint8_t *task_id)
{
    journal_place at = { .folder = folder, .root = store_root };
    at.store = store_is_pg() ? store_url(folder) : NULL;
    return journal_open_at(out, &at, role, task_id);
}

#endif
