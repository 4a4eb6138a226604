#define _GNU_SOURCE
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "store/journal/journal.h"
#include "store/journal/roundkey.h"

#include <string.h>
#include <sys/stat.h>

static const uint8_t key[32] = { 1, 2, 3 }, task[32] = { 9 };

static void seal(sefl_buf *out, size_t bytes, const sefl_rng *rng, uint8_t fill)
{
    sefl_buf b = { 0 };
    uint8_t *p;
    CHECK_OK(buf_extend(&b, &p, bytes));
    if (bytes > 0)
        memset(p, fill, bytes);
    buf_reset(out);
    CHECK_OK(roundkey_seal(out, key, &(roundkey_place){ task, 7, "mask" }, buf_span(&b), rng));
    buf_clear(&b);
}

static void check_opens(sefl_span sealed, size_t bytes, uint8_t fill)
{
    sefl_buf out = { 0 };
    CHECK_OK(wr_u8(&out, '>'));
    CHECK_OK(roundkey_open(&out, key, &(roundkey_place){ task, 7, "mask" }, sealed));
    assert_int_equal(out.n, bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(out.p[i + 1], fill);
    buf_clear(&out);
}

static void check_closed(sefl_span sealed, const roundkey_place *at, const uint8_t k[32])
{
    sefl_buf out = { 0 };
    CHECK_OK(wr_u8(&out, '>'));
    CHECK_STATUS(roundkey_open(&out, k, at, sealed), SEFL_ECRYPTO);
    assert_int_equal(out.n, 1);
    buf_clear(&out);
}

static void tampering(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "tampering");
    sefl_rng rng = seeded_rng(&g);
    sefl_buf b = { 0 };
    const roundkey_place at = { task, 7, "mask" };
    static const size_t sizes[] = { 0, 1, 65535, 65536, 65537, 200000 };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        seal(&b, sizes[s], &rng, 0x5a);
        assert_int_equal(b.n,
                         8 + 19 + sizes[s] + 16 * (sizes[s] == 0 ? 1 : (sizes[s] + 65535) / 65536));
        check_opens(buf_span(&b), sizes[s], 0x5a);
        for (unsigned i = 0; i < 200; i++) { /* a changed bit */
            uint64_t at_bit;
            CHECK_OK(rng_below(&rng, &at_bit, 8 * b.n));
            b.p[at_bit / 8] ^= (uint8_t)(1 << at_bit % 8);
            check_closed(buf_span(&b), &at, key);
            b.p[at_bit / 8] ^= (uint8_t)(1 << at_bit % 8);
        }
        for (unsigned i = 0; i < 100; i++) { /* cut at the end */
            uint64_t n;
            CHECK_OK(rng_below(&rng, &n, b.n));
            check_closed(span_of(b.p, n), &at, key);
        }
        for (size_t n = 0; n < 60 && n < b.n; n++)
            check_closed(span_of(b.p, n), &at, key);
        for (size_t pieces = 1; 27 + pieces * 65552 < b.n; pieces++) /* cut between pieces */
            check_closed(span_of(b.p, 27 + pieces * 65552), &at, key);
        /* elsewhere */
        static const uint8_t other[32] = { 8 };
        check_closed(buf_span(&b), &(roundkey_place){ task, 8, "mask" }, key);
        check_closed(buf_span(&b), &(roundkey_place){ task, 7, "masks" }, key);
        check_closed(buf_span(&b), &(roundkey_place){ task, 7, "mas" }, key);
        check_closed(buf_span(&b), &(roundkey_place){ other, 7, "mask" }, key);
        check_closed(buf_span(&b), &at, other);
        CHECK_OK(wr_u8(&b, 0)); /* extra bytes after it */
        check_closed(buf_span(&b), &at, key);
    }
    /* two pieces swapped; pieces of two files under one key mixed */
    sefl_buf c = { 0 };
    seal(&b, 3 * 65536, &rng, 1);
    seal(&c, 3 * 65536, &rng, 1);
    assert_memory_not_equal(b.p + 8, c.p + 8, 19);
    uint8_t *piece = b.p + 27, tmp[65552];
    memcpy(tmp, piece, sizeof tmp);
    memcpy(piece, piece + 65552, 65552);
    memcpy(piece + 65552, tmp, sizeof tmp);
    check_closed(buf_span(&b), &at, key);
    memcpy(piece + 65552, piece, 65552);
    memcpy(piece, tmp, sizeof tmp);
    check_opens(buf_span(&b), 3 * 65536, 1); /* as it was */
    memcpy(piece + 65552, piece, 65552);     /* one of them twice */
    check_closed(buf_span(&b), &at, key);
    memcpy(piece + 65552, c.p + 27 + 65552, 65552);
    check_closed(buf_span(&b), &at, key);
    buf_clear(&b);
    buf_clear(&c);
}

/* The same through the journal: files on the disk changed, swapped, put in another round. */
static void on_disk(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "disk");
    sefl_rng rng = seeded_rng(&g);
    journal *j;
    sefl_buf b = { 0 };
    char one[256], two[256], far[256], k1[256], k2[256];
    snprintf(one, sizeof one, "%s", folder_path("j/task-1/round-1/one"));
    snprintf(two, sizeof two, "%s", folder_path("j/task-1/round-1/two"));
    snprintf(far, sizeof far, "%s", folder_path("j/task-1/round-2/one"));
    snprintf(k1, sizeof k1, "%s", folder_path("j/task-1/round-1/key"));
    snprintf(k2, sizeof k2, "%s", folder_path("j/task-1/round-2/key"));
    CHECK_OK(journal_open(&j, folder_path("j"), "csp", task));
    CHECK_OK(journal_secret_put(j, 1, "one", span_of_str("first secret"), &rng));
    CHECK_OK(journal_secret_put(j, 1, "two", span_of_str("second secret"), &rng));
    CHECK_OK(journal_secret_put(j, 2, "one", span_of_str("third secret"), &rng));
    sefl_buf file = { 0 }, key1 = { 0 };
    CHECK_OK(file_read(&file, one, 1000)); /* none of it in the clear */
    assert_null(memmem(file.p, file.n, "secret", 6));
    CHECK_OK(file_write_atomic(two, buf_span(&file), 0600));
    CHECK_OK(file_write_atomic(far, buf_span(&file), 0600));
    CHECK_STATUS(journal_secret_get(j, 1, "two", &b), SEFL_ECRYPTO);
    CHECK_STATUS(journal_secret_get(j, 2, "one", &b), SEFL_ECRYPTO);
    CHECK_OK(file_read(&key1, k1, 32));
    CHECK_OK(file_write_atomic(k2, buf_span(&key1), 0600)); /* together with its key */
    CHECK_STATUS(journal_secret_get(j, 2, "one", &b), SEFL_ECRYPTO);
    CHECK_OK(journal_secret_get(j, 1, "one", &b));
    assert_int_equal(b.n, 12);
    CHECK_OK(file_write_atomic(one, span_of(file.p, file.n - 1), 0600));
    CHECK_STATUS(journal_secret_get(j, 1, "one", &b), SEFL_ECRYPTO);
    CHECK_OK(file_write_atomic(one, buf_span(&file), 0600));
    static const uint8_t zeros[33];
    for (size_t n = 0; n <= 33; n += n == 0 ? 31 : 1) { /* an invalid key */
        CHECK_OK(file_write_atomic(k1, span_of(zeros, n), 0600));
        CHECK_STATUS(journal_secret_get(j, 1, "one", &b), SEFL_ECRYPTO);
        CHECK_STATUS(journal_secret_put(j, 1, "one", span_of_str("x"), &rng), SEFL_ECRYPTO);
    }
    assert_int_equal(remove(k1), 0);
    CHECK_STATUS(journal_secret_get(j, 1, "one", &b), SEFL_ECRYPTO);
    assert_int_equal(b.n, 12);
    journal_close(j);
    buf_clear(&b);
    buf_clear(&file);
    buf_clear(&key1);
}

static void faults(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "faults");
    sefl_rng rng = seeded_rng(&g);
    const roundkey_place at = { task, 7, "mask" };
    sefl_buf b = { 0 }, out = { 0 };
    TEST_FAULTS(FAULT_ALLOC, st = roundkey_seal(&b, key, &at, span_of_str("x"), &rng), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = roundkey_open(&out, key, &at, buf_span(&b)), (void)0);
    buf_clear(&b);
    buf_clear(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tampering),
        cmocka_unit_test(on_disk),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
