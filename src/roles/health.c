#include "roles/health.h"

#include "base/hex.h"
#include "base/json.h"
#include "net/local_http.h"

#include <stdio.h>

sefl_status health_check(const host_port *a, const settings *s)
{
    sefl_status st = *a->host ? local_http_check(a->host) : SEFL_OK;
    return sefl_at(st, "%s: health", settings_origin(s, "health"));
}

sefl_status health_write(sefl_buf *out, unsigned *status, const health_news *n)
{
    char id[2 * TASK_ID + 1];
    json j = json_into(out);
    hex_write(id, n->task->id, TASK_ID);
    json_open(&j, '{');
    json_key(&j, "role"), json_str(&j, n->role);
    json_key(&j, "healthy"), json_bool(&j, n->healthy);
    json_key(&j, n->peer), json_bool(&j, n->peer_is_there);
    json_key(&j, "phase"), json_str(&j, n->phase);
    json_key(&j, "round"), json_u64(&j, n->round);
    json_key(&j, "rounds"), json_u64(&j, n->task->rounds);
    json_key(&j, "task"), json_str(&j, id);
    json_close(&j, '}');
    SEFL_PASS(json_end(&j));
    SEFL_PASS(wr_u8(out, '\n'));
    *status = n->healthy ? 200 : 503;
    return SEFL_OK;
}
