/* The PostgreSQL driver against a server of its own, which the tests kill and restart: what db.h
 * promises about lost connections, and the servers and URLs that pg.h refuses. (The tests of the
 * journal run against PostgreSQL too; here is what SQLite does not have.) */
#include "support/check.h"
#include "support/folder.h"

#include "base/clock.h"
#include "store/pg/pg.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[128], url[300];
static bool missing; /* no PostgreSQL on this machine */

static const char *const steps[] = {
    "CREATE TABLE thing(id BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE, bytes BYTEA)",
    "ALTER TABLE thing ADD COLUMN size BIGINT NOT NULL DEFAULT 5",
};

static int server(const char *what)
{
    char line[500];
    snprintf(line, sizeof line, "'%s/tests/support/pg_server' %s '%s' > /dev/null 2>&1",
             SEFL_SOURCE_DIR, what, folder);
    int rc = system(line);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static void by_hand(const char *sql)
{
    PGconn *c = PQconnectdb(url);
    PGresult *r = PQexec(c, sql);
    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(c));
    PQclear(r);
    PQfinish(c);
}

static int setup(void **state)
{
    if (folder_make(state) != 0 || chmod(folder_path(""), 0755) != 0)
        return -1;
    snprintf(folder, sizeof folder, "%s", folder_path("pg"));
    int rc = server("start");
    missing = rc == 77;
    snprintf(url, sizeof url, "postgresql:///postgres?host=%s&user=sefl", folder);
    return missing ? 0 : rc;
}

static int teardown(void **state)
{
    if (!missing)
        server("stop");
    return folder_remove(state);
}

static uint64_t count(db *d)
{
    uint64_t n = UINT64_MAX;
    CHECK_OK(db_each(d, db_take_u64, &n, "SELECT count(*) FROM thing"));
    return n;
}

static db *fresh(void)
{
    db *d;
    by_hand("DROP TABLE IF EXISTS thing, sefl_store");
    CHECK_OK(db_open(&d, &db_pg, url, "tester", steps, 2));
    return d;
}

typedef struct seen {
    uint64_t id, size;
    char name[32];
    uint8_t bytes[8];
    size_t n;
    bool null;
} seen;

static sefl_status see(void *ctx, const db_row *row)
{
    seen *s = ctx;
    sefl_span name = db_col_bytes(row, 1), bytes = db_col_bytes(row, 2);
    s->id = db_col_u64(row, 0);
    snprintf(s->name, sizeof s->name, "%.*s", (int)name.n, (const char *)name.p);
    s->null = db_col_null(row, 2);
    s->n = bytes.n;
    memcpy(s->bytes, bytes.p, bytes.n < 8 ? bytes.n : 8);
    s->size = db_col_u64(row, 3);
    return SEFL_OK;
}

static void values(void **state)
{
    (void)state;
    if (missing)
        skip();
    db *d = fresh(), *other;
    seen s;
    uint64_t now;
    const db_value null = { .type = DB_NULL };
    CHECK_OK(db_run(d, "INSERT INTO thing VALUES(?,?,?,?)", db_u64(INT64_MAX), db_text("a?'b"),
                    db_blob(span_of("\0\1\xff", 3)), db_u64(7)));
    CHECK_OK(
        db_run(d, "INSERT INTO thing VALUES(?,?,?,?)", db_u64(2), db_text("two"), null, db_u64(0)));
    CHECK_STATUS(
        db_run(d, "INSERT INTO thing VALUES(?,?,?,?)", db_u64(2), db_text("x"), null, db_u64(0)),
        SEFL_EEXIST);
    CHECK_OK(db_each(d, see, &s, "SELECT * FROM thing WHERE name = 'a?''b' AND id = ?",
                     db_u64(INT64_MAX)));
    assert_true(s.id == INT64_MAX && s.size == 7 && s.n == 3 && !s.null);
    assert_memory_equal(s.bytes, "\0\1\xff", 3);
    CHECK_OK(db_each(d, see, &s, "SELECT * FROM thing WHERE id = ?2 AND name = ?1", db_text("two"),
                     db_u64(2)));
    assert_true(s.null && s.n == 0);
    CHECK_OK(db_now_ms(d, &now));
    assert_true(now > 1700000000000ULL);
    CHECK_OK(db_tidy(d, "thing"));
    /* versions and roles */
    CHECK_STATUS(db_open(&other, &db_pg, url, "other", steps, 2), SEFL_ESTATE);
    CHECK_STATUS(db_open(&other, &db_pg, url, "tester", steps, 1), SEFL_EUNSUPPORTED);
    db_close(d);
    by_hand("DROP TABLE sefl_store");
    CHECK_STATUS(db_open(&other, &db_pg, url, "tester", steps, 2), SEFL_EPROTO);
    by_hand("DROP TABLE thing");
}

/* More texts than prepared statements fit. */
static void many_texts(void **state)
{
    (void)state;
    if (missing)
        skip();
    db *d = fresh();
    for (uint64_t i = 0; i < 200; i++) {
        char sql[80];
        uint64_t got = 0;
        snprintf(sql, sizeof sql, "SELECT CAST(? AS BIGINT) + %llu", (unsigned long long)i);
        CHECK_OK(db_each(d, db_take_u64, &got, sql, db_u64(i)));
        assert_int_equal(got, 2 * i);
    }
    db_close(d);
}

static void url_rules(void **state)
{
    (void)state;
    CHECK_OK(pg_check_url("postgresql://u@localhost/x"));
    CHECK_OK(pg_check_url("postgresql://u@127.0.0.1:5433/x"));
    CHECK_OK(pg_check_url("postgresql://u@[::1]/x"));
    CHECK_OK(pg_check_url("postgresql:///x?host=/run/postgresql"));
    CHECK_OK(pg_check_url("postgresql://u@db.example/x?sslmode=verify-full"));
    static const char *const bad[] = {
        "postgresql://u:hunter2@localhost/x",
        "postgresql://u@localhost/x?password=hunter2",
        "postgresql://u@db.example/x",
        "postgresql://u@db.example/x?sslmode=require",
        "postgresql://u@localhost,db.example/x",
        "postgresql://u@localhost",
        "postgresql:///x",
        "postgresql://u@localhost/x?hunter2=%zz",
        "postgresql://localhost/x?hostaddr=9.9.9.9",
        "postgresql://u@localhost/x?service=s",
        "mysql://localhost/x",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_STATUS(pg_check_url(bad[i]), SEFL_EINVAL);
        assert_null(strstr(sefl_last_error(), "hunter2"));
    }
}

/* A server that may lose acknowledged transactions. */
static void durability(void **state)
{
    (void)state;
    if (missing)
        skip();
    static const char *const settings[] = { "fsync", "full_page_writes", "synchronous_commit" };
    static const char *const lies[] = { "off", "off", "local" };
    db *d = fresh();
    db_close(d);
    for (size_t i = 0; i < 3; i++) {
        char sql[100];
        snprintf(sql, sizeof sql, "ALTER SYSTEM SET %s = %s", settings[i], lies[i]);
        by_hand(sql);
        by_hand("SELECT pg_reload_conf()");
        sefl_status st = SEFL_OK;
        for (int tries = 0; st == SEFL_OK && tries < 50; tries++) { /* the reload takes a moment */
            clock_pause_ms(20);
            st = db_open(&d, &db_pg, url, "tester", steps, 2);
            if (st == SEFL_OK)
                db_close(d);
        }
        CHECK_STATUS(st, SEFL_ESTATE);
        assert_non_null(strstr(sefl_last_error(), settings[i]));
        by_hand("ALTER SYSTEM RESET ALL");
        by_hand("SELECT pg_reload_conf()");
        clock_pause_ms(200);
    }
    CHECK_OK(db_open(&d, &db_pg, url, "tester", steps, 2));
    db_close(d);
}

/* A synchronous standby does not answer, and the server gives up waiting for it: it says COMMIT, but
 * a failover would undo that. */
static void *end_wait(void *arg)
{
    char sql[300];
    snprintf(sql, sizeof sql,
             "DO $$ BEGIN FOR i IN 1..500 LOOP PERFORM pg_stat_clear_snapshot();"
             " PERFORM %s(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep';"
             " EXIT WHEN FOUND; PERFORM pg_sleep(0.02); END LOOP; END $$",
             (const char *)arg);
    by_hand(sql);
    return NULL;
}

static void silence(const char *function)
{
    db *d = fresh();
    pthread_t t;
    by_hand("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    by_hand("SELECT pg_reload_conf()");
    clock_pause_ms(300);
    assert_int_equal(pthread_create(&t, NULL, end_wait, (void *)(uintptr_t)function), 0);
    CHECK_STATUS(db_run(d, "INSERT INTO thing VALUES(1, 'one', NULL, 0)"), SEFL_EIO);
    assert_non_null(strstr(sefl_last_error(), "unknown"));
    pthread_join(t, NULL);
    by_hand("ALTER SYSTEM RESET ALL");
    by_hand("SELECT pg_reload_conf()");
    clock_pause_ms(300);
    assert_int_equal(count(d), 1); /* the caller looks what is there */
    CHECK_OK(db_run(d, "INSERT INTO thing VALUES(2, 'two', NULL, 0)"));
    db_close(d);
}

static void standby_is_silent(void **state)
{
    (void)state;
    if (missing)
        skip();
    silence("pg_cancel_backend");
}

/* The connection ends while the commit waits for the standby: the server says "committed" when it is
 * asked later, and that proves nothing. */
static void committed_proves_nothing(void **state)
{
    (void)state;
    if (missing)
        skip();
    silence("pg_terminate_backend");
}

/* db_begin excludes every writer; db_begin_shared only db_begin. */
static void *insert_later(void *arg)
{
    CHECK_OK(db_run(arg, "INSERT INTO thing VALUES(9, 'nine', NULL, 0)"));
    return NULL;
}

static void writers(void **state)
{
    (void)state;
    if (missing)
        skip();
    db *a = fresh(), *b;
    pthread_t t;
    CHECK_OK(db_open(&b, &db_pg, url, "tester", steps, 2));
    CHECK_OK(db_begin_shared(a));
    CHECK_OK(db_run(a, "INSERT INTO thing VALUES(1, 'one', NULL, 0)"));
    CHECK_OK(db_begin_shared(b)); /* does not wait */
    CHECK_OK(db_run(b, "INSERT INTO thing VALUES(2, 'two', NULL, 0)"));
    CHECK_OK(db_commit(b));
    CHECK_OK(db_commit(a));
    CHECK_OK(db_begin(a));
    assert_int_equal(count(a), 2);
    assert_int_equal(pthread_create(&t, NULL, insert_later, b), 0);
    clock_pause_ms(150);
    assert_int_equal(count(a), 2); /* the other writer waits */
    CHECK_STATUS(db_begin(a), SEFL_ESTATE);
    CHECK_OK(db_commit(a));
    pthread_join(t, NULL);
    assert_int_equal(count(a), 3);
    db_close(a);
    db_close(b);
}

/* kill -9 of the server: a transaction is rolled back, a statement finds the new server. */
static void restarts(void **state)
{
    (void)state;
    if (missing)
        skip();
    db *d = fresh();
    CHECK_OK(db_run(d, "INSERT INTO thing VALUES(1, 'one', NULL, 0)"));
    server("crash");
    assert_int_equal(server("again"), 0);
    assert_int_equal(count(d), 1); /* what was acknowledged is there */
    CHECK_OK(db_begin(d));
    CHECK_OK(db_run(d, "INSERT INTO thing VALUES(2, 'two', NULL, 0)"));
    server("crash");
    assert_int_equal(server("again"), 0);
    CHECK_STATUS(db_run(d, "INSERT INTO thing VALUES(3, 'three', NULL, 0)"), SEFL_EIO);
    CHECK_STATUS(db_run(d, "SELECT 1"), SEFL_EIO); /* still the lost transaction */
    CHECK_STATUS(db_commit(d), SEFL_EIO);
    assert_int_equal(count(d), 1);
    server("crash");
    assert_int_equal(server("again"), 0);
    CHECK_OK(db_run(d, "INSERT INTO thing VALUES(3, 'three', NULL, 0)"));
    assert_int_equal(count(d), 2);
    db_close(d);
}

/* The server ends the session of a transaction that stands still, with its locks. */
static void stands_still(void **state)
{
    (void)state;
    if (missing)
        skip();
    db *a = fresh(), *b;
    CHECK_OK(db_open(&b, &db_pg, url, "tester", steps, 2));
    CHECK_OK(db_begin(a));
    CHECK_OK(db_run(a, "INSERT INTO thing VALUES(1, 'one', NULL, 0)"));
    CHECK_OK(db_run(b, "INSERT INTO thing VALUES(1, 'other', NULL, 0)")); /* after 5 s */
    CHECK_STATUS(db_commit(a), SEFL_EIO);
    assert_int_equal(count(a), 1);
    db_close(a);
    db_close(b);
}

/* An unanswered COMMIT: the backend is ended at seeded moments around it. Whatever db_commit says is
 * true. */
static void *end_backends(void *arg)
{
    clock_pause_ms(*(unsigned *)arg);
    by_hand("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid() "
            "AND application_name = 'sefl'");
    return NULL;
}

static void commits(void **state)
{
    (void)state;
    if (missing)
        skip();
    db *d = fresh();
    seeded g;
    uint64_t failed = 0, id = 0;
    test_seed(&g, "commits");
    for (unsigned long n = 0; n < test_count(25, 400); n++) {
        pthread_t t;
        unsigned ms = (unsigned)seeded_below(&g, 25);
        assert_int_equal(pthread_create(&t, NULL, end_backends, &ms), 0);
        uint64_t until = clock_now_ns() + 60 * 1000000ULL;
        while (clock_now_ns() < until) {
            uint64_t there = 0;
            char name[32];
            snprintf(name, sizeof name, "n%llu", (unsigned long long)++id);
            sefl_status st =
                db_run(d, "INSERT INTO thing VALUES(?, ?, NULL, 0)", db_u64(id), db_text(name));
            assert_true(st == SEFL_OK || st == SEFL_EIO);
            CHECK_OK(db_each(d, db_take_u64, &there, "SELECT count(*) FROM thing WHERE id = ?",
                             db_u64(id)));
            assert_int_equal(there, st == SEFL_OK);
            failed += st != SEFL_OK;
        }
        pthread_join(t, NULL);
    }
    printf("%llu transactions, %llu lost\n", (unsigned long long)id, (unsigned long long)failed);
    db_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(many_texts),
        cmocka_unit_test(url_rules),
        cmocka_unit_test(writers),
        cmocka_unit_test(restarts),
        cmocka_unit_test(stands_still),
        cmocka_unit_test(commits),
        cmocka_unit_test(durability),
        cmocka_unit_test(standby_is_silent),
        cmocka_unit_test(committed_proves_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
