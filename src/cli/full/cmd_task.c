/* sefl task: creates, signs, shows and checks the document that a federation agrees on. */
#include "base/hex.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/print.h"

#include "base/alloc.h"
#include "base/file.h"
#include "config/yaml/yaml.h"
#include "crypto/keyfile.h"
#include "crypto/seal/seal.h"
#include "model/file/model_file.h"
#include "protocol/task.h"
#include "protocol/task_make.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = ENVELOPE_CONTENT_MAX + 4096 };
#define MODEL_BYTES_MAX ((size_t)4 << 30)

typedef struct wish {
    const char *file, *out, *config, *key, *as_key, *csp_key, *init, *vocab, *valid, *as;
    bool force, json, explain;
    settings s;
} wish;

/* ---- files ----------------------------------------------------------------------------------- */

/* A document (text) or an envelope around one. env->content looks into file. */
static sefl_status read_task(task *t, sefl_buf *file, envelope *env, const char *path)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(file_read(file, path, FILE_BYTES_MAX));
    *env = (envelope){ .kind = SIGN_TASK, .content = buf_span(file) };
    if (file->n >= 8 && memcmp(file->p, "SEFLSGN1", 8) == 0)
        st = envelope_read(env, buf_span(file));
    if (st == SEFL_OK && env->kind != SIGN_TASK)
        st = sefl_fail(SEFL_EPROTO, "a signed %s, not a task", sign_kind_name(env->kind));
    if (st == SEFL_OK)
        st = task_read(t, env->content);
    st = sefl_at(st, "%s", path);
done:
    return st;
}

static sefl_status read_pub(ahe_pub **out, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    SEFL_TRY(file_read(&file, path, KEYFILE_BYTES_MAX));
    st = sefl_at(keyfile_pub_read(out, buf_span(&file)), "%s", path);
done:
    buf_clear(&file);
    return st;
}

static const char *as_hex(char out[65], const uint8_t hash[32])
{
    return hex_write(out, hash, 32);
}

/* ---- new ------------------------------------------------------------------------------------- */

/* A value that a file decides: the same as what was given, or filled in. */
static sefl_status fill(settings *s, const char *key, const char *value, const char *file)
{
    if (settings_given(s, key) && strcmp(settings_text(s, key), value) != 0)
        return sefl_fail(SEFL_EINVAL, "%s is given as %s, but %s says %s", key,
                         settings_text(s, key), file, value);
    return settings_set_pair(s, span_of_str(key), span_of_str(value), file);
}

/* The setting `key` is the SHA-256 of a file. bytes (may be NULL) receives what the file holds. */
static sefl_status fill_hash(settings *s, const char *key, const char *path, uint8_t hash[32],
                             sefl_buf *bytes)
{
    sefl_status st = SEFL_OK;
    sefl_buf own = { 0 }, *file = bytes ? bytes : &own;
    char hex[65];
    SEFL_TRY(file_read(file, path, MODEL_BYTES_MAX));
    sha256_of(hash, buf_span(file));
    SEFL_TRY(fill(s, key, as_hex(hex, hash), path));
done:
    buf_clear(&own);
    return st;
}

static sefl_status fill_number(settings *s, const char *key, uint64_t v, const char *file)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, v);
    return fill(s, key, text, file);
}

/* The word list as it is: its lines in the order of the model's rows. */
static sefl_status take_vocab(wish *w, uint8_t hash[32])
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    vocab *v = NULL;
    uint8_t words[32];
    SEFL_TRY(fill_hash(&w->s, "vocab.sha256", w->vocab, hash, &file));
    SEFL_TRY(vocab_read_over(&v, buf_span(&file), w->vocab,
                             &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    vocab_hash(v, words);
    SEFL_CHECK(memcmp(hash, words, 32) == 0, SEFL_EINVAL,
               "%s is not in its final form: one word per line, no counts, with <unk> and <eos>, "
               "in the order of the model's rows ('sefl data vocab' writes such a list)",
               w->vocab);
    SEFL_TRY(fill_number(&w->s, "model.vocab", vocab_size(v), w->vocab));
done:
    vocab_free(v);
    buf_clear(&file);
    return st;
}

static sefl_status take_init(wish *w, const uint8_t vocab_hash_[32])
{
    sefl_status st = SEFL_OK;
    model_meta meta;
    nn_real *theta = NULL;
    size_t count;
    uint8_t hash[32];
    char hex[65];
    settings *s = &w->s;
    SEFL_TRY(model_read(&meta, &theta, &count, w->init));
    const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {
        { "model.vocab", meta.cfg.vocab },   { "model.embed", meta.cfg.embed },
        { "model.hidden", meta.cfg.hidden }, { "model.layers", meta.cfg.layers },
        { "model.heads", meta.cfg.heads },   { "model.block", meta.cfg.block },
    };
    SEFL_TRY(fill(s, "model.body", meta.cfg.body, w->init));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        SEFL_TRY(fill_number(s, sizes[i].key, sizes[i].value, w->init));
    SEFL_TRY(fill(s, "model.tied", meta.cfg.tied ? "true" : "false", w->init));
    if (meta.has_vocab) {
        SEFL_TRY(fill(s, "vocab.order", vocab_order_name(meta.order), w->init));
        SEFL_CHECK(!w->vocab || memcmp(meta.vocab_hash, vocab_hash_, 32) == 0, SEFL_EINVAL,
                   "%s was made for another word list than %s", w->init, w->vocab);
        SEFL_TRY(fill(s, "vocab.sha256", as_hex(hex, meta.vocab_hash), w->init));
    }
    SEFL_TRY(fill_hash(s, "init.sha256", w->init, hash, NULL));
done:
    sefl_free(theta);
    return st;
}

/* The settings of --config, below those of --set and --set-file. */
static sefl_status take_config(wish *w)
{
    sefl_status st = SEFL_OK;
    settings file;
    settings_init(&file, task_schema);
    SEFL_TRY(yaml_read(&file, w->config));
    SEFL_TRY(settings_overlay(&file, &w->s));
    settings_clear(&w->s);
    w->s = file;
    return SEFL_OK;
done:
    settings_clear(&file);
    return st;
}

static sefl_status task_new(void *options)
{
    sefl_status st = SEFL_OK;
    wish *w = options;
    sefl_buf doc = { 0 };
    ahe_pub *pub = NULL;
    pinned servers;
    uint8_t words[32] = { 0 }, id[32];
    char hex[65];
    SEFL_TRY(output_check(w->out, NULL, w->force));
    if (w->config)
        SEFL_TRY(take_config(w));
    if (w->vocab)
        SEFL_TRY(take_vocab(w, words));
    if (w->init)
        SEFL_TRY(take_init(w, words));
    if (w->valid)
        SEFL_TRY(fill_hash(&w->s, "valid.sha256", w->valid, id, NULL));
    SEFL_CHECK(
        !w->key || strcmp(settings_text(&w->s, "crypto.scheme"), "paillier") == 0, SEFL_EINVAL,
        "--key goes with --set crypto.scheme=paillier: CSP of a pad task makes a key for each "
        "round");
    if (w->key)
        SEFL_TRY(read_pub(&pub, w->key));
    SEFL_TRY(sign_pub_read(servers.as, w->as_key));
    SEFL_TRY(sign_pub_read(servers.csp, w->csp_key));
    SEFL_TRY(task_make(&doc, &w->s, pub, &servers));
    SEFL_TRY(file_write_atomic(w->out, buf_span(&doc), 0644));
    sha256_of(id, buf_span(&doc));
    printf("%s: task %s\nnext: 'sefl task show --explain %s', then both servers sign it\n", w->out,
           as_hex(hex, id), w->out);
done:
    paillier_pub_free(pub);
    buf_clear(&doc);
    return st;
}

/* ---- sign ------------------------------------------------------------------------------------ */

static sefl_status task_sign(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    sefl_buf file = { 0 }, out = { 0 };
    sign_key *key = NULL;
    envelope env;
    task t = { 0 };
    char hex[65];
    signer who = strcmp(w->as, "csp") == 0 ? SIGNER_CSP : SIGNER_AS;
    SEFL_TRY(output_check(w->out, NULL, w->force || strcmp(w->out, w->file) == 0));
    SEFL_TRY(read_task(&t, &file, &env, w->file)); /* signs only what can be used */
    SEFL_TRY(sign_key_read(&key, w->key));
    const uint8_t *named = who == SIGNER_CSP ? t.servers.csp : t.servers.as;
    SEFL_CHECK(memcmp(sign_key_pub(key), named, SIGN_PUB_BYTES) == 0, SEFL_EAUTH,
               "%s: the task names another key of the %s than the one of %s", w->file,
               signer_name(who), w->key);
    SEFL_TRY(envelope_sign(&env, who, key));
    SEFL_TRY(envelope_write(&out, &env));
    SEFL_TRY(file_write_atomic(w->out, buf_span(&out), 0644));
    if (!t.claim)
        fprintf(stderr, "sefl task: warning: no differential privacy claimed\n");
    printf("%s: task %s, signed by the %s%s%s\n", w->out, as_hex(hex, t.id),
           signer_name(env.by[0].signer), env.count > 1 ? " and the " : "",
           env.count > 1 ? signer_name(env.by[1].signer) : "");
done:
    sign_key_free(key);
    task_clear(&t);
    buf_clear(&file);
    buf_clear(&out);
    return st;
}

/* ---- show ------------------------------------------------------------------------------------ */

/* Whose signatures are there and hold under the keys that the task itself names. */
static bool holds(const envelope *env, const task *t, signer who)
{
    return envelope_check_one(env, SIGN_TASK, who,
                              who == SIGNER_AS ? t->servers.as : t->servers.csp) == SEFL_OK;
}

static sefl_status show_json(const task *t, const envelope *env)
{
    char hex[65];
    dp_event ev = task_event(t, 1);
    return print_fields(
        lf_str("id", as_hex(hex, t->id)), lf_str("name", t->name),
        lf_str("population", t->population),
        lf_bool("signed_by_aggregator", holds(env, t, SIGNER_AS)),
        lf_bool("signed_by_csp", holds(env, t, SIGNER_CSP)), lf_str("model", t->model.body),
        lf_u64("params", t->params), lf_u64("values", t->values),
        lf_str("scheme", t->ahe.scheme->name), lf_str("seal", t->seal ? t->seal->name : "none"),
        lf_u64("key_bits", t->pub ? paillier_bits(t->pub) : 0),
        lf_u64("update_bytes", task_body_bytes(t)), lf_u64("k", t->ahe.pack.k),
        lf_u64("t", t->ahe.pack.t), lf_u64("w", t->ahe.pack.w), lf_real("q", t->ahe.pack.q),
        lf_real("sensitivity", t->ahe.pack.sensitivity), lf_str("noise", task_mode(t)->name),
        lf_str("z", t->z), lf_str("claim", t->claim ? "dp" : "none"),
        lf_if(!t->claim, lf_str("statement", "no differential privacy claimed")),
        lf_real("epsilon", t->epsilon), lf_real("delta", t->delta),
        lf_real("rate_claimed", t->claim ? ev.rate : 1), lf_bool("publish_count", t->publish_count),
        lf_u64("rounds", t->rounds), lf_u64("clients_max", t->clients_max),
        lf_u64("threshold", t->threshold));
}

static void show_text(const task *t, const envelope *env)
{
    char hex[65];
    static const char *const samplings[] = { "all", "open", "hidden" };
    printf("task         %s\n", as_hex(hex, t->id));
    printf("name         %s, population %s\n", t->name, t->population);
    bool as = holds(env, t, SIGNER_AS), csp = holds(env, t, SIGNER_CSP);
    printf("signed by    %s%s\n",
           as && csp ? "aggregator and csp"
           : as      ? "aggregator"
           : csp     ? "csp"
                     : "nobody",
           as && csp ? "" : " (not complete: clients will refuse it)");
    printf(
        "model        %s, %u words, embedding %u, hidden %u, layers %u, blocks of %u: %zu values\n",
        t->model.body, t->model.vocab, t->model.embed, t->model.hidden, t->model.layers,
        t->model.block, t->params);
    printf("word list    %s\n", as_hex(hex, t->vocab_hash));
    printf("first model  %s\n", as_hex(hex, t->init_hash));
    printf("validation   %s\n", t->has_valid ? as_hex(hex, t->valid_hash) : "none");
    printf("update       %zu values, %s", t->values, t->ahe.scheme->name);
    if (t->pub)
        printf(" under %u bits", paillier_bits(t->pub));
    else
        printf(" sealed with %s", t->seal->name);
    printf(": %zu bytes\n", task_body_bytes(t));
    printf("slots        %u + %u bits, step %.6g, |value| <= %lld, at most %u clients\n",
           t->ahe.pack.k, t->ahe.pack.t, t->ahe.pack.q, (long long)t->ahe.pack.value_max,
           t->clients_max);
    printf("rounds       %" PRIu64
           ", %u to %u of %u clients, %.1f s each, %u extensions of %.1f s\n",
           t->rounds, t->threshold, t->clients_max, t->enrolled, (double)t->deadline_ms / 1000,
           t->extensions, (double)t->extend_ms / 1000);
    printf("sampling     %s, rate %g%s\n", samplings[t->sampling], t->rate,
           t->publish_count ? "" : "; the number that took part is not published");
    if (!task_mode(t)->noisy)
        printf("noise        none: AS learns the exact average\n");
    else
        printf("noise        %s, z %s, clip %s (sensitivity %.6g)\n", task_mode(t)->name, t->z,
               t->clip, t->ahe.pack.sensitivity);
    if (t->claim)
        printf("claim        epsilon %g at delta %g, for a %s\n", t->epsilon, t->delta,
               t->unit == TASK_UNIT_CLIENT ? "client" : "record");
    else
        printf("claim        NONE: no differential privacy claimed\n");
}

static sefl_status task_show(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    sefl_buf file = { 0 }, words = { 0 };
    envelope env;
    task t = { 0 };
    SEFL_CHECK(!w->json || !w->explain, SEFL_EINVAL, "--json and --explain exclude each other");
    SEFL_TRY(read_task(&t, &file, &env, w->file));
    if (w->json) {
        SEFL_TRY(show_json(&t, &env));
    } else if (w->explain) {
        SEFL_TRY(task_explain(&words, &t));
        printf("%.*s", (int)words.n, (const char *)words.p);
    } else {
        show_text(&t, &env);
    }
done:
    task_clear(&t);
    buf_clear(&file);
    buf_clear(&words);
    return st;
}

/* ---- check ----------------------------------------------------------------------------------- */

static sefl_status task_check(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    sefl_buf file = { 0 };
    pinned p;
    task t = { 0 };
    char hex[65];
    SEFL_TRY(sign_pub_read(p.as, w->as_key));
    SEFL_TRY(sign_pub_read(p.csp, w->csp_key));
    SEFL_TRY(file_read(&file, w->file, FILE_BYTES_MAX));
    SEFL_TRY(sefl_at(task_open(&t, buf_span(&file), &p), "%s", w->file));
    if (!t.claim)
        fprintf(stderr, "sefl task: warning: no differential privacy claimed\n");
    printf("%s: task %s, signed by the aggregator and the csp\n", w->file, as_hex(hex, t.id));
done:
    task_clear(&t);
    buf_clear(&file);
    return st;
}

/* ---- command line ---------------------------------------------------------------------------- */

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "out", SETTING_PATH, "", TO(out), .help = "File to write" },
    OPTION_SET,
    { "config", SETTING_PATH, "", TO(config),
      .help = "Read settings from a YAML file; --set and --set-file replace them" },
    { "aggregator-key", SETTING_PATH, "", TO(as_key),
      .help = "Public signing key of the aggregation server" },
    { "csp-key", SETTING_PATH, "", TO(csp_key), .help = "Public signing key of CSP" },
    { "vocab", SETTING_PATH, "", TO(vocab),
      .help = "Public word list, in the order of the model's rows" },
    { "init", SETTING_PATH, "", TO(init),
      .help = "Public initial model; the task takes over its sizes" },
    { "valid", SETTING_PATH, "", TO(valid),
      .help = "Public text with which the aggregation server validates models" },
    { "key", SETTING_PATH, "", TO(key),
      .help = "new: CSP's public Paillier key, for the scheme paillier; sign: the server's secret "
              "signing key" },
    { "as", SETTING_WORD, "", "aggregator csp", TO(as), .help = "The signing server" },
    { "explain", SETTING_FLAG, TO(explain), .help = "Explain in words who can learn what" },
    OPTION_FORCE(wish),
    OPTION_JSON(wish),
    { 0 },
};

#define TASK_ARG "TASK", "a task file"
#define AT       offsetof(wish, file)
static const cli_action actions[] = {
    { "new", NULL, NULL, "Writes a task from settings and files.", "out aggregator-key csp-key",
      "set set-file config vocab init valid key force", 0, task_new },
    { "sign", TASK_ARG,
      "Adds a server's signature to a task. TASK is a task or one that the other server has "
      "signed.",
      "out key as", "force", AT, task_sign },
    { "show", TASK_ARG, "Prints what the task says.", NULL, "explain json", AT, task_show },
    { "check", TASK_ARG, "Checks both signatures against these keys.", "aggregator-key csp-key", "",
      AT, task_check },
    { 0 },
};

const cli_command cmd_task = {
    .name = "task",
    .summary = "create, sign, show and check the task that a federation agrees on",
    .notes =
        "These settings must be given: population, rounds.enrolled, and model.vocab, "
        "vocab.sha256 and init.sha256 unless --vocab and --init provide them. All others have "
        "defaults: scheme pad, joint noise with z 1, epsilon 8 at delta 1e-6, 100 rounds of 10 "
        "minutes. 'sefl config keys --for task' lists them.",
    .example = "sefl task show --explain public/task.signed",
    CLI_OPTIONS(wish),
    .actions = actions,
    .schema = task_schema,
    CLI_SETTINGS(wish, s),
};
