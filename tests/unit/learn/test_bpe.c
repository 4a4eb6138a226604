#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "model/corpus/bpe.h"
#include "model/corpus/corpus.h"
#include "model/corpus/tokenize.h"

#include <string.h>

#define CHECK_SAYS(text) assert_non_null(strstr(sefl_last_error(), (text)))

static const vocab_settings by_rank = { .order = VOCAB_APPEARANCE, .kind = VOCAB_BPE };

static vocab *trained(const char *text, vocab_settings s)
{
    vocab *v = NULL;
    corpus_file f = { .path = folder_put("text", text, strlen(text)) };
    CHECK_OK(vocab_new(&v, VOCAB_BPE));
    CHECK_OK(corpus_count(v, &f, NULL));
    CHECK_OK(vocab_finish(v, &s));
    return v;
}

static void check_pieces(const char *text, const char *want)
{
    sefl_span rest = span_of_str(text), piece;
    char got[512] = "";
    size_t n = 0;
    while (bpe_piece(&rest, &piece))
        n += (size_t)snprintf(got + n, sizeof got - n, "%s%.*s", n ? "|" : "", (int)piece.n,
                              (const char *)piece.p);
    assert_string_equal(got, want);
}

static void pieces(void **state)
{
    (void)state;
    check_pieces("", "");
    check_pieces("Müller, 12 Uhr.", "Müller|,| 12| Uhr|.");
    check_pieces("don't  stop", "don|'|t| | stop");
    check_pieces(" a\tb \n", " a|\t|b| \n");
    check_pieces("\t\t x", "\t\t| x");
    check_pieces("x ", "x| ");
    check_pieces("„Größe“ – 5µm «x»…", "„|Größe|“| –| 5|µm| «|x|»…");
    check_pieces("\xff\xc2", "\xff\xc2"); /* not UTF-8: letters */
    /* long runs are cut, and a piece never has more bytes than BPE_PIECE_MAX */
    char run[3 * BPE_PIECE_MAX + 1];
    memset(run, 'a', sizeof run - 1), run[sizeof run - 1] = 0;
    for (const char *first = "a \t"; *first; first++) {
        run[0] = *first;
        sefl_span rest = span_of_str(run), piece;
        size_t sum = 0;
        for (; bpe_piece(&rest, &piece); sum += piece.n)
            assert_true(piece.n > 0 && piece.n <= BPE_PIECE_MAX);
        assert_int_equal(sum, sizeof run - 1);
    }
}

static void shown(void **state)
{
    (void)state;
    char text[BPE_SHOWN_MAX];
    uint8_t back[BPE_PIECE_MAX];
    size_t n;
    assert_int_equal(bpe_show(text, span_of_str(" M\xc3\xbcller_\\")), 22);
    assert_string_equal(text, "_M\\xc3\\xbcller\\x5f\\x5c");
    for (unsigned c = 0; c < 256; c++) {
        uint8_t byte = (uint8_t)c;
        size_t k = bpe_show(text, span_of(&byte, 1));
        assert_true(bpe_unshow(back, &n, span_of(text, k)));
        assert_true(n == 1 && back[0] == byte);
    }
    const char *bad[] = {
        "", " ", "\\", "\\x", "\\x4", "\\x41", "\\x20", "\\xC3", "\\xg0", "a\tb"
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(bpe_unshow(back, &n, span_of_str(bad[i])));
    char line[BPE_PIECE_MAX + 2];
    memset(line, 'a', sizeof line);
    assert_true(bpe_unshow(back, &n, span_of(line, BPE_PIECE_MAX)));
    assert_false(bpe_unshow(back, &n, span_of(line, BPE_PIECE_MAX + 1)));
}

static void check_encoded(const vocab *v, const char *text, const char *want)
{
    bpe_encoder *e = NULL;
    const uint32_t *ids;
    size_t n, at = 0;
    char got[512] = "", one[BPE_SHOWN_MAX];
    CHECK_OK(bpe_encoder_new(&e, v));
    CHECK_OK(bpe_encode(e, span_of_str(text), &ids, &n));
    for (size_t i = 0; i < n; i++) {
        bpe_show(one, vocab_word(v, ids[i]));
        at += (size_t)snprintf(got + at, sizeof got - at, "%s%s", i ? " " : "", one);
    }
    assert_string_equal(got, want);
    bpe_encoder_free(e);
}

static void training(void **state)
{
    (void)state;
    /* "low" 3 times, "lower" twice: lo 5, low 5, then " low" 4 (er and lower 2) */
    vocab *v = trained("low low lower\nlow lower\n",
                       (vocab_settings){ .order = VOCAB_APPEARANCE, .max_words = 260 });
    assert_int_equal(vocab_size(v), 260);
    assert_int_equal(vocab_kind_of(v), VOCAB_BPE);
    assert_int_equal(vocab_unk(v), VOCAB_NO_UNK);
    uint32_t id;
    assert_true(vocab_find(v, span_of_str("lo"), &id) && vocab_rank(v, id) == 256);
    assert_true(vocab_find(v, span_of_str("low"), &id) && vocab_rank(v, id) == 257);
    assert_true(vocab_find(v, span_of_str(" low"), &id) && vocab_rank(v, id) == 258);
    assert_int_equal(vocab_count_of(v, id), 3);
    assert_int_equal(vocab_count_of(v, vocab_eos(v)), 2);
    assert_true(vocab_rank(v, vocab_eos(v)) == UINT32_MAX);
    check_encoded(v, "lower  low!", "low e r _ _low !");
    vocab_free(v);
    /* it ends when no pair occurs twice */
    v = trained("ab ab\n", by_rank);
    assert_int_equal(vocab_size(v), 258);
    check_encoded(v, "aab", "a ab");
    vocab_free(v);
    CHECK_OK(vocab_new(&v, VOCAB_BPE));
    CHECK_STATUS(vocab_finish(v, &(vocab_settings){ .max_words = 257 }), SEFL_EINVAL);
    CHECK_SAYS("258");
    vocab_free(v);
}

static void corpora(void **state)
{
    (void)state;
    const char *text = " = Title = \n \n  indented  twice \t\n\nMüller, Ümit\n";
    corpus_file f = { .path = folder_put("text", text, strlen(text)) };
    vocab *v = trained(text, by_rank);
    corpus c = { 0 }, again = { 0 };
    CHECK_OK(corpus_read(&c, v, &f, NULL));
    assert_int_equal(c.lines, 5);
    assert_int_equal(c.words, 3 + 2 + 2 + 5);
    assert_int_equal(c.unknown, 0);
    assert_int_equal(c.line[2] - c.line[1], 1); /* white space alone: an empty line */
    assert_true(c.marked && c.docs == 1);
    corpus_file to = { .path = folder_path("out") };
    CHECK_OK(corpus_write(&c, v, &to));
    sefl_buf b = { 0 };
    CHECK_OK(file_read(&b, to.path, 1 << 20));
    const char *want = " = Title =\n\n  indented  twice\n\nMüller, Ümit\n";
    assert_int_equal(b.n, strlen(want));
    assert_memory_equal(b.p, want, b.n);
    CHECK_OK(corpus_read(&again, v, &to, NULL));
    assert_int_equal(again.tokens, c.tokens);
    assert_memory_equal(again.token, c.token, c.tokens * sizeof *c.token);
    corpus_stats s;
    CHECK_OK(corpus_stats_of(&s, &c, v));
    assert_true(s.words == 7 && s.unk == 0 && s.tokens == c.tokens);
    assert_true(corpus_word_perplexity(&c, 0) == 1);
    buf_clear(&b);
    corpus_clear(&c);
    corpus_clear(&again);
    vocab_free(v);
}

static void files(void **state)
{
    (void)state;
    vocab *v =
        trained("low low lower\nlow lower\n", (vocab_settings){ .block = 7, .max_words = 260 });
    vocab *back = NULL;
    uint8_t h[SHA256_BYTES], other[SHA256_BYTES];
    vocab_hash(v, h);
    for (int counts = 0; counts < 2; counts++) {
        CHECK_OK(vocab_write(v, folder_path("v"), counts));
        CHECK_OK(vocab_read(&back, folder_path("v"), &by_rank));
        vocab_hash(back, other);
        assert_memory_equal(h, other, sizeof h);
        for (uint32_t i = 0; i < vocab_size(v); i++) {
            assert_int_equal(vocab_rank(v, i), vocab_rank(back, i));
            assert_int_equal(counts ? vocab_count_of(v, i) : 0, vocab_count_of(back, i));
        }
        vocab_free(back);
        if (counts == 0) {
            CHECK_OK(file_sha256(other, NULL, folder_path("v")));
            assert_memory_equal(h, other, sizeof h);
        }
    }
    /* another order: the same tokens; the file's kind must be the expected one */
    CHECK_OK(vocab_read(&back, folder_path("v"),
                        &(vocab_settings){ .order = VOCAB_FREQUENCY, .kind = VOCAB_ANY }));
    assert_int_equal(vocab_count_of(back, 0), 3); /* " low" */
    vocab_free(back);
    back = NULL;
    CHECK_STATUS(vocab_read(&back, folder_path("v"), &(vocab_settings){ 0 }), SEFL_EPROTO);
    CHECK_SAYS("vocab.kind to bpe");
    CHECK_STATUS(vocab_read_over(&back, span_of_str("the\nof\n"), "list", &by_rank), SEFL_EPROTO);
    CHECK_SAYS("--kind bpe");
    CHECK_STATUS(vocab_read(&back, folder_path("v"),
                            &(vocab_settings){ .kind = VOCAB_BPE, .max_words = 259 }),
                 SEFL_EINVAL);
    CHECK_SAYS("cannot be cut");
    vocab_free(v);
}

/* A file of 256 bytes, <eos> and `tokens`, with one line replaced. */
static void file_of(sefl_buf *b, const char *head, const char *line, unsigned at,
                    const char *tokens)
{
    buf_reset(b);
    CHECK_OK(wr_fmt(b, "%s\n", head));
    for (unsigned c = 0; c < 257; c++) {
        char text[BPE_SHOWN_MAX] = "<eos>\t-";
        uint8_t byte = (uint8_t)c;
        if (c < 256) {
            size_t n = bpe_show(text, span_of(&byte, 1));
            snprintf(text + n, 16, "\t%u", c);
        }
        CHECK_OK(wr_fmt(b, "%s\n", line && at == c ? line : text));
    }
    CHECK_OK(wr_fmt(b, "%s", tokens));
}

static void bad_files(void **state)
{
    (void)state;
    const struct {
        const char *head, *line;
        unsigned at;
        const char *tokens, *says;
    } bad[] = {
        { "sefl-bpe 2 258", NULL, 0, "ab\t256\n", "version 1 only" },
        { "sefl-bpe 1", NULL, 0, "ab\t256\n", "number of tokens" },
        { "sefl-bpe 1 257", NULL, 0, "", "number of tokens" },
        { "sefl-bpe 1 0258", NULL, 0, "ab\t256\n", "number of tokens" },
        { "sefl-bpe 1 99999999", NULL, 0, "ab\t256\n", "number of tokens" },
        { "sefl-bpe 1 258", NULL, 0, "", "has 257 tokens, its first line names 258" },
        { "sefl-bpe 1 258", NULL, 0, "ab\t256\nba\t257\n", "more than 258" },
        { "sefl-bpe 1 258", NULL, 0, "ab\t257\n", "f:259: the rank must be a number below 257" },
        { "sefl-bpe 1 258", NULL, 0, "ab\n", "the rank must be" },
        { "sefl-bpe 1 258", NULL, 0, "ab\t-\n", "the rank must be" },
        { "sefl-bpe 1 258", NULL, 0, "ab\t255\n", "rank 255 is not unique" },
        { "sefl-bpe 1 258", NULL, 0, "ab\t256\tx\n", "count" },
        { "sefl-bpe 1 258", NULL, 0, "ab\t256\t1\t1\n", "count" },
        { "sefl-bpe 1 258", NULL, 0, "a b\t256\n", "not a token" },
        { "sefl-bpe 1 258", NULL, 0, "\n", "not a token" },
        { "sefl-bpe 1 259", NULL, 0, "ab\t256\nab\t257\n", "already on line 259" },
        { "sefl-bpe 1 259", NULL, 0, "ab\t256\nba\t256\n", "rank 256 is not unique" },
        { "sefl-bpe 1 258", NULL, 0, "abc\t256\n", "f:259: no two tokens of lower rank" },
        { "sefl-bpe 1 259", NULL, 0, "abc\t256\nbc\t257\n", "f:259: no two tokens" },
        { "sefl-bpe 1 258", "b\t97", 97, "ab\t256\n", "the rank of a byte is its value, 98" },
        { "sefl-bpe 1 258", "cc\t97", 97, "ab\t256\n", "ranks 0 to 255" },
        { "sefl-bpe 1 258", "<eos>\t256", 256, "ab\t256\n", "for <eos> the sign -" },
        { "sefl-bpe 1 258", "<eos>\t-", 5, "ab\t256\n", "already on line 7" },
    };
    sefl_buf b = { 0 };
    vocab *v = NULL;
    file_of(&b, "sefl-bpe 1 259", NULL, 0, "ab\t256\t7\nabc\t257\n");
    CHECK_OK(vocab_read_over(&v, buf_span(&b), "f", &by_rank));
    check_encoded(v, "abcab", "abc ab");
    vocab_free(v);
    v = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        file_of(&b, bad[i].head, bad[i].line, bad[i].at, bad[i].tokens);
        CHECK_STATUS(vocab_read_over(&v, buf_span(&b), "f", &by_rank), SEFL_EPROTO);
        CHECK_SAYS(bad[i].says);
        assert_null(v);
    }
    buf_clear(&b);
}

static sefl_status train_once(void)
{
    vocab *v = NULL;
    sefl_status st = vocab_new(&v, VOCAB_BPE);
    if (st == SEFL_OK)
        st = vocab_count(v, span_of_str(" abab"));
    if (st == SEFL_OK)
        st = vocab_finish(v, &by_rank);
    vocab_free(v);
    return st;
}

static sefl_status encode_once(const vocab *v)
{
    bpe_encoder *e = NULL;
    const uint32_t *ids;
    size_t n;
    sefl_status st = bpe_encoder_new(&e, v);
    if (st == SEFL_OK)
        st = bpe_encode(e, span_of_str("lower low"), &ids, &n);
    bpe_encoder_free(e);
    return st;
}

static void faults(void **state)
{
    (void)state;
    vocab *v = trained("low low lower\nlow lower\n", by_rank), *back = NULL;
    sefl_buf out = { 0 };
    CHECK_OK(vocab_write(v, folder_path("v"), false));
    TEST_FAULTS(FAULT_ALLOC, st = vocab_read(&back, folder_path("v"), &by_rank),
                (vocab_free(back), back = NULL));
    TEST_FAULTS(FAULT_ALLOC, st = encode_once(v), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = train_once(), (void)0);
    const uint32_t wrong[] = { vocab_eos(v), vocab_size(v) };
    CHECK_STATUS(bpe_decode(&out, v, wrong, 2), SEFL_EPROTO);
    CHECK_SAYS("does not exist");
    assert_true(out.n == 1 && out.p[0] == '\n');
    buf_clear(&out);
    vocab_free(v);
}

static void check_text(const sefl_buf *b, const char *want)
{
    assert_int_equal(b->n, strlen(want));
    assert_memory_equal(b->p, want, b->n);
}

static void tokens_as_text(void **state)
{
    (void)state;
    const char *text = "low\t_lower \xc3\xbc!\n\nlow";
    vocab *v = trained("low low lower\nlow lower\n", by_rank);
    sefl_buf b = { 0 }, back = { 0 };
    for (int numbers = 0; numbers < 2; numbers++) {
        buf_reset(&b), buf_reset(&back);
        CHECK_OK(tokenize_bpe(&b, v, span_of_str(text), numbers));
        if (!numbers)
            check_text(&b, "low \\x09 \\x5f low er _ \\xc3 \\xbc !\n\nlow");
        CHECK_OK(tokenize_back(&back, v, buf_span(&b), numbers));
        check_text(&back, text);
    }
    const struct {
        const char *text;
        bool numbers;
    } bad[] = { { "low\nxyz", false },  { "low  low", false }, { "<eos>", false },
                { "low", true },        { "1\n99999", true },  { "-1", true },
                { "12345678901", true } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_STATUS(tokenize_back(&back, v, span_of_str(bad[i].text), bad[i].numbers),
                     SEFL_EPROTO);
        CHECK_SAYS("line ");
    }
    buf_reset(&b);
    CHECK_OK(tokenize_words(&b, span_of_str("Herr „Müller“, don't...  go --> 12,5 %!\n\n x")));
    check_text(&b, "Herr „ Müller “ , don ' t ... go -- > 12 , 5 % !\n\nx");
    CHECK_STATUS(tokenize_words(&b, span_of_str("a\xff")), SEFL_EPROTO);
    CHECK_SAYS("byte 1");
    buf_clear(&b);
    buf_clear(&back);
    vocab_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces),  cmocka_unit_test(shown),          cmocka_unit_test(training),
        cmocka_unit_test(corpora), cmocka_unit_test(files),          cmocka_unit_test(bad_files),
        cmocka_unit_test(faults),  cmocka_unit_test(tokens_as_text),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
