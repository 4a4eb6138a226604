#include "roles/health.h"

#include "base/json.h"
#include "protocol/http.h"

sefl_status health_check(const host_port *a, const settings *s)
{
    sefl_status st = *a->host ? local_http_check(a->host) : SEFL_OK;
    return sefl_at(st, "%s: health", settings_origin(s, "health"));
}

sefl_status health_start(local_http **out, const host_port *a, local_page *make, void *ctx,
                         sefl_log *log)
{
    *out = NULL;
    if (!*a->host)
        return SEFL_OK;
    return local_http_start(out, &(local_http_config){ .address = a->host,
                                                       .port = a->port,
                                                       .path = HTTP_HEALTH_PATH,
                                                       .make = make,
                                                       .ctx = ctx,
                                                       .log = log });
}

/* The task's state beyond its phase. */
static void write_task(json *j, const health_news *n)
{
    const task *t = n->task;
    const waiting_view *v = n->open;
    json_fields(j, lf_str("name", t->name), lf_bool("paused", n->paused),
                lf_if(n->pausing, lf_bool("pausing", true)),
                lf_if(n->ending, lf_bool("ending", true)),
                lf_if(n->why != NULL, lf_str("why", n->why)),
                lf_if(t->claim, lf_real("epsilon_target", t->epsilon)));
    if (v)
        json_fields(j, lf_if(t->publish_count, lf_u64("arrived", v->arrived)),
                    lf_u64("need", v->needed), lf_u64("most", t->clients_max),
                    lf_u64("extensions", v->extensions), lf_u64("deadline_at", n->deadline_s));
}

static void write_last(json *j, const rounds_report *r)
{
    json_fields(j, lf_u64("last_round", r->round),
                lf_str("last_outcome", r->skipped   ? "skipped"
                                       : r->blocked ? "blocked"
                                                    : "released"),
                lf_if(r->has_perplexity, lf_real("perplexity", r->perplexity)),
                lf_if(r->has_epsilon, lf_real("epsilon_server", r->epsilon_server)),
                lf_if(r->has_epsilon, lf_real("epsilon_others", r->epsilon_others)));
}

sefl_status health_write(sefl_buf *out, unsigned *status, const health_news *n)
{
    json j = json_into(out);
    json_open(&j, '{');
    json_fields(&j, lf_str("role", n->role), lf_bool("healthy", n->healthy),
                lf_bool(n->peer, n->peer_is_there), lf_str("phase", n->phase),
                lf_u64("round", n->round), lf_u64("rounds", n->task ? n->task->rounds : 0),
                n->task ? lf_key("task", n->task->id) : lf_str("task", ""));
    if (n->task)
        write_task(&j, n);
    if (n->last && n->last->round > 0)
        write_last(&j, n->last);
    json_fields(&j, lf_if(n->has_queue, lf_u64("queued", n->queued)),
                lf_if(n->control != 0, lf_u64("control", n->control)));
    json_close(&j, '}');
    SEFL_PASS(json_end(&j));
    SEFL_PASS(wr_u8(out, '\n'));
    *status = n->healthy ? 200 : 503;
    return SEFL_OK;
}
