/* sefl doctor: is this machine fit, and a role's file on it? */
#include "cli/cli.h"
#include "cli/full/doctor.h"
#include "cli/print.h"

#include "base/alloc.h"
#include "base/json.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { O_FOR = 256, O_JSON };

static const struct option longopts[] = {
    { "config", required_argument, NULL, 'c' },
    { "for", required_argument, NULL, O_FOR },
    { "json", no_argument, NULL, O_JSON },
    { 0 },
};

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
        json_open(&j, '{');
        json_key(&j, "name"), json_str(&j, l->name);
        json_key(&j, "status"), json_str(&j, words[l->status]);
        json_key(&j, "says"), json_str(&j, l->says);
        if (*l->remedy)
            json_key(&j, "do"), json_str(&j, l->remedy);
        json_close(&j, '}');
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

static int run(int argc, char **argv)
{
    const config_kind *k = NULL;
    const char *file = NULL;
    bool as_json = false;
    opterr = 0, optind = 1;
    for (int c; (c = getopt_long(argc, argv, ":c:", longopts, NULL)) != -1;) {
        if (c == 'c')
            file = optarg;
        else if (c == O_JSON)
            as_json = true;
        else if (c != O_FOR)
            return cli_bad_option(&cmd_doctor, argc, argv, c, longopts);
        else if (!(k = config_kind_find(optarg)))
            return cli_misuse(&cmd_doctor,
                              "--for is experiment, aggregator, csp, client, policy or task, not "
                              "\"%.32s\"",
                              optarg);
    }
    if (optind < argc)
        return cli_misuse(&cmd_doctor, "no argument \"%.64s\" is taken; -c FILE looks at a file",
                          argv[optind]);
    if (k && !file)
        return cli_misuse(&cmd_doctor, "--for goes with -c FILE");
    doctor *d = NULL;
    char folder[PATH_MAX] = "";
    sefl_status st = sefl_new(&d, 1, sizeof *d);
    if (st != SEFL_OK)
        return cli_failed(&cmd_doctor, st);
    if (file)
        config_kind_folder(folder, file);
    doctor_machine(d, *folder ? folder : ".");
    if (file)
        doctor_config(d, k, file);
    else
        doctor_ports(d);
    if (as_json)
        st = say_json(d);
    else
        print_text(d);
    int rc = st != SEFL_OK           ? cli_failed(&cmd_doctor, st)
             : d->count[DOCTOR_FAIL] ? CLI_FAILED
                                     : CLI_DONE;
    sefl_free(d);
    return rc;
}

const cli_command cmd_doctor = {
    .name = "doctor",
    .summary = "check this machine, and a role's file with all that it names",
    .usage = "[-c FILE] [--for KIND] [--json]",
    .details = "Looks at processor, libraries, randomness, limits, clock and disk, and with a\n"
               "file at its settings, files, certificates (key, role, expiry, issuer), port and\n"
               "peers. Each line is ok, warn or fail with what to do; exit 1 if something fails.\n"
               "Nothing is changed.\n"
               "  -c, --config FILE   aggregator.yml, csp.yml, client.yml, ...\n"
               "  --for KIND          what FILE is, where its name does not tell: experiment,\n"
               "                      aggregator, csp, client, policy, task\n"
               "  --json              one JSON object",
    .example = "sefl doctor",
    .run = run,
};
