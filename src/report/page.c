/* The page: a summary, charts, a table of rounds, the settings. One self-contained file:
 * style as text, charts as SVG, no script. */
#include "report/report.h"

#include "base/alloc.h"
#include "report/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { ROWS_MAX = 500, COLUMNS = 8 };

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

/* ---- columns of numbers ---------------------------------------------------------------------- */

typedef struct columns {
    double *x;           /* rounds */
    double *of[COLUMNS]; /* scratch: n values each */
    double *flat;        /* all of them */
    size_t n;
} columns;

static void pick(double *out, const report *r, size_t offset)
{
    for (size_t i = 0; i < r->log.n; i++)
        memcpy(&out[i], (const char *)&r->log.at[i] + offset, sizeof *out);
}
#define PICK(k, member) pick(c->of[k], r, offsetof(run_line, member))

static void fill(double *out, size_t n, double v)
{
    for (size_t i = 0; i < n; i++)
        out[i] = v;
}

static sefl_status columns_new(columns *c, const report *r)
{
    c->n = r->log.n;
    SEFL_PASS(sefl_new(&c->flat, c->n * (COLUMNS + 1), sizeof *c->flat));
    c->x = c->flat;
    for (size_t k = 0; k < COLUMNS; k++)
        c->of[k] = c->flat + (k + 1) * c->n;
    for (size_t i = 0; i < c->n; i++)
        c->x[i] = (double)r->log.at[i].round;
    return SEFL_OK;
}

/* ---- charts -------------------------------------------------------------------------------- */

static sefl_status chart_learning(sefl_buf *out, const report *r, columns *c)
{
    svg_chart p = { .title = "Perplexity on the validation text",
                    .unit = "",
                    .n = c->n,
                    .x = c->x,
                    .log = true,
                    .series = { { .name = "this run", .y = c->of[0] } },
                    .count = 1 };
    svg_chart l = p;
    PICK(0, perplexity);
    if (!isnan(r->plain)) {
        fill(c->of[1], c->n, r->plain);
        p.series[p.count++] = (svg_series){ "plain FedAvg, at its end", c->of[1], true };
    }
    if (!isnan(r->best_possible)) {
        fill(c->of[2], c->n, r->best_possible);
        p.series[p.count++] = (svg_series){ "best possible", c->of[2], true };
    }
    SEFL_PASS(svg_write(out, &p));
    for (size_t i = 0; i < c->n; i++) {
        double loss = r->log.at[i].loss;
        c->of[0][i] = isnan(loss) ? log(r->log.at[i].perplexity) : loss;
    }
    l.title = "Loss on the validation text, nats per word";
    l.log = false;
    return svg_write(out, &l);
}

static sefl_status chart_privacy(sefl_buf *out, const report *r, columns *c)
{
    PICK(0, epsilon_server), PICK(1, epsilon_others), PICK(2, epsilon_target);
    svg_chart e = { .title = "Epsilon spent",
                    .unit = "",
                    .n = c->n,
                    .x = c->x,
                    .series = { { "against a server", c->of[0], false },
                                { "against others", c->of[1], false },
                                { "target", c->of[2], true } },
                    .count = 3 };
    return svg_write(out, &e);
}

static sefl_status chart_clients(sefl_buf *out, const report *r, columns *c)
{
    PICK(0, clients);
    for (size_t i = 0; i < c->n; i++)
        c->of[1][i] = r->log.at[i].asked - r->log.at[i].clients;
    svg_chart p = { .title = "Clients whose update is in the sum",
                    .unit = "",
                    .n = c->n,
                    .x = c->x,
                    .bars = true,
                    .series = { { "in the sum", c->of[0], false },
                                { "asked, not in it", c->of[1], false } },
                    .count = 2 };
    if (c->n > 0 && isnan(c->of[1][0]))
        p.count = 1;
    return svg_write(out, &p);
}

static sefl_status chart_cost(sefl_buf *out, const report *r, columns *c, const run_totals *t)
{
    svg_chart s = { .title = "Seconds by part", .unit = "s", .n = c->n, .x = c->x, .bars = true };
    svg_chart b = { .title = "Bytes by part", .unit = "bytes", .n = c->n, .x = c->x, .bars = true };
    if (isnan(t->all.train_seconds)) {
        for (size_t i = 0; i < c->n; i++) {
            const run_line *l = &r->log.at[i];
            double rest = (isnan(l->open_seconds) ? 0 : l->open_seconds) +
                          (isnan(l->release_seconds) ? 0 : l->release_seconds);
            c->of[0][i] = l->seconds - rest;
        }
        PICK(1, open_seconds), PICK(2, release_seconds);
        s.series[0] = (svg_series){ "clients train and upload", c->of[0], false };
        s.series[1] = (svg_series){ "2PC reveals the sum", c->of[1], false };
        s.series[2] = (svg_series){ "release", c->of[2], false };
        s.count = 3;
    } else {
        PICK(0, train_seconds), PICK(1, encrypt_seconds), PICK(2, sum_seconds);
        PICK(3, twopc_seconds), PICK(4, step_seconds), PICK(5, eval_seconds);
        static const char *const names[] = { "training", "encryption", "addition",
                                             "2PC",      "step",       "validation" };
        for (size_t k = 0; k < 6; k++)
            s.series[k] = (svg_series){ names[k], c->of[k], false };
        s.count = 6;
    }
    SEFL_PASS(svg_write(out, &s));
    PICK(0, up_bytes), PICK(1, down_bytes), PICK(2, ahead_bytes), PICK(3, open_bytes),
        PICK(4, link_bytes);
    static const char *const kinds[] = { "up", "down", "servers, ahead", "servers, reveal",
                                         "servers" };
    const double sums[] = { t->all.up_bytes, t->all.down_bytes, t->all.ahead_bytes,
                            t->all.open_bytes, t->all.link_bytes };
    for (size_t k = 0; k < 5; k++)
        if (!isnan(sums[k]))
            b.series[b.count++] = (svg_series){ kinds[k], c->of[k], false };
    return svg_write(out, &b);
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
        SEFL_PASS(wr_fmt(out, "<p>The last %d of %zu; metrics.jsonl has them all.</p>\n", ROWS_MAX,
                         r->log.n));
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
    columns c = { 0 };
    sefl_buf words = { 0 };
    run_totals t = run_log_totals(&r->log);
    SEFL_TRY(columns_new(&c, r));
    SEFL_TRY(report_text(&words, r));
    SEFL_TRY(wr_u8(&words, 0));
    SEFL_TRY(wr_fmt(out, "%sSEFL: ", head));
    SEFL_TRY(html_text(out, r->name));
    SEFL_TRY(wr_fmt(out, "%s", style));
    SEFL_TRY(html_text(out, r->name));
    SEFL_TRY(wr_fmt(out, "</h1>\n<pre>"));
    SEFL_TRY(html_text(out, (const char *)words.p));
    SEFL_TRY(wr_fmt(out, "</pre>\n<div class=\"charts\">\n"));
    SEFL_TRY(chart_learning(out, r, &c));
    SEFL_TRY(chart_privacy(out, r, &c));
    SEFL_TRY(chart_clients(out, r, &c));
    SEFL_TRY(chart_cost(out, r, &c, &t));
    SEFL_TRY(wr_fmt(out, "</div>\n"));
    SEFL_TRY(table(out, r));
    if (r->config) {
        SEFL_TRY(wr_fmt(out, "<h2>Settings</h2>\n<pre>"));
        SEFL_TRY(html_text(out, r->config));
        SEFL_TRY(wr_fmt(out, "</pre>\n"));
    }
    SEFL_TRY(wr_fmt(
        out, "<footer>Written by sefl report. Only numbers that everybody may know.</footer>\n"
             "</body>\n</html>\n"));
done:
    buf_clear(&words);
    sefl_free(c.flat);
    return st;
}
