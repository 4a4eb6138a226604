/* sefl data: what text is there, the words of a vocabulary, text for clients, generated text. */
#include "base/alloc.h"
#include "base/hex.h"
#include "base/json.h"
#include "cli/actions.h"
#include "cli/interrupt.h"
#include "cli/meter.h"
#include "cli/output.h"
#include "cli/print.h"
#include "model/corpus/corpus.h"
#include "model/corpus/partition.h"
#include "model/corpus/synth.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct options {
    const char *where, *out, *vocab, *field;
    corpus_format format;
    vocab_settings words;
    partition_settings split;
    synth_settings synth;
    bool json, counts, list, force;
    bool clients_given, tokens_given;
} options;

/* ---- options ------------------------------------------------------------------------------- */

enum {
    O_OUT = 256,
    O_VOCAB,
    O_FIELD,
    O_FORMAT,
    O_ORDER,
    O_BLOCK,
    O_MAX_WORDS,
    O_MIN_COUNT,
    O_COUNTS,
    O_LIST,
    O_CLIENTS,
    O_BY,
    O_ALPHA,
    O_SEED,
    O_TOKENS,
    O_FORCE,
    O_JSON
};

static const struct option stats_options[] = { CLI_TAKES("format", O_FORMAT),
                                               CLI_TAKES("field", O_FIELD),
                                               CLI_TAKES("vocab", O_VOCAB),
                                               CLI_FLAG("json", O_JSON),
                                               { 0 } };
static const struct option vocab_options[] = { CLI_TAKES("format", O_FORMAT),
                                               CLI_TAKES("field", O_FIELD),
                                               CLI_TAKES("out", O_OUT),
                                               CLI_TAKES("order", O_ORDER),
                                               CLI_TAKES("block", O_BLOCK),
                                               CLI_TAKES("max-words", O_MAX_WORDS),
                                               CLI_TAKES("min-count", O_MIN_COUNT),
                                               CLI_FLAG("counts", O_COUNTS),
                                               CLI_FLAG("list", O_LIST),
                                               CLI_FLAG("force", O_FORCE),
                                               CLI_FLAG("json", O_JSON),
                                               { 0 } };
static const struct option split_options[] = {
    CLI_TAKES("format", O_FORMAT), CLI_TAKES("field", O_FIELD),
    CLI_TAKES("out", O_OUT),       CLI_TAKES("clients", O_CLIENTS),
    CLI_TAKES("by", O_BY),         CLI_TAKES("alpha", O_ALPHA),
    CLI_TAKES("seed", O_SEED),     CLI_FLAG("force", O_FORCE),
    CLI_FLAG("json", O_JSON),      { 0 }
};
static const struct option synth_options[] = {
    CLI_TAKES("out", O_OUT),       CLI_TAKES("clients", O_CLIENTS),
    CLI_TAKES("tokens", O_TOKENS), CLI_TAKES("alpha", O_ALPHA),
    CLI_TAKES("seed", O_SEED),     CLI_FLAG("force", O_FORCE),
    CLI_FLAG("json", O_JSON),      { 0 }
};

/* "0.5", "12", ".25": digits and at most one point; the user's locale has no say. */
static bool parse_real(const char *text, double *out)
{
    double v = 0, scale = 1;
    bool point = false, digit = false;
    for (const char *p = text; *p; p++) {
        if (*p == '.' && !point) {
            point = true;
        } else if (*p >= '0' && *p <= '9' && p - text < 18) {
            digit = true;
            v = 10 * v + (*p - '0');
            scale *= point ? 10 : 1;
        } else {
            return false;
        }
    }
    *out = v / scale;
    return digit;
}

/* One option; returns CLI_DONE, or CLI_MISUSE after saying why. */
static int take(void *ctx, int c, const char *value)
{
    options *o = ctx;
    sefl_status st = SEFL_OK;
    int rc;
    switch (c) {
    case O_OUT:
        o->out = value;
        break;
    case O_VOCAB:
        o->vocab = value;
        break;
    case O_FIELD:
        o->field = value;
        break;
    case O_FORMAT:
        st = corpus_format_parse(&o->format, value);
        break;
    case O_ORDER:
        st = vocab_order_parse(&o->words.order, value);
        break;
    case O_BY:
        st = partition_kind_parse(&o->split.kind, value);
        break;
    case O_COUNTS:
        o->counts = true;
        break;
    case O_LIST:
        o->list = true;
        break;
    case O_FORCE:
        o->force = true;
        break;
    case O_JSON:
        o->json = true;
        break;
    case O_BLOCK:
        return cli_take_u32(&cmd_data, "block", value, 1, 65536, &o->words.block);
    case O_MAX_WORDS:
        return cli_take_u32(&cmd_data, "max-words", value, 3, VOCAB_WORDS_MAX, &o->words.max_words);
    case O_MIN_COUNT:
        return cli_take_u64(&cmd_data, "min-count", value, 0, UINT64_MAX, &o->words.min_count);
    case O_CLIENTS:
        rc = cli_take_u32(&cmd_data, "clients", value, 1, PARTITION_CLIENTS_MAX, &o->split.clients);
        o->synth.clients = o->split.clients;
        o->clients_given = true;
        return rc;
    case O_ALPHA:
        if (!parse_real(value, &o->split.alpha) || !(o->split.alpha >= 0.001) ||
            o->split.alpha > 1000)
            return cli_misuse(&cmd_data, "--alpha is a number from 0.001 to 1000, not \"%.64s\"",
                              value);
        o->synth.alpha = o->split.alpha;
        break;
    case O_SEED:
        rc = cli_take_u64(&cmd_data, "seed", value, 0, UINT64_MAX, &o->split.seed);
        o->synth.seed = o->split.seed;
        return rc;
    case O_TOKENS:
        o->tokens_given = true;
        return cli_take_u64(&cmd_data, "tokens", value, 1, SYNTH_TOKENS_MAX, &o->synth.tokens);
    }
    return st == SEFL_OK ? CLI_DONE : cli_misuse(&cmd_data, "%s", sefl_last_error());
}

/* ---- reading ------------------------------------------------------------------------------- */

static corpus_file file_of(const options *o, const char *path)
{
    return (corpus_file){ .path = path, .format = o->format, .field = o->field };
}

static sefl_status count_file(vocab *v, const options *o, const char *path)
{
    meter m;
    interrupt_progress stop;
    sefl_progress p = interrupt_with(&stop, meter_start(&m, "counting words"));
    corpus_file f = file_of(o, path);
    sefl_status st = corpus_count(v, &f, &p);
    meter_stop(&m);
    return st;
}

static sefl_status read_file(corpus *c, const vocab *v, const options *o, const char *path)
{
    meter m;
    interrupt_progress stop;
    sefl_progress p = interrupt_with(&stop, meter_start(&m, "reading"));
    corpus_file f = file_of(o, path);
    sefl_status st = corpus_read(c, v, &f, &p);
    meter_stop(&m);
    return st;
}

static void hex(char out[2 * SHA256_BYTES + 1], const vocab *v)
{
    uint8_t digest[SHA256_BYTES];
    vocab_hash(v, digest);
    hex_write(out, digest, sizeof digest);
}

/* ---- stats --------------------------------------------------------------------------------- */

static void stats_json(json *j, const corpus_stats *s, bool marked)
{
    json_key(j, "tokens"), json_u64(j, s->tokens);
    json_key(j, "words"), json_u64(j, s->words);
    json_key(j, "lines"), json_u64(j, s->lines);
    json_key(j, "documents"), json_u64(j, s->docs);
    json_key(j, "documents_marked"), json_bool(j, marked);
    json_key(j, "types"), json_u64(j, s->types);
    json_key(j, "unk"), json_u64(j, s->unk);
    json_key(j, "unknown"), json_u64(j, s->unknown);
    json_key(j, "longest_line"), json_u64(j, s->longest_line);
    json_key(j, "longest_document"), json_u64(j, s->longest_doc);
    json_key(j, "unigram_bits"), json_real(j, s->unigram_bits);
}

static void stats_text(const char *name, const corpus_stats *s, bool marked)
{
    printf("%-6s %12zu %10zu %9zu%s %8zu %9zu %9zu %9zu %8.3f\n", name, s->tokens, s->lines,
           s->docs, marked ? " " : "*", s->types, s->unk, s->unknown, s->longest_line,
           s->unigram_bits);
}

static sefl_status run_stats(options *o)
{
    sefl_status st = SEFL_OK;
    corpus_paths paths = { 0 };
    vocab *v = NULL;
    corpus c = { 0 };
    corpus_stats s;
    sefl_buf b = { 0 };
    bool unmarked = false;
    char hash[2 * SHA256_BYTES + 1];
    SEFL_TRY(corpus_paths_find(&paths, o->where));
    if (o->vocab) {
        SEFL_TRY(vocab_read(&v, o->vocab, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    } else {
        SEFL_TRY(vocab_new(&v));
        SEFL_TRY(count_file(v, o, paths.path[CORPUS_TRAIN]));
        SEFL_TRY(vocab_finish(v, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    }
    hex(hash, v);
    json j = json_into(&b);
    json_open(&j, '{');
    json_key(&j, "vocabulary_words"), json_u64(&j, vocab_size(v));
    json_key(&j, "vocabulary_sha256"), json_str(&j, hash);
    if (!o->json) {
        printf("vocabulary  %" PRIu32 " words, %s, sha256 %.16s\n", vocab_size(v),
               o->vocab ? o->vocab : "of the training text in order of appearance", hash);
        printf("%-6s %12s %10s %10s %8s %9s %9s %9s %8s\n", "split", "tokens", "lines",
               "documents ", "types", "<unk>", "unknown", "longest", "bits");
    }
    for (int i = 0; i < CORPUS_SPLITS; i++) {
        if (!paths.path[i])
            continue;
        SEFL_TRY(read_file(&c, v, o, paths.path[i]));
        SEFL_TRY(corpus_stats_of(&s, &c, v));
        json_key(&j, corpus_split_names[i]), json_open(&j, '{');
        stats_json(&j, &s, c.marked);
        json_close(&j, '}');
        if (!o->json)
            stats_text(corpus_split_names[i], &s, c.marked);
        unmarked |= !c.marked;
        corpus_clear(&c);
    }
    json_close(&j, '}');
    if (o->json)
        SEFL_TRY(print_json(&j));
    else
        printf(
            "tokens count <eos>; unknown: words that the vocabulary lacks; longest: tokens of the\n"
            "longest line; bits: entropy of single tokens%s\n",
            unmarked ? "; *: no headings, each line is a document" : "");
done:
    buf_clear(&b);
    corpus_clear(&c);
    vocab_free(v);
    corpus_paths_clear(&paths);
    return st;
}

/* ---- vocab --------------------------------------------------------------------------------- */

static sefl_status run_vocab(options *o)
{
    sefl_status st = SEFL_OK;
    corpus_paths paths = { 0 };
    vocab *v = NULL;
    sefl_buf b = { 0 };
    char hash[2 * SHA256_BYTES + 1];
    if (o->list) {
        SEFL_TRY(output_check(o->out, o->where, o->force));
        SEFL_TRY(vocab_read(&v, o->where, &o->words));
    } else {
        SEFL_TRY(corpus_paths_find(&paths, o->where));
        for (int i = 0; i < CORPUS_SPLITS; i++)
            SEFL_TRY(output_check(o->out, paths.path[i], o->force));
        SEFL_TRY(vocab_new(&v));
        SEFL_TRY(count_file(v, o, paths.path[CORPUS_TRAIN]));
        SEFL_TRY(vocab_finish(v, &o->words));
    }
    SEFL_TRY(vocab_write(v, o->out, o->counts));
    hex(hash, v);
    if (!o->json) {
        printf("%s: %" PRIu32 " words, order %s", o->out, vocab_size(v),
               vocab_order_name(vocab_order_of(v)));
        if (o->words.order == VOCAB_INTERLEAVED)
            printf(" for blocks of %" PRIu32, o->words.block);
        printf("\nsha256 %s%s\n", hash, o->counts ? " (of the words without counts)" : "");
        goto done;
    }
    json j = json_into(&b);
    json_open(&j, '{');
    json_key(&j, "words"), json_u64(&j, vocab_size(v));
    json_key(&j, "order"), json_str(&j, vocab_order_name(vocab_order_of(v)));
    json_key(&j, "block"), json_u64(&j, o->words.block);
    json_key(&j, "sha256"), json_str(&j, hash);
    json_key(&j, "unk"), json_u64(&j, vocab_unk(v));
    json_key(&j, "eos"), json_u64(&j, vocab_eos(v));
    json_close(&j, '}');
    SEFL_TRY(print_json(&j));
done:
    buf_clear(&b);
    vocab_free(v);
    corpus_paths_clear(&paths);
    return st;
}

/* ---- split --------------------------------------------------------------------------------- */

static sefl_status make_folder(const char *path)
{
    struct stat sb;
    if (mkdir(path, 0755) == 0 || (errno == EEXIST && stat(path, &sb) == 0 && S_ISDIR(sb.st_mode)))
        return SEFL_OK;
    return sefl_fail(SEFL_EIO, "cannot make the folder %s: %s", path, strerror(errno));
}

static void client_file(char out[64], uint32_t who, bool records)
{
    snprintf(out, 64, "client-%03" PRIu32 "/train.%s", who, records ? "jsonl" : "txt");
}

static sefl_status write_client(const options *o, const corpus *part, const vocab *v, uint32_t who,
                                bool records)
{
    sefl_status st = SEFL_OK;
    char *path = NULL, name[64];
    size_t n = strlen(o->out) + 66;
    client_file(name, who, records);
    SEFL_TRY(sefl_new(&path, n, 1));
    snprintf(path, n, "%s/client-%03" PRIu32, o->out, who);
    SEFL_TRY(make_folder(path));
    snprintf(path, n, "%s/%s", o->out, name);
    SEFL_TRY(corpus_write(part, v, &(corpus_file){ .path = path, .field = o->field }));
done:
    sefl_free(path);
    return st;
}

/* Nothing is written over unasked, and the input never. */
static sefl_status check_split(const options *o, const corpus_paths *in, bool records)
{
    sefl_status st = SEFL_OK;
    char name[64];
    for (uint32_t who = 0; who < o->split.clients; who++) {
        client_file(name, who, records);
        for (int i = 0; i < CORPUS_SPLITS; i++)
            SEFL_TRY(output_check_in(o->out, name, in->path[i], o->force));
    }
    SEFL_TRY(output_check_folder(o->out, "client-", o->force));
done:
    return st;
}

static int ascending(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

static sefl_status run_split(options *o)
{
    sefl_status st = SEFL_OK;
    corpus_paths paths = { 0 };
    vocab *v = NULL;
    corpus c = { 0 }, part = { 0 };
    partition p = { 0 };
    size_t *sizes = NULL;
    sefl_buf b = { 0 };
    double divergence, sum = 0, worst = 0;
    SEFL_TRY(corpus_paths_find(&paths, o->where));
    const char *train = paths.path[CORPUS_TRAIN];
    corpus_file f = file_of(o, train);
    SEFL_TRY(check_split(o, &paths, corpus_format_of(&f) != CORPUS_TEXT));
    SEFL_TRY(vocab_new(&v));
    SEFL_TRY(count_file(v, o, train));
    SEFL_TRY(vocab_finish(v, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    SEFL_TRY(read_file(&c, v, o, train));
    st = partition_make(&p, &c, &o->split);
    if (st != SEFL_OK) {
        sefl_note_before("%s, --by %s", train, partition_kind_name(o->split.kind));
        goto done;
    }
    SEFL_TRY(make_folder(o->out));
    SEFL_TRY(sefl_new(&sizes, p.clients, sizeof *sizes));
    json j = json_into(&b);
    json_open(&j, '{');
    json_key(&j, "by"), json_str(&j, partition_kind_name(o->split.kind));
    json_key(&j, "seed"), json_u64(&j, o->split.seed);
    json_key(&j, "clients"), json_open(&j, '[');
    if (!o->json)
        printf("%s: %zu tokens, %zu lines, %zu documents%s to %" PRIu32
               " clients, %s, seed %" PRIu64 "\n%-10s %12s %10s %10s %10s\n",
               train, c.tokens, c.lines, c.docs, c.marked ? "" : " (lines)", p.clients,
               partition_kind_name(o->split.kind), o->split.seed, "client", "tokens", "lines",
               "documents", "JSD bits");
    for (uint32_t i = 0; i < p.clients; i++) {
        SEFL_CHECK(!interrupt_seen(), SEFL_ECANCELLED,
                   "stopped: %s has only %" PRIu32 " of %" PRIu32 " clients", o->out, i, p.clients);
        SEFL_TRY(partition_take(&part, &c, &p, i));
        SEFL_TRY(partition_divergence(&divergence, &part, &c, v));
        SEFL_TRY(write_client(o, &part, v, i, corpus_format_of(&f) != CORPUS_TEXT));
        sizes[i] = part.tokens;
        sum += divergence;
        worst = fmax(worst, divergence);
        json_open(&j, '{');
        json_key(&j, "tokens"), json_u64(&j, part.tokens);
        json_key(&j, "lines"), json_u64(&j, part.lines);
        json_key(&j, "documents"), json_u64(&j, part.docs);
        json_key(&j, "divergence_bits"), json_real(&j, divergence);
        json_close(&j, '}');
        if (!o->json)
            printf("client-%03" PRIu32 " %12zu %10zu %10zu %10.4f\n", i, part.tokens, part.lines,
                   part.docs, divergence);
        corpus_clear(&part);
    }
    json_close(&j, ']');
    json_close(&j, '}');
    if (o->json) {
        SEFL_TRY(print_json(&j));
        goto done;
    }
    qsort(sizes, p.clients, sizeof *sizes, ascending);
    printf(
        "tokens: least %zu, median %zu, most %zu; divergence from all text: mean %.4f, most %.4f "
        "bits\n",
        sizes[0], sizes[p.clients / 2], sizes[p.clients - 1], sum / p.clients, worst);
done:
    buf_clear(&b);
    sefl_free(sizes);
    partition_clear(&p);
    corpus_clear(&part);
    corpus_clear(&c);
    vocab_free(v);
    corpus_paths_clear(&paths);
    return st;
}

/* ---- synth --------------------------------------------------------------------------------- */

static sefl_status check_synth(const options *o)
{
    static const char *const names[] = { "train.txt", "valid.txt", "test.txt", "vocab.txt",
                                         "meta.json" };
    sefl_status st = SEFL_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        SEFL_TRY(output_check_in(o->out, names[i], NULL, o->force));
    SEFL_TRY(output_check_folder(o->out, "client-", o->force));
done:
    return st;
}

static sefl_status run_synth(options *o)
{
    sefl_status st = SEFL_OK;
    synth_report r;
    sefl_buf b = { 0 };
    meter m;
    interrupt_progress stop;
    sefl_progress p = interrupt_with(&stop, meter_start(&m, "writing"));
    st = check_synth(o);
    if (st == SEFL_OK)
        st = synth_write(o->out, &o->synth, &r, &p);
    meter_stop(&m);
    if (st == SEFL_ECANCELLED)
        st = sefl_fail(st, "stopped: %s is not complete; --force writes it anew", o->out);
    if (st != SEFL_OK)
        return st;
    if (!o->json) {
        printf("%s: %" PRIu32 " clients, %" PRIu32 " words, seed %" PRIu64 "\n", o->out,
               o->synth.clients, r.words, o->synth.seed);
        printf("%-6s %12s %10s %22s\n", "split", "tokens", "lines", "perplexity of the source");
        for (int i = 0; i < CORPUS_SPLITS; i++)
            printf("%-6s %12" PRIu64 " %10" PRIu64 " %22.4f\n", corpus_split_names[i], r.tokens[i],
                   r.lines[i], r.perplexity[i]);
        printf("entropy rate %.6f nats a token, exactly: best possible perplexity %.4f\n",
               r.entropy, r.best_perplexity);
        goto done;
    }
    json j = json_into(&b);
    json_open(&j, '{');
    json_key(&j, "clients"), json_u64(&j, o->synth.clients);
    json_key(&j, "seed"), json_u64(&j, o->synth.seed);
    json_key(&j, "vocabulary_words"), json_u64(&j, r.words);
    json_key(&j, "entropy_nats_per_token"), json_real(&j, r.entropy);
    json_key(&j, "best_perplexity"), json_real(&j, r.best_perplexity);
    for (int i = 0; i < CORPUS_SPLITS; i++) {
        json_key(&j, corpus_split_names[i]), json_open(&j, '{');
        json_key(&j, "tokens"), json_u64(&j, r.tokens[i]);
        json_key(&j, "lines"), json_u64(&j, r.lines[i]);
        json_key(&j, "source_perplexity"), json_real(&j, r.perplexity[i]);
        json_close(&j, '}');
    }
    json_close(&j, '}');
    SEFL_TRY(print_json(&j));
done:
    buf_clear(&b);
    return st;
}

/* ---- the command --------------------------------------------------------------------------- */

static const cli_action actions[] = {
    { "stats", stats_options, "a file or folder" },
    { "vocab", vocab_options, "a file or folder" },
    { "split", split_options, "a file or folder" },
    { "synth", synth_options, NULL },
    { 0 },
};
static const struct {
    sefl_status (*run)(options *o);
    bool wants_out;
} work[] = { { run_stats, false }, { run_vocab, true }, { run_split, true }, { run_synth, true } };

static int run(int argc, char **argv)
{
    options o = { .words.block = 32, .split.alpha = 0.5 };
    size_t which = 0;
    int rc = cli_actions_parse(&cmd_data, actions, argc, argv, take, &o, &which, &o.where);
    if (rc != CLI_DONE)
        return rc;
    if (work[which].wants_out && !o.out)
        return cli_misuse(&cmd_data, "%s wants --out", actions[which].name);
    if (work[which].run == run_split && !o.clients_given)
        return cli_misuse(&cmd_data, "split wants --clients");
    if (work[which].run == run_synth) {
        o.synth.clients = o.clients_given ? o.synth.clients : 4;
        o.synth.tokens = o.tokens_given ? o.synth.tokens : 200000;
        if (o.synth.clients > SYNTH_CLIENTS_MAX)
            return cli_misuse(&cmd_data, "synth makes text for at most %d clients",
                              SYNTH_CLIENTS_MAX);
    }
    interrupt_catch();
    sefl_status st = work[which].run(&o);
    return st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_data, st);
}

const cli_command cmd_data = {
    .name = "data",
    .summary = "text for training: statistics, vocabulary, shares, generated text",
    .usage = "stats|vocab|split PATH | synth --out DIR  [options]",
    .details = "  PATH is a folder with train.txt (and valid.txt, test.txt), or a file. Text has\n"
               "  one line a line; .jsonl an object a line, .csv a row a document.\n"
               "  --format F      auto (by the file's ending), text, jsonl, csv\n"
               "  --field NAME    JSONL member or CSV column that holds the text (text)\n"
               "  --json          one JSON object\n"
               "  --force         vocab, split, synth: replace existing files, never the input\n"
               "\n"
               "  stats PATH      tokens, lines, documents, unknown words of each split\n"
               "  --vocab FILE    words of this list; default: those of the training text\n"
               "\n"
               "  vocab PATH      writes the words of the training text, one a line. In a\n"
               "                  federation this must be public text: the list tells which\n"
               "                  words it holds\n"
               "  --out FILE      where to\n"
               "  --order O       interleaved (default), appearance, frequency\n"
               "  --block L       block size of the model, for interleaved (32)\n"
               "  --max-words N   keep the N most frequent, <unk> and <eos> among them\n"
               "  --min-count N   keep words seen at least N times\n"
               "  --counts        a tab and the count behind each word\n"
               "  --list          PATH is a word list (a word a line, maybe with counts)\n"
               "\n"
               "  split PATH      deals the training text out to clients: DIR/client-000/, ...\n"
               "  --out DIR       where to\n"
               "  --clients K     how many\n"
               "  --by P          contiguous (default), round-robin: lines; article, dirichlet:\n"
               "                  whole documents, in even shares or in shares drawn from\n"
               "                  Dirichlet(alpha)\n"
               "  --alpha A       the smaller, the more uneven (0.5)\n"
               "  --seed S        same seed, same shares (0)\n"
               "\n"
               "  synth           writes generated text whose best possible perplexity is known\n"
               "  --out DIR       where to: train.txt, valid.txt, test.txt, client-000/,\n"
               "                  vocab.txt, meta.json\n"
               "  --clients K     how many (4)\n"
               "  --tokens N      training tokens of all clients together (200000)\n"
               "  --alpha A       topics differ among clients as Dirichlet(alpha) draws (0.5)\n"
               "  --seed S        same seed, same bytes (0)",
    .example = "sefl data synth --out text --clients 4 --tokens 100000 --seed 1",
    .words = "stats vocab split synth",
    .run = run,
};
