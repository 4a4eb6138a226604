#include "cli/full/doctor.h"
#include "cli/options.h"
#include "cli/print.h"

#include "base/alloc.h"
#include "base/json.h"
#include "config/example.h"
#include "privacy/combinations.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct wish {
    const char *file, *kind;
    bool json;
} wish;

/* ---- check --------------------------------------------------------------------------------- */

/* Writes "csp.yml:3:1: tls.cert: ..."; the line about the settings already names its place. */
static void message(char out[1024], const doctor_line *l, const settings *s, const char *file)
{
    const bool of_cert = setting_word("certificate chain hosts", l->name) >= 0;
    const char *key = of_cert ? "tls.cert" : l->name, *where = file;
    if (setting_find(s->schema, key) && settings_given(s, key))
        where = settings_origin(s, key);
    if (strcmp(l->name, "settings") == 0)
        snprintf(out, 1024, "%s", l->says);
    else
        snprintf(out, 1024, "%s: %s: %s", where, l->name, l->says);
}

/* Prints every failed check, or the summary of a good file. */
static int say(const wish *w, const doctor *d)
{
    char text[1024];
    size_t given = 0, all = 0, errors = 0;
    const bool good = d->count[DOCTOR_FAIL] == 0;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    for (size_t i = 0; i < d->set.count; i++)
        if (!d->set.schema[i].unlisted)
            given += d->set.value[i] != NULL, all++;
    json_open(&j, '{');
    json_fields(&j, lf_str("file", w->file), lf_str("kind", d->k->name), lf_bool("ok", good),
                lf_if(good, lf_u64("given", given)));
    for (size_t i = 0; i < d->n; i++) {
        if (d->at[i].status != DOCTOR_FAIL)
            continue;
        message(text, &d->at[i], &d->set, w->file);
        if (errors++ == 0)
            json_fields(&j, lf_str("error", text)), json_key(&j, "errors"), json_open(&j, '[');
        json_str(&j, text);
        sefl_note("%s", text);
        if (!w->json)
            cli_failed(&cmd_config, SEFL_EIO);
    }
    if (errors)
        json_close(&j, ']');
    json_close(&j, '}');
    if (w->json)
        return print_json_end(&cmd_config, &j);
    buf_clear(&b);
    if (good)
        printf("%s: valid: %s; sets %zu of %zu keys%s\n", w->file, d->k->about, given, all,
               given < all ? "; the others have their defaults" : "");
    return CLI_DONE;
}

static int check(void *options)
{
    const wish *w = options;
    doctor *d = NULL;
    sefl_status st = sefl_new(&d, 1, sizeof *d);
    if (st != SEFL_OK)
        return cli_failed(&cmd_config, st);
    d->k = w->kind ? config_kind_find(w->kind) : NULL;
    (void)doctor_settings(d, w->file);
    int rc = say(w, d);
    if (rc == CLI_DONE && d->count[DOCTOR_FAIL] > 0)
        rc = CLI_FAILED;
    settings_clear(&d->set);
    sefl_free(d);
    return rc;
}

/* ---- keys and table -------------------------------------------------------------------------- */

static int keys(void *options)
{
    const wish *w = options;
    const config_kind *k = w->kind ? config_kind_find(w->kind) : config_kinds;
    char values[EXAMPLE_VALUES];
    sefl_buf b = { 0 };
    json j = json_into(&b);
    if (w->json)
        json_open(&j, '[');
    for (const setting_def *d = config_kind_schema(k); d->key; d++) {
        if (d->unlisted)
            continue;
        example_values(values, d);
        if (!w->json) {
            printf("%-24s %-10s %s; %s\n", d->key, d->fallback ? d->fallback : "required", values,
                   d->help);
            continue;
        }
        json_object(&j, NULL, lf_str("key", d->key),
                    d->fallback ? lf_str("default", d->fallback) : lf_real("default", NAN),
                    lf_str("values", values), lf_str("help", d->help));
    }
    if (!w->json)
        return CLI_DONE;
    json_close(&j, ']');
    return print_json_end(&cmd_config, &j);
}

static void print_table(const config_kind *k)
{
    char values[EXAMPLE_VALUES];
    printf("\n## %s\n\nKeys of %s.\n\n| key | default | values | meaning |\n|---|---|---|---|\n",
           k->file, k->about);
    for (const setting_def *d = config_kind_schema(k); d->key; d++) {
        if (d->unlisted)
            continue;
        example_values(values, d);
        const char *mark = d->fallback && *d->fallback ? "`" : "";
        printf("| `%s` | %s%s%s | %s | %s |\n", d->key, mark,
               d->fallback ? d->fallback : "required", mark, values, d->help);
    }
}

static sefl_status print_combinations(void)
{
    sefl_buf b = { 0 };
    const sefl_status st = combination_table(&b);
    printf("\n## Features together\n\nA number is the section of [PRIVACY.md](PRIVACY.md) that "
           "covers the pair, a letter the reason why SEFL\nrefuses it; empty: the two cannot occur "
           "together, or one contains the other.\n\n%.*s",
           (int)b.n, (const char *)b.p);
    buf_clear(&b);
    return st;
}

static int table(void *options)
{
    (void)options;
    printf("# Settings\n\nFor everybody who writes a settings file. This page lists every key of "
           "every settings file. `sefl config\ntable` writes it from the program's tables, and a "
           "test compares the two.\n");
    for (const config_kind *k = config_kinds; k->name; k++)
        print_table(k);
    const sefl_status st = print_combinations();
    return st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_config, st);
}

static const setting_def options[] = { CONFIG_KIND_OPTION(wish), OPTION_JSON(wish), { 0 } };

const cli_command cmd_config = {
    .name = "config",
    .example = "sefl init experiment.yml && sefl config check experiment.yml",
    CLI_OPTIONS(wish),
    .actions =
        (const cli_action[]){
            { "check", "FILE", "a settings file",
              "Runs the same checks as the command that reads the file: settings "
              "(errors name line and column), the files that they name, "
              "certificates, keys and the task. Exits with 1 if a check fails.",
              .arg_at = offsetof(wish, file), .run = check },
            { "keys", .about = "Lists every key with its default, values and meaning.",
              .run = keys },
            { "table",
              .about = "Prints the keys of all kinds of files, and which features "
                       "go together, as Markdown tables (docs/SETTINGS.md).",
              .takes = "", .run = table },
            { 0 } },
};
