/* The demo starts the parties and reads the metrics that AS publishes (metrics.jsonl, one line per
 * round); it takes no part in the protocol. It can compare with plain FedAvg only because the
 * provisioned folder holds the text of all clients. */
#define _GNU_SOURCE
#include "cli/full/demo_fed.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/full/demo_table.h"
#include "cli/full/fedavg.h"
#include "cli/full/processes.h"
#include "cli/interrupt.h"
#include "cli/meter.h"
#include "cli/print.h"
#include "cli/sample.h"
#include "crypto/seal/seal.h"
#include "operator/provision.h"
#include "privacy/accountant/accountant.h"
#include "protocol/modes/mode.h"
#include "protocol/task_make.h"
#include "report/report.h"
#include "simulate/run_folder.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POLL_MS = 25, READY_S = 60, GRACE_MS = 15000 };
#define DELTA   1e-6
#define METRICS "federation/aggregator/state/metrics.jsonl"

static const char mark_text[] = "'sefl demo' created this folder. The next demo may replace it.\n"
                                "It contains all keys of all parties: it protects nobody.\n";

typedef struct fed_demo {
    const demo *d;
    dir_tree at; /* the demo's folder */
    int lock;    /* lock on the folder; -1: none */
    processes parties;
    provision_report made;
    task t;
    char at_as[64]; /* host:port */
    run_log rounds;
    size_t shown;
    uint64_t lost_round; /* round in which clients are killed */
    uint32_t lost;       /* number of clients to kill: the last ones */
    bool killed, returned;
    uint64_t began_ns;
    meter line; /* progress line */
    demo_result result;
} fed_demo;

/* All clients train at once on the available cores; a slow machine extends the round. */
static uint64_t deadline_ms(const demo *d)
{
    return 4000 + (uint64_t)d->words * d->clients / 4;
}

static void talk(const fed_demo *s, const char *fmt, ...) SEFL_PRINTF(2, 3);
static void talk(const fed_demo *s, const char *fmt, ...)
{
    va_list ap;
    if (s->d->json)
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

static sefl_status prepare_folder(fed_demo *s)
{
    /* files of a demo; nothing else is ever removed */
    static const char *const ours[] = { "federation", "log", "metrics.jsonl", "summary.json",
                                        "report.html" };
    SEFL_PASS(sefl_at(dir_root(&s->at, s->d->out), "--out"));
    SEFL_PASS(make_folders(s->at.root));
    /* two demos in one folder would delete each other's keys and models */
    SEFL_PASS(run_folder_lock(&s->lock, s->at.root));
    if (!dir_is_empty(s->at.root)) {
        SEFL_NEED(file_exists(dir_in(&s->at, "demo.txt")), SEFL_EEXIST,
                  "%s is not empty and not a demo folder: choose another with --out", s->at.root);
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
            dir_remove(dir_in(&s->at, "%s", ours[i]));
    }
    SEFL_PASS(file_write_atomic(dir_in(&s->at, "demo.txt"), span_of_str(mark_text), 0644));
    return make_folders(dir_in(&s->at, "log"));
}

/* ---- keys, text, task ------------------------------------------------------------------------ */

/* Claims differential privacy if the noise allows it; the target is the true epsilon of all
 * rounds. */
static sefl_status set_privacy(settings *s, const demo *d)
{
    const dp_event ev = { .noise = task_settings_mode(s)->source->law,
                          .z = strtod(d->noise, NULL),
                          .rate = 1,
                          .count = d->rounds,
                          .dim = UINT64_C(1) << 20,
                          .sigma_steps = DP_SIGMA_STEPS };
    dp_claim c;
    SEFL_PASS(settings_setf(s, "demo", "privacy.z=%s", d->noise));
    if (ev.z < dp_law_of(ev.noise)->z_min)
        return settings_set(s, "privacy.claim=none", "demo");
    SEFL_PASS(dp_epsilon(&c, &ev, 1, &(dp_question){ .delta = DELTA }));
    SEFL_NEED(c.claimed, SEFL_EINVAL, "noise %s: %s", d->noise, c.why_not);
    SEFL_PASS(settings_set(s, "privacy.claim=dp", "demo"));
    SEFL_PASS(settings_setf(s, "demo", "privacy.delta=%g", DELTA));
    return settings_setf(s, "demo", "privacy.epsilon=%.6f", c.epsilon * 1.0001 + 1e-6);
}

static sefl_status make_federation(fed_demo *s, const sefl_progress *p)
{
    static const char *const fixed[] = {
        "name=demo",         "population=demo",     "model.embed=64", "model.hidden=64",
        "training.epochs=2", "privacy.noise=joint", "privacy.clip=8",
    };
    sefl_status st = SEFL_OK;
    const demo *d = s->d;
    settings terms;
    sefl_buf document = { 0 };
    settings_init(&terms, task_schema);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        SEFL_TRY(settings_set(&terms, fixed[i], "demo"));
    SEFL_TRY(settings_setf(&terms, "demo", "crypto.scheme=%s", d->scheme));
    SEFL_TRY(settings_setf(&terms, "demo", "rounds.count=%" PRIu32, d->rounds));
    SEFL_TRY(settings_setf(&terms, "demo", "rounds.deadline_ms=%" PRIu64, deadline_ms(d)));
    SEFL_TRY(settings_setf(&terms, "demo", "rounds.threshold=%d",
                           d->clients < 8 ? 2 : (int)d->clients / 4));
    SEFL_TRY(set_privacy(&terms, d));
    SEFL_TRY(
        provision_make(&s->made,
                       &(provision_config){ .folder = dir_in(&s->at, "federation"),
                                            .clients = d->clients,
                                            .key_bits = strcmp(d->scheme, "pad") == 0 ? 0 : d->bits,
                                            .words = d->words,
                                            .seed = 1,
                                            .task = &terms },
                       p));
    SEFL_TRY(file_read(&document, dir_in(&s->at, "federation/public/task.json"), TASK_BYTES_MAX));
    SEFL_TRY(task_read(&s->t, buf_span(&document)));
done:
    buf_clear(&document);
    settings_clear(&terms);
    return st;
}

/* ---- processes ----------------------------------------------------------------------------- */

static sefl_status check_interrupt(void)
{
    return interrupt_seen() ? sefl_fail(SEFL_ECANCELLED, "stopped; every process has ended")
                            : SEFL_OK;
}

static sefl_status ended_early(fed_demo *s, const process *one)
{
    return sefl_fail(SEFL_ECLOSED, "%s ended with %d: see %s", one->name, one->rc,
                     dir_in(&s->at, "log/%s.log", one->name));
}

/* Waits until the role has written its ready file and reads "host:port" from it. */
static sefl_status wait_ready(fed_demo *s, const char *role, char at[64])
{
    sefl_buf line = { 0 };
    const char *ready = dir_in(&s->at, "federation/%s/ready", role);
    for (uint64_t began = clock_now_ns(); !file_exists(ready); clock_pause_ms(POLL_MS)) {
        SEFL_PASS(check_interrupt());
        processes_look(&s->parties);
        const process *one = processes_find(&s->parties, role);
        if (one->ended)
            return ended_early(s, one);
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

static void client_name(char out[PROCESSES_NAME_MAX], uint32_t i)
{
    snprintf(out, PROCESSES_NAME_MAX, "client-%02" PRIu32, i + 1);
}

static sefl_status start_client(fed_demo *s, uint32_t i)
{
    char name[PROCESSES_NAME_MAX];
    client_name(name, i);
    const char *config = dir_in(&s->at, "federation/clients/%s/client.yml", name);
    return processes_start(
        &s->parties, name,
        (const char *[]){ "client", "--config", config, "--server", s->at_as, NULL });
}

static sefl_status start_all(fed_demo *s)
{
    char at_csp[64] = "";
    SEFL_PASS(processes_init(&s->parties, dir_in(&s->at, "log")));
    const char *config = dir_in(&s->at, "federation/csp/csp.yml");
    SEFL_PASS(
        processes_start(&s->parties, "csp", (const char *[]){ "csp", "--config", config, NULL }));
    SEFL_PASS(wait_ready(s, "csp", at_csp));
    config = dir_in(&s->at, "federation/aggregator/aggregator.yml");
    SEFL_PASS(processes_start(&s->parties, "aggregator",
                              (const char *[]){ "aggregator", "--config", config, "--csp", at_csp,
                                                "--linger", "3", NULL }));
    SEFL_PASS(wait_ready(s, "aggregator", s->at_as));
    for (uint32_t i = 0; i < s->d->clients; i++)
        SEFL_PASS(start_client(s, i));
    return SEFL_OK;
}

/* ---- rounds -------------------------------------------------------------------------------- */

static void show_round(fed_demo *s, const run_line *r)
{
    meter_stop(&s->line);
    talk(s, "round %2" PRIu64 "/%" PRIu32, r->round, s->d->rounds);
    if (r->skipped || r->blocked) {
        talk(s, "  %s\n",
             r->skipped ? "skipped: too few clients"
                        : "blocked by the release check; the model stays");
        return;
    }
    talk(s, "  perplexity %6.1f  clients %.0f/%" PRIu32 "  up %s", r->perplexity, r->clients,
         s->d->clients, human_bytes(r->up_bytes).text);
    if (!isnan(r->epsilon_server))
        talk(s, "  eps %.1f", r->epsilon_server);
    talk(s, "  %4.1f s (2PC %.1f)\n", r->seconds, r->open_seconds);
}

/* Kills the last clients with kill -9 while they train for the round. */
static void lose_clients(fed_demo *s)
{
    char name[PROCESSES_NAME_MAX];
    uint32_t from = s->d->clients - s->lost;
    meter_stop(&s->line);
    for (uint32_t i = from; i < s->d->clients; i++) {
        client_name(name, i);
        processes_kill(&s->parties, name);
    }
    s->killed = true;
    talk(s,
         "             client-%02" PRIu32 " to client-%02" PRIu32 ": kill -9 in round %" PRIu64
         "; the round continues without them\n",
         from + 1, s->d->clients, s->lost_round);
}

static sefl_status return_clients(fed_demo *s)
{
    for (uint32_t i = s->d->clients - s->lost; i < s->d->clients; i++)
        SEFL_PASS(start_client(s, i));
    s->returned = true;
    talk(s, "             the %" PRIu32 " clients are started again and continue\n", s->lost);
    return SEFL_OK;
}

/* Prints new rounds, kills and restarts clients when it is time, and detects failed processes. */
static sefl_status look(fed_demo *s)
{
    const char *metrics = dir_in(&s->at, METRICS);
    SEFL_PASS(check_interrupt());
    run_log_clear(&s->rounds);
    if (file_exists(metrics))
        SEFL_PASS(run_log_read(&s->rounds, metrics));
    for (; s->shown < s->rounds.n; s->shown++)
        show_round(s, &s->rounds.at[s->shown]);
    if (s->lost > 0 && !s->killed && s->shown + 1 == s->lost_round)
        lose_clients(s);
    if (s->killed && !s->returned && s->shown >= s->lost_round && s->shown < s->d->rounds)
        SEFL_PASS(return_clients(s));
    processes_look(&s->parties);
    for (size_t i = 0; i < s->parties.n; i++) {
        const process *one = &s->parties.at[i];
        if (one->ended && !one->killed && one->rc != 0)
            return ended_early(s, one);
    }
    SEFL_NEED(s->shown == s->d->rounds || !processes_find(&s->parties, "aggregator")->ended,
              SEFL_ECLOSED, "the aggregator ended before the last round: see %s",
              dir_in(&s->at, "log/aggregator.log"));
    return SEFL_OK;
}

static sefl_status watch(fed_demo *s)
{
    const uint64_t began = clock_now_ns();
    const double limit = 60 + 3e-3 * (double)(deadline_ms(s->d) + 15000) * (double)s->d->rounds;
    s->line.on = !s->d->json && meter_terminal();
    for (; s->shown < s->d->rounds; clock_pause_ms(POLL_MS)) {
        SEFL_PASS(look(s));
        if (meter_due(&s->line))
            meter_line("round %2zu/%" PRIu32 "  under way  %.0f s ", s->shown + 1, s->d->rounds,
                       clock_since(s->began_ns));
        SEFL_NEED(clock_since(began) < limit, SEFL_ETIMEOUT, "the rounds take too long: see %s",
                  dir_in(&s->at, "log"));
    }
    return SEFL_OK;
}

/* Waits until every party has learned that the task is over and has exited. */
static sefl_status wait_end(fed_demo *s)
{
    for (uint64_t began = clock_now_ns(); 1e3 * clock_since(began) < GRACE_MS;) {
        bool over = processes_all_ended(&s->parties);
        SEFL_PASS(look(s)); /* reports one that failed */
        if (over)
            break;
        clock_pause_ms(POLL_MS);
    }
    return SEFL_OK;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static sefl_status write_report(fed_demo *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    report r = { 0 };
    const demo_result *got = &s->result;
    SEFL_TRY(file_read(&b, dir_in(&s->at, METRICS), RUN_LOG_BYTES_MAX));
    SEFL_TRY(file_write_atomic(dir_in(&s->at, "metrics.jsonl"), buf_span(&b), 0644));
    buf_reset(&b);
    json j = json_into(&b);
    json_object(&j, NULL, lf_real("first_perplexity", got->plain.before),
                lf_real("plain_perplexity", got->plain.after),
                lf_real("best_possible_perplexity", got->best));
    SEFL_TRY(json_end(&j));
    SEFL_TRY(wr_u8(&b, '\n'));
    SEFL_TRY(file_write_atomic(dir_in(&s->at, "summary.json"), buf_span(&b), 0644));
    buf_reset(&b);
    SEFL_TRY(report_open(&r, s->at.root));
    SEFL_TRY(sample_run(&r));
    SEFL_TRY(report_html(&b, &r, 1));
    SEFL_TRY(file_write_atomic(dir_in(&s->at, "report.html"), buf_span(&b), 0644));
done:
    report_close(&r);
    buf_clear(&b);
    return st;
}

static sefl_status compare(fed_demo *s, const sefl_progress *p)
{
    uint64_t began = clock_now_ns();
    SEFL_PASS(fedavg_run(&s->result.plain,
                         &(fedavg_config){ .folder = dir_in(&s->at, "federation"),
                                           .task = &s->t,
                                           .clients = s->d->clients },
                         p));
    s->result.plain_seconds = clock_since(began);
    return SEFL_OK;
}

static void tell_made(const fed_demo *s)
{
    const demo *d = s->d;
    char key[48];
    if (s->t.pub)
        snprintf(key, sizeof key, "Paillier %u bits", d->bits);
    else
        snprintf(key, sizeof key, "seeds sealed with %s", s->t.seal->name);
    talk(s,
         "keys      two CAs, %" PRIu32
         " certificates, %s; the task signed by both servers; %.1f s\n"
         "text      generated, %" PRIu64 " tokens per client, each with its own topics; %" PRIu32
         " public words\n"
         "model     LSTM, block-Hankel l = 8, %zu values; %s encryption, noise z = %s\n",
         d->clients + 2, key, s->result.provision_seconds, s->made.tokens_most, s->made.words,
         s->made.values, d->scheme, d->noise);
}

static sefl_status run_demo(fed_demo *s)
{
    const demo *d = s->d;
    SEFL_PASS(prepare_folder(s));
    talk(s, "sefl demo: a whole federation on this machine, in %s\n", s->at.root);
    sefl_progress p = meter_start(&s->line, "creating keys, text and task");
    SEFL_PASS(make_federation(s, &p));
    meter_stop(&s->line);
    s->result.provision_seconds = clock_since(s->began_ns);
    tell_made(s);
    SEFL_PASS(start_all(s));
    talk(s,
         "running   CSP, AS (%s) and %" PRIu32 " clients: %" PRIu32
         " processes, mutual TLS 1.3\n\n",
         s->at_as, d->clients, d->clients + 2);
    SEFL_PASS(watch(s));
    meter_stop(&s->line);
    p = meter_start(&s->line, "plain FedAvg, for comparison");
    SEFL_PASS(compare(s, &p));
    meter_stop(&s->line);
    SEFL_PASS(wait_end(s));
    s->result.seconds = clock_since(s->began_ns);
    s->result.best = s->made.best_perplexity;
    s->result.update_bytes = s->made.update_bytes;
    SEFL_PASS(write_report(s));
    return demo_table(&s->result, &(demo_facts){ .out = s->at.root,
                                                 .task = &s->t,
                                                 .clients = d->clients,
                                                 .lost = s->lost,
                                                 .lost_round = s->lost_round,
                                                 .rounds = &s->rounds,
                                                 .json = d->json });
}

sefl_status demo_fed_run(const demo *d)
{
    fed_demo *s = NULL;
    SEFL_PASS(sefl_new(&s, 1, sizeof *s));
    s->d = d;
    s->lock = -1;
    s->began_ns = clock_now_ns();
    s->lost = (d->clients * 3 + 7) / 8; /* three of eight, rounded up */
    s->lost_round = d->rounds / 2 + 1;
    interrupt_catch();
    sefl_status st = run_demo(s);
    meter_stop(&s->line);
    processes_end(&s->parties);
    run_log_clear(&s->rounds);
    task_clear(&s->t);
    if (s->lock >= 0)
        close(s->lock);
    sefl_free(s);
    return st;
}
