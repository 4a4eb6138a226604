/* sefl client: one member of a federation, beside its text. */
#include "cli/cli.h"
#include "cli/full/confine.h"
#include "cli/full/role_settings.h"
#include "cli/full/signals.h"
#include "cli/meter.h"

#include "roles/client/client.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef struct session {
    role_settings rs;
    bool terminal;
    sefl_log log;
    log_level least; /* unless the owner has chosen one */
    sefl_clock wall, clock;
    uint64_t shown_ms;
    _Atomic(client *) c;
    _Atomic int pending; /* a signal that came before there was a client, or after */
} session;

/* ---- talk ------------------------------------------------------------------------------------ */

static void show(void *ctx, const client_view *v)
{
    session *s = ctx;
    uint64_t now = clock_ms(&s->clock);
    const char *warning = v->no_claim ? "  NO DIFFERENTIAL PRIVACY CLAIMED" : "";
    if (!s->terminal)
        return;
    if (strcmp(v->doing, CLIENT_ROUND_DONE) == 0) {
        fprintf(stderr, "\r\033[Kround %llu/%llu  up %.1f MB  %.1f s%s\n",
                (unsigned long long)v->round, (unsigned long long)v->rounds, (double)v->bytes / 1e6,
                (double)v->ms / 1000, warning);
        return;
    }
    if (v->total > 0 && v->done < v->total && now < s->shown_ms + 100)
        return;
    s->shown_ms = now;
    /* back to the first column: whatever is printed next takes the line's place */
    char round[64] = "", share[16] = "";
    if (v->round > 0)
        snprintf(round, sizeof round, "round %llu/%llu  ", (unsigned long long)v->round,
                 (unsigned long long)v->rounds);
    if (v->total > 0)
        snprintf(share, sizeof share, " %3.0f %%", 100.0 * (double)v->done / (double)v->total);
    meter_line("%s%s%s%s", round, v->doing, share, warning);
    fprintf(stderr, "\r");
}

static void on_reload(void *ctx)
{
    session *s = ctx;
    role_settings_relog(&s->rs, &s->log, s->least);
}

static void on_signal(void *ctx, int sig)
{
    session *s = ctx;
    if (sig != SIGHUP)
        s->pending = sig;
    client *c = s->c; /* set before `pending` is looked at: one of us sees the other */
    if (c && sig == SIGHUP)
        client_reload(c);
    else if (c)
        client_stop(c);
}

/* ---- command line ---------------------------------------------------------------------------- */

/* *running: no longer about settings: what fails now is a failure, not misuse. */
static sefl_status work(session *s, bool *running)
{
    sefl_status st = SEFL_OK;
    settings set;
    client_config cfg = { 0 };
    signals *sigs = NULL;
    client *c = NULL;
    SEFL_TRY(role_settings_read(&s->rs, &set));
    SEFL_TRY(client_config_make(&cfg, &set));
    s->terminal = meter_terminal();
    s->wall = clock_wall(), s->clock = clock_monotonic();
    if (s->terminal) /* the line says what goes on; only trouble is added */
        s->least = LOG_WARN;
    s->log = log_open(2, role_settings_level(&set, s->least), &s->wall);
    confine_key(&s->log, cfg.key);
    confine_proxy(&s->log, cfg.proxy, s->rs.file);
    SEFL_TRY(signals_start(&sigs, on_signal, s));
    SEFL_TRY(client_new(&c, &(client_options){ .config = &cfg,
                                               .log = &s->log,
                                               .once = s->rs.extra_given,
                                               .show = show,
                                               .on_reload = on_reload,
                                               .show_ctx = s }));
    s->c = c;
    if (s->pending)
        client_stop(c);
    *running = true;
    if (s->terminal)
        fprintf(stderr, "sefl client: server %s, port %u; text %s\n", cfg.server.host,
                cfg.server.port, cfg.text);
    log_info(&s->log, "ready", lf_str("server", cfg.server.host), lf_u64("port", cfg.server.port));
    SEFL_TRY(client_run(c));
done:
    if (s->terminal)
        meter_line("%s", "");
    signals_end(sigs);
    client_free(c);
    settings_clear(&set);
    return st;
}

static int run(int argc, char **argv)
{
    session s = { .rs = { .command = &cmd_client, .schema = client_schema, .extra = "once" } };
    int rc = role_settings_parse(&s.rs, argc, argv);
    if (rc == CLI_DONE) {
        confine_start();
        bool running = false;
        sefl_status st = work(&s, &running);
        if (st != SEFL_OK)
            rc = cli_failed(&cmd_client, st);
        if (st != SEFL_OK && running)
            rc = CLI_FAILED;
    }
    role_settings_clear(&s.rs);
    return rc;
}

const cli_command cmd_client = {
    .name = "client",
    .summary = "take part in a federation with the text on this machine",
    .usage = "-c client.yml [--once] [options]",
    .details = "Fetches the task, checks both servers' signatures and the owner's policy, then\n"
               "in each round trains on the text, encrypts the change, signs and uploads it.\n"
               "Nothing else of the text leaves. Then it asks for the proof that the update was\n"
               "counted; three in a row that were not end it. Ends with 0 when the task is over,\n"
               "with 1 and a sentence when it cannot take part. SIGTERM stops in good order;\n"
               "started again, it goes on. SIGHUP reads policy, certificates and log level\n"
               "again.\n"
               "  -c, --config FILE     client.yml; its relative paths count from its folder\n"
               "  --once                stop after one round\n"
               "Each setting of the file is an option too, which comes first:\n"
               "  --server HOST:PORT    the aggregation server\n"
               "  --proxy URL           HTTP CONNECT proxy; none; default: from https_proxy,\n"
               "                        no_proxy\n"
               "  --tls-cert F, --tls-key F, --tls-peers F\n"
               "                        this client's certificate and key, the server's CA\n"
               "  --aggregator-key F, --csp-key F\n"
               "                        signing keys of the two servers, pinned at enrolment\n"
               "  --policy F            what the owner of the text agrees to: epsilon_per_task,\n"
               "                        epsilon_total, delta_max, clients_min, noise_modes,\n"
               "                        claim_none, rounds_max\n"
               "  --text PATH           file, or folder of files; --text-format\n"
               "                        guess|text|jsonl|csv, --text-field NAME (default text)\n"
               "  --state DIR           rounds under way, upload key, receipts and proofs\n"
               "  --ledger F            this client's privacy ledger\n"
               "  --threads N           0 (default): one a core\n"
               "  --log LEVEL           debug, info (default), warn, error, off",
    .example = "sefl client -c clients/client-01/client.yml",
    .run = run,
};
