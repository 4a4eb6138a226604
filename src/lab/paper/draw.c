/* Draws the figures of perplexity from the results folder alone: a CSV and an SVG per figure,
 * claims.csv, runs.csv and tables.md. */
#include "paper/draw.h"

#include "base/alloc.h"
#include "paper/limit.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { X_MAX = 16, LINES = 4 };

static const char *const titles[PAPER_BODIES] = { "LSTM", "Transformer" };

/* ---- text ------------------------------------------------------------------------------------ */

void draw_put(draw_text *t, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (t->st == SEFL_OK)
        t->st = wr_raw(&t->b, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

void draw_number(draw_text *t, double v)
{
    if (isfinite(v))
        draw_put(t, ",%.10g", v);
    else
        draw_put(t, ",");
}

void draw_cell(draw_text *t, double v, int digits, const char *none)
{
    if (isfinite(v))
        draw_put(t, " %.*g |", digits, v);
    else
        draw_put(t, " %s |", none);
}

/* The cell of a point in a table of means. */
static void put_mean(draw_text *md, const point *p)
{
    if (p->test.n > 0)
        draw_put(md, " %.2f +- %.2f (%zu) |", p->test.mean, p->test.sd, p->test.n);
    else
        draw_put(md, " - |");
}

point point_of(const sheet *all, paper_run run)
{
    double test[PAPER_SEEDS], valid[PAPER_SEEDS];
    size_t n = 0;
    run.protection = run.protection ? run.protection : "sefl";
    run.block = run.block ? run.block : paper_block(run.body);
    run.z = run.z ? run.z : "0";
    run.clients = run.clients ? run.clients : 10;
    point p = { .run = run };
    for (run.seed = 1; run.seed <= PAPER_SEEDS; run.seed++) {
        const sheet_cell *r = records_find(all, &run);
        if (r) {
            test[n] = record_number(r, "best_test"), valid[n++] = record_number(r, "best_valid");
            p.last = r;
        }
    }
    p.test = spread_of(test, n);
    p.valid = spread_of(valid, n);
    return p;
}

/* The point of a run that has so many rounds, unless this is quick. */
static point at(const drawing *d, unsigned rounds, paper_run run)
{
    run.rounds = paper_rounds(d->o->quick, rounds);
    return point_of(&d->all, run);
}

/* ---- charts ---------------------------------------------------------------------------------- */

/* A chart of up to LINES lines over X_MAX labels; it must not move. */
typedef struct grid {
    svg_chart c;
    char title[96];
    double y[LINES][X_MAX], low[LINES][X_MAX], high[LINES][X_MAX];
} grid;

static void grid_new(grid *g, const char *what, size_t n, const char *const *x, const char *x_name)
{
    snprintf(g->title, sizeof g->title, "%s", what);
    g->c = (svg_chart){
        .title = g->title, .unit = "", .n = n, .x_name = x_name, .x_text = x, .log = true
    };
}

/* Starts the next line; the mean, not the range, if it is dashed. */
static void grid_line(grid *g, const char *name, bool dashed)
{
    const size_t k = g->c.count++;
    g->c.series[k] = (svg_series){ .name = name,
                                   .y = g->y[k],
                                   .dashed = dashed,
                                   .low = dashed ? NULL : g->low[k],
                                   .high = g->high[k] };
}

/* Sets place i of the latest line; no value is larger than `most`. fmin ignores NAN. */
static void grid_set(grid *g, size_t i, const point *p, double most)
{
    const size_t k = g->c.count - 1;
    g->y[k][i] = p->last ? fmin(p->test.mean, most) : NAN;
    g->low[k][i] = p->last ? fmin(p->test.low, most) : NAN;
    g->high[k][i] = p->last ? fmin(p->test.high, most) : NAN;
}

/* Writes the charts, unless the figure has no point. */
static sefl_status grid_save(const drawing *d, const char *name, const grid *g, size_t n)
{
    svg_chart c[PAPER_BODIES];
    for (size_t i = 0; i < n; i++)
        c[i] = g[i].c;
    return d->n > 0 ? paper_svg(d->o, name, c, n) : SEFL_OK;
}

/* ---- points ------------------------------------------------------------------------- */

static const char points_head[] =
    "scale,model,protection,block,dropout_percent,clients,rounds,z,variant,values,noise_ratio,"
    "classic_epsilon_of_a_round,epsilon_server,epsilon_others,seeds,test,test_sd,test_low,"
    "test_high,valid,paper_test\n";

static void put_point(drawing *d, const point *p)
{
    const paper_run *r = &p->run;
    const sheet_cell *l = p->last;
    const bool table = r->protection[0] == 's' && strcmp(r->z, "0") == 0 && !r->variant &&
                       r->rounds == paper_rounds(d->o->quick, PAPER_ROUNDS) &&
                       r->block == paper_block(r->body);
    const double numbers[] = { record_number(l, "values"),
                               record_number(l, "noise_ratio"),
                               record_number(l, "classic_epsilon"),
                               record_number(l, "epsilon_server"),
                               record_number(l, "epsilon_others"),
                               (double)p->test.n,
                               p->test.mean,
                               p->test.sd,
                               p->test.low,
                               p->test.high,
                               p->valid.mean,
                               table ? limit_paper(r->body, r->dropout) : NAN };
    draw_put(&d->csv, "%s,%s,%s,%u,%u,%" PRIu32 ",%u,%s,%s", paper_scale(d->o),
             paper_body_names[r->body], r->protection, r->block, r->dropout, r->clients, r->rounds,
             r->z, r->variant ? r->variant->name : "");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        draw_number(&d->csv, numbers[i]);
    draw_put(&d->csv, "\n");
}

/* ---- dropout and block sizes ----------------------------------------------------------------- */

static sefl_status draw_dropout(drawing *d)
{
    static const unsigned rates[] = { 0, 25, 50, 75, 90 };
    static const char *const text[] = { "0 %", "25 %", "50 %", "75 %", "90 %" };
    enum { N = 5 };
    grid g[PAPER_BODIES];
    draw_put(&d->md, "## Test perplexity by dropout\n\n| model | 0 %% | 25 %% | 50 %% | 75 %% | "
                     "90 %% |\n|---|---|---|---|---|---|\n");
    for (unsigned b = 0; b < PAPER_BODIES; b++) {
        grid_new(&g[b],
                 b == PAPER_LSTM ? "LSTM: test perplexity against dropout"
                                 : "Transformer: test perplexity against dropout",
                 N, text, "clients that drop out of each round");
        g[b].c.log = false;
        draw_put(&d->md, "| %s, l = %u |", titles[b], paper_block(b));
        grid_line(&g[b], "this program", false);
        for (size_t i = 0; i < N; i++) {
            const point x =
                at(d, PAPER_ROUNDS,
                   (paper_run){ .body = b, .dropout = rates[i], .clients = i < 4 ? 10 : 20 });
            grid_set(&g[b], i, &x, INFINITY);
            put_mean(&d->md, &x);
        }
        draw_put(&d->md, "\n| the paper |");
        grid_line(&g[b], "the paper", true);
        for (size_t i = 0; i < N; i++) {
            const double y = g[b].y[1][i] = limit_paper(b, rates[i]);
            g[b].high[1][i] = NAN;
            if (isnan(y))
                draw_put(&d->md, " - |");
            else
                draw_put(&d->md, " %.2f |", y);
        }
        draw_put(&d->md, "\n");
    }
    return grid_save(d, "dropout", g, PAPER_BODIES);
}

static sefl_status draw_blocks(drawing *d)
{
    static const char *const text[] = { "1 (unpruned)", "4", "8", "16", "32" };
    grid g;
    grid_new(&g, "Test perplexity against block size", PAPER_BLOCK_SIZES, text, "block size l");
    g.c.log = false;
    draw_put(&d->md, "\n## Test perplexity by block size\n\n| model | l = 1 | l = 4 | l = 8 | "
                     "l = 16 | l = 32 |\n|---|---|---|---|---|---|\n");
    for (unsigned b = 0; b < PAPER_BODIES; b++) {
        draw_put(&d->md, "| %s |", titles[b]);
        grid_line(&g, titles[b], false);
        for (size_t i = 0; i < PAPER_BLOCK_SIZES; i++) {
            const point x =
                at(d, PAPER_ROUNDS, (paper_run){ .body = b, .block = paper_block_sizes[i] });
            grid_set(&g, i, &x, INFINITY);
            put_mean(&d->md, &x);
        }
        draw_put(&d->md, "\n");
    }
    return grid_save(d, "blocks", &g, 1);
}

/* ---- noise, and a public start --------------------------------------------------------------- */

/* A line of a figure over the noise multiplier. The first of a figure is a level. */
typedef struct over_noise {
    const char *name, *protection;
    unsigned block;      /* 0: that of the model */
    const char *variant; /* NULL: none */
} over_noise;

static const over_noise approaches[LINES] = {
    { "plain FedAvg", "none", 1, NULL },
    { "CDP-FL", "cdp", 1, NULL },
    { "SEFL unpruned", "sefl", 1, NULL },
    { "SEFL with BHM", "sefl", 0, NULL },
};
static const over_noise starts[LINES] = {
    { "public text alone", "none", 0, "public" },
    { "random start", "sefl", 0, "rest" },
    { "public start", "sefl", 0, "start" },
    { "public start, clip 1", "sefl", 0, "start-clip1" },
};

/* Lists the noise multipliers of the points with this number of clients, ascending; "0" first. */
static size_t list_z(const char *z[X_MAX], const drawing *d, uint32_t clients)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n; i++) {
        const char *x = d->at[i].run.z;
        size_t k = 0;
        if (d->at[i].run.clients != clients)
            continue;
        while (k < n && strtod(z[k], NULL) < strtod(x, NULL))
            k++;
        if ((k < n && strcmp(z[k], x) == 0) || n == X_MAX)
            continue;
        memmove(&z[k + 1], &z[k], (n++ - k) * sizeof *z);
        z[k] = x;
    }
    return n;
}

/* The public model itself has one client and no noise. */
static point on_line(const drawing *d, const over_noise *l, unsigned body, const char *z,
                     uint32_t clients)
{
    const bool public = l == starts;
    return at(d, PAPER_ROUNDS_SHORT,
              (paper_run){ .body = body,
                           .protection = l->protection,
                           .block = l->block,
                           .z = public ? "0" : z,
                           .clients = public ? 1 : clients,
                           .variant = l->variant ? paper_variant_named(l->variant) : NULL });
}

/* Draws NAME.svg. In the figure of noise, a model that is worse than the untrained one, or that the
 * release check blocked, is shown as the untrained one, which would be kept instead. */
static sefl_status draw_lines(const drawing *d, const char *name, const over_noise *l, size_t lines,
                              uint32_t clients, const char *const *labels, const char *x_name)
{
    grid g[PAPER_BODIES];
    const char *z[X_MAX];
    char title[96];
    const size_t n = list_z(z, d, clients);
    for (unsigned b = 0; b < PAPER_BODIES; b++) {
        snprintf(title, sizeof title, "%s, %" PRIu32 " clients: test perplexity %s", titles[b],
                 clients, l == starts ? "by start" : "against noise");
        grid_new(&g[b], title, n, labels ? labels : z, x_name);
        for (size_t k = 0; k < lines; k++) {
            grid_line(&g[b], l[k].name, k == 0);
            for (size_t i = 0; i < n; i++) {
                const point x = on_line(d, &l[k], b, k == 0 ? "0" : z[i], clients);
                grid_set(&g[b], i, &x,
                         x.last && l != starts ? record_number(x.last, "first_valid") : INFINITY);
            }
        }
    }
    return grid_save(d, name, g, PAPER_BODIES);
}

static void table_noise(drawing *d, unsigned body, uint32_t clients, const char *const *z, size_t n)
{
    draw_text *md = &d->md;
    draw_put(md,
             "\n### %s, %" PRIu32 " clients\n\n| z | classic epsilon of a round | true "
             "total against a server, BHM | plain FedAvg | CDP-FL | SEFL unpruned | SEFL "
             "with BHM |\n|---|---|---|---|---|---|---|\n",
             titles[body], clients);
    for (size_t i = 0; i < n; i++) {
        const point bhm = on_line(d, &approaches[LINES - 1], body, z[i], clients);
        draw_put(md, "| %s |", z[i]);
        draw_cell(md, record_number(bhm.last, "classic_epsilon"), 4, "-");
        draw_cell(md, record_number(bhm.last, "epsilon_server"), 4, "none claimed");
        for (size_t a = 0; a < LINES; a++) {
            const point x = on_line(d, &approaches[a], body, z[i], clients);
            if (x.last && x.test.mean < record_number(x.last, "first_valid"))
                draw_put(md, " %.2f |", x.test.mean);
            else
                draw_put(md, x.last ? " nothing learned |" : " - |");
        }
        draw_put(md, "\n");
    }
}

/* Draws epsilon-CLIENTS.svg. */
static sefl_status draw_noise(drawing *d, uint32_t clients)
{
    const char *z[X_MAX], *labels[X_MAX];
    char text[X_MAX][48], name[48];
    const size_t n = list_z(z, d, clients);
    for (size_t i = 0; i < n; i++) {
        const point any = on_line(d, &approaches[LINES - 1], PAPER_LSTM, z[i], clients);
        const double classic = record_number(any.last, "classic_epsilon");
        if (isnan(classic))
            snprintf(text[i], sizeof text[i], "%.16s", strcmp(z[i], "0") == 0 ? "no noise" : z[i]);
        else if (classic >= 1000)
            snprintf(text[i], sizeof text[i], "%.16s/%.1fk", z[i], classic / 1000);
        else
            snprintf(text[i], sizeof text[i], "%.16s/%.3g", z[i], classic);
        labels[i] = text[i];
    }
    for (unsigned b = 0; b < PAPER_BODIES; b++)
        table_noise(d, b, clients, z, n);
    snprintf(name, sizeof name, "epsilon-%" PRIu32, clients);
    return draw_lines(d, name, approaches, LINES, clients, labels,
                      "noise multiplier z / classic epsilon of one round");
}

static sefl_status draw_epsilon(drawing *d)
{
    uint32_t last = 0;
    draw_put(&d->md, "\n## Test perplexity by noise\n");
    for (size_t i = 0; i < d->n; i++) /* points with the same number of clients are together */
        if (d->at[i].run.clients != last) {
            last = d->at[i].run.clients;
            SEFL_PASS(draw_noise(d, last));
        }
    return SEFL_OK;
}

/* Appends the row of a noise multiplier; nothing if it has no run. */
static void row_start(drawing *d, unsigned body, const char *z, uint32_t clients)
{
    point x[LINES];
    const sheet_cell *any = NULL;
    for (size_t k = 0; k < LINES; k++) {
        x[k] = on_line(d, &starts[k], body, z, clients);
        any = k > 0 && x[k].last ? x[k].last : any;
    }
    if (!any)
        return;
    draw_put(&d->md, "| %s | %" PRIu32 " | %s |", titles[body], clients, z);
    draw_cell(&d->md, record_number(any, "classic_epsilon"), 4, "-");
    draw_cell(&d->md, record_number(any, "epsilon_server"), 4, "none claimed");
    for (size_t k = 0; k < LINES; k++)
        draw_cell(&d->md, x[k].test.mean, 5, "-");
    draw_put(&d->md, "\n");
}

static sefl_status draw_start(drawing *d)
{
    const uint32_t clients[] = { 10, d->o->quick ? 40 : 1000 };
    const char *z[X_MAX];
    draw_put(&d->md, "\n## Test perplexity by start\n\n| model | clients | z | classic epsilon "
                     "of a round | true total against a server |");
    for (size_t k = 0; k < LINES; k++)
        draw_put(&d->md, " %s |", starts[k].name);
    draw_put(&d->md, "\n|---|---|---|---|---|---|---|---|---|\n");
    for (unsigned b = 0; b < PAPER_BODIES; b++)
        for (size_t k = 0; k < 2; k++) {
            const size_t n = list_z(z, d, clients[k]);
            for (size_t i = 0; i < n; i++)
                row_start(d, b, z[i], clients[k]);
        }
    /* clip 1 has runs of more clients only */
    return draw_lines(d, "start", starts, LINES - 1, 10, NULL, "noise multiplier z");
}

/* ---- other settings of the models ------------------------------------------------------------ */

static sefl_status draw_models(drawing *d)
{
    const unsigned rounds = paper_rounds(d->o->quick, PAPER_ROUNDS_SHORT);
    draw_put(&d->md,
             "\n## Test perplexity by setting\n\n| model | block size | rounds | setting | "
             "values | test | against block size %u and %u rounds "
             "|\n|---|---|---|---|---|---|---|\n",
             paper_block(PAPER_LSTM), rounds);
    for (unsigned b = 0; b < PAPER_BODIES; b++) {
        const point base = at(d, PAPER_ROUNDS_SHORT, (paper_run){ .body = b });
        for (const point *x = d->at; x < d->at + d->n; x++) {
            if (x->run.body != b)
                continue;
            draw_put(&d->md, "| %s | %u | %u | %s | %.0f |", titles[b], x->run.block, x->run.rounds,
                     x->run.variant ? x->run.variant->name : "as in the table",
                     record_number(x->last, "values"));
            put_mean(&d->md, x);
            const double gain = 100 * (x->test.mean / base.test.mean - 1);
            if (isnan(gain))
                draw_put(&d->md, " - |\n");
            else
                draw_put(&d->md, " %+.1f %% |\n", gain);
        }
    }
    return SEFL_OK;
}

/* ---- the real cryptography ------------------------------------------------------------------- */

/* Compares the hash of the last model with crypto full and with crypto clear. */
static sefl_status draw_full(drawing *d)
{
    draw_put(&d->md, "\n## The real cryptography against runs in the clear\n\n| model | dropout "
                     "| z | rounds | SHA-256 of the model | equal |\n|---|---|---|---|---|---|\n");
    for (const point *x = d->at; x < d->at + d->n; x++) {
        paper_run run = x->run;
        run.variant = paper_variant_named("full");
        const sheet_cell *full = point_of(&d->all, run).last;
        if (!full || full == x->last)
            continue;
        const char *clear_hash = record_text(x->last, "model_sha256"),
                   *hash = record_text(full, "model_sha256");
        const char *equal = *hash && strcmp(clear_hash, hash) == 0 ? "yes" : "no";
        draw_put(&d->csv, "%s,%s,%u,%s,%.0f,%s,%s,%s\n", paper_scale(d->o),
                 paper_body_names[run.body], run.dropout, run.z, record_number(full, "rounds"),
                 clear_hash, hash, equal);
        draw_put(&d->md, "| %s | %u %% | %s | %.0f | %.16s... | %s |\n", titles[run.body],
                 run.dropout, run.z, record_number(full, "rounds"), hash, equal);
    }
    return SEFL_OK;
}

/* ---- the paper's claims ---------------------------------------------------------------------- */

/* True if the model learned: its perplexity is below a tenth of the untrained model's. Noise that
 * destroys a model makes any ratio of perplexities large, so such points are not compared. */
static bool learned(const point *p)
{
    return p->last && p->test.mean < record_number(p->last, "first_valid") / 10;
}

/* Returns the unpruned point to compare with; empty if there is none, or p is not SEFL with BHM. */
static point unpruned(const drawing *d, const point *p, const char *protection)
{
    paper_run run = p->run;
    if (strcmp(run.protection, "sefl") != 0 || run.block == 1)
        return (point){ 0 };
    run.protection = protection, run.block = 1;
    return point_of(&d->all, run);
}

/* For each noise, which of unpruned SEFL and SEFL with BHM is better. */
static sefl_status draw_crossing(drawing *d)
{
    for (const point *bhm = d->at; bhm < d->at + d->n; bhm++) {
        const point dense = unpruned(d, bhm, "sefl");
        if (dense.test.n == 0 || bhm->test.n == 0)
            continue;
        draw_put(&d->csv, "%s,%s,%" PRIu32 ",%s,%u,%.10g,%.10g,%s\n", paper_scale(d->o),
                 paper_body_names[bhm->run.body], bhm->run.clients, bhm->run.z, bhm->run.block,
                 dense.test.mean, bhm->test.mean,
                 !learned(bhm) && !learned(&dense)  ? "neither learned"
                 : bhm->test.mean < dense.test.mean ? "bhm"
                                                    : "unpruned");
    }
    return SEFL_OK;
}

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

/* Writes the largest relative gain, in percent, of SEFL with BHM over the unpruned other at the
 * same noise and number of clients. */
static void put_claim(drawing *d, const struct claim *c, unsigned body)
{
    const paper_run *at = NULL;
    double best = NAN;
    for (const point *bhm = d->at; bhm < d->at + d->n; bhm++) {
        const point dense = unpruned(d, bhm, c->protection);
        if (bhm->run.body != body || !learned(bhm) || !learned(&dense))
            continue;
        const double gain = 100 * (1 - bhm->test.mean / dense.test.mean);
        if (!(gain <= best))
            best = gain, at = &bhm->run;
    }
    if (!at)
        return;
    draw_put(&d->csv, "%s,\"%s\",%s,%g,%.6g,%u,%s,%" PRIu32 "\n", paper_scale(d->o), c->what,
             paper_body_names[body], c->percent[body], best, at->block, at->z, at->clients);
    draw_put(&d->md, "| %s | %s | %g %% | %.1f %% | l = %u, z = %s, %" PRIu32 " clients |\n",
             c->what, titles[body], c->percent[body], best, at->block, at->z, at->clients);
}

static sefl_status draw_claims(drawing *d)
{
    draw_put(&d->md, "\n## Largest relative gain in perplexity\n\nOf points at which both models "
                     "learned: their perplexity is below a tenth of the untrained model's.\n\n| "
                     "claim | model | the paper | here | at |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        for (unsigned body = 0; body < PAPER_BODIES; body++)
            put_claim(d, &claims[i], body);
    return SEFL_OK;
}

/* ---- all figures ----------------------------------------------------------------------------- */

static const struct figure {
    unsigned figures; /* whose points it shows */
    const char *name, *head;
    sefl_status (*draw)(drawing *d);
} list[] = {
    { PAPER_DROPOUT, "dropout", points_head, draw_dropout },
    { PAPER_BLOCKS, "blocks", points_head, draw_blocks },
    { PAPER_EPSILON, "epsilon", points_head, draw_epsilon },
    { PAPER_NOISE, "noise", limit_head, limit_draw },
    { PAPER_START, "start", points_head, draw_start },
    { PAPER_MODELS, "models", points_head, draw_models },
    { PAPER_FULL, "full", "scale,model,dropout_percent,z,rounds,clear_sha256,full_sha256,equal\n",
      draw_full },
    { PAPER_BLOCKS | PAPER_EPSILON, "claims",
      "scale,claim,model,paper_percent,percent,block,z,clients\n", draw_claims },
    { PAPER_EPSILON, "crossing", "scale,model,clients,z,block,test_unpruned,test_bhm,better\n",
      draw_crossing },
};

/* Writes a figure's CSV, if it has a row, and its SVG, if it has one. */
static sefl_status draw_one(drawing *d, const struct figure *f)
{
    paper_table t;
    paper_table_make(&t, d->o->quick, f->figures);
    d->n = 0;
    for (size_t i = 0; i < t.n; i++)
        if (t.run[i].seed == 1) { /* every point has it */
            d->at[d->n] = point_of(&d->all, t.run[i]);
            d->n += d->at[d->n].last != NULL;
        }
    buf_reset(&d->csv.b);
    draw_put(&d->csv, "%s", f->head);
    for (size_t i = 0; f->head == points_head && i < d->n; i++)
        put_point(d, &d->at[i]);
    SEFL_PASS(f->draw(d));
    SEFL_PASS(d->csv.st);
    return d->csv.b.n > strlen(f->head) ? paper_write(d->o, buf_span(&d->csv.b), "%s.csv", f->name)
                                        : SEFL_OK;
}

sefl_status paper_draw(const paper_options *o)
{
    sefl_status st = SEFL_OK;
    drawing d = { .o = o };
    SEFL_TRY(records_read(&d.all, o));
    SEFL_TRY(sheet_csv(&d.all));
    SEFL_TRY(sefl_new(&d.at, PAPER_RUNS_MAX, sizeof *d.at));
    draw_put(&d.md,
             "# Results%s\n\nWritten by `sefl paper --draw` from the files in `runs/`. "
             "A cell is mean +- standard deviation (number of seeds).\n\n",
             o->quick ? " (QUICK: small models on little text, not a reproduction)" : "");
    for (const struct figure *f = list; f < list + sizeof list / sizeof *list; f++)
        SEFL_TRY(draw_one(&d, f));
    SEFL_TRY(d.md.st);
    SEFL_TRY(paper_write(o, buf_span(&d.md.b), "tables.md"));
done:
    buf_clear(&d.md.b);
    buf_clear(&d.csv.b);
    sefl_free(d.at);
    sheet_clear(&d.all);
    return st;
}
