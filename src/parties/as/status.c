/* What the operator sees (health page, status.json) and orders (roles/control.h). */
#include "roles/aggregator/inside.h"

#include "roles/health.h"

static health_news look(aggregator *a)
{
    health_news n = { .role = "aggregator", .peer = "csp", .phase = HEALTH_NO_TASK };
    agg_why why;
    n.healthy = !a->rounds;
    if (a->rounds) {
        agg_phase phase = rounds_phase(a->rounds, &n.round, NULL);
        const rounds_hold h = rounds_held(a->rounds);
        n.task = &a->task;
        n.phase = agg_phase_name(phase);
        n.peer_is_there = rounds_linked(a->rounds);
        n.healthy = n.peer_is_there || phase == AGG_DONE;
        n.paused = h.paused, n.pausing = h.pausing, n.ending = h.ending;
        n.deadline_s = h.deadline_ms / 1000;
        n.control = h.commanded;
        if (h.paused)
            n.why = h.by_csp ? "paused by CSP's operator" : "paused by its operator";
        if (rounds_over(a->rounds, &why))
            n.why = agg_why_text(why);
    }
    if (a->queue)
        n.has_queue = true, n.queued = agg_queue_others(a);
    return n;
}

/* With task_lock, or on the server's threads, which end before the task does. */
health_news agg_health(aggregator *a)
{
    uint64_t away = a->rounds ? rounds_away(a->rounds) : 0;
    health_news n;
    if (away == 0) {
        n = look(a);
        away = a->rounds ? rounds_away(a->rounds) : 0; /* it may have waited */
    }
    pthread_mutex_lock(&a->lock);
    if (away == 0)
        a->seen = n;
    n = a->seen;
    pthread_mutex_unlock(&a->lock);
    n.role = "aggregator", n.peer = "csp";
    n.phase = n.phase ? n.phase : HEALTH_NO_TASK;
    n.database_away = away;
    n.healthy = n.healthy && away == 0;
    return n;
}

static sefl_status write_health(aggregator *a, sefl_buf *body, unsigned *status)
{
    health_news n = agg_health(a);
    waiting_view v;
    pthread_mutex_lock(&a->lock);
    const rounds_report last = a->last, measured = a->measured;
    pthread_mutex_unlock(&a->lock);
    n.last = &last;
    n.measured = &measured;
    if (a->rounds && n.database_away == 0 && agg_waiting(a, &v))
        n.open = &v;
    return health_write(body, status, &n);
}

void agg_status_look(aggregator *a)
{
    static const agg_event_kind events[] = {
        [CONTROL_PAUSE] = AGG_PAUSE,
        [CONTROL_RESUME] = AGG_RESUME,
        [CONTROL_END] = AGG_STOP,
        [CONTROL_CLOSE] = AGG_CLOSE,
    };
    control_order o;
    if (a->rounds && control_look(&a->control, a->task.id, &o, a->o.log))
        rounds_command(
            a->rounds,
            &(as_command){ .id = o.id, .event = events[o.word], .round = o.round, .now = o.now });
}

void agg_status_save(aggregator *a)
{
    sefl_buf b = { 0 };
    unsigned status;
    if (*a->control.state && write_health(a, &b, &status) == SEFL_OK)
        control_status(&a->control, buf_span(&b), a->o.log);
    buf_clear(&b);
}

sefl_status agg_status_page(void *ctx, sefl_buf *body, unsigned *status)
{
    aggregator *a = ctx;
    pthread_mutex_lock(&a->task_lock);
    sefl_status st = write_health(a, body, status);
    pthread_mutex_unlock(&a->task_lock);
    return st;
}
