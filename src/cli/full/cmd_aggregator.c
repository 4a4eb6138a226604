/* sefl aggregator: the aggregation server of a federation. */
#include "cli/cli.h"
#include "cli/full/confine.h"
#include "cli/full/role_settings.h"
#include "cli/full/signals.h"

#include "roles/aggregator/aggregator.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

enum { OWN_FILES = 128 }; /* journal, models, log, link, ... */

typedef struct session {
    role_settings rs;
    sefl_log log;
    sefl_clock wall;
    _Atomic(aggregator *) role; /* NULL: not yet */
    const char *user;           /* to become; NULL: nobody else */
    atomic_bool ended;
} session;

static void on_signal(void *ctx, int sig)
{
    session *s = ctx;
    if (sig != SIGHUP)
        s->ended = true;
    aggregator *role = s->role; /* set before `ended` is looked at: one of us sees the other */
    if (!role)
        return;
    if (sig != SIGHUP) {
        aggregator_stop(role);
        return;
    }
    role_settings_relog(&s->rs, &s->log, LOG_DEBUG);
    aggregator_reload(role);
}

/* round 12/40  ppl 107.3  eps 0.83/3.00 (others 0.31)  clients 31  up 18.2 MB  2.4 s */
static void print_round(const rounds_report *r, uint64_t of)
{
    char line[256];
    size_t n = 0;
#define ADD(...) n += (size_t)snprintf(line + n, sizeof line - n, __VA_ARGS__)
    ADD("round %" PRIu64 "/%" PRIu64, r->round, of);
    if (r->skipped)
        ADD("  skipped");
    if (r->blocked)
        ADD("  blocked by the release check");
    if (r->has_perplexity)
        ADD("  ppl %.1f", r->perplexity);
    if (r->has_epsilon)
        ADD("  eps %.2f/%.2f (others %.2f)", r->epsilon_server, r->epsilon_target,
            r->epsilon_others);
    if (r->has_clients)
        ADD("  clients %u  up %.1f MB", r->clients, 1e-6 * (double)r->up_bytes);
    ADD("  %.1f s", r->seconds);
#undef ADD
    fprintf(stderr, "%s\n", line);
}

static void on_round(void *ctx, const rounds_report *r, uint64_t of)
{
    session *s = ctx;
    if (!s->log.json) {
        print_round(r, of);
        return;
    }
    log_field f[12] = { lf_u64("round", r->round), lf_u64("rounds", of),
                        lf_bool("skipped", r->skipped), lf_bool("blocked", r->blocked),
                        lf_real("seconds", r->seconds) };
    unsigned n = 5;
    if (r->has_clients)
        f[n++] = lf_u64("clients", r->clients), f[n++] = lf_u64("up_bytes", r->up_bytes);
    if (r->has_perplexity)
        f[n++] = lf_real("perplexity", r->perplexity);
    if (r->has_epsilon) {
        f[n++] = lf_real("epsilon_server", r->epsilon_server);
        f[n++] = lf_real("epsilon_others", r->epsilon_others);
    }
    log_event(&s->log, LOG_INFO, "round over", f); /* the rest of f is LF_END */
}

static sefl_status on_bound(void *ctx)
{
    const session *s = ctx;
    return confine_user(s->user);
}

static sefl_status work(session *s)
{
    sefl_status st = SEFL_OK;
    settings set;
    aggregator_settings cfg = { 0 };
    signals *sigs = NULL;
    aggregator *role = NULL;
    SEFL_TRY(role_settings_read(&s->rs, &set));
    SEFL_TRY(aggregator_settings_make(&cfg, &set));
    s->wall = clock_wall();
    s->log = log_open(2, role_settings_level(&set, LOG_DEBUG), &s->wall);
    SEFL_TRY(confine_memory(&s->log, settings_text(&set, "memory_lock")));
    s->user = cfg.user;
    confine_warn(&s->log, cfg.user);
    confine_key(&s->log, cfg.tls_key);
    confine_key(&s->log, cfg.sign_key);
    confine_files(&s->log, 2 * cfg.connections + OWN_FILES); /* each may upload into a file */
    SEFL_TRY(signals_start(&sigs, on_signal, s));            /* before any other thread is made */
    SEFL_TRY(aggregator_new(
        &role,
        &(aggregator_options){
            .settings = &cfg, .log = &s->log, .ctx = s, .bound = on_bound, .round = on_round }));
    s->role = role;
    if (s->ended) /* a signal came meanwhile */
        aggregator_stop(role);
    const task *t = aggregator_task(role);
    if (!t->claim)
        log_warn(&s->log, "no differential privacy claimed by this task");
    if (!task_mode(t)->noisy)
        log_warn(&s->log, "no noise: this server learns the exact average of every round");
    SEFL_TRY(aggregator_run(role));
done:
    signals_end(sigs);
    aggregator_free(role);
    settings_clear(&set);
    return st;
}

static int run(int argc, char **argv)
{
    session s = { .rs = { .command = &cmd_aggregator, .schema = aggregator_schema } };
    int rc = role_settings_parse(&s.rs, argc, argv);
    if (rc == CLI_DONE) {
        confine_start();
        sefl_status st = work(&s);
        if (st != SEFL_OK)
            rc = cli_failed(&cmd_aggregator, st);
    }
    role_settings_clear(&s.rs);
    return rc;
}

const cli_command cmd_aggregator = {
    .name = "aggregator",
    .summary = "run the aggregation server of a federation",
    .usage = "-c aggregator.yml [options]",
    .details = "Serves clients over HTTPS (mutual TLS 1.3), adds their encrypted updates, opens\n"
               "each round with CSP and releases the next model. Ends with 0 when the task is\n"
               "over. SIGTERM stops in good order, and so does kill -9: started again, it goes\n"
               "on. SIGHUP reads certificates and log level again.\n"
               "  -c, --config FILE     aggregator.yml; its relative paths count from its folder\n"
               "Each setting of the file is an option too, which comes first:\n"
               "  --listen ADDR:PORT    port 0: the system chooses\n"
               "  --csp HOST:PORT       the cryptography service provider\n"
               "  --tls-cert F, --tls-key F, --tls-peers F, --tls-csp-peers F\n"
               "                        certificate, its key, the CA of the clients, the CA of\n"
               "                        CSP\n"
               "  --ca DIR              folder of 'sefl ca new': its trust list says who gets\n"
               "                        in\n"
               "  --sign-key F          this server's signing key\n"
               "  --task F              the task, signed by both servers\n"
               "  --vocab F, --init F   the public word list and the initial model that the task\n"
               "                        names\n"
               "  --valid F             public text: perplexity after each round, and when to\n"
               "                        stop\n"
               "  --state DIR           journal, updates, metrics.jsonl (a line a round)\n"
               "  --models DIR          released models: round-N.safetensors\n"
               "  --models-keep N, --models-every K\n"
               "                        of these the latest N (20) stay, and every Kth (100)\n"
               "  --ledger F            the population's privacy ledger\n"
               "  --memory-lock WORD    required (default): it is an error if the system does\n"
               "                        not lock keys in memory (ulimit -l); try: a warning\n"
               "  --threads N           0 (default): one a core\n"
               "  --connections N       of clients, at most (default 512)\n"
               "  --per-address N, --per-client N\n"
               "                        connections of one address (128), of one client (8)\n"
               "  --per-issuer N        of all clients of a CA that has no list of members;\n"
               "                        0 (default): a quarter of --connections\n"
               "  --connection-rate N, --request-rate N\n"
               "                        new connections of an address (50), requests of a client\n"
               "                        (20), a second\n"
               "  --idle S, --rate-min B\n"
               "                        cuts who is silent so long (60), or slower than B\n"
               "                        bytes/s (1024)\n"
               "  --link-silence S      gives CSP up after so long without a byte (30)\n"
               "  --lanes N             connections to CSP that make noise shares (1)\n"
               "  --audit N             checks one session of noise shares in N (8); 0: none\n"
               "  --linger S            serves so long after the task's end (default 30)\n"
               "  --user NAME           root becomes NAME when the port is bound\n"
               "  --ready-file F        written when it serves: host:port\n"
               "  --health ADDR:PORT    GET /healthz over plain HTTP, on a loopback address\n"
               "  --log LEVEL           debug, info (default), warn, error, off",
    .example = "sefl aggregator -c aggregator/aggregator.yml --csp csp.example:7001",
    .run = run,
};
