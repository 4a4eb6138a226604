#include "roles/health.h"

#include "base/json.h"
#include "base/json_read.h"
#include "metrics/metrics.h"
#include "protocol/modes/mode.h"
#include "sum/agg.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

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

void health_task(server_view *v, const task *t)
{
    v->facts = metrics_facts(t);
    v->facts.known = true;
    v->need = t->threshold;
    v->values = task_mode(t)->shares ? (double)t->values : 0;
    v->shows_count = t->publish_count;
    v->hides_count = !agg_may_close(t);
    v->claimed = view_yes(t->claim);
    v->delta = v->facts.delta;
    v->epsilon_target = t->claim ? t->epsilon : (double)NAN;
}

void health_away(server_view *v, uint64_t since)
{
    if (since == 0)
        return;
    v->database_away = (double)since;
    v->healthy = VIEW_NO;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A whole number that may be unknown (NAN); json_real may write 4e+02. */
static log_field whole(const char *key, double v)
{
    return lf_if(!isnan(v), lf_u64(key, isnan(v) ? 0 : (uint64_t)v));
}

/* The task's state beyond its phase. */
static void write_task(json *j, const server_view *v)
{
    json_fields(j, lf_str("name", v->facts.name), lf_bool("paused", v->paused == VIEW_YES),
                lf_if(v->pausing, lf_bool("pausing", true)),
                lf_if(v->ending == VIEW_YES, lf_bool("ending", true)),
                lf_if(v->why != NULL, lf_str("why", v->why)),
                lf_if(v->hides_count, lf_bool("hides_count", true)),
                lf_if(v->claimed == VIEW_YES, lf_real("epsilon_target", v->epsilon_target)));
    if (v->open)
        json_fields(j, lf_if(v->shows_count, whole("arrived", v->arrived)), whole("need", v->need),
                    whole("most", v->most), whole("closes_at", v->closes_at),
                    lf_if(v->shows_count, lf_u64("waits_for", v->waits.all)),
                    lf_u64("left_out", v->left.all), whole("extensions", v->extensions),
                    whole("deadline_at", v->deadline_at));
}

static void write_latest(json *j, const run_line *l, const run_line *measured)
{
    const bool has = measured->round > 0, spent = !isnan(l->epsilon_server);
    json_fields(j, lf_u64("last_round", l->round),
                lf_str("last_outcome", l->dropped_by_operator ? "dropped"
                                       : l->skipped           ? "skipped"
                                       : l->blocked           ? "blocked"
                                                              : "released"),
                lf_if(has, lf_real("perplexity", measured->perplexity)),
                lf_if(has, lf_u64("perplexity_round", measured->round)),
                lf_if(spent, lf_real("epsilon_server", l->epsilon_server)),
                lf_if(spent, lf_real("epsilon_others", l->epsilon_others)));
}

sefl_status health_write(sefl_buf *out, unsigned *status, const server_view *v)
{
    const bool healthy = v->healthy == VIEW_YES;
    json j = json_into(out);
    json_open(&j, '{');
    json_fields(&j, lf_str("role", v->role), lf_bool("healthy", healthy),
                whole("database_away_since", v->database_away), lf_bool(v->peer, v->peer_is_there),
                lf_str("phase", v->phase), lf_u64("round", v->round),
                lf_u64("rounds", v->facts.known ? (uint64_t)v->facts.rounds : 0),
                lf_str("task", v->facts.task));
    if (v->facts.known)
        write_task(&j, v);
    if (v->latest.round > 0)
        write_latest(&j, &v->latest, &v->measured);
    json_fields(&j, lf_if(v->has_queue, lf_u64("queued", v->queued)),
                lf_if(v->control != 0, lf_u64("control", v->control)));
    json_close(&j, '}');
    SEFL_PASS(json_end(&j));
    SEFL_PASS(wr_u8(out, '\n'));
    *status = healthy ? 200 : 503;
    return SEFL_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef enum kind { TEXT, FLAG, NUMBER, REAL } kind;

#define AT(member) offsetof(health_facts, member)
#define TEXT_AT(name)                                          \
    {                                                          \
#name, TEXT, AT(name), sizeof((health_facts *)0)->name \
    }
static const struct member {
    const char *key;
    kind kind;
    size_t at, size; /* TEXT: size of the array */
} members[] = {
    TEXT_AT(role),
    TEXT_AT(phase),
    TEXT_AT(name),
    TEXT_AT(task),
    TEXT_AT(why),
    TEXT_AT(last_outcome),
    { "healthy", FLAG, AT(healthy), 0 },
    { "csp", FLAG, AT(peer_is_there), 0 },
    { "aggregator", FLAG, AT(peer_is_there), 0 },
    { "paused", FLAG, AT(paused), 0 },
    { "pausing", FLAG, AT(pausing), 0 },
    { "ending", FLAG, AT(ending), 0 },
    { "hides_count", FLAG, AT(hides_count), 0 },
    { "round", NUMBER, AT(round), 0 },
    { "rounds", NUMBER, AT(rounds), 0 },
    { "arrived", NUMBER, AT(arrived), 0 },
    { "need", NUMBER, AT(need), 0 },
    { "most", NUMBER, AT(most), 0 },
    { "closes_at", NUMBER, AT(closes_at), 0 },
    { "waits_for", NUMBER, AT(waits), 0 },
    { "left_out", NUMBER, AT(left_out), 0 },
    { "extensions", NUMBER, AT(extensions), 0 },
    { "deadline_at", NUMBER, AT(deadline_at), 0 },
    { "last_round", NUMBER, AT(last_round), 0 },
    { "perplexity_round", NUMBER, AT(perplexity_round), 0 },
    { "queued", NUMBER, AT(queued), 0 },
    { "control", NUMBER, AT(control), 0 },
    { "database_away_since", NUMBER, AT(database_away_since), 0 },
    { "perplexity", REAL, AT(perplexity), 0 },
    { "epsilon_server", REAL, AT(epsilon_server), 0 },
    { "epsilon_others", REAL, AT(epsilon_others), 0 },
    { "epsilon_target", REAL, AT(epsilon_target), 0 },
};

static sefl_status read_text(jread *j, char *out, size_t size)
{
    sefl_buf b = { 0 };
    sefl_status st = jread_str(j, &b);
    size_t n = b.n < size ? b.n : size - 1;
    if (st == SEFL_OK && n > 0)
        memcpy(out, b.p, n);
    out[st == SEFL_OK ? n : 0] = 0;
    buf_clear(&b);
    return st;
}

static sefl_status read_member(void *ctx, jread *j, const sefl_buf *key)
{
    health_facts *f = ctx;
    const struct member *m = members, *end = m + sizeof members / sizeof *members;
    while (m < end && !jread_is(key, m->key))
        m++;
    if (m == end)
        return jread_skip(j);
    char *to = (char *)f + m->at;
    f->has_arrived |= m->at == AT(arrived);
    f->has_queue |= m->at == AT(queued);
    switch (m->kind) {
    case TEXT:
        return read_text(j, to, m->size);
    case FLAG:
        return jread_bool(j, (bool *)(void *)to);
    case NUMBER:
        return jread_u64(j, (uint64_t *)(void *)to);
    case REAL:
        break;
    }
    return jread_real(j, (double *)(void *)to);
}

sefl_status health_read(health_facts *out, sefl_span page)
{
    health_facts f = {
        .perplexity = NAN, .epsilon_server = NAN, .epsilon_others = NAN, .epsilon_target = NAN
    };
    *out = f;
    SEFL_NEED(page.n <= HEALTH_MAX, SEFL_EPROTO, "a health page has at most %d bytes", HEALTH_MAX);
    SEFL_PASS(jread_document(page, read_member, &f));
    SEFL_NEED(*f.role && *f.phase, SEFL_EPROTO, "this is not a health page: it has no role");
    *out = f;
    return SEFL_OK;
}
