/* The file of released integers: every width reads back, every changed byte is noticed. */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "roles/aggregator/integers.h"

#include <string.h>

enum { VALUES = 21, FILE_MAX = 1 << 16 };

static void fill(int64_t *w, unsigned bits)
{
    for (int i = 0; i < VALUES; i++)
        w[i] = 0;
    w[3] = bits >= 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1));
    w[4] = bits >= 64 ? INT64_MAX : (INT64_C(1) << (bits - 1)) - 1;
    w[20] = -1;
}

static void widths(void **state)
{
    task t = { .id = { 5 }, .values = VALUES, .publish_count = true };
    (void)state;
    for (unsigned bits = 1; bits <= 64; bits++) {
        int64_t w[VALUES], back[VALUES];
        uint32_t clients = 0;
        uint64_t size = 0;
        uint8_t hash[32];
        fill(w, bits);
        const char *path = folder_path("w");
        CHECK_OK(integers_write(path, &t, 9, 17, w));
        CHECK_OK(integers_read(path, &t, 9, &clients, back));
        assert_memory_equal(w, back, sizeof w);
        assert_int_equal(clients, 17);
        CHECK_OK(file_sha256(hash, &size, path));
        assert_int_equal(size, 61 + (VALUES * bits + 7) / 8 + 32);
    }
    t.publish_count = false; /* then the number of clients stays unwritten */
    int64_t w[VALUES] = { 1 };
    uint32_t clients = 1;
    CHECK_OK(integers_write(folder_path("w"), &t, 9, 17, w));
    CHECK_OK(integers_read(folder_path("w"), &t, 9, &clients, w));
    assert_int_equal(clients, 0);
}

static void damaged(void **state)
{
    task t = { .id = { 5 }, .values = VALUES, .publish_count = true };
    int64_t w[VALUES];
    uint32_t clients;
    sefl_buf b = { 0 };
    (void)state;
    fill(w, 12);
    CHECK_OK(integers_write(folder_path("d"), &t, 9, 17, w));
    CHECK_STATUS(integers_read(folder_path("d"), &t, 8, &clients, w), SEFL_EPROTO);
    CHECK_OK(file_read(&b, folder_path("d"), FILE_MAX));
    for (size_t i = 0; i < b.n; i++) {
        CHECK_STATUS(integers_read_over(span_of(b.p, i), t.id, 9, &clients, w, VALUES),
                     SEFL_EPROTO);
        b.p[i] ^= 1;
        CHECK_STATUS(integers_read_over(buf_span(&b), t.id, 9, &clients, w, VALUES), SEFL_EPROTO);
        b.p[i] ^= 1;
    }
    CHECK_OK(integers_read_over(buf_span(&b), t.id, 9, &clients, w, VALUES));
    CHECK_STATUS(integers_read_over(buf_span(&b), t.id, 9, &clients, w, VALUES - 1), SEFL_EPROTO);
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(widths), cmocka_unit_test(damaged) };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
