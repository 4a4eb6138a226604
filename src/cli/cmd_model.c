/* sefl model: model files: make, look, evaluate, write text, to PyTorch and back. */
#include "base/alloc.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/utf8.h"
#include "cli/actions.h"
#include "cli/best.h"
#include "cli/output.h"
#include "cli/print.h"
#include "model/corpus/corpus.h"
#include "model/file/model_file.h"
#include "model/file/safetensors.h"
#include "seeded/seeded.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct options {
    const char *path, *out, *vocab, *data, *split, *prompt, *field;
    lm_config cfg;
    vocab_order order;
    corpus_format format;
    uint32_t words, threads;
    uint64_t seed;
    double temperature;
    bool json, order_given, force;
} options;

/* ---- options ------------------------------------------------------------------------------- */

enum {
    O_OUT = 256,
    O_VOCAB,
    O_ORDER,
    O_DATA,
    O_SPLIT,
    O_FORMAT,
    O_FIELD,
    O_PROMPT,
    O_WORDS,
    O_TEMPERATURE,
    O_SEED,
    O_THREADS,
    O_MODEL,
    O_EMBED,
    O_HIDDEN,
    O_LAYERS,
    O_HEADS,
    O_BLOCK,
    O_TIED,
    O_FORCE,
    O_JSON
};

static const struct option info_options[] = { CLI_FLAG("json", O_JSON), { 0 } };
static const struct option new_options[] = { CLI_TAKES("vocab", O_VOCAB),
                                             CLI_TAKES("order", O_ORDER),
                                             CLI_TAKES("model", O_MODEL),
                                             CLI_TAKES("embed", O_EMBED),
                                             CLI_TAKES("hidden", O_HIDDEN),
                                             CLI_TAKES("layers", O_LAYERS),
                                             CLI_TAKES("heads", O_HEADS),
                                             CLI_TAKES("block", O_BLOCK),
                                             CLI_FLAG("tied", O_TIED),
                                             CLI_TAKES("seed", O_SEED),
                                             CLI_FLAG("force", O_FORCE),
                                             CLI_FLAG("json", O_JSON),
                                             { 0 } };
static const struct option eval_options[] = {
    CLI_TAKES("vocab", O_VOCAB), CLI_TAKES("data", O_DATA),
    CLI_TAKES("split", O_SPLIT), CLI_TAKES("format", O_FORMAT),
    CLI_TAKES("field", O_FIELD), CLI_TAKES("threads", O_THREADS),
    CLI_FLAG("json", O_JSON),    { 0 }
};
static const struct option generate_options[] = {
    CLI_TAKES("vocab", O_VOCAB),   CLI_TAKES("words", O_WORDS),
    CLI_TAKES("prompt", O_PROMPT), CLI_TAKES("temperature", O_TEMPERATURE),
    CLI_TAKES("seed", O_SEED),     CLI_TAKES("threads", O_THREADS),
    CLI_FLAG("json", O_JSON),      { 0 }
};
static const struct option export_options[] = {
    CLI_TAKES("out", O_OUT), CLI_FLAG("force", O_FORCE), CLI_FLAG("json", O_JSON), { 0 }
};
static const struct option import_options[] = {
    CLI_TAKES("out", O_OUT),    CLI_TAKES("block", O_BLOCK), CLI_TAKES("heads", O_HEADS),
    CLI_FLAG("tied", O_TIED),   CLI_TAKES("vocab", O_VOCAB), CLI_TAKES("order", O_ORDER),
    CLI_FLAG("force", O_FORCE), CLI_FLAG("json", O_JSON),    { 0 }
};

/* One option; returns CLI_DONE, or CLI_MISUSE after saying why. */
static int take(void *ctx, int c, const char *value)
{
    options *o = ctx;
    static const struct {
        int code;
        const char *name;
        uint32_t most;
    } numbers[] = { { O_EMBED, "embed", 65536 },           { O_HIDDEN, "hidden", 65536 },
                    { O_LAYERS, "layers", LM_MAX_LAYERS }, { O_HEADS, "heads", 1024 },
                    { O_BLOCK, "block", BHM_MAX_BLOCK },   { O_WORDS, "words", 1000000 },
                    { O_THREADS, "threads", 256 } };
    uint32_t *const to[] = { &o->cfg.embed, &o->cfg.hidden, &o->cfg.layers, &o->cfg.heads,
                             &o->cfg.block, &o->words,      &o->threads };
    sefl_status st = SEFL_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].code == c)
            return cli_take_u32(&cmd_model, numbers[i].name, value, 1, numbers[i].most, to[i]);
    switch (c) {
    case O_OUT:
        o->out = value;
        break;
    case O_VOCAB:
        o->vocab = value;
        break;
    case O_DATA:
        o->data = value;
        break;
    case O_SPLIT:
        o->split = value;
        break;
    case O_FIELD:
        o->field = value;
        break;
    case O_PROMPT:
        o->prompt = value;
        break;
    case O_MODEL:
        o->cfg.body = value;
        break;
    case O_TIED:
        o->cfg.tied = true;
        break;
    case O_FORCE:
        o->force = true;
        break;
    case O_JSON:
        o->json = true;
        break;
    case O_FORMAT:
        st = corpus_format_parse(&o->format, value);
        break;
    case O_ORDER:
        st = vocab_order_parse(&o->order, value);
        o->order_given = true;
        break;
    case O_SEED:
        return cli_take_u64(&cmd_model, "seed", value, 0, UINT64_MAX, &o->seed);
    case O_TEMPERATURE: {
        jread j = jread_over(span_of_str(value));
        if (jread_real(&j, &o->temperature) != SEFL_OK || jread_end(&j) != SEFL_OK ||
            !(o->temperature >= 0.01 && o->temperature <= 100))
            return cli_misuse(&cmd_model,
                              "--temperature is a number from 0.01 to 100, not \"%.64s\"", value);
        break;
    }
    }
    return st == SEFL_OK ? CLI_DONE : cli_misuse(&cmd_model, "%s", sefl_last_error());
}

/* Words in the order of the list; the label comes from --order where the list cannot tell. */
static sefl_status read_vocab(vocab **v, const options *o)
{
    return vocab_read(v, o->vocab, &(vocab_settings){ .order = VOCAB_APPEARANCE });
}

/* ---- info ---------------------------------------------------------------------------------- */

static sefl_status info_arrays(const options *o, const char *kind, json *j)
{
    sefl_status st = SEFL_OK;
    tensors *t = NULL;
    uint64_t values = 0;
    SEFL_TRY(tensors_open(&t, o->path));
    json_key(j, "arrays"), json_open(j, '[');
    for (size_t i = 0; i < tensors_count(t); i++) {
        const tensor *x = tensors_at(t, i);
        char shape[256] = "";
        json_open(j, '{');
        json_key(j, "name"), json_str(j, x->name);
        json_key(j, "type"), json_str(j, x->type_name);
        json_key(j, "shape"), json_open(j, '[');
        for (unsigned k = 0; k < x->rank; k++) {
            size_t n = strlen(shape);
            snprintf(shape + n, sizeof shape - n, "%s%" PRIu64, k ? " x " : "", x->shape[k]);
            json_u64(j, x->shape[k]);
        }
        json_close(j, ']');
        json_close(j, '}');
        values += x->count;
        char name[97];
        if (!o->json)
            printf("  %-48s %5s  %s\n", cli_plain(name, sizeof name, x->name), x->type_name, shape);
    }
    json_close(j, ']');
    json_key(j, "values"), json_u64(j, values);
    if (!o->json) {
        printf("%" PRIu64 " values in %zu arrays\n", values, tensors_count(t));
        const char *key, *value;
        char plain_key[65], plain_value[201];
        for (size_t i = 0; !*kind && tensors_meta_at(t, i, &key, &value); i++)
            printf("  %s: %s\n", cli_plain(plain_key, sizeof plain_key, key),
                   cli_plain(plain_value, sizeof plain_value, value));
    }
done:
    tensors_close(t);
    return st;
}

static sefl_status run_info(options *o)
{
    sefl_status st = SEFL_OK;
    model_meta meta = { 0 };
    nn_real *theta = NULL;
    size_t count = 0;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    char hash[2 * SHA256_BYTES + 1] = "";
    tensors *t = NULL;
    SEFL_TRY(tensors_open(&t, o->path));
    const char *kind = tensors_meta(t, "sefl");
    bool ours = kind && strncmp(kind, "model ", 6) == 0;
    json_open(&j, '{');
    json_key(&j, "sefl"), json_str(&j, kind ? kind : "");
    if (ours) { /* reads and checks every value */
        SEFL_TRY(model_read(&meta, &theta, &count, o->path));
        double squares = 0;
        for (size_t i = 0; i < count; i++)
            squares += (double)theta[i] * (double)theta[i];
        if (meta.has_vocab)
            hex_write(hash, meta.vocab_hash, sizeof meta.vocab_hash);
        const lm_config *c = &meta.cfg;
        json_key(&j, "model"), json_str(&j, c->body);
        json_key(&j, "vocab"), json_u64(&j, c->vocab);
        json_key(&j, "embed"), json_u64(&j, c->embed);
        json_key(&j, "hidden"), json_u64(&j, c->hidden);
        json_key(&j, "layers"), json_u64(&j, c->layers);
        json_key(&j, "heads"), json_u64(&j, c->heads);
        json_key(&j, "block"), json_u64(&j, c->block);
        json_key(&j, "tied"), json_bool(&j, c->tied);
        json_key(&j, "vocab_order"),
            json_str(&j, meta.has_vocab ? vocab_order_name(meta.order) : "");
        json_key(&j, "vocab_sha256"), json_str(&j, hash);
        json_key(&j, "parameters"), json_u64(&j, count);
        json_key(&j, "norm"), json_real(&j, sqrt(squares));
        if (!o->json) {
            printf("%s: %s, %" PRIu32 " words, embedding %" PRIu32 ", hidden %" PRIu32 ", %" PRIu32
                   " layers",
                   o->path, c->body, c->vocab, c->embed, c->hidden, c->layers);
            if (strcmp(c->body, "transformer") == 0)
                printf(", %" PRIu32 " heads", c->heads);
            printf(", block %" PRIu32 "%s\n", c->block, c->tied ? ", tied" : "");
            printf("vocabulary %s %s\n", meta.has_vocab ? vocab_order_name(meta.order) : "unknown",
                   hash);
            printf("parameters %zu, norm %.6g, all finite\n", count, sqrt(squares));
        }
    } else if (!o->json) {
        printf("%s: safetensors, %s\n", o->path,
               kind ? "dense weights exported by sefl" : "not written by sefl");
    }
    SEFL_TRY(info_arrays(o, ours ? "model" : "", &j));
    json_close(&j, '}');
    if (o->json)
        SEFL_TRY(print_json(&j));
done:
    tensors_close(t);
    sefl_free(theta);
    buf_clear(&b);
    return st;
}

/* ---- new ----------------------------------------------------------------------------------- */

static sefl_status report_written(const options *o, const char *path, const model_meta *meta,
                                  size_t count, double distance)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    if (!o->json) {
        printf("%s: %s, block %" PRIu32 ", %zu parameters", path, meta->cfg.body, meta->cfg.block,
               count);
        if (distance >= 0)
            printf(", projection changed the weights by %.4f of their norm", distance);
        printf("\n");
        return SEFL_OK;
    }
    json j = json_into(&b);
    json_open(&j, '{');
    json_key(&j, "path"), json_str(&j, path);
    json_key(&j, "model"), json_str(&j, meta->cfg.body);
    json_key(&j, "block"), json_u64(&j, meta->cfg.block);
    json_key(&j, "parameters"), json_u64(&j, count);
    if (distance >= 0)
        json_key(&j, "distance"), json_real(&j, distance);
    json_close(&j, '}');
    SEFL_TRY(print_json(&j));
done:
    buf_clear(&b);
    return st;
}

static void note_vocab(model_meta *meta, const vocab *v, const options *o)
{
    model_meta_set_vocab(meta, v);
    if (o->order_given)
        meta->order = o->order;
}

static sefl_status run_new(options *o)
{
    sefl_status st = SEFL_OK;
    vocab *v = NULL;
    lm *m = NULL;
    model_meta meta = { 0 };
    SEFL_TRY(output_check(o->path, o->vocab, o->force));
    SEFL_TRY(read_vocab(&v, o));
    o->cfg.vocab = vocab_size(v);
    o->cfg.batch = o->cfg.steps = 1; /* it only writes numbers down */
    SEFL_TRY(lm_new(&m, &o->cfg, NULL));
    lm_init(m, o->seed);
    meta.cfg = *lm_get_config(m);
    note_vocab(&meta, v, o);
    SEFL_TRY(model_write(o->path, &meta, lm_theta(m)));
    SEFL_TRY(report_written(o, o->path, &meta, lm_count(m), -1));
done:
    lm_free(m);
    vocab_free(v);
    return st;
}

/* ---- eval ---------------------------------------------------------------------------------- */

static sefl_status run_eval(options *o)
{
    sefl_status st = SEFL_OK;
    corpus_paths paths = { 0 };
    vocab *v = NULL;
    corpus c = { 0 };
    model_meta meta = { 0 };
    lm *m = NULL;
    pool *p = NULL;
    sefl_buf b = { 0 };
    double mean = 0;
    int which = -1;
    const char *split = o->split ? o->split : "valid";
    for (int i = 0; i < CORPUS_SPLITS; i++)
        if (strcmp(split, corpus_split_names[i]) == 0)
            which = i;
    SEFL_CHECK(which >= 0, SEFL_EINVAL, "split \"%.64s\" is none of train, valid, test", split);
    SEFL_TRY(corpus_paths_find(&paths, o->data));
    if (!o->split && !paths.path[which])
        which = CORPUS_TRAIN; /* a single file is meant as it is */
    SEFL_CHECK(paths.path[which], SEFL_ENOTFOUND, "%s: no %s text", o->data, split);
    SEFL_TRY(read_vocab(&v, o));
    SEFL_TRY(pool_new(&p, o->threads));
    SEFL_TRY(model_open(&m, &meta, o->path, 0, 0, p));
    SEFL_TRY(model_check_vocab(&meta, v));
    corpus_file f = { .path = paths.path[which], .format = o->format, .field = o->field };
    SEFL_TRY(corpus_read(&c, v, &f, NULL));
    SEFL_TRY(lm_evaluate(m, c.token, c.tokens, &mean, NULL));
    double best = best_perplexity(o->data, corpus_split_names[which]);
    if (!o->json) {
        printf("%s on %s: loss %.4f nats a token, perplexity %.4f, %zu tokens, %.2f %% unknown\n",
               o->path, paths.path[which], mean, exp(mean), c.tokens,
               100.0 * (double)c.unknown / (double)c.tokens);
        if (best > 0 && c.unknown > 0)
            printf("the source itself: not comparable: %.3g %% unknown words\n",
                   100.0 * (double)c.unknown / (double)c.tokens);
        else if (best > 0)
            printf("the source itself reaches %.4f: %.2f %% above\n", best,
                   100 * (exp(mean) / best - 1));
        goto done;
    }
    json j = json_into(&b);
    json_open(&j, '{');
    json_key(&j, "text"), json_str(&j, paths.path[which]);
    json_key(&j, "tokens"), json_u64(&j, c.tokens);
    json_key(&j, "unknown"), json_u64(&j, c.unknown);
    json_key(&j, "loss"), json_real(&j, mean);
    json_key(&j, "perplexity"), json_real(&j, exp(mean));
    if (best > 0 && c.unknown == 0)
        json_key(&j, "best_perplexity"), json_real(&j, best);
    json_close(&j, '}');
    SEFL_TRY(print_json(&j));
done:
    buf_clear(&b);
    corpus_clear(&c);
    lm_free(m);
    pool_free(p);
    vocab_free(v);
    corpus_paths_clear(&paths);
    return st;
}

/* ---- generate ------------------------------------------------------------------------------ */

/* Says which words of the prompt the model cannot see. */
static sefl_status name_unknown(const vocab *v, sefl_span prompt)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    sefl_span word, unk = vocab_word(v, vocab_unk(v));
    while (utf8_word(&prompt, &word))
        if (vocab_id(v, word) == vocab_unk(v) &&
            !(word.n == unk.n && memcmp(word.p, unk.p, unk.n) == 0))
            SEFL_TRY(wr_fmt(&b, "%s%.*s", b.n ? ", " : "", (int)word.n, (const char *)word.p));
    if (b.n)
        fprintf(stderr, "sefl model: not in the vocabulary, taken as <unk>: %.*s\n", (int)b.n,
                (const char *)b.p);
done:
    buf_clear(&b);
    return st;
}

static sefl_status run_generate(options *o)
{
    sefl_status st = SEFL_OK;
    vocab *v = NULL;
    model_meta meta = { 0 };
    lm *m = NULL;
    pool *p = NULL;
    uint32_t *words = NULL;
    sefl_buf b = { 0 }, text = { 0 };
    seeded gen;
    size_t prompt = 0, n = o->words ? o->words : 100;
    sefl_span rest = span_of_str(o->prompt ? o->prompt : ""), word;
    SEFL_CHECK(!o->prompt || utf8_good(rest) == rest.n, SEFL_EINVAL, "the prompt is not UTF-8");
    SEFL_TRY(read_vocab(&v, o));
    SEFL_TRY(pool_new(&p, o->threads ? o->threads : 1));
    SEFL_TRY(model_open(&m, &meta, o->path, 1, 0, p));
    SEFL_TRY(model_check_vocab(&meta, v));
    SEFL_TRY(sefl_new(&words, 1 + rest.n + n, sizeof *words));
    SEFL_TRY(name_unknown(v, rest));
    words[prompt++] = vocab_eos(v); /* a text begins behind a line's end */
    while (utf8_word(&rest, &word))
        words[prompt++] = vocab_id(v, word);
    seeded_init(&gen, o->seed, "generate");
    SEFL_TRY(lm_generate(m, words + prompt, n, words, prompt, o->temperature, vocab_unk(v), &gen));
    if (o->prompt)
        SEFL_TRY(wr_fmt(&text, "%s", o->prompt));
    for (size_t i = 0; i < n; i++) {
        sefl_span w = vocab_word(v, words[prompt + i]);
        bool line_end = words[prompt + i] == vocab_eos(v);
        if (line_end)
            SEFL_TRY(wr_u8(&text, '\n'));
        else {
            if (text.n && text.p[text.n - 1] != '\n')
                SEFL_TRY(wr_u8(&text, ' '));
            SEFL_TRY(wr_raw(&text, w.p, w.n));
        }
    }
    if (!o->json) {
        if (isatty(STDOUT_FILENO)) /* words of somebody's list: no commands for the terminal */
            for (size_t i = 0; i < text.n; i++)
                if (text.p[i] != '\n' && (text.p[i] < 32 || text.p[i] == 127))
                    text.p[i] = '?';
        print_line(&text);
        goto done;
    }
    json j = json_into(&b);
    json_open(&j, '{');
    json_key(&j, "seed"), json_u64(&j, o->seed);
    json_key(&j, "temperature"), json_real(&j, o->temperature);
    json_key(&j, "text"), json_span(&j, text.n ? buf_span(&text) : span_of("", 0));
    json_close(&j, '}');
    SEFL_TRY(print_json(&j));
done:
    buf_clear(&b);
    buf_clear(&text);
    sefl_free(words);
    lm_free(m);
    pool_free(p);
    vocab_free(v);
    return st;
}

/* ---- export, import ------------------------------------------------------------------------ */

static sefl_status run_export(options *o)
{
    sefl_status st = SEFL_OK;
    model_meta meta = { 0 };
    nn_real *theta = NULL;
    tensors *t = NULL;
    size_t count = 0;
    SEFL_TRY(output_check(o->out, o->path, o->force));
    SEFL_TRY(model_read(&meta, &theta, &count, o->path));
    SEFL_TRY(model_export(o->out, &meta, theta));
    SEFL_TRY(tensors_open(&t, o->out)); /* dense: more values than the model has */
    count = 0;
    for (size_t i = 0; i < tensors_count(t); i++)
        count += tensors_at(t, i)->count;
    meta.cfg.block = 1;
    SEFL_TRY(report_written(o, o->out, &meta, count, -1));
done:
    tensors_close(t);
    sefl_free(theta);
    return st;
}

static sefl_status run_import(options *o)
{
    sefl_status st = SEFL_OK;
    vocab *v = NULL;
    model_meta meta = { .cfg = o->cfg };
    nn_real *theta = NULL;
    size_t count = 0;
    double distance = 0;
    SEFL_TRY(output_check(o->out, o->path, o->force));
    if (o->vocab)
        SEFL_TRY(output_check(o->out, o->vocab, o->force));
    SEFL_TRY(model_import(&meta, &theta, &count, &distance, o->path));
    if (o->vocab) {
        SEFL_TRY(read_vocab(&v, o));
        SEFL_TRY(model_check_vocab(&meta, v));
        vocab_order known = meta.order;
        bool had = meta.has_vocab;
        note_vocab(&meta, v, o);
        if (had && !o->order_given)
            meta.order = known;
    }
    SEFL_TRY(model_write(o->out, &meta, theta));
    SEFL_TRY(report_written(o, o->out, &meta, count, distance));
done:
    sefl_free(theta);
    vocab_free(v);
    return st;
}

/* ---- the command --------------------------------------------------------------------------- */

static const cli_action actions[] = {
    { "info", info_options, "a model file" },
    { "new", new_options, "a model file" },
    { "eval", eval_options, "a model file" },
    { "generate", generate_options, "a model file" },
    { "export", export_options, "a model file" },
    { "import", import_options, "a model file" },
    { 0 },
};
static const struct {
    sefl_status (*run)(options *o);
    bool wants_vocab, wants_data, wants_out;
} work[] = {
    { run_info, false, false, false },  { run_new, true, false, false },
    { run_eval, true, true, false },    { run_generate, true, false, false },
    { run_export, false, false, true }, { run_import, false, false, true },
};

static int run(int argc, char **argv)
{
    options o = { .temperature = 1 };
    size_t which = 0;
    int rc = cli_actions_parse(&cmd_model, actions, argc, argv, take, &o, &which, &o.path);
    if (rc != CLI_DONE)
        return rc;
    const char *name = actions[which].name;
    if (work[which].wants_vocab && !o.vocab)
        return cli_misuse(&cmd_model, "%s wants --vocab", name);
    if (work[which].wants_data && !o.data)
        return cli_misuse(&cmd_model, "%s wants --data", name);
    if (work[which].wants_out && !o.out)
        return cli_misuse(&cmd_model, "%s wants --out", name);
    sefl_status st = work[which].run(&o);
    return st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_model, st);
}

const cli_command cmd_model = {
    .name = "model",
    .summary = "model files: make, look, evaluate, write text, to PyTorch and back",
    .usage = "info|new|eval|generate|export|import FILE [options]",
    .details = "  --json          one JSON object\n"
               "  --force         new, export, import: replace an existing file\n"
               "\n"
               "  info FILE       sizes, vocabulary, arrays of a safetensors file; checks\n"
               "                  every value\n"
               "\n"
               "  new FILE        writes an untrained model: what a federation begins with\n"
               "  --vocab LIST    its words ('sefl data vocab')\n"
               "  --order O       how the list is ordered, for the record: interleaved,\n"
               "                  appearance, frequency\n"
               "  --model M       lstm (default) or transformer\n"
               "  --embed N, --hidden N (200), --layers N (2), --heads N (2), --block L (1),\n"
               "  --tied          sizes\n"
               "  --seed S        same seed, same model (0)\n"
               "\n"
               "  eval FILE       perplexity, computed as PyTorch's word-language-model example\n"
               "                  does\n"
               "  --vocab LIST    the model's words; another list is refused\n"
               "  --data PATH     text file, or folder with valid.txt\n"
               "  --split S       train, valid (default) or test of a folder\n"
               "  --format F, --field NAME as in 'sefl data'\n"
               "  --threads N     (all cores)\n"
               "\n"
               "  generate FILE   text drawn from the model\n"
               "  --vocab LIST    the model's words\n"
               "  --words N       how many (100)\n"
               "  --prompt TEXT   what comes before\n"
               "  --temperature T below 1: safer words, above: wilder ones (1)\n"
               "  --seed S        same seed, same text (0)\n"
               "\n"
               "  export FILE --out FILE   dense weights under the names of PyTorch's example\n"
               "  import FILE --out FILE   dense weights of PyTorch, each matrix projected\n"
               "  --block L       block size (1)\n"
               "  --heads N       of a transformer (2): the file does not tell\n"
               "  --tied          the decoder's weights are the encoder's\n"
               "  --vocab LIST, --order O   its words, for the record",
    .example = "sefl data synth --out text\n"
               "  sefl train --data text --max-steps 20 --out run\n"
               "  sefl model info run/model.safetensors",
    .words = "new info eval generate export import",
    .run = run,
};
