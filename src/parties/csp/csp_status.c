/* What CSP's operator sees (health page, status.json) and orders (roles/control.h).
 *
 * CSP's operator decides only about rounds to come. While the task is paused, CSP refuses the key
 * and the header of the next round; a round whose header it has signed goes on, because AS may
 * have charged it already. After `end` CSP never signs another header of this task. Facts in the
 * journal keep both, so a lost or refused order file does not resume a task. An order to resume
 * that comes while CSP runs also confirms its clock (csp_confirm_clock). */
#include "roles/csp/csp_inside.h"

#include "roles/health.h"

#include <string.h>

/* Facts of the task: its operator has ended it; has paused it ("1") or resumed it ("0"). */
static const char ended[] = "ended", paused[] = "paused";

/* `end` is final. */
static sefl_status obey(csp_role *r, const control_order *o)
{
    csp_hold before = atomic_load(&r->hold);
    csp_hold now = o->word == CONTROL_END     ? CSP_ENDED
                   : o->word == CONTROL_PAUSE ? CSP_PAUSED
                   : o->word == CONTROL_CLOSE ? before /* AS closes rounds */
                                              : CSP_GOES_ON;
    if (before != CSP_ENDED && now == CSP_ENDED)
        SEFL_PASS(journal_fact_put(r->journal, 0, ended, span_of("1", 1)));
    else if (before != CSP_ENDED && now != before)
        SEFL_PASS(
            journal_fact_put(r->journal, 0, paused, span_of(now == CSP_PAUSED ? "1" : "0", 1)));
    if (before != CSP_ENDED)
        atomic_store(&r->hold, now);
    atomic_store(&r->commanded, o->id);
    return SEFL_OK;
}

/* An order that came while CSP did not run counts before AS's first question. */
sefl_status csp_status_restore(csp_role *r)
{
    bool is;
    char is_paused = '0';
    control_order o;
    SEFL_PASS(journal_fact_has(r->journal, 0, ended, &is));
    sefl_status st = journal_fact_fixed(r->journal, 0, paused, &is_paused, 1);
    SEFL_PASS(st == SEFL_ENOTFOUND ? SEFL_OK : st);
    atomic_store(&r->hold, is ? CSP_ENDED : is_paused != '0' ? CSP_PAUSED : CSP_GOES_ON);
    atomic_store(&r->commanded, 0);
    if (control_read(r->control.state, &o) != SEFL_OK || memcmp(o.task, r->task.id, TASK_ID) != 0)
        return SEFL_OK; /* csp_status_look logs why it is refused */
    return obey(r, &o);
}

void csp_status_look(csp_role *r)
{
    static const char *const said[] = {
        [CONTROL_PAUSE] = "paused by the operator: no other round begins",
        [CONTROL_RESUME] = "resumed by the operator",
        [CONTROL_END] = "ended by the operator: no other round begins",
        [CONTROL_CLOSE] = "AS's operator closes rounds: the order to close one changes nothing",
    };
    control_order o;
    if (!r->csp || !control_look(&r->control, r->task.id, &o, r->o.log))
        return;
    const bool fresh = o.id != atomic_load(&r->commanded); /* not from before the start */
    if (obey(r, &o) == SEFL_OK) {
        if (fresh && o.word == CONTROL_RESUME)
            csp_confirm_clock(r->csp);
        log_info(r->o.log,
                 o.word != CONTROL_END && atomic_load(&r->hold) == CSP_ENDED
                     ? "the operator has ended this task: a later order changes nothing"
                     : said[o.word],
                 lf_hash("task", r->task.id));
    } else {
        control_forget(&r->control); /* tries again */
        log_error(r->o.log, "the operator's order is not stored", lf_str("why", sefl_last_error()));
    }
}

static uint64_t queued(csp_role *r)
{
    uint64_t n = 0;
    task_entry e;
    for (size_t i = 0; r->queue && task_queue_at(r->queue, i, &e); i++)
        n += !r->csp || memcmp(e.id, r->task.id, sizeof e.id) != 0;
    return n;
}

static server_view nothing(csp_role *r)
{
    server_view v = server_view_none();
    v.role = "csp", v.peer = "aggregator", v.phase = HEALTH_NO_TASK, v.healthy = VIEW_YES;
    v.queued = queued(r);
    return v;
}

static sefl_status csp_status_look_one(csp_role *r, server_view *v)
{
    journal_round last = { 0 };
    bool over = false;
    sefl_status st = journal_round_last(r->journal, &last);
    SEFL_PASS(st == SEFL_ENOTFOUND ? SEFL_OK : st);
    const csp_hold hold = atomic_load(&r->hold);
    health_task(v, &r->task);
    v->round = last.round;
    v->phase = last.round == 0 ? "waiting" : csp_state_name(last.state);
    if (journal_fact_has(r->journal, 0, "over", &over) == SEFL_OK && over)
        v->phase = "done";
    v->paused = view_yes(hold == CSP_PAUSED && !over);
    v->ending = view_yes(hold == CSP_ENDED && !over);
    v->trouble = csp_is_unsure(r->csp) ? CSP_UNSURE : NULL;
    v->healthy = view_yes(!v->trouble);
    v->why = v->trouble              ? v->trouble
             : hold == CSP_ENDED     ? "ended by its operator"
             : v->paused == VIEW_YES ? "paused by its operator"
                                     : NULL;
    v->control = atomic_load(&r->commanded);
    return SEFL_OK;
}

sefl_status csp_view(csp_role *r, server_view *out)
{
    uint64_t away = csp_away(r);
    server_view v = nothing(r);
    if (r->csp && away == 0) {
        sefl_status st = csp_status_look_one(r, &v);
        away = csp_away(r); /* it may have waited */
        SEFL_PASS(away == 0 ? st : SEFL_OK);
    }
    pthread_mutex_lock(&r->seen_lock);
    if (away == 0)
        r->seen = v;
    else if (r->seen.role)
        v = r->seen;
    pthread_mutex_unlock(&r->seen_lock);
    v.peer_is_there = !atomic_load(&r->served);
    health_away(&v, away);
    *out = v;
    return SEFL_OK;
}

static sefl_status write_health(csp_role *r, sefl_buf *body, unsigned *status)
{
    server_view v;
    SEFL_PASS(csp_view(r, &v));
    return health_write(body, status, &v);
}

void csp_status_save(csp_role *r)
{
    sefl_buf b = { 0 };
    unsigned status;
    if (write_health(r, &b, &status) == SEFL_OK)
        control_status(&r->control, buf_span(&b), r->o.log);
    buf_clear(&b);
}

sefl_status csp_status_page(void *ctx, sefl_buf *body, unsigned *status)
{
    csp_role *r = ctx;
    pthread_mutex_lock(&r->task_lock);
    sefl_status st = write_health(r, body, status);
    pthread_mutex_unlock(&r->task_lock);
    return st;
}
