/* sefl config: is a file of settings right? Which keys are there? */
#include "cli/actions.h"
#include "cli/cli.h"
#include "cli/full/config_kind.h"
#include "cli/print.h"

#include "base/json.h"
#include "config/example.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { O_FOR = 256, O_JSON };

static const struct option longopts[] = {
    { "for", required_argument, NULL, O_FOR },
    { "json", no_argument, NULL, O_JSON },
    { 0 },
};

/* ---- check --------------------------------------------------------------------------------- */

static int check(const config_kind *k, const char *path, bool as_json)
{
    settings s;
    size_t given = 0, all = 0;
    const bool told = k != NULL;
    if (!told)
        k = config_kind_of(path);
    sefl_status st = config_kind_read(k, &s, path);
    if (!told)
        st = config_kind_guessed(st, path);
    for (size_t i = 0; st == SEFL_OK && i < s.count; i++)
        if (strncmp(s.schema[i].key, "sweep.", 6) != 0)
            given += s.value[i] != NULL, all++;
    if (as_json) {
        sefl_buf b = { 0 };
        json j = json_into(&b);
        json_open(&j, '{');
        json_key(&j, "file"), json_str(&j, path);
        json_key(&j, "kind"), json_str(&j, k->name);
        json_key(&j, "ok"), json_bool(&j, st == SEFL_OK);
        if (st == SEFL_OK)
            json_key(&j, "given"), json_u64(&j, given);
        else
            json_key(&j, "error"), json_str(&j, sefl_last_error());
        json_close(&j, '}');
        int rc = print_json_end(&cmd_config, &j);
        settings_clear(&s);
        return rc != CLI_DONE ? rc : st == SEFL_OK ? CLI_DONE : CLI_FAILED;
    }
    if (st == SEFL_OK)
        printf("%s: good: %s; %zu of %zu keys are given, the others have defaults\n", path,
               k->about, given, all);
    else
        cli_failed(&cmd_config, st);
    settings_clear(&s);
    return st == SEFL_OK ? CLI_DONE : CLI_FAILED;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static int keys(const config_kind *k, bool as_json)
{
    char values[200];
    sefl_buf b = { 0 };
    json j = json_into(&b);
    if (!k)
        k = config_kinds;
    if (as_json)
        json_open(&j, '[');
    for (const setting_def *d = k->schema(); d->key; d++) {
        if (strncmp(d->key, "sweep.", 6) == 0)
            continue;
        example_values(values, d);
        if (!as_json) {
            printf("%-24s %-10s %s%s%s\n", d->key, d->fallback ? d->fallback : "(needed)", values,
                   d->help && *d->help ? "; " : "", d->help ? d->help : "");
            continue;
        }
        json_open(&j, '{');
        json_key(&j, "key"), json_str(&j, d->key);
        json_key(&j, "default");
        if (d->fallback)
            json_str(&j, d->fallback);
        else
            json_null(&j);
        json_key(&j, "values"), json_str(&j, values);
        json_key(&j, "help"), json_str(&j, d->help ? d->help : "");
        json_close(&j, '}');
    }
    if (!as_json)
        return CLI_DONE;
    json_close(&j, ']');
    return print_json_end(&cmd_config, &j);
}

static int run(int argc, char **argv)
{
    static const char *const names[] = { "check", "keys", NULL };
    const config_kind *k = NULL;
    bool as_json = false;
    size_t which;
    int rc = cli_action_pick(&cmd_config, names, argc, argv, &which);
    if (rc != CLI_DONE)
        return rc;
    bool is_check = which == 0;
    argc--, argv++;
    opterr = 0, optind = 1;
    for (int c; (c = getopt_long(argc, argv, ":", longopts, NULL)) != -1;) {
        if (c == O_JSON)
            as_json = true;
        else if (c != O_FOR)
            return cli_bad_option(&cmd_config, argc, argv, c, longopts);
        else if (!(k = config_kind_find(optarg)))
            return cli_misuse(&cmd_config,
                              "--for is experiment, aggregator, csp, client, policy or task, not "
                              "\"%.32s\"",
                              optarg);
    }
    if (is_check && optind == argc)
        return cli_misuse(&cmd_config, "which file?");
    if (optind + (is_check ? 1 : 0) < argc)
        return cli_misuse(&cmd_config, "no argument \"%.64s\" is taken",
                          argv[optind + (is_check ? 1 : 0)]);
    return is_check ? check(k, argv[optind], as_json) : keys(k, as_json);
}

const cli_command cmd_config = {
    .name = "config",
    .summary = "check a file of settings, or list the keys it may have",
    .usage = "check FILE [--for KIND] [--json]\n       sefl config keys [--for KIND] [--json]",
    .details = "  check FILE      says what is wrong, with line and column; exit 1 if something\n"
               "                  is\n"
               "  keys            every key: default, values, what it is for\n"
               "  --for KIND      experiment (default), aggregator, csp, client, policy or task;\n"
               "                  a FILE of the usual name (csp.yml, ...) tells by itself\n"
               "  --json          one JSON object, or a list of keys",
    .example = "sefl init experiment.yml && sefl config check experiment.yml",
    .words = "check keys",
    .run = run,
};
