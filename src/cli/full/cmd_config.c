/* sefl config: checks a file of settings, and lists the keys that it may have. */
#include "cli/full/doctor.h"
#include "cli/options.h"
#include "cli/print.h"

#include "base/alloc.h"
#include "base/json.h"
#include "config/example.h"

#include <stdio.h>
#include <string.h>

typedef struct wish {
    const char *file, *kind;
    bool json;
} wish;

static bool is_sweep(const setting_def *d)
{
    return strncmp(d->key, "sweep.", 6) == 0;
}

/* ---- check --------------------------------------------------------------------------------- */

/* "csp.yml:3:1: tls.cert: ..."; the line about the settings themselves names its place already. */
static void sentence(char *out, size_t n, const doctor_line *l, const settings *s, const char *file)
{
    static const char *const of_cert[] = { "certificate", "chain", "hosts", NULL };
    const char *key = l->name, *where = file;
    for (const char *const *c = of_cert; *c; c++)
        if (strcmp(l->name, *c) == 0)
            key = "tls.cert";
    if (setting_find(s->schema, key) && settings_given(s, key))
        where = settings_origin(s, key);
    if (strcmp(l->name, "settings") == 0)
        snprintf(out, n, "%s", l->says);
    else
        snprintf(out, n, "%s: %s: %s", where, l->name, l->says);
}

static int say_json(const wish *w, const config_kind *k, const doctor *d, const settings *s,
                    size_t given)
{
    char text[1024];
    bool first = true;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    json_key(&j, "file"), json_str(&j, w->file);
    json_key(&j, "kind"), json_str(&j, k->name);
    json_key(&j, "ok"), json_bool(&j, d->count[DOCTOR_FAIL] == 0);
    if (d->count[DOCTOR_FAIL] == 0)
        json_key(&j, "given"), json_u64(&j, given);
    for (size_t i = 0; i < d->n; i++)
        if (d->at[i].status == DOCTOR_FAIL) {
            sentence(text, sizeof text, &d->at[i], s, w->file);
            if (first)
                json_key(&j, "error"), json_str(&j, text), json_key(&j, "errors"),
                    json_open(&j, '[');
            json_str(&j, text);
            first = false;
        }
    if (!first)
        json_close(&j, ']');
    json_close(&j, '}');
    return print_json_end(&cmd_config, &j);
}

static void say(const wish *w, const config_kind *k, const doctor *d, const settings *s,
                size_t given, size_t all)
{
    char text[1024];
    for (size_t i = 0; i < d->n; i++)
        if (d->at[i].status == DOCTOR_FAIL) {
            sentence(text, sizeof text, &d->at[i], s, w->file);
            sefl_note("%s", text);
            cli_failed(&cmd_config, SEFL_EIO);
        }
    if (d->count[DOCTOR_FAIL] == 0)
        printf("%s: good: %s; %zu of %zu keys are given, the others have defaults\n", w->file,
               k->about, given, all);
}

static int check(void *options)
{
    const wish *w = options;
    const config_kind *told = w->kind ? config_kind_find(w->kind) : NULL;
    const config_kind *k = told ? told : config_kind_of(w->file);
    settings s;
    size_t given = 0, all = 0;
    doctor *d = NULL;
    int rc = CLI_DONE;
    sefl_status st = sefl_new(&d, 1, sizeof *d);
    if (st != SEFL_OK)
        return cli_failed(&cmd_config, st);
    (void)doctor_settings(d, told, &s, w->file);
    for (size_t i = 0; i < s.count; i++)
        if (!is_sweep(&s.schema[i]))
            given += s.value[i] != NULL, all++;
    if (w->json)
        rc = say_json(w, k, d, &s, given);
    else
        say(w, k, d, &s, given, all);
    if (rc == CLI_DONE && d->count[DOCTOR_FAIL] > 0)
        rc = CLI_FAILED;
    settings_clear(&s);
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
        if (is_sweep(d))
            continue;
        example_values(values, d);
        if (!w->json) {
            printf("%-24s %-10s %s; %s\n", d->key, d->fallback ? d->fallback : "(needed)", values,
                   d->help);
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
        json_key(&j, "help"), json_str(&j, d->help);
        json_close(&j, '}');
    }
    if (!w->json)
        return CLI_DONE;
    json_close(&j, ']');
    return print_json_end(&cmd_config, &j);
}

static void print_table(const char *title, const char *about, const setting_def *schema)
{
    char values[EXAMPLE_VALUES];
    printf("\n## %s\n\n%s.\n\n| key | default | values | meaning |\n|---|---|---|---|\n", title,
           about);
    for (const setting_def *d = schema; d->key; d++) {
        if (is_sweep(d))
            continue;
        example_values(values, d);
        const char *mark = d->fallback && *d->fallback ? "`" : "";
        printf("| `%s` | %s%s%s | %s | %s |\n", d->key, mark,
               d->fallback ? d->fallback : "must be given", mark, values, d->help);
    }
}

static int table(void *options)
{
    (void)options;
    printf("# Settings\n\nEvery key of every file, and of `sefl train --set`. `sefl config table` "
           "writes this page from the tables that\nthe program itself uses, and a test compares "
           "the two.\n");
    for (const config_kind *k = config_kinds; k->name; k++)
        print_table(k->file, k->about, config_kind_schema(k));
    print_table("sefl train", "settings of 'sefl train --set' and '--set-file'", cmd_train.schema);
    return CLI_DONE;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "for", SETTING_WORD, "", TO(kind), .words = CONFIG_KIND_WORDS,
      .help = "Kind of the file, where its name (csp.yml, ...) does not tell; otherwise it is an "
              "experiment" },
    OPTION_JSON(wish),
    { 0 },
};

const cli_command cmd_config = {
    .name = "config",
    .summary = "check a file of settings, or list the keys that it may have",
    .example = "sefl init experiment.yml && sefl config check experiment.yml",
    .options = options,
    .size = sizeof(wish),
    .actions =
        (const cli_action[]){
            { "check", "FILE", "a file of settings",
              "Checks what the run would check: keys and values with line and column, the files "
              "that "
              "they name, certificates, keys and the task. Exits with 1 if something is wrong.",
              .arg_at = offsetof(wish, file), .run = check },
            { "keys", .about = "Lists every key with its default, its values and its meaning.",
              .run = keys },
            { "table",
              .about = "Writes docs/SETTINGS.md: the keys of all kinds as Markdown tables.",
              .takes = "", .run = table },
            { 0 } },
};
