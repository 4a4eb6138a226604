#include "cli/full/config_kind.h"

#include "config/example.h"
#include "config/yaml/yaml.h"
#include "protocol/task.h"
#include "roles/aggregator/aggregator.h"
#include "roles/client/config.h"
#include "roles/csp/csp_role.h"
#include "simulate/experiment.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- the kinds ----------------------------------------------------------------------------- */

static const setting_def *aggregator_keys(void)
{
    return aggregator_schema;
}

static const setting_def *csp_keys(void)
{
    return csp_schema;
}

static const setting_def *client_keys(void)
{
    return client_schema;
}

static const setting_def *policy_keys(void)
{
    return policy_schema;
}

static const setting_def *task_keys(void)
{
    return task_schema;
}

static sefl_status check_experiment(settings *s)
{
    sefl_status st = SEFL_OK;
    size_t runs = experiment_runs(s);
    SEFL_CHECK(runs > 0, SEFL_EINVAL, "sweep: more than %d runs", EXPERIMENT_RUNS_MAX);
    for (size_t i = 0; st == SEFL_OK && i < runs; i++) {
        settings one;
        experiment e;
        st = experiment_run(&one, s, i);
        if (st == SEFL_OK)
            st = experiment_make(&e, &one);
        settings_clear(&one);
    }
done:
    return st;
}

static sefl_status check_aggregator(settings *s)
{
    aggregator_settings c;
    return aggregator_settings_make(&c, s);
}

static sefl_status check_csp(settings *s)
{
    csp_settings c;
    return csp_settings_make(&c, s);
}

static sefl_status check_client(settings *s)
{
    client_config c;
    return client_config_make(&c, s);
}

static sefl_status check_policy(settings *s)
{
    policy p;
    return policy_make(&p, s, &(pinned){ 0 });
}

const config_kind config_kinds[] = {
    { "experiment", "experiment.yml", "an experiment, for 'sefl simulate' and 'sefl plan'",
      "name clients protection crypto rounds.count data.words", experiment_schema,
      check_experiment },
    { "aggregator", "aggregator.yml", "an aggregation server: 'sefl aggregator'", "",
      aggregator_keys, check_aggregator },
    { "csp", "csp.yml", "a cryptography service provider: 'sefl csp'", "", csp_keys, check_csp },
    { "client", "client.yml", "a member of a federation: 'sefl client'", "", client_keys,
      check_client },
    { "policy", "policy.yml", POLICY_ABOUT, POLICY_CAUTIOUS, policy_keys, check_policy },
    { "task", "task.yml",
      "terms of a task: keys of 'sefl task new --set' and 'sefl provision --set'", "", task_keys,
      NULL },
    { 0 },
};

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

sefl_status config_kind_guessed(sefl_status st, const char *path)
{
    char why[512];
    if (st != SEFL_EINVAL || named(path))
        return st;
    snprintf(why, sizeof why, "%s", sefl_last_error());
    return sefl_fail(st,
                     "%s (read as %s, since its name tells nothing else: --for says what it is)",
                     why, config_kinds->name);
}

sefl_status config_kind_other(sefl_status st, const char *path, const setting_def *schema)
{
    char why[512];
    const config_kind *k = named(path);
    if (st != SEFL_EINVAL || !k || k->schema() == schema)
        return st;
    snprintf(why, sizeof why, "%s", sefl_last_error());
    return sefl_fail(st, "%s (by its name this file describes %s)", why, k->about);
}

/* ---- reading ------------------------------------------------------------------------------- */

void config_kind_folder(char *out, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
    snprintf(out, PATH_MAX, "%.*s", (int)(n < PATH_MAX ? n : 0), path);
}

sefl_status config_kind_read(const config_kind *k, settings *s, const char *path)
{
    sefl_status st = SEFL_OK;
    settings_init(s, k->schema());
    SEFL_TRY(k->check == check_experiment ? experiment_read(s, path) : yaml_read(s, path));
    if (k->check) /* a task's terms may be completed by other settings */
        SEFL_TRY(k->check(s));
done:
    if (st != SEFL_OK && !strstr(sefl_last_error(), path)) /* where no key has the blame */
        st = sefl_fail_at(st, "%s", path);
    return st;
}

/* ---- writing ------------------------------------------------------------------------------- */

sefl_status config_kind_write(sefl_buf *out, const config_kind *k)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(example_write(out, k->file, k->about, k->schema(), k->active));
    if (k->check == check_experiment)
        SEFL_TRY(wr_fmt(
            out, "\n# Several values of a key, one run each; two such keys: every combination\n"
                 "#sweep.training.lr: [5, 10, 20]\n"));
done:
    return st;
}
