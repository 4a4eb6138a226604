/* Draws the figures of perplexity from the results folder alone: a CSV and an SVG per figure,
 * claims.csv, runs.csv and tables.md. */
#include "base/alloc.h"
#include "paper/limit.h"
#include "paper/points.h"
#include "paper/reference.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { X_MAX = 16 };

static const char *const titles[PAPER_BODIES] = { "LSTM", "Transformer" };

/* ---- numbers --------------------------------------------------------------------------------- */

/* Appends ",number", or "," if it is unknown. */
static sefl_status put(sefl_buf *out, double v)
{
    return isnan(v) ? wr_fmt(out, ",") : wr_fmt(out, ",%.10g", v);
}

static sefl_status put_point(sefl_buf *out, const paper_options *o, const point *p)
{
    const paper_run *r = &p->run;
    const bool table = r->protection[0] == 's' && strcmp(r->z, "0") == 0 && !r->variant &&
                       r->rounds == paper_rounds(o->quick, PAPER_ROUNDS);
    SEFL_PASS(wr_fmt(out, "%s,%s,%s,%u,%u,%" PRIu32 ",%u,%s,%s", paper_scale(o),
                     paper_body_names[r->body], r->protection, r->block, r->dropout, r->clients,
                     r->rounds, r->z, r->variant ? r->variant->name : ""));
    const double numbers[] = { p->values,         p->noise_ratio,    p->classic_epsilon,
                               p->epsilon_server, p->epsilon_others, (double)p->test.n,
                               p->test.mean,      p->test.sd,        p->test.low,
                               p->test.high,      p->valid.mean };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        SEFL_PASS(put(out, numbers[i]));
    SEFL_PASS(put(out, table && r->block == paper_block(r->body)
                           ? reference_dropout(r->body, r->dropout)
                           : NAN));
    return wr_fmt(out, "\n");
}

/* Writes FIGURE.csv: one line per point. */
static sefl_status write_points(const paper_options *o, const char *name, const points *p)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    if (p->n == 0)
        return SEFL_OK;
    SEFL_TRY(wr_fmt(
        &b, "scale,model,protection,block,dropout_percent,clients,rounds,z,variant,values,"
            "noise_ratio,classic_epsilon_of_a_round,epsilon_server,epsilon_others,seeds,test,"
            "test_sd,test_low,test_high,valid,paper_test\n"));
    for (size_t i = 0; i < p->n; i++)
        SEFL_TRY(put_point(&b, o, &p->at[i]));
    SEFL_TRY(paper_write(o, name, buf_span(&b)));
done:
    buf_clear(&b);
    return st;
}

/* Writes runs.csv: one line per run. */
static sefl_status write_runs(const paper_options *o)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    records all = { 0 };
    SEFL_TRY(records_read(&all, o));
#define HEAD(member) SEFL_TRY(wr_fmt(&b, "%s" #member, b.n ? "," : ""));
    RECORD_TEXTS(HEAD)
    RECORD_NUMBERS(HEAD)
#undef HEAD
    SEFL_TRY(wr_fmt(&b, "\n"));
    for (size_t i = 0; i < all.n; i++) {
        const run_record *r = &all.at[i];
        bool first = true;
#define TEXT(member)                                                                           \
    SEFL_TRY(                                                                                  \
        wr_fmt(&b, "%s\"%.*s\"", first ? "" : ",", (int)strcspn(r->member, "\""), r->member)); \
    first = false;
        RECORD_TEXTS(TEXT)
#undef TEXT
#define NUMBER(member) SEFL_TRY(put(&b, r->member));
        RECORD_NUMBERS(NUMBER)
#undef NUMBER
        SEFL_TRY(wr_fmt(&b, "\n"));
    }
    if (all.n > 0)
        SEFL_TRY(paper_write(o, "runs.csv", buf_span(&b)));
done:
    buf_clear(&b);
    records_clear(&all);
    return st;
}

/* ---- lines of a chart ------------------------------------------------------------------------ */

/* A line of a chart with up to X_MAX points. */
typedef struct line {
    double y[X_MAX], low[X_MAX], high[X_MAX];
} line;

static void set(line *l, size_t i, const point *p)
{
    l->y[i] = p ? p->test.mean : NAN;
    l->low[i] = p ? p->test.low : NAN;
    l->high[i] = p ? p->test.high : NAN;
}

/* The figure of noise shows a model that is worse than the untrained one, or that the release
 * check blocked, as the untrained one, which would be kept instead (fmin ignores NAN). */
static void set_at_most_untrained(line *l, size_t i, const point *p)
{
    set(l, i, p);
    if (!p)
        return;
    l->y[i] = fmin(l->y[i], p->untrained);
    l->low[i] = fmin(l->low[i], p->untrained);
    l->high[i] = fmin(l->high[i], p->untrained);
}

static svg_series series(const char *name, const line *l, bool dashed)
{
    return (svg_series){
        .name = name, .y = l->y, .dashed = dashed, .low = dashed ? NULL : l->low, .high = l->high
    };
}

/* Appends a cell of a Markdown table. */
static sefl_status put_cell(sefl_buf *md, const point *p)
{
    if (!p || p->test.n == 0)
        return wr_fmt(md, " - |");
    return wr_fmt(md, " %.2f +- %.2f (%zu) |", p->test.mean, p->test.sd, p->test.n);
}

/* ---- dropout --------------------------------------------------------------------------------- */

static sefl_status draw_dropout(const paper_options *o, sefl_buf *md)
{
    static const unsigned rates[] = { 0, 25, 50, 75, 90 };
    static const char *const text[] = { "0 %", "25 %", "50 %", "75 %", "90 %" };
    enum { N = 5 };
    sefl_status st = SEFL_OK;
    points p = { 0 };
    line ours[PAPER_BODIES], paper[PAPER_BODIES];
    svg_chart c[PAPER_BODIES];
    SEFL_TRY(points_of(&p, o, PAPER_DROPOUT));
    SEFL_TRY(write_points(o, "dropout.csv", &p));
    SEFL_TRY(wr_fmt(md, "## Test perplexity by dropout\n\n| model | 0 %% | 25 %% | 50 %% | 75 %% | "
                        "90 %% |\n|---|---|---|---|---|---|\n"));
    for (unsigned b = 0; b < PAPER_BODIES; b++) {
        SEFL_TRY(wr_fmt(md, "| %s, l = %u |", titles[b], paper_block(b)));
        for (size_t i = 0; i < N; i++) {
            const point *x = NULL;
            for (size_t k = 0; k < p.n && !x; k++)
                x = p.at[k].run.body == b && p.at[k].run.dropout == rates[i] ? &p.at[k] : NULL;
            set(&ours[b], i, x);
            paper[b].y[i] = reference_dropout(b, rates[i]);
            SEFL_TRY(put_cell(md, x));
        }
        SEFL_TRY(wr_fmt(md, "\n| the paper |"));
        for (size_t i = 0; i < N; i++)
            SEFL_TRY(isnan(paper[b].y[i]) ? wr_fmt(md, " - |")
                                          : wr_fmt(md, " %.2f |", paper[b].y[i]));
        SEFL_TRY(wr_fmt(md, "\n"));
        c[b] =
            (svg_chart){ .title = b == PAPER_LSTM ? "LSTM: test perplexity against dropout"
                                                  : "Transformer: test perplexity against dropout",
                         .unit = "",
                         .n = N,
                         .x_name = "clients that drop out of each round",
                         .x_text = text,
                         .series = { series("this program", &ours[b], false),
                                     series("the paper", &paper[b], true) },
                         .count = 2 };
    }
    if (p.n > 0)
        SEFL_TRY(paper_svg(o, "dropout", c, PAPER_BODIES));
done:
    points_clear(&p);
    return st;
}

/* ---- block sizes ----------------------------------------------------------------------------- */

static sefl_status draw_blocks(const paper_options *o, sefl_buf *md)
{
    static const unsigned blocks[] = { 1, 4, 8, 16, 32 };
    static const char *const text[] = { "1 (unpruned)", "4", "8", "16", "32" };
    enum { N = 5 };
    sefl_status st = SEFL_OK;
    points p = { 0 };
    line l[PAPER_BODIES];
    SEFL_TRY(points_of(&p, o, PAPER_BLOCKS));
    SEFL_TRY(write_points(o, "blocks.csv", &p));
    SEFL_TRY(wr_fmt(md, "\n## Test perplexity by block size\n\n| model | l = 1 | l = 4 | l = 8 | "
                        "l = 16 | l = 32 |\n|---|---|---|---|---|---|\n"));
    for (unsigned b = 0; b < PAPER_BODIES; b++) {
        SEFL_TRY(wr_fmt(md, "| %s |", titles[b]));
        for (size_t i = 0; i < N; i++) {
            const point *x = NULL;
            for (size_t k = 0; k < p.n && !x; k++)
                x = p.at[k].run.body == b && p.at[k].run.block == blocks[i] ? &p.at[k] : NULL;
            set(&l[b], i, x);
            SEFL_TRY(put_cell(md, x));
        }
        SEFL_TRY(wr_fmt(md, "\n"));
    }
    const svg_chart c = { .title = "Test perplexity against block size",
                          .unit = "",
                          .n = N,
                          .x_name = "block size l",
                          .x_text = text,
                          .series = { series("LSTM", &l[PAPER_LSTM], false),
                                      series("Transformer", &l[PAPER_TRANSFORMER], false) },
                          .count = 2 };
    if (p.n > 0)
        SEFL_TRY(paper_svg(o, "blocks", &c, 1));
done:
    points_clear(&p);
    return st;
}

/* ---- noise ----------------------------------------------------------------------------------- */

/* The lines of the noise figure. */
static const struct {
    const char *name, *protection;
    bool bhm;
} approaches[] = {
    { "plain FedAvg", "none", false },
    { "CDP-FL", "cdp", false },
    { "SEFL unpruned", "sefl", false },
    { "SEFL with BHM", "sefl", true },
};
enum { APPROACHES = sizeof approaches / sizeof *approaches };

/* Lists the noise multipliers of the points with this number of clients, ascending; "0" first. */
static size_t list_z(const char *z[X_MAX], const points *p, uint32_t clients)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        const char *x = p->at[i].run.z;
        size_t k = 0;
        if (p->at[i].run.clients != clients)
            continue;
        while (k < n && strtod(z[k], NULL) < strtod(x, NULL))
            k++;
        if ((k < n && strcmp(z[k], x) == 0) || n == X_MAX)
            continue;
        memmove(&z[k + 1], &z[k], (n - k) * sizeof *z);
        z[k] = x;
        n++;
    }
    return n;
}

static const point *at_noise(const points *p, size_t approach, unsigned body, const char *z,
                             uint32_t clients)
{
    return points_find(p, &(paper_run){ .body = body,
                                        .protection = approaches[approach].protection,
                                        .block = approaches[approach].bhm ? paper_block(body) : 1,
                                        .z = z,
                                        .clients = clients });
}

static sefl_status table_noise(sefl_buf *md, const points *p, unsigned body, uint32_t clients,
                               const char *const *z, size_t n)
{
    SEFL_PASS(wr_fmt(md,
                     "\n### %s, %" PRIu32 " clients\n\n| z | classic epsilon of a round | true "
                     "total against a server, BHM | plain FedAvg | CDP-FL | SEFL unpruned | SEFL "
                     "with BHM |\n|---|---|---|---|---|---|---|\n",
                     titles[body], clients));
    for (size_t i = 0; i < n; i++) {
        const point *bhm = at_noise(p, APPROACHES - 1, body, z[i], clients);
        SEFL_PASS(wr_fmt(md, "| %s |", z[i]));
        if (bhm && !isnan(bhm->classic_epsilon))
            SEFL_PASS(wr_fmt(md, " %.4g |", bhm->classic_epsilon));
        else
            SEFL_PASS(wr_fmt(md, " - |"));
        if (bhm && !isnan(bhm->epsilon_server))
            SEFL_PASS(wr_fmt(md, " %.4g |", bhm->epsilon_server));
        else
            SEFL_PASS(wr_fmt(md, " none claimed |"));
        for (size_t a = 0; a < APPROACHES; a++) {
            const point *x = at_noise(p, a, body, z[i], clients);
            if (!x)
                SEFL_PASS(wr_fmt(md, " - |"));
            else if (x->test.mean < x->untrained)
                SEFL_PASS(wr_fmt(md, " %.2f |", x->test.mean));
            else
                SEFL_PASS(wr_fmt(md, " nothing learned |"));
        }
        SEFL_PASS(wr_fmt(md, "\n"));
    }
    return SEFL_OK;
}

/* Draws epsilon-CLIENTS.svg. */
static sefl_status draw_noise(const paper_options *o, const points *p, uint32_t clients,
                              sefl_buf *md)
{
    line l[PAPER_BODIES][APPROACHES];
    svg_chart c[PAPER_BODIES];
    const char *z[X_MAX];
    char text[X_MAX][48], name[48], title[PAPER_BODIES][96];
    const char *labels[X_MAX];
    const size_t n = list_z(z, p, clients);
    for (size_t i = 0; i < n; i++) {
        const point *any = at_noise(p, APPROACHES - 1, PAPER_LSTM, z[i], clients);
        const double classic = any ? any->classic_epsilon : NAN;
        if (isnan(classic))
            snprintf(text[i], sizeof text[i], "%.16s", strcmp(z[i], "0") == 0 ? "no noise" : z[i]);
        else if (classic >= 1000)
            snprintf(text[i], sizeof text[i], "%.16s/%.1fk", z[i], classic / 1000);
        else
            snprintf(text[i], sizeof text[i], "%.16s/%.3g", z[i], classic);
        labels[i] = text[i];
    }
    for (unsigned b = 0; b < PAPER_BODIES; b++) {
        SEFL_PASS(table_noise(md, p, b, clients, z, n));
        snprintf(title[b], sizeof title[b],
                 "%s, %" PRIu32 " clients: test perplexity against noise", titles[b], clients);
        c[b] = (svg_chart){ .title = title[b],
                            .unit = "",
                            .n = n,
                            .x_name = "noise multiplier z / classic epsilon of one round",
                            .x_text = labels,
                            .log = true };
        for (size_t a = 0; a < APPROACHES; a++) {
            const bool plain = a == 0; /* has no noise: a level */
            for (size_t i = 0; i < n; i++)
                set_at_most_untrained(&l[b][a], i, at_noise(p, a, b, plain ? "0" : z[i], clients));
            c[b].series[c[b].count++] = series(approaches[a].name, &l[b][a], plain);
        }
    }
    snprintf(name, sizeof name, "epsilon-%" PRIu32, clients);
    return paper_svg(o, name, c, PAPER_BODIES);
}

static sefl_status draw_epsilon(const paper_options *o, sefl_buf *md)
{
    sefl_status st = SEFL_OK;
    points p = { 0 };
    SEFL_TRY(points_of(&p, o, PAPER_EPSILON));
    SEFL_TRY(write_points(o, "epsilon.csv", &p));
    SEFL_TRY(wr_fmt(md, "\n## Test perplexity by noise\n"));
    uint32_t last = 0;
    for (size_t i = 0; i < p.n; i++) /* points with the same number of clients are together */
        if (p.at[i].run.clients != last) {
            last = p.at[i].run.clients;
            SEFL_TRY(draw_noise(o, &p, last, md));
        }
done:
    points_clear(&p);
    return st;
}

/* ---- a public start -------------------------------------------------------------------------- */

/* The variants of the figure; the first is the public model itself, which needs no noise. */
static const struct {
    const char *name, *variant;
} starts[] = {
    { "public text alone", "public" },
    { "random start", "rest" },
    { "public start", "start" },
    { "public start, clip 1", "start-clip1" },
};
enum { STARTS = sizeof starts / sizeof *starts };

static const point *at_start(const points *p, size_t k, unsigned body, const char *z,
                             uint32_t clients)
{
    paper_run run = { .body = body,
                      .protection = "sefl",
                      .block = paper_block(body),
                      .z = z,
                      .clients = clients,
                      .variant = paper_variant_named(starts[k].variant) };
    if (k == 0)
        run = paper_run_public(&run);
    return points_find(p, &run);
}

/* Appends the row of a noise multiplier; nothing if it has no run. */
static sefl_status row_start(sefl_buf *md, const points *p, unsigned body, const char *z,
                             uint32_t clients)
{
    const point *x[STARTS], *any = NULL;
    for (size_t k = 0; k < STARTS; k++) {
        x[k] = at_start(p, k, body, z, clients);
        any = k > 0 && x[k] ? x[k] : any;
    }
    if (!any)
        return SEFL_OK;
    SEFL_PASS(wr_fmt(md, "| %s | %" PRIu32 " | %s |", titles[body], clients, z));
    SEFL_PASS(isnan(any->classic_epsilon) ? wr_fmt(md, " - |")
                                          : wr_fmt(md, " %.4g |", any->classic_epsilon));
    SEFL_PASS(isnan(any->epsilon_server) ? wr_fmt(md, " none claimed |")
                                         : wr_fmt(md, " %.4g |", any->epsilon_server));
    for (size_t k = 0; k < STARTS; k++)
        SEFL_PASS(x[k] && x[k]->test.n > 0 ? wr_fmt(md, " %.5g |", x[k]->test.mean)
                                           : wr_fmt(md, " - |"));
    return wr_fmt(md, "\n");
}

static sefl_status draw_starts(const paper_options *o, const points *p)
{
    line l[PAPER_BODIES][STARTS];
    svg_chart c[PAPER_BODIES];
    const char *z[X_MAX];
    const size_t n = list_z(z, p, 10);
    for (unsigned b = 0; b < PAPER_BODIES; b++) {
        c[b] = (svg_chart){ .title = b == PAPER_LSTM
                                         ? "LSTM, 10 clients: test perplexity by start"
                                         : "Transformer, 10 clients: test perplexity by start",
                            .unit = "",
                            .n = n,
                            .x_name = "noise multiplier z",
                            .x_text = z,
                            .log = true };
        for (size_t k = 0; k < STARTS - 1; k++) { /* clip 1 has runs of more clients only */
            for (size_t i = 0; i < n; i++)
                set(&l[b][k], i, at_start(p, k, b, z[i], 10));
            c[b].series[c[b].count++] = series(starts[k].name, &l[b][k], k == 0);
        }
    }
    return paper_svg(o, "start", c, PAPER_BODIES);
}

static sefl_status draw_start(const paper_options *o, sefl_buf *md)
{
    sefl_status st = SEFL_OK;
    points p = { 0 };
    const uint32_t clients[] = { 10, o->quick ? 40 : 1000 };
    const char *z[X_MAX];
    SEFL_TRY(points_of(&p, o, PAPER_START));
    SEFL_TRY(write_points(o, "start.csv", &p));
    SEFL_TRY(wr_fmt(md, "\n## Test perplexity by start\n\n| model | clients | z | classic epsilon "
                        "of a round | true total against a server |"));
    for (size_t k = 0; k < STARTS; k++)
        SEFL_TRY(wr_fmt(md, " %s |", starts[k].name));
    SEFL_TRY(wr_fmt(md, "\n|---|---|---|---|---|---|---|---|---|\n"));
    for (unsigned b = 0; b < PAPER_BODIES; b++)
        for (size_t k = 0; k < 2; k++) {
            const size_t n = list_z(z, &p, clients[k]);
            for (size_t i = 0; i < n; i++)
                SEFL_TRY(row_start(md, &p, b, z[i], clients[k]));
        }
    if (p.n > 0)
        SEFL_TRY(draw_starts(o, &p));
done:
    points_clear(&p);
    return st;
}

/* ---- other settings of the models ------------------------------------------------------------ */

static sefl_status draw_models(const paper_options *o, sefl_buf *md)
{
    sefl_status st = SEFL_OK;
    points p = { 0 };
    SEFL_TRY(points_of(&p, o, PAPER_MODELS));
    SEFL_TRY(write_points(o, "models.csv", &p));
    SEFL_TRY(wr_fmt(md,
                    "\n## Test perplexity by setting\n\n| model | block size | rounds | setting | "
                    "values | test | against block size %u and %u rounds "
                    "|\n|---|---|---|---|---|---|---|\n",
                    paper_block(PAPER_LSTM), paper_rounds(o->quick, PAPER_ROUNDS_SHORT)));
    for (unsigned body = 0; body < PAPER_BODIES; body++) {
        const point *base =
            points_find(&p, &(paper_run){ .body = body,
                                          .protection = "sefl",
                                          .block = paper_block(body),
                                          .z = "0",
                                          .clients = 10,
                                          .rounds = paper_rounds(o->quick, PAPER_ROUNDS_SHORT) });
        for (size_t i = 0; i < p.n; i++) {
            const point *x = &p.at[i];
            if (x->run.body != body)
                continue;
            SEFL_TRY(wr_fmt(md, "| %s | %u | %u | %s | %.0f |", titles[body], x->run.block,
                            x->run.rounds,
                            x->run.variant ? x->run.variant->name : "as in the table", x->values));
            SEFL_TRY(put_cell(md, x));
            if (base && x->test.n > 0)
                SEFL_TRY(wr_fmt(md, " %+.1f %% |\n", 100 * (x->test.mean / base->test.mean - 1)));
            else
                SEFL_TRY(wr_fmt(md, " - |\n"));
        }
    }
done:
    points_clear(&p);
    return st;
}

/* ---- the real cryptography ------------------------------------------------------------------- */

/* Writes full.csv: the hash of the last model with crypto full and with crypto clear. */
static sefl_status draw_full(const paper_options *o, sefl_buf *md)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    records all = { 0 };
    paper_table t = { 0 };
    size_t rows = 0;
    SEFL_TRY(records_read(&all, o));
    SEFL_TRY(paper_table_make(&t, o->quick, PAPER_FULL));
    SEFL_TRY(wr_fmt(&b, "scale,model,dropout_percent,z,rounds,clear_sha256,full_sha256,equal\n"));
    SEFL_TRY(wr_fmt(md,
                    "\n## The real cryptography against runs in the clear\n\n| model | dropout "
                    "| z | rounds | SHA-256 of the model | equal |\n|---|---|---|---|---|---|\n"));
    for (size_t i = 0; i < t.n; i++) {
        paper_run run = t.run[i];
        char name[PAPER_NAME_BYTES];
        paper_run_name(name, &run);
        const run_record *clear = records_find(&all, name);
        run.variant = paper_variant_named("full");
        paper_run_name(name, &run);
        const run_record *full = records_find(&all, name);
        if (!clear || !full || clear == full)
            continue;
        const char *equal =
            strcmp(clear->model_sha256, full->model_sha256) == 0 && *full->model_sha256 ? "yes"
                                                                                        : "no";
        SEFL_TRY(wr_fmt(&b, "%s,%s,%u,%s,%.0f,%s,%s,%s\n", paper_scale(o),
                        paper_body_names[run.body], run.dropout, run.z, full->rounds,
                        clear->model_sha256, full->model_sha256, equal));
        SEFL_TRY(wr_fmt(md, "| %s | %u %% | %s | %.0f | %.16s... | %s |\n", titles[run.body],
                        run.dropout, run.z, full->rounds, full->model_sha256, equal));
        rows++;
    }
    if (rows > 0)
        SEFL_TRY(paper_write(o, "full.csv", buf_span(&b)));
done:
    buf_clear(&b);
    records_clear(&all);
    paper_table_clear(&t);
    return st;
}

/* ---- the paper's claims ---------------------------------------------------------------------- */

/* True if the model learned: its perplexity is below a tenth of the untrained model's. Noise that
 * destroys a model makes any ratio of perplexities large, so such points are not compared. */
static bool learned(const point *p)
{
    return p && p->test.mean < p->untrained / 10;
}

/* Returns the unpruned point to compare with; NULL if there is none, or p is not SEFL with BHM. */
static const point *unpruned(const points *all, const point *p, const char *protection)
{
    paper_run run = p->run;
    if (strcmp(run.protection, "sefl") != 0 || run.block == 1)
        return NULL;
    run.protection = protection, run.block = 1;
    return points_find(all, &run);
}

/* Returns the largest relative gain, in percent, of SEFL with BHM over the unpruned `other` at the
 * same noise and number of clients; *where is that point. NAN: nothing to compare. */
static double best_gain(const points *p, const char *other, unsigned body, const point **where)
{
    double best = NAN;
    for (size_t i = 0; i < p->n; i++) {
        const point *bhm = &p->at[i], *dense = unpruned(p, bhm, other);
        if (bhm->run.body != body || !learned(bhm) || !learned(dense))
            continue;
        const double gain = 100 * (1 - bhm->test.mean / dense->test.mean);
        if (!(gain <= best)) {
            best = gain;
            *where = bhm;
        }
    }
    return best;
}

/* Writes crossing.csv: for each noise, which of unpruned SEFL and SEFL with BHM is better. */
static sefl_status write_crossing(const paper_options *o)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    points p = { 0 };
    SEFL_TRY(points_of(&p, o, PAPER_EPSILON));
    SEFL_TRY(wr_fmt(&b, "scale,model,clients,z,block,test_unpruned,test_bhm,better\n"));
    for (size_t i = 0; i < p.n; i++) {
        const point *bhm = &p.at[i], *dense = unpruned(&p, bhm, "sefl");
        if (!dense || dense->test.n == 0 || bhm->test.n == 0)
            continue;
        SEFL_TRY(wr_fmt(&b, "%s,%s,%" PRIu32 ",%s,%u,%.10g,%.10g,%s\n", paper_scale(o),
                        paper_body_names[bhm->run.body], bhm->run.clients, bhm->run.z,
                        bhm->run.block, dense->test.mean, bhm->test.mean,
                        !learned(bhm) && !learned(dense)    ? "neither learned"
                        : bhm->test.mean < dense->test.mean ? "bhm"
                                                            : "unpruned"));
    }
    if (p.n > 0)
        SEFL_TRY(paper_write(o, "crossing.csv", buf_span(&b)));
done:
    buf_clear(&b);
    points_clear(&p);
    return st;
}

static sefl_status write_claims(const paper_options *o, sefl_buf *md)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    size_t rows = 0;
    points p = { 0 };
    SEFL_TRY(points_of(&p, o, PAPER_BLOCKS | PAPER_EPSILON));
    SEFL_TRY(wr_fmt(&b, "scale,claim,model,paper_percent,percent,block,z,clients\n"));
    SEFL_TRY(wr_fmt(md,
                    "\n## Largest relative gain in perplexity\n\nOf points at which both models "
                    "learned: their perplexity is below a tenth of the untrained model's.\n\n| "
                    "claim | model | the paper | "
                    "here | at |\n|---|---|---|---|---|\n"));
    for (size_t i = 0; i < reference_claim_count; i++)
        for (unsigned body = 0; body < PAPER_BODIES; body++) {
            const reference_claim *c = &reference_claims[i];
            const point *x = NULL;
            const double gain = best_gain(&p, c->protection, body, &x);
            if (isnan(gain) || !x)
                continue;
            rows++;
            SEFL_TRY(wr_fmt(&b, "%s,\"%s\",%s,%g,%.6g,%u,%s,%" PRIu32 "\n", paper_scale(o), c->what,
                            paper_body_names[body], c->percent[body], gain, x->run.block, x->run.z,
                            x->run.clients));
            SEFL_TRY(wr_fmt(md,
                            "| %s | %s | %g %% | %.1f %% | l = %u, z = %s, %" PRIu32 " clients |\n",
                            c->what, titles[body], c->percent[body], gain, x->run.block, x->run.z,
                            x->run.clients));
        }
    if (rows > 0)
        SEFL_TRY(paper_write(o, "claims.csv", buf_span(&b)));
done:
    buf_clear(&b);
    points_clear(&p);
    return st;
}

sefl_status paper_draw(const paper_options *o)
{
    sefl_status st = SEFL_OK;
    sefl_buf md = { 0 };
    SEFL_TRY(wr_fmt(&md,
                    "# Results%s\n\nWritten by `sefl paper --draw` from the files in `runs/`. "
                    "A cell is mean +- standard deviation (number of seeds).\n\n",
                    o->quick ? " (QUICK: small models on little text, not a reproduction)" : ""));
    SEFL_TRY(write_runs(o));
    SEFL_TRY(draw_dropout(o, &md));
    SEFL_TRY(draw_blocks(o, &md));
    SEFL_TRY(draw_epsilon(o, &md));
    SEFL_TRY(limit_draw(o, &md));
    SEFL_TRY(draw_start(o, &md));
    SEFL_TRY(draw_models(o, &md));
    SEFL_TRY(draw_full(o, &md));
    SEFL_TRY(write_claims(o, &md));
    SEFL_TRY(write_crossing(o));
    SEFL_TRY(paper_write(o, "tables.md", buf_span(&md)));
done:
    buf_clear(&md);
    return st;
}
