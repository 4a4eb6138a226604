/* Writes the page: a summary, charts, a table of rounds and the settings. It is one self-contained
 * file with inline style, SVG charts and no script. */
#include "report/report.h"

#include "base/alloc.h"
#include "report/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

enum { ROWS_MAX = 500, SERIES = 9 };

static const char head[] = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                           "<meta name=\"viewport\" content=\"width=device-width\">\n<title>";

static const char style[] =
    "</title>\n<style>\n"
    ":root{--fg:#1b1f24;--bg:#fff;--soft:#66707b;--rule:#dfe3e8;--a:#2166ac;--b:#d6604d;--c:#"
    "4d9221;"
    "--d:#8073ac;--e:#b8860b;--f:#35978f}\n"
    "@media(prefers-color-scheme:dark){:root{--fg:#e6e9ec;--bg:#14171a;--soft:#9aa4af;--rule:#"
    "333a41;"
    "--a:#6aaee6;--b:#f0907e;--c:#8cc265;--d:#b3a7e0;--e:#e0b84c;--f:#6fcfc5}}\n"
    "body{margin:2em auto;max-width:1360px;padding:0 1em;color:var(--fg);background:var(--bg);"
    "font:15px/1.45 system-ui,sans-serif}\n"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}\n"
    "pre{font:13px/1.45 ui-monospace,monospace;overflow-x:auto;border:1px solid "
    "var(--rule);padding:.8em}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1.2em}\n"
    "svg{width:100%;height:auto}\n"
    ".grid{stroke:var(--rule)}.axis{stroke:var(--soft)}\n"
    ".tick{fill:var(--soft);font-size:11px}.title{fill:var(--fg);font-size:13px;font-weight:600}\n"
    ".line{fill:none;stroke-width:2}.dash{stroke-dasharray:5 4}\n"
    ".c0{fill:var(--a)}.c1{fill:var(--b)}.c2{fill:var(--c)}.c3{fill:var(--d)}.c4{fill:var(--e)}"
    ".c5{fill:var(--f)}\n"
    ".s0{stroke:var(--a)}.s1{stroke:var(--b)}.s2{stroke:var(--c)}.s3{stroke:var(--d)}"
    ".s4{stroke:var(--e)}.s5{stroke:var(--f)}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
    "th,td{text-align:right;padding:.15em .8em;border-bottom:1px solid var(--rule)}\n"
    "footer{color:var(--soft);margin-top:2em}\n</style>\n</head>\n<body>\n<h1>";

/* ---- charts -------------------------------------------------------------------------------- */

static double loss(const run_line *l)
{
    return isnan(l->loss) ? log(l->perplexity) : l->loss;
}

static double not_in_sum(const run_line *l)
{
    return l->asked - l->clients;
}

/* In a federation, not a simulation: the seconds of a round without reveal and release. */
static double collecting(const run_line *l)
{
    double rest = (isnan(l->open_seconds) ? 0 : l->open_seconds) +
                  (isnan(l->release_seconds) ? 0 : l->release_seconds);
    return isnan(l->train_seconds) ? l->seconds - rest : NAN;
}

/* A series is a number of each line, a function of the line, or a constant of the run. */
typedef struct series_def {
    const char *name;
    size_t at, constant; /* offset in run_line; in report, 0: none */
    double (*of)(const run_line *l);
    bool dashed;
} series_def;

#define AT(member)     .at = offsetof(run_line, member)
#define RUN_AT(member) .constant = offsetof(report, member), .dashed = true
static const struct chart_def {
    const char *title, *unit;
    bool bars, log;
    series_def series[SERIES + 1];
} charts[] = {
    { "Perplexity on the validation text", "", .log = true,
      .series = { { "this run", AT(perplexity) },
                  { "this run, per word", AT(word_perplexity) },
                  { "plain FedAvg, at its end", RUN_AT(plain) },
                  { "best possible", RUN_AT(best_possible) },
                  { "before training", RUN_AT(first) } } },
    { "Loss on the validation text, nats per token", "", .series = { { "this run", .of = loss } } },
    { "Epsilon spent", "",
      .series = { { "against a server", AT(epsilon_server) },
                  { "against others", AT(epsilon_others) },
                  { "target", AT(epsilon_target), .dashed = true } } },
    { "Clients whose update is in the sum", "", .bars = true,
      .series = { { "in the sum", AT(clients) }, { "asked, not in the sum", .of = not_in_sum } } },
    { "Seconds by part", "s", .bars = true,
      .series = { { "clients train and upload", .of = collecting },
                  { "2PC reveals the sum", AT(open_seconds) },
                  { "release", AT(release_seconds) },
                  { "training", AT(train_seconds) },
                  { "encryption", AT(encrypt_seconds) },
                  { "addition", AT(sum_seconds) },
                  { "2PC", AT(twopc_seconds) },
                  { "step", AT(step_seconds) },
                  { "validation", AT(eval_seconds) } } },
    { "Bytes by part", "bytes", .bars = true,
      .series = { { "up", AT(up_bytes) },
                  { "down", AT(down_bytes) },
                  { "noise shares, made ahead", AT(ahead_bytes) },
                  { "reveal", AT(open_bytes) },
                  { "servers", AT(link_bytes) } } },
};

/* Draws a chart without the series that no round has. room: (SERIES + 1) values per round. */
static sefl_status draw(sefl_buf *out, const report *r, const struct chart_def *d, double *room)
{
    size_t n = r->log.n;
    double *x = room, *y = room + n;
    svg_chart c = { d->title, d->unit, n, x, .bars = d->bars, .log = d->log };
    for (size_t i = 0; i < n; i++)
        x[i] = (double)r->log.at[i].round;
    for (const series_def *s = d->series; s->name && c.count < SVG_SERIES_MAX; s++) {
        bool any = false;
        for (size_t i = 0; i < n; i++) {
            const run_line *l = &r->log.at[i];
            y[i] = s->of         ? s->of(l)
                   : s->constant ? run_number_at(r, s->constant)
                                 : run_number_at(l, s->at);
            any = any || !isnan(y[i]);
        }
        if (!any)
            continue;
        c.series[c.count++] = (svg_series){ s->name, y, s->dashed };
        y += n;
    }
    return svg_write(out, &c);
}

/* ---- the table ----------------------------------------------------------------------------- */

static sefl_status cell(sefl_buf *out, double v, const char *unit)
{
    char text[32] = "";
    if (!isnan(v))
        svg_number(text, v, unit);
    return wr_fmt(out, "<td>%s</td>", text);
}

static sefl_status table(sefl_buf *out, const report *r)
{
    size_t from = r->log.n > ROWS_MAX ? r->log.n - ROWS_MAX : 0;
    SEFL_PASS(wr_fmt(out, "<h2>Rounds</h2>\n"));
    if (from > 0)
        SEFL_PASS(wr_fmt(out, "<p>The last %d of %zu; metrics.jsonl has all rounds.</p>\n",
                         ROWS_MAX, r->log.n));
    SEFL_PASS(
        wr_fmt(out, "<table>\n<tr><th>round</th><th>perplexity</th><th>clients</th><th>epsilon</th>"
                    "<th>seconds</th><th>2PC</th><th>up</th></tr>\n"));
    for (size_t i = from; i < r->log.n; i++) {
        const run_line *l = &r->log.at[i];
        SEFL_PASS(wr_fmt(out, "<tr><td>%" PRIu64 "%s</td>", l->round,
                         l->skipped   ? " skipped"
                         : l->blocked ? " blocked"
                                      : ""));
        SEFL_PASS(cell(out, l->perplexity, ""));
        SEFL_PASS(cell(out, l->clients, ""));
        SEFL_PASS(cell(out, l->epsilon_server, ""));
        SEFL_PASS(cell(out, l->seconds, ""));
        SEFL_PASS(cell(out, isnan(l->open_seconds) ? l->twopc_seconds : l->open_seconds, ""));
        SEFL_PASS(cell(out, l->up_bytes, "bytes"));
        SEFL_PASS(wr_fmt(out, "</tr>\n"));
    }
    return wr_fmt(out, "</table>\n");
}

sefl_status report_html(sefl_buf *out, const report *r)
{
    sefl_status st = SEFL_OK;
    double *room = NULL;
    sefl_buf words = { 0 };
    SEFL_TRY(sefl_new(&room, r->log.n * (SERIES + 1), sizeof *room));
    SEFL_TRY(report_text(&words, r));
    SEFL_TRY(wr_u8(&words, 0));
    SEFL_TRY(wr_fmt(out, "%sSEFL: ", head));
    SEFL_TRY(html_text(out, r->name));
    SEFL_TRY(wr_fmt(out, "%s", style));
    SEFL_TRY(html_text(out, r->name));
    SEFL_TRY(wr_fmt(out, "</h1>\n<pre>"));
    SEFL_TRY(html_text(out, (const char *)words.p));
    SEFL_TRY(wr_fmt(out, "</pre>\n<div class=\"charts\">\n"));
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++)
        SEFL_TRY(draw(out, r, &charts[i], room));
    SEFL_TRY(wr_fmt(out, "</div>\n"));
    SEFL_TRY(table(out, r));
    if (r->config) {
        SEFL_TRY(wr_fmt(out, "<h2>Settings</h2>\n<pre>"));
        SEFL_TRY(html_text(out, r->config));
        SEFL_TRY(wr_fmt(out, "</pre>\n"));
    }
    SEFL_TRY(wr_fmt(out, "<footer>Written by sefl report. All numbers are public.</footer>\n"
                         "</body>\n</html>\n"));
done:
    buf_clear(&words);
    sefl_free(room);
    return st;
}
