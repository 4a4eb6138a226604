#include "base/alloc.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/json.h"
#include "cli/interrupt.h"
#include "cli/meter.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/print.h"
#include "model/corpus/corpus.h"
#include "model/corpus/partition.h"
#include "model/corpus/tokenize.h"
#include "model/lm_settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct wish {
    const char *where, *out, *vocab, *field;
    corpus_format format;
    vocab_settings words;
    partition_kind by;
    uint32_t clients; /* 0: not set */
    uint32_t size;
    double alpha;
    uint64_t seed;
    bool json, counts, list, force, decode, ids;

    /* opened by an action, closed by `finish` */
    corpus_paths paths;
    vocab *v;
    corpus c;
    partition p;
    sefl_buf text, raw;
} wish;

static void cmd_data_finish(void *options)
{
    wish *o = options;
    corpus_paths_clear(&o->paths);
    vocab_free(o->v);
    corpus_clear(&o->c);
    partition_clear(&o->p);
    buf_clear(&o->text);
    buf_clear(&o->raw);
}

/* ---- reading ------------------------------------------------------------------------------- */

static corpus_file file_of(const wish *o, const char *path)
{
    return (corpus_file){ .path = path, .format = o->format, .field = o->field };
}

/* Reads the text of a file into c; if c is NULL, counts its words into v. */
static sefl_status read_file(corpus *c, vocab *v, const wish *o, const char *path)
{
    meter m;
    sefl_progress p = meter_start(&m, c ? "reading" : "counting words");
    corpus_file f = file_of(o, path);
    sefl_status st = c ? corpus_read(c, v, &f, &p) : corpus_count(v, &f, &p);
    meter_stop(&m);
    return st;
}

/* Builds the vocabulary of a training text. */
static sefl_status words_of(vocab **v, const wish *o, const char *path, const vocab_settings *set)
{
    SEFL_PASS(vocab_new(v, set->kind));
    SEFL_PASS(read_file(NULL, *v, o, path));
    return vocab_finish(*v, set);
}

static const vocab_settings as_it_appears = { .order = VOCAB_APPEARANCE },
                            as_listed = { .order = VOCAB_APPEARANCE, .kind = VOCAB_ANY };

static void hex(char out[HEX_CHARS(SHA256_BYTES)], const vocab *v)
{
    uint8_t digest[SHA256_BYTES];
    vocab_hash(v, digest);
    hex_write(out, digest, sizeof digest);
}

/* ---- stats --------------------------------------------------------------------------------- */

/* Of the words, without <eos>. */
static double unknown_share(const corpus_stats *s)
{
    return s->words ? (double)s->unknown / (double)s->words : 0;
}

static double tokens_per_word(const corpus_stats *s)
{
    return s->words ? (double)(s->tokens - s->lines) / (double)s->words : 0;
}

static void stats_json(json *j, const char *name, const corpus_stats *s, bool marked)
{
    json_object(
        j, name, lf_u64("tokens", s->tokens), lf_u64("words", s->words), lf_u64("lines", s->lines),
        lf_u64("documents", s->docs), lf_bool("documents_marked", marked),
        lf_u64("types", s->types), lf_u64("unk", s->unk), lf_u64("unknown", s->unknown),
        lf_u64("longest_line", s->longest_line), lf_u64("longest_document", s->longest_doc),
        lf_real("unigram_bits", s->unigram_bits), lf_real("unknown_share", unknown_share(s)),
        lf_real("tokens_per_word", tokens_per_word(s)));
}

static void stats_text(const char *name, const corpus_stats *s, bool marked)
{
    printf("%-6s %12zu %10zu %9zu%s %8zu %9zu %9zu %7.2f %% %9zu %8.3f %8.3f\n", name, s->tokens,
           s->lines, s->docs, marked ? " " : "*", s->types, s->unk, s->unknown,
           100 * unknown_share(s), s->longest_line, s->unigram_bits, tokens_per_word(s));
}

static sefl_status run_stats(void *options)
{
    wish *o = options;
    corpus_stats s;
    bool unmarked = false;
    char hash[HEX_CHARS(SHA256_BYTES)];
    SEFL_PASS(corpus_paths_find(&o->paths, o->where));
    if (o->vocab)
        SEFL_PASS(vocab_read(&o->v, o->vocab, &as_listed));
    else
        SEFL_PASS(words_of(&o->v, o, o->paths.path[CORPUS_TRAIN], &as_it_appears));
    hex(hash, o->v);
    json j = json_into(&o->text);
    json_open(&j, '{');
    json_fields(&j, lf_u64("vocabulary_words", vocab_size(o->v)),
                lf_str("vocabulary_sha256", hash));
    if (!o->json) {
        printf("vocabulary  %" PRIu32 " %s, %s, sha256 %.16s\n", vocab_size(o->v),
               vocab_kind_of(o->v) == VOCAB_BPE ? "BPE tokens" : "words",
               o->vocab ? o->vocab : "from the training text in order of appearance", hash);
        printf("%-6s %12s %10s %10s %8s %9s %9s %9s %9s %8s %8s\n", "split", "tokens", "lines",
               "documents ", "types", "<unk>", "unknown", "share", "longest", "bits", "per word");
    }
    for (int i = 0; i < CORPUS_SPLITS; i++) {
        if (!o->paths.path[i])
            continue;
        SEFL_PASS(read_file(&o->c, o->v, o, o->paths.path[i]));
        SEFL_PASS(corpus_stats_of(&s, &o->c, o->v));
        if (o->json)
            stats_json(&j, corpus_split_names[i], &s, o->c.marked);
        else
            stats_text(corpus_split_names[i], &s, o->c.marked);
        unmarked |= !o->c.marked;
        corpus_clear(&o->c);
    }
    json_close(&j, '}');
    if (o->json)
        return print_json(&j);
    printf(
        "tokens: %s and <eos>; unknown: words not in the vocabulary, and their share;\n"
        "longest: tokens in the longest line; bits: entropy of single tokens; per word: tokens,\n"
        "without <eos>, per word of the text%s\n",
        vocab_kind_of(o->v) == VOCAB_BPE ? "BPE tokens" : "words",
        unmarked ? "; *: no headings, so each line is a document" : "");
    return SEFL_OK;
}

/* ---- vocab --------------------------------------------------------------------------------- */

static sefl_status read_or_build(wish *o)
{
    if (o->list) {
        SEFL_PASS(output_check(o->out, o->where, o->force));
        return vocab_read(&o->v, o->where, &o->words);
    }
    SEFL_PASS(corpus_paths_find(&o->paths, o->where));
    for (int i = 0; i < CORPUS_SPLITS; i++)
        SEFL_PASS(output_check(o->out, o->paths.path[i], o->force));
    return words_of(&o->v, o, o->paths.path[CORPUS_TRAIN], &o->words);
}

static sefl_status run_vocab(void *options)
{
    wish *o = options;
    char hash[HEX_CHARS(SHA256_BYTES)];
    const bool bpe = o->words.kind == VOCAB_BPE;
    SEFL_NEED(!bpe || (o->words.max_words == 0 && o->words.min_count == 0), SEFL_EINVAL,
              "--max-words and --min-count select words: with --kind bpe use --size");
    if (bpe && !o->list)
        o->words.max_words = o->size;
    SEFL_PASS(read_or_build(o));
    SEFL_PASS(vocab_write(o->v, o->out, o->counts));
    hex(hash, o->v);
    const char *order = vocab_order_name(vocab_order_of(o->v));
    if (o->json)
        return print_fields(lf_u64(bpe ? "tokens" : "words", vocab_size(o->v)),
                            lf_str("kind", vocab_kind_name(o->words.kind)), lf_str("order", order),
                            lf_u64("block", o->words.block), lf_str("sha256", hash),
                            lf_if(!bpe, lf_u64("unk", vocab_unk(o->v))),
                            lf_u64("eos", vocab_eos(o->v)));
    printf("%s: %" PRIu32 " %s, order %s", o->out, vocab_size(o->v), bpe ? "BPE tokens" : "words",
           order);
    if (o->words.order == VOCAB_INTERLEAVED)
        printf(" for blocks of %" PRIu32, o->words.block);
    printf("\nsha256 %s%s\n", hash,
           !o->counts ? ""
           : bpe      ? " (of the tokens without counts)"
                      : " (of the words without counts)");
    if (!o->list)
        printf("The file contains parts of the text it was made from: in a federation it is "
               "public.\n");
    return SEFL_OK;
}

/* ---- tokenize ------------------------------------------------------------------------------ */

enum { TOKENIZE_MAX = 1 << 30 };

static sefl_status run_tokenize(void *options)
{
    wish *o = options;
    SEFL_NEED(o->vocab || !(o->decode || o->ids), SEFL_EINVAL,
              "--decode and --ids need --vocab, a BPE vocabulary");
    if (o->out)
        SEFL_PASS(output_check(o->out, o->where, o->force));
    if (o->vocab)
        SEFL_PASS(vocab_read(&o->v, o->vocab, &as_listed));
    SEFL_NEED(!o->v || vocab_kind_of(o->v) == VOCAB_BPE, SEFL_EINVAL,
              "%s is a word list: leave --vocab out to split raw text into words", o->vocab);
    SEFL_PASS(file_read(&o->raw, o->where, TOKENIZE_MAX));
    sefl_span raw = buf_span(&o->raw);
    SEFL_PASS(sefl_at(!o->v       ? tokenize_words(&o->text, raw)
                      : o->decode ? tokenize_back(&o->text, o->v, raw, o->ids)
                                  : tokenize_bpe(&o->text, o->v, raw, o->ids),
                      "%s", o->where));
    if (o->out)
        return file_write_atomic(o->out, buf_span(&o->text), 0644);
    fwrite(o->text.p, 1, o->text.n, stdout); /* main checks stdout at the end */
    return SEFL_OK;
}

/* ---- split --------------------------------------------------------------------------------- */

static sefl_status client_file(char out[PATH_MAX], const wish *o, uint32_t who, bool records)
{
    return file_path(out, "%s/client-%03" PRIu32 "/train.%s", o->out, who,
                     records ? "jsonl" : "txt");
}

static sefl_status write_client(const wish *o, const corpus *part, uint32_t who, bool records)
{
    char path[PATH_MAX];
    SEFL_PASS(client_file(path, o, who, records));
    char *slash = strrchr(path, '/');
    *slash = 0;
    SEFL_PASS(file_make_folder(path, 0755));
    *slash = '/';
    return corpus_write(part, o->v, &(corpus_file){ .path = path, .field = o->field });
}

/* Checks that the split overwrites no file without --force, and never the input. */
static sefl_status check_split(const wish *o, bool records)
{
    char path[PATH_MAX];
    for (uint32_t who = 0; who < o->clients; who++) {
        SEFL_PASS(client_file(path, o, who, records));
        for (int i = 0; i < CORPUS_SPLITS; i++)
            SEFL_PASS(output_check(path, o->paths.path[i], o->force));
    }
    return output_check_folder(o->out, "client-", o->force);
}

static int ascending(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

/* Writes and reports every client's part. records: write JSONL instead of text. */
static sefl_status write_parts(const wish *o, bool records, json *j)
{
    sefl_status st = SEFL_OK;
    const uint32_t clients = o->p.clients;
    corpus part = { 0 };
    size_t *sizes = NULL;
    double divergence, sum = 0, worst = 0;
    SEFL_TRY(sefl_new(&sizes, clients, sizeof *sizes));
    for (uint32_t i = 0; i < clients; i++) {
        SEFL_CHECK(!interrupt_seen(), SEFL_ECANCELLED,
                   "stopped: %s has only %" PRIu32 " of %" PRIu32 " clients", o->out, i, clients);
        SEFL_TRY(partition_take(&part, &o->c, &o->p, i));
        SEFL_TRY(partition_divergence(&divergence, &part, &o->c, o->v));
        SEFL_TRY(write_client(o, &part, i, records));
        sizes[i] = part.tokens;
        sum += divergence;
        worst = fmax(worst, divergence);
        json_object(j, NULL, lf_u64("tokens", part.tokens), lf_u64("lines", part.lines),
                    lf_u64("documents", part.docs), lf_real("divergence_bits", divergence));
        if (!o->json)
            printf("client-%03" PRIu32 " %12zu %10zu %10zu %10.4f\n", i, part.tokens, part.lines,
                   part.docs, divergence);
        corpus_clear(&part);
    }
    qsort(sizes, clients, sizeof *sizes, ascending);
    if (!o->json)
        printf("tokens: minimum %zu, median %zu, maximum %zu; divergence from all text: mean %.4f, "
               "maximum %.4f bits\n",
               sizes[0], sizes[clients / 2], sizes[clients - 1], sum / clients, worst);
done:
    sefl_free(sizes);
    corpus_clear(&part);
    return st;
}

static sefl_status run_split(void *options)
{
    wish *o = options;
    char by[SETTING_WORD_BYTES];
    setting_word_at(by, PARTITIONS, o->by);
    SEFL_PASS(corpus_paths_find(&o->paths, o->where));
    const char *train = o->paths.path[CORPUS_TRAIN];
    corpus_file f = file_of(o, train);
    const bool records = corpus_format_of(&f) != CORPUS_TEXT;
    SEFL_PASS(check_split(o, records));
    SEFL_PASS(words_of(&o->v, o, train, &as_it_appears));
    SEFL_PASS(read_file(&o->c, o->v, o, train));
    const partition_settings how = {
        .kind = o->by, .clients = o->clients, .alpha = o->alpha, .seed = o->seed
    };
    SEFL_PASS(sefl_at(partition_make(&o->p, &o->c, &how), "%s, --by %s", train, by));
    SEFL_PASS(file_make_folder(o->out, 0755));
    if (!o->json)
        printf("%s: %zu tokens, %zu lines, %zu documents%s to %" PRIu32
               " clients, %s, seed %" PRIu64 "\n%-10s %12s %10s %10s %10s\n",
               train, o->c.tokens, o->c.lines, o->c.docs, o->c.marked ? "" : " (lines)",
               o->p.clients, by, o->seed, "client", "tokens", "lines", "documents", "JSD bits");
    json j = json_into(&o->text);
    json_open(&j, '{');
    json_fields(&j, lf_str("by", by), lf_u64("seed", o->seed));
    json_key(&j, "clients"), json_open(&j, '[');
    SEFL_PASS(write_parts(o, records, &j));
    json_close(&j, ']');
    json_close(&j, '}');
    return o->json ? print_json(&j) : SEFL_OK;
}

/* ---- the command --------------------------------------------------------------------------- */

#define TO(member)       SETTING_TO(wish, member)
#define ORDER(name, ...) SETTING_ROW("order", __VA_ARGS__) /* vocab.order */
#define KIND(name, ...)  SETTING_ROW("kind", __VA_ARGS__)  /* vocab.kind */
static const setting_def options[] = {
    { "out", SETTING_PATH, "", TO(out), .arg = "OUT", .help = "File or folder to write" },
    { "vocab", SETTING_PATH, "", TO(vocab),
      .help =
          "Word list, whose other words count as unknown, or BPE vocabulary. Default for stats: "
          "the words of the training text" },
    /* clang-format off */
    VOCAB_KIND(KIND, words.kind)
    VOCAB_ORDER(ORDER, words.order)
    /* clang-format on */
    { "block", SETTING_U64, "32", TO(words.block), .min = 1, .max = 65536,
      .help = "Block size of the model, on which the interleaved order depends" },
    { "max-words", SETTING_U64, "0", TO(words.max_words), .min = 3, .max = VOCAB_WORDS_MAX,
      .help = "Keep only the N most frequent words, including <unk> and <eos>" },
    { "size", SETTING_U64, "8192", TO(size), .min = 258, .max = VOCAB_TOKENS_MAX,
      .help = "Number of BPE tokens, including 256 bytes and <eos>" },
    { "min-count", SETTING_U64, "0", TO(words.min_count),
      .help = "Keep only words that appear at least N times" },
    { "counts", SETTING_FLAG, TO(counts), .help = "Write a tab and the count after each word" },
    { "ids", SETTING_FLAG, TO(ids), .help = "Numbers of tokens instead of the tokens" },
    { "decode", SETTING_FLAG, TO(decode), .help = "Turn tokens back into the text" },
    { "list", SETTING_FLAG, TO(list),
      .help = "Read PATH as a word list: one word per line, with or without counts" },
    { "by", SETTING_CHOICE, "contiguous", PARTITIONS, TO(by),
      .help = "How to split the text: contiguous and round-robin by lines; article (nearly equal "
              "shares) and dirichlet (shares drawn from Dirichlet(alpha)) by whole documents" },
    { "clients", SETTING_U64, "0", TO(clients), .min = 1, .max = PARTITION_CLIENTS_MAX,
      .help = "Number of clients" },
    { "alpha", SETTING_REAL, "0.5", TO(alpha), .max = 1000,
      .help = "Dirichlet parameter; smaller values make clients differ more" },
    { "seed", SETTING_U64, "0", TO(seed), .help = "The same seed gives the same output" },
    /* clang-format off */
    TEXT_FORMAT(SETTING_ROW, "", format, field)
    /* clang-format on */
    { "force", SETTING_FLAG, TO(force), .help = "Replace existing files, but never the input" },
    OPTION_JSON(wish),
    { 0 },
};

#define PATH_ARG "PATH", "a file or folder"
#define AT       offsetof(wish, where)
static const cli_action actions[] = {
    { "stats", PATH_ARG, "Counts the tokens, lines, documents and unknown words of each split.",
      NULL, "vocab format field json", AT, run_stats },
    { "vocab", PATH_ARG,
      "Writes the words of the training text, one per line; with --kind bpe, trains sub-word "
      "tokens on it. A vocabulary made from private text reveals parts of that text: use public "
      "text, and the owners' own text only where no privacy is claimed.",
      "out", "kind size order block max-words min-count counts list format field force json", AT,
      run_vocab },
    { "tokenize", "FILE", "a text file",
      "Prints raw text as tokens: those of the BPE vocabulary --vocab, or, without --vocab, words "
      "and punctuation marks separated by spaces, for training with a word list.",
      NULL, "vocab ids decode out force", AT, run_tokenize },
    { "split", PATH_ARG,
      "Splits the training text into one folder per client: OUT/client-000/, ...", "out clients",
      "by alpha seed format field force json", AT, run_split },
    { 0 },
};

const cli_command cmd_data = {
    .name = "data",
    .about = "PATH is a folder with train.txt and, optionally, valid.txt and test.txt, or a file: "
             "plain text, .jsonl with one JSON object per line, or .csv with one document per row.",
    .example = "sefl synth --out text && sefl data stats text",
    CLI_OPTIONS(wish),
    .actions = actions,
    .finish = cmd_data_finish,
    .interruptible = true,
};
