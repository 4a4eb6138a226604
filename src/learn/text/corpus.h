/* corpus: a text as a sequence of word or token numbers, with line and document boundaries.
 *
 *     SEFL_TRY(corpus_count(v, &file, NULL));            // counts the words
 *     SEFL_TRY(vocab_finish(v, &settings));
 *     SEFL_TRY(corpus_read(&c, v, &file, NULL));
 *     for (size_t i = c.line[k]; i < c.line[k + 1]; i++) // line k, including <eos>
 *         use(c.token[i]);
 * done:
 *     corpus_clear(&c);
 *
 * A line becomes its words and `<eos>`; an empty line becomes `<eos>` alone. A word that the
 * vocabulary lacks becomes `<unk>` and counts as `unknown`; a literal <unk> in the text stays
 * <unk>. PyTorch's word-language-model example does the same (WikiText-2: 2,088,628 training
 * tokens). With VOCAB_BPE a line becomes the tokens of its bytes up to its last word, and `<eos>`.
 *
 * Documents: a JSONL or CSV record is a document. In text, a WikiText heading begins a document: a
 * line " = Title = " with exactly one '=' at each end, and an empty line or the file's start or end
 * on both sides. The empty line before it belongs to the document. Lines before the first heading
 * belong to the first document. In text without headings every line is a document, and `marked` is
 * false. Documents do not depend on the vocabulary.
 *
 * Memory: 4 bytes per token, 8 per line, 8 per document. Threads: a corpus may be shared once read.
 * Secrets: the text is its owner's secret; messages name files and lines, never words. */
#ifndef MODEL_CORPUS_CORPUS_H
#define MODEL_CORPUS_CORPUS_H

#include "base/progress.h"
#include "model/corpus/records.h"
#include "model/corpus/vocab.h"

typedef struct corpus {
    uint32_t *token; /* tokens */
    size_t tokens;
    size_t *line; /* lines + 1: first token of each line, then `tokens` */
    size_t lines;
    size_t *doc; /* docs + 1: first line of each document, then `lines` */
    size_t docs;
    size_t words;   /* as white space separates them, and one more per line; 0 in a part of a text
                       (partition.h). With VOCAB_WORDS it equals tokens */
    size_t unknown; /* number of words that the vocabulary lacks */
    bool marked;    /* true if records or headings mark the documents */
} corpus;

/* Counts the words of a line, or its pieces, and <eos>; *words is increased by the words. */
sefl_status corpus_count_line(vocab *v, sefl_span line, uint64_t *words) SEFL_MUST_CHECK;

/* Counts the file's lines in v, in order. SEFL_EPROTO if the file has no words. progress counts
 * bytes. */
sefl_status corpus_count(vocab *v, const corpus_file *f,
                         const sefl_progress *progress) SEFL_MUST_CHECK;

/* Reads the file with a finished vocabulary into an empty *out. */
sefl_status corpus_read(corpus *out, const vocab *v, const corpus_file *f,
                        const sefl_progress *progress) SEFL_MUST_CHECK;

/* Like corpus_read, but reads bytes in memory (tests, fuzzing); messages show f->path. */
sefl_status corpus_read_over(corpus *out, const vocab *v, const corpus_file *f,
                             sefl_span bytes) SEFL_MUST_CHECK;

void corpus_clear(corpus *c);

/* Writes the text, atomically: with CORPUS_JSONL one object per document (member to->field),
 * otherwise line by line; words with single spaces. Reading it back gives the same tokens. */
sefl_status corpus_write(const corpus *c, const vocab *v, const corpus_file *to) SEFL_MUST_CHECK;

/* ---- a data set: training text, optional validation and test text -------------------------- */

enum { CORPUS_TRAIN, CORPUS_VALID, CORPUS_TEST, CORPUS_SPLITS };

typedef struct corpus_paths {
    char *path[CORPUS_SPLITS]; /* NULL: missing; the training text is always present */
} corpus_paths;

extern const char *const corpus_split_names[CORPUS_SPLITS]; /* "train", "valid", "test" */

/* Finds the files of a data set. In a folder, they are train, valid and test with the extension
 * .txt, .tokens, .jsonl, .ndjson or .csv, optionally with the prefix "wiki.". If `where` is a file,
 * it is the training text. The message of SEFL_ENOTFOUND lists the expected names. */
sefl_status corpus_paths_find(corpus_paths *out, const char *where) SEFL_MUST_CHECK;
void corpus_paths_clear(corpus_paths *p);

/* The perplexity per word, from the mean loss per token: exp(mean tokens / words). Texts with
 * different vocabularies can be compared by it; with VOCAB_WORDS it is the usual exp(mean). */
double corpus_word_perplexity(const corpus *c, double mean);

/* ---- statistics ---------------------------------------------------------------------------- */

typedef struct corpus_stats {
    size_t tokens, lines, docs;
    size_t words;        /* as white space separates them, without <eos> */
    size_t types;        /* different tokens seen */
    size_t unk;          /* <unk> tokens, literal or not */
    size_t unknown;      /* <unk> tokens for words that the vocabulary lacks */
    size_t longest_line; /* in tokens */
    size_t longest_doc;  /* in tokens */
    double unigram_bits; /* entropy of the token distribution, bits per token */
} corpus_stats;

sefl_status corpus_stats_of(corpus_stats *out, const corpus *c, const vocab *v) SEFL_MUST_CHECK;

#endif
