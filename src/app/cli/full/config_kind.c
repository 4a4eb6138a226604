#include "cli/full/config_kind.h"

#include "base/alloc.h"
#include "cli/full/experiment_args.h"
#include "config/example.h"
#include "config/yaml/yaml.h"
#include "crypto/ahe/paillier.h"
#include "model/engine/engine.h"
#include "protocol/task_make.h"
#include "protocol/task_model.h"
#include "roles/aggregator/aggregator.h"
#include "roles/client/client_config.h"
#include "roles/csp/csp_role.h"
#include "simulate/experiment_start.h"

#include <stdio.h>
#include <string.h>

/* ---- the kinds ----------------------------------------------------------------------------- */

/* Creates a public key that nobody can decrypt for: hs = 2, and N = 2^bits - 117, which for every
 * permitted number of bits is odd and has no factor below 2^16. */
static sefl_status some_key(ahe_pub **out, unsigned bits)
{
    uint8_t raw[2 + 3 * 4096 / 8] = { (uint8_t)bits, (uint8_t)(bits >> 8), 256 - 117 };
    memset(raw + 3, 0xff, bits / 8 - 1);
    raw[2 + bits / 8] = 2;
    return paillier_pub_read(out, span_of(raw, 2 + 3 * (bits / 8)));
}

/* Checks that the terms make a valid task, of this experiment if e is not NULL. Hashes and keys are
 * placeholders here. */
static sefl_status check_terms(settings *terms, const experiment *e)
{
    sefl_status st = SEFL_OK;
    sefl_buf document = { 0 };
    task t = { 0 };
    ahe_pub *pub = NULL;
    engine *gpu = NULL;
    float *theta = NULL;
    if (settings_is(terms, "crypto.scheme", "paillier"))
        SEFL_TRY(some_key(&pub, e ? e->key_bits : PAILLIER_BITS_DEFAULT));
    SEFL_TRY(task_make(&document, terms, pub, &(pinned){ .as = { 1 }, .csp = { 2 } }));
    SEFL_TRY(task_read(&t, buf_span(&document)));
    if (e)
        SEFL_TRY(experiment_fit(e, &t));
    if (e && strcmp(e->device, "cuda") == 0)
        SEFL_TRY(engine_new(&gpu, &(engine_config){ .device = e->device,
                                                    .precision = e->precision,
                                                    .model = &t.model,
                                                    .optim = t.optim }));
    if (e && e->external)
        SEFL_TRY(sefl_at(task_model_read(&theta, &t, e->init), "model.init"));
done:
    engine_free(gpu);
    sefl_free(theta);
    paillier_pub_free(pub);
    task_clear(&t);
    buf_clear(&document);
    return st;
}

enum { SOME_WORDS = 10000 };
#define SOME_HASH "1111111111111111111111111111111111111111111111111111111111111111"

/* Hashes the settings that decide what a run starts from. */
static void hash_start(uint8_t out[SHA256_BYTES], const settings *s)
{
    sha256 h;
    sha256_init(&h);
    for (const setting_def *d = s->schema; d->key; d++)
        if (strncmp(d->key, "data.", 5) == 0 || strncmp(d->key, "model.", 6) == 0 ||
            strcmp(d->key, "vocab.order") == 0)
            sha256_add(&h, span_of(settings_text(s, d->key), strlen(settings_text(s, d->key)) + 1));
    sha256_end(&h, out);
}

/* last: what the previous run of the sweep starts from; it is not read twice. */
static sefl_status check_run(void *last, settings *one, experiment *e)
{
    settings terms;
    corpus_paths paths = { 0 };
    uint8_t start[SHA256_BYTES];
    hash_start(start, one);
    if (memcmp(start, last, sizeof start) != 0)
        SEFL_PASS(experiment_check_start(e, one));
    memcpy(last, start, sizeof start);
    settings_init(&terms, task_schema);
    /* generated text includes a validation text */
    bool valid =
        !e->external &&
        (!*e->data || (corpus_paths_find(&paths, e->data) == SEFL_OK && paths.path[CORPUS_VALID]));
    sefl_status st =
        experiment_task(&terms, one, e, SOME_WORDS, SOME_HASH, SOME_HASH, valid ? SOME_HASH : NULL);
    if (st == SEFL_OK && e->external)
        st = sefl_at(task_settings_tensors(&terms, e->init), "model.init");
    if (st == SEFL_OK && experiment_exact_weights(one)) /* the run sets it from the text */
        st = settings_set(&terms, "privacy.weight_cap=1", "experiment");
    if (st == SEFL_OK)
        st = check_terms(&terms, e);
    corpus_paths_clear(&paths);
    settings_clear(&terms);
    return st;
}

static sefl_status check_experiment(const settings *s)
{
    const experiment_args a = { .set = *s, .runs = experiment_runs(s) };
    SEFL_NEED(a.runs > 0, SEFL_EINVAL, "the sweep has more than %d runs", EXPERIMENT_RUNS_MAX);
    return experiment_args_each(&a, check_run, (uint8_t[SHA256_BYTES]){ 0 });
}

/* Checks a role's file: fills its struct and drops it. */
#define CHECK_ROLE(role, type, make)                   \
    static sefl_status check_##role(const settings *s) \
    {                                                  \
        type c;                                        \
        return make(&c, s);                            \
    }
CHECK_ROLE(aggregator, aggregator_settings, aggregator_settings_make)
CHECK_ROLE(csp, csp_settings, csp_settings_make)
CHECK_ROLE(client, client_config, client_config_make)

static sefl_status check_policy(const settings *s)
{
    policy p;
    return policy_make(&p, s, &(pinned){ 0 });
}

/* 'sefl task new' has options for what may be missing here. */
static sefl_status check_task(const settings *s)
{
    static const char *const others[][2] = { { "population", "any" },
                                             { "model.vocab", "10000" },
                                             { "vocab.sha256", SOME_HASH },
                                             { "model.tensors", "any=1" },
                                             { "init.sha256", SOME_HASH } };
    const bool external = task_settings_external(s);
    sefl_status st = SEFL_OK;
    settings terms;
    settings_init(&terms, task_schema);
    if (!settings_given(s, "rounds.enrolled"))
        goto done;
    SEFL_TRY(settings_overlay(&terms, s));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!settings_given(s, others[i][0]) && task_setting_applies(others[i][0], external))
            SEFL_TRY(settings_setf(&terms, others[i][0], "%s=%s", others[i][0], others[i][1]));
    SEFL_TRY(check_terms(&terms, NULL));
done:
    settings_clear(&terms);
    return st;
}

/* What the units of both servers expect (packaging/systemd): the keys are credentials. */
#define UNIT_FILES(home)                                                                   \
    "-tls.key=/etc/sefl/keys/tls.key -sign_key=/etc/sefl/keys/sign.key tls.cert=" home     \
    "/tls/cert.pem ca=" home "/ca tasks=" home "/tasks ledger=" home "/ledger state=" home \
    "/state health "

const config_kind config_kinds[] = {
    { "experiment", "experiment.yml", "an experiment, for 'sefl simulate' and 'sefl plan'",
      "name clients protection crypto rounds.count data.words -privacy.epsilon=0 -privacy.delta=0",
      NULL, NULL, check_experiment },
    { "aggregator", "aggregator.yml", "an aggregation server, for 'sefl aggregator'",
      "task init vocab",
      UNIT_FILES("/var/lib/sefl-aggregator") "tls.peers=/var/lib/sefl-aggregator/ca/ca.pem "
                                             "tls.csp_peers=/etc/sefl/csp-ca.pem "
                                             "models=/var/lib/sefl-aggregator/models",
      aggregator_schema, check_aggregator },
    { "csp", "csp.yml", "a cryptography service provider, for 'sefl csp'", "task",
      UNIT_FILES(
          "/var/lib/sefl-csp") "tls.peers=/etc/sefl/aggregator-ca.pem "
                               "key=/var/lib/sefl-csp/key.key -key_lock=/etc/sefl/keys/key.lock",
      csp_schema, check_csp },
    { "client", "client.yml", "a client of a federation, for 'sefl client'", "", NULL,
      client_schema, check_client },
    { "policy", "policy.yml", POLICY_ABOUT, POLICY_CAUTIOUS, NULL, policy_schema, check_policy },
    { "task", "task.yml", "a task, for 'sefl task new --set' and 'sefl provision --set'",
      "population=hospital-notes rounds.enrolled=100 -model.vocab=10000 -vocab.sha256=" SOME_HASH
      " -init.sha256=" SOME_HASH,
      NULL, task_schema, check_task },
    { 0 },
};

const setting_def *config_kind_schema(const config_kind *k)
{
    return k->schema ? k->schema : experiment_schema();
}

const config_kind *config_kind_find(const char *name)
{
    for (const config_kind *k = config_kinds; k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

static const config_kind *named(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    for (const config_kind *k = config_kinds; k->name; k++)
        if (strcmp(k->file, base) == 0)
            return k;
    return NULL;
}

const config_kind *config_kind_of(const char *path)
{
    const config_kind *k = named(path);
    return k ? k : config_kinds;
}

/* Adds a remark to the message of the last error. */
static sefl_status remark(sefl_status st, const char *before, const char *text, const char *after)
{
    char why[512];
    snprintf(why, sizeof why, "%s", sefl_last_error());
    return sefl_fail(st, "%s (%s%s%s)", why, before, text, after);
}

sefl_status config_kind_guessed(sefl_status st, const char *path)
{
    return st != SEFL_EINVAL || named(path)
               ? st
               : remark(st, "read as ", config_kinds->name,
                        ", because the file name does not tell its kind: pass --for KIND");
}

sefl_status config_kind_other(sefl_status st, const char *path, const setting_def *schema)
{
    const config_kind *k = named(path);
    return st != SEFL_EINVAL || !k || config_kind_schema(k) == schema
               ? st
               : remark(st, "by its name, this file is for ", k->about, "");
}

/* ---- reading ------------------------------------------------------------------------------- */

sefl_status config_kind_read(const config_kind *k, settings *s, const char *path)
{
    settings_init(s, config_kind_schema(k));
    SEFL_PASS(yaml_read(s, path));
    /* options of 'sefl task new' complete a task */
    return k->check == check_task ? SEFL_OK : sefl_at(settings_complete(s), "%s", path);
}

/* Returns the place where the message names the key; NULL if it does not. */
static const char *named_in(const char *message, const char *key)
{
    const char *p = message;
    for (size_t n = strlen(key); (p = strstr(p, key)) != NULL; p += n)
        if ((p == message || strchr(" :(`\"", p[-1])) && (!p[n] || strchr(" :,;)`\"", p[n])))
            return p;
    return NULL;
}

sefl_status config_kind_check(const config_kind *k, const settings *s, const char *path)
{
    sefl_status st = k->check(s);
    const char *where = path, *says = sefl_last_error(), *first = NULL;
    if (st == SEFL_OK || strstr(says, path))
        return st;                          /* the message already names the place */
    for (size_t i = 0; i < s->count; i++) { /* the first key in the message that the file sets */
        const char *key = s->schema[i].key; /* the message names the key that a sweep sets */
        key += strncmp(key, "sweep.", 6) == 0 ? 6 : 0;
        const char *p = s->origin[i] ? named_in(says, key) : NULL;
        if (p && (!first || p < first))
            first = p, where = s->origin[i];
    }
    return sefl_fail_at(st, "%s", where);
}

/* ---- writing ------------------------------------------------------------------------------- */

sefl_status config_kind_write(sefl_buf *out, const config_kind *k, bool unit)
{
    SEFL_NEED(!unit || k->unit, SEFL_EINVAL,
              "no systemd unit reads %s: --unit is for the kinds aggregator and csp", k->file);
    SEFL_PASS(
        example_write(out, k->file, k->about, config_kind_schema(k), unit ? k->unit : k->active));
    if (k->check == check_experiment)
        SEFL_PASS(wr_fmt(out, "\n# A list of values gives one run per value; two lists give every "
                              "combination\n#sweep.training.lr: [5, 10, 20]\n"));
    return SEFL_OK;
}
