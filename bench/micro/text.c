/* How fast one core turns text into words or BPE tokens, and trains the tokens. */
#include "bench/bench.h"

#include "base/file.h"
#include "model/corpus/bpe.h"
#include "model/corpus/corpus.h"
#include "seeded/seeded.h"

enum { BYTES = 8 << 20, FORMS = 60000, TEXT_MAX = 256 << 20 };

typedef struct options {
    bench b;
    const char *text;
} options;

typedef struct job {
    sefl_buf text, back;
    vocab *words, *tokens, *v; /* v: the one that a case uses */
    corpus c;
} job;

/* Lines of words with a skewed frequency, as in a natural text; every word is made of syllables by
 * its number, so that words share parts. */
static sefl_status make_text(sefl_buf *b)
{
    seeded g;
    seeded_init(&g, 1, "bench text");
    for (unsigned n = 1; b->n < BYTES; n++) {
        double u = (double)seeded_below(&g, 1 << 30) / (1 << 30);
        unsigned form = (unsigned)(u * u * u * u * FORMS) + 1;
        for (unsigned rest = form; rest > 0; rest /= 40)
            SEFL_PASS(wr_fmt(b, "%c%c", "bdfgklmnprstvwhj"[rest % 40 % 16],
                             "aeiou"[(rest % 40 + rest) % 5]));
        SEFL_PASS(wr_raw(b, n % 20 ? " " : ".\n", n % 20 ? 1 : 2));
    }
    return SEFL_OK;
}

static sefl_status count(vocab **out, const job *j, vocab_kind kind)
{
    uint64_t words = 0;
    sefl_span rest = buf_span(&j->text);
    SEFL_PASS(vocab_new(out, kind));
    while (rest.n > 0) {
        size_t n = 0;
        while (n < rest.n && rest.p[n] != '\n')
            n++;
        SEFL_PASS(corpus_count_line(*out, span_of(rest.p, n), &words));
        n += n < rest.n;
        rest = span_of(rest.p + n, rest.n - n);
    }
    return vocab_finish(*out, &(vocab_settings){ .block = 32 });
}

static sefl_status text_train(void *ctx)
{
    job *j = ctx;
    vocab_free(j->tokens);
    j->tokens = NULL;
    return count(&j->tokens, j, VOCAB_BPE);
}

static sefl_status read_text(void *ctx)
{
    job *j = ctx;
    corpus_clear(&j->c);
    return corpus_read_over(&j->c, j->v, &(corpus_file){ .path = "text", .format = CORPUS_TEXT },
                            buf_span(&j->text));
}

static sefl_status decode(void *ctx)
{
    job *j = ctx;
    buf_reset(&j->back);
    return bpe_decode(&j->back, j->v, j->c.token, j->c.tokens);
}

static sefl_status text_run(void *ctx)
{
    sefl_status st = SEFL_OK;
    options *o = ctx;
    job j = { 0 };
    bench_timing t;
    double words;
    SEFL_TRY(o->text ? file_read(&j.text, o->text, TEXT_MAX) : make_text(&j.text));
    const double mb = (double)j.text.n * 1e-6;
    bench_note(&o->b, "%.1f MB of %s; the floor of BPE is reading words", mb,
               o->text ? "your text" : "generated text");
    SEFL_TRY(count(&j.words, &j, VOCAB_WORDS));
    j.v = j.words;
    SEFL_TRY(bench_time(&o->b, &t, read_text, &j));
    words = mb / t.median_s;
    bench_row(&o->b, &(bench_result){
                         .name = "words, read", .value = words, .unit = "MB/s", .rate = true });
    SEFL_TRY(bench_time(&o->b, &t, text_train, &j));
    bench_row(&o->b, &(bench_result){ .name = "bpe, train 8192 tokens",
                                      .value = mb / t.median_s,
                                      .unit = "MB/s",
                                      .rate = true });
    j.v = j.tokens;
    SEFL_TRY(bench_time(&o->b, &t, read_text, &j));
    bench_row(&o->b, &(bench_result){ .name = "bpe, encode",
                                      .value = mb / t.median_s,
                                      .unit = "MB/s",
                                      .floor = words,
                                      .rate = true });
    SEFL_TRY(bench_time(&o->b, &t, decode, &j));
    bench_row(&o->b, &(bench_result){ .name = "bpe, decode",
                                      .value = (double)j.back.n * 1e-6 / t.median_s,
                                      .unit = "MB/s",
                                      .rate = true });
done:
    buf_clear(&j.text);
    buf_clear(&j.back);
    vocab_free(j.words);
    vocab_free(j.tokens);
    corpus_clear(&j.c);
    return st;
}

static const setting_def table[] = {
    { "text", SETTING_PATH, "", SETTING_TO(options, text),
      .help = "Text to measure on. Default: 8 MiB of generated words" },
    BENCH_OPTIONS,
    { 0 },
};

const cli_command bench_text = {
    .name = "bench text",
    .summary = "how fast one core reads text as words and as BPE tokens",
    .example = "sefl bench text",
    BENCH_COMMAND(options, table, text_run),
};
