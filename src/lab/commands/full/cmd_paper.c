/* sefl paper: repeats the paper's evaluation and draws its figures. */
#include "cli/interrupt.h"
#include "cli/meter.h"
#include "cli/options.h"

#include "build_info.h"
#include "model/engine/engine.h"
#include "paper/paper.h"
#include "sefl/sefl.h"
#include "simulate/experiment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct wish {
    paper_options o;
    settings flags; /* from --set */
    unsigned figure;
    const char *shard;
    bool list, draw;
    char runs[PATH_MAX];
    meter line;
} wish;

/* ---- output ---------------------------------------------------------------------------------- */

static void say(void *ctx, const char *text)
{
    wish *w = ctx;
    meter_stop(&w->line);
    printf("%s%s\n", w->o.quick ? "QUICK  " : "", text);
    fflush(stdout);
}

static void on_round(void *ctx, const char *name, uint64_t round, uint64_t rounds,
                     double perplexity)
{
    wish *w = ctx;
    if (meter_due(&w->line))
        meter_line("%s  round %" PRIu64 "/%" PRIu64 "  valid %.2f", name, round, rounds,
                   perplexity);
}

static bool go_on(void *self, uint64_t done, uint64_t total)
{
    (void)self, (void)done, (void)total;
    return !interrupt_seen();
}

/* ---- work ------------------------------------------------------------------------------------ */

static bool is_tuned(const settings *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->value[i])
            return true;
    return false;
}

static sefl_status read_shard(paper_options *o, const char *text)
{
    unsigned i, n;
    char rest;
    if (!text)
        return SEFL_OK;
    SEFL_NEED(sscanf(text, "%4u/%4u%c", &i, &n, &rest) == 2 && i >= 1 && i <= n, SEFL_EINVAL,
              "--shard must be I/N with I from 1 to N, such as 1/2, not \"%s\"", text);
    o->shard = i - 1;
    o->shards = n;
    return SEFL_OK;
}

/* Completes the options that depend on others. */
static sefl_status complete(wish *w, const sefl_progress *stop)
{
    paper_options *o = &w->o;
    const bool tuned = is_tuned(&w->flags);
    SEFL_NEED(!tuned || o->results, SEFL_EINVAL,
              "--set changes the table's settings: give these results a folder (--results)");
    SEFL_NEED(o->data || o->quick || w->draw || w->list, SEFL_EINVAL,
              "the full runs need the text of WikiText-2: --data DIR with train.txt, valid.txt and "
              "test.txt; --quick generates a little text");
    SEFL_PASS(read_shard(o, w->shard));
    if (o->quick && strcmp(o->device, "auto") == 0)
        o->device = "cpu";
    if (!o->results)
        o->results = o->quick ? "results-quick" : "results";
    if (!o->runs) {
        const char *slash = strrchr(o->results, '/');
        snprintf(w->runs, sizeof w->runs, "runs/%s", slash ? slash + 1 : o->results);
        o->runs = w->runs;
    }
    o->over = tuned ? &w->flags : NULL;
    o->version = sefl_version();
    o->commit = SEFL_BUILD_COMMIT;
    o->ctx = w;
    o->say = say;
    o->round = on_round;
    o->stop = stop;
    return SEFL_OK;
}

static const struct measurement {
    unsigned figure;
    const char *name;
    sefl_status (*measure)(const paper_options *o);
    sefl_status (*draw)(const paper_options *o);
} measurements[] = {
    { PAPER_CSR, "csr", paper_csr, paper_csr_draw },
    { PAPER_PROJECTION, "projection", paper_projection, paper_projection_draw },
    { PAPER_COST, "cost", paper_cost, paper_cost_draw }, /* the longest */
    { 0 },
};

static sefl_status all_work(const wish *w, unsigned figures)
{
    const paper_options *o = &w->o;
    if (!w->draw)
        SEFL_PASS(paper_runs(o, figures));
    SEFL_PASS(paper_draw(o));
    for (const struct measurement *m = measurements; m->figure; m++) {
        if (!w->draw && (m->figure & figures))
            SEFL_PASS(paper_alone(o, m->name, m->measure));
        SEFL_PASS(m->draw(o));
    }
    paper_say(o, "figures and tables are in %s", o->results);
    return SEFL_OK;
}

static int cmd_paper_run(void *self)
{
    wish *w = self;
    const sefl_progress stop = { .report = go_on };
    const unsigned figures = w->figure == 0 ? PAPER_ALL : 1U << (w->figure - 1);
    w->line.on = meter_terminal();
    sefl_status st = complete(w, &stop);
    if (st == SEFL_OK)
        st = w->list ? paper_list(&w->o, figures) : paper_open(&w->o);
    if (st == SEFL_OK && !w->list)
        st = all_work(w, figures);
    meter_stop(&w->line);
    if (st == SEFL_OK)
        return CLI_DONE;
    int rc = cli_failed(&cmd_paper, st);
    if (st == SEFL_ECANCELLED)
        fprintf(stderr, "run the same command again to resume after the last finished round\n");
    return rc;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "figure", SETTING_CHOICE, "all", .words = "all " PAPER_FIGURES, TO(figure),
      .help =
          "What to measure: perplexity by share of clients that drop out (dropout), block size "
          "(blocks) or noise (epsilon); the cost of a secure round (cost); block-Hankel compared "
          "with sparse updates (csr); training in block-Hankel form compared with projecting dense "
          "updates (projection); the most noise at which the paper's dropout table holds (noise); "
          "a "
          "start from a model of public text (start); other settings of the models (models); the "
          "real cryptography compared with runs in the clear (full)" },
    { "data", SETTING_PATH, "", .arg = "DIR", TO(o.data),
      .help = "Folder with WikiText-2 as train.txt, valid.txt and test.txt" },
    { "quick", SETTING_FLAG, TO(o.quick),
      .help = "Run everything at small scale on the CPU; results are marked QUICK" },
    { "results", SETTING_PATH, "", .arg = "DIR", TO(o.results),
      .help = "Folder for results; default: results, or results-quick with --quick" },
    { "runs", SETTING_PATH, "", .arg = "DIR", TO(o.runs),
      .help = "Folder for the run folders; default: runs/NAME if --results ends with NAME" },
    { "device", SETTING_WORD, "auto", .words = ENGINE_DEVICES, TO(o.device),
      .help = "Device to train on; auto uses a GPU if there is one, and the CPU with --quick" },
    { "threads", SETTING_U64, "0", .max = 256, TO(o.threads),
      .help = "Number of worker threads; 0 means one per core" },
    { "shard", SETTING_TEXT, "", .arg = "I/N", TO(shard),
      .help = "Do only every N-th run, beginning with run I, to divide the runs among machines" },
    { "draw", SETTING_FLAG, TO(draw), .help = "Draw all figures without a new run" },
    { "list", SETTING_FLAG, TO(list), .help = "List the runs and their results so far" },
    OPTION_SET,
    { 0 },
};

const cli_command cmd_paper = {
    .name = "paper",
    .about = "Starts the runs that the results folder lacks, the most important ones first, and "
             "draws each figure as CSV and SVG, together with the paper's values. If you repeat "
             "the command, it resumes. Several processes on one machine may run the same command: "
             "each takes the next run that no other process has taken. --set changes a setting of "
             "all runs, for tuning.",
    .notes = "docs/REPRODUCTION.md describes the runs and the results.",
    .example = "sefl paper --quick --figure dropout",
    CLI_OPTIONS(wish),
    CLI_SETTINGS(wish, flags),
    CLI_RUN(cmd_paper_run, NULL, NULL, 0),
    .make_schema = experiment_schema,
    .interruptible = true,
};
