/* Random corpora: nothing is lost or duplicated in files, orders and partitions. */
#include "support/check.h"
#include "support/folder.h"

#include "model/corpus/partition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Text with articles, empty lines, rare and frequent words. */
static void random_text(sefl_buf *b, seeded *g, bool headings)
{
    unsigned articles = 1 + (unsigned)seeded_below(g, 12);
    buf_reset(b);
    for (unsigned a = 0; a < articles; a++) {
        if (headings)
            CHECK_OK(wr_fmt(b, " \n = Title %u = \n \n", a));
        for (unsigned l = (unsigned)seeded_below(g, 9) + 1; l > 0; l--) {
            for (unsigned w = (unsigned)seeded_below(g, 12); w > 0; w--)
                CHECK_OK(wr_fmt(b, " w%u", (unsigned)(seeded_below(g, 30) * seeded_below(g, 30))));
            CHECK_OK(wr_fmt(b, "%s\n", seeded_below(g, 3) ? "" : " \t"));
        }
    }
    CHECK_OK(wr_fmt(b, "the end\n"));
}

static vocab *words_of(const sefl_buf *text, vocab_settings s)
{
    vocab *v = NULL;
    CHECK_OK(vocab_new(&v, VOCAB_WORDS));
    corpus_file f = { .path = folder_put("words", text->p, text->n) };
    CHECK_OK(corpus_count(v, &f, NULL));
    CHECK_OK(vocab_finish(v, &s));
    return v;
}

static void check_same(const corpus *a, const corpus *b)
{
    assert_int_equal(a->tokens, b->tokens);
    assert_int_equal(a->lines, b->lines);
    assert_int_equal(a->docs, b->docs);
    assert_memory_equal(a->token, b->token, a->tokens * sizeof *a->token);
    assert_memory_equal(a->line, b->line, (a->lines + 1) * sizeof *a->line);
    assert_memory_equal(a->doc, b->doc, (a->docs + 1) * sizeof *a->doc);
}

/* Every line goes to one client, whole and in the original order; documents stay whole where
 * promised. */
static void check_partition(const corpus *c, const partition_settings *s)
{
    partition p = { 0 }, again = { 0 };
    CHECK_OK(partition_make(&p, c, s));
    CHECK_OK(partition_make(&again, c, s));
    assert_memory_equal(p.owner, again.owner, c->lines * sizeof *p.owner); /* by the seed alone */
    partition_clear(&again);
    size_t tokens = 0, lines = 0;
    for (uint32_t i = 0; i < s->clients; i++) {
        corpus part = { 0 };
        CHECK_OK(partition_take(&part, c, &p, i));
        size_t k = 0;
        for (size_t l = 0; l < c->lines; l++) {
            if (p.owner[l] != i)
                continue;
            size_t n = c->line[l + 1] - c->line[l];
            assert_int_equal(part.line[k + 1] - part.line[k], n);
            assert_memory_equal(part.token + part.line[k], c->token + c->line[l], n * 4);
            k++;
        }
        assert_int_equal(k, part.lines);
        assert_int_equal(part.doc[part.docs], part.lines);
        tokens += part.tokens;
        lines += part.lines;
        if (s->kind == PARTITION_DIRICHLET || s->kind == PARTITION_ARTICLE)
            assert_true(part.docs > 0); /* no client is empty */
        corpus_clear(&part);
    }
    assert_int_equal(tokens, c->tokens);
    assert_int_equal(lines, c->lines);
    for (size_t d = 0; d < c->docs; d++)
        for (size_t l = c->doc[d]; l < c->doc[d + 1]; l++) {
            assert_true(p.owner[l] < s->clients);
            if (s->kind == PARTITION_ARTICLE || s->kind == PARTITION_DIRICHLET)
                assert_int_equal(p.owner[l], p.owner[c->doc[d]]);
        }
    if (s->kind == PARTITION_CONTIGUOUS)
        for (size_t l = 1; l < c->lines; l++)
            assert_true(p.owner[l] >= p.owner[l - 1]);
    partition_clear(&p);
}

static void splitting(void **state)
{
    (void)state;
    seeded g;
    sefl_buf text = { 0 };
    test_seed(&g, "corpus splitting");
    for (unsigned long trial = test_count(100, 20000); trial > 0; trial--) {
        bool headings = seeded_below(&g, 2);
        random_text(&text, &g, headings);
        vocab *v = words_of(&text, (vocab_settings){ .order = (vocab_order)seeded_below(&g, 3),
                                                     .block = 1 + (uint32_t)seeded_below(&g, 9) });
        corpus c = { 0 }, back = { 0 };
        CHECK_OK(corpus_read_over(&c, v, &(corpus_file){ .path = "t", .format = CORPUS_TEXT },
                                  buf_span(&text)));
        assert_int_equal(c.marked, headings);
        assert_int_equal(c.unknown, 0);
        corpus_file to[2] = { { .path = folder_path("out.txt") },
                              { .path = folder_path("out.jsonl") } };
        for (int i = 0; i < 2; i++) { /* through both formats and back */
            CHECK_OK(corpus_write(&c, v, &to[i]));
            CHECK_OK(corpus_read(&back, v, &to[i], NULL));
            check_same(&c, &back);
            corpus_clear(&back);
        }
        for (int k = 0; k < 4; k++) {
            partition_settings s = { .kind = (partition_kind)k,
                                     .clients = 1 + (uint32_t)seeded_below(&g, c.docs),
                                     .alpha = 0.01 + 3 * seeded_unit(&g),
                                     .seed = seeded_u64(&g) };
            check_partition(&c, &s);
        }
        corpus_clear(&c);
        vocab_free(v);
    }
    buf_clear(&text);
}

static int by_bytes(const void *a, const void *b)
{
    const sefl_span *x = a, *y = b;
    int d = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return d ? d : x->n < y->n ? -1 : x->n > y->n;
}

/* The three orders have the same words. */
static void orders_are_permutations(void **state)
{
    (void)state;
    seeded g;
    sefl_buf text = { 0 };
    test_seed(&g, "vocabulary orders");
    for (unsigned long trial = test_count(100, 10000); trial > 0; trial--) {
        sefl_span words[3][1024];
        vocab *v[3];
        uint32_t block = 1 + (uint32_t)seeded_below(&g, 40);
        uint32_t max = seeded_below(&g, 2) ? 3 + (uint32_t)seeded_below(&g, 60) : 0;
        random_text(&text, &g, true);
        for (int o = 0; o < 3; o++) {
            v[o] = words_of(&text, (vocab_settings){ (vocab_order)o, block, max, 0 });
            assert_true(vocab_size(v[o]) <= 1024 && (!max || vocab_size(v[o]) <= max));
            for (uint32_t i = 0; i < vocab_size(v[o]); i++)
                words[o][i] = vocab_word(v[o], i);
            qsort(words[o], vocab_size(v[o]), sizeof words[o][0], by_bytes);
            assert_int_equal(vocab_size(v[o]), vocab_size(v[0]));
            for (uint32_t i = 0; i < vocab_size(v[o]); i++)
                assert_int_equal(by_bytes(&words[o][i], &words[0][i]), 0);
        }
        for (uint32_t i = 1; i < vocab_size(v[VOCAB_FREQUENCY]); i++)
            assert_true(vocab_count_of(v[VOCAB_FREQUENCY], i) <=
                        vocab_count_of(v[VOCAB_FREQUENCY], i - 1));
        for (uint32_t r = 0; r < vocab_size(v[0]); r++) { /* interleaved is frequency, placed */
            sefl_span a = vocab_word(v[VOCAB_FREQUENCY], r);
            sefl_span b =
                vocab_word(v[VOCAB_INTERLEAVED], vocab_interleave(r, vocab_size(v[0]), block));
            assert_int_equal(by_bytes(&a, &b), 0);
        }
        for (int o = 0; o < 3; o++)
            vocab_free(v[o]);
    }
    buf_clear(&text);
}

/* Mean and variance of Dirichlet shares, measured on the partition: a client's expected share of
 * the documents is 1/K, and its variance shrinks as alpha grows: Var p = (K-1)/(K^2 (K alpha +
 * 1)). */
static void skew(void **state)
{
    (void)state;
    enum { DOCS = 2000, K = 4 };
    sefl_buf text = { 0 };
    for (int i = 0; i < DOCS; i++)
        CHECK_OK(wr_fmt(&text, "x\n"));
    vocab *v = words_of(&text, (vocab_settings){ 0 });
    corpus c = { 0 };
    CHECK_OK(corpus_read_over(&c, v, &(corpus_file){ .path = "t", .format = CORPUS_TEXT },
                              buf_span(&text)));
    for (int a = 0; a < 2; a++) {
        double alpha = a ? 10 : 0.3, sum = 0, squares = 0;
        unsigned trials = (unsigned)test_count(300, 3000);
        for (unsigned t = 0; t < trials; t++) {
            partition p = { 0 };
            size_t mine = 0;
            CHECK_OK(
                partition_make(&p, &c, &(partition_settings){ PARTITION_DIRICHLET, K, alpha, t }));
            for (size_t l = 0; l < c.lines; l++)
                mine += p.owner[l] == 1;
            double share = (double)mine / DOCS;
            sum += share, squares += share * share;
            partition_clear(&p);
        }
        double mean = sum / trials, var = squares / trials - mean * mean;
        double want = (K - 1.0) / (K * K * (K * alpha + 1));
        print_message("alpha %g: mean %.4f, variance %.5f of %.5f\n", alpha, mean, var, want);
        assert_true(mean > 0.25 - 5 * sqrt(want / trials) && mean < 0.25 + 5 * sqrt(want / trials));
        assert_true(var > 0.7 * want && var < 1.3 * want);
    }
    corpus_clear(&c);
    vocab_free(v);
    buf_clear(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splitting),
        cmocka_unit_test(orders_are_permutations),
        cmocka_unit_test(skew),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
