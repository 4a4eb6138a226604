/* Any bytes (the first byte selects) as a BPE vocabulary, as a text to train on, as a text to encode
 * and decode, or as tokens to decode: refused with a message, or the same bytes come back. */
#include "model/corpus/bpe.h"
#include "model/corpus/tokenize.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

static vocab *trained_on(sefl_span text)
{
    vocab *v = NULL;
    sefl_span piece;
    must(vocab_new(&v, VOCAB_BPE) == SEFL_OK);
    while (bpe_piece(&text, &piece))
        must(vocab_count(v, piece) == SEFL_OK);
    must(vocab_finish(v, &(vocab_settings){ .block = 3, .max_words = 400 }) == SEFL_OK);
    return v;
}

/* text -> tokens -> text, as numbers and as tokens. */
static void there_and_back(const vocab *v, sefl_span text)
{
    for (int numbers = 0; numbers < 2; numbers++) {
        sefl_buf shown = { 0 }, back = { 0 };
        must(tokenize_bpe(&shown, v, text, numbers) == SEFL_OK);
        must(tokenize_back(&back, v, buf_span(&shown), numbers) == SEFL_OK);
        must(back.n == text.n && (text.n == 0 || memcmp(back.p, text.p, text.n) == 0));
        buf_clear(&shown);
        buf_clear(&back);
    }
    bpe_encoder *e = NULL;
    const uint32_t *ids;
    size_t n;
    sefl_buf back = { 0 };
    must(bpe_encoder_new(&e, v) == SEFL_OK);
    must(bpe_encode(e, text, &ids, &n) == SEFL_OK);
    must(n <= text.n && bpe_decode(&back, v, ids, n) == SEFL_OK);
    must(back.n == text.n && (text.n == 0 || memcmp(back.p, text.p, text.n) == 0));
    buf_clear(&back);
    bpe_encoder_free(e);
}

static void read_vocab(sefl_span bytes)
{
    static const char text[] = "Any text, 12 \xc3\xbc\xff\n\n ab abc ";
    vocab *v = NULL;
    const vocab_settings s = { .order = VOCAB_APPEARANCE, .kind = VOCAB_BPE };
    sefl_status st = vocab_read_over(&v, bytes, "fuzz", &s);
    must(st == SEFL_OK ? vocab_size(v) > 257 : v == NULL && *sefl_last_error());
    for (uint32_t i = 0; v && i < vocab_size(v); i++) {
        uint32_t id;
        must(vocab_find(v, vocab_word(v, i), &id) && id == i);
    }
    if (v)
        there_and_back(v, span_of(text, sizeof text - 1));
    vocab_free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    sefl_span bytes = span_of(data + 1, size - 1);
    if (data[0] % 4 == 0) {
        read_vocab(bytes);
        return 0;
    }
    static vocab *once; /* stays for all inputs */
    if (!once)
        once = trained_on(span_of_str("the then them 12 12 \xc3\xbc\xc3\xbc"));
    vocab *v = data[0] % 4 == 1 ? trained_on(bytes) : once;
    if (data[0] % 4 == 3) {
        sefl_buf back = { 0 };
        must(tokenize_back(&back, v, bytes, data[0] & 4) == SEFL_OK || *sefl_last_error());
        buf_clear(&back);
    } else {
        there_and_back(v, bytes);
    }
    if (v != once)
        vocab_free(v);
    return 0;
}
