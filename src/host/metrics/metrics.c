#include "metrics/metrics.h"

#include "base/clock.h"
#include "base/hex.h"
#include "protocol/modes/mode.h"

#include <math.h>
#include <stdio.h>

run_facts metrics_facts(const task *t)
{
    run_facts f = run_facts_none();
    hex_write(f.task, t->id, sizeof t->id);
    if (t->has_valid)
        hex_write(f.text, t->valid_hash, sizeof t->valid_hash);
    snprintf(f.name, sizeof f.name, "%s", t->name);
    snprintf(f.version, sizeof f.version, "%s", METRICS_VERSION);
    snprintf(f.protection, sizeof f.protection, "sefl");
    snprintf(f.noise, sizeof f.noise, "%s", task_mode(t)->name);
    release_mode_text(f.mode, task_mode(t), task_is_sealed(t));
    snprintf(f.z, sizeof f.z, "%s", task_mode(t)->noisy ? t->z : "0");
    dp_filter_text(f.filter, &t->filter);
    snprintf(f.unit, sizeof f.unit, "%s", task_unit_name(t->unit));
    f.rounds = (double)t->rounds;
    f.enrolled = t->enrolled;
    if (t->claim)
        f.delta = t->delta;
    /* a draw, a limit or turns decide who takes part: a missing client is not lost */
    if (t->sampling == TASK_ALL && t->max_rounds_per_client == 0 && t->separation <= 1)
        f.expected = t->enough > 0 ? t->enough : t->enrolled;
    return f;
}

double metrics_time(void)
{
    sefl_clock c = clock_wall();
    return floor(1e-9 * (double)clock_ns(&c));
}

run_line metrics_line(const rounds_report *r)
{
    run_line l = run_line_of(r->round);
    l.skipped = r->skipped;
    l.blocked = r->blocked;
    l.dropped_by_operator = r->dropped;
    l.seconds = r->seconds;
    l.time = metrics_time();
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
    if (r->clip > 0)
        l.clip = r->clip;
    if (r->has_epsilon) {
        l.epsilon_server = r->epsilon_server;
        l.epsilon_others = r->epsilon_others;
        l.epsilon_target = r->epsilon_target;
    }
    return l;
}

sefl_status metrics_append(const char *path, const rounds_report *r, const task *t)
{
    run_line l = metrics_line(r);
    run_facts f = metrics_facts(t);
    uint64_t bytes;
    return run_log_append(&bytes, path, &l, &f);
}
