#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "store/db/db.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const steps[] = {
    "CREATE TABLE thing(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    ("ALTER TABLE thing ADD COLUMN size INTEGER NOT NULL DEFAULT 5;"
     "CREATE TABLE other(id INTEGER PRIMARY KEY REFERENCES thing)"),
    "UPDATE thing SET size = size + 1",
};

static sefl_status take_u64(void *ctx, const db_row *row)
{
    *(uint64_t *)ctx = db_col_u64(row, 0);
    return SEFL_OK;
}

static uint64_t ask(db *d, const char *sql)
{
    uint64_t v = UINT64_MAX;
    CHECK_OK(db_each(d, take_u64, &v, sql));
    return v;
}

/* With SQLite alone, as another program would. */
static void by_hand(const char *path, const char *sql)
{
    sqlite3 *s;
    assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(s), SQLITE_OK);
}

/* Version 1 of role "tester", as written before version 2 existed. */
static const char version_1[] =
    "PRAGMA journal_mode=WAL; BEGIN;"
    "CREATE TABLE sefl_role(name TEXT NOT NULL);"
    "INSERT INTO sefl_role VALUES('tester');"
    "CREATE TABLE thing(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"
    "INSERT INTO thing VALUES(1, 'old'), (2, 'older');"
    "PRAGMA application_id=1397048908; PRAGMA user_version=1; COMMIT";

static void fresh(void **state)
{
    (void)state;
    const char *path = folder_path("fresh.db");
    db *d;
    struct stat sb;
    CHECK_OK(db_open(&d, &db_sqlite, path, "tester", steps, 3));
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    assert_int_equal(ask(d, "PRAGMA user_version"), 3);
    assert_int_equal(ask(d, "PRAGMA application_id"), 0x5345464c);
    assert_int_equal(ask(d, "PRAGMA synchronous"), 2); /* FULL */
    assert_int_equal(ask(d, "SELECT count(*) FROM pragma_journal_mode WHERE journal_mode='wal'"),
                     1);
    assert_int_equal(ask(d, "PRAGMA foreign_keys"), 1);
    CHECK_OK(
        db_run(d, "INSERT INTO thing VALUES(?,?,?)", db_u64(UINT64_MAX), db_text("x"), db_u64(2)));
    CHECK_STATUS(db_run(d, "INSERT INTO thing VALUES(7,?,1)", db_text("x")), SEFL_EEXIST);
    CHECK_STATUS(db_run(d, "INSERT INTO thing VALUES(-1,'y',1)"), SEFL_EEXIST);
    CHECK_STATUS(db_run(d, "INSERT INTO other VALUES(99)"), SEFL_EINVAL); /* foreign key */
    CHECK_STATUS(db_run(d, "INSERT INTO thing VALUES(8,?,1)", ((db_value){ .type = DB_NULL })),
                 SEFL_EINVAL);
    CHECK_STATUS(db_run(d, "no such thing"), SEFL_EIO);
    CHECK_STATUS(db_run(d, "SELECT 1", db_u64(1)), SEFL_EIO); /* a value too many */
    assert_int_equal(ask(d, "SELECT id FROM thing"), UINT64_MAX);
    db_close(d);
    CHECK_OK(
        db_open(&d, &db_sqlite, path, "tester", steps, 3)); /* again: no migration runs twice */
    assert_int_equal(ask(d, "SELECT size FROM thing"), 2);
    db_close(d);
    db_close(NULL);
}

static sefl_status refuse(void *ctx, const db_row *row)
{
    (void)row;
    ++*(int *)ctx;
    return sefl_fail(SEFL_ECANCELLED, "enough");
}

static sefl_status look_at_nothing(void *ctx, const db_row *row)
{
    assert_int_equal(db_col_bytes(row, 0).n, 0);
    assert_true(!db_col_null(row, 0) && db_col_null(row, 1));
    ++*(int *)ctx;
    return SEFL_OK;
}

static void transactions(void **state)
{
    (void)state;
    db *d;
    int rows = 0;
    CHECK_OK(db_open(&d, &db_sqlite, folder_path("tx.db"), "tester", steps, 1));
    db_rollback(d);
    CHECK_OK(db_begin(d));
    CHECK_OK(db_run(d, "INSERT INTO thing VALUES(1,'a'),(2,'b')"));
    db_rollback(d);
    assert_int_equal(ask(d, "SELECT count(*) FROM thing"), 0);
    CHECK_OK(db_begin(d));
    CHECK_OK(db_run(d, "INSERT INTO thing VALUES(1,'a'),(2,'b')"));
    CHECK_STATUS(db_run(d, "INSERT INTO thing VALUES(3,'a')"), SEFL_EEXIST); /* this one alone */
    CHECK_OK(db_commit(d));
    CHECK_STATUS(db_commit(d), SEFL_EIO);
    assert_int_equal(ask(d, "SELECT count(*) FROM thing"), 2);
    CHECK_STATUS(db_each(d, refuse, &rows, "SELECT * FROM thing"), SEFL_ECANCELLED);
    assert_int_equal(rows, 1);
    CHECK_OK(db_each(d, look_at_nothing, &rows, "SELECT ?, ?", db_blob(span_of(NULL, 0)),
                     ((db_value){ .type = DB_NULL })));
    assert_int_equal(rows, 2);
    db_close(d);
}

static void migration(void **state)
{
    (void)state;
    const char *path = folder_path("v1.db");
    db *d;
    by_hand(path, version_1);
    /* a step that fails halfway leaves the previous version usable */
    static const char *const bad[] = { "", "CREATE TABLE extra(x); CREATE TABLE thing(y)" };
    CHECK_STATUS(db_open(&d, &db_sqlite, path, "tester", bad, 2), SEFL_EIO);
    assert_null(d);
    CHECK_OK(db_open(&d, &db_sqlite, path, "tester", steps, 1));
    assert_int_equal(ask(d, "SELECT count(*) FROM sqlite_master WHERE name='extra'"), 0);
    assert_int_equal(ask(d, "PRAGMA user_version"), 1);
    db_close(d);
    CHECK_OK(db_open(&d, &db_sqlite, path, "tester", steps, 3));
    assert_int_equal(ask(d, "PRAGMA user_version"), 3);
    assert_int_equal(ask(d, "SELECT sum(size) FROM thing"), 12);
    assert_int_equal(ask(d, "SELECT count(*) FROM thing WHERE name='older'"), 1);
    db_close(d);

    /* a later version is refused and left untouched */
    CHECK_STATUS(db_open(&d, &db_sqlite, path, "tester", steps, 2), SEFL_EUNSUPPORTED);
    assert_non_null(strstr(sefl_last_error(), "version 3"));
    CHECK_OK(db_open(&d, &db_sqlite, path, "tester", steps, 3));
    db_close(d);
    CHECK_STATUS(db_open(&d, &db_sqlite, path, "other", steps, 3), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "tester"));
}

static void check_same(const char *path, sefl_buf *before)
{
    sefl_buf after = { 0 };
    CHECK_OK(file_read(&after, path, 1 << 20));
    assert_int_equal(after.n, before->n);
    assert_memory_equal(after.p, before->p, after.n);
    buf_clear(&after);
    buf_clear(before);
}

static void refused(void **state)
{
    (void)state;
    db *d;
    sefl_buf b = { 0 };
    char text[4096];
    memset(text, 'x', sizeof text);
    const char *path = folder_put("text.db", text, sizeof text);
    CHECK_STATUS(db_open(&d, &db_sqlite, path, "tester", steps, 3), SEFL_EPROTO);
    CHECK_OK(file_read(&b, path, sizeof text));
    assert_memory_equal(b.p, text, sizeof text);
    buf_clear(&b);

    path = folder_path("foreign.db");
    by_hand(path, "CREATE TABLE thing(id)");
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_STATUS(db_open(&d, &db_sqlite, path, "tester", steps, 3), SEFL_EPROTO);
    check_same(path, &b);
    path = folder_path("foreign2.db");
    by_hand(path, "CREATE TABLE thing(id); PRAGMA user_version=1");
    CHECK_STATUS(db_open(&d, &db_sqlite, path, "tester", steps, 3), SEFL_EPROTO);

    path = folder_path("cut.db"); /* ours, but its second half is lost */
    by_hand(path, version_1);
    assert_int_equal(truncate(path, 5000), 0);
    CHECK_STATUS(db_open(&d, &db_sqlite, path, "tester", steps, 3), SEFL_EPROTO);

    assert_int_equal(mkdir(folder_path("folder.db"), 0700), 0);
    CHECK_STATUS(db_open(&d, &db_sqlite, folder_path("folder.db"), "tester", steps, 3), SEFL_EIO);
    assert_int_equal(symlink(folder_path("v1.db"), folder_path("link.db")), 0);
    CHECK_STATUS(db_open(&d, &db_sqlite, folder_path("link.db"), "tester", steps, 3), SEFL_EIO);
    CHECK_STATUS(db_open(&d, &db_sqlite, folder_path("no/such.db"), "tester", steps, 3), SEFL_EIO);

    path = folder_put("empty.db", "", 0); /* its creator died at once */
    CHECK_OK(db_open(&d, &db_sqlite, path, "tester", steps, 3));
    db_close(d);
    path = folder_path("locked.db"); /* another writer holds it permanently */
    CHECK_OK(db_open(&d, &db_sqlite, path, "tester", steps, 3));
    CHECK_OK(db_run(d, "PRAGMA busy_timeout=10"));
    sqlite3 *s;
    assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    CHECK_STATUS(db_begin(d), SEFL_ESTATE);
    sqlite3_close(s);
    CHECK_OK(db_begin(d));
    db_close(d);
}

/* The limit on pages gives SQLITE_FULL, as a full disk does. */
static void full(void **state)
{
    (void)state;
    db *d;
    unsigned n = 0;
    sefl_status st;
    static uint8_t blob[3000];
    CHECK_OK(db_open(&d, &db_sqlite, folder_path("full.db"), "tester", steps, 1));
    CHECK_OK(db_run(d, "CREATE TABLE fill(n INTEGER PRIMARY KEY, b BLOB)"));
    CHECK_OK(db_run(d, "PRAGMA max_page_count=40"));
    do {
        CHECK_OK(db_begin(d));
        st = db_run(d, "INSERT INTO fill VALUES(?,?)", db_u64(2 * n), db_blob(span_of(blob, 3000)));
        if (st == SEFL_OK)
            st = db_run(d, "INSERT INTO fill VALUES(?,?)", db_u64(2 * n + 1),
                        db_blob(span_of(blob, 3000)));
        if (st == SEFL_OK)
            st = db_commit(d);
        else
            db_rollback(d);
        n += st == SEFL_OK;
    } while (st == SEFL_OK);
    CHECK_STATUS(st, SEFL_EIO);
    assert_non_null(strstr(sefl_last_error(), "no space left"));
    assert_true(n > 5);
    assert_int_equal(ask(d, "SELECT count(*) FROM fill"), 2 * n);
    CHECK_OK(db_run(d, "PRAGMA max_page_count=400"));
    CHECK_OK(db_run(d, "INSERT INTO fill VALUES(-1, ?)", db_blob(span_of(blob, 3000))));
    db_close(d);
    CHECK_OK(db_open(&d, &db_sqlite, folder_path("full.db"), "tester", steps, 1));
    assert_int_equal(ask(d, "SELECT count(*) FROM fill"), 2 * n + 1);
    assert_int_equal(
        ask(d, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check='ok'"), 1);
    db_close(d);
}

static void faults(void **state)
{
    (void)state;
    db *d = NULL;
    TEST_FAULTS(FAULT_ALLOC,
                st = db_open(&d, &db_sqlite, folder_path("alloc.db"), "tester", steps, 3),
                db_close(d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh),   cmocka_unit_test(transactions), cmocka_unit_test(migration),
        cmocka_unit_test(refused), cmocka_unit_test(full),         cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
