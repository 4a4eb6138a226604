#include "cli/full/confine.h"
#include "cli/full/daemon.h"
#include "cli/meter.h"

#include "base/alloc.h"
#include "config/address.h"
#include "roles/client/client_config.h" /* the tables of settings, for the options and the help */
#include "sefl/client.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct session {
    daemon d;
    bool once;
    meter line;                    /* progress line */
    char *given[SETTINGS_MAX + 1]; /* settings given as options, as "key=value" */
} session;

static void show(void *ctx, const sefl_client_progress *v)
{
    session *s = ctx;
    const char *warning = v->claims_privacy ? "" : "  NO DIFFERENTIAL PRIVACY CLAIMED";
    char round[64] = "", share[16] = "";
    if (!s->line.on)
        return;
    if (v->round > 0)
        snprintf(round, sizeof round, "round %" PRIu64 "/%" PRIu64 "  ", v->round, v->rounds);
    if (strcmp(v->doing, "done") == 0) {
        fprintf(stderr, "\r\033[K%sup %.1f MB  %.1f s%s\n", round, (double)v->bytes / 1e6,
                (double)v->ms / 1000, warning);
        return;
    }
    if (!meter_due(&s->line) && v->total > 0 && v->done < v->total)
        return;
    if (v->total > 0)
        snprintf(share, sizeof share, " %3.0f %%", 100.0 * (double)v->done / (double)v->total);
    meter_line("%s%s%s%s", round, v->doing, share, warning);
    fprintf(stderr, "\r"); /* the next output overwrites this line */
}

/* Tells the owner, and nobody else, where a model is and how well it predicts the owner's text. */
static void show_model(void *ctx, const sefl_client_model *m)
{
    const session *s = ctx;
    char round[48], judged[96] = "";
    if (!s->line.on)
        return; /* the log has it */
    snprintf(round, sizeof round, m->round > 0 ? "%smodel of round %" PRIu64 : "initial model",
             m->final ? "final " : "", m->round);
    if (!isnan(m->perplexity))
        snprintf(judged, sizeof judged, "%sperplexity %.4g on %" PRIu64 " words of your own text",
                 m->path ? "; " : "", m->perplexity, m->own_words);
    fprintf(stderr, "\r\033[K%s: %s%s\n", round, m->path ? m->path : "", judged);
    if (m->final && m->path && m->vocabulary)
        fprintf(stderr, "write with it: sefl model generate '%s' --vocab '%s'\n", m->path,
                m->vocabulary);
}

/* ---- command line ---------------------------------------------------------------------------- */

DAEMON_CALLS(sefl_client, close)

static sefl_status collect_options(session *s)
{
    size_t n = 0;
    const settings *f = &s->d.flags;
    for (size_t i = 0; i < f->count; i++) {
        if (!f->value[i])
            continue;
        size_t bytes = strlen(f->schema[i].key) + strlen(f->value[i]) + 2;
        SEFL_PASS(sefl_new(&s->given[n], 1, bytes));
        snprintf(s->given[n++], bytes, "%s=%s", f->schema[i].key, f->value[i]);
    }
    return SEFL_OK;
}

static sefl_status start(void *self, const settings *set, void **out)
{
    session *s = self;
    sefl_client *c = NULL;
    sefl_log *log = &s->d.log;
    host_port at;
    SEFL_PASS(collect_options(s));
    SEFL_PASS(sefl_client_open(&c, s->d.file,
                               &(sefl_client_options){
                                   .size = sizeof(sefl_client_options),
                                   .ctx = s,
                                   .log_fd = 2,
                                   .log_level = s->line.on ? "warn" : "info",
                                   .progress = show,
                                   .model = show_model,
                                   .settings = (const char *const *)s->given,
                                   .once = s->once,
                               }));
    *out = c;
    confine_key(log, settings_text(set, "tls.key"));
    confine_proxy(log, settings_text(set, "proxy"), s->d.file);
    SEFL_PASS(address_read(&at, settings_text(set, "server"), 1));
    if (s->line.on)
        fprintf(stderr, "sefl client: server %s, port %u; text %s\n", at.host, at.port,
                settings_text(set, "text"));
    log_info(log, "ready", lf_str("server", at.host), lf_u64("port", at.port));
    return SEFL_OK;
}

static int run(void *self)
{
    session *s = self;
    s->line.on = meter_terminal();
    if (s->line.on) /* the line shows progress; the log adds only warnings and errors */
        s->d.least = LOG_WARN;
    s->d.refused = CLI_REFUSED;
    int rc = daemon_run(self, &cmd_client, start, &sefl_client_calls);
    meter_stop(&s->line);
    for (size_t i = 0; s->given[i]; i++)
        sefl_free(s->given[i]);
    return rc;
}

static const setting_def options[] = {
    DAEMON_CONFIG,
    { "once", SETTING_FLAG, SETTING_TO(session, once), .help = "Exit after one round" },
    { 0 },
};

const cli_command cmd_client = {
    .name = "client",
    .about =
        "Fetches the task and checks both servers' signatures and the owner's policy. In each "
        "round it trains on the text, or runs the owner's training command (setting trainer), "
        "encrypts and signs the model update, and uploads it. Nothing else that it derives from "
        "the text leaves the machine. Then it asks for proof that the upload was counted; it stops "
        "after three rounds in a row without proof. When the task is over, it keeps the final "
        "model for the owner (settings models, models_keep) and exits with 0, or waits for the "
        "next task (setting stay). With eval: own, it also evaluates the models on a part of the "
        "text that it does not train on; only the owner sees the result. If it cannot take part, "
        "it prints the reason and exits with 1; with 3 if the server refuses it (for a day, or "
        "when "
        "it is stopped) or did not count three of its updates. SIGTERM stops it cleanly; a restart "
        "resumes the "
        "task. SIGHUP reloads the policy, the certificates and the log level. Every setting of "
        "the file is also an option.",
    .notes = "The policy sets the limits that the owner of the text accepts. 'sefl init "
             "policy.yml' writes a commented policy with these settings:",
    .noted = policy_schema,
    .example = "sefl client -c clients/client-01/client.yml",
    DAEMON_COMMAND(client_schema, options),
};
