/* Any bytes as text, JSONL, CSV or a word list (the first byte selects): refused with file and
 * line, or tokens with consistent boundaries. */
#include "base/utf8.h"
#include "model/corpus/corpus.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

static void check(const corpus *c, const vocab *v)
{
    must(c->lines > 0 && c->docs > 0 && c->line[0] == 0 && c->doc[0] == 0);
    must(c->line[c->lines] == c->tokens && c->doc[c->docs] == c->lines);
    for (size_t k = 0; k < c->lines; k++) {
        must(c->line[k] < c->line[k + 1]);
        must(c->token[c->line[k + 1] - 1] == vocab_eos(v));
    }
    for (size_t d = 0; d < c->docs; d++)
        must(c->doc[d] < c->doc[d + 1]);
    for (size_t i = 0; i < c->tokens; i++)
        must(c->token[i] < vocab_size(v));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    sefl_span bytes = span_of(data + 1, size - 1);
    vocab *v = NULL;
    if (data[0] % 4 == 3) { /* a word list */
        vocab_settings s = { .order = (vocab_order)(data[0] / 4 % 3), .block = 3 };
        sefl_status st = vocab_read_over(&v, bytes, "fuzz", &s);
        must(st == SEFL_OK ? vocab_size(v) > 2 : v == NULL && *sefl_last_error());
        for (uint32_t i = 0; v && i < vocab_size(v); i++) {
            uint32_t id;
            must(vocab_find(v, vocab_word(v, i), &id) && id == i);
        }
        vocab_free(v);
        return 0;
    }
    corpus_file f = { .path = "fuzz", .format = (corpus_format)(1 + data[0] % 4) };
    corpus c = { 0 };
    must(vocab_read_over(&v, span_of_str("the\na\nb\n=\n"), "words",
                         &(vocab_settings){ .order = VOCAB_APPEARANCE }) == SEFL_OK);
    sefl_status st = corpus_read_over(&c, v, &f, bytes);
    if (st == SEFL_OK)
        check(&c, v);
    else
        must(c.token == NULL && strncmp(sefl_last_error(), "fuzz:", 5) == 0);
    corpus_clear(&c);
    vocab_free(v);
    return 0;
}
