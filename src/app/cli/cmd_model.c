#include "base/alloc.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/best.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/sample.h"
#include "model/corpus/corpus.h"
#include "model/engine/engine.h"
#include "model/file/safetensors.h"
#include "model/lm_settings.h"
#include "model/model_open.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct wish {
    const char *path, *out, *vocab, *order, *data, *split, *prompt, *field, *device, *precision;
    lm_config cfg;
    corpus_format format;
    uint32_t words, threads;
    uint64_t seed;
    double temperature;
    bool json, force;

    /* opened by an action, closed by `finish` */
    vocab *v;
    lm *m;
    engine *e;
    pool *p;
    tensors *t;
    nn_real *theta;
    model_meta meta;
    corpus c;
    corpus_paths paths;
    sefl_buf text;
} wish;

static void cmd_model_finish(void *options)
{
    wish *o = options;
    vocab_free(o->v);
    lm_free(o->m);
    engine_free(o->e);
    pool_free(o->p);
    tensors_close(o->t);
    sefl_free(o->theta);
    corpus_clear(&o->c);
    corpus_paths_clear(&o->paths);
    buf_clear(&o->text);
}

/* Reads the vocabulary in its own order, which --order names. */
static sefl_status read_vocab(vocab **v, const wish *o)
{
    return vocab_read(v, o->vocab,
                      &(vocab_settings){ .order = VOCAB_APPEARANCE, .kind = VOCAB_ANY });
}

/* Opens the model with its word list and a new thread pool. batch: 0 is the default. */
static sefl_status open_model(wish *o, unsigned threads, uint32_t batch)
{
    SEFL_PASS(read_vocab(&o->v, o));
    SEFL_PASS(pool_new(&o->p, threads));
    SEFL_PASS(model_open(&o->m, &o->meta, o->path, batch, 0, o->p));
    return model_check_vocab(&o->meta, o->v);
}

/* ---- info ---------------------------------------------------------------------------------- */

static void info_arrays(const wish *o, const tensors *t, bool show_meta, json *j)
{
    uint64_t values = 0;
    const char *key, *value;
    json_key(j, "arrays"), json_open(j, '[');
    for (size_t i = 0; i < tensors_count(t); i++) {
        const tensor *x = tensors_at(t, i);
        char shape[256] = "", name[97];
        if (x->rank == 0)
            snprintf(shape, sizeof shape, "scalar");
        json_open(j, '{');
        json_fields(j, lf_str("name", x->name), lf_str("type", x->type_name));
        json_key(j, "shape"), json_open(j, '[');
        for (unsigned k = 0; k < x->rank; k++) {
            size_t n = strlen(shape);
            snprintf(shape + n, sizeof shape - n, "%s%" PRIu64, k ? " x " : "", x->shape[k]);
            json_u64(j, x->shape[k]);
        }
        json_close(j, ']');
        json_close(j, '}');
        values += x->count;
        if (!o->json)
            printf("  %-48s %5s  %s\n", cli_plain(name, sizeof name, x->name), x->type_name, shape);
    }
    json_close(j, ']');
    json_fields(j, lf_u64("values", values));
    if (o->json)
        return;
    printf("%" PRIu64 " values in %zu arrays\n", values, tensors_count(t));
    for (size_t i = 0; show_meta && tensors_meta_at(t, i, &key, &value); i++) {
        char plain_key[65], plain_value[201];
        printf("  %s: %s\n", cli_plain(plain_key, sizeof plain_key, key),
               cli_plain(plain_value, sizeof plain_value, value));
    }
}

/* Prints the description of a model that sefl wrote. Reads and checks every value. */
static sefl_status info_model(wish *o, json *j)
{
    size_t count = 0;
    double squares = 0;
    char hash[HEX_CHARS(SHA256_BYTES)] = "";
    SEFL_PASS(model_read(&o->meta, &o->theta, &count, o->path));
    for (size_t i = 0; i < count; i++)
        squares += (double)o->theta[i] * (double)o->theta[i];
    if (o->meta.has_vocab)
        hex_write(hash, o->meta.vocab_hash, sizeof o->meta.vocab_hash);
    const lm_config *c = &o->meta.cfg;
    const char *order = o->meta.has_vocab ? vocab_order_name(o->meta.order) : "";
    if (o->json) {
        json_fields(j, lf_str("model", c->body), lf_u64("vocab", c->vocab),
                    lf_u64("embed", c->embed), lf_u64("hidden", c->hidden),
                    lf_u64("layers", c->layers), lf_u64("heads", c->heads),
                    lf_u64("block", c->block), lf_u64("block_embed", c->block_embed),
                    lf_u64("block_decoder", c->block_decoder), lf_bool("tied", c->tied),
                    lf_str("vocab_kind", o->meta.has_vocab ? vocab_kind_name(o->meta.kind) : ""),
                    lf_str("vocab_order", order), lf_str("vocab_sha256", hash),
                    lf_u64("parameters", count), lf_real("norm", sqrt(squares)),
                    lf_if(o->meta.clip > 0, lf_real("clip", (double)o->meta.clip / 1e9)));
        return SEFL_OK;
    }
    const bool bpe = o->meta.has_vocab && o->meta.kind == VOCAB_BPE;
    printf("%s: %s, %u %s, embedding %u, hidden %u, %u layers", o->path, c->body, c->vocab,
           bpe ? "BPE tokens" : "words", c->embed, c->hidden, c->layers);
    if (lm_body_facts_of(lm_body_named(c->body))->heads)
        printf(", %u heads", c->heads);
    printf(", block %u", c->block);
    if (c->block_embed != c->block || c->block_decoder != c->block)
        printf(" (embedding %u, decoder %u)", c->block_embed, c->block_decoder);
    printf("%s\n", c->tied ? ", tied" : "");
    printf("vocabulary %s %s\n", *order ? order : "unknown", hash);
    printf("parameters %zu, norm %.6g, all finite\n", count, sqrt(squares));
    if (o->meta.clip > 0) {
        hex_write(hash, o->meta.clip_task, MODEL_CLIP_TASK);
        printf("next clip  %.6g, found by task %s\n", (double)o->meta.clip / 1e9, hash);
    }
    return SEFL_OK;
}

/* Its tensors describe an external model. Checks its values against their hash. */
static sefl_status info_external(wish *o, json *j)
{
    uint8_t hash[SHA256_BYTES];
    SEFL_PASS(model_read_hash(hash, o->path));
    json_fields(j, lf_str("model", "external"));
    if (!o->json)
        printf("%s: external, for its own program\n", o->path);
    return SEFL_OK;
}

static sefl_status run_info(void *options)
{
    wish *o = options;
    json j = json_into(&o->text);
    SEFL_PASS(tensors_open(&o->t, o->path));
    const char *kind = tensors_meta(o->t, "sefl");
    const char *body = tensors_meta(o->t, "model");
    bool ours = kind && strncmp(kind, "model ", 6) == 0;
    bool external = ours && body && strcmp(body, "external") == 0;
    json_open(&j, '{');
    json_fields(&j, lf_str("sefl", kind));
    if (external)
        SEFL_PASS(info_external(o, &j));
    else if (ours)
        SEFL_PASS(info_model(o, &j));
    else if (!o->json)
        printf("%s: safetensors, %s\n", o->path,
               kind ? "dense weights exported by sefl" : "not written by sefl");
    info_arrays(o, o->t, !ours || external, &j);
    json_close(&j, '}');
    return o->json ? print_json(&j) : SEFL_OK;
}

/* ---- new ----------------------------------------------------------------------------------- */

/* distance < 0: no matrix was projected. */
static sefl_status report_written(const wish *o, const char *path, const model_meta *meta,
                                  size_t count, double distance)
{
    if (o->json)
        return print_fields(lf_str("path", path), lf_str("model", meta->cfg.body),
                            lf_u64("block", meta->cfg.block), lf_u64("parameters", count),
                            lf_if(distance >= 0, lf_real("distance", distance)));
    printf("%s: %s, block %" PRIu32 ", %zu parameters", path, meta->cfg.body, meta->cfg.block,
           count);
    if (distance >= 0)
        printf(", projection changed the weights by %.4f of their norm", distance);
    printf("\n");
    return SEFL_OK;
}

static sefl_status note_vocab(model_meta *meta, const vocab *v, const wish *o)
{
    model_meta_set_vocab(meta, v);
    return o->order ? vocab_order_parse(&meta->order, o->order) : SEFL_OK;
}

static sefl_status run_new(void *options)
{
    wish *o = options;
    SEFL_PASS(output_check(o->path, o->vocab, o->force));
    SEFL_PASS(read_vocab(&o->v, o));
    o->cfg.vocab = vocab_size(o->v);
    o->cfg.batch = o->cfg.steps = 1; /* no training or inference here */
    SEFL_PASS(lm_new(&o->m, &o->cfg, NULL));
    lm_init(o->m, o->seed);
    o->meta.cfg = *lm_get_config(o->m);
    SEFL_PASS(note_vocab(&o->meta, o->v, o));
    SEFL_PASS(model_write(o->path, &o->meta, lm_theta(o->m)));
    return report_written(o, o->path, &o->meta, lm_count(o->m), -1);
}

/* ---- eval ---------------------------------------------------------------------------------- */

static sefl_status open_engine(wish *o)
{
    size_t count = 0;
    SEFL_PASS(read_vocab(&o->v, o));
    SEFL_PASS(model_read(&o->meta, &o->theta, &count, o->path));
    SEFL_PASS(model_check_vocab(&o->meta, o->v));
    SEFL_PASS(pool_new(&o->p, o->threads));
    SEFL_PASS(engine_new(&o->e, &(engine_config){ .device = o->device,
                                                  .precision = o->precision,
                                                  .model = &o->meta.cfg,
                                                  .pool = o->p }));
    if (engine_fallback(o->e))
        fprintf(stderr, "sefl model: evaluating on the CPU: %s\n", engine_fallback(o->e));
    return engine_theta(o->e, o->theta);
}

static sefl_status run_eval(void *options)
{
    wish *o = options;
    double mean = 0;
    int which = 0;
    const char *split = o->split ? o->split : "valid";
    while (strcmp(split, corpus_split_names[which]) != 0) /* the table has checked --split */
        which++;
    SEFL_PASS(corpus_paths_find(&o->paths, o->data));
    if (!o->split && !o->paths.path[which])
        which = CORPUS_TRAIN; /* PATH is a single file */
    const char *text = o->paths.path[which];
    SEFL_NEED(text, SEFL_ENOTFOUND, "%s: there is no %s text", o->data, split);
    SEFL_PASS(open_engine(o));
    SEFL_PASS(corpus_read(
        &o->c, o->v, &(corpus_file){ .path = text, .format = o->format, .field = o->field }, NULL));
    SEFL_PASS(engine_evaluate(o->e, ENGINE_BASE, o->c.token, o->c.tokens, 0, &mean, NULL));
    const double best = best_perplexity(o->data, corpus_split_names[which]);
    const bool bpe = vocab_kind_of(o->v) == VOCAB_BPE;
    const double per_word = corpus_word_perplexity(&o->c, mean); /* exp(mean), unless bpe */
    const double unknown = 100.0 * (double)o->c.unknown / (double)o->c.tokens;
    if (o->json)
        return print_fields(lf_str("text", text), lf_u64("tokens", o->c.tokens),
                            lf_u64("unknown", o->c.unknown), lf_real("loss", mean),
                            lf_real("perplexity", exp(mean)),
                            lf_if(bpe, lf_real("word_perplexity", per_word)),
                            lf_if(bpe, lf_u64("words", o->c.words)),
                            lf_if(best > 0 && unknown == 0, lf_real("best_perplexity", best)));
    printf("%s on %s: loss %.4f nats per token, perplexity %.4f", o->path, text, mean, exp(mean));
    if (bpe)
        printf(" per token, %.4f per word, %zu tokens, %zu words\n", per_word, o->c.tokens,
               o->c.words);
    else
        printf(", %zu tokens, %.2f %% unknown\n", o->c.tokens, unknown);
    if (best > 0 && unknown > 0)
        printf("source: not comparable, because %.3g %% of the words are unknown\n", unknown);
    else if (best > 0)
        printf("source: perplexity %.4f per word; the model is %.2f %% above it\n", best,
               100 * (per_word / best - 1));
    return SEFL_OK;
}

/* ---- generate ------------------------------------------------------------------------------ */

/* Reports the words of the prompt that are not in the vocabulary. */
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
        fprintf(stderr, "sefl model: not in the vocabulary, replaced by <unk>: %.*s\n", (int)b.n,
                (const char *)b.p);
done:
    buf_clear(&b);
    return st;
}

static sefl_status run_generate(void *options)
{
    wish *o = options;
    sefl_span prompt = span_of_str(o->prompt ? o->prompt : "");
    SEFL_NEED(o->temperature >= 0.01, SEFL_EINVAL, "--temperature is %g: the minimum is 0.01",
              o->temperature);
    SEFL_NEED(utf8_good(prompt) == prompt.n, SEFL_EINVAL, "--prompt is not valid UTF-8");
    SEFL_PASS(open_model(o, o->threads ? o->threads : 1, 1));
    if (vocab_kind_of(o->v) == VOCAB_WORDS)
        SEFL_PASS(name_unknown(o->v, prompt));
    SEFL_PASS(wr_raw(&o->text, prompt.p, prompt.n));
    SEFL_PASS(sample_words(&o->text, o->m, o->v, prompt, o->words, o->temperature, o->seed));
    SEFL_PASS(wr_u8(&o->text, 0));
    char *text = (char *)o->text.p;
    if (o->json)
        return print_fields(lf_u64("seed", o->seed), lf_real("temperature", o->temperature),
                            lf_str("text", text));
    for (char *c = text; *c && isatty(STDOUT_FILENO); c++) /* words may have control bytes */
        if (*c != '\n' && ((unsigned char)*c < 32 || *c == 127))
            *c = '?';
    printf("%s\n", text);
    return SEFL_OK;
}

/* ---- export, import ------------------------------------------------------------------------ */

static sefl_status run_export(void *options)
{
    wish *o = options;
    size_t count = 0;
    SEFL_PASS(output_check(o->out, o->path, o->force));
    SEFL_PASS(model_read(&o->meta, &o->theta, &count, o->path));
    SEFL_PASS(model_export(o->out, &o->meta, o->theta));
    SEFL_PASS(tensors_open(&o->t, o->out)); /* the dense file has more values than the model */
    count = 0;
    for (size_t i = 0; i < tensors_count(o->t); i++)
        count += tensors_at(o->t, i)->count;
    o->meta.cfg.block = 1;
    return report_written(o, o->out, &o->meta, count, -1);
}

static sefl_status run_import(void *options)
{
    wish *o = options;
    size_t count = 0;
    double distance = 0;
    o->meta.cfg = o->cfg;
    SEFL_PASS(output_check(o->out, o->path, o->force));
    if (o->vocab)
        SEFL_PASS(output_check(o->out, o->vocab, o->force));
    SEFL_PASS(model_import(&o->meta, &o->theta, &count, &distance, o->path));
    if (o->vocab) {
        SEFL_PASS(read_vocab(&o->v, o));
        SEFL_PASS(model_check_vocab(&o->meta, o->v));
        vocab_order known = o->meta.order;
        bool had = o->meta.has_vocab;
        SEFL_PASS(note_vocab(&o->meta, o->v, o));
        if (had && !o->order)
            o->meta.order = known;
    }
    SEFL_PASS(model_write(o->out, &o->meta, o->theta));
    return report_written(o, o->out, &o->meta, count, distance);
}

/* ---- the command --------------------------------------------------------------------------- */

#define TO(member) SETTING_TO(wish, member)
/* Options from rows of settings: model.body is --model, model.embed is --embed, and a setting that
 * is true or false is a flag. */
#define BODY(name, ...)        SETTING_ROW("model", __VA_ARGS__)
#define SHAPE(name, kind, ...) SHAPE_AS(&(name)[sizeof "model." - 1], SHAPE_##kind, __VA_ARGS__)
#define SHAPE_AS(...)          SETTING_ROW(__VA_ARGS__)
#define SHAPE_U64              U64
#define SHAPE_BOOL             FLAG
static const setting_def options[] = {
    { "vocab", SETTING_PATH, "", TO(vocab), .help = "Vocabulary of the model" },
    { "order", SETTING_WORD, "", VOCAB_ORDERS, TO(order),
      .help = "Order of the vocabulary; the model file records it" },
    /* clang-format off */
    MODEL_BODY(BODY, WORD, cfg.body, MODEL_BODIES)
    MODEL_SHAPE(SHAPE, cfg)
    /* clang-format on */
    { "data", SETTING_PATH, "", TO(data), .arg = "PATH",
      .help = "Text file, or folder that contains train.txt, valid.txt or test.txt" },
    { "split", SETTING_WORD, "", "train valid test", TO(split),
      .help = "Which text of the folder to evaluate; default valid" },
    /* clang-format off */
    TEXT_FORMAT(SETTING_ROW, "", format, field)
    /* clang-format on */
    { "words", SETTING_U64, "100", TO(words), .min = 1, .max = 1000000,
      .help = "Number of words or BPE tokens to generate" },
    { "prompt", SETTING_TEXT, "", TO(prompt), .lines = true,
      .help = "Text that the model continues" },
    { "temperature", SETTING_REAL, "1", TO(temperature), .max = 100,
      .help = "Sampling temperature; values below 1 favour likely words more" },
    { "seed", SETTING_U64, "0", TO(seed), .help = "The same seed gives the same output" },
    { "threads", SETTING_U64, "0", TO(threads), .min = 1, .max = 256,
      .help = "Number of threads; by default, eval uses one per core and generate uses one" },
    /* clang-format off */
    ENGINE_DEVICE(SETTING_ROW)
    /* clang-format on */
    { "out", SETTING_PATH, "", TO(out), .help = "Model file to write" },
    OPTION_FORCE(wish),
    OPTION_JSON(wish),
    { 0 },
};

#define FILE_ARG "FILE", "a model file"
#define AT       offsetof(wish, path)
static const cli_action actions[] = {
    { "info", FILE_ARG,
      "Prints the sizes, vocabulary and arrays of a safetensors file and checks every value.", NULL,
      "json", AT, run_info },
    { "new", FILE_ARG, "Writes an untrained model, the starting point of a federation.", "vocab",
      "order model embed hidden layers heads block block-embed block-decoder tied seed force json",
      AT, run_new },
    { "eval", FILE_ARG,
      "Computes the perplexity on a text in the same way as PyTorch's word_language_model example, "
      "per token and, with a BPE vocabulary, per word. "
      "Refuses a vocabulary that does not belong to the model.",
      "vocab data", "split format field threads device precision json", AT, run_eval },
    { "generate", FILE_ARG, "Generates text with the model.", "vocab",
      "words prompt temperature seed threads json", AT, run_generate },
    { "export", FILE_ARG, "Writes dense weights under the array names of PyTorch's example.", "out",
      "force json", AT, run_export },
    { "import", FILE_ARG,
      "Reads dense weights of PyTorch's word-language-model example and projects each matrix onto "
      "block-Hankel form.",
      "out", "block block-embed block-decoder heads tied vocab order force json", AT, run_import },
    { 0 },
};

const cli_command cmd_model = {
    .name = "model",
    .example = "sefl synth --out text\n"
               "  sefl train --data text --max-steps 20 --out run\n"
               "  sefl model info run/model.safetensors",
    CLI_OPTIONS(wish),
    .actions = actions,
    .finish = cmd_model_finish,
};
