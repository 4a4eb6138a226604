#include "roles/aggregator/metrics.h"

#include "report/run_log.h"

static run_line line_of(const rounds_report *r)
{
    run_line l = run_line_of(r->round);
    l.skipped = r->skipped;
    l.blocked = r->blocked;
    l.seconds = r->seconds;
    if (r->has_clients) {
        l.clients = r->clients;
        l.up_bytes = (double)r->up_bytes;
        if (r->refused > 0)
            l.refused = r->refused;
    }
    if (!r->skipped) {
        l.ahead_seconds = r->ahead_seconds;
        l.ahead_bytes = (double)r->ahead_bytes;
        l.open_bytes = (double)r->open_bytes;
        l.open_seconds = r->open_seconds;
        l.release_seconds = r->release_seconds;
    }
    if (r->has_perplexity)
        l.perplexity = r->perplexity;
    if (r->word_perplexity > 0)
        l.word_perplexity = r->word_perplexity;
    if (r->has_epsilon) {
        l.epsilon_server = r->epsilon_server;
        l.epsilon_others = r->epsilon_others;
        l.epsilon_target = r->epsilon_target;
    }
    return l;
}

sefl_status metrics_append(const char *path, const rounds_report *r)
{
    run_line l = line_of(r);
    uint64_t bytes;
    return run_log_append(&bytes, path, &l);
}
