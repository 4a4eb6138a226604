#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/full/party.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/print.h"
#include "net/local_get.h"
#include "protocol/http.h"
#include "roles/client/client.h"
#include "roles/control.h"
#include "roles/health.h"
#include "store/ledger.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 512, LOOK_MS = 1000 };
#define DEADLINE_MAX UINT64_C(253402300799) /* the end of the year 9999 */

typedef struct wish {
    const char *file, *where;
    bool watch, json;
} wish;

/* One party, as seen now. */
typedef struct view {
    party who;
    bool is_page; /* known by the address of its health page alone */
    bool running, reached;
    bool known; /* `now` has facts */
    health_facts now;
    char trouble[160]; /* why nothing is known; or "" */
    /* from its own files */
    double epsilon;     /* spent by its ledger; NAN: none claimed, or not known */
    off_t ledger_bytes; /* when `epsilon` was computed */
    uint64_t models;    /* clients: kept models */
    char line[LINE];    /* as last printed */
} view;

typedef struct board {
    view *at;
    size_t n;
} board;

/* ---- looking --------------------------------------------------------------------------------- */

static void look_at_page(view *v)
{
    sefl_buf b = { 0 };
    unsigned status;
    const host_port *a = &v->who.health;
    sefl_status st = local_get(&b, &status, a->host, a->port, HTTP_HEALTH_PATH, HEALTH_MAX);
    if (st == SEFL_OK)
        st = health_read(&v->now, buf_span(&b));
    v->known = v->reached = v->running = st == SEFL_OK;
    if (st != SEFL_OK)
        snprintf(v->trouble, sizeof v->trouble, "%.159s", sefl_last_error());
    buf_clear(&b);
}

static void look_at_file(view *v)
{
    char path[PATH_MAX];
    sefl_buf b = { 0 };
    sefl_status st = file_path(path, "%s/" CONTROL_STATUS, v->who.state);
    v->running = control_is_running(v->who.state);
    if (st == SEFL_OK)
        st = file_read_plain(&b, path, HEALTH_MAX);
    if (st == SEFL_OK)
        st = health_read(&v->now, buf_span(&b));
    v->known = st == SEFL_OK;
    if (st != SEFL_OK)
        snprintf(v->trouble, sizeof v->trouble, "%.159s",
                 st == SEFL_ENOTFOUND && !v->running ? "it has never started" : sefl_last_error());
    buf_clear(&b);
}

/* Computes what the ledger has spent, once for each change of the file. */
static void look_at_ledger(view *v)
{
    struct stat s;
    ledger *l = NULL;
    ledger_total total;
    if (!*v->who.ledger || stat(v->who.ledger, &s) != 0 || s.st_size == v->ledger_bytes)
        return;
    v->ledger_bytes = s.st_size;
    v->epsilon = NAN;
    if (ledger_open_read(&l, v->who.ledger) == SEFL_OK && ledger_spent(l, 0, &total) == SEFL_OK &&
        total.server.claimed)
        v->epsilon = total.server.epsilon;
    ledger_close(l);
}

static bool is_model(const char *name)
{
    const size_t n = strlen(name), tail = strlen(".safetensors");
    return strncmp(name, "round-", 6) == 0 && n > tail &&
           strcmp(name + n - tail, ".safetensors") == 0;
}

/* Counts the models in a folder and in the folders of its tasks. */
static uint64_t count_models(const char *folder, bool tasks)
{
    uint64_t n = 0;
    char path[PATH_MAX];
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        n += is_model(e->d_name);
        if (tasks && e->d_name[0] != '.' && file_path(path, "%s/%s", folder, e->d_name) == SEFL_OK)
            n += count_models(path, false);
    }
    if (d)
        closedir(d);
    return n;
}

static void cmd_status_look(view *v)
{
    v->known = v->running = v->reached = false;
    *v->trouble = 0;
    if (v->is_page || (*v->who.health.host && v->who.health.port != 0))
        look_at_page(v);
    if (!v->is_page && !v->reached)
        look_at_file(v);
    if (v->is_page)
        return;
    look_at_ledger(v);
    if (v->who.role == PARTY_CLIENT)
        v->models = count_models(v->who.models, true);
}

static bool is_over(const view *v)
{
    const char *over = strcmp(v->now.role, "client") == 0 ? CLIENT_OVER : "done";
    return v->known && strcmp(v->now.phase, over) == 0;
}

/* It has exited because its task is over; one with a folder of tasks should run on. */
static bool is_finished(const view *v)
{
    return !v->running && !v->is_page && is_over(v) &&
           (v->who.role == PARTY_CLIENT || *v->who.task != 0);
}

static bool is_healthy(const view *v)
{
    return is_finished(v) || (v->running && v->known && v->now.healthy);
}

static bool has_link(const view *v)
{
    return v->running && !is_over(v);
}

/* ---- one line -------------------------------------------------------------------------------- */

static void cmd_status_add(char out[LINE], const char *fmt, ...) SEFL_PRINTF(2, 3);
static void cmd_status_add(char out[LINE], const char *fmt, ...)
{
    const size_t n = strlen(out);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out + n, LINE - n, fmt, ap);
    va_end(ap);
}

static void add_round(char out[LINE], const health_facts *f)
{
    char text[128];
    if (f->rounds > 0)
        cmd_status_add(out, "  round %" PRIu64 "/%" PRIu64, f->round, f->rounds);
    cmd_status_add(out, "  %s", cli_plain(text, sizeof text, f->phase));
    if (f->paused)
        cmd_status_add(out, "  PAUSED");
    if (f->pausing)
        cmd_status_add(out, ", then paused");
    if (f->ending)
        cmd_status_add(out, ", then the task ends");
    if (*f->why)
        cmd_status_add(out, " (%s)", cli_plain(text, sizeof text, f->why));
    if (f->need > 0 && f->has_arrived)
        cmd_status_add(out, "  %" PRIu64 " arrived, %" PRIu64 " needed", f->arrived, f->need);
    else if (f->need > 0)
        cmd_status_add(out, "  %" PRIu64 " needed", f->need);
    if (f->waits > 0)
        cmd_status_add(out, ", waits for %" PRIu64 " site%s", f->waits, f->waits == 1 ? "" : "s");
    if (f->left_out > 0)
        cmd_status_add(out, ", %" PRIu64 " left out", f->left_out);
}

/* Lines that are printed when they change have the deadline instead of the time left. */
static void add_deadline(char out[LINE], const health_facts *f, bool absolute)
{
    const uint64_t until = f->deadline_at < DEADLINE_MAX ? f->deadline_at : DEADLINE_MAX;
    const int64_t left = (int64_t)until - (int64_t)time(NULL);
    const time_t at = (time_t)until;
    char clock[16] = "";
    struct tm tm;
    if (absolute && localtime_r(&at, &tm)) {
        strftime(clock, sizeof clock, "%H:%M:%S", &tm);
        cmd_status_add(out, ", until %s", clock);
    } else if (left <= 0)
        cmd_status_add(out, ", closing");
    else if (left < 600)
        cmd_status_add(out, ", %" PRId64 " s left", left);
    else
        cmd_status_add(out, ", %" PRId64 " min left", left / 60);
}

static void add_away(char out[LINE], const health_facts *f)
{
    const time_t at = (time_t)(f->database_away_since < DEADLINE_MAX ? f->database_away_since : 0);
    char clock[40] = "";
    struct tm tm;
    if (f->database_away_since == 0 || !localtime_r(&at, &tm))
        return;
    strftime(clock, sizeof clock, "%Y-%m-%d %H:%M:%S", &tm);
    cmd_status_add(out, "  DATABASE AWAY since %s: it does not answer", clock);
}

static void add_last_round(char out[LINE], const health_facts *f)
{
    if (strcmp(f->last_outcome, "blocked") == 0)
        cmd_status_add(out, "  last round BLOCKED");
    if (strcmp(f->last_outcome, "skipped") == 0)
        cmd_status_add(out, "  last round skipped");
    if (strcmp(f->last_outcome, "dropped") == 0)
        cmd_status_add(out, "  last round dropped by the operator");
    if (!isnan(f->perplexity))
        cmd_status_add(out, "  perplexity %.4g (round %" PRIu64 ")", f->perplexity,
                       f->perplexity_round);
}

static void add_epsilon(char out[LINE], const view *v)
{
    const health_facts *f = &v->now;
    const double spent = isnan(f->epsilon_server) ? v->epsilon : f->epsilon_server;
    const bool no_claim = *f->task && isnan(f->epsilon_target);
    if (no_claim)
        cmd_status_add(out, "  no privacy claimed");
    if (!isnan(spent) && !isnan(f->epsilon_target))
        cmd_status_add(out, "  epsilon %.3g/%.3g", spent, f->epsilon_target);
    else if (!isnan(spent) && (!no_claim || spent > 0))
        cmd_status_add(out, no_claim ? " (other tasks: epsilon %.3g)" : "  epsilon %.3g", spent);
}

static void add_numbers(char out[LINE], const view *v)
{
    const health_facts *f = &v->now;
    add_last_round(out, f);
    add_epsilon(out, v);
    if (has_link(v) && strcmp(f->role, "aggregator") == 0)
        cmd_status_add(out, "  CSP %s", f->peer_is_there ? "connected" : "NOT CONNECTED");
    if (has_link(v) && strcmp(f->role, "csp") == 0)
        cmd_status_add(out, "  AS %s", f->peer_is_there ? "connected" : "not connected");
    if (f->queued > 0)
        cmd_status_add(out, "  %" PRIu64 " queued", f->queued);
    if (v->models > 0)
        cmd_status_add(out, "  %" PRIu64 " model%s kept", v->models, v->models == 1 ? "" : "s");
}

static void make_line(char out[LINE], const view *v, bool absolute)
{
    char text[160];
    snprintf(out, LINE, "%-12s", cli_plain(text, sizeof text, v->who.name));
    if (is_finished(v))
        cmd_status_add(out, "  finished");
    else if (!v->running)
        cmd_status_add(out, "  %s", v->is_page ? "NOT REACHED" : "NOT RUNNING");
    if (!v->known) {
        cmd_status_add(out, ": %s", cli_plain(text, sizeof text, v->trouble));
        return;
    }
    if (!v->running && !is_finished(v))
        cmd_status_add(out, "; at the end:");
    if (*v->now.name)
        cmd_status_add(out, "  %s", cli_plain(text, sizeof text, v->now.name));
    if (v->running)
        add_away(out, &v->now);
    add_round(out, &v->now);
    if (v->now.deadline_at > 0 && v->running)
        add_deadline(out, &v->now, absolute);
    add_numbers(out, v);
}

/* ---- output ---------------------------------------------------------------------------------- */

static void put_json(json *j, const view *v)
{
    const health_facts *f = &v->now;
    const double spent = isnan(f->epsilon_server) ? v->epsilon : f->epsilon_server;
    const bool server = v->known && strcmp(f->role, "client") != 0;
    json_open(j, '{');
    json_fields(j, lf_str("name", v->who.name), lf_bool("running", v->running),
                lf_bool("healthy", is_healthy(v)), lf_if(is_finished(v), lf_bool("finished", true)),
                lf_if(!v->known, lf_str("trouble", v->trouble)));
    if (v->known)
        json_fields(j, lf_str("role", f->role), lf_str("phase", f->phase),
                    lf_u64("round", f->round), lf_u64("rounds", f->rounds), lf_str("task", f->task),
                    lf_str("task_name", f->name), lf_bool("paused", f->paused),
                    lf_if(f->pausing, lf_bool("pausing", true)),
                    lf_if(f->ending, lf_bool("ending", true)),
                    lf_if(f->database_away_since > 0,
                          lf_u64("database_away_since", f->database_away_since)),
                    lf_if(*f->why, lf_str("why", f->why)),
                    lf_if(server && has_link(v), lf_bool("peer_connected", f->peer_is_there)),
                    lf_if(f->has_arrived, lf_u64("arrived", f->arrived)),
                    lf_if(f->need > 0, lf_u64("need", f->need)),
                    lf_if(f->need > 0, lf_u64("most", f->most)),
                    lf_if(f->need > 0, lf_u64("waits_for", f->waits)),
                    lf_if(f->need > 0, lf_u64("left_out", f->left_out)),
                    lf_if(f->deadline_at > 0, lf_u64("deadline_at", f->deadline_at)),
                    lf_if(f->last_round > 0, lf_u64("last_round", f->last_round)),
                    lf_if(*f->last_outcome, lf_str("last_outcome", f->last_outcome)),
                    lf_if(!isnan(f->perplexity), lf_real("perplexity", f->perplexity)),
                    lf_if(f->perplexity_round > 0, lf_u64("perplexity_round", f->perplexity_round)),
                    lf_if(!isnan(spent), lf_real("epsilon_spent", spent)),
                    lf_if(!isnan(f->epsilon_target), lf_real("epsilon_target", f->epsilon_target)),
                    lf_if(f->has_queue, lf_u64("queued", f->queued)),
                    lf_if(!server, lf_u64("models", v->models)));
    json_close(j, '}');
}

static sefl_status print_all_json(board *b)
{
    sefl_buf out = { 0 };
    json j = json_into(&out);
    json_open(&j, '{');
    json_key(&j, "parties"), json_open(&j, '[');
    for (size_t i = 0; i < b->n; i++) {
        cmd_status_look(&b->at[i]);
        put_json(&j, &b->at[i]);
    }
    json_close(&j, ']');
    json_close(&j, '}');
    return print_json(&j);
}

/* Prints every line; not on a terminal and not the first time, only those that changed. */
static void print_lines(board *b, bool watch, bool first)
{
    const bool redraw = watch && isatty(STDOUT_FILENO);
    char clock[16] = "";
    time_t now = time(NULL);
    struct tm tm;
    if (watch && localtime_r(&now, &tm))
        strftime(clock, sizeof clock, "%H:%M:%S  ", &tm);
    if (redraw)
        printf("\033[H\033[J%s'sefl status': ctrl-c ends\n", clock);
    for (size_t i = 0; i < b->n; i++) {
        char line[LINE];
        cmd_status_look(&b->at[i]);
        make_line(line, &b->at[i], watch && !redraw);
        if (redraw || first || strcmp(line, b->at[i].line) != 0)
            printf("%s%s\n", redraw ? "" : clock, line);
        memcpy(b->at[i].line, line, sizeof line);
    }
    (void)fflush(stdout);
}

/* ---- command line ---------------------------------------------------------------------------- */

/* Reads HOST:PORT, or http://HOST:PORT with or without the path of the page. */
static bool read_address(host_port *out, const char *where)
{
    static const char scheme[] = "http://";
    char text[300];
    const bool is_url = strncmp(where, scheme, sizeof scheme - 1) == 0;
    const char *from = where + (is_url ? sizeof scheme - 1 : 0);
    const char *path = is_url ? strchr(from, '/') : NULL;
    const size_t n = path ? (size_t)(path - from) : strlen(from);
    if (n >= sizeof text || (path && path[1] && strcmp(path, HTTP_HEALTH_PATH) != 0))
        return false;
    snprintf(text, sizeof text, "%.*s", (int)n, from);
    return address_read(out, text, 1) == SEFL_OK;
}

/* An argument that names no file may be the address of a health page. */
static sefl_status cmd_status_find(board *b, const wish *w)
{
    sefl_status st = SEFL_OK;
    party_list l = { 0 };
    host_port at;
    const char *where = w->file ? w->file : w->where;
    if (where && !file_exists(where) && read_address(&at, where)) {
        SEFL_TRY(local_http_check(at.host));
        SEFL_TRY(sefl_new(&b->at, 1, sizeof *b->at));
        b->n = 1;
        b->at->is_page = true;
        b->at->who.health = at;
        snprintf(b->at->who.name, sizeof b->at->who.name, "%.63s", where);
    } else {
        SEFL_TRY(party_find(&l, where));
        SEFL_TRY(sefl_new(&b->at, l.n, sizeof *b->at));
        for (b->n = 0; b->n < l.n; b->n++)
            b->at[b->n].who = l.at[b->n];
    }
    for (size_t i = 0; i < b->n; i++)
        b->at[i].epsilon = NAN;
done:
    party_clear(&l);
    return st;
}

static int cmd_status_run(void *options)
{
    const wish *w = options;
    board b = { 0 };
    bool healthy = true;
    if (w->file && w->where)
        return cli_misuse(&cmd_status, "pass -c FILE or a folder, not both");
    if (w->watch && w->json)
        return cli_misuse(&cmd_status, "--watch and --json cannot be combined");
    sefl_status st = cmd_status_find(&b, w);
    if (st == SEFL_OK && w->json)
        st = print_all_json(&b);
    else if (st == SEFL_OK)
        print_lines(&b, w->watch, true);
    while (st == SEFL_OK && w->watch && !interrupt_seen()) {
        nanosleep(&(struct timespec){ .tv_sec = LOOK_MS / 1000 }, NULL);
        if (!interrupt_seen())
            print_lines(&b, true, false);
    }
    for (size_t i = 0; i < b.n; i++)
        healthy = healthy && is_healthy(&b.at[i]);
    sefl_free(b.at);
    return st != SEFL_OK ? cli_failed(&cmd_status, st) : healthy ? CLI_DONE : CLI_FAILED;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "config", SETTING_PATH, "", TO(file), .letter = 'c',
      .help = "Settings file of one party: aggregator.yml, csp.yml or client.yml" },
    { "watch", SETTING_FLAG, TO(watch),
      .help = "Look every second; on a terminal, redraw; else print the lines that changed" },
    OPTION_JSON(wish),
    { 0 },
};

const cli_command cmd_status = {
    .name = "status",
    .about = "Prints one line per party: its task, round and phase, updates that arrived and are "
             "needed, the time left, whether the last round was blocked or skipped, the latest "
             "perplexity with its round, epsilon spent by its "
             "own ledger, the link to the other server, and the models that a client keeps. WHERE "
             "is a folder ('sefl provision', 'sefl demo', 'sefl try', or that of one party) or the "
             "address of a health page; by default the current folder, or its newest run. Of a "
             "party that is not running, it shows the last state that it wrote. The exit code is 1 "
             "if a party is not healthy, or is not running although its task is not over.",
    .example = "sefl status -c aggregator/aggregator.yml\n"
               "sefl status http://127.0.0.1:7410/healthz",
    CLI_OPTIONS(wish),
    CLI_RUN(cmd_status_run, "[WHERE]", "a folder or an address", offsetof(wish, where)),
    .interruptible = true,
};
