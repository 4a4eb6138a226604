/* AS's page for Prometheus (roles/monitor.h). */
#include "roles/aggregator/as_inside.h"

#include <math.h>
#include <string.h>

static const monitor_outcome outcomes[] = { MONITOR_RELEASED, MONITOR_SKIPPED, MONITOR_BLOCKED };

/* All steps of AS; the last STEPS_COUNTS depend on the number of updates. */
static const monitor_step_id steps[] = {
    MONITOR_STEP_ROUND,  MONITOR_STEP_COLLECT, MONITOR_STEP_CHARGE, MONITOR_STEP_REVEAL,
    MONITOR_STEP_STORE,  MONITOR_STEP_RELEASE, MONITOR_STEP_EVAL,   MONITOR_STEP_NOISE,
    MONITOR_STEP_FREEZE, MONITOR_STEP_SET,     MONITOR_STEP_SUM,
};
enum { STEPS_N = sizeof steps / sizeof *steps, STEPS_COUNTS = 3 };

static void add_seconds(monitor *m, monitor_step_id s, double seconds)
{
    prom_histogram_add_seconds(&m->step[s], seconds);
}

/* Adds the steps of a released or blocked round. A part that took no time did not run. */
static void add_steps(monitor *m, const rounds_report *r)
{
    const round_parts *p = &r->parts;
    const struct {
        monitor_step_id step;
        uint64_t ns;
        bool shown;
    } part[] = {
        { MONITOR_STEP_FREEZE, p->freeze, r->has_clients },
        { MONITOR_STEP_SET, p->set, r->has_clients },
        { MONITOR_STEP_SUM, p->sum, r->has_clients },
        { MONITOR_STEP_CHARGE, p->charge, true },
        { MONITOR_STEP_REVEAL, p->reveal, true },
        { MONITOR_STEP_STORE, p->store, true },
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (part[i].shown && part[i].ns > 0)
            monitor_step(m, part[i].step, part[i].ns);
    add_seconds(m, MONITOR_STEP_COLLECT, r->seconds - r->open_seconds - r->release_seconds);
    add_seconds(m, MONITOR_STEP_RELEASE, r->release_seconds - r->eval_seconds);
    if (r->eval_seconds > 0)
        add_seconds(m, MONITOR_STEP_EVAL, r->eval_seconds);
    if (r->ahead_seconds > 0)
        add_seconds(m, MONITOR_STEP_NOISE, r->ahead_seconds);
}

void agg_monitor_round(monitor *m, const rounds_report *r)
{
    monitor_round(m, r->skipped   ? MONITOR_SKIPPED
                     : r->blocked ? MONITOR_BLOCKED
                                  : MONITOR_RELEASED);
    add_seconds(m, MONITOR_STEP_ROUND, r->seconds);
    if (!r->skipped)
        add_steps(m, r);
    atomic_fetch_add(&m->noise_bytes, r->ahead_bytes);
    atomic_fetch_add(&m->reveal_bytes, r->open_bytes);
    if (r->has_clients && !r->skipped) {
        atomic_fetch_add(&m->counted, r->clients);
        atomic_fetch_add(&m->by_csp, r->refused);
    }
    if (r->has_epsilon) {
        atomic_store(&m->epsilon_server, r->epsilon_server);
        atomic_store(&m->epsilon_others, r->epsilon_others);
    }
    if (r->has_perplexity)
        atomic_store(&m->perplexity, r->perplexity);
    if (r->clip > 0)
        atomic_store(&m->clip, r->clip);
}

/* ---- the page -------------------------------------------------------------------------------- */

/* True for the events of uploads, which show that clients take part. */
static bool of_uploads(https_event e)
{
    return e == HTTPS_EVENT_PEER_BYTES || e == HTTPS_EVENT_BODY_SLOW || e == HTTPS_EVENT_BODY_CUT;
}

/* Writes the counters of as_http.h whose name begins with this prefix, without it. */
static void write_events(prom *p, const agg_http *h, monitor_id id, const char *label,
                         const char *prefix)
{
    monitor_family(p, id);
    for (unsigned i = 0; i < AGG_HTTP_EVENTS_N; i++)
        if (strncmp(agg_http_event_name(i), prefix, strlen(prefix)) == 0)
            monitor_sample(p, label, agg_http_event_name(i) + strlen(prefix),
                           atomic_load(&h->counts[i]));
}

static void write_refused(prom *p, const aggregator *a, bool counts)
{
    static const agg_http_event refused[] = { AGG_HTTP_VERSION, AGG_HTTP_NO_PATH, AGG_HTTP_METHOD,
                                              AGG_HTTP_NUMBERS, AGG_HTTP_FAILED };
    monitor_family(p, MONITOR_REFUSED);
    for (unsigned i = HTTPS_EVENT_FULL; a->server && i < HTTPS_EVENTS_N; i++)
        if (counts || !of_uploads(i))
            monitor_sample(p, "reason", https_event_name(i), https_server_count(a->server, i));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        monitor_sample(p, "reason", agg_http_event_name(refused[i]),
                       atomic_load(&a->http.counts[refused[i]]));
}

/* The rounds may be asked: they do not wait for a database. */
static bool may_ask(const aggregator *a)
{
    return a->rounds && rounds_away(a->rounds) == 0;
}

/* What a reader may see of any task. */
static void write_open(prom *p, aggregator *a, bool counts)
{
    const task *t = a->has_task ? &a->task : NULL;
    waiting_view w;
    double perplexity = atomic_load(&a->monitor.perplexity), clip = atomic_load(&a->monitor.clip);
    monitor_peers(p, a->http.certificates);
    write_events(p, &a->http, MONITOR_ENROLMENTS, "outcome", "enrol.");
    write_events(p, &a->http, MONITOR_TRUST, "reason", "trust_list_");
    monitor_family(p, MONITOR_PERPLEXITY);
    if (!isnan(perplexity))
        prom_real(p, PROM_NO_LABELS, perplexity);
    monitor_family(p, MONITOR_CLIP);
    if (!isnan(clip))
        prom_real(p, PROM_NO_LABELS, clip);
    monitor_count(p, MONITOR_ENROLLED, t ? t->enrolled : 0);
    monitor_count(p, MONITOR_NEEDED, t ? t->threshold : 0);
    monitor_family(p, MONITOR_DEADLINE);
    if (may_ask(a) && rounds_waiting(a->rounds, &w))
        prom_real(p, PROM_NO_LABELS, 1e-3 * (double)w.left_ms);
    write_refused(p, a, counts);
    monitor_family(p, MONITOR_BYTES);
    monitor_sample(p, "part", "noise", atomic_load(&a->monitor.noise_bytes));
    monitor_sample(p, "part", "reveal", atomic_load(&a->monitor.reveal_bytes));
    if (counts) {
        monitor_sample(p, "part", "uploads", a->ingest ? ingest_bytes(a->ingest) : 0);
        monitor_sample(p, "part", "answers", a->server ? https_server_sent(a->server) : 0);
    }
}

static void write_uploads(prom *p, const ingest *in)
{
    monitor_family(p, MONITOR_UPLOADS);
    for (unsigned i = 0; i < INGEST_ENDS; i++)
        monitor_sample(p, "outcome", ingest_end_name(i), in ? ingest_count(in, i) : 0);
    monitor_family(p, MONITOR_UPLOAD_TIME);
    if (in)
        prom_histogram_write(p, PROM_NO_LABELS, ingest_times(in));
}

/* The metrics of the kind COUNTS. */
static void write_counts(prom *p, const aggregator *a, const rounds_queues *q)
{
    uint32_t arrived = 0;
    uint64_t round;
    if (may_ask(a))
        (void)rounds_phase(a->rounds, &round, &arrived);
    monitor_count(p, MONITOR_ARRIVED, arrived);
    monitor_count(p, MONITOR_COUNTED, atomic_load(&a->monitor.counted));
    monitor_count(p, MONITOR_BY_CSP, atomic_load(&a->monitor.by_csp));
    write_uploads(p, a->ingest);
    monitor_count(p, MONITOR_UPLOADS_OPEN, a->ingest ? ingest_open(a->ingest) : 0);
    monitor_count(p, MONITOR_UNSUMMED, q->unsummed);
    monitor_count(p, MONITOR_ROOMS, q->rooms);
    monitor_count(p, MONITOR_ROOMS_MOST, q->rooms_most);
    monitor_count(p, MONITOR_REQUESTS_WAITING, q->requests);
    write_events(p, &a->http, MONITOR_VOUCHERS, "outcome", "voucher.");
    const uint64_t seen = a->server ? https_server_count(a->server, HTTPS_EVENT_CONNECTED) : 0;
    monitor_count(p, MONITOR_CONNECTIONS, seen);
    const uint64_t asked = a->server ? https_server_count(a->server, HTTPS_EVENT_REQUESTS) : 0;
    monitor_count(p, MONITOR_REQUESTS, asked);
    monitor_count(p, MONITOR_OLDER, atomic_load(&a->http.counts[AGG_HTTP_OLDER]));
}

sefl_status agg_monitor_page(void *ctx, sefl_buf *body, unsigned *status)
{
    aggregator *a = ctx;
    prom p = prom_into(body);
    rounds_queues q = { 0 };
    (void)status;
    pthread_mutex_lock(&a->task_lock);
    const server_view v = agg_view(a);
    const bool counts = !a->counts_hidden && (!a->has_task || a->task.publish_count);
    if (may_ask(a))
        q = rounds_queues_of(a->rounds);
    monitor_common(&p, &a->monitor,
                   &(monitor_view){ .server = &v,
                                    .outcomes = outcomes,
                                    .outcomes_n = sizeof outcomes / sizeof *outcomes,
                                    .steps = steps,
                                    .steps_n = STEPS_N - (counts ? 0 : STEPS_COUNTS),
                                    .shares = a->shares });
    write_open(&p, a, counts);
    if (counts)
        write_counts(&p, a, &q);
    pthread_mutex_unlock(&a->task_lock);
    return prom_end(&p);
}
