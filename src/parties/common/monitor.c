#include "roles/monitor.h"

#include "base/file.h"
#include "base/hex.h"
#include "metrics/metrics.h"
#include "protocol/modes/mode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const prom_def defs[MONITORS] = {
#define DEF(id, name, type, labels, servers, kind, help) { name, PROM_##type, help },
    MONITOR_LIST(DEF)
#undef DEF
};

static const char *const step_names[] = {
#define NAME(id, label, kind) label,
    MONITOR_STEP_LIST(NAME)
#undef NAME
};

static const char *const outcome_names[] = { MONITOR_OUTCOME_LIST(SEFL_TEXT) };

void monitor_init(monitor *m, const sefl_clock *wall)
{
    m->started_ms = clock_ms(wall);
    m->epsilon_server = m->epsilon_others = m->perplexity = m->clip = (double)NAN;
}

void monitor_spent(monitor *m, account *a, const task *t)
{
    ledger_total total;
    bool claimed = t->claim && account_spent(a, t->delta, &total) == SEFL_OK &&
                   total.server.claimed && total.others.claimed;
    atomic_store(&m->epsilon_server, claimed ? total.server.epsilon : (double)NAN);
    atomic_store(&m->epsilon_others, claimed ? total.others.epsilon : (double)NAN);
}

void monitor_task(monitor *m, account *a, const task *t)
{
    atomic_store(&m->perplexity, (double)NAN);
    atomic_store(&m->clip, (double)NAN);
    monitor_spent(m, a, t);
}

void monitor_round(monitor *m, monitor_outcome o)
{
    atomic_fetch_add(&m->rounds[o], 1);
}

void monitor_step(monitor *m, monitor_step_id s, uint64_t ns)
{
    prom_histogram_add(&m->step[s], ns);
}

/* ---- the page -------------------------------------------------------------------------------- */

void monitor_family(prom *p, monitor_id id)
{
    prom_family(p, &defs[id]);
}

void monitor_one(prom *p, monitor_id id, double v)
{
    monitor_family(p, id);
    prom_real(p, PROM_NO_LABELS, v);
}

void monitor_count(prom *p, monitor_id id, uint64_t v)
{
    monitor_family(p, id);
    prom_u64(p, PROM_NO_LABELS, v);
}

void monitor_sample(prom *p, const char *label, const char *value, uint64_t v)
{
    char word[80];
    snprintf(word, sizeof word, "%s", value);
    for (char *c = word; *c; c++)
        if (*c == ' ')
            *c = '_';
    prom_u64(p, PROM_LABELS({ label, word }), v);
}

void monitor_peers(prom *p, const _Atomic uint64_t certificates[X509_VERDICTS])
{
    monitor_family(p, MONITOR_CERTIFICATES);
    for (unsigned i = X509_OK + 1; i < X509_VERDICTS; i++)
        monitor_sample(p, "reason", x509_verdict_text(i), atomic_load(&certificates[i]));
}

/* The second number of /proc/self/statm is the resident pages. */
static void write_memory(prom *p)
{
    sefl_buf b = { 0 };
    monitor_family(p, MONITOR_MEMORY);
    if (file_read(&b, "/proc/self/statm", 4096) == SEFL_OK && wr_u8(&b, 0) == SEFL_OK) {
        char *end;
        (void)strtoull((const char *)b.p, &end, 10);
        prom_u64(p, PROM_NO_LABELS, strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE));
    }
    buf_clear(&b);
}

static void write_process(prom *p, const monitor *m)
{
    struct timespec cpu = { 0 };
    int64_t ends = atomic_load(&m->cert_ends);
    monitor_one(p, MONITOR_START, 1e-3 * (double)m->started_ms);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    monitor_one(p, MONITOR_CPU, (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec);
    write_memory(p);
    monitor_family(p, MONITOR_CERTIFICATE);
    if (ends > 0)
        prom_u64(p, PROM_NO_LABELS, (uint64_t)ends);
}

static void write_task(prom *p, const run_facts *f)
{
    monitor_family(p, MONITOR_TASK);
    if (f->known)
        prom_u64(p,
                 PROM_LABELS({ "task", f->task }, { "name", f->name }, { "noise", f->noise },
                             { "z", f->z }, { "unit", f->unit }),
                 1);
}

/* Writes a family with the number, unless that is NAN. */
static void write_known(prom *p, monitor_id id, double v)
{
    monitor_family(p, id);
    if (!isnan(v))
        prom_real(p, PROM_NO_LABELS, v);
}

static void write_privacy(prom *p, const monitor *m, const server_view *v)
{
    double server = atomic_load(&m->epsilon_server), others = atomic_load(&m->epsilon_others);
    const bool claims = v->claimed == VIEW_YES;
    monitor_family(p, MONITOR_EPSILON);
    if (claims && !isnan(server)) {
        prom_real(p, PROM_LABELS({ "against", "server" }), server);
        prom_real(p, PROM_LABELS({ "against", "others" }), others);
    }
    write_known(p, MONITOR_TARGET, claims ? v->epsilon_target : (double)NAN);
    write_known(p, MONITOR_DELTA, claims ? v->delta : (double)NAN);
}

static void write_rounds(prom *p, const monitor *m, const monitor_view *v)
{
    const server_view *s = v->server;
    monitor_count(p, MONITOR_ROUND, s->round);
    monitor_count(p, MONITOR_ROUNDS_OF, s->facts.known ? (uint64_t)s->facts.rounds : 0);
    monitor_family(p, MONITOR_ROUNDS);
    for (size_t i = 0; i < v->outcomes_n; i++)
        monitor_sample(p, "outcome", outcome_names[v->outcomes[i]],
                       atomic_load(&m->rounds[v->outcomes[i]]));
    monitor_family(p, MONITOR_STEPS);
    for (size_t i = 0; i < v->steps_n; i++)
        prom_histogram_write(p, PROM_LABELS({ "step", step_names[v->steps[i]] }),
                             &m->step[v->steps[i]]);
}

void monitor_common(prom *p, const monitor *m, const monitor_view *v)
{
    const server_view *s = v->server;
    monitor_family(p, MONITOR_BUILD);
    prom_u64(p, PROM_LABELS({ "role", s->role }, { "version", METRICS_VERSION }), 1);
    write_process(p, m);
    monitor_count(p, MONITOR_HEALTHY, s->healthy == VIEW_YES);
    const sefl_clock wall = clock_wall();
    const uint64_t now = clock_ms(&wall) / 1000,
                   away = isnan(s->database_away) ? 0 : (uint64_t)s->database_away;
    monitor_count(p, MONITOR_DATABASE, away == 0 ? 0 : now > away ? now - away : 1);
    monitor_family(p, MONITOR_PEER);
    monitor_sample(p, "peer", s->peer, s->peer_is_there);
    monitor_family(p, MONITOR_PHASE);
    monitor_sample(p, "phase", s->phase, 1);
    write_task(p, &s->facts);
    monitor_count(p, MONITOR_TASKS_WAITING, s->queued);
    write_rounds(p, m, v);
    write_privacy(p, m, s);
    monitor_count(p, MONITOR_SHARES, v->shares ? shares_pool_have(v->shares) : 0);
    monitor_count(p, MONITOR_SHARES_ROUND, (uint64_t)s->values);
}
