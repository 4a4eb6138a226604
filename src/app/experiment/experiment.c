#include "simulate/experiment.h"

#include "crypto/ahe/paillier.h"
#include "fed/hook.h"
#include "model/corpus/partition.h"
#include "model/engine/engine.h"
#include "model/lm_settings.h"
#include "privacy/combinations.h"
#include "protocol/task_make.h"
#include "protocol/task_profile.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TO(member) SETTING_TO(experiment, member)
/* Keys that an experiment adds to those of a task; `name` replaces the task's. */
static const setting_def own[] = {
    { "name", SETTING_TEXT, "experiment", .help = "name of the run and of its folder" },
    /* clang-format off */
    RUN_SEED(SETTING_ROW)
    { "protection", SETTING_WORD, "sefl", .words = PROTECTION_WORDS,
      .help = "sefl runs secure rounds; none is plain FedAvg; cdp trusts one server to add noise" },
    { "crypto", SETTING_WORD, "clear", .words = "clear full",
      .help = "full uses the real cryptography; clear computes the same integers without it" },
    { "crypto.key_bits", SETTING_U64, "3072", PAILLIER_SIZES, TO(key_bits),
      .help = "size of a Paillier key" },
    { "clients", SETTING_U64, "8", TO(clients), .min = 1, .max = EXPERIMENT_CLIENTS_MAX,
      .help = "number of clients; at least 2 if protection is sefl" },
    ENGINE_SETTINGS(SETTING_ROW)
    HOOK_SETTINGS(SETTING_ROW)
    DATA_SETTINGS(SETTING_ROW, data, "", vocab, vocab_words)
    /* clang-format on */
    { "data.words", SETTING_U64, "2000", TO(words), .min = 100, .max = 10000000,
      .help = "number of training tokens per client in generated text" },
    { "data.alpha", SETTING_REAL, "0.5", TO(alpha), .max = 1000,
      .help = "Dirichlet parameter of the topics (generated text) or of the clients' shares "
              "(partition dirichlet); smaller values make clients differ more" },
    { "data.partition", SETTING_CHOICE, "article", PARTITIONS, TO(partition),
      .help = "how the text of data.path is split among clients" },
    { "data.public", SETTING_BOOL, "false",
      .help =
          "whether the text is public: its words and choices based on it then cost no privacy" },
    { "model.init", SETTING_PATH, "",
      .help = "model file to start from, trained on public data; if empty, random initial values; "
              "required if model.body is external" },
    { "network.dropout", SETTING_REAL, "0", TO(dropout), .max = 1,
      .help = "probability that a client drops out of a round" },
    { "network.exact", SETTING_BOOL, "false", TO(exact),
      .help = "whether exactly the share network.dropout of the clients drops out of each round" },
    { "network.stragglers", SETTING_REAL, "0", TO(stragglers), .max = 1,
      .help = "probability that a client is a straggler in all rounds" },
    { "network.slowdown", SETTING_REAL, "5", TO(slowdown), .min = 1, .max = 1000000,
      .help = "factor by which a straggler is slower than other clients" },
    { "network.client_ms", SETTING_U64, "10000", TO(client_ms), .min = 1, .max = 100000000,
      .help = "virtual milliseconds that a client needs per round, plus or minus up to half" },
    { "eval.every", SETTING_U64, "1", TO(eval_every), .max = 1000000,
      .help = "number of rounds between validations; 0 validates only after the last round" },
    { "models.keep", SETTING_U64, "0", TO(models_keep), .max = 1000000,
      .help = "number of latest models to keep; 0 keeps all" },
    { 0 },
};

/* Task keys that the simulator fills in. */
static const char filled_in[] = "name population model.vocab vocab.sha256 init.sha256 valid.sha256 "
                                "rounds.enrolled";

static setting_def all[SETTINGS_MAX + 1];
static char sweep_names[SETTINGS_MAX][48];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool is_sweep(const char *key)
{
    return strncmp(key, "sweep.", 6) == 0;
}

static void build(void)
{
    static const char fixed[] = "name threads models.keep trainer trainer_folder trainer_timeout "
                                "trainer_memory model.tensors";
    size_t n = 0, names = 0;
    for (const setting_def *d = own; d->key; d++)
        all[n++] = *d;
    for (const setting_def *d = task_schema; d->key; d++) {
        if (setting_word(filled_in, d->key) >= 0)
            continue;
        all[n] = *d;
        const char *usual = task_profile_value(TASK_OF_EXPERIMENT, d->key);
        if (usual)
            all[n].fallback = usual;
        n++;
    }
    size_t keys = n;
    for (size_t i = 0; i < keys; i++) {
        if (setting_word(fixed, all[i].key) >= 0)
            continue;
        char *name = sweep_names[names++];
        snprintf(name, sizeof sweep_names[0], "sweep.%s", all[i].key);
        all[n++] = (setting_def){ name, SETTING_TEXT, "", .unlisted = true,
                                  .help = "values, separated by commas" };
    }
    assert(n <= SETTINGS_MAX);
    all[n] = (setting_def){ 0 };
}

const setting_def *experiment_schema(void)
{
    pthread_once(&once, build);
    return all;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Makes paths absolute, from the working folder; fails if a file is missing. */
static sefl_status absolute(settings *s)
{
    char full[PATH_MAX], here[PATH_MAX];
    SEFL_NEED(getcwd(here, sizeof here), SEFL_EIO, "the working folder: %s", strerror(errno));
    for (const setting_def *d = s->schema; d->key; d++) {
        const char *value = d->type == SETTING_PATH ? settings_text(s, d->key) : "";
        if (!*value)
            continue;
        if (!realpath(value, full))
            return sefl_fail(SEFL_EINVAL, "%s: %s: %s", d->key, value, strerror(errno));
        if (*value != '/')
            SEFL_PASS(settings_set_pair(s, span_of_str(d->key), span_of_str(full), d->key));
    }
    return settings_resolve(s, here); /* now only the folder of a trainer from the command line */
}

sefl_status experiment_write(sefl_buf *out, const settings *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const setting_def *d = &s->schema[i];
        if (is_sweep(d->key) || strcmp(d->key, "threads") == 0)
            continue;
        const char *v = settings_text(s, d->key);
        bool given = s->value[i] != NULL;
        SEFL_PASS(wr_fmt(out, "%s%s: ", given ? "" : "# ", d->key));
        if (d->type == SETTING_TEXT ||
            d->type == SETTING_PATH) { /* in single quotes only the quote itself is doubled */
            SEFL_PASS(wr_fmt(out, "'"));
            for (; *v; v++)
                SEFL_PASS(wr_fmt(out, *v == '\'' ? "''" : "%c", *v));
            SEFL_PASS(wr_fmt(out, "'\n"));
        } else {
            SEFL_PASS(wr_fmt(out, "%s\n", v));
        }
    }
    return SEFL_OK;
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

static size_t values_in(const char *list)
{
    size_t n = *list ? 1 : 0;
    for (; *list; list++)
        n += *list == ',';
    return n;
}

static sefl_span value_at(const char *list, size_t i)
{
    for (; i > 0; i--)
        list = strchr(list, ',') + 1;
    while (*list == ' ')
        list++;
    size_t n = strcspn(list, ",");
    while (n > 0 && list[n - 1] == ' ')
        n--;
    return span_of(list, n);
}

size_t experiment_runs(const settings *s)
{
    size_t n = 1;
    for (size_t i = 0; i < s->count; i++)
        if (is_sweep(s->schema[i].key) && s->value[i] && *s->value[i]) {
            size_t values = values_in(s->value[i]);
            if (values > EXPERIMENT_RUNS_MAX / n)
                return 0;
            n *= values;
        }
    return n;
}

/* Writes the value as a part of a folder name. */
static void name_part(char *out, size_t n, sefl_span v)
{
    size_t m = v.n < n - 1 ? v.n : n - 1;
    for (size_t i = 0; i < m; i++)
        out[i] = v.p[i] == '/' || v.p[i] == ' ' ? '_' : (char)v.p[i];
    out[m] = 0;
}

sefl_status experiment_run(settings *out, const settings *s, size_t i)
{
    sefl_status st = SEFL_OK;
    char name[EXPERIMENT_NAME_MAX + 1], part[64];
    settings_init(out, s->schema);
    size_t at = (size_t)snprintf(name, sizeof name, "%s", settings_text(s, "name"));
    for (size_t k = 0; k < s->count; k++)
        if (!is_sweep(s->schema[k].key) && s->value[k])
            SEFL_TRY(settings_set_pair(out, span_of_str(s->schema[k].key), span_of_str(s->value[k]),
                                       s->origin[k]));
    for (size_t k = s->count; k-- > 0;) {
        const char *key = s->schema[k].key + 6, *list = s->value[k];
        if (!is_sweep(s->schema[k].key) || !list || !*list)
            continue;
        size_t n = values_in(list);
        sefl_span v = value_at(list, i % n);
        i /= n;
        SEFL_TRY(settings_set_pair(out, span_of_str(key), v, s->origin[k]));
        name_part(part, sizeof part, v);
        if (at < sizeof name)
            at += (size_t)snprintf(name + at, sizeof name - at, "-%s=%s", key, part);
    }
    SEFL_CHECK(at < sizeof name, SEFL_EINVAL, "name: the run's name is longer than %d bytes",
               EXPERIMENT_NAME_MAX);
    SEFL_TRY(settings_set_pair(out, span_of_str("name"), span_of_str(name), "name"));
done:
    if (st != SEFL_OK)
        settings_clear(out);
    return st;
}

/* ---- numbers --------------------------------------------------------------------------------- */

bool experiment_exact_weights(const settings *s)
{
    return settings_is(s, "privacy.weights", "capped") &&
           settings_u64(s, "privacy.weight_cap") == 0;
}

/* Checks the settings of an external model and of a command that trains. */
static sefl_status check_trainer(const experiment *e, const settings *s)
{
    SEFL_NEED(!e->external || *e->init, SEFL_EINVAL,
              "model.init is not set: an external model starts from a safetensors file");
    SEFL_NEED(!e->external || !*e->data, SEFL_EINVAL,
              "data.path: an external model has no text: its trainer knows the data");
    SEFL_NEED(!e->external || e->trainer, SEFL_EINVAL,
              "model.body is external: set trainer to the command that trains it");
    SEFL_NEED(!e->external || !experiment_exact_weights(s), SEFL_EINVAL,
              "privacy.weight_cap is 0: an external model has no words to count: set a number");
    return SEFL_OK;
}

sefl_status experiment_make(experiment *out, settings *s)
{
    const char *name = settings_text(s, "name");
    *out = (experiment){ 0 };
    SEFL_PASS(settings_fill(s, out));
    SEFL_NEED(*name && *name != '.' && !strchr(name, '/') && strlen(name) <= EXPERIMENT_NAME_MAX,
              SEFL_EINVAL, "name: \"%.40s\" is not a valid folder name", name);
    snprintf(out->name, sizeof out->name, "%s", name);
    SEFL_PASS(absolute(s));
    out->trainer = *settings_text(s, "trainer") ? settings_text(s, "trainer") : NULL;
    out->trainer_folder = settings_text(s, "trainer_folder");
    out->protection = protection_named(settings_text(s, "protection"));
    out->full = out->protection->two_servers && settings_is(s, "crypto", "full");
    out->data = settings_text(s, "data.path");
    out->vocab = settings_text(s, "data.vocab");
    out->init = settings_text(s, "model.init");
    out->external = task_settings_external(s);
    SEFL_PASS(check_trainer(out, s));
    out->data_public = !*out->data || settings_bool(s, "data.public");
    out->clip_given = settings_given(s, "privacy.clip");
    out->classic_epsilon = out->protection->quantises ? task_settings_classic(s) : 0;
    out->classic_delta =
        out->classic_epsilon > 0 ? strtod(settings_text(s, "privacy.delta"), NULL) : 0;
    SEFL_NEED(!out->protection->two_servers || out->clients >= 2, SEFL_EINVAL,
              "clients: the sum of one client is its update; protection sefl needs at least 2");
    const bool quantile = strtod(settings_text(s, "privacy.clip_quantile"), NULL) != 0;
    const bool gpu =
        settings_is(s, "device", "cuda") || (out->trainer && !settings_is(s, "device", "cpu"));
    SEFL_PASS(combination_check((out->trainer ? FEATURE(TRAINER) : 0) | (gpu ? FEATURE(GPU) : 0) |
                                (settings_is(s, "privacy.unit", "record") ? FEATURE(RECORD) : 0) |
                                (quantile ? FEATURE(QUANTILE) : 0)));
    SEFL_NEED(out->alpha >= 0.001, SEFL_EINVAL, "data.alpha is %g; it must be from 0.001 to 1000",
              out->alpha);
    SEFL_NEED(!*out->vocab || *out->data, SEFL_EINVAL,
              "data.vocab is for text of data.path: generated text has its own words");
    SEFL_NEED(
        out->data_public || *out->vocab || !out->protection->quantises ||
            !settings_is(s, "privacy.claim", "dp"),
        SEFL_EINVAL,
        "privacy.claim is dp, but data.vocab is not set: the words would come from %s, and no "
        "epsilon covers them. Name a public word list, or set data.public: true if the text is "
        "public",
        out->data);
    SEFL_NEED(out->data_public || !out->protection->quantises ||
                  !settings_is(s, "privacy.claim", "dp") || !experiment_exact_weights(s),
              SEFL_EINVAL,
              "privacy.weight_cap is 0: the largest client's number of words is private, and no "
              "epsilon covers it. Set a number, or set data.public: true if the text is public");
    return SEFL_OK;
}

uint32_t experiment_dropouts(const experiment *e)
{
    return (uint32_t)lround(e->dropout * e->clients);
}

/* ---- the task -------------------------------------------------------------------------------- */

static sefl_status experiment_put(settings *s, const char *key, const char *value)
{
    return settings_set_pair(s, span_of_str(key), span_of_str(value), "experiment");
}

static sefl_status put_u64(settings *s, const char *key, uint64_t value)
{
    return settings_setf(s, "experiment", "%s=%" PRIu64, key, value);
}

sefl_status experiment_task(settings *out, const settings *s, const experiment *e, uint32_t words,
                            const char *vocab_hash, const char *init_hash, const char *valid_hash)
{
    /* without noise these mean nothing, whatever the file sets for the other protections */
    static const char of_noise[] = "privacy.noise privacy.claim privacy.z privacy.classic_epsilon "
                                   "privacy.epsilon privacy.delta";
    sefl_status st = SEFL_OK;
    uint64_t enrolled = e->clients < 2 ? 2 : e->clients;
    settings_init(out, task_schema);
    for (size_t i = 0; i < s->count; i++) {
        const char *key = s->schema[i].key;
        if (!setting_find(task_schema, key) || setting_word(filled_in, key) >= 0 ||
            (!e->protection->quantises && setting_word(of_noise, key) >= 0))
            continue;
        if (s->value[i])
            SEFL_TRY(
                settings_set_pair(out, span_of_str(key), span_of_str(s->value[i]), s->origin[i]));
    }
    SEFL_TRY(experiment_put(out, "name", "simulated"));
    SEFL_TRY(experiment_put(out, "population", "simulated"));
    if (!e->external) {
        SEFL_TRY(put_u64(out, "model.vocab", words));
        SEFL_TRY(experiment_put(out, "vocab.sha256", vocab_hash));
    }
    SEFL_TRY(experiment_put(out, "init.sha256", init_hash));
    if (valid_hash)
        SEFL_TRY(experiment_put(out, "valid.sha256", valid_hash));
    SEFL_TRY(put_u64(out, "rounds.enrolled", enrolled));
    if (e->protection->noise)
        SEFL_TRY(experiment_put(out, "privacy.noise", e->protection->noise));
    if (!e->protection->quantises)
        SEFL_TRY(experiment_put(out, "privacy.claim", "none"));
    SEFL_TRY(task_profile_fill(out, TASK_OF_EXPERIMENT));
done:
    if (st != SEFL_OK)
        settings_clear(out);
    return st;
}

sefl_status experiment_fit(const experiment *e, task *t)
{
    uint32_t failing = experiment_dropouts(e);
    double left = e->clients - failing;
    if (e->clients < 2) /* a task needs two clients, but a baseline may have one */
        t->threshold = t->enough = t->clients_max = t->enrolled = 1;
    if (t->sampling == TASK_OPEN)
        left *= t->rate;
    left /= (double)t->separation;
    if (!e->exact || left >= t->threshold)
        return SEFL_OK;
    SEFL_NEED(left >= 2, SEFL_EINVAL,
              "network.exact: %" PRIu32 " of %" PRIu32 " clients drop out of every round, and a "
              "round needs at least 2 uploads: use a smaller network.dropout",
              failing, e->clients);
    return sefl_fail(SEFL_EINVAL,
                     "network.exact: %" PRIu32 " of %" PRIu32
                     " clients drop out of every round, so "
                     "%.6g upload%s, fewer than rounds.threshold (%" PRIu32 "). Set "
                     "rounds.threshold to %.0f or less, or use a smaller network.dropout",
                     failing, e->clients, left,
                     t->sampling == TASK_OPEN || t->separation > 1 ? " on average" : "",
                     t->threshold, floor(left));
}
