/* sefl task: the document that a federation agrees on: made, signed by both servers, shown, checked. */
#include "base/hex.h"
#include "cli/actions.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/print.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "config/yaml/yaml.h"
#include "crypto/keyfile.h"
#include "model/file/model_file.h"
#include "protocol/task.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    O_OUT = 256,
    O_FORCE,
    O_JSON,
    O_SET,
    O_SET_FILE,
    O_CONFIG,
    O_KEY,
    O_AGGREGATOR_KEY,
    O_CSP_KEY,
    O_INIT,
    O_VOCAB,
    O_VALID,
    O_AS,
    O_EXPLAIN,
    FILE_BYTES_MAX = ENVELOPE_CONTENT_MAX + 4096,
};
#define MODEL_BYTES_MAX ((size_t)4 << 30)

static const struct option new_options[] = {
    { "out", required_argument, NULL, O_OUT },
    { "force", no_argument, NULL, O_FORCE },
    { "set", required_argument, NULL, O_SET },
    { "set-file", required_argument, NULL, O_SET_FILE },
    { "config", required_argument, NULL, O_CONFIG },
    { "key", required_argument, NULL, O_KEY },
    { "aggregator-key", required_argument, NULL, O_AGGREGATOR_KEY },
    { "csp-key", required_argument, NULL, O_CSP_KEY },
    { "init", required_argument, NULL, O_INIT },
    { "vocab", required_argument, NULL, O_VOCAB },
    { "valid", required_argument, NULL, O_VALID },
    { 0 },
};
static const struct option sign_options[] = {
    { "out", required_argument, NULL, O_OUT },
    { "force", no_argument, NULL, O_FORCE },
    { "key", required_argument, NULL, O_KEY },
    { "as", required_argument, NULL, O_AS },
    { 0 },
};
static const struct option show_options[] = {
    { "json", no_argument, NULL, O_JSON },
    { "explain", no_argument, NULL, O_EXPLAIN },
    { 0 },
};
static const struct option check_options[] = {
    { "aggregator-key", required_argument, NULL, O_AGGREGATOR_KEY },
    { "csp-key", required_argument, NULL, O_CSP_KEY },
    { 0 },
};

typedef struct wish {
    const char *out, *key, *as_key, *csp_key, *init, *vocab, *valid, *as, *file;
    bool force, json, explain;
    settings s;
} wish;

/* ---- files ----------------------------------------------------------------------------------- */

/* A document (text) or an envelope around one. env->content looks into file. */
static sefl_status read_task(sefl_buf *file, envelope *env, const char *path)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(file_read(file, path, FILE_BYTES_MAX));
    if (file->n >= 8 && memcmp(file->p, "SEFLSGN1", 8) == 0) {
        st = envelope_read(env, buf_span(file));
        if (st == SEFL_OK && env->kind != SIGN_TASK)
            st = sefl_fail(SEFL_EPROTO, "a signed %s, not a task", sign_kind_name(env->kind));
    } else {
        *env = (envelope){ .kind = SIGN_TASK, .content = buf_span(file) };
    }
    if (st != SEFL_OK)
        st = sefl_fail_at(st, "%s", path);
done:
    return st;
}

static sefl_status read_pub(ahe_pub **out, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    SEFL_TRY(file_read(&file, path, KEYFILE_BYTES_MAX));
    st = keyfile_pub_read(out, buf_span(&file));
    if (st != SEFL_OK)
        st = sefl_fail_at(st, "%s", path);
done:
    buf_clear(&file);
    return st;
}

static sefl_status write_out(const wish *w, sefl_span bytes)
{
    return file_write_atomic(w->out, bytes, 0644);
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
    char hex[65];
    SEFL_TRY(file_read(&file, w->vocab, MODEL_BYTES_MAX));
    sha256_of(hash, buf_span(&file));
    SEFL_TRY(vocab_read_over(&v, buf_span(&file), w->vocab,
                             &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    vocab_hash(v, words);
    SEFL_CHECK(
        memcmp(hash, words, 32) == 0, SEFL_EINVAL,
        "%s is not in its final form: one word a line, no counts, <unk> and <eos> among them, "
        "in the order of the model's rows ('sefl data vocab' writes such a list)",
        w->vocab);
    SEFL_TRY(fill(&w->s, "vocab.sha256", as_hex(hex, hash), w->vocab));
    SEFL_TRY(fill_number(&w->s, "model.vocab", vocab_size(v), w->vocab));
done:
    vocab_free(v);
    buf_clear(&file);
    return st;
}

static sefl_status take_init(wish *w, const uint8_t vocab_hash_[32])
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    model_meta meta;
    nn_real *theta = NULL;
    size_t count;
    uint8_t hash[32];
    char hex[65];
    settings *s = &w->s;
    SEFL_TRY(model_read(&meta, &theta, &count, w->init));
    SEFL_TRY(fill(s, "model.body", meta.cfg.body, w->init));
    SEFL_TRY(fill_number(s, "model.vocab", meta.cfg.vocab, w->init));
    SEFL_TRY(fill_number(s, "model.embed", meta.cfg.embed, w->init));
    SEFL_TRY(fill_number(s, "model.hidden", meta.cfg.hidden, w->init));
    SEFL_TRY(fill_number(s, "model.layers", meta.cfg.layers, w->init));
    SEFL_TRY(fill_number(s, "model.heads", meta.cfg.heads, w->init));
    SEFL_TRY(fill_number(s, "model.block", meta.cfg.block, w->init));
    SEFL_TRY(fill(s, "model.tied", meta.cfg.tied ? "true" : "false", w->init));
    if (meta.has_vocab) {
        SEFL_TRY(fill(s, "vocab.order", vocab_order_name(meta.order), w->init));
        SEFL_CHECK(!w->vocab || memcmp(meta.vocab_hash, vocab_hash_, 32) == 0, SEFL_EINVAL,
                   "%s was made for another word list than %s", w->init, w->vocab);
        SEFL_TRY(fill(s, "vocab.sha256", as_hex(hex, meta.vocab_hash), w->init));
    }
    SEFL_TRY(file_read(&file, w->init, MODEL_BYTES_MAX));
    sha256_of(hash, buf_span(&file));
    SEFL_TRY(fill(s, "init.sha256", as_hex(hex, hash), w->init));
done:
    sefl_free(theta);
    buf_clear(&file);
    return st;
}

static sefl_status take_valid(wish *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    uint8_t hash[32];
    char hex[65];
    SEFL_TRY(file_read(&file, w->valid, MODEL_BYTES_MAX));
    sha256_of(hash, buf_span(&file));
    SEFL_TRY(fill(&w->s, "valid.sha256", as_hex(hex, hash), w->valid));
done:
    buf_clear(&file);
    return st;
}

static sefl_status task_new(wish *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf doc = { 0 };
    ahe_pub *pub = NULL;
    pinned servers;
    uint8_t words[32] = { 0 }, id[32];
    char hex[65];
    SEFL_TRY(output_check(w->out, NULL, w->force));
    if (w->vocab)
        SEFL_TRY(take_vocab(w, words));
    if (w->init)
        SEFL_TRY(take_init(w, words));
    if (w->valid)
        SEFL_TRY(take_valid(w));
    SEFL_CHECK(
        !w->key || strcmp(settings_text(&w->s, "crypto.scheme"), "paillier") == 0, SEFL_EINVAL,
        "--key goes with --set crypto.scheme=paillier: CSP of a pad task makes a key for each "
        "round");
    if (w->key)
        SEFL_TRY(read_pub(&pub, w->key));
    SEFL_TRY(sign_pub_read(servers.as, w->as_key));
    SEFL_TRY(sign_pub_read(servers.csp, w->csp_key));
    SEFL_TRY(task_make(&doc, &w->s, pub, &servers));
    SEFL_TRY(write_out(w, buf_span(&doc)));
    sha256_of(id, buf_span(&doc));
    printf("%s: task %s\nnext: 'sefl task show --explain %s', then both servers sign it\n", w->out,
           as_hex(hex, id), w->out);
done:
    paillier_pub_free(pub);
    buf_clear(&doc);
    return st;
}

/* ---- sign ------------------------------------------------------------------------------------ */

static sefl_status task_sign(wish *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 }, out = { 0 };
    sign_key *key = NULL;
    envelope env;
    task t = { 0 };
    char hex[65];
    signer who = strcmp(w->as, "csp") == 0 ? SIGNER_CSP : SIGNER_AS;
    SEFL_TRY(output_check(w->out, NULL, w->force || strcmp(w->out, w->file) == 0));
    SEFL_TRY(read_task(&file, &env, w->file));
    st = task_read(&t, env.content); /* nobody signs what nobody can use */
    if (st != SEFL_OK) {
        st = sefl_fail_at(st, "%s", w->file);
        goto done;
    }
    SEFL_TRY(sign_key_read(&key, w->key));
    const uint8_t *named = who == SIGNER_CSP ? t.servers.csp : t.servers.as;
    SEFL_CHECK(memcmp(sign_key_pub(key), named, SIGN_PUB_BYTES) == 0, SEFL_EAUTH,
               "%s: the task names another key of the %s than the one of %s", w->file,
               signer_name(who), w->key);
    SEFL_TRY(envelope_sign(&env, who, key));
    SEFL_TRY(envelope_write(&out, &env));
    SEFL_TRY(write_out(w, buf_span(&out)));
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
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char hex[65];
    json j = json_into(&b);
    dp_event ev = task_event(t, 1);
    json_open(&j, '{');
    json_key(&j, "id"), json_str(&j, as_hex(hex, t->id));
    json_key(&j, "name"), json_str(&j, t->name);
    json_key(&j, "population"), json_str(&j, t->population);
    json_key(&j, "signed_by_aggregator"), json_bool(&j, holds(env, t, SIGNER_AS));
    json_key(&j, "signed_by_csp"), json_bool(&j, holds(env, t, SIGNER_CSP));
    json_key(&j, "model"), json_str(&j, t->model.body);
    json_key(&j, "params"), json_u64(&j, t->params);
    json_key(&j, "values"), json_u64(&j, t->values);
    json_key(&j, "scheme"), json_str(&j, t->ahe.scheme->name);
    json_key(&j, "seal"), json_str(&j, t->seal ? t->seal->name : "none");
    json_key(&j, "key_bits"), json_u64(&j, t->pub ? paillier_bits(t->pub) : 0);
    json_key(&j, "update_bytes"), json_u64(&j, task_body_bytes(t));
    json_key(&j, "k"), json_u64(&j, t->ahe.pack.k);
    json_key(&j, "t"), json_u64(&j, t->ahe.pack.t);
    json_key(&j, "w"), json_u64(&j, t->ahe.pack.w);
    json_key(&j, "q"), json_real(&j, t->ahe.pack.q);
    json_key(&j, "sensitivity"), json_real(&j, t->ahe.pack.sensitivity);
    json_key(&j, "noise"), json_str(&j, task_mode(t)->name);
    json_key(&j, "z"), json_str(&j, t->z);
    json_key(&j, "claim"), json_str(&j, t->claim ? "dp" : "none");
    if (!t->claim)
        json_key(&j, "statement"), json_str(&j, "no differential privacy claimed");
    json_key(&j, "epsilon"), json_real(&j, t->epsilon);
    json_key(&j, "delta"), json_real(&j, t->delta);
    json_key(&j, "rate_claimed"), json_real(&j, t->claim ? ev.rate : 1);
    json_key(&j, "publish_count"), json_bool(&j, t->publish_count);
    json_key(&j, "rounds"), json_u64(&j, t->rounds);
    json_key(&j, "clients_max"), json_u64(&j, t->clients_max);
    json_key(&j, "threshold"), json_u64(&j, t->threshold);
    json_close(&j, '}');
    SEFL_TRY(print_json(&j));
done:
    buf_clear(&b);
    return st;
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

static sefl_status task_show(wish *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 }, words = { 0 };
    envelope env;
    task t = { 0 };
    SEFL_TRY(read_task(&file, &env, w->file));
    st = task_read(&t, env.content);
    if (st != SEFL_OK) {
        st = sefl_fail_at(st, "%s", w->file);
        goto done;
    }
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

static sefl_status task_check(wish *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    pinned p;
    task t = { 0 };
    char hex[65];
    SEFL_TRY(sign_pub_read(p.as, w->as_key));
    SEFL_TRY(sign_pub_read(p.csp, w->csp_key));
    SEFL_TRY(file_read(&file, w->file, FILE_BYTES_MAX));
    st = task_open(&t, buf_span(&file), &p);
    if (st != SEFL_OK) {
        st = sefl_fail_at(st, "%s", w->file);
        goto done;
    }
    if (!t.claim)
        fprintf(stderr, "sefl task: warning: no differential privacy claimed\n");
    printf("%s: task %s, signed by the aggregator and the csp\n", w->file, as_hex(hex, t.id));
done:
    task_clear(&t);
    buf_clear(&file);
    return st;
}

/* ---- command line ----------------------------------------------------------------------------- */

static sefl_status take(wish *w, int opt)
{
    switch (opt) {
    case O_OUT:
        w->out = optarg;
        break;
    case O_FORCE:
        w->force = true;
        break;
    case O_JSON:
        w->json = true;
        break;
    case O_EXPLAIN:
        w->explain = true;
        break;
    case O_KEY:
        w->key = optarg;
        break;
    case O_AGGREGATOR_KEY:
        w->as_key = optarg;
        break;
    case O_CSP_KEY:
        w->csp_key = optarg;
        break;
    case O_INIT:
        w->init = optarg;
        break;
    case O_VOCAB:
        w->vocab = optarg;
        break;
    case O_VALID:
        w->valid = optarg;
        break;
    case O_AS:
        w->as = optarg;
        break;
    case O_SET:
        return settings_set(&w->s, optarg, "--set");
    case O_SET_FILE:
        return settings_set_file(&w->s, optarg);
    case O_CONFIG:
        return yaml_read(&w->s, optarg);
    default:
        break;
    }
    return SEFL_OK;
}

typedef struct action {
    const char *name;
    const struct option *options;
    sefl_status (*run)(wish *w);
    bool wants_file;
    int needs[4]; /* options that must be there */
} action;

static const action actions[] = {
    { "new", new_options, task_new, false, { O_OUT, O_AGGREGATOR_KEY, O_CSP_KEY } },
    { "sign", sign_options, task_sign, true, { O_OUT, O_KEY, O_AS } },
    { "show", show_options, task_show, true, { 0 } },
    { "check", check_options, task_check, true, { O_AGGREGATOR_KEY, O_CSP_KEY } },
};
enum { ACTIONS = sizeof actions / sizeof actions[0] };

static const char *option_name(const struct option *o, int value)
{
    while (o->name && o->val != value)
        o++;
    return o->name ? o->name : "?";
}

static int run_action(const action *a, int argc, char **argv)
{
    wish w = { 0 };
    bool given[O_EXPLAIN + 1] = { 0 };
    int rc = CLI_DONE, opt;
    sefl_status st = SEFL_OK;
    settings_init(&w.s, task_schema);
    opterr = 0, optind = 1;
    while (rc == CLI_DONE && (opt = getopt_long(argc, argv, ":", a->options, NULL)) != -1) {
        if (opt == '?' || opt == ':') {
            rc = cli_bad_option(&cmd_task, argc, argv, opt, a->options);
            break;
        }
        given[opt] = true;
        st = take(&w, opt);
        if (st != SEFL_OK)
            rc = cli_failed(&cmd_task, st);
    }
    for (size_t i = 0; rc == CLI_DONE && i < 4 && a->needs[i]; i++)
        if (!given[a->needs[i]])
            rc = cli_misuse(&cmd_task, "%s wants --%s", a->name,
                            option_name(a->options, a->needs[i]));
    if (rc == CLI_DONE && a->wants_file && optind >= argc)
        rc = cli_misuse(&cmd_task, "%s wants a task file", a->name);
    if (rc == CLI_DONE && optind + a->wants_file < argc)
        rc = cli_misuse(&cmd_task, "\"%.64s\" is one too many", argv[optind + a->wants_file]);
    if (rc == CLI_DONE && w.as && strcmp(w.as, "aggregator") != 0 && strcmp(w.as, "csp") != 0)
        rc = cli_misuse(&cmd_task, "--as is aggregator or csp, not \"%.32s\"", w.as);
    if (rc == CLI_DONE && w.json && w.explain)
        rc = cli_misuse(&cmd_task, "--json and --explain exclude each other");
    if (rc == CLI_DONE) {
        w.file = a->wants_file ? argv[optind] : NULL;
        st = a->run(&w);
        if (st != SEFL_OK)
            rc = cli_failed(&cmd_task, st);
    }
    settings_clear(&w.s);
    return rc;
}

static int run(int argc, char **argv)
{
    const char *names[ACTIONS + 1] = { 0 };
    size_t which;
    for (size_t i = 0; i < ACTIONS; i++)
        names[i] = actions[i].name;
    int rc = cli_action_pick(&cmd_task, names, argc, argv, &which);
    return rc == CLI_DONE ? run_action(&actions[which], argc - 1, argv + 1) : rc;
}

const cli_command cmd_task = {
    .name = "task",
    .summary = "make, sign, show and check the document that a federation agrees on",
    .usage = "new|sign|show|check ...",
    .details = "  new --out TASK.json      writes a task from settings and files:\n"
               "    --set KEY=VALUE          a setting (see below); --set-file FILE: one a line\n"
               "    --config FILE.yml        settings as YAML\n"
               "    --key CSP.pub            scheme paillier: public key of 'sefl key new'\n"
               "    --aggregator-key FILE    public signing keys of the two servers\n"
               "    --csp-key FILE\n"
               "    --vocab WORDS.txt        public word list, in the order of the model's rows\n"
               "    --init MODEL.safetensors the public first model; its sizes are taken over\n"
               "    --valid TEXT             the public text that AS validates models with\n"
               "    --force                  replaces TASK.json\n"
               "  sign --key SIGN.key --as aggregator|csp --out TASK.signed TASK\n"
               "                           adds a server's signature to a document or a signed\n"
               "                           one\n"
               "  show [--json|--explain] TASK\n"
               "                           what it says; --explain: in plain words, who can\n"
               "                           learn what\n"
               "  check --aggregator-key FILE --csp-key FILE TASK.signed\n"
               "                           both signatures, under these keys and no others\n"
               "settings that must be given: population, rounds.enrolled (and model.vocab,\n"
               "vocab.sha256, init.sha256 unless --vocab and --init give them). The rest has\n"
               "defaults: scheme pad, joint noise with z 1, epsilon 8 at delta 1e-6, 100 rounds\n"
               "of 10 minutes; docs/PROTOCOL.md lists all",
    .example = "sefl task show --explain public/task.signed",
    .words = "new sign show check",
    .run = run,
};
