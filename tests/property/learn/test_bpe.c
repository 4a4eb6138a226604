/* Any bytes survive encoding and decoding; the fast encoder and the fast trainer equal plain ones. */
#include "support/check.h"

#include "model/corpus/bpe.h"

#include <string.h>

/* Bytes of a few kinds, so that tokens and pieces repeat. */
static size_t random_bytes(uint8_t *out, size_t max, seeded *g)
{
    static const char *const parts[] = { "a",   "b",  " ",  "ab",       "the ",         "\n",
                                         "\t ", "12", ", ", "\xc3\xbc", "\xe2\x80\x9e", "<eos>",
                                         "_",   "\\" };
    const size_t want = (size_t)seeded_below(g, max);
    const bool any = seeded_below(g, 4) == 0;
    size_t n = 0;
    while (n < want) {
        const char *p = parts[seeded_below(g, sizeof parts / sizeof *parts)];
        uint8_t byte = (uint8_t)seeded_below(g, 256);
        const size_t k = any ? 1 : strlen(p);
        if (n + k > max)
            break;
        memcpy(out + n, any ? (const char *)&byte : p, k);
        n += k;
    }
    return n;
}

static void count_pieces(vocab *v, sefl_span text)
{
    sefl_span piece;
    while (bpe_piece(&text, &piece))
        CHECK_OK(vocab_count(v, piece));
}

static void round_trips(void **state)
{
    (void)state;
    seeded g;
    uint8_t text[3000];
    sefl_buf back = { 0 };
    test_seed(&g, "bpe round trips");
    for (unsigned long trial = test_count(60, 20000); trial > 0; trial--) {
        vocab *v = NULL;
        bpe_encoder *e = NULL;
        CHECK_OK(vocab_new(&v, VOCAB_BPE));
        count_pieces(v, span_of(text, random_bytes(text, sizeof text, &g)));
        vocab_settings s = { .order = (vocab_order)seeded_below(&g, 3),
                             .block = 1 + (uint32_t)seeded_below(&g, 40),
                             .max_words = 258 + (uint32_t)seeded_below(&g, 300) };
        CHECK_OK(vocab_finish(v, &s));
        assert_true(vocab_size(v) <= s.max_words);
        CHECK_OK(bpe_encoder_new(&e, v));
        for (int k = 0; k < 5; k++) {
            const size_t n = random_bytes(text, sizeof text, &g);
            const uint32_t *ids;
            uint32_t plain[BPE_PIECE_MAX];
            size_t tokens, at = 0;
            CHECK_OK(bpe_encode(e, span_of(text, n), &ids, &tokens));
            buf_reset(&back);
            CHECK_OK(bpe_decode(&back, v, ids, tokens));
            assert_int_equal(back.n, n);
            if (n > 0)
                assert_memory_equal(back.p, text, n);
            sefl_span rest = span_of(text, n), piece;
            while (bpe_piece(&rest, &piece)) { /* without the memory of the encoder */
                const size_t m = bpe_encode_piece(plain, v, piece);
                assert_true(at + m <= tokens && m <= piece.n);
                assert_memory_equal(plain, ids + at, m * sizeof *ids);
                at += m;
            }
            assert_int_equal(at, tokens);
        }
        bpe_encoder_free(e);
        vocab_free(v);
    }
    buf_clear(&back);
}

/* ---- the plain trainer: counts every pair anew for each merge --------------------------------- */

enum { PIECES = 400, LENGTH = BPE_PIECE_MAX };

typedef struct plain {
    uint32_t token[PIECES][LENGTH];
    size_t length[PIECES];
    uint64_t count[PIECES];
    size_t n;
} plain;

/* The most frequent pair; of equals, the one with the lower tokens. */
static uint64_t best_pair(const plain *p, uint32_t tokens, uint32_t best[2])
{
    static uint64_t count[600][600];
    uint64_t most = 0;
    memset(count, 0, sizeof count);
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k + 1 < p->length[i]; k++)
            count[p->token[i][k]][p->token[i][k + 1]] += p->count[i];
    for (uint32_t a = 0; a < tokens; a++)
        for (uint32_t b = 0; b < tokens; b++)
            if (count[a][b] > most)
                most = count[a][b], best[0] = a, best[1] = b;
    return most;
}

static void train_ref(vocab *tokens, plain *p, uint32_t size)
{
    uint32_t best[2] = { 0 }, id;
    while (vocab_size(tokens) + 1 < size && best_pair(p, vocab_size(tokens), best) >= 2) {
        uint8_t bytes[2 * BPE_PIECE_MAX];
        sefl_span a = vocab_word(tokens, best[0]), b = vocab_word(tokens, best[1]);
        memcpy(bytes, a.p, a.n);
        memcpy(bytes + a.n, b.p, b.n);
        const sefl_span both = span_of(bytes, a.n + b.n);
        if (!vocab_find(tokens, both, &id)) {
            id = vocab_size(tokens);
            CHECK_OK(vocab_count(tokens, both));
        }
        for (size_t i = 0; i < p->n; i++) {
            size_t n = 0;
            for (size_t k = 0; k < p->length[i]; k++) {
                const bool here = k + 1 < p->length[i] && p->token[i][k] == best[0] &&
                                  p->token[i][k + 1] == best[1];
                p->token[i][n++] = here ? id : p->token[i][k];
                k += here;
            }
            p->length[i] = n;
        }
    }
}

static void trainers_agree(void **state)
{
    (void)state;
    static plain p;
    seeded g;
    uint8_t text[1500];
    test_seed(&g, "bpe trainers");
    for (unsigned long trial = test_count(20, 2000); trial > 0; trial--) {
        vocab *pieces = NULL, *fast = NULL, *ref = NULL;
        const uint32_t size = 258 + (uint32_t)seeded_below(&g, 80);
        CHECK_OK(vocab_new(&pieces, VOCAB_BPE));
        CHECK_OK(vocab_new(&fast, VOCAB_BPE));
        CHECK_OK(vocab_new(&ref, VOCAB_BPE));
        CHECK_OK(vocab_count(pieces, span_of_str("<eos>"))); /* piece 0, as vocab_eos of it says */
        count_pieces(pieces, span_of(text, random_bytes(text, sizeof text, &g)));
        p.n = vocab_size(pieces) < PIECES ? vocab_size(pieces) : PIECES;
        if (vocab_size(pieces) <= PIECES) {
            for (size_t i = 0; i < p.n; i++) {
                sefl_span w = vocab_word(pieces, (uint32_t)i);
                p.length[i] = i == 0 ? 0 : w.n;
                p.count[i] = vocab_count_of(pieces, (uint32_t)i);
                for (size_t k = 0; k < w.n; k++)
                    p.token[i][k] = w.p[k];
            }
            CHECK_OK(bpe_train(fast, pieces, size));
            for (unsigned c = 0; c < 256; c++)
                CHECK_OK(vocab_count(ref, span_of(&(uint8_t){ (uint8_t)c }, 1)));
            train_ref(ref, &p, size);
            assert_int_equal(vocab_size(fast), vocab_size(ref));
            for (uint32_t i = 0; i < vocab_size(ref); i++) {
                sefl_span a = vocab_word(fast, i), b = vocab_word(ref, i);
                assert_int_equal(a.n, b.n);
                assert_memory_equal(a.p, b.p, a.n);
            }
        }
        vocab_free(pieces);
        vocab_free(fast);
        vocab_free(ref);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(trainers_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
