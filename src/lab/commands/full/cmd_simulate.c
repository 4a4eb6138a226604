#include "cli/full/experiment_args.h"
#include "cli/interrupt.h"
#include "cli/meter.h"
#include "cli/print.h"
#include "commands/full/job.h"
#include "commands/full/serve.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "fed/hook.h"
#include "net/web_server.h"
#include "privacy/accountant/accountant.h"
#include "simulate/simulate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

typedef struct session {
    experiment_args args;
    federation_key key; /* shared by all runs with the same seed */
    const char *runs;
    bool json, quiet, serve;
    host_port serve_at;
    serve *page; /* NULL: none */
    uint64_t groups;
    job job;    /* processes that share the work */
    meter line; /* progress line */
    char name[EXPERIMENT_NAME_MAX + 1];
    uint32_t clients;
    uint64_t began_ns, rounds, round, rounds_here;
    size_t run, empty; /* number of this run, from 1; number of runs that learned nothing */
    unsigned warned;   /* number of warnings printed at the start of this run */
} session;

/* ---- progress -------------------------------------------------------------------------------- */

static void on_begin(void *ctx, const federation *f, const simulate_result *r)
{
    session *s = ctx;
    const experiment *e = f->e;
    snprintf(s->name, sizeof s->name, "%s", e->name);
    s->clients = e->clients;
    s->rounds = f->task.rounds;
    s->began_ns = clock_now_ns();
    s->round = r->t.rounds;
    s->rounds_here = 0;
    s->warned = 0;
    if (s->serve)
        serve_folder(&s->page,
                     &(serve_run){ .folder = r->folder, .full = e->full, .clients = f->clients },
                     s->runs, &s->serve_at);
    char words[32] = ""; /* an external model has none */
    if (f->tokens > 0)
        snprintf(words, sizeof words, ", %" PRIu64 " words", f->tokens);
    char share[48] = "";
    if (r->ranks > 1)
        snprintf(share, sizeof share, "%u ranks with ", r->ranks);
    const bool gpu = strcmp(r->device, "cpu") != 0;
    meter_stop(&s->line);
    if (*r->fallback)
        fprintf(stderr, "sefl simulate: training on the CPU: %s\n", r->fallback);
    if (s->quiet)
        return;
    s->line.shown_ns = 0; /* shows progress of the first round at once */
    if (s->args.runs > 1)
        fprintf(stderr, "run %zu of %zu: ", s->run, s->args.runs);
    fprintf(stderr,
            "sefl simulate: %s: %" PRIu32
            " clients%s, %zu values, protection %s%s  (%s%s%s%u thread%s, seed %" PRIu64 ")\n",
            e->name, e->clients, words, f->task.values, e->protection->name,
            !e->protection->two_servers ? ""
            : e->full                   ? ", crypto full"
                                        : ", crypto clear",
            gpu ? r->device : "", gpu ? ", " : "", share, r->threads, r->threads == 1 ? "" : "s",
            e->seed);
    if (!r->claim)
        fprintf(stderr, "no differential privacy claimed\n");
    if (r->t.rounds > 0)
        fprintf(stderr, "resuming after round %" PRIu64 "\n", r->t.rounds);
    for (; s->warned < r->warnings.n; s->warned++)
        fprintf(stderr, "warning: %s\n", r->warnings.text[s->warned]);
}

static void print_round(const session *s, const run_line *r)
{
    if (s->job.groups > 1) /* their lines mix */
        printf("%s  ", s->name);
    printf("round %" PRIu64 "/%" PRIu64, r->round, s->rounds);
    if (r->skipped)
        printf("  skipped: too few clients");
    if (r->blocked)
        printf("  blocked by the release check");
    if (r->perplexity > 0)
        printf("  loss %.3f  ppl %.2f", r->loss, r->perplexity);
    if (r->word_perplexity > 0)
        printf(" (%.2f per word)", r->word_perplexity);
    if (!isnan(r->epsilon_server))
        printf("  eps %.2f/%.2f", r->epsilon_server, r->epsilon_target);
    printf("  clients %.0f/%" PRIu32, r->clients, s->clients);
    if (r->late + r->dropped + r->diverged > 0)
        printf(" (%.0f late, %.0f dropped, %.0f diverged)", r->late, r->dropped, r->diverged);
    printf("  up %s  %.1f s\n", human_bytes(r->up_bytes).text, r->seconds);
}

static void on_turnout(void *ctx, uint64_t round, const char *fates, uint32_t clients)
{
    session *s = ctx;
    if (s->page)
        serve_turnout(s->page, round, fates, clients);
}

static void on_round(void *ctx, const run_line *r)
{
    session *s = ctx;
    sefl_buf b = { 0 };
    s->round = r->round;
    s->rounds_here++;
    meter_stop(&s->line);
    if (s->quiet && !s->json)
        return;
    if (s->json)
        (void)!print_made(run_line_write(&b, r, NULL), &b);
    else
        print_round(s, r);
    fflush(stdout);
}

/* Redraws one line: clients of this round, clients per second, time left for all rounds. */
static bool on_progress(void *self, uint64_t done, uint64_t total)
{
    session *s = self;
    if (s->page && s->began_ns != 0)
        serve_progress(s->page, s->round + 1, done, total);
    if (interrupt_seen() || !meter_due(&s->line))
        return !interrupt_seen();
    if (s->began_ns == 0) {
        meter_line("text of client %" PRIu64 "/%" PRIu64, done, total);
        return true;
    }
    double t = clock_since(s->began_ns), share = total ? (double)done / (double)total : 0;
    double rounds = (double)s->rounds_here + share;
    char rate[64] = "";
    if (rounds > 0 && t > 0) {
        double left = t / rounds * ((double)(s->rounds - s->round) - share);
        snprintf(rate, sizeof rate, "  %.1f clients/s  %" PRIu64 ":%02" PRIu64 " left",
                 rounds * (double)total / t, (uint64_t)left / 60, (uint64_t)left % 60);
    }
    meter_line("round %" PRIu64 "/%" PRIu64 "  client %" PRIu64 "/%" PRIu64 "%s", s->round + 1,
               s->rounds, done, total, rate);
    return true;
}

static bool go_on(void *self, uint64_t done, uint64_t total)
{
    (void)self, (void)done, (void)total;
    return !interrupt_seen();
}

static void print_summary(const simulate_result *r, unsigned warned)
{
    const run_line *all = &r->t.all;
    if (r->was_there) {
        printf("%s is already finished: %" PRIu64 " rounds, %s\n", r->folder, r->t.rounds, r->why);
        return;
    }
    printf("%s: %s\n", r->folder, r->why);
    if (r->t.best > 0) {
        if (r->first_perplexity > 0)
            printf("perplexity  %.2f at the start, ", r->first_perplexity);
        else
            printf("perplexity  ");
        printf("%.2f at the end, %.2f at best (round %" PRIu64 ")", all->perplexity, r->t.best,
               r->t.best_round);
        if (r->best_possible > 0)
            printf(", %.2f is the best possible", r->best_possible);
        if (all->word_perplexity > 0)
            printf("\nper word    %.2f at the end; the other perplexities are per token",
                   all->word_perplexity);
        printf("\n");
    }
    if (r->test_best > 0)
        printf("test        %.2f for the model of round %" PRIu64 ", %.2f at the end\n",
               r->test_best, r->t.best_round, r->test_last);
    else if (r->test_last > 0)
        printf("test        %.2f at the end\n", r->test_last);
    if (!isnan(all->epsilon_server))
        printf("privacy     epsilon %.4g against a server, %.4g against others, at delta %g, for a "
               "%s (target %g)\n",
               dp_four_digits(all->epsilon_server, true), dp_four_digits(all->epsilon_others, true),
               r->delta, r->unit_record ? "record, not for a client" : "client", r->epsilon_target);
    else
        printf("privacy     no differential privacy claimed\n");
    if (r->classic.epsilon > 0) {
        char classic[PLAN_CLASSIC_TEXT];
        plan_classic_text(classic, &r->classic);
        printf("classic     %s\n", classic);
    }
    if (r->weight_cap > 0)
        printf("weights     a client of %" PRIu64
               " words (with a trainer: examples) or more has the full weight\n",
               r->weight_cap);
    printf("seconds     train %.1f  encrypt %.1f  sum %.1f (processor time)  2pc %.1f  step %.1f  "
           "eval "
           "%.1f\n",
           all->train_seconds, all->encrypt_seconds, all->sum_seconds, all->twopc_seconds,
           all->step_seconds, all->eval_seconds);
    if (*r->device && strcmp(r->device, "cpu") != 0)
        printf("device      %s; train is %s\n", r->device,
               strcmp(r->device, HOOK_DEVICE) == 0 ? "its time" : "GPU time");
    else if (all->train_seconds > 0)
        printf("rounds      %.1f s of processor time, %+.1f %% over training alone; %.1f s of wall "
               "time "
               "on %u thread%s\n",
               all->cpu_seconds, 100 * (all->cpu_seconds / all->train_seconds - 1), all->seconds,
               r->threads, r->threads == 1 ? "" : "s");
    printf("bytes       up %s  down %s  between the servers %s\n", human_bytes(all->up_bytes).text,
           human_bytes(all->down_bytes).text, human_bytes(all->link_bytes).text);
    printf("memory      %.0f MB\n", (double)r->memory_bytes / 1e6);
    for (; warned < r->warnings.n; warned++)
        printf("warning: %s\n", r->warnings.text[warned]);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Prints the result of a run. */
static sefl_status show(session *s, const simulate_result *r, const experiment *e)
{
    sefl_buf b = { 0 };
    if (s->serve && r->was_there)
        serve_folder(&s->page, &(serve_run){ .folder = r->folder, .full = e->full }, s->runs,
                     &s->serve_at);
    if (s->json)
        SEFL_PASS(print_made(simulate_summary_write(&b, r, e), &b));
    else
        print_summary(r, s->warned);
    if (r->t.rounds > 0 && r->t.skipped == r->t.rounds) {
        s->empty++;
        fprintf(stderr,
                "sefl simulate: %s: every round was skipped because too few clients took part, so "
                "nothing was learned\n(rounds.threshold, network.dropout, rounds.deadline_ms)\n",
                r->folder);
    }
    s->empty +=
        (r->t.all.diverged > 0 && r->t.all.diverged == r->t.all.clients) ||
        (r->t.blocked > 0 && r->t.blocked + r->t.skipped == r->t.rounds); /* a warning reports it */
    return SEFL_OK;
}

static sefl_status one_run(void *self, settings *one, experiment *e)
{
    sefl_status st = SEFL_OK;
    session *s = self;
    simulate_result *r = NULL;
    sefl_progress p = { .report = on_progress, .self = s }, stop = { .report = go_on };
    if (s->run++ % s->job.groups != s->job.group)
        return SEFL_OK; /* another group's */
    s->began_ns = 0;
    SEFL_TRY(sefl_new(&r, 1, sizeof *r));
    SEFL_TRY(simulate_run(&(simulate_config){ .settings = one,
                                              .runs = s->runs,
                                              .ranks = s->job.ranks,
                                              .key = &s->key,
                                              .ctx = s,
                                              .begin = on_begin,
                                              .round = on_round,
                                              .turnout = on_turnout,
                                              .progress = &p,
                                              .stop = &stop },
                          r));
    meter_stop(&s->line);
    if (job_leads(&s->job))
        SEFL_TRY(show(s, r, e));
done:
    meter_stop(&s->line);
    sefl_free(r);
    return st;
}

static sefl_status count_private(void *ctx, settings *one, experiment *e)
{
    size_t *n = ctx;
    (void)one;
    *n += !e->data_public;
    return SEFL_OK;
}

/* Prints why the runs ended early; returns the exit code. */
static int give_up(const session *s, sefl_status st)
{
    const ranks *r = s->job.ranks;
    if (!job_leads(&s->job) && st == SEFL_ECANCELLED)
        return CLI_DONE; /* the exit code of the rank that reports it becomes the job's */
    if (!job_leads(&s->job))
        st = sefl_fail_at(st, "rank %u of %u", r->rank, r->size);
    if (r->size > 1 && st == SEFL_ECANCELLED)
        fprintf(stderr,
                "sefl simulate: %s: the job ends. If nobody stopped it, a rank has failed or died, "
                "and its message, or the launcher's, says why\n",
                sefl_last_error());
    int rc = r->size > 1 && st == SEFL_ECANCELLED ? CLI_FAILED : cli_failed(&cmd_simulate, st);
    if (st == SEFL_ECANCELLED)
        fprintf(stderr, "run the same command again to resume after the last finished round\n");
    return rc;
}

/* Checks all runs and counts those with private text. */
static sefl_status check(session *s, size_t *closed)
{
    SEFL_PASS(experiment_args_each(&s->args, count_private, closed));
    if (*s->serve_at.host)
        s->serve = true;
    else
        snprintf(s->serve_at.host, sizeof s->serve_at.host, "127.0.0.1");
    return s->serve ? sefl_at(web_server_check_loopback(s->serve_at.host), "--serve-at") : SEFL_OK;
}

static int cmd_simulate_run(void *self)
{
    session *s = self;
    size_t closed = 0;
    sefl_progress stop = { .report = go_on };
    int rc = CLI_DONE;
    interrupt_catch();
    sefl_status st = job_open(&s->job, s->groups, &stop);
    if (st == SEFL_OK)
        st = ranks_agree(s->job.ranks, check(s, &closed));
    s->line.on = job_leads(&s->job) && meter_terminal() && !s->quiet;
    if (st == SEFL_OK && closed > 1 && job_leads(&s->job) && s->job.group == 0)
        fprintf(stderr,
                "choice not accounted: %zu runs use private text, and choosing the best of them "
                "reveals more\nthan any single one; no epsilon below covers that choice (for "
                "public text set data.public: true)\n",
                closed);
    if (st == SEFL_OK)
        st = experiment_args_each(&s->args, one_run, s);
    federation_key_clear(&s->key);
    if (st != SEFL_OK)
        rc = give_up(s, st);
    else if (s->empty)
        rc = CLI_FAILED;
    job_close(&s->job);
    if (st == SEFL_OK && s->page)
        serve_on(s->page);
    serve_stop(s->page);
    return rc;
}

static const setting_def options[] = {
    EXPERIMENT_OPTIONS,
    { "runs", SETTING_PATH, "runs", .arg = "DIR", SETTING_TO(session, runs),
      .help = "Folder in which each run gets its own folder" },
    { "json", SETTING_FLAG, SETTING_TO(session, json),
      .help = "Print each round and each run as one JSON object" },
    { "quiet", SETTING_FLAG, SETTING_TO(session, quiet),
      .help = "Print only the summary; with --json, no line of progress" },
#ifdef SEFL_MPI
    { "groups", SETTING_U64, "1", .min = 1, .max = EXPERIMENT_RUNS_MAX, SETTING_TO(session, groups),
      .help = "Under mpirun: divide the ranks into this many groups; each takes every N-th run of "
              "the sweep" },
#endif
    { "serve", SETTING_FLAG, SETTING_TO(session, serve),
      .help = "Serve a web page of the run, print the address to open, and keep serving after the "
              "last run until Ctrl-C" },
    { "serve-at", SETTING_ADDRESS, "", .arg = "ADDRESS:PORT", SETTING_TO(session, serve_at),
      .help = "Serve that page at this loopback address, not at 127.0.0.1 with a port that the "
              "system chooses" },
    { 0 },
};

const cli_command cmd_simulate = {
    .name = "simulate",
    .about =
        "A run writes config.yml, metrics.jsonl, model/, ledger, log and summary.json to DIR/NAME. "
        "If you repeat the command, it skips finished runs and resumes an interrupted run.",
    .example = "echo 'clients: 20' > experiment.yml && sefl simulate -c experiment.yml",
    EXPERIMENT_COMMAND(session, .run = cmd_simulate_run),
};
