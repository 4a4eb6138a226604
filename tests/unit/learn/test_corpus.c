#include "support/check.h"
#include "support/folder.h"

#include "model/corpus/corpus.h"
#include "model/corpus/partition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static vocab *words_of(const char *text)
{
    vocab *v = NULL;
    corpus_file f = { .path = folder_put("words", text, strlen(text)) };
    CHECK_OK(vocab_new(&v, VOCAB_WORDS));
    CHECK_OK(corpus_count(v, &f, NULL));
    CHECK_OK(vocab_finish(v, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    return v;
}

static corpus read_text(const vocab *v, const char *text, corpus_format format)
{
    corpus c = { 0 };
    corpus_file f = { .path = "f", .format = format };
    CHECK_OK(corpus_read_over(&c, v, &f, span_of_str(text)));
    return c;
}

static void tokens(void **state)
{
    (void)state;
    vocab *v = words_of("a b\n"); /* a 0, b 1, <eos> 2, <unk> 3 */
    corpus c = read_text(v, "b a\n\nx <unk> a", CORPUS_TEXT);
    const uint32_t want[] = { 1, 0, 2, 2, 3, 3, 0, 2 };
    assert_int_equal(c.tokens, 8);
    assert_memory_equal(c.token, want, sizeof want);
    assert_int_equal(c.lines, 3);
    assert_int_equal(c.line[1], 3);
    assert_int_equal(c.line[2], 4);
    assert_int_equal(c.line[3], 8);
    assert_int_equal(c.unknown, 1); /* a literal <unk> is known */
    assert_false(c.marked);
    assert_int_equal(c.docs, 3);
    corpus_stats s;
    CHECK_OK(corpus_stats_of(&s, &c, v));
    assert_int_equal(s.words, 5);
    assert_int_equal(s.unk, 2);
    assert_int_equal(s.types, 4);
    assert_int_equal(s.longest_line, 4);
    /* a 2/8, b 1/8, <eos> 3/8, <unk> 2/8 */
    assert_true(fabs(s.unigram_bits - (0.5 + 0.375 + 0.5 - 0.375 * log2(0.375))) < 1e-12);
    corpus_clear(&c);

    corpus_file f = { .path = "f" };
    CHECK_STATUS(corpus_read_over(&c, v, &f, span_of_str("")), SEFL_EPROTO);
    CHECK_STATUS(corpus_read_over(&c, v, &f, span_of_str(" \n\n")), SEFL_EPROTO);
    assert_string_equal(sefl_last_error(), "f: has no words");
    CHECK_STATUS(corpus_read_over(&c, v, &f, span_of_str("a\n\xff")), SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), "f:2: "));
    vocab_free(v);
}

static void articles(void **state)
{
    (void)state;
    const char *text =
        " \n = One = \n \n text = text \n = not , no blank = \n \n = = Part = = \n \n"
        " = Two words = \n \n more \n";
    vocab *v = words_of(text);
    corpus c = read_text(v, text, CORPUS_TEXT);
    assert_true(c.marked);
    assert_int_equal(c.docs, 2);
    assert_int_equal(c.doc[0], 0);
    assert_int_equal(c.doc[1], 7); /* the empty line before the heading goes with it */
    assert_int_equal(c.doc[2], c.lines);
    corpus_clear(&c);
    vocab_free(v);
}

/* The same documents for any word list, with or without "=". */
static void headings_without_equals(void **state)
{
    (void)state;
    const char *text = "a\n\n = a b = \n\nb\n = = b = = \n\n = b = \n\na\n\n = a = ";
    vocab *with = words_of("a b =\n"), *without = words_of("a b\n");
    corpus c = read_text(with, text, CORPUS_TEXT), d = read_text(without, text, CORPUS_TEXT);
    assert_true(c.marked);
    assert_int_equal(c.docs, 3);
    assert_true(d.marked);
    assert_int_equal(d.docs, c.docs);
    assert_memory_equal(d.doc, c.doc, (c.docs + 1) * sizeof *c.doc);
    corpus_clear(&c);
    corpus_clear(&d);
    vocab_free(with);
    vocab_free(without);
}

static void documents(void **state)
{
    (void)state;
    vocab *v = words_of("a b\n");
    corpus c =
        read_text(v, "{\"text\":\"a\\nb\\n\\n\"}\n{\"text\":\"\"}\n{\"text\":\"b\"}", CORPUS_JSONL);
    assert_true(c.marked);
    assert_int_equal(c.docs, 3);
    assert_int_equal(c.lines, 5); /* a, b, empty; empty; b */
    assert_int_equal(c.doc[1], 3);
    assert_int_equal(c.doc[2], 4);
    corpus_file to = { .path = folder_path("out.jsonl") };
    CHECK_OK(corpus_write(&c, v, &to));
    corpus back = { 0 };
    CHECK_OK(corpus_read(&back, v, &to, NULL));
    assert_int_equal(back.tokens, c.tokens);
    assert_memory_equal(back.token, c.token, c.tokens * sizeof *c.token);
    assert_memory_equal(back.doc, c.doc, (c.docs + 1) * sizeof *c.doc);
    assert_memory_equal(back.line, c.line, (c.lines + 1) * sizeof *c.line);
    corpus_clear(&back);
    CHECK_STATUS(corpus_write(&c, v, &(corpus_file){ .path = folder_path("o.csv") }),
                 SEFL_EUNSUPPORTED);
    corpus_clear(&c);
    vocab_free(v);
}

static void paths(void **state)
{
    (void)state;
    corpus_paths p = { 0 };
    mkdir(folder_path("set"), 0755);
    CHECK_STATUS(corpus_paths_find(&p, folder_path("set")), SEFL_ENOTFOUND);
    assert_non_null(strstr(sefl_last_error(), "train.txt"));
    folder_put("set/wiki.train.tokens", "a", 1);
    folder_put("set/valid.jsonl", "a", 1);
    CHECK_OK(corpus_paths_find(&p, folder_path("set")));
    assert_non_null(strstr(p.path[CORPUS_TRAIN], "set/wiki.train.tokens"));
    assert_non_null(strstr(p.path[CORPUS_VALID], "set/valid.jsonl"));
    assert_null(p.path[CORPUS_TEST]);
    corpus_paths_clear(&p);
    folder_put("set/train.txt", "a", 1);
    CHECK_STATUS(corpus_paths_find(&p, folder_path("set")), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "both exist"));
    CHECK_OK(corpus_paths_find(&p, folder_path("set/train.txt")));
    corpus_paths_clear(&p);
    CHECK_STATUS(corpus_paths_find(&p, folder_path("nowhere")), SEFL_ENOTFOUND);
}

static void partitions_by_hand(void **state)
{
    (void)state;
    const char *text = "a a a\nb\nc c\nd d d d d\ne\n"; /* 4 2 3 6 2 = 17 tokens */
    vocab *v = words_of(text);
    corpus c = read_text(v, text, CORPUS_TEXT);
    partition p = { 0 };
    CHECK_OK(partition_make(&p, &c, &(partition_settings){ PARTITION_CONTIGUOUS, 2, 0, 0 }));
    assert_memory_equal(p.owner, ((uint32_t[]){ 0, 0, 0, 1, 1 }), 20); /* cut at 8.5 */
    partition_clear(&p);
    CHECK_OK(partition_make(&p, &c, &(partition_settings){ PARTITION_ROUND_ROBIN, 3, 0, 0 }));
    assert_memory_equal(p.owner, ((uint32_t[]){ 0, 1, 2, 0, 1 }), 20);
    corpus mine = { 0 };
    CHECK_OK(partition_take(&mine, &c, &p, 1));
    assert_int_equal(mine.tokens, 4);
    assert_int_equal(mine.lines, 2);
    double bits;
    CHECK_OK(partition_divergence(&bits, &c, &c, v));
    assert_true(bits == 0);
    CHECK_OK(partition_divergence(&bits, &mine, &c, v));
    assert_true(bits > 0.1 && bits < 1);
    corpus_clear(&mine);
    partition_clear(&p);
    CHECK_STATUS(partition_make(&p, &c, &(partition_settings){ PARTITION_ARTICLE, 6, 0, 0 }),
                 SEFL_EINVAL);
    CHECK_STATUS(partition_make(&p, &c, &(partition_settings){ PARTITION_CONTIGUOUS, 0, 0, 0 }),
                 SEFL_EINVAL);
    CHECK_STATUS(partition_make(&p, &c, &(partition_settings){ PARTITION_DIRICHLET, 2, 0, 0 }),
                 SEFL_EINVAL);
    CHECK_STATUS(partition_make(&p, &c, &(partition_settings){ PARTITION_DIRICHLET, 2, NAN, 0 }),
                 SEFL_EINVAL);
    corpus_clear(&c);
    vocab_free(v);
}

static void faults(void **state)
{
    (void)state;
    const char *text = " = A = \n\nx y\n\n = B = \n\nz\n";
    vocab *v = words_of(text);
    corpus c = { 0 }, part = { 0 };
    partition p = { 0 };
    corpus_file f = { .path = "f", .format = CORPUS_TEXT };
    corpus_stats s;
    TEST_FAULTS(FAULT_ALLOC, st = corpus_read_over(&c, v, &f, span_of_str(text)), corpus_clear(&c));
    c = read_text(v, text, CORPUS_TEXT);
    for (int k = 0; k < 4; k++) {
        partition_settings set = { (partition_kind)k, 2, 1, 3 };
        TEST_FAULTS(FAULT_ALLOC, st = partition_make(&p, &c, &set), partition_clear(&p));
    }
    CHECK_OK(partition_make(&p, &c, &(partition_settings){ PARTITION_ARTICLE, 2, 0, 0 }));
    TEST_FAULTS(FAULT_ALLOC, st = partition_take(&part, &c, &p, 0), corpus_clear(&part));
    TEST_FAULTS(FAULT_ALLOC, st = corpus_stats_of(&s, &c, v), (void)0);
    corpus_file to = { .path = folder_path("x.jsonl") };
    TEST_FAULTS(FAULT_ALLOC, st = corpus_write(&c, v, &to), (void)0);
    TEST_FAULTS(FAULT_WRITE, st = corpus_write(&c, v, &to), (void)0);
    partition_clear(&p);
    corpus_clear(&c);
    vocab_free(v);
}

static bool stop(void *self, uint64_t done, uint64_t total)
{
    (void)done, (void)total, (void)self;
    return false;
}

static void cancelling(void **state)
{
    (void)state;
    size_t n = 3 << 20;
    char *big = malloc(n);
    assert_non_null(big);
    for (size_t i = 0; i < n; i++)
        big[i] = i % 50 == 49 ? '\n' : i % 5 == 4 ? ' ' : 'a';
    corpus_file f = { .path = folder_put("big", big, n) };
    vocab *v = NULL;
    CHECK_OK(vocab_new(&v, VOCAB_WORDS));
    CHECK_STATUS(corpus_count(v, &f, &(sefl_progress){ stop, NULL }), SEFL_ECANCELLED);
    vocab_free(v);
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens),
        cmocka_unit_test(articles),
        cmocka_unit_test(headings_without_equals),
        cmocka_unit_test(documents),
        cmocka_unit_test(paths),
        cmocka_unit_test(partitions_by_hand),
        cmocka_unit_test(faults),
        cmocka_unit_test(cancelling),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
