/* Draws the figures of perplexity from the results folder alone. Each figure is a sheet: a CSV and
 * a table of tables.md; those over dropout, block size and noise have an SVG, too. */
#include "paper/limit.h"
#include "paper/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { X_MAX = 16, LINES = 4, FEW_CLIENTS = 10, MANY_CLIENTS = 1000, QUICK_MANY = 40 };

/* ---- points ---------------------------------------------------------------------------------- */

/* A point stands for the results that differ only in their seeds. untrained is the perplexity
 * before training. */
static const char point_columns[] =
    "scale model protection block dropout_percent clients rounds z variant values noise_ratio "
    "classic_epsilon_of_a_round epsilon_server epsilon_others seeds test test_sd test_low "
    "test_high valid untrained paper_test";

/* The paper's test perplexity for this run; NAN if it has none. */
static double paper_test(const paper_options *o, const paper_run *r)
{
    const bool table = strcmp(r->protection, "sefl") == 0 && strcmp(r->z, "0") == 0 &&
                       !r->variant && r->rounds == paper_rounds(o->quick, PAPER_ROUNDS) &&
                       r->block == paper_block(r->body);
    return table ? limit_paper(r->body, r->dropout) : NAN;
}

/* Adds the point of a run, whose seed does not matter; nothing if it has no result. */
static sefl_status add_point(sheet *out, const sheet *all, paper_run run)
{
    double test[PAPER_SEEDS], valid[PAPER_SEEDS];
    const sheet_cell *last = NULL; /* of the highest seed, for what the seed does not change */
    size_t n = 0;
    for (run.seed = 1; run.seed <= PAPER_SEEDS; run.seed++) {
        const sheet_cell *r = records_find(all, &run);
        if (r) {
            test[n] = record_number(r, "best_test"), valid[n++] = record_number(r, "best_valid");
            last = r;
        }
    }
    const spread t = spread_of(test, n), v = spread_of(valid, n);
    if (!last)
        return SEFL_OK;
    return sheet_add(
        out,
        (const char *[]){ paper_body_names[run.body], run.protection, run.z,
                          run.variant ? run.variant->name : "" },
        (double[]){ run.block, run.dropout, run.clients, run.rounds, record_number(last, "values"),
                    record_number(last, "noise_ratio"), record_number(last, "classic_epsilon"),
                    record_number(last, "epsilon_server"), record_number(last, "epsilon_others"),
                    (double)t.n, t.mean, t.sd, t.low, t.high, v.mean,
                    record_number(last, "first_valid"), paper_test(out->o, &run) });
}

static sefl_status add_points(sheet *out, const sheet *all, unsigned figures)
{
    paper_table t;
    paper_table_make(&t, out->o->quick, figures);
    for (size_t i = 0; i < t.n; i++)
        if (t.run[i].seed == 1) /* every point has it */
            SEFL_PASS(add_point(out, all, t.run[i]));
    return SEFL_OK;
}

/* ---- charts ---------------------------------------------------------------------------------- */

enum { ANY_BLOCK, DENSE, PRUNED };

typedef struct line {
    const char *name, *protection; /* name NULL: no line */
    int block;
    const char *variant; /* NULL: none */
    bool level;          /* the same value at every x */
    bool paper;          /* the paper's values */
} line;

/* A chart of each model over the column x, with `clients` clients; 0: any. */
typedef struct chart {
    unsigned figure;
    const char *name, *title, *x, *x_name;
    unsigned clients;
    bool numbered; /* the name ends with the number of clients */
    line line[LINES];
} chart;

#define APPROACHES                                                                    \
    {                                                                                 \
        { "plain FedAvg", "none", DENSE, .level = true }, { "CDP-FL", "cdp", DENSE }, \
            { "SEFL unpruned", "sefl", DENSE }, { "SEFL with BHM", "sefl", PRUNED },  \
    }
static const chart charts[] = {
    { PAPER_DROPOUT, "dropout", "test perplexity against dropout", "dropout_percent",
      "percent of the clients that drop out of each round",
      .line = { { "this program", "sefl" }, { "the paper", "sefl", .paper = true } } },
    { PAPER_BLOCKS, "blocks", "test perplexity against block size", "block", "block size l",
      .line = { { "SEFL", "sefl" } } },
    { PAPER_EPSILON, "epsilon", "test perplexity against noise", "z", "noise multiplier z",
      FEW_CLIENTS, true, APPROACHES },
    { PAPER_EPSILON, "epsilon", "test perplexity against noise", "z", "noise multiplier z",
      MANY_CLIENTS, true, APPROACHES },
    { PAPER_START, "start", "test perplexity by start", "z", "noise multiplier z", FEW_CLIENTS,
      .line = { { "public text alone", "none", .variant = "public", .level = true },
                { "random start", "sefl", .variant = "rest" },
                { "public start", "sefl", .variant = "start" } } },
};

/* A chart in the making; it must not move. */
typedef struct grid {
    svg_chart c;
    char title[96], label[X_MAX][16];
    const char *labels[X_MAX];
    double x[X_MAX], y[LINES][X_MAX], low[LINES][X_MAX], high[LINES][X_MAX];
} grid;

static double value(const sheet *s, size_t row, const char *column)
{
    const char *text = sheet_get_text(s, row, column);
    return *text ? strtod(text, NULL) : sheet_get(s, row, column);
}

static bool is_text(const sheet *s, size_t row, const char *column, const char *want)
{
    return strcmp(sheet_get_text(s, row, column), want) == 0;
}

static bool on_line(const sheet *s, size_t row, const line *l, unsigned body, unsigned clients)
{
    const bool dense = sheet_get(s, row, "block") == 1;
    return is_text(s, row, "model", paper_body_names[body]) &&
           is_text(s, row, "protection", l->protection) &&
           is_text(s, row, "variant", l->variant ? l->variant : "") &&
           (l->block == ANY_BLOCK || dense == (l->block == DENSE)) &&
           (clients == 0 || l->level || sheet_get(s, row, "clients") == clients);
}

/* Inserts x among the ascending places of the axis unless it is there. */
static void add_x(grid *g, double x)
{
    size_t i = 0;
    while (i < g->c.n && g->x[i] < x)
        i++;
    if ((i < g->c.n && g->x[i] == x) || g->c.n == X_MAX)
        return;
    memmove(&g->x[i + 1], &g->x[i], (g->c.n++ - i) * sizeof *g->x);
    g->x[i] = x;
}

/* In the figure of noise, a model that is worse than the untrained one, or that the release check
 * blocked, counts as the untrained one, which would be kept instead; fmin ignores NAN. */
static void take_point(grid *g, size_t k, size_t i, const sheet *s, size_t row, const chart *c)
{
    const line *l = &c->line[k];
    const double most = c->figure == PAPER_EPSILON ? sheet_get(s, row, "untrained") : INFINITY;
    if (isnan(sheet_get(s, row, "test")) && c->figure != PAPER_EPSILON)
        return;
    g->y[k][i] = l->paper ? sheet_get(s, row, "paper_test") : fmin(sheet_get(s, row, "test"), most);
    g->low[k][i] = fmin(sheet_get(s, row, "test_low"), most);
    g->high[k][i] = fmin(sheet_get(s, row, "test_high"), most);
}

static void grid_fill(grid *g, const sheet *s, const chart *c, unsigned body, unsigned clients)
{
    for (const line *l = c->line; l < c->line + LINES && l->name; l++)
        for (size_t row = 0; row < s->rows && !l->level; row++)
            if (on_line(s, row, l, body, clients))
                add_x(g, value(s, row, c->x));
    for (size_t i = 0; i < g->c.n; i++) {
        snprintf(g->label[i], sizeof g->label[i], "%g", g->x[i]);
        g->labels[i] = g->label[i];
    }
    for (size_t k = 0; k < LINES && c->line[k].name; k++) {
        const line *l = &c->line[k];
        const bool dashed = l->level || l->paper;
        for (size_t i = 0; i < g->c.n; i++) {
            g->y[k][i] = g->low[k][i] = g->high[k][i] = NAN;
            for (size_t row = 0; row < s->rows; row++)
                if (on_line(s, row, l, body, clients) &&
                    (l->level || value(s, row, c->x) == g->x[i]))
                    take_point(g, k, i, s, row, c);
        }
        g->c.series[g->c.count++] = (svg_series){ .name = l->name,
                                                  .y = g->y[k],
                                                  .dashed = dashed,
                                                  .low = dashed ? NULL : g->low[k],
                                                  .high = g->high[k] };
    }
}

static sefl_status draw_chart(const sheet *s, const chart *c)
{
    static const char *const titles[PAPER_BODIES] = { "LSTM", "Transformer" };
    const bool quick = s->o->quick;
    const unsigned clients = quick && c->clients == MANY_CLIENTS ? QUICK_MANY : c->clients;
    grid g[PAPER_BODIES] = { 0 };
    svg_chart list[PAPER_BODIES];
    char name[64];
    for (unsigned b = 0; b < PAPER_BODIES; b++) {
        snprintf(g[b].title, sizeof g[b].title, clients ? "%s: %s, %u clients" : "%s: %s",
                 titles[b], c->title, clients);
        g[b].c = (svg_chart){ .title = g[b].title,
                              .unit = "",
                              .x_name = c->x_name,
                              .x_text = g[b].labels,
                              .log = c->clients > 0 };
        grid_fill(&g[b], s, c, b, clients);
        list[b] = g[b].c;
    }
    snprintf(name, sizeof name, c->numbered ? "%s-%u" : "%s", c->name, clients);
    return paper_svg(s->o, name, list, PAPER_BODIES);
}

/* ---- the real cryptography ------------------------------------------------------------------- */

static const char full_columns[] =
    "scale model dropout_percent z rounds clear_sha256 full_sha256 equal";

/* Compares the hash of the last model with crypto full and with crypto clear. */
static sefl_status add_full(sheet *out, const sheet *all)
{
    paper_table t;
    paper_table_make(&t, out->o->quick, PAPER_FULL);
    for (const paper_run *r = t.run; r < t.run + t.n; r++) {
        paper_run run = *r;
        run.variant = paper_variant_named("full");
        const sheet_cell *clear = records_find(all, r), *full = records_find(all, &run);
        if (!full || !clear || full == clear)
            continue;
        const char *hash = record_text(full, "model_sha256"),
                   *clear_hash = record_text(clear, "model_sha256");
        SEFL_PASS(
            sheet_add(out,
                      (const char *[]){ paper_body_names[r->body], r->z, clear_hash, hash,
                                        *hash && strcmp(clear_hash, hash) == 0 ? "yes" : "no" },
                      (double[]){ r->dropout, record_number(full, "rounds") }));
    }
    return SEFL_OK;
}

/* ---- the paper's claims ---------------------------------------------------------------------- */

static const char claim_columns[] = "scale claim model paper_percent percent block z clients";

/* What the paper claims, in the form "up to ... % better", for each model. Section Result Analysis:
 * "improves the accuracy by up to 11% and 15% over the CDP-FL method", "19.3%, and 12.8% accuracy
 * improvement ... in contrast to the unoptimized". */
static const struct claim {
    const char *what;
    const char *protection; /* compared with SEFL and BHM; itself unpruned */
    double percent[PAPER_BODIES];
} claims[] = {
    { "SEFL with BHM against CDP-FL", "cdp", { 11, 15 } },
    { "SEFL with BHM against unpruned SEFL", "sefl", { 19.3, 12.8 } },
};

/* True if the model learned: its perplexity is below a tenth of the untrained model's. Noise that
 * destroys a model makes any ratio of perplexities large, so such points are not compared. */
static bool learned(const sheet *s, size_t row)
{
    return sheet_get(s, row, "test") < sheet_get(s, row, "untrained") / 10;
}

/* True if `bhm` is SEFL with BHM and `dense` is the same unpruned, with this protection. */
static bool is_pair(const sheet *s, size_t bhm, size_t dense, const char *protection)
{
    static const char *const same[] = { "dropout_percent", "clients", "rounds" };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (sheet_get(s, bhm, same[i]) != sheet_get(s, dense, same[i]))
            return false;
    return is_text(s, bhm, "protection", "sefl") && sheet_get(s, bhm, "block") > 1 &&
           is_text(s, dense, "protection", protection) && sheet_get(s, dense, "block") == 1 &&
           is_text(s, dense, "model", sheet_get_text(s, bhm, "model")) &&
           is_text(s, dense, "z", sheet_get_text(s, bhm, "z"));
}

/* Adds the largest relative gain, in percent, of SEFL with BHM over the unpruned other at the same
 * noise and number of clients. */
static sefl_status add_claim(sheet *out, const sheet *s, const struct claim *c, unsigned body)
{
    double best = NAN;
    size_t at = 0;
    for (size_t bhm = 0; bhm < s->rows; bhm++)
        for (size_t dense = 0; dense < s->rows; dense++) {
            const double gain = 100 * (1 - sheet_get(s, bhm, "test") / sheet_get(s, dense, "test"));
            if (is_text(s, bhm, "model", paper_body_names[body]) &&
                is_pair(s, bhm, dense, c->protection) && learned(s, bhm) && learned(s, dense) &&
                !(gain <= best))
                best = gain, at = bhm;
        }
    if (isnan(best))
        return SEFL_OK;
    return sheet_add(
        out, (const char *[]){ c->what, paper_body_names[body], sheet_get_text(s, at, "z") },
        (double[]){ c->percent[body], best, sheet_get(s, at, "block"),
                    sheet_get(s, at, "clients") });
}

static sefl_status add_claims(sheet *out, const sheet *all)
{
    sefl_status st = SEFL_OK;
    sheet points;
    sheet_new(&points, out->o, point_columns, "points");
    SEFL_TRY(add_points(&points, all, PAPER_BLOCKS | PAPER_EPSILON));
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        for (unsigned body = 0; body < PAPER_BODIES; body++)
            SEFL_TRY(add_claim(out, &points, &claims[i], body));
done:
    sheet_clear(&points);
    return st;
}

/* ---- all figures ----------------------------------------------------------------------------- */

static const struct figure {
    unsigned figure; /* whose points it shows; 0: `add` makes its rows */
    const char *name, *title;
    const char *columns; /* of its table in tables.md */
    const char *all;     /* its columns, if it has no points */
    sefl_status (*add)(sheet *out, const sheet *records);
} list[] = {
    { PAPER_DROPOUT, "dropout", "Test perplexity by dropout",
      "model block dropout_percent clients test test_sd seeds paper_test" },
    { PAPER_BLOCKS, "blocks", "Test perplexity by block size",
      "model block values test test_sd seeds" },
    { PAPER_EPSILON, "epsilon", "Test perplexity by noise",
      "model clients protection block z classic_epsilon_of_a_round epsilon_server test" },
    { 0, "noise", "The most noise at which the paper's figures hold: one seed, 10 clients",
      "model dropout_percent paper_test z test classic_epsilon_of_a_round epsilon_server "
      "z_that_fails test_that_fails clients_for_epsilon_8",
      limit_columns, limit_add },
    { PAPER_START, "start", "Test perplexity by start",
      "model clients variant z classic_epsilon_of_a_round epsilon_server test" },
    { PAPER_MODELS, "models", "Test perplexity by setting",
      "model block rounds variant values test test_sd seeds" },
    { 0, "full", "The real cryptography against runs in the clear",
      "model dropout_percent z rounds clear_sha256 full_sha256 equal", full_columns, add_full },
    { 0, "claims",
      "Largest relative gain in perplexity, of points at which both models learned: their "
      "perplexity is below a tenth of the untrained model's",
      "claim model paper_percent percent block z clients", claim_columns, add_claims },
};

static sefl_status draw_one(sefl_buf *md, const sheet *all, const struct figure *f)
{
    sefl_status st = SEFL_OK;
    sheet s;
    sheet_new(&s, all->o, f->add ? f->all : point_columns, f->name);
    SEFL_TRY(f->add ? f->add(&s, all) : add_points(&s, all, f->figure));
    SEFL_TRY(sheet_csv(&s));
    SEFL_TRY(sheet_table(md, &s, f->title, f->columns));
    for (const chart *c = charts; c < charts + sizeof charts / sizeof *charts; c++)
        if (c->figure == f->figure)
            SEFL_TRY(draw_chart(&s, c));
done:
    sheet_clear(&s);
    return st;
}

sefl_status paper_draw(const paper_options *o)
{
    sefl_status st = SEFL_OK;
    sheet all = { 0 };
    sefl_buf md = { 0 };
    SEFL_TRY(records_read(&all, o));
    SEFL_TRY(sheet_csv(&all));
    SEFL_TRY(wr_fmt(&md,
                    "# Results%s\n\nWritten by `sefl paper --draw` from the files in `runs/`. "
                    "`test` is the mean over the seeds, `test_sd` its standard deviation; an empty "
                    "epsilon is none claimed.\n",
                    o->quick ? " (QUICK: small models on little text, not a reproduction)" : ""));
    for (const struct figure *f = list; f < list + sizeof list / sizeof *list; f++)
        SEFL_TRY(draw_one(&md, &all, f));
    SEFL_TRY(paper_write(o, buf_span(&md), "tables.md"));
done:
    buf_clear(&md);
    sheet_clear(&all);
    return st;
}
