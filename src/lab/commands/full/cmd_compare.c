#include "cli/options.h"
#include "cli/print.h"

#include "base/alloc.h"
#include "simulate/overview.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* FILTER, TEST, WORD: shown if a run has it */
enum { COLUMNS = 16, FILTER = 6, TEST = 11, WORD = 12, CELL = 224 };

typedef struct wish {
    char **run;
    bool json;
} wish;

typedef char row[COLUMNS][CELL];

static const char *const heads[COLUMNS] = { "run",        "protection", "clients",   "rounds",
                                            "block",      "z",          "filter",    "eps server",
                                            "eps others", "ppl last",   "ppl best",  "ppl test",
                                            "ppl word",   "s/round",    "up/client", "between" };

static void number(char *cell, double v)
{
    if (isnan(v))
        snprintf(cell, CELL, "-");
    else
        snprintf(cell, CELL, "%.2f", v);
}

/* Writes "7/8", or "7" and "-/8" if a number is unknown. */
static void of(char *cell, double part, double all, const char *note)
{
    int n = isnan(part) ? snprintf(cell, CELL, "-") : snprintf(cell, CELL, "%.4g", part);
    if (all > 0)
        n += snprintf(cell + n, CELL - (size_t)n, "/%.0f", all);
    snprintf(cell + n, CELL - (size_t)n, "%s", note);
}

static void fill(row r, const overview *o)
{
    const run_totals *t = &o->t;
    const run_line *all = &t->all;
    double clients = overview_mean(o, all->clients), link = overview_mean(o, all->link_bytes);
    if (isnan(link)) /* a federation counts two parts */
        link = overview_mean(o, all->ahead_bytes + all->open_bytes);
    cli_plain(r[0], CELL, o->name);
    snprintf(r[1], CELL, "%s%s", o->protection, o->full ? " (full)" : "");
    of(r[2], clients, o->clients, "");
    of(r[3], (double)t->released, (double)o->rounds_asked, o->over ? "" : " ...");
    snprintf(r[4], CELL, "%s", o->block);
    snprintf(r[5], CELL, "%s", o->z);
    snprintf(r[FILTER], CELL, "%s", *o->facts.filter ? o->facts.filter : "-");
    if (o->claim) {
        number(r[7], all->epsilon_server);
        number(r[8], all->epsilon_others);
    } else {
        snprintf(r[7], CELL, "none");
        snprintf(r[8], CELL, "none");
    }
    number(r[9], all->perplexity);
    number(r[10], t->best);
    number(r[TEST], o->test_best > 0 ? o->test_best : o->test_last > 0 ? o->test_last : NAN);
    number(r[WORD], all->word_perplexity);
    number(r[13], all->seconds / (double)t->rounds);
    snprintf(r[14], CELL, "%s",
             all->clients > 0 ? human_bytes(all->up_bytes / all->clients).text : "-");
    snprintf(r[15], CELL, "%s", isnan(link) ? "-" : human_bytes(link).text);
}

/* Aligns names to the left and numbers to the right. */
static void print_table(row *rows, size_t n)
{
    bool shown[COLUMNS] = { 0 };
    for (size_t i = 1; i < n; i++)
        for (size_t c = 0; c < COLUMNS; c++)
            shown[c] |= (c != FILTER && c != TEST && c != WORD) || strcmp(rows[i][c], "-") != 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < COLUMNS; c++) {
            size_t width = 0;
            if (!shown[c])
                continue;
            for (size_t k = 0; k < n; k++)
                width = strlen(rows[k][c]) > width ? strlen(rows[k][c]) : width;
            printf(c < 2 ? "%-*s" : "%*s", (int)width, rows[i][c]);
            printf(c + 1 < COLUMNS ? "  " : "\n");
        }
    }
}

static sefl_status compare(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    size_t n = 0;
    overview *o = NULL;
    row *rows = NULL;
    overview *first = NULL;
    size_t others = 0;
    sefl_buf b = { 0 };
    while (w->run[n])
        n++;
    SEFL_TRY(sefl_new(&o, 1, sizeof *o));
    SEFL_TRY(sefl_new(&first, 1, sizeof *first));
    SEFL_TRY(sefl_new(&rows, n + 1, sizeof *rows));
    for (size_t c = 0; c < COLUMNS; c++)
        snprintf(rows[0][c], CELL, "%s", heads[c]);
    for (size_t i = 0; i < n; i++) {
        SEFL_TRY(overview_read(o, w->run[i]));
        fill(rows[i + 1], o);
        if (i == 0)
            *first = *o;
        others += overview_differ(first, o);
        if (w->json)
            SEFL_TRY(print_made(overview_json(&b, o), &b));
    }
    if (!w->json)
        print_table(rows, n + 1);
    if (others > 0)
        fprintf(stderr,
                "%zu of the runs %s measured on a different text than the first: their "
                "perplexities are not comparable\n",
                others, others == 1 ? "was" : "were");
done:
    sefl_free(o);
    sefl_free(first);
    sefl_free(rows);
    return st;
}

static const setting_def options[] = {
    { "json", SETTING_FLAG, .help = "Print each run as one JSON object", SETTING_TO(wish, json) },
    { 0 },
};

const cli_command cmd_compare = {
    .name = "compare",
    .about =
        "RUN is a run of any kind: a folder of 'sefl simulate', such as runs/NAME, a demo, an "
        "aggregator, a provisioned federation, or a metrics.jsonl file. The run may be "
        "unfinished. '-' means that the run does not record the number. "
        "'block' is model.block; 8/1/8 adds model.block_embed and model.block_decoder. "
        "'ppl test' is the test perplexity of the model with the best validation result. "
        "Perplexity is per token; 'ppl word' is 'ppl last' per word, for runs with BPE tokens. "
        "Runs with different vocabularies can be compared only per word.",
    .example = "echo 'rounds.count: 2' > e.yml && sefl simulate -c e.yml\n"
               "  sefl compare runs/experiment",
    CLI_OPTIONS(wish),
    CLI_WORK(compare, "RUN...", "run folders such as runs/NAME", offsetof(wish, run)),
};
