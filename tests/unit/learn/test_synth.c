/* The generated source: its automaton, its entropy rate by a second method, its text. */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "base/json_read.h"
#include "base/utf8.h"
#include "model/corpus/corpus.h"
#include "model/corpus/synth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double uneven[SYNTH_TOPICS] = { 0.5, 0.25, 0, 0.125, 0.0625, 0.0625 };

static void automaton(void **state)
{
    (void)state;
    synth *s = NULL;
    bool reached[4096] = { true };
    uint32_t n, states;
    CHECK_OK(synth_new(&s));
    states = synth_states(s);
    for (uint32_t again = 0; again < 64; again++) /* longer than any path */
        for (uint32_t k = 0; k < states; k++) {
            const synth_arc *a = synth_arcs(s, k, &n);
            for (uint32_t i = 0; reached[k] && i < n; i++)
                reached[a[i].next] = true;
        }
    for (uint32_t k = 0; k < states; k++) {
        const synth_arc *a = synth_arcs(s, k, &n);
        double sum = 0;
        assert_true(n > 0);
        assert_true(reached[k]);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(a[i].p > 0 && a[i].next < states && a[i].word < synth_words(s));
            assert_int_equal(a[i].next == 0, strcmp(synth_word(s, a[i].word), "<eos>") == 0);
            sum += a[i].p;
            for (uint32_t j = 0; j < i; j++) /* the word determines the next state: unifilar */
                assert_int_not_equal(a[i].word, a[j].word);
        }
        assert_true(fabs(sum - 1) < 1e-12);
    }
    assert_true(synth_words(s) > 400);
    for (uint32_t i = 1; i < synth_words(s); i++) {
        const char *w = synth_word(s, i);
        assert_true(strspn(w, "abcdefghijklmnopqrstuvwxyz,.") == strlen(w) && *w);
    }
    synth_free(s);
}

/* Stationary distribution of the whole chain by power iteration (lazy, so that it settles whatever
 * its period), then the mean of the states' entropies. The code under test counts visits. */
static double stationary_entropy(const synth *s, double *mean_line)
{
    static double p[2][4096];
    uint32_t n, states = synth_states(s);
    memset(p, 0, sizeof p);
    p[0][0] = 1;
    for (int step = 0; step < 2000; step++) {
        double *from = p[step & 1], *to = p[~step & 1];
        memset(to, 0, sizeof p[0]);
        for (uint32_t k = 0; k < states; k++) {
            const synth_arc *a = synth_arcs(s, k, &n);
            to[k] += 0.1 * from[k];
            for (uint32_t i = 0; i < n; i++)
                to[a[i].next] += 0.9 * from[k] * a[i].p;
        }
    }
    double h = 0;
    for (uint32_t k = 0; k < states; k++) {
        const synth_arc *a = synth_arcs(s, k, &n);
        for (uint32_t i = 0; i < n; i++)
            h -= a[i].p > 0 ? p[0][k] * a[i].p * log(a[i].p) : 0;
    }
    *mean_line = 1 / p[0][0];
    return h;
}

static void entropy(void **state)
{
    (void)state;
    synth *s = NULL;
    double mean;
    const double one[SYNTH_TOPICS] = { 0, 0, 1 };
    CHECK_OK(synth_new(&s));
    assert_true(fabs(stationary_entropy(s, &mean) - synth_entropy(s)) < 1e-9);
    assert_true(fabs(mean - synth_line_tokens(s)) < 1e-6);
    double even = synth_entropy(s);
    CHECK_OK(synth_mix(s, uneven));
    assert_true(fabs(stationary_entropy(s, &mean) - synth_entropy(s)) < 1e-9);
    assert_true(synth_entropy(s) < even);
    CHECK_OK(synth_mix(s, one));
    assert_true(fabs(stationary_entropy(s, &mean) - synth_entropy(s)) < 1e-9);
    /* knowing the topic saves exactly log(topics) nats per line */
    assert_true(fabs((even - synth_entropy(s)) * mean - log(SYNTH_TOPICS)) < 1e-9);
    CHECK_STATUS(synth_mix(s, (double[SYNTH_TOPICS]){ 0.5 }), SEFL_EINVAL);
    CHECK_STATUS(synth_mix(s, (double[SYNTH_TOPICS]){ 2, -1 }), SEFL_EINVAL);
    CHECK_STATUS(synth_mix(s, (double[SYNTH_TOPICS]){ NAN, 1 }), SEFL_EINVAL);
    synth_free(s);
}

/* The source's loss on its own text is within five standard errors of the entropy rate, where a
 * line is one independent sample of nats - h * tokens. */
static void empirical(void **state)
{
    (void)state;
    synth *s = NULL;
    seeded gen;
    sefl_buf line = { 0 };
    double sum = 0, squares = 0, nats = 0;
    uint64_t tokens = 0, scored = 0, lines = test_count(10000, 500000);
    test_seed(&gen, "synth empirical");
    CHECK_OK(synth_new(&s));
    CHECK_OK(synth_mix(s, uneven));
    for (uint64_t i = 0; i < lines; i++) {
        double cost = 0;
        uint64_t n = 0;
        buf_reset(&line);
        CHECK_OK(synth_line(s, NULL, &line, &tokens, &gen));
        CHECK_OK(synth_score(s, span_of(line.p, line.n - 1), &cost, &n));
        nats += cost, scored += n;
        double d = cost - synth_entropy(s) * (double)n;
        sum += d, squares += d * d;
    }
    assert_int_equal(tokens, scored);
    double se = sqrt(squares / (double)lines) / sqrt((double)lines);
    double rate = nats / (double)tokens;
    print_message("rate %.6f, exact %.6f, mean line %.3f of %.3f\n", rate, synth_entropy(s),
                  (double)tokens / (double)lines, synth_line_tokens(s));
    assert_true(fabs(sum / (double)lines) < 5 * se);
    assert_true(fabs(rate / synth_entropy(s) - 1) < 0.01);
    assert_true(fabs((double)tokens / (double)lines / synth_line_tokens(s) - 1) < 0.02);
    synth_free(s);
    buf_clear(&line);
}

/* Chi-square over all transitions; arcs expected fewer than 5 times are pooled within their state.
 * Gives the excess over the degrees of freedom in standard deviations. */
static double chi_square(const synth *truth, const synth *model, uint64_t lines, seeded *gen)
{
    static uint32_t seen[4096][128];
    sefl_buf b = { 0 };
    uint64_t tokens = 0;
    uint32_t n, states = synth_states(truth);
    memset(seen, 0, sizeof seen);
    for (uint64_t l = 0; l < lines; l++) {
        buf_reset(&b);
        CHECK_OK(synth_line(truth, NULL, &b, &tokens, gen));
        sefl_span text = buf_span(&b), word;
        uint32_t k = 0;
        do {
            if (!utf8_word(&text, &word))
                word = span_of_str("<eos>");
            const synth_arc *a = synth_arcs(truth, k, &n);
            uint32_t i = 0;
            for (; i < n; i++) {
                const char *w = synth_word(truth, a[i].word);
                if (strlen(w) == word.n && memcmp(w, word.p, word.n) == 0)
                    break;
            }
            assert_true(i < n);
            seen[k][i]++;
            k = a[i].next;
        } while (k != 0);
    }
    double x2 = 0, freedom = 0;
    for (uint32_t k = 0; k < states; k++) {
        const synth_arc *a = synth_arcs(model, k, &n);
        double total = 0, rest = 0, rest_seen = 0;
        assert_true(n <= 128);
        for (uint32_t i = 0; i < n; i++)
            total += seen[k][i];
        unsigned cells = 0;
        for (uint32_t i = 0; i < n; i++) {
            double want = total * a[i].p;
            if (want < 5) {
                rest += want, rest_seen += seen[k][i];
                continue;
            }
            x2 += (seen[k][i] - want) * (seen[k][i] - want) / want;
            cells++;
        }
        if (rest >= 5) {
            x2 += (rest_seen - rest) * (rest_seen - rest) / rest;
            cells++;
        }
        freedom += cells > 1 ? cells - 1 : 0;
    }
    buf_clear(&b);
    print_message("chi-square %.1f, %g degrees of freedom\n", x2, freedom);
    return (x2 - freedom) / sqrt(2 * freedom);
}

static void transitions(void **state)
{
    (void)state;
    synth *s = NULL, *wrong = NULL;
    seeded gen;
    uint64_t lines = test_count(10000, 500000);
    test_seed(&gen, "synth transitions");
    CHECK_OK(synth_new(&s));
    CHECK_OK(synth_new(&wrong));
    CHECK_OK(synth_mix(s, (double[SYNTH_TOPICS]){ 0.2, 0.2, 0.2, 0.2, 0.1, 0.1 }));
    assert_true(fabs(chi_square(s, s, lines, &gen)) < 5);
    assert_true(chi_square(s, wrong, lines, &gen) > 10); /* and it can fail */
    synth_free(s);
    synth_free(wrong);
}

static void scoring(void **state)
{
    (void)state;
    synth *s = NULL;
    double nats = 0;
    uint64_t n = 0;
    CHECK_OK(synth_new(&s));
    CHECK_OK(synth_score(s, span_of_str("offshore , a sailor mends the net ."), &nats, &n));
    assert_int_equal(n, 9);
    /* by hand: 1/6 * 6/11 | 1 | 0.2 | 0.65/H6 | 0.6*0.5/H4 | 0.4 | 0.7*0.6/H6 | 0.5 | 0.65 */
    double h4 = 25.0 / 12, h6 = 2.45;
    double p = 1.0 / 6 * 6 / 11 * 0.2 * 0.65 / h6 * 0.3 / h4 * 0.4 * 0.42 / h6 * 0.5 * 0.65;
    assert_true(fabs(nats + log(p)) < 1e-12);
    CHECK_STATUS(synth_score(s, span_of_str("offshore , a sailors mend the net ."), &nats, &n),
                 SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), "word 4"));
    CHECK_STATUS(synth_score(s, span_of_str("offshore , a sailor mends the net"), &nats, &n),
                 SEFL_EPROTO);
    CHECK_STATUS(synth_score(s, span_of_str("offshore , a sailor near the bay mend"), &nats, &n),
                 SEFL_EPROTO);
    CHECK_STATUS(synth_score(s, span_of_str(""), &nats, &n), SEFL_EPROTO);
    CHECK_STATUS(synth_score(s, span_of_str("downtown , a baker wraps a seal ."), &nats, &n),
                 SEFL_EPROTO);
    assert_int_equal(n, 9); /* failures add nothing */
    CHECK_OK(synth_mix(s, (double[SYNTH_TOPICS]){ 0, 1 }));
    CHECK_STATUS(synth_score(s, span_of_str("offshore , a sailor mends the net ."), &nats, &n),
                 SEFL_EPROTO);
    synth_free(s);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lines of the buffer (ended by NUL), sorted. */
static char **sorted_lines(sefl_buf *b, size_t *n)
{
    char **list = malloc((b->n + 1) * sizeof *list);
    assert_non_null(list);
    *n = 0;
    for (char *p = strtok((char *)b->p, "\n"); p; p = strtok(NULL, "\n"))
        list[(*n)++] = p;
    qsort(list, *n, sizeof *list, by_text);
    return list;
}

static void on_disk(void **state)
{
    (void)state;
    synth_settings set = { .clients = 3, .tokens = 5000, .seed = 9 };
    synth_report r, again;
    CHECK_OK(synth_write(folder_path("s"), &set, &r, NULL));
    CHECK_OK(synth_write(folder_path("t"), &set, &again, NULL));
    static const char *const names[] = { "train.txt", "valid.txt", "test.txt", "vocab.txt",
                                         "meta.json" };
    char path[64];
    for (int i = 0; i < 5; i++) { /* same settings, same bytes */
        sefl_buf a = { 0 }, b = { 0 };
        snprintf(path, sizeof path, "s/%s", names[i]);
        CHECK_OK(file_read(&a, folder_path(path), 1 << 22));
        path[0] = 't';
        CHECK_OK(file_read(&b, folder_path(path), 1 << 22));
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.p, b.p, a.n);
        if (i < 3) { /* the pooled text is that of the clients, and no line is lost */
            size_t na, nb;
            buf_reset(&b);
            for (int c = 0; c < 3; c++) {
                snprintf(path, sizeof path, "s/client-%03d/%s", c, names[i]);
                CHECK_OK(file_read(&b, folder_path(path), 1 << 22));
            }
            assert_int_equal(a.n, b.n);
            CHECK_OK(wr_u8(&a, 0));
            CHECK_OK(wr_u8(&b, 0));
            char **la = sorted_lines(&a, &na), **lb = sorted_lines(&b, &nb);
            assert_int_equal(na, nb);
            assert_int_equal(na, r.lines[i]);
            for (size_t k = 0; k < na; k++)
                assert_string_equal(la[k], lb[k]);
            free(la);
            free(lb);
        }
        buf_clear(&a);
        buf_clear(&b);
    }
    vocab *v = NULL;
    CHECK_OK(
        vocab_read(&v, folder_path("s/vocab.txt"), &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    assert_int_equal(vocab_size(v), r.words);
    for (int i = 0; i < 3; i++) {
        corpus c = { 0 };
        snprintf(path, sizeof path, "s/%s", names[i]);
        CHECK_OK(corpus_read(&c, v, &(corpus_file){ .path = folder_path(path) }, NULL));
        assert_int_equal(c.tokens, r.tokens[i]);
        assert_int_equal(c.lines, r.lines[i]);
        assert_int_equal(c.unknown, 0);
        assert_true(c.tokens >= (i == 0 ? 5000u : 500u) && c.tokens < (i == 0 ? 5600u : 1000u));
        corpus_clear(&c);
    }
    vocab_free(v);
    sefl_buf meta = { 0 };
    CHECK_OK(file_read(&meta, folder_path("s/meta.json"), 1 << 20));
    jread j = jread_over(buf_span(&meta));
    CHECK_OK(jread_skip(&j));
    CHECK_OK(jread_end(&j));
    CHECK_OK(wr_u8(&meta, 0));
    assert_non_null(strstr((char *)meta.p, "\"best_perplexity\":4."));
    buf_clear(&meta);
    CHECK_STATUS(synth_write(folder_path("u"), &(synth_settings){ .tokens = 1 }, &r, NULL),
                 SEFL_EINVAL);
    CHECK_STATUS(synth_write(folder_path("no/where"), &set, &r, NULL), SEFL_ENOTFOUND);
    set = (synth_settings){ .clients = 1, .tokens = 20 };
    TEST_FAULTS(FAULT_ALLOC, st = synth_write(folder_path("f"), &set, &r, NULL), (void)0);
    TEST_FAULTS(FAULT_WRITE, st = synth_write(folder_path("f"), &set, &r, NULL), (void)0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(automaton),   cmocka_unit_test(entropy), cmocka_unit_test(empirical),
        cmocka_unit_test(transitions), cmocka_unit_test(scoring), cmocka_unit_test(on_disk),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
