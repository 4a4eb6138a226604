#include "cli/full/confine.h"
#include "cli/full/daemon.h"
#include "cli/meter.h"
#include "cli/sample.h"

#include "protocol/modes/mode.h"
#include "roles/aggregator/aggregator.h"

#include <inttypes.h>
#include <stdio.h>

enum { OWN_FILES = 128 }; /* open files besides connections: journal, models, log, link, ... */

typedef struct session {
    daemon d;
    aggregator_settings cfg;
} session;

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
    if (r->word_perplexity > 0)
        ADD(" (%.1f per word)", r->word_perplexity);
    if (r->has_epsilon)
        ADD("  eps %.2f/%.2f (others %.2f)", r->epsilon_server, r->epsilon_target,
            r->epsilon_others);
    if (r->has_clients)
        ADD("  clients %u  up %.1f MB", r->clients, 1e-6 * (double)r->up_bytes);
    ADD("  %.1f s", r->seconds);
#undef ADD
    fprintf(stderr, "%s%s\n", line, meter_terminal() ? "\033[K" : "");
}

static void on_round(void *ctx, const rounds_report *r, uint64_t of)
{
    session *s = ctx;
    if (!s->d.log.json) {
        print_round(r, of);
        return;
    }
    log_info(&s->d.log, "round over", lf_u64("round", r->round), lf_u64("rounds", of),
             lf_bool("skipped", r->skipped), lf_bool("blocked", r->blocked),
             lf_real("seconds", r->seconds), lf_if(r->has_clients, lf_u64("clients", r->clients)),
             lf_if(r->has_clients, lf_u64("up_bytes", r->up_bytes)),
             lf_if(r->has_perplexity, lf_real("perplexity", r->perplexity)),
             lf_if(r->word_perplexity > 0, lf_real("word_perplexity", r->word_perplexity)),
             lf_if(r->has_epsilon, lf_real("epsilon_server", r->epsilon_server)),
             lf_if(r->has_epsilon, lf_real("epsilon_others", r->epsilon_others)));
}

/* On a terminal: one line that is drawn again every second. */
static void on_waiting(void *ctx, const waiting_view *v)
{
    char line[WAITING_LINE];
    (void)ctx;
    waiting_line(line, v);
    meter_line("%s", line);
    fprintf(stderr, "\r"); /* the next output overwrites this line */
}

DAEMON_CALLS(aggregator, free)

static sefl_status start(void *self, const settings *set, void **out)
{
    session *s = self;
    aggregator *role = NULL;
    sefl_log *log = &s->d.log;
    SEFL_PASS(aggregator_settings_make(&s->cfg, set));
    SEFL_PASS(daemon_confine(&s->d, set));
    confine_files(log,
                  2 * s->cfg.limits.connections + OWN_FILES); /* each may write an upload file */
    SEFL_PASS(aggregator_new(
        &role, &(aggregator_options){ .settings = &s->cfg,
                                      .log = log,
                                      .ctx = s,
                                      .bound = daemon_bound,
                                      .round = on_round,
                                      .sample = sample_file,
                                      .going = &s->d.going,
                                      .waiting = meter_terminal() ? on_waiting : NULL }));
    *out = role;
    return SEFL_OK;
}

static int run(void *self)
{
    return daemon_run(self, &cmd_aggregator, start, &aggregator_calls);
}

const cli_command cmd_aggregator = {
    .name = "aggregator",
    .about = "Serves clients over HTTPS (mutual TLS 1.3), adds their encrypted uploads, reveals "
             "each round's sum together with CSP and releases the next model. It exits with 0 when "
             "the task is over; with a folder of tasks (setting tasks) it serves one after the "
             "other. SIGTERM stops it cleanly. After SIGTERM or kill -9, a restart "
             "resumes the task. SIGHUP reloads the certificates and the log level. Every setting "
             "of the file is also an option.",
    .example = "sefl aggregator -c aggregator/aggregator.yml --csp csp.example:7001",
    DAEMON_COMMAND(aggregator_schema, daemon_options),
};
