/* sefl doctor: checks this machine, and a role's file on it. */
#include "cli/full/doctor.h"
#include "cli/options.h"
#include "cli/print.h"

#include "base/alloc.h"
#include "base/json.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct wish {
    const char *file, *kind;
    bool json;
} wish;

static const char *const words[] = { "ok", "warn", "fail" };

static sefl_status say_json(const doctor *d)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    for (int i = 0; i < 3; i++)
        json_key(&j, words[i]), json_u64(&j, d->count[i]);
    json_key(&j, "checks"), json_open(&j, '[');
    for (size_t i = 0; i < d->n; i++) {
        const doctor_line *l = &d->at[i];
        json_object(&j, NULL, lf_str("name", l->name), lf_str("status", words[l->status]),
                    lf_str("says", l->says), lf_if(*l->remedy, lf_str("do", l->remedy)));
    }
    json_close(&j, ']');
    json_close(&j, '}');
    SEFL_TRY(print_json(&j));
done:
    buf_clear(&b);
    return st;
}

static void print_text(const doctor *d)
{
    for (size_t i = 0; i < d->n; i++) {
        const doctor_line *l = &d->at[i];
        printf("%-5s %-14s %s\n", words[l->status], l->name, l->says);
        if (*l->remedy)
            printf("      %-14s -> %s\n", "", l->remedy);
    }
    printf("%zu ok, %zu to look at, %zu wrong\n", d->count[DOCTOR_OK], d->count[DOCTOR_WARN],
           d->count[DOCTOR_FAIL]);
}

static int run(void *options)
{
    const wish *w = options;
    const config_kind *k = w->kind ? config_kind_find(w->kind) : NULL;
    const char *slash = w->file ? strrchr(w->file, '/') : NULL;
    char folder[PATH_MAX];
    doctor *d = NULL;
    if (k && !w->file)
        return cli_misuse(&cmd_doctor, "--for goes with -c FILE");
    sefl_status st = sefl_new(&d, 1, sizeof *d);
    if (st != SEFL_OK)
        return cli_failed(&cmd_doctor, st);
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - w->file) + 1 : 1,
             slash ? w->file : ".");
    doctor_machine(d, folder);
    if (w->file)
        doctor_config(d, k, w->file);
    else
        doctor_ports(d);
    if (w->json)
        st = say_json(d);
    else
        print_text(d);
    int rc = st != SEFL_OK           ? cli_failed(&cmd_doctor, st)
             : d->count[DOCTOR_FAIL] ? CLI_FAILED
                                     : CLI_DONE;
    sefl_free(d);
    return rc;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "config", SETTING_PATH, "", TO(file), .letter = 'c',
      .help = "Check this file too: aggregator.yml, csp.yml, client.yml, ..." },
    { "for", SETTING_WORD, "", TO(kind), .words = CONFIG_KIND_WORDS,
      .help = "Kind of the file, where its name does not tell" },
    OPTION_JSON(wish),
    { 0 },
};

const cli_command cmd_doctor = {
    .name = "doctor",
    .summary = "check this machine, and a role's file with everything that it names",
    .about = "Checks processor, libraries, randomness, limits, clock and disk. With a file it also "
             "checks settings, files, certificates (key, role, expiry, issuer), the task, port and "
             "peers. Each line is ok, warn or fail, with what to do; exit 1 if something fails. "
             "Nothing is changed.",
    .example = "sefl doctor",
    .options = options,
    .size = sizeof(wish),
    .actions = (const cli_action[]){ { "", .run = run }, { 0 } },
};
