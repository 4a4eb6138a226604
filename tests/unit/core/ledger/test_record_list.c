/* The list of records: each keeps its place, whatever happens to the text, the state or the file. */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "base/sha256.h"
#include "store/record_list.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t task_id[LEDGER_TASK_BYTES] = { 0xab, 0xcd };

/* A text is a string; each character is a record. */
static void name(void *ctx, const uint8_t key[RECORD_KEY], size_t i, uint8_t out[RECORD_NAME])
{
    uint8_t hash[SHA256_BYTES];
    sha256_join(hash, span_of(key, RECORD_KEY), span_of((const char *)ctx + i, 1));
    memcpy(out, hash, RECORD_NAME);
}

static record_names names_of(const char *text)
{
    return (record_names){ .n = strlen(text), .ctx = (void *)(uintptr_t)text, .name = name };
}

static sefl_status opens(record_list *list, const ledger *l, const char *text)
{
    const record_names names = names_of(text);
    return record_list_open(list, l, folder_path("book"), task_id, &names);
}

static void keeps(record_list *list, const ledger *l, const char *text)
{
    CHECK_OK(opens(list, l, text));
    CHECK_OK(record_list_keep(list));
    CHECK_OK(record_list_keep(list));
}

/* Place p of the list has the record that `first` had there. */
static void same_places(const ledger *l, const char *first, const char *text)
{
    record_list list = { 0 };
    CHECK_OK(opens(&list, l, text));
    assert_int_equal(list.n, strlen(first));
    assert_int_equal(list.later, strlen(text) - strlen(first));
    for (size_t p = 0; p < list.n; p++)
        assert_int_equal(text[list.record[p]], first[p]);
    bool taken[16] = { false };
    for (size_t p = 0; p < list.n; p++) { /* no record has two places */
        assert_true(!taken[list.record[p]]);
        taken[list.record[p]] = true;
    }
    record_list_clear(&list);
}

static void refuses(const ledger *l, const char *text, const char *why)
{
    record_list list;
    CHECK_STATUS(opens(&list, l, text), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), why));
    assert_non_null(strstr(sefl_last_error(), "no part"));
    assert_null(list.record);
    assert_int_equal(list.fresh.n, 0);
}

static ledger *book(void)
{
    ledger *l = NULL;
    CHECK_OK(ledger_create(folder_path("book"), "people"));
    CHECK_OK(ledger_open(&l, folder_path("book"), "people", NULL));
    return l;
}

static void charge(ledger *l, const record_list *list, uint64_t round)
{
    ledger_terms t = { .noise = DP_NOISE_JOINT,
                       .unit = LEDGER_UNIT_RECORD,
                       .z = 4,
                       .rate = 1,
                       .dim = 1000,
                       .epsilon_max = 8,
                       .delta = 1e-6,
                       .turns = 3,
                       .turn_rounds = 30 };
    memcpy(t.task, task_id, sizeof t.task);
    memcpy(t.list, list->hash, sizeof t.list);
    CHECK_OK(ledger_charge(l, &t, round, NULL));
}

static void places_stay(void **state)
{
    (void)state;
    struct stat sb;
    record_list list = { 0 };
    ledger *l = book();
    keeps(&list, l, "cabbage");
    for (size_t p = 0; p < list.n; p++)
        assert_int_equal(list.record[p], p); /* equal records too */
    assert_int_equal(stat(folder_path("book.records-abcd000000000000"), &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    for (int charged = 0; charged < 2; charged++) {
        same_places(l, "cabbage", "cabbage");
        same_places(l, "cabbage", "eggabbac"); /* another order, and one more of the same */
        same_places(l, "cabbage", "abbcageXYZ");
        refuses(l, "cabbag", "1 of the 7 records");
        refuses(l, "cabbXge", "1 of the 7 records");
        refuses(l, "cabage", "1 of the 7 records");
        refuses(l, "potatoes", "5 of the 7 records");
        charge(l, &list, 2);
    }
    record_list_clear(&list);
    ledger_close(l);
}

static void the_list_must_be_there(void **state)
{
    (void)state;
    record_list list = { 0 }, other = { 0 };
    sefl_buf first = { 0 }, changed = { 0 };
    ledger *l = book();
    const char *file = "book.records-abcd000000000000";
    char path[PATH_MAX];
    CHECK_OK(file_path(path, "%s", folder_path(file)));

    keeps(&list, l, "xyz");
    charge(l, &list, 1);
    CHECK_OK(file_read(&first, path, 1 << 16));

    /* lost, changed, cut, another task's, another list */
    assert_int_equal(unlink(path), 0);
    refuses(l, "xyz", "is missing");
    assert_false(file_exists(path));
    for (size_t i = 0; i < first.n; i++) {
        changed.n = 0;
        CHECK_OK(wr_raw(&changed, first.p, first.n));
        changed.p[i] ^= 1;
        folder_put(file, changed.p, changed.n);
        refuses(l, "xyz", path);
        folder_put(file, first.p, i);
        refuses(l, "xyz", path);
    }
    folder_put(file, first.p, first.n);
    same_places(l, "xyz", "zyx");
    ledger_close(l);

    /* the list of another ledger, for the same text and task */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(folder_path("book"), folder_path("former")), 0);
    l = book();
    keeps(&other, l, "xyz");
    assert_memory_not_equal(other.hash, list.hash, sizeof list.hash);
    ledger_close(l);
    assert_int_equal(unlink(folder_path("book")), 0);
    assert_int_equal(rename(folder_path("former"), folder_path("book")), 0);
    CHECK_OK(ledger_open(&l, folder_path("book"), "people", NULL));
    refuses(l, "xyz", "is not the list");
    ledger_close(l);
    record_list_clear(&list);
    record_list_clear(&other);
    buf_clear(&first);
    buf_clear(&changed);
}

/* Until the list is kept, the text may change; a kept list is never replaced. */
static void the_text_may_change_until_the_list_is_kept(void **state)
{
    (void)state;
    record_list list = { 0 }, other = { 0 };
    sefl_buf first = { 0 }, now = { 0 };
    ledger *l = book();
    char path[PATH_MAX];
    CHECK_OK(file_path(path, "%s", folder_path("book.records-abcd000000000000")));
    same_places(l, "abc", "abc");
    same_places(l, "axc", "axc");
    assert_false(file_exists(path));
    CHECK_OK(opens(&other, l, "xyz"));
    keeps(&list, l, "cab");
    CHECK_OK(file_read(&first, path, 1 << 16));
    assert_memory_equal(first.p + first.n - sizeof list.hash, list.hash, sizeof list.hash);
    CHECK_STATUS(record_list_keep(&other), SEFL_EEXIST); /* opened before the list was there */
    same_places(l, "cab", "bacx");
    refuses(l, "xyz", "3 of the 3 records");
    refuses(l, "ca", "eval: own");
    CHECK_OK(file_read(&now, path, 1 << 16));
    assert_int_equal(now.n, first.n);
    assert_memory_equal(now.p, first.p, first.n);
    ledger_close(l);
    record_list_clear(&list);
    record_list_clear(&other);
    buf_clear(&first);
    buf_clear(&now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(places_stay, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(the_list_must_be_there, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(the_text_may_change_until_the_list_is_kept, folder_make,
                                        folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
