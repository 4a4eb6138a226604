/* Event files: the known bytes of the first record, the framing of every record, tags and names.
 * tests/e2e/tfevents.py reads whole files. */
#include "support/check.h"
#include "support/folder.h"

#include "base/crc32c.h"
#include "base/file.h"
#include "report/tensorboard.h"

/* Two rounds; the second was skipped and has no time. */
static run_log two_rounds(run_line at[2])
{
    at[0] = run_line_of(1), at[1] = run_line_of(300);
    at[0].time = 1790000000, at[0].perplexity = 41.5, at[0].up_bytes = 1e6;
    at[1].skipped = true;
    return (run_log){ .at = at, .n = 2, .facts = run_facts_none() };
}

/* The record with brain.Event:2 and time 0, computed from the format in Python, with another
 * CRC-32C: length 24 and its check; 09 and a double; 1a, 13 and the text; the check. */
static void first_record(void **state)
{
    (void)state;
    static const uint8_t want[] = { 0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa3, 0x7f,
                                    0x4b, 0x22, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                    0x00, 0x1a, 0x0d, 0x62, 0x72, 0x61, 0x69, 0x6e, 0x2e, 0x45,
                                    0x76, 0x65, 0x6e, 0x74, 0x3a, 0x32, 0xee, 0xdf, 0x28, 0xa3 };
    sefl_buf b = { 0 };
    CHECK_OK(tensorboard_write(&b, &(run_log){ 0 }));
    assert_int_equal(b.n, sizeof want);
    assert_memory_equal(b.p, want, sizeof want);
    buf_clear(&b);
}

static uint32_t unmasked(uint32_t m)
{
    m -= 0xa282ead8u;
    return m >> 17 | m << 15;
}

static void framing(void **state)
{
    (void)state;
    run_line at[2];
    run_log l = two_rounds(at);
    sefl_buf b = { 0 }, again = { 0 };
    size_t records = 0;
    CHECK_OK(tensorboard_write(&b, &l));
    for (size_t i = 0; i < b.n; records++) {
        assert_true(b.n - i >= 16);
        uint64_t n = load_u64(b.p + i);
        assert_true(n <= b.n - i - 16);
        assert_int_equal(unmasked(load_u32(b.p + i + 8)), crc32c(span_of(b.p + i, 8)));
        assert_int_equal(unmasked(load_u32(b.p + i + 12 + n)), crc32c(span_of(b.p + i + 12, n)));
        i += 16 + n;
    }
    assert_int_equal(records, 3);
    CHECK_OK(tensorboard_write(&again, &l));
    assert_int_equal(again.n, b.n);
    assert_memory_equal(again.p, b.p, b.n);
    buf_clear(&b);
    buf_clear(&again);
}

static void tags(void **state)
{
    (void)state;
    static const char *const want[][2] = {
        { "perplexity", "model/perplexity" },
        { "word_perplexity", "model/word_perplexity" },
        { "loss", "model/loss" },
        { "epsilon_server", "privacy/epsilon_server" },
        { "clip", "privacy/clip" },
        { "2pc_seconds", "seconds/2pc_seconds" },
        { "seconds", "seconds/seconds" },
        { "up_bytes", "bytes/up_bytes" },
        { "late", "clients/late" },
    };
    char tag[TENSORBOARD_TAG];
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        tensorboard_tag(tag, want[i][0]);
        assert_string_equal(tag, want[i][1]);
    }
}

static void folders(void **state)
{
    (void)state;
    char path[PATH_MAX], tb[PATH_MAX], want[PATH_MAX];
    static const char *const names[][2] = {
        { "demo", "demo" }, { "../up", "run" },      { "", "run" },
        { "..", "run" },    { "a b/c\n", "a_b_c_" }, { "\xc3\xa9t\xc3\xa9", "__t__" },
    };
    run_line at[2];
    run_log l = two_rounds(at);
    CHECK_OK(file_path(tb, "%s", folder_path("new")));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (int twice = 0; twice < 2; twice++)
            CHECK_OK(tensorboard_save(path, tb, names[i][0], &l));
        CHECK_OK(file_path(want, "%s/%s/events.out.tfevents.1790000000.sefl", tb, names[i][1]));
        assert_string_equal(path, want);
        assert_true(file_exists(path));
    }
    CHECK_STATUS(tensorboard_save(path, "/dev/null", "demo", &l), SEFL_EEXIST);
    CHECK_STATUS(tensorboard_save(path, folder_path("none/below"), "demo", &l), SEFL_ENOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_record),
        cmocka_unit_test(framing),
        cmocka_unit_test(tags),
        cmocka_unit_test(folders),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
