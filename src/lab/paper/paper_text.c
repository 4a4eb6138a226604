#include "base/file.h"
#include "model/corpus/corpus.h"
#include "model/corpus/synth.h"
#include "paper/paper.h"

#include <string.h>

enum { GENERATED_TOKENS = 12000 };
#define TEXT_MAX    ((size_t)1 << 30)
#define PUBLIC_PART 10 /* one in this many bytes is public */

/* Bytes of each part that a quick run uses. */
static const size_t quick_bytes[CORPUS_SPLITS] = { 60000, 10000, 10000 };

/* Writes a part of a data set; its format is that of the file `from`. */
static sefl_status write_part(const char *folder, const char *name, const char *from,
                              sefl_span bytes)
{
    char path[PATH_MAX];
    const char *dot = strrchr(from, '.');
    SEFL_PASS(file_path(path, "%s/%s%s", folder, name, dot ? dot : ".txt"));
    return file_write_atomic(path, bytes, 0666);
}

/* Returns the end of the line that contains byte number `at` - 1. */
static size_t line_end(const sefl_buf *b, size_t at)
{
    if (at >= b->n)
        return b->n;
    const uint8_t *end = memchr(b->p + (at ? at - 1 : 0), '\n', b->n - (at ? at - 1 : 0));
    return end ? (size_t)(end - b->p) + 1 : b->n;
}

/* Copies whole lines from the beginning of each text. */
static sefl_status copy_heads(const corpus_paths *paths, const char *folder)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    for (int k = 0; k < CORPUS_SPLITS; k++) {
        buf_reset(&b);
        SEFL_TRY(file_read(&b, paths->path[k], TEXT_MAX));
        SEFL_TRY(write_part(folder, corpus_split_names[k], paths->path[k],
                            span_of(b.p, line_end(&b, quick_bytes[k]))));
    }
done:
    buf_clear(&b);
    return st;
}

sefl_status paper_text(char out[PATH_MAX], const paper_options *o)
{
    sefl_status st = SEFL_OK;
    corpus_paths paths = { 0 };
    *out = 0;
    if (!o->data)
        return SEFL_OK;
    SEFL_TRY(corpus_paths_find(&paths, o->data));
    for (int k = 0; k < CORPUS_SPLITS; k++)
        SEFL_CHECK(paths.path[k], SEFL_EINVAL,
                   "--data: %s has no %s text: the figures show test perplexity at the round with "
                   "the best validation perplexity",
                   o->data, corpus_split_names[k]);
    SEFL_TRY(o->quick ? file_path(out, "%s/text", o->runs) : file_path(out, "%s", o->data));
    if (o->quick) {
        SEFL_TRY(paper_make_folder(out));
        SEFL_TRY(copy_heads(&paths, out));
    }
done:
    corpus_paths_clear(&paths);
    return st;
}

/* ---- a public part --------------------------------------------------------------------------- */

/* Writes the training text in two parts, and the other texts to both folders. */
static sefl_status split_texts(const corpus_paths *paths, const char *public, const char *rest)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    for (int k = 0; k < CORPUS_SPLITS; k++) {
        const char *name = corpus_split_names[k], *from = paths->path[k];
        buf_reset(&b);
        SEFL_TRY(file_read(&b, from, TEXT_MAX));
        const bool train = k == CORPUS_TRAIN;
        const size_t cut = train ? line_end(&b, b.n / PUBLIC_PART) : 0;
        SEFL_TRY(write_part(public, name, from, span_of(b.p, train ? cut : b.n)));
        SEFL_TRY(write_part(rest, name, from, span_of(b.p + cut, b.n - cut)));
    }
done:
    buf_clear(&b);
    return st;
}

/* Lists the words of the training text with their counts, by frequency. */
static sefl_status write_words(const char *path, const char *train)
{
    sefl_status st = SEFL_OK;
    vocab *v = NULL;
    SEFL_TRY(vocab_new(&v, VOCAB_WORDS));
    SEFL_TRY(corpus_count(v, &(corpus_file){ .path = train }, NULL));
    SEFL_TRY(vocab_finish(v, &(vocab_settings){ .order = VOCAB_FREQUENCY }));
    SEFL_TRY(vocab_write(v, path, true));
done:
    vocab_free(v);
    return st;
}

sefl_status paper_split(const paper_options *o)
{
    sefl_status st = SEFL_OK;
    corpus_paths paths = { 0 };
    char text[PATH_MAX], public[PATH_MAX], rest[PATH_MAX], words[PATH_MAX];
    SEFL_TRY(file_path(text, "%s/split/all", o->runs));
    SEFL_TRY(file_path(public, "%s/split/public", o->runs));
    SEFL_TRY(file_path(rest, "%s/split/rest", o->runs));
    SEFL_TRY(file_path(words, "%s/split/words.txt", o->runs));
    SEFL_TRY(paper_make_folder(public));
    SEFL_TRY(paper_make_folder(rest));
    if (!o->data) {
        synth_report r;
        const synth_settings s = { .clients = 1, .tokens = GENERATED_TOKENS, .seed = 1 };
        SEFL_TRY(synth_write(text, &s, &r, NULL));
    }
    SEFL_TRY(corpus_paths_find(&paths, o->data ? o->data : text));
    SEFL_CHECK(corpus_format_of(&(corpus_file){ .path = paths.path[CORPUS_TRAIN] }) != CORPUS_CSV,
               SEFL_EINVAL, "--data: %s is a table, which has no line to split at: use text",
               paths.path[CORPUS_TRAIN]);
    SEFL_TRY(split_texts(&paths, public, rest));
    SEFL_TRY(write_words(words, paths.path[CORPUS_TRAIN]));
done:
    corpus_paths_clear(&paths);
    return st;
}
