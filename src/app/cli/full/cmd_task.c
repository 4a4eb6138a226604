#include "base/hex.h"
#include "cli/full/task_control.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/print.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "config/yaml/yaml.h"
#include "crypto/ahe/ahe.h"
#include "crypto/keyfile.h"
#include "crypto/seal/seal.h"
#include "model/file/model_file.h"
#include "operator/task_file.h"
#include "protocol/modes/mode.h"
#include "protocol/task_budget.h"
#include "protocol/task_make.h"
#include "protocol/task_model.h"
#include "roles/aggregator/release.h"
#include "roles/task_queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct wish {
    const char *path, *out, *config, *key, *as_key, *csp_key, *init, *vocab, *valid, *as;
    bool force, json, explain, now, yes;
    settings s;
    /* What the action works on; finish releases it. */
    sefl_buf file, result;
    envelope env; /* borrows from file */
    task t;
    pinned servers;
    ahe_pub *pub;
    sign_key *sign;
    vocab *v;
    nn_real *theta;
} wish;

static void cmd_task_finish(void *options)
{
    wish *w = options;
    buf_clear(&w->file);
    buf_clear(&w->result);
    task_clear(&w->t);
    paillier_pub_free(w->pub);
    sign_key_free(w->sign);
    vocab_free(w->v);
    sefl_free(w->theta);
}

/* ---- files ----------------------------------------------------------------------------------- */

static sefl_status read_task(wish *w)
{
    return task_file_load(&w->file, &w->env, &w->t, w->path);
}

static sefl_status read_servers(wish *w)
{
    SEFL_PASS(sign_pub_read(w->servers.as, w->as_key));
    return sign_pub_read(w->servers.csp, w->csp_key);
}

/* Prints a file's task and who signed it. */
static void print_signed(const wish *w, const char *path, const char *first, const char *second)
{
    char hex[65];
    if (!w->t.claim)
        fprintf(stderr, "sefl task: warning: no differential privacy claimed\n");
    printf("%s: task %s, signed by the %s%s%s\n", path, hex_write(hex, w->t.id, 32), first,
           second ? " and the " : "", second ? second : "");
}

/* ---- new ------------------------------------------------------------------------------------- */

/* Sets a value from a file; refuses a given value that differs. */
static sefl_status fill(settings *s, const char *key, const char *value, const char *file)
{
    if (settings_given(s, key) && strcmp(settings_text(s, key), value) != 0)
        return sefl_fail(SEFL_EINVAL, "%s is set to %s, but %s has %s", key, settings_text(s, key),
                         file, value);
    return settings_set_pair(s, span_of_str(key), span_of_str(value), file);
}

/* Sets `key` to the SHA-256 of a file. */
static sefl_status fill_hash(settings *s, const char *key, const char *path, uint8_t hash[32])
{
    char hex[65];
    SEFL_PASS(file_sha256(hash, NULL, path));
    return fill(s, key, hex_write(hex, hash, 32), path);
}

static sefl_status fill_number(settings *s, const char *key, uint64_t v, const char *file)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, v);
    return fill(s, key, text, file);
}

/* A block size that equals model.block is 0 in the task, unless it is given. */
static sefl_status fill_block(settings *s, const char *key, uint32_t v, const lm_config *cfg,
                              const char *file)
{
    bool usual = v == cfg->block && settings_u64(s, key) == 0;
    return fill_number(s, key, usual ? 0 : v, file);
}

/* Reads the vocabulary as it is: one line per row of the model. */
static sefl_status take_vocab(wish *w, uint8_t hash[32])
{
    uint8_t words[32];
    SEFL_PASS(fill_hash(&w->s, "vocab.sha256", w->vocab, hash));
    SEFL_PASS(vocab_read(&w->v, w->vocab,
                         &(vocab_settings){ .order = VOCAB_APPEARANCE, .kind = VOCAB_ANY }));
    vocab_hash(w->v, words);
    SEFL_NEED(
        memcmp(hash, words, 32) == 0, SEFL_EINVAL,
        "%s is not in its final form: no counts; a word list has one word per line, with <unk> "
        "and <eos>, in the order of the model's rows ('sefl data vocab' writes such files)",
        w->vocab);
    SEFL_PASS(fill(&w->s, "vocab.kind", vocab_kind_name(vocab_kind_of(w->v)), w->vocab));
    return fill_number(&w->s, "model.vocab", vocab_size(w->v), w->vocab);
}

/* An external model: any safetensors file, which must have the tensors of model.tensors, if set. */
static sefl_status take_tensors(wish *w)
{
    uint8_t hash[32];
    SEFL_PASS(task_settings_tensors(&w->s, w->init));
    return fill_hash(&w->s, "init.sha256", w->init, hash);
}

static sefl_status take_init(wish *w, const uint8_t vocab_hash_[32])
{
    model_meta meta;
    size_t count;
    uint8_t hash[32];
    char hex[65];
    settings *s = &w->s;
    if (task_settings_external(s))
        return take_tensors(w);
    SEFL_PASS(model_read(&meta, &w->theta, &count, w->init));
    const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {
        { "model.vocab", meta.cfg.vocab },   { "model.embed", meta.cfg.embed },
        { "model.hidden", meta.cfg.hidden }, { "model.layers", meta.cfg.layers },
        { "model.heads", meta.cfg.heads },   { "model.block", meta.cfg.block },
    };
    SEFL_PASS(fill(s, "model.body", meta.cfg.body, w->init));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        SEFL_PASS(fill_number(s, sizes[i].key, sizes[i].value, w->init));
    SEFL_PASS(fill_block(s, "model.block_embed", meta.cfg.block_embed, &meta.cfg, w->init));
    SEFL_PASS(fill_block(s, "model.block_decoder", meta.cfg.block_decoder, &meta.cfg, w->init));
    SEFL_PASS(fill(s, "model.tied", meta.cfg.tied ? "true" : "false", w->init));
    if (meta.has_vocab) {
        SEFL_PASS(fill(s, "vocab.kind", vocab_kind_name(meta.kind), w->init));
        SEFL_PASS(fill(s, "vocab.order", vocab_order_name(meta.order), w->init));
        SEFL_NEED(!w->vocab || memcmp(meta.vocab_hash, vocab_hash_, 32) == 0, SEFL_EINVAL,
                  "%s was trained with another vocabulary than %s", w->init, w->vocab);
        SEFL_PASS(fill(s, "vocab.sha256", hex_write(hex, meta.vocab_hash, 32), w->init));
    }
    return fill_hash(s, "init.sha256", w->init, hash);
}

/* Reads the settings of --config; --set and --set-file override them. */
static sefl_status take_config(wish *w)
{
    settings given = w->s;
    settings_init(&w->s, task_schema);
    sefl_status st = yaml_read(&w->s, w->config);
    if (st == SEFL_OK)
        st = settings_overlay(&w->s, &given);
    settings_clear(&given);
    return st;
}

static sefl_status read_pub(wish *w)
{
    SEFL_NEED(settings_is(&w->s, "crypto.scheme", "paillier"), SEFL_EINVAL,
              "--key requires --set crypto.scheme=paillier: in a pad task, CSP derives a key for "
              "each round");
    SEFL_PASS(file_read(&w->file, w->key, KEYFILE_BYTES_MAX));
    return sefl_at(keyfile_pub_read(&w->pub, buf_span(&w->file)), "%s", w->key);
}

static sefl_status task_new(void *options)
{
    wish *w = options;
    uint8_t words[32] = { 0 }, id[32];
    char hex[65], warning[TASK_TURNS_TEXT];
    SEFL_PASS(output_check(w->out, NULL, w->force));
    if (w->config)
        SEFL_PASS(take_config(w));
    SEFL_NEED(!task_settings_external(&w->s) || (!w->vocab && !w->valid), SEFL_EINVAL,
              "model.body is external: the task has no word list and no validation text");
    if (w->vocab)
        SEFL_PASS(take_vocab(w, words));
    if (w->init)
        SEFL_PASS(take_init(w, words));
    if (w->valid)
        SEFL_PASS(fill_hash(&w->s, "valid.sha256", w->valid, id));
    if (w->key)
        SEFL_PASS(read_pub(w));
    SEFL_PASS(read_servers(w));
    SEFL_PASS(task_make(&w->result, &w->s, w->pub, &w->servers));
    SEFL_PASS(task_read(&w->t, buf_span(&w->result)));
    if (w->init && w->t.external)
        SEFL_PASS(task_model_read(&w->theta, &w->t, w->init));
    SEFL_PASS(file_write_atomic(w->out, buf_span(&w->result), 0644));
    sha256_of(id, buf_span(&w->result));
    if (task_turns_warning(warning, &w->t))
        fprintf(stderr, "sefl task: warning: %s\n", warning);
    printf("%s: task %s\n", w->out, hex_write(hex, id, 32));
    buf_clear(&w->result);
    SEFL_PASS(task_explain_mode(&w->result, &w->t));
    printf("%.*snext: 'sefl task show --explain %s', then both servers sign it\n", (int)w->result.n,
           (const char *)w->result.p, w->out);
    return SEFL_OK;
}

/* ---- sign ------------------------------------------------------------------------------------ */

static sefl_status task_sign(void *options)
{
    wish *w = options;
    envelope *env = &w->env;
    const signer who = strcmp(w->as, "csp") == 0 ? SIGNER_CSP : SIGNER_AS;
    SEFL_PASS(output_check(w->out, NULL, w->force || strcmp(w->out, w->path) == 0));
    SEFL_PASS(read_task(w)); /* signs only a usable task */
    SEFL_PASS(sign_key_read(&w->sign, w->key));
    SEFL_PASS(sefl_at(task_file_sign(&w->result, env, &w->t, who, w->sign), "%s", w->path));
    SEFL_PASS(file_write_atomic(w->out, buf_span(&w->result), 0644));
    print_signed(w, w->out, signer_name(env->by[0].signer),
                 env->count > 1 ? signer_name(env->by[1].signer) : NULL);
    return SEFL_OK;
}

/* ---- show ------------------------------------------------------------------------------------ */

/* True if this server's signature verifies under the key that the task names. */
static bool is_signed(const envelope *env, const task *t, signer who)
{
    return envelope_check_one(env, SIGN_TASK, who,
                              who == SIGNER_AS ? t->servers.as : t->servers.csp) == SEFL_OK;
}

static sefl_status show_json(const task *t, const envelope *env)
{
    char hex[65];
    dp_event ev = task_event(t, 1);
    return print_fields(
        lf_str("id", hex_write(hex, t->id, 32)), lf_str("name", t->name),
        lf_str("population", t->population),
        lf_bool("signed_by_aggregator", is_signed(env, t, SIGNER_AS)),
        lf_bool("signed_by_csp", is_signed(env, t, SIGNER_CSP)), lf_str("model", t->model.body),
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

/* Returns the word of a setting's index. */
static char *word_of(char out[SETTING_WORD_BYTES], const char *key, unsigned i)
{
    return setting_word_at(out, setting_find(task_schema, key)->words, i);
}

static void show_privacy(const task *t)
{
    char word[SETTING_WORD_BYTES];
    if (t->unit == TASK_UNIT_RECORD)
        printf("records      take turns: at most %u per client and round, each in at most %" PRIu64
               " of %" PRIu64 " rounds; the first %u words of each are used\n",
               t->records_max, t->record_turns, t->rounds, t->record_words);
    if (!task_mode(t)->noisy)
        printf("noise        none: AS learns the exact average\n");
    else
        printf("noise        %s, z %s, clip %s (sensitivity %.6g)\n", task_mode(t)->name, t->z,
               t->clip, t->ahe.pack.sensitivity);
    if (t->clip_quantile > 0)
        printf("clip         found privately: it leaves the share %g of the updates unchanged\n",
               t->clip_quantile);
    if (t->claim)
        printf("claim        epsilon %g at delta %g, for a %s\n", t->epsilon, t->delta,
               word_of(word, "privacy.unit", t->unit));
    else
        printf("claim        NONE: no differential privacy claimed\n");
}

static void show_text(const task *t, const envelope *env)
{
    char hex[65], word[SETTING_WORD_BYTES];
    printf("task         %s\n", hex_write(hex, t->id, 32));
    printf("name         %s, population %s\n", t->name, t->population);
    bool as = is_signed(env, t, SIGNER_AS), csp = is_signed(env, t, SIGNER_CSP);
    printf("signed by    %s%s\n",
           as && csp ? "aggregator and csp"
           : as      ? "aggregator"
           : csp     ? "csp"
                     : "nobody",
           as && csp ? "" : " (incomplete: clients will refuse it)");
    if (t->external)
        printf("model        external, %zu tensor%s: %zu values\n", t->layout.n,
               t->layout.n == 1 ? "" : "s", t->params);
    else
        printf("model        %s, %u %s, embedding %u, hidden %u, layers %u, blocks of %u: %zu "
               "values\n",
               t->model.body, t->model.vocab, t->kind == VOCAB_BPE ? "BPE tokens" : "words",
               t->model.embed, t->model.hidden, t->model.layers, t->model.block, t->params);
    if (t->layout.trained < t->layout.count)
        printf("trained      only %s: %zu values\n", t->only, t->layout.trained);
    if (!t->external)
        printf("vocabulary   %s, %s\n", hex_write(hex, t->vocab_hash, 32),
               vocab_kind_name(t->kind));
    printf("initial      %s\n", hex_write(hex, t->init_hash, 32));
    if (!t->external)
        printf("validation   %s\n", t->has_valid ? hex_write(hex, t->valid_hash, 32) : "none");
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
    if (t->weights == TASK_CAPPED)
        printf("weights      capped: full weight from %" PRIu64 " %s\n", t->weight_cap,
               t->external ? "examples" : "words");
    printf("sampling     %s, rate %g%s\n", word_of(word, "privacy.sampling", t->sampling), t->rate,
           t->publish_count ? "" : "; the number of participants is not published");
    show_privacy(t);
}

static sefl_status task_show(void *options)
{
    wish *w = options;
    SEFL_NEED(!w->json || !w->explain, SEFL_EINVAL, "--json and --explain cannot be combined");
    SEFL_PASS(read_task(w));
    if (w->json)
        return show_json(&w->t, &w->env);
    if (w->explain) {
        SEFL_PASS(task_explain(&w->result, &w->t));
        printf("%.*s", (int)w->result.n, (const char *)w->result.p);
    } else {
        show_text(&w->t, &w->env);
    }
    return SEFL_OK;
}

/* ---- check ----------------------------------------------------------------------------------- */

static sefl_status task_check(void *options)
{
    wish *w = options;
    SEFL_PASS(read_servers(w));
    SEFL_PASS(file_read(&w->file, w->path, TASK_FILE_MAX));
    SEFL_PASS(sefl_at(task_open(&w->t, buf_span(&w->file), &w->servers), "%s", w->path));
    print_signed(w, w->path, signer_name(SIGNER_AS), signer_name(SIGNER_CSP));
    return SEFL_OK;
}

/* ---- queue ----------------------------------------------------------------------------------- */

/* The files of a task in a server's folder of tasks (roles/task_queue.h). */
static const char *const queued[] = { TASK_QUEUE_FILE, "init.safetensors", "vocab.txt",
                                      "valid.txt" };

/* Deletes an unfinished copy. */
static void delete_copy(const char *folder)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof queued / sizeof *queued; i++)
        if (file_path(path, "%s/%s", folder, queued[i]) == SEFL_OK)
            (void)unlink(path);
    (void)rmdir(folder);
}

/* Copies the files to the new folder, and renames it. */
static sefl_status queue_files(const wish *w, const char *folder)
{
    char path[PATH_MAX];
    const char *const from[] = { w->path, w->init, w->vocab, w->valid };
    for (size_t i = 0; i < sizeof queued / sizeof *queued; i++)
        if (from[i]) {
            SEFL_PASS(file_path(path, "%s/%s", folder, queued[i]));
            SEFL_PASS(outfile_copy(path, from[i], 0644, NULL));
        }
    SEFL_PASS(file_sync_folder(folder));
    SEFL_NEED(rename(folder, w->out) == 0, SEFL_EIO, "cannot rename %s to %s: %s", folder, w->out,
              strerror(errno));
    return file_sync_parent(w->out);
}

/* Checks the files that AS needs. */
static sefl_status check_queued(wish *w)
{
    corpus valid = { 0 };
    if (!w->init) {
        SEFL_NEED(!w->vocab && !w->valid, SEFL_EINVAL,
                  "--vocab and --valid need --init: AS needs all files, and CSP only the task");
        return SEFL_OK;
    }
    sefl_status st = releases_check(
        &(releases_config){ .task = &w->t,
                            .files = { .init = w->init, .vocab = w->vocab, .valid = w->valid } },
        &w->v, &valid);
    corpus_clear(&valid);
    return st;
}

static sefl_status task_queue_add(void *options)
{
    wish *w = options;
    char hidden[PATH_MAX];
    const char *slash = strrchr(w->out, '/'), *name = slash ? slash + 1 : w->out;
    SEFL_NEED(*name && *name != '.', SEFL_EINVAL,
              "--out %s: name a new folder in the server's folder of tasks, such as tasks/02-notes",
              w->out);
    SEFL_NEED(!file_exists(w->out), SEFL_EEXIST, "%s exists: choose another name", w->out);
    SEFL_PASS(read_task(w));
    SEFL_PASS(sefl_at(envelope_check(&w->env, SIGN_TASK, &w->t.servers), "%s", w->path));
    SEFL_PASS(check_queued(w));
    SEFL_PASS(file_path(hidden, "%.*s.%s.new", (int)(name - w->out), w->out, name));
    SEFL_NEED(mkdir(hidden, 0755) == 0, SEFL_EIO,
              "cannot create %s: %s; if an earlier run left it, delete it", hidden,
              strerror(errno));
    sefl_status st = queue_files(w, hidden);
    if (st != SEFL_OK)
        delete_copy(hidden);
    else
        printf("%s  %s, for %s\n", w->out, w->t.name, w->init ? "the aggregation server" : "CSP");
    return st;
}

/* ---- pause, resume, close, end --------------------------------------------------------------- */

static sefl_status task_pause(void *options)
{
    const wish *w = options;
    return task_control(w->config, CONTROL_PAUSE, w->now, false);
}

static sefl_status task_resume(void *options)
{
    return task_control(((const wish *)options)->config, CONTROL_RESUME, false, false);
}

static sefl_status task_close(void *options)
{
    return task_control(((const wish *)options)->config, CONTROL_CLOSE, false, false);
}

static sefl_status task_end(void *options)
{
    const wish *w = options;
    return task_control(w->config, CONTROL_END, w->now, w->yes);
}

/* ---- command line ---------------------------------------------------------------------------- */

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "out", SETTING_PATH, "", TO(out),
      .help = "File to write the task to; for queue, the new folder" },
    OPTION_SET,
    { "config", SETTING_PATH, "", TO(config), .letter = 'c',
      .help = "For new, read settings from a YAML file, which --set and --set-file override; for "
              "pause, resume, close and end, the server's aggregator.yml or csp.yml" },
    { "aggregator-key", SETTING_PATH, "", TO(as_key),
      .help = "Public signing key of the aggregation server" },
    { "csp-key", SETTING_PATH, "", TO(csp_key), .help = "Public signing key of CSP" },
    { "vocab", SETTING_PATH, "", TO(vocab),
      .help = "Public vocabulary, in the order of the model's rows" },
    { "init", SETTING_PATH, "", TO(init),
      .help = "Public initial model; the task takes the model's sizes from it" },
    { "valid", SETTING_PATH, "", TO(valid),
      .help = "Public text on which the aggregation server validates each model" },
    { "key", SETTING_PATH, "", TO(key),
      .help = "For new, CSP's public Paillier key (scheme paillier only); for sign, the server's "
              "secret signing key" },
    { "as", SETTING_WORD, "", "aggregator csp", TO(as), .help = "Role of the server that signs" },
    { "explain", SETTING_FLAG, TO(explain),
      .help = "Also explain who can learn what from the training" },
    { "now", SETTING_FLAG, TO(now),
      .help = "At AS: drop the round in progress if it still collects updates: nothing of it is "
              "revealed or charged" },
    { "yes", SETTING_FLAG, TO(yes), .help = "Do not ask" },
    OPTION_FORCE(wish),
    OPTION_JSON(wish),
    { 0 },
};

#define TASK_ARG "TASK", "a task file"
#define AT       offsetof(wish, path)
static const cli_action actions[] = {
    { "new", NULL, NULL, "Creates a task from settings and files.", "out aggregator-key csp-key",
      "set set-file config vocab init valid key force", 0, task_new },
    { "sign", TASK_ARG,
      "Adds a server's signature to TASK, which may already have the other server's signature.",
      "out key as", "force", AT, task_sign },
    { "show", TASK_ARG, "Prints the terms of the task.", NULL, "explain json", AT, task_show },
    { "check", TASK_ARG, "Verifies both servers' signatures.", "aggregator-key csp-key", "", AT,
      task_check },
    { "queue", TASK_ARG,
      "Adds TASK to a server's folder of tasks, all at once: --out names the new sub-folder. AS "
      "needs --init and the other files that the task names; CSP needs none of them.",
      "out", "vocab init valid", AT, task_queue_add },
    { "pause", NULL, NULL,
      "Lets the round in progress end, and no other begin until resume. The server may be running "
      "or not. Either server's operator can do this.",
      "config", "now", 0, task_pause },
    { "resume", NULL, NULL, "Lets the next round of a paused task begin.", "config", "", 0,
      task_resume },
    { "close", NULL, NULL,
      "Closes the round that collects updates now, with the updates it has, instead of waiting for "
      "missing sites until the deadline. The round needs as many updates as the task's threshold. "
      "For AS's operator.",
      "config", "", 0, task_close },
    { "end", NULL, NULL,
      "Ends the task after the round in progress, for good: clients get the final model, and the "
      "servers go on with the next task of the queue.",
      "config", "now yes", 0, task_end },
    { 0 },
};

const cli_command cmd_task = {
    .name = "task",
    .notes =
        "The settings population and rounds.enrolled are required; so are model.vocab, "
        "vocab.sha256 and init.sha256, unless --vocab and --init provide them. All others "
        "have defaults, such as scheme pad, epsilon 8 at delta 1e-6 with as much noise (joint; "
        "own for single records) as that needs over all rounds, and 100 rounds of 10 minutes. "
        "'sefl config keys --for task' lists all settings.",
    .example = "sefl task show --explain public/task.signed",
    CLI_OPTIONS(wish),
    .actions = actions,
    .finish = cmd_task_finish,
    .schema = task_schema,
    CLI_SETTINGS(wish, s),
};
