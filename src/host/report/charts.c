#include "report/charts.h"

#include "base/alloc.h"
#include "report/svg.h"

#include <math.h>
#include <stddef.h>

enum { SERIES = 9 };

/* ---- numbers of a round ---------------------------------------------------------------------- */

/* In a federation, not a simulation: the seconds of a round without reveal and release. */
static double collecting(const run_line *l)
{
    double rest = (isnan(l->open_seconds) ? 0 : l->open_seconds) +
                  (isnan(l->release_seconds) ? 0 : l->release_seconds);
    return isnan(l->train_seconds) ? l->seconds - rest : NAN;
}

/* A series is a number of each line, a function of the line, the clients that the round lost, or a
 * constant of the run. */
typedef struct series_def {
    const char *name;
    size_t at, constant; /* offset in run_line; in report, 0: none */
    double (*of)(const run_line *l);
    bool lost, dashed;
} series_def;

typedef struct chart_def {
    const char *title, *y_name, *unit;
    bool bars, log, marks, dashes;
    series_def series[SERIES + 1];
} chart_def;

static double value_of(const series_def *s, const report *r, size_t i)
{
    const run_line *l = &r->log.at[i];
    return s->lost       ? run_lost(&r->log, i)
           : s->of       ? s->of(l)
           : s->constant ? run_number_at(r, s->constant)
                         : run_number_at(l, s->at);
}

#define AT(member)     .at = offsetof(run_line, member)
#define RUN_AT(member) .constant = offsetof(report, member), .dashed = true

/* ---- one run --------------------------------------------------------------------------------- */

static const chart_def charts[] = {
    { "Perplexity on the validation text", "perplexity", "", .log = true, .marks = true,
      .series = { { "this run", AT(perplexity) },
                  { "this run, per word", AT(word_perplexity) },
                  { "plain FedAvg (end)", RUN_AT(plain) },
                  { "best possible", RUN_AT(best_possible) },
                  { "before training", RUN_AT(first) } } },
    { "Clients in each round", "clients", "", .bars = true, .marks = true,
      .series = { { "update in the sum", AT(clients) },
                  { "lost (dropped or late)", .lost = true } } },
    { "Epsilon spent", "epsilon", "", .dashes = true, /* both lines may be the same */
      .series = { { "against a server", AT(epsilon_server) },
                  { "against others", AT(epsilon_others) },
                  { "budget", AT(epsilon_target), .dashed = true } } },
    { "Seconds by part of a round", "seconds", "s", .bars = true,
      .series = { { "clients train, upload", .of = collecting },
                  { "2PC reveals the sum", AT(open_seconds) },
                  { "release", AT(release_seconds) },
                  { "training", AT(train_seconds) },
                  { "encryption", AT(encrypt_seconds) },
                  { "addition", AT(sum_seconds) },
                  { "2PC", AT(twopc_seconds) },
                  { "step", AT(step_seconds) },
                  { "validation", AT(eval_seconds) } } },
    { "Bytes by part of a round", "bytes", "bytes", .bars = true,
      .series = { { "up", AT(up_bytes) },
                  { "down", AT(down_bytes) },
                  { "noise shares, ahead", AT(ahead_bytes) },
                  { "reveal", AT(open_bytes) },
                  { "between servers", AT(link_bytes) } } },
};

static sefl_status figure(sefl_buf *out, const svg_chart *c)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(svg_write(&b, c));
    if (b.n > 0) {
        SEFL_TRY(wr_fmt(out, "<figure>\n"));
        SEFL_TRY(wr_raw(out, b.p, b.n));
        SEFL_TRY(wr_fmt(out, "</figure>\n"));
    }
done:
    buf_clear(&b);
    return st;
}

/* Draws a chart without the series that no round has. room: (SERIES + 2) values per round. */
static sefl_status draw(sefl_buf *out, const report *r, const chart_def *d, double *room)
{
    size_t n = r->log.n;
    double *x = room, *mark = room + n, *y = room + 2 * n;
    svg_chart c = { .title = d->title,
                    .unit = d->unit,
                    .n = n,
                    .x = x,
                    .bars = d->bars,
                    .log = d->log,
                    .page = true,
                    .dashes = d->dashes,
                    .y_name = d->y_name,
                    .mark = d->marks ? mark : NULL,
                    .mark_name = "clients lost" };
    for (size_t i = 0; i < n; i++)
        x[i] = (double)r->log.at[i].round, mark[i] = run_lost(&r->log, i);
    for (const series_def *s = d->series; s->name && c.count < SVG_SERIES_MAX; s++) {
        bool any = false;
        for (size_t i = 0; i < n; i++) {
            y[i] = value_of(s, r, i);
            any = any || (isfinite(y[i]) && (!s->lost || y[i] > 0));
        }
        if (!any)
            continue;
        c.series[c.count++] = (svg_series){ s->name, y, s->dashed };
        y += n;
    }
    return figure(out, &c);
}

sefl_status charts_of_run(sefl_buf *out, const report *r)
{
    sefl_status st = SEFL_OK;
    double *room = NULL;
    SEFL_TRY(sefl_new(&room, r->log.n * (SERIES + 2), sizeof *room));
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++)
        SEFL_TRY(draw(out, r, &charts[i], room));
done:
    sefl_free(room);
    return st;
}

/* ---- several runs ---------------------------------------------------------------------------- */

/* Each has one series, which becomes one line per run. */
static const chart_def shared[] = {
    { "Perplexity on the validation text", "perplexity", "", .log = true,
      .series = { { "", AT(perplexity) } } },
    { "Epsilon spent against a server", "epsilon", "", .series = { { "", AT(epsilon_server) } } },
    { "Clients whose update is in the sum", "clients", "", .series = { { "", AT(clients) } } },
    { "Seconds of a round", "seconds", "s", .log = true, .series = { { "", AT(seconds) } } },
    { "Bytes up in a round", "bytes", "bytes", .log = true, .series = { { "", AT(up_bytes) } } },
};

/* Writes all rounds of the runs, ascending; returns their number. */
static size_t merge_rounds(double *x, const report *r, size_t n)
{
    size_t at[REPORT_RUNS_MAX] = { 0 }, m = 0;
    for (;;) {
        uint64_t next = UINT64_MAX;
        for (size_t i = 0; i < n; i++)
            if (at[i] < r[i].log.n && r[i].log.at[at[i]].round < next)
                next = r[i].log.at[at[i]].round;
        if (next == UINT64_MAX)
            return m;
        for (size_t i = 0; i < n; i++)
            at[i] += at[i] < r[i].log.n && r[i].log.at[at[i]].round == next;
        x[m++] = (double)next;
    }
}

sefl_status charts_of_runs(sefl_buf *out, const report *r, const char *const *label, size_t n)
{
    sefl_status st = SEFL_OK;
    double *room = NULL;
    size_t most = 0;
    for (size_t i = 0; i < n; i++)
        most += r[i].log.n;
    SEFL_TRY(sefl_new(&room, most * (n + 1), sizeof *room));
    size_t m = merge_rounds(room, r, n);
    for (size_t k = 0; k < sizeof shared / sizeof *shared; k++) {
        const chart_def *d = &shared[k];
        svg_chart c = { .title = d->title,
                        .unit = d->unit,
                        .n = m,
                        .x = room,
                        .log = d->log,
                        .page = true,
                        .dashes = true,
                        .no_key = n > CHARTS_KEYS_MAX,
                        .y_name = d->y_name };
        for (size_t i = 0; i < n; i++) { /* all runs, so that each keeps its colour */
            double *y = room + (i + 1) * m;
            for (size_t j = 0, line = 0; j < m; j++) {
                bool has = line < r[i].log.n && (double)r[i].log.at[line].round == room[j];
                y[j] = has ? value_of(d->series, &r[i], line) : NAN;
                line += has;
            }
            c.series[c.count++] = (svg_series){ label[i], y };
        }
        SEFL_TRY(figure(out, &c));
    }
done:
    sefl_free(room);
    return st;
}
