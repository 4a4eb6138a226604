/* The client's receipt file: written, read back, torn, damaged. */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "roles/client/receipts.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AROUND = 76 }; /* of a record, beside the envelope */

static const uint8_t task_a[32] = { 0xaa, 1 }, task_b[32] = { 0xbb, 2 };

static char path[256];

static receipts *opened(void)
{
    receipts *r = NULL;
    CHECK_OK(receipts_open(&r, path));
    return r;
}

static sefl_status add(receipts *r, const uint8_t *task, uint64_t round)
{
    char text[64];
    snprintf(text, sizeof text, "receipt of %02x %llu", task[0], (unsigned long long)round);
    return receipts_add(r, task, round, span_of_str(text));
}

static void is_there(const receipts *r, const uint8_t *task, uint64_t round)
{
    char text[64];
    sefl_buf b = { 0 };
    snprintf(text, sizeof text, "receipt of %02x %llu", task[0], (unsigned long long)round);
    CHECK_OK(receipts_find(r, &b, task, round));
    assert_int_equal(b.n, strlen(text));
    assert_memory_equal(b.p, text, b.n);
    buf_clear(&b);
}

static void is_not_there(const receipts *r, const uint8_t *task, uint64_t round)
{
    sefl_buf b = { 0 };
    CHECK_STATUS(receipts_find(r, &b, task, round), SEFL_ENOTFOUND);
    assert_int_equal(b.n, 0);
}

static void fresh(const char *name)
{
    snprintf(path, sizeof path, "%s", folder_path(name));
}

static void read_back(void **state)
{
    (void)state;
    fresh("many");
    receipts *r = opened();
    sefl_buf b = { 0 };
    struct stat s;
    assert_int_equal(receipts_count(r), 0);
    is_not_there(r, task_a, 1);
    for (uint64_t i = 10; i < 99; i++) /* two digits: records of one size */
        CHECK_OK(add(r, i < 50 ? task_a : task_b, i));
    CHECK_OK(add(r, task_b, 10)); /* another task's round 10 */
    CHECK_STATUS(receipts_add(r, task_b, 11, span_of(path, RECEIPTS_ENVELOPE_MAX + 1)),
                 SEFL_ERANGE);
    for (int life = 0; life < 2; life++) {
        assert_int_equal(receipts_count(r), 90);
        for (uint64_t i = 10; i < 99; i++) {
            is_there(r, i < 50 ? task_a : task_b, i);
            if (i > 10)
                is_not_there(r, i < 50 ? task_b : task_a, i);
        }
        is_there(r, task_b, 10);
        CHECK_OK(receipts_at(r, 89, NULL, NULL, &b));
        assert_int_equal(b.n, 16);
        assert_memory_equal(b.p, "receipt of bb 10", 16);
        CHECK_STATUS(receipts_at(r, 90, NULL, NULL, &b), SEFL_ENOTFOUND);
        buf_reset(&b);
        receipts_close(r);
        r = opened();
    }
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_size, 90 * (AROUND + 16));
    assert_int_equal(s.st_mode & 0777, 0600);

    /* the last one again, longer and shorter: it is replaced, even after a restart */
    CHECK_OK(receipts_add(r, task_b, 10, span_of_str("much longer than it was before")));
    receipts_close(r);
    r = opened();
    CHECK_OK(add(r, task_b, 10));
    receipts_close(r);
    r = opened();
    assert_int_equal(receipts_count(r), 90);
    is_there(r, task_b, 10);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_size, 90 * (AROUND + 16));
    receipts_close(r);
    buf_clear(&b);
}

/* Died in the middle of an append, at any byte: acknowledged receipts are there, and the client
 * continues. */
static void torn(void **state)
{
    (void)state;
    fresh("torn");
    receipts *r = opened();
    sefl_buf whole = { 0 };
    CHECK_OK(add(r, task_a, 1));
    CHECK_OK(add(r, task_a, 2));
    receipts_close(r);
    CHECK_OK(file_read(&whole, path, 1 << 16));
    size_t record = whole.n / 2;
    for (size_t n = record; n <= whole.n; n++)
        for (int zeros = 0; zeros < 2;
             zeros++) { /* ... or the file is longer and has no bytes yet */
            if (zeros && n > record)
                memset(whole.p + record, 0, n - record);
            CHECK_OK(file_write_atomic(path, span_of(whole.p, n), 0600));
            r = opened();
            bool all = n == whole.n && !zeros;
            assert_int_equal(receipts_count(r), all ? 2 : 1);
            is_there(r, task_a, 1);
            if (all)
                is_there(r, task_a, 2);
            else
                is_not_there(r, task_a, 2);
            CHECK_OK(add(r, task_a, 2));
            receipts_close(r);
            r = opened();
            is_there(r, task_a, 2);
            receipts_close(r);
            buf_reset(&whole);
            CHECK_OK(file_read(&whole, path, 1 << 16));
            assert_int_equal(whole.n, 2 * record);
        }
    buf_clear(&whole);
}

/* Damage before the end is reported with its position, and nothing is truncated. */
static void damaged(void **state)
{
    (void)state;
    fresh("damaged");
    receipts *r = opened();
    sefl_buf whole = { 0 }, after = { 0 };
    for (uint64_t i = 0; i < 100; i++)
        CHECK_OK(add(r, task_a, 10 + i % 90));
    receipts_close(r);
    CHECK_OK(file_read(&whole, path, 1 << 16));
    for (size_t i = 3 * (AROUND + 16); i < 4 * (AROUND + 16); i++) {
        whole.p[i] ^= 4;
        CHECK_OK(file_write_atomic(path, buf_span(&whole), 0600));
        CHECK_STATUS(receipts_open(&r, path), SEFL_EPROTO);
        assert_non_null(strstr(sefl_last_error(), "byte 276"));
        assert_non_null(strstr(sefl_last_error(), path));
        buf_reset(&after);
        CHECK_OK(file_read(&after, path, 1 << 16));
        assert_int_equal(after.n, whole.n);
        whole.p[i] ^= 4;
    }
    CHECK_OK(file_write_atomic(path, buf_span(&whole), 0600));
    receipts_close(opened());
    /* a length that was changed, a few records before the end: it says that it reaches beyond */
    for (int bit = 0; bit < 32; bit++) {
        size_t at = whole.n - 2 * (AROUND + 16);
        whole.p[at + (size_t)bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK_OK(file_write_atomic(path, buf_span(&whole), 0600));
        CHECK_STATUS(receipts_open(&r, path), SEFL_EPROTO);
        whole.p[at + (size_t)bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    buf_clear(&whole);
    buf_clear(&after);

    fresh("folder");
    assert_int_equal(mkdir(path, 0700), 0);
    CHECK_STATUS(receipts_open(&r, path), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "earlier version"));
}

static sefl_status two(uint64_t round)
{
    sefl_status st = SEFL_OK;
    receipts *r = NULL;
    SEFL_TRY(receipts_open(&r, path));
    SEFL_TRY(add(r, task_a, round));
    SEFL_TRY(add(r, task_a, round + 1));
done:
    receipts_close(r);
    return st;
}

static void faults(void **state)
{
    (void)state;
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC, FAULT_READ };
    uint64_t round = 100;
    fresh("faults");
    CHECK_OK(two(50));
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        TEST_FAULTS(kinds[k], st = two(round += 2), {
            receipts *r = opened();
            is_there(r, task_a, 50);
            is_there(r, task_a, 51);
            receipts_close(r);
        });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_back),
        cmocka_unit_test(torn),
        cmocka_unit_test(damaged),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
