/* Starts the parties and reads the metrics that AS publishes (metrics.jsonl, one line per round);
 * it takes no part in the protocol. */
#define _GNU_SOURCE
#include "cli/full/fed_run.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/sample.h"
#include "report/report.h"
#include "simulate/run_folder.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POLL_MS = 25, READY_S = 60, GRACE_MS = 15000 };
#define LINGER_PAGE "10" /* seconds: time to look at the finished run */
#define METRICS     "federation/aggregator/state/metrics.jsonl"

void fed_run_talk(const fed_run *f, const char *fmt, ...)
{
    va_list ap;
    if (f->quiet)
        return;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    fflush(stdout);
}

/* ---- the folder ---------------------------------------------------------------------------- */

/* Creates "a", "a/b" and "a/b/c", if they do not exist. */
static sefl_status make_folders(const char *path)
{
    char part[PATH_MAX];
    for (const char *p = path; *p; p++)
        if (p[1] == '/' || p[1] == '\0') {
            snprintf(part, sizeof part, "%.*s", (int)(p - path + 1), path);
            SEFL_NEED(mkdir(part, 0755) == 0 || errno == EEXIST, SEFL_EIO,
                      "cannot create the folder %s: %s", part, strerror(errno));
        }
    return SEFL_OK;
}

/* Writes the text that marks a folder as ours. */
static void mark_text(char out[256], const char *kind)
{
    snprintf(out, 256,
             "'sefl %s' created this folder. The next 'sefl %s' may replace it.\n"
             "It contains all keys of all parties: it protects nobody.\n",
             kind, kind);
}

/* A file of that name alone is not enough: it may be the user's. */
static bool has_mark(fed_run *f, const char *kind)
{
    char mark[256];
    sefl_buf b = { 0 };
    mark_text(mark, kind);
    bool same = file_read(&b, dir_in(&f->at, "%s.txt", kind), sizeof mark) == SEFL_OK &&
                b.n == strlen(mark) && memcmp(b.p, mark, b.n) == 0;
    buf_clear(&b);
    return same;
}

static sefl_status remove_old(fed_run *f, const fed_run_config *c)
{
    /* files of a run; nothing else is ever removed */
    static const char *const ours[] = { "federation",   "log",         "metrics.jsonl",
                                        "summary.json", "report.html", NULL };
    SEFL_NEED(has_mark(f, c->kind), SEFL_EEXIST,
              "%s is not empty and no earlier 'sefl %s' made it: choose another with --out",
              f->at.root, c->kind);
    for (const char *const *p = ours; *p; p++)
        dir_remove(dir_in(&f->at, "%s", *p));
    for (const char *const *p = c->files; p && *p; p++)
        dir_remove(dir_in(&f->at, "%s", *p));
    return SEFL_OK;
}

sefl_status fed_run_open(fed_run *f, const fed_run_config *c)
{
    char mark[256];
    *f = (fed_run){ .quiet = c->quiet, .page = c->page, .lock = -1, .began_ns = clock_now_ns() };
    interrupt_catch();
    SEFL_PASS(sefl_at(dir_root(&f->at, c->out), "--out"));
    SEFL_PASS(make_folders(f->at.root));
    /* two runs in one folder would delete each other's keys and models */
    SEFL_PASS(run_folder_lock(&f->lock, f->at.root));
    if (!dir_is_empty(f->at.root))
        SEFL_PASS(remove_old(f, c));
    mark_text(mark, c->kind);
    SEFL_PASS(file_write_atomic(dir_in(&f->at, "%s.txt", c->kind), span_of_str(mark), 0644));
    return make_folders(dir_in(&f->at, "log"));
}

void fed_run_close(fed_run *f)
{
    meter_stop(&f->line);
    processes_end(&f->parties);
    run_log_clear(&f->log);
    sefl_free(f->sample);
    if (f->lock >= 0)
        close(f->lock);
    f->lock = -1;
}

/* ---- processes ----------------------------------------------------------------------------- */

static sefl_status check_interrupt(void)
{
    return interrupt_seen() ? sefl_fail(SEFL_ECANCELLED, "stopped; every process has ended")
                            : SEFL_OK;
}

static sefl_status ended_early(fed_run *f, const process *one)
{
    return sefl_fail(SEFL_ECLOSED, "%s ended with %d: see %s", one->name, one->rc,
                     dir_in(&f->at, "log/%s.log", one->name));
}

/* Waits until the role has written its ready file and reads "host:port" from it. */
static sefl_status wait_ready(fed_run *f, const char *role, char at[64])
{
    sefl_buf line = { 0 };
    const char *ready = dir_in(&f->at, "federation/%s/ready", role);
    for (uint64_t began = clock_now_ns(); !file_exists(ready); clock_pause_ms(POLL_MS)) {
        SEFL_PASS(check_interrupt());
        processes_look(&f->parties);
        const process *one = processes_find(&f->parties, role);
        if (one->ended)
            return ended_early(f, one);
        SEFL_NEED(clock_since(began) < READY_S, SEFL_ETIMEOUT, "%s is not ready after %d s", role,
                  READY_S);
    }
    sefl_status st = file_read(&line, ready, 256);
    if (st == SEFL_OK)
        snprintf(at, 64, "%.*s", (int)(line.n < 63 ? line.n : 63), (const char *)line.p);
    at[strcspn(at, "\r\n")] = 0;
    buf_clear(&line);
    return st;
}

void fed_run_client_name(char out[PROCESSES_NAME_MAX], uint32_t i)
{
    snprintf(out, PROCESSES_NAME_MAX, "client-%02" PRIu32, i + 1);
}

sefl_status fed_run_start_client(fed_run *f, uint32_t i)
{
    char name[PROCESSES_NAME_MAX];
    fed_run_client_name(name, i);
    const char *config = dir_in(&f->at, "federation/clients/%s/client.yml", name);
    return processes_start(
        &f->parties, name,
        (const char *[]){ "client", "--config", config, "--server", f->at_as, NULL });
}

/* Prints the address of AS's page, which has its token. To stderr: it is no result. */
static sefl_status tell_page(fed_run *f)
{
    sefl_buf url = { 0 };
    sefl_status st =
        file_read(&url, dir_in(&f->at, "federation/aggregator/state/page.url"), PATH_MAX);
    if (st == SEFL_OK)
        fprintf(stderr,
                "page      open this address in a browser:\n          %.*s\n"
                "          the page closes when this command ends\n",
                (int)url.n, (const char *)url.p);
    buf_clear(&url);
    return st;
}

sefl_status fed_run_start(fed_run *f)
{
    char at_csp[64] = "";
    SEFL_PASS(processes_init(&f->parties, dir_in(&f->at, "log")));
    const char *config = dir_in(&f->at, "federation/csp/csp.yml");
    SEFL_PASS(
        processes_start(&f->parties, "csp", (const char *[]){ "csp", "--config", config, NULL }));
    SEFL_PASS(wait_ready(f, "csp", at_csp));
    config = dir_in(&f->at, "federation/aggregator/aggregator.yml");
    SEFL_PASS(processes_start(&f->parties, "aggregator",
                              (const char *[]){ "aggregator", "--config", config, "--csp", at_csp,
                                                "--linger", f->page ? LINGER_PAGE : "3",
                                                f->page ? "--page" : NULL, "127.0.0.1:0", NULL }));
    SEFL_PASS(wait_ready(f, "aggregator", f->at_as));
    for (uint32_t i = 0; i < f->clients; i++)
        SEFL_PASS(fed_run_start_client(f, i));
    fed_run_talk(f,
                 "running   CSP, AS (%s) and %" PRIu32 " clients: %" PRIu32
                 " processes, mutual TLS 1.3\n\n",
                 f->at_as, f->clients, f->clients + 2);
    return f->page ? tell_page(f) : SEFL_OK;
}

/* ---- rounds -------------------------------------------------------------------------------- */

static void show_round(fed_run *f, const run_line *r)
{
    meter_stop(&f->line);
    fed_run_talk(f, "round %2" PRIu64 "/%" PRIu32, r->round, f->rounds);
    if (r->skipped || r->blocked) {
        fed_run_talk(f, "  %s\n",
                     r->skipped ? "skipped: too few clients"
                                : "blocked by the release check; the model stays");
        return;
    }
    fed_run_talk(f, "  perplexity %6.1f  clients %.0f/%" PRIu32 "  up %s", r->perplexity,
                 r->clients, f->clients, human_bytes(r->up_bytes).text);
    if (!isnan(r->epsilon_server))
        fed_run_talk(f, "  eps %.1f", r->epsilon_server);
    fed_run_talk(f, "  %4.1f s (2PC %.1f)\n", r->seconds, r->open_seconds);
}

/* Prints new rounds and detects failed processes. */
static sefl_status fed_run_look(fed_run *f)
{
    const char *metrics = dir_in(&f->at, METRICS);
    SEFL_PASS(check_interrupt());
    run_log_clear(&f->log);
    if (file_exists(metrics))
        SEFL_PASS(run_log_read(&f->log, metrics));
    for (; f->shown < f->log.n; f->shown++)
        show_round(f, &f->log.at[f->shown]);
    if (f->step)
        SEFL_PASS(f->step(f->step_ctx));
    processes_look(&f->parties);
    for (size_t i = 0; i < f->parties.n; i++) {
        const process *one = &f->parties.at[i];
        if (one->ended && !one->killed && one->rc != 0)
            return ended_early(f, one);
    }
    SEFL_NEED(f->shown == f->rounds || !processes_find(&f->parties, "aggregator")->ended,
              SEFL_ECLOSED, "the aggregator ended before the last round: see %s",
              dir_in(&f->at, "log/aggregator.log"));
    return SEFL_OK;
}

sefl_status fed_run_watch(fed_run *f)
{
    const uint64_t began = clock_now_ns();
    const double limit = 60 + 3e-3 * (double)(f->deadline_ms + 15000) * (double)f->rounds;
    f->line.on = !f->quiet && meter_terminal();
    for (; f->shown < f->rounds; clock_pause_ms(POLL_MS)) {
        SEFL_PASS(fed_run_look(f));
        if (meter_due(&f->line))
            meter_line("round %2zu/%" PRIu32 "  under way  %.0f s ", f->shown + 1, f->rounds,
                       clock_since(f->began_ns));
        SEFL_NEED(clock_since(began) < limit, SEFL_ETIMEOUT, "the rounds take too long: see %s",
                  dir_in(&f->at, "log"));
    }
    meter_stop(&f->line);
    return SEFL_OK;
}

/* Waits until every party has learned that the task is over and has exited. */
sefl_status fed_run_end(fed_run *f)
{
    for (uint64_t began = clock_now_ns(); 1e3 * clock_since(began) < GRACE_MS;) {
        bool over = processes_all_ended(&f->parties);
        SEFL_PASS(fed_run_look(f)); /* reports one that failed */
        if (over)
            break;
        clock_pause_ms(POLL_MS);
    }
    return SEFL_OK;
}

/* ---- the report ------------------------------------------------------------------------------ */

sefl_status fed_run_report(fed_run *f, const fed_run_baselines *got)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    report r = { 0 };
    SEFL_TRY(file_read(&b, dir_in(&f->at, METRICS), RUN_LOG_BYTES_MAX));
    SEFL_TRY(file_write_atomic(dir_in(&f->at, "metrics.jsonl"), buf_span(&b), 0644));
    buf_reset(&b);
    json j = json_into(&b);
    json_object(&j, NULL, lf_real("first_perplexity", got->first),
                lf_real("plain_perplexity", got->plain),
                lf_real("best_possible_perplexity", got->best));
    SEFL_TRY(json_end(&j));
    SEFL_TRY(wr_u8(&b, '\n'));
    SEFL_TRY(file_write_atomic(dir_in(&f->at, "summary.json"), buf_span(&b), 0644));
    buf_reset(&b);
    SEFL_TRY(report_open(&r, f->at.root));
    SEFL_TRY(sample_run(&r));
    SEFL_TRY(report_html(&b, &r, 1));
    SEFL_TRY(file_write_atomic(dir_in(&f->at, "report.html"), buf_span(&b), 0644));
    if (r.sample)
        SEFL_TRY(sefl_strdup(&f->sample, r.sample));
done:
    report_close(&r);
    buf_clear(&b);
    return st;
}
