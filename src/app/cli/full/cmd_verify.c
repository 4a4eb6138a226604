#include "base/alloc.h"
#include "base/file.h"
#include "cli/meter.h"
#include "cli/options.h"
#include "cli/print.h"
#include "config/yaml/yaml.h"
#include "roles/aggregator/aggregator.h"
#include "roles/audit/verify.h"
#include "roles/client/client_config.h"
#include "roles/csp/csp_role.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

typedef struct wish {
    char **run;
    const char *task;
    bool json;
} wish;

/* What a finding is printed to. */
typedef struct session {
    const wish *w;
    meter line;
    json j;
    sefl_buf out;
    verify *v;
    unsigned servers, clients;
    bool named; /* the user named the folder */
} session;

static void say(void *ctx, verify_verdict verdict, const char *what, const char *text)
{
    static const char *const words[] = { "ok", "note", "WRONG" };
    session *s = ctx;
    char name[PATH_MAX], plain[700];
    meter_stop(&s->line);
    if (s->w->json)
        json_object(&s->j, NULL,
                    lf_str("verdict", verdict == VERIFY_WRONG ? "wrong" : words[verdict]),
                    lf_str("what", what), lf_str("says", text));
    else
        printf("%-5s  %s: %s\n", words[verdict], cli_plain(name, sizeof name, what),
               cli_plain(plain, sizeof plain, text));
}

/* ---- the parties ----------------------------------------------------------------------------- */

static const char *or_null(const char *text)
{
    return text && *text ? text : NULL;
}

static sefl_status look_at_server(session *s, const char *file, verify_role role)
{
    sefl_status st = SEFL_OK;
    settings set;
    const bool as = role == VERIFY_AGGREGATOR;
    settings_init(&set, as ? aggregator_schema : csp_schema);
    SEFL_TRY(yaml_read(&set, file));
    s->servers++;
    SEFL_TRY(verify_server(
        s->v, &(verify_files){ .role = role,
                               .state = settings_text(&set, "state"),
                               .ledger = or_null(settings_text(&set, "ledger")),
                               .task = or_null(settings_text(&set, "task")),
                               .tasks = or_null(settings_text(&set, "tasks")),
                               .init = as ? or_null(settings_text(&set, "init")) : NULL,
                               .models = as ? or_null(settings_text(&set, "models")) : NULL,
                               .keep = as ? settings_u64(&set, "models_keep") : 0,
                               .every = as ? settings_u64(&set, "models_every") : 0 }));
done:
    settings_clear(&set);
    return st;
}

static sefl_status look_at_client(session *s, const char *file)
{
    sefl_status st = SEFL_OK;
    settings set;
    char path[PATH_MAX];
    settings_init(&set, client_schema);
    SEFL_TRY(yaml_read(&set, file));
    s->clients++;
    SEFL_TRY(verify_client(
        s->v, &(verify_client_files){ .state = settings_text(&set, "state"),
                                      .pub = settings_text(&set, "aggregator_key"),
                                      .ledger = or_null(settings_text(&set, "ledger")) }));
    if (or_null(settings_text(&set, "models")))
        SEFL_TRY(file_path(path, "%s", settings_text(&set, "models")));
    else
        SEFL_TRY(file_path(path, "%s/models", settings_text(&set, "state")));
    SEFL_TRY(verify_client_models(s->v, path));
done:
    settings_clear(&set);
    return st;
}

typedef enum party { CLIENTS, AGGREGATOR, CSP } party;

/* Looks at FOLDER/FILE if it exists, as this kind of party. */
static sefl_status look_in(session *s, party p, const char *folder)
{
    static const char *const names[] = { "client.yml", "aggregator.yml", "csp.yml" };
    char path[PATH_MAX];
    SEFL_PASS(file_path(path, "%s/%s", folder, names[p]));
    if (!file_exists(path))
        return SEFL_OK;
    sefl_status st = file_need_plain(path);
    if (st != SEFL_OK && p == CLIENTS && !s->named) { /* one of many: the others count */
        say(s, VERIFY_NOTE, path, sefl_last_error());
        return SEFL_OK;
    }
    SEFL_PASS(st);
    return p == CLIENTS ? look_at_client(s, path)
                        : look_at_server(s, path, p == CSP ? VERIFY_CSP : VERIFY_AGGREGATOR);
}

/* The clients of a provisioned folder. */
static sefl_status look_at_clients(session *s, const char *folder)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX];
    DIR *d = opendir(folder);
    if (!d)
        return SEFL_OK;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        SEFL_TRY(file_path(path, "%s/%s", folder, e->d_name));
        SEFL_TRY(look_in(s, CLIENTS, path));
    }
done:
    closedir(d);
    return st;
}

/* A party's folder, a provisioned federation, or the folder of a demo. */
static sefl_status look_at(session *s, party p, const char *run)
{
    static const char *const below[] = { "clients", "aggregator", "csp" };
    static const char *const roots[] = { "", "/federation" };
    char path[PATH_MAX];
    s->named = true;
    SEFL_PASS(look_in(s, p, run));
    s->named = false;
    for (size_t i = 0; i < 2; i++) {
        SEFL_PASS(file_path(path, "%s%s/%s", run, roots[i], below[p]));
        SEFL_PASS(p == CLIENTS ? look_at_clients(s, path) : look_in(s, p, path));
    }
    return SEFL_OK;
}

/* A simulation keeps no audit log. */
static bool is_simulation(const char *run)
{
    char path[PATH_MAX], other[PATH_MAX];
    return file_path(path, "%s/config.yml", run) == SEFL_OK && file_exists(path) &&
           file_path(other, "%s/metrics.jsonl", run) == SEFL_OK && file_exists(other);
}

static sefl_status look_at_all(session *s)
{
    for (int p = CLIENTS; p <= CSP; p++) /* receipts first */
        for (size_t i = 0; s->w->run[i]; i++) {
            const char *run = s->w->run[i];
            SEFL_NEED(file_exists(run), SEFL_ENOTFOUND, "%s does not exist", run);
            SEFL_NEED(!is_simulation(run), SEFL_EUNSUPPORTED,
                      "%s is a simulation: it has no servers, so it keeps no audit log, no "
                      "signatures and no released integers. To check it, run it again with the "
                      "same seed and compare the models",
                      run);
            SEFL_PASS(look_at(s, (party)p, run));
        }
    SEFL_NEED(s->servers + s->clients > 0, SEFL_ENOTFOUND,
              "%s: no aggregator.yml, csp.yml or client.yml here, nor in aggregator/, csp/ and "
              "clients/: pass the folder of a server or of a federation",
              s->w->run[0]);
    return verify_finish(s->v);
}

static int cmd_verify_run(void *options)
{
    const wish *w = options;
    session s = { .w = w };
    sefl_status st = SEFL_OK;
    sefl_progress p = meter_start(&s.line, "verifying");
    s.j = json_into(&s.out);
    if (w->json)
        json_open(&s.j, '{'), json_key(&s.j, "checks"), json_open(&s.j, '[');
    SEFL_TRY(verify_new(&s.v, &(verify_config){ .ctx = &s, .say = say, .progress = &p }));
    if (w->task)
        SEFL_TRY(verify_trust(s.v, w->task));
    SEFL_TRY(look_at_all(&s));
done:
    meter_stop(&s.line);
    const size_t wrong = s.v ? verify_wrong(s.v) : 0;
    if (w->json && st == SEFL_OK) {
        json_close(&s.j, ']');
        json_fields(&s.j, lf_bool("ok", wrong == 0), lf_u64("wrong", wrong));
        json_close(&s.j, '}');
        st = print_json(&s.j);
    } else if (st == SEFL_OK && wrong > 0) {
        printf("%zu checks failed\n", wrong);
    } else if (st == SEFL_OK) {
        printf("everything that could be checked is right\n");
    }
    if (st != SEFL_OK)
        cli_failed(&cmd_verify, st);
    buf_clear(&s.out);
    verify_free(s.v);
    return st == SEFL_OK && wrong == 0 ? CLI_DONE : CLI_FAILED;
}

static const setting_def options[] = {
    { "task", SETTING_PATH, "", SETTING_TO(wish, task),
      .help = "Your own copy of the signed task; the servers' keys must be those that it names" },
    OPTION_JSON(wish),
    { 0 },
};

const cli_command cmd_verify = {
    .name = "verify",
    .about = "Reads the files of a server, of both, or of a whole federation, and checks that "
             "nothing in them was changed: the chain and the signatures of the audit logs, the "
             "header, the uploads and the statements of each round, the ledger, and that each "
             "model follows bit for bit from the model before and the integers that AS released "
             "(as long as it keeps them: setting integers_keep). With both servers' folders it "
             "also compares the two; if several processes were CSP in turn, pass the folder of "
             "each. With clients' folders it looks for the upload of each "
             "receipt, and compares the models that the clients keep.\n"
             "RUN is a folder with aggregator.yml, csp.yml or client.yml, a folder from 'sefl "
             "provision', or the folder of 'sefl demo'. A line that begins with WRONG names the "
             "file and the line. The command needs no key and no network, changes nothing, and "
             "works while the servers run. It exits with 1 if a check fails. "
             "docs/OPERATING.md, \"Proving what happened\", says what it cannot show.",
    .example = "sefl verify trial/aggregator trial/csp",
    .interruptible = true,
    CLI_OPTIONS(wish),
    CLI_RUN(cmd_verify_run, "RUN...", "a folder of a server or of a federation",
            offsetof(wish, run)),
};
