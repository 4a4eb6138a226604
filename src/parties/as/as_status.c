/* What the operator sees (health page, status.json) and orders (roles/control.h). */
#include "roles/aggregator/as_inside.h"

#include "roles/health.h"

#include <math.h>

static void as_status_look(aggregator *a, server_view *v)
{
    agg_why why;
    const agg_phase phase = rounds_phase(a->rounds, &v->round, NULL);
    const rounds_hold h = rounds_held(a->rounds);
    health_task(v, &a->task);
    v->phase = agg_phase_name(phase);
    v->peer_is_there = rounds_linked(a->rounds);
    v->healthy = view_yes(v->peer_is_there || phase == AGG_DONE);
    v->paused = view_yes(h.paused), v->ending = view_yes(h.ending);
    v->pausing = h.pausing;
    v->control = h.commanded;
    if (h.paused)
        v->why = h.by_csp ? "paused by CSP's operator" : "paused by its operator";
    if (rounds_over(a->rounds, &why))
        v->why = agg_why_text(why);
}

static server_view nothing(aggregator *a)
{
    server_view v = server_view_none();
    v.role = "aggregator", v.peer = "csp", v.phase = HEALTH_NO_TASK;
    v.healthy = view_yes(!a->rounds);
    v.has_queue = a->queue != NULL;
    v.queued = a->queue ? agg_queue_others(a) : 0;
    return v;
}

/* With task_lock, or on the server's threads, which end before the task does. */
server_view agg_view(aggregator *a)
{
    uint64_t away = a->rounds ? rounds_away(a->rounds) : 0;
    server_view v = nothing(a);
    if (a->rounds && away == 0) {
        as_status_look(a, &v);
        away = rounds_away(a->rounds); /* it may have waited */
    }
    pthread_mutex_lock(&a->lock);
    if (away == 0)
        a->seen = v;
    else if (a->seen.role)
        v = a->seen;
    pthread_mutex_unlock(&a->lock);
    health_away(&v, away);
    return v;
}

bool agg_view_round(aggregator *a, server_view *v)
{
    waiting_view w;
    turnout_missing m;
    if (!a->rounds || !isnan(v->database_away))
        return false;
    v->open = rounds_waiting(a->rounds, &w);
    if (w.round == 0)
        return false;
    v->round = w.round;
    v->arrived = w.arrived;
    v->most = a->task.clients_max;
    v->closes_at = w.enough, v->extensions = w.extensions;
    v->sites = agg_missing(a, v->open ? w.round : 0, &m);
    v->collects = v->sites && v->open;
    v->waits = m.waits, v->left = m.left;
    if (v->open)
        v->deadline_at = floor((double)w.deadline_ms / 1000);
    return true;
}

static sefl_status write_health(aggregator *a, sefl_buf *body, unsigned *status)
{
    server_view v = agg_view(a);
    (void)agg_view_round(a, &v);
    pthread_mutex_lock(&a->lock);
    v.latest = a->last, v.measured = a->measured;
    pthread_mutex_unlock(&a->lock);
    return health_write(body, status, &v);
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
