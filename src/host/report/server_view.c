#include "report/server_view.h"

#include "base/json.h"
#include "sefl/sefl.h"

#include <math.h>

#define WORD(x) #x
#define TEXT(x) WORD(x)

server_view server_view_none(void)
{
    return (server_view){
        .facts = run_facts_none(),
        .database_away = NAN,
        .need = NAN,
        .measured = run_line_of(0),
        .latest = run_line_of(0),
        .closes_at = NAN,
        .extensions = NAN,
        .arrived = NAN,
        .most = NAN,
        .asked = NAN,
        .refused = NAN,
        .late = NAN,
        .opened_at = NAN,
        .deadline_at = NAN,
        .rounds_left = NAN,
        .seconds_left = NAN,
        .epsilon_server = NAN,
        .epsilon_others = NAN,
        .epsilon_target = NAN,
        .delta = NAN,
        .rounds_to_target = NAN,
        .csp_since = NAN,
        .rounds_ready = NAN,
        .lanes = NAN,
        .ledger_rounds = NAN,
        .last = run_line_of(0),
        .totals = run_totals_none(),
    };
}

void server_view_log(server_view *s, const run_view *v)
{
    if (!s->facts.known)
        s->facts = v->facts;
    s->last = v->last;
    s->totals = v->totals;
    if (s->claimed == VIEW_UNKNOWN && s->facts.known)
        s->claimed = view_yes(!isnan(s->facts.delta));
    s->delta = s->facts.delta;
    s->epsilon_server = v->last.epsilon_server;
    s->epsilon_others = v->last.epsilon_others;
    if (isnan(s->epsilon_target))
        s->epsilon_target = v->last.epsilon_target;
    s->rounds_left = s->facts.rounds - (double)v->last.round;
    if (s->rounds_to_target < s->rounds_left)
        s->rounds_left = s->rounds_to_target;
    s->seconds_left = s->rounds_left * v->seconds_a_round;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void number(json *j, const char *key, double v)
{
    if (isnan(v))
        return;
    json_key(j, key);
    if (v >= 0 && v < 1e15 && v == floor(v))
        json_u64(j, (uint64_t)v); /* json_real may write 4e+02 */
    else
        json_real(j, v);
}

static void text(json *j, const char *key, const char *s)
{
    if (s && *s)
        json_key(j, key), json_str(j, s);
}

static void word(json *j, const char *key, view_known k)
{
    if (k != VIEW_UNKNOWN)
        json_key(j, key), json_bool(j, k == VIEW_YES);
}

static void begin(json *j, const char *key)
{
    json_key(j, key), json_open(j, '{');
}

static void write_task(json *j, const server_view *s)
{
    const run_facts *f = &s->facts;
    if (!f->known)
        return;
    begin(j, "task");
    text(j, "id", f->task);
    text(j, "name", f->name);
    text(j, "noise", f->noise);
    text(j, "mode", f->mode);
    text(j, "z", f->z);
    text(j, "unit", f->unit);
    number(j, "rounds", f->rounds);
    number(j, "enrolled", f->enrolled);
    number(j, "need", s->need);
    json_close(j, '}');
}

static void write_sites(json *j, const char *key, const view_sites *s)
{
    begin(j, key);
    json_key(j, "all"), json_u64(j, s->all);
    json_key(j, "sites"), json_open(j, '[');
    for (const view_site *p = s->at; p < s->at + s->named; p++) {
        json_open(j, '{');
        text(j, "name", p->name);
        json_key(j, "asked"), json_bool(j, p->asked);
        json_key(j, "revoked"), json_bool(j, p->revoked);
        json_key(j, "missed"), json_u64(j, p->missed);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

static void write_round(json *j, const server_view *s)
{
    if (s->round > 0) {
        begin(j, "round");
        json_key(j, "number"), json_u64(j, s->round);
        number(j, "arrived", s->arrived);
        number(j, "need", s->need);
        number(j, "most", s->closes_at > 0 ? s->closes_at : s->most);
        number(j, "asked", s->asked);
        number(j, "refused", s->refused);
        number(j, "late", s->late);
        number(j, "opened_at", s->opened_at);
        number(j, "deadline_at", s->deadline_at);
        if (s->collects)
            write_sites(j, "waits_for", &s->waits);
        if (s->sites)
            write_sites(j, "left_out", &s->left);
        json_close(j, '}');
    }
    if (!isnan(s->rounds_left)) {
        begin(j, "end");
        number(j, "rounds_left", s->rounds_left);
        number(j, "seconds_left", s->seconds_left);
        json_close(j, '}');
    }
}

static void write_privacy(json *j, const server_view *s)
{
    if (s->claimed == VIEW_UNKNOWN)
        return;
    begin(j, "privacy");
    word(j, "claimed", s->claimed);
    if (s->claimed == VIEW_YES) {
        number(j, "epsilon_server", s->epsilon_server);
        number(j, "epsilon_others", s->epsilon_others);
        number(j, "epsilon_target", s->epsilon_target);
        number(j, "delta", s->delta);
        number(j, "rounds_to_target", s->rounds_to_target);
    }
    json_close(j, '}');
}

static void write_servers(json *j, const server_view *s)
{
    if (s->csp != VIEW_UNKNOWN) {
        begin(j, "csp");
        word(j, "connected", s->csp);
        number(j, "since", s->csp_since);
        text(j, "last_error", s->csp_error);
        json_close(j, '}');
    }
    if (s->making != VIEW_UNKNOWN) {
        begin(j, "supply");
        number(j, "rounds_ready", s->rounds_ready);
        word(j, "making", s->making);
        number(j, "lanes", s->lanes);
        json_close(j, '}');
    }
    if (!isnan(s->ledger_rounds)) {
        begin(j, "ledgers");
        word(j, "agree", s->ledgers_agree);
        number(j, "rounds", s->ledger_rounds);
        text(j, "compared", s->ledgers_compared);
        json_close(j, '}');
    }
}

static void write_totals(json *j, const run_totals *t)
{
    if (t->rounds == 0)
        return;
    begin(j, "totals");
    json_key(j, "rounds"), json_u64(j, t->rounds);
    json_key(j, "released"), json_u64(j, t->released);
    json_key(j, "skipped"), json_u64(j, t->skipped);
    json_key(j, "blocked"), json_u64(j, t->blocked);
    number(j, "seconds", t->all.seconds);
    number(j, "up_bytes", t->all.up_bytes);
    number(j, "down_bytes", t->all.down_bytes);
    json_close(j, '}');
}

static void write_parts(json *j, const server_view *s)
{
    json_key(j, "downloads"), json_open(j, '[');
    if (s->model)
        json_str(j, "model");
    if (s->report)
        json_str(j, "report");
    if (s->ledger)
        json_str(j, "ledger");
    json_close(j, ']');
    json_key(j, "grid"), json_bool(j, s->grid);
}

sefl_status server_view_write(sefl_buf *out, const server_view *s)
{
    json j = json_into(out);
    json_open(&j, '{');
    text(&j, "role", s->role);
    text(&j, "version",
         TEXT(SEFL_VERSION_MAJOR) "." TEXT(SEFL_VERSION_MINOR) "." TEXT(SEFL_VERSION_PATCH));
    text(&j, "phase", s->phase);
    text(&j, "crypto", s->crypto);
    word(&j, "healthy", s->trouble ? VIEW_NO : s->healthy);
    text(&j, "why", s->trouble);
    word(&j, "paused", s->paused);
    word(&j, "ending", s->ending);
    number(&j, "database_away_since", s->database_away);
    write_task(&j, s);
    write_round(&j, s);
    write_privacy(&j, s);
    write_servers(&j, s);
    write_totals(&j, &s->totals);
    write_parts(&j, s);
    json_close(&j, '}');
    SEFL_PASS(json_end(&j));
    if (s->last.round == 0)
        return SEFL_OK;
    out->n--; /* the last line is JSON already */
    SEFL_PASS(wr_fmt(out, ",\"last\":"));
    SEFL_PASS(run_line_write(out, &s->last, NULL));
    return wr_u8(out, '}');
}
