#include "roles/health.h"

#include "base/json.h"

sefl_status health_check(const host_port *a, const settings *s)
{
    sefl_status st = *a->host ? local_http_check(a->host) : SEFL_OK;
    return sefl_at(st, "%s: health", settings_origin(s, "health"));
}

sefl_status health_start(local_http **out, const host_port *a, const local_page *pages,
                         size_t pages_n, void *ctx, sefl_log *log)
{
    *out = NULL;
    if (!*a->host)
        return SEFL_OK;
    return local_http_start(out, &(local_http_config){ .address = a->host,
                                                       .port = a->port,
                                                       .pages = pages,
                                                       .pages_n = pages_n,
                                                       .ctx = ctx,
                                                       .log = log });
}

sefl_status health_write(sefl_buf *out, unsigned *status, const health_news *n)
{
    json j = json_into(out);
    json_open(&j, '{');
    json_fields(&j, lf_str("role", n->role), lf_bool("healthy", n->healthy),
                lf_bool(n->peer, n->peer_is_there), lf_str("phase", n->phase),
                lf_u64("round", n->round), lf_u64("rounds", n->task ? n->task->rounds : 0),
                n->task ? lf_key("task", n->task->id) : lf_str("task", ""));
    json_close(&j, '}');
    SEFL_PASS(json_end(&j));
    SEFL_PASS(wr_u8(out, '\n'));
    *status = n->healthy ? 200 : 503;
    return SEFL_OK;
}
