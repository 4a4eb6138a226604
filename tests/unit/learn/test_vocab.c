#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "model/corpus/corpus.h"

#include <stdlib.h>
#include <string.h>

static vocab *of_text(const char *text, vocab_settings s)
{
    vocab *v = NULL;
    corpus_file f = { .path = folder_put("text", text, strlen(text)) };
    CHECK_OK(vocab_new(&v, VOCAB_WORDS));
    CHECK_OK(corpus_count(v, &f, NULL));
    CHECK_OK(vocab_finish(v, &s));
    return v;
}

static vocab *of_list(const char *text, vocab_settings s)
{
    vocab *v = NULL;
    CHECK_OK(vocab_read_over(&v, span_of_str(text), "list", &s));
    return v;
}

/* The words in order, with spaces between. */
static void check_words(const vocab *v, const char *want)
{
    sefl_buf b = { 0 };
    for (uint32_t i = 0; i < vocab_size(v); i++) {
        sefl_span w = vocab_word(v, i);
        uint32_t id = UINT32_MAX;
        assert_true(vocab_find(v, w, &id));
        assert_int_equal(id, i);
        CHECK_OK(wr_fmt(&b, "%s%.*s", i ? " " : "", (int)w.n, (const char *)w.p));
    }
    CHECK_OK(wr_u8(&b, 0));
    assert_string_equal((char *)b.p, want);
    buf_clear(&b);
}

static void orders(void **state)
{
    (void)state;
    const char *text = "b a\na c a\n\na b <unk>\n"; /* <eos> 4, a 4, b 2, c 1, <unk> 1 */
    vocab *v = of_text(text, (vocab_settings){ .order = VOCAB_APPEARANCE });
    check_words(v, "b a <eos> c <unk>");
    assert_int_equal(vocab_count_of(v, 1), 4);
    assert_int_equal(vocab_eos(v), 2);
    assert_int_equal(vocab_unk(v), 4);
    assert_int_equal(vocab_id(v, span_of_str("zebra")), 4);
    vocab_free(v);
    v = of_text(text, (vocab_settings){ .order = VOCAB_FREQUENCY });
    check_words(v, "a <eos> b c <unk>"); /* equal counts as they came */
    vocab_free(v);
    /* blocks of 2: three blocks, the last has one row: ranks 0 1 2 | 3 4 fill places 0 and 1 */
    v = of_text(text, (vocab_settings){ .block = 2 });
    check_words(v, "a c <eos> <unk> b");
    vocab_free(v);
    v = of_text(text, (vocab_settings){ .order = VOCAB_FREQUENCY, .max_words = 4 });
    check_words(v, "a <eos> b <unk>");
    assert_int_equal(vocab_count_of(v, 3), 2); /* took c's count */
    vocab_free(v);
    v = of_text(text, (vocab_settings){ .order = VOCAB_FREQUENCY, .min_count = 3 });
    check_words(v, "a <eos> <unk>");
    assert_int_equal(vocab_count_of(v, 2), 4); /* its own, b's and c's; ties keep the first seen */
    vocab_free(v);
    v = of_text("x y\n", (vocab_settings){ .order = VOCAB_APPEARANCE });
    check_words(v, "x y <eos> <unk>");
    vocab_free(v);
}

static void lists(void **state)
{
    (void)state;
    vocab *v =
        of_list("the\nof\n<eos>\n<unk>\nsea\n", (vocab_settings){ .order = VOCAB_APPEARANCE });
    check_words(v, "the of <eos> <unk> sea");
    vocab_free(v);
    v = of_list("the\t5\nof\t9\n", (vocab_settings){ .order = VOCAB_APPEARANCE });
    check_words(v, "<unk> <eos> the of");
    vocab_free(v);
    v = of_list("the 5\nof 9\n<eos> 7\n<unk> 1", (vocab_settings){ .order = VOCAB_FREQUENCY });
    check_words(v, "of <eos> the <unk>");
    vocab_free(v);
    static const struct {
        const char *text, *why;
    } bad[] = {
        { "", "list: is empty" },
        { "a\n\nb\n", "list:2: the line has no word" },
        { "a\nb\na\n", "list:3: the word is already on line 1" },
        { "a\nb c\n", "list:2: not a vocabulary: a line has one word and at most a count" },
        { "a\nb 1 2\n", "list:2: not a vocabulary" },
        { "a 99999999999999999999999\n", "list:1: the count is too large" },
        { "a\n\xff\n", "list:2: byte 1 (0xff) is not UTF-8" },
        { "a\t-1\n", "list:1: not a vocabulary: a line has one word and at most a count" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        v = NULL;
        CHECK_STATUS(vocab_read_over(&v, span_of_str(bad[i].text), "list", &(vocab_settings){ 0 }),
                     SEFL_EPROTO);
        if (!strstr(sefl_last_error(), bad[i].why))
            fail_msg("\"%s\" is not \"%s\"", sefl_last_error(), bad[i].why);
        assert_null(v);
    }
    CHECK_STATUS(vocab_read(&v, folder_path("none"), &(vocab_settings){ 0 }), SEFL_ENOTFOUND);
    CHECK_STATUS(vocab_read_over(&v, span_of_str("<unk>\n<eos>\n"), "l", &(vocab_settings){ 0 }),
                 SEFL_EINVAL);
}

/* Exhaustive for small sizes: a permutation; the block of rank r is r mod blocks while every block
 * has room; within a block, positions ascend with rank. */
static void interleaving(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 70; n++)
        for (uint32_t l = 1; l <= 9; l++) {
            uint8_t seen[70] = { 0 };
            uint32_t blocks = (n + l - 1) / l, last = n - (blocks - 1) * l, next[70] = { 0 };
            for (uint32_t r = 0; r < n; r++) {
                uint32_t id = vocab_interleave(r, n, l);
                assert_true(id < n);
                assert_int_equal(seen[id]++, 0);
                assert_int_equal(id % l, next[id / l]++);
                if (r < last * blocks) {
                    assert_int_equal(id / l, r % blocks);
                    assert_int_equal(id % l, r / blocks);
                }
            }
        }
    /* the numbers of the design: 33,278 words in blocks of 32: 1,040 blocks, the last has 30 */
    assert_int_equal(vocab_interleave(1039, 33278, 32), 1039 * 32);
    assert_int_equal(vocab_interleave(1040, 33278, 32), 1);
    assert_int_equal(vocab_interleave(31200, 33278, 32), 30);
    assert_int_equal(vocab_interleave(33277, 33278, 32), 1038 * 32 + 31);
}

static void writing(void **state)
{
    (void)state;
    vocab *v = of_text("b a\na c a\n", (vocab_settings){ .block = 2 }), *back = NULL;
    uint8_t h[32], file_hash[32], other[32];
    sefl_buf b = { 0 };
    CHECK_OK(vocab_write(v, folder_path("v"), false));
    CHECK_OK(file_read(&b, folder_path("v"), 1000));
    sha256_of(file_hash, buf_span(&b));
    vocab_hash(v, h);
    assert_memory_equal(h, file_hash, 32); /* what sha256sum says of the file */
    vocab_settings as_listed = { .order = VOCAB_APPEARANCE };
    CHECK_OK(vocab_read(&back, folder_path("v"), &as_listed));
    vocab_hash(back, other);
    assert_memory_equal(h, other, 32);
    vocab_free(back);
    CHECK_OK(vocab_write(v, folder_path("v"), true));
    CHECK_OK(vocab_read(&back, folder_path("v"), &as_listed));
    vocab_hash(back, other);
    assert_memory_equal(h, other, 32);
    for (uint32_t i = 0; i < vocab_size(v); i++)
        assert_int_equal(vocab_count_of(v, i), vocab_count_of(back, i));
    vocab_free(back);
    back = of_text("b a\na c a\n", (vocab_settings){ .order = VOCAB_FREQUENCY });
    vocab_hash(back, other);
    assert_memory_not_equal(h, other, 32); /* the order counts */
    vocab_free(back);
    vocab_free(v);
    buf_clear(&b);
}

static void many_words(void **state)
{
    (void)state;
    vocab *v = NULL;
    char w[16];
    CHECK_OK(vocab_new(&v, VOCAB_WORDS));
    for (unsigned i = 0; i < 50000; i++) {
        snprintf(w, sizeof w, "w%u", i % 20000);
        CHECK_OK(vocab_count(v, span_of_str(w)));
    }
    CHECK_OK(vocab_finish(v, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    assert_int_equal(vocab_size(v), 20002);
    for (uint32_t i = 0; i < 20000; i++) {
        snprintf(w, sizeof w, "w%u", i);
        assert_int_equal(vocab_id(v, span_of_str(w)), i);
        assert_int_equal(vocab_count_of(v, i), i < 10000 ? 3 : 2);
    }
    vocab_free(v);
}

static void faults(void **state)
{
    (void)state;
    vocab *v = NULL;
    vocab_settings s = { .block = 2 };
    sefl_buf list = { 0 };
    for (int i = 0; i < 3000; i++)
        CHECK_OK(wr_fmt(&list, "word%d\n", i));
    TEST_FAULTS(FAULT_ALLOC, st = vocab_read_over(&v, buf_span(&list), "list", &s),
                (vocab_free(v), v = NULL));
    CHECK_OK(vocab_read_over(&v, buf_span(&list), "list", &s));
    const char *path = folder_path("w");
    TEST_FAULTS(FAULT_ALLOC, st = vocab_write(v, path, true), (void)0);
    TEST_FAULTS(FAULT_WRITE, st = vocab_write(v, path, true), (void)0);
    CHECK_OK(vocab_write(v, path, false));
    size_t before = folder_count();
    sefl_buf old = { 0 }, now = { 0 };
    CHECK_OK(file_read(&old, path, 1 << 20));
#if SEFL_FAULTS
    fault_arm(FAULT_SYNC, 1);
    CHECK_STATUS(vocab_write(v, path, true), SEFL_EIO);
    fault_disarm();
#endif
    CHECK_OK(file_read(&now, path, 1 << 20)); /* the old file, and no other file beside it */
    assert_int_equal(old.n, now.n);
    assert_memory_equal(old.p, now.p, old.n);
    assert_int_equal(folder_count(), before);
    buf_clear(&old);
    buf_clear(&now);
    buf_clear(&list);
    vocab_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders),     cmocka_unit_test(lists),   cmocka_unit_test(interleaving),
        cmocka_unit_test(many_words), cmocka_unit_test(writing), cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
