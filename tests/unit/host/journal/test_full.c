/* A disk that fails: every n-th write (as if full) and every n-th sync, of SQLite's files and of
 * ours, and a limit on the size of files. What was acknowledged is there afterwards, the database
 * is sound, and work continues. */
#include "support/check.h"
#include "support/folder.h"
#include "support/store_place.h"
#include "unit/host/journal/faulty_disk.h"

#include "base/buf.h"
#include "store/journal/journal.h"
#include "store/journal/spool.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const uint8_t task[32] = { 1 };
static char folder[256];

static int setup(void **state)
{
    faulty_disk_install();
    signal(SIGXFSZ, SIG_IGN);
    return folder_make_quick(state);
}

/* What has been acknowledged, over all runs. */
typedef struct acked {
    uint64_t fact, pair, secret, file, update;
} acked;

static sefl_status note(uint64_t *to, uint64_t n, sefl_status st)
{
    if (st == SEFL_OK)
        *to = n;
    return st;
}

static sefl_status put_pair(journal *j, sefl_span value)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(journal_begin(j));
    SEFL_TRY(journal_fact_put(j, 1, "one", value));
    SEFL_TRY(journal_fact_put(j, 1, "two", value));
    SEFL_TRY(journal_commit(j));
done:
    if (st != SEFL_OK)
        journal_rollback(j);
    return st;
}

/* Writes item n of every kind, even if an earlier one failed. Returns the first failure. */
static sefl_status put_all(uint64_t n, acked *a, const sefl_rng *rng)
{
    journal *j = NULL;
    uint8_t value[8];
    store_u64(value, n);
    sefl_span v = span_of(value, sizeof value);
    journal_update u = { .round = n, .client = { 7 } };
    sefl_status st = store_open(&j, folder, "csp", task);
    if (st != SEFL_OK)
        return st;
    sefl_status each[] = {
        note(&a->fact, n, journal_fact_put(j, 1, "fact", v)),
        note(&a->pair, n, put_pair(j, v)),
        note(&a->secret, n, journal_secret_put(j, 1, "secret", v, rng)),
        note(&a->file, n, journal_file_put(j, 1, "file", v)),
        note(&a->update, n, journal_update_put(j, &u)),
    };
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++)
        st = st != SEFL_OK ? st : each[i];
    journal_close(j);
    return st;
}

static uint64_t number(const sefl_buf *b, size_t at)
{
    return b->n >= at + 8 ? load_u64(b->p + at) : 0;
}

/* exact: refused items must be absent. After a failed sync they may be there. */
static void check_all(const acked *a, bool exact)
{
    journal *j;
    sefl_buf b = { 0 };
    CHECK_OK(store_open(&j, folder, "csp", task));
    (void)!journal_fact_get(j, 1, "fact", &b);
    assert_true(exact ? number(&b, 0) == a->fact : number(&b, 0) >= a->fact);
    buf_reset(&b);
    (void)!journal_fact_get(j, 1, "one", &b);
    (void)!journal_fact_get(j, 1, "two", &b);
    assert_true(number(&b, 0) == number(&b, 8)); /* together */
    assert_true(exact ? number(&b, 0) == a->pair : number(&b, 0) >= a->pair);
    buf_reset(&b);
    sefl_status st = journal_secret_get(j, 1, "secret", &b);
    assert_true(st == SEFL_OK || (st == SEFL_ENOTFOUND && a->secret == 0));
    assert_true(number(&b, 0) >= a->secret); /* a rename without a folder sync is still visible */
    buf_reset(&b);
    (void)!journal_file_get(j, 1, "file", &b);
    assert_true(number(&b, 0) >= a->file);
    journal_update u;
    if (a->update > 0)
        CHECK_OK(journal_update_get(j, a->update, (const uint8_t[32]){ 7 }, &u));
    journal_close(j);
    buf_clear(&b);
    if (store_is_pg())
        return;

    sqlite3 *s;
    sqlite3_stmt *q;
    char path[300];
    snprintf(path, sizeof path, "%s/journal.db", folder);
    assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(s, "PRAGMA integrity_check", -1, &q, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(q, 0), "ok");
    sqlite3_finalize(q);
    sqlite3_close(s);
}

#if SEFL_FAULTS
static void every_fault(fault_kind kind, const char *name)
{
    seeded g;
    test_seed(&g, name);
    sefl_rng rng = seeded_rng(&g);
    acked a = { 0 };
    uint64_t n = 0, refused = 0, kept = 0;
    snprintf(folder, sizeof folder, "%s", folder_path(name));
    for (uint64_t nth = 1;; nth++) {
        fault_arm(kind, nth);
        sefl_status st = put_all(++n, &a, &rng);
        bool hit = fault_was_hit();
        fault_disarm();
        /* SQLite may skip a checkpoint, so a run can succeed despite a fault */
        refused += st != SEFL_OK, kept += hit && st == SEFL_OK;
        assert_true(st == SEFL_OK || st == SEFL_EIO);
        check_all(&a, kind == FAULT_WRITE);
        CHECK_OK(put_all(++n, &a, &rng)); /* continues */
        check_all(&a, true);
        if (!hit)
            break;
    }
    print_message("%s: %llu refused, %llu done in spite of it\n", name, (unsigned long long)refused,
                  (unsigned long long)kept);
    assert_true(refused > (store_is_pg() ? 4 : 7) && kept < refused);
}
#endif

static void every_write(void **state)
{
    (void)state;
#if SEFL_FAULTS
    every_fault(FAULT_WRITE, "writes");
#endif
}

static void every_sync(void **state)
{
    (void)state;
#if SEFL_FAULTS
    every_fault(FAULT_SYNC, "syncs");
#endif
}

static void size_limit(void **state)
{
    (void)state;
    SQLITE_ONLY();
    static uint8_t big[100000];
    struct rlimit old, small;
    journal *j;
    uint32_t n;
    sefl_rng rng = rng_system();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    CHECK_OK(store_open(&j, folder_path("limit"), "csp", task));
    small = (struct rlimit){ 700000, old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    sefl_status st = SEFL_OK;
    for (n = 0; st == SEFL_OK; n += st == SEFL_OK) {
        store_u32(big, n);
        st = journal_fact_put(j, n, "big", span_of(big, sizeof big));
    }
    CHECK_STATUS(st, SEFL_EIO);
    assert_non_null(strstr(sefl_last_error(), "File too large"));
    assert_true(n > 2);
    CHECK_STATUS(journal_fact_put(j, n, "big", span_of(big, sizeof big)), SEFL_EIO);
    small.rlim_cur = 50000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_STATUS(journal_secret_put(j, 1, "big", span_of(big, sizeof big), &rng), SEFL_EIO);
    CHECK_STATUS(journal_file_put(j, 1, "big", span_of(big, sizeof big)), SEFL_EIO);
    CHECK_OK(journal_secret_put(j, 1, "small", span_of(big, 1000), &rng));
    sefl_buf b = { 0 };
    CHECK_STATUS(journal_secret_get(j, 1, "big", &b), SEFL_ENOTFOUND);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    store_u32(big, n);
    CHECK_OK(journal_fact_put(j, n++, "big", span_of(big, sizeof big)));
    journal_close(j);
    CHECK_OK(store_open(&j, folder_path("limit"), "csp", task));
    for (uint32_t i = 0; i < n; i++) {
        buf_reset(&b);
        CHECK_OK(journal_fact_get(j, i, "big", &b));
        assert_int_equal(b.n, sizeof big);
        assert_int_equal(load_u32(b.p), i);
    }
    CHECK_STATUS(journal_fact_get(j, n, "big", &b), SEFL_ENOTFOUND);
    journal_close(j);
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_write),
        cmocka_unit_test(every_sync),
        cmocka_unit_test(size_limit),
    };
    return cmocka_run_group_tests(tests, setup, folder_remove);
}
