/* Any bytes as text, JSONL, CSV or a word list (the first byte selects): refused with file and
 * line, or tokens with consistent boundaries. Some texts are also read from a file with a
 * vocabulary of their own words, then written and read back: the same tokens and documents. */
#include "base/file.h"
#include "base/utf8.h"
#include "fuzz/some.h"
#include "model/corpus/corpus.h"

#include <stdio.h>
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

static char folder[128], from[144], list[144], back[144];

static void remove_folder(void)
{
    remove(from), remove(list), remove(back);
    remove(folder);
}

static void make_folder(void)
{
    must(file_temp_folder(folder, sizeof folder, "fuzz-corpus") == SEFL_OK);
    must(atexit(remove_folder) == 0);
    file_sync_skip(true);
    snprintf(from, sizeof from, "%s/from", folder);
    snprintf(list, sizeof list, "%s/list", folder);
    snprintf(back, sizeof back, "%s/back", folder);
}

static void same(const corpus *a, const corpus *b)
{
    must(a->tokens == b->tokens && a->lines == b->lines);
    must(memcmp(a->token, b->token, a->tokens * sizeof *a->token) == 0);
    must(memcmp(a->line, b->line, (a->lines + 1) * sizeof *a->line) == 0);
}

/* Writes the text with its words, and reads both back. jsonl: one object per document. */
static void write_and_read(const corpus *c, const vocab *v, bool jsonl)
{
    const corpus_file f = { .path = back, .format = jsonl ? CORPUS_JSONL : CORPUS_TEXT };
    const vocab_settings listed = { .order = VOCAB_APPEARANCE };
    corpus again = { 0 };
    vocab *w = NULL;
    uint8_t hash[2][SHA256_BYTES];
    must(vocab_write(v, list, false) == SEFL_OK);
    must(vocab_read(&w, list, &listed) == SEFL_OK && vocab_size(w) == vocab_size(v));
    vocab_hash(v, hash[0]), vocab_hash(w, hash[1]);
    must(memcmp(hash[0], hash[1], sizeof hash[0]) == 0);
    must(corpus_write(c, v, &f) == SEFL_OK);
    must(corpus_read(&again, w, &f, NULL) == SEFL_OK);
    same(c, &again);
    if (jsonl) {
        must(c->docs == again.docs);
        must(memcmp(c->doc, again.doc, (c->docs + 1) * sizeof *c->doc) == 0);
    }
    corpus_clear(&again);
    vocab_free(w);
}

static void through_files(corpus_format format, sefl_span bytes, vocab_order order)
{
    const corpus_file f = { .path = from, .format = format };
    const vocab_settings settings = { .order = order, .block = 3 };
    vocab *v = NULL;
    corpus c = { 0 }, over = { 0 };
    corpus_stats stats;
    must(file_write_atomic(from, bytes, 0600) == SEFL_OK);
    must(vocab_new(&v, VOCAB_WORDS) == SEFL_OK);
    if (corpus_count(v, &f, NULL) == SEFL_OK && vocab_finish(v, &settings) == SEFL_OK) {
        must(corpus_read(&c, v, &f, NULL) == SEFL_OK);
        must(corpus_read_over(&over, v, &f, bytes) == SEFL_OK);
        check(&c, v);
        same(&c, &over);
        must(c.unknown == 0 && corpus_stats_of(&stats, &c, v) == SEFL_OK);
        must(stats.tokens == c.tokens && stats.words + c.lines == c.tokens && stats.unknown == 0);
        must(stats.types <= vocab_size(v) && corpus_word_perplexity(&c, 0) == 1);
        write_and_read(&c, v, true);
        write_and_read(&c, v, false);
    }
    corpus_clear(&c);
    corpus_clear(&over);
    vocab_free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!folder[0])
        make_folder();
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
    if (data[0] & 0x40 && some(data, size, 4))
        through_files(f.format, bytes, (vocab_order)(data[0] / 4 % 3));
    return 0;
}
