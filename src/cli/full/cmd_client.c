#include "cli/full/confine.h"
#include "cli/full/daemon.h"
#include "cli/meter.h"

#include "roles/client/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct session {
    daemon d;
    bool once;
    client_config cfg;
    meter line; /* progress line */
} session;

static void show(void *ctx, const client_view *v)
{
    session *s = ctx;
    const char *warning = v->no_claim ? "  NO DIFFERENTIAL PRIVACY CLAIMED" : "";
    char round[64] = "", share[16] = "";
    if (!s->line.on)
        return;
    if (v->round > 0)
        snprintf(round, sizeof round, "round %" PRIu64 "/%" PRIu64 "  ", v->round, v->rounds);
    if (strcmp(v->doing, CLIENT_ROUND_DONE) == 0) {
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

/* ---- command line ---------------------------------------------------------------------------- */

DAEMON_CALLS(client)

static sefl_status start(void *self, const settings *set, void **out)
{
    session *s = self;
    client *c = NULL;
    sefl_log *log = &s->d.log;
    const client_config *cfg = &s->cfg;
    SEFL_PASS(client_config_make(&s->cfg, set));
    confine_key(log, cfg->key);
    confine_proxy(log, cfg->proxy, s->d.file);
    SEFL_PASS(client_new(
        &c, &(client_options){
                .config = cfg, .log = log, .once = s->once, .show = show, .show_ctx = s }));
    if (s->line.on)
        fprintf(stderr, "sefl client: server %s, port %u; text %s\n", cfg->server.host,
                cfg->server.port, cfg->text);
    log_info(log, "ready", lf_str("server", cfg->server.host), lf_u64("port", cfg->server.port));
    *out = c;
    return SEFL_OK;
}

static int run(void *self)
{
    session *s = self;
    s->line.on = meter_terminal();
    if (s->line.on) /* the line shows progress; the log adds only warnings and errors */
        s->d.least = LOG_WARN;
    int rc = daemon_run(self, &cmd_client, start, &client_calls);
    meter_stop(&s->line);
    return rc;
}

static const setting_def options[] = {
    DAEMON_CONFIG,
    { "once", SETTING_FLAG, SETTING_TO(session, once), .help = "Exit after one round" },
    { 0 },
};

const cli_command cmd_client = {
    .name = "client",
    .summary = "take part in a federation with the text on this machine",
    .about =
        "Fetches the task and checks both servers' signatures and the owner's policy. In each "
        "round it trains on the text, encrypts and signs the model update, and uploads it. Nothing "
        "else derived from the text leaves the machine. Then it asks for proof that the upload was "
        "counted; it stops after three rounds in a row without proof. It exits with 0 when the "
        "task is over. If it cannot take part, it prints the reason and exits with 1. SIGTERM "
        "stops it cleanly; "
        "a restart resumes the task. SIGHUP reloads the policy, the certificates and the log "
        "level. Every setting of the file is also an option.",
    .notes = "The policy sets the limits that the owner of the text accepts. 'sefl init "
             "policy.yml' writes a commented policy with these settings:",
    .noted = policy_schema,
    .example = "sefl client -c clients/client-01/client.yml",
    DAEMON_COMMAND(client_schema, options),
};
