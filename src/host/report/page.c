/* Writes the page: what the run is and what it claims, charts, generated text, a table of rounds
 * and the settings; for several runs a table and shared charts. It is one self-contained file with
 * inline style, SVG charts and no script. */
#include "report/charts.h"
#include "report/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS_MAX = 500, LABEL = 40 };

static const char head[] = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                           "<meta name=\"viewport\" content=\"width=device-width\">\n<title>";

/* scripts/report-picture reads the lines that start with :root, @media, .grid, .tick, .line, .c0,
 * .s0 and .mark. */
static const char style[] =
    "</title>\n<style>\n"
    ":root{--fg:#1b1f24;--bg:#fff;--soft:#57606a;--rule:#dfe3e8;--card:#f6f8fa;--a:#2166ac;"
    "--b:#c4472f;--c:#3f7d1a;--d:#6e5fa8;--e:#946a00;--f:#1f7f78;--good:#1a6b2f;--weak:#8a5a00;"
    "--bad:#b3261e;--good-bg:#e6f4e9;--weak-bg:#fdf1d8;--bad-bg:#fce8e6}\n"
    "@media(prefers-color-scheme:dark){:root{--fg:#e6e9ec;--bg:#14171a;--soft:#a3adb8;--rule:#"
    "333a41;--card:#1c2126;--a:#6aaee6;--b:#f0907e;--c:#8cc265;--d:#b3a7e0;--e:#e0b84c;--f:#6fcfc5;"
    "--good:#7ed492;--weak:#f0c060;--bad:#ff9d94;--good-bg:#16291b;--weak-bg:#2e2512;--bad-bg:#"
    "331a18}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:1240px;padding:1.5em clamp(14px,3vw,40px);color:var(--fg);"
    "background:var(--bg);font:15px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.6em;line-height:1.2;margin:0 0 .5em;overflow-wrap:anywhere}\n"
    "h2{font-size:1.15em;margin:2em 0 .6em}h3{font-size:1em;margin:1em 0 .4em}p{margin:.4em 0}\n"
    ".over{color:var(--soft);margin:0;font-size:.9em}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.1em 1em;margin:0 0 1em}\n"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\n"
    ".banner{border-left:6px solid;border-radius:4px;padding:.7em 1em;margin:.8em 0}\n"
    ".banner strong{display:block}.banner span{color:var(--fg)}\n"
    ".good{color:var(--good);background:var(--good-bg)}.weak{color:var(--weak);"
    "background:var(--weak-bg)}.bad{color:var(--bad);background:var(--bad-bg)}\n"
    ".tag{border-radius:4px;padding:.1em .5em;font-weight:600;white-space:nowrap}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(145px,1fr));gap:.8em;"
    "margin:1em 0}\n"
    ".tile{background:var(--card);border:1px solid var(--rule);border-radius:6px;"
    "padding:.6em .9em}\n"
    ".tile b{display:block;font-size:1.5em;line-height:1.3;font-variant-numeric:tabular-nums}\n"
    ".tile i{display:block;font-style:normal;color:var(--soft);font-size:.9em}\n"
    ".meter{margin:.6em 0;max-width:60em}\n"
    ".track{height:14px;border-radius:7px;background:var(--rule);overflow:hidden}\n"
    ".track div{height:100%;border-radius:7px;background:var(--a)}.track .full{background:"
    "var(--b)}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));"
    "gap:1.2em;margin:1.2em 0}\n"
    "figure{margin:0;border:1px solid var(--rule);border-radius:6px;padding:.7em;"
    "container-type:inline-size}\n"
    "rect{shape-rendering:crispEdges}\n"
    "svg{display:block;width:100%;max-width:620px;height:auto;margin:0 auto}\n"
    ".grid{stroke:var(--rule)}.axis{stroke:var(--soft)}\n"
    ".tick{fill:var(--soft);font-size:12.5px}.title{fill:var(--fg);font-size:15px;font-weight:"
    "600}\n"
    "@container(max-width:440px){.tick{font-size:15.5px}.title{font-size:17.5px}}\n"
    ".line{fill:none;stroke-width:2}.dash{stroke-dasharray:6 4}.d1{stroke-dasharray:9 3}"
    ".d2{stroke-dasharray:3 3}.d3{stroke-dasharray:9 3 2 3}\n"
    ".c0{fill:var(--a)}.c1{fill:var(--b)}.c2{fill:var(--c)}.c3{fill:var(--d)}.c4{fill:var(--e)}"
    ".c5{fill:var(--f)}\n"
    ".s0{stroke:var(--a)}.s1{stroke:var(--b)}.s2{stroke:var(--c)}.s3{stroke:var(--d)}"
    ".s4{stroke:var(--e)}.s5{stroke:var(--f)}\n"
    ".mark{fill:var(--b)}.marked{stroke:var(--b);stroke-dasharray:2 4;opacity:.6}\n"
    ".scroll{overflow-x:auto}.scroll:focus-visible,summary:focus-visible{outline:2px solid "
    "var(--a)}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
    "th,td{text-align:right;padding:.25em .9em;border-bottom:1px solid var(--rule);white-space:"
    "nowrap}\n"
    ".runs th[scope=row]{white-space:normal;overflow-wrap:anywhere;min-width:13em}\n"
    ".key{display:inline-block;width:28px;height:10px;margin:0 .6em 0 0}\n"
    "th{color:var(--soft);font-weight:600}th:first-child,.left{text-align:left}\n"
    "pre,.sample{font:13px/1.55 ui-monospace,monospace;border:1px solid var(--rule);border-radius:"
    "6px;padding:.8em;background:var(--card)}\n"
    "pre{overflow-x:auto}.sample{white-space:pre-wrap;overflow-wrap:anywhere;margin:.4em 0;"
    "max-width:80em}\n"
    "summary{cursor:pointer;font-weight:600;margin-top:1.5em}\n"
    "footer{color:var(--soft);margin-top:2em;font-size:.9em}\n"
    "</style>\n</head>\n<body>\n<main>\n";

static const char *const levels[] = { "good", "weak", "bad" };

/* Writes an element that contains only this text. */
static sefl_status element(sefl_buf *out, const char *begin, const char *text, const char *end)
{
    SEFL_PASS(wr_fmt(out, "%s", begin));
    SEFL_PASS(html_text(out, text));
    return wr_fmt(out, "%s", end);
}

/* ---- the head of one run --------------------------------------------------------------------- */

static sefl_status fact(sefl_buf *out, const char *name, const char *text)
{
    if (!*text)
        return SEFL_OK;
    SEFL_PASS(wr_fmt(out, "<dt>%s</dt>", name));
    return element(out, "<dd>", text, "</dd>\n");
}

static sefl_status facts(sefl_buf *out, const report *r)
{
    const run_facts *f = &r->log.facts;
    char date[64];
    report_date(date, r);
    SEFL_PASS(wr_fmt(out, "<dl>\n"));
    SEFL_PASS(fact(out, "Date", date));
    SEFL_PASS(fact(out, "Task id", f->task));
    SEFL_PASS(fact(out, "Version", f->version));
    SEFL_PASS(fact(out, "Noise multiplier z", f->z));
    SEFL_PASS(fact(out, "Correlated noise (filter)", f->filter));
    if (*f->task)
        SEFL_PASS(fact(out, "Kind", f->simulated ? "simulation" : "federation"));
    SEFL_PASS(fact(out, "Folder", r->name));
    return wr_fmt(out, "</dl>\n");
}

static sefl_status banner(sefl_buf *out, const report *r)
{
    report_claim c = report_claim_of(r);
    SEFL_PASS(wr_fmt(out, "<p class=\"banner %s\">", levels[c.level]));
    SEFL_PASS(element(out, "<strong>", c.head, "</strong>"));
    SEFL_PASS(element(out, "<span>", c.detail, "</span></p>\n"));
    return SEFL_OK;
}

static sefl_status tile(sefl_buf *out, const char *name, const char *value, const char *note)
{
    SEFL_PASS(wr_fmt(out, "<div class=\"tile\"><i>%s</i>", name));
    SEFL_PASS(element(out, "<b>", value, "</b>"));
    return element(out, "<i>", note, "</i></div>\n");
}

static sefl_status tile_clients(sefl_buf *out, const report *r, const report_row row)
{
    const run_log *l = &r->log;
    double lost = 0;
    char note[64] = "";
    for (size_t i = 0; i < l->n; i++)
        lost += run_lost(l, i) > 0 ? run_lost(l, i) : 0;
    int n =
        isnan(l->facts.enrolled) ? 0 : snprintf(note, sizeof note, "of %.0f", l->facts.enrolled);
    if (lost > 0)
        snprintf(note + n, sizeof note - (size_t)n, "%s%.0f lost", n ? "; " : "", lost);
    return tile(out, "Clients per round", row[3], note);
}

static sefl_status tiles(sefl_buf *out, const report *r)
{
    run_totals t = run_log_totals(&r->log);
    report_row row;
    char text[32], note[80] = "";
    report_fill(row, r);
    SEFL_PASS(wr_fmt(out, "<div class=\"tiles\">\n"));
    if (!isnan(r->first)) {
        svg_number(text, r->first, "");
        snprintf(note, sizeof note, "before: %s", text);
    }
    if (!isnan(t.all.word_perplexity))
        snprintf(note, sizeof note, "per word: %s", row[9]);
    if (!isnan(t.all.perplexity))
        SEFL_PASS(tile(out, isnan(t.all.word_perplexity) ? "Perplexity" : "Perplexity per token",
                       row[4], note));
    snprintf(text, sizeof text, "%" PRIu64, t.released);
    snprintf(note, sizeof note, "%" PRIu64 " skipped, %" PRIu64 " blocked", t.skipped, t.blocked);
    SEFL_PASS(tile(out, "Rounds released", text, note));
    if (!isnan(t.clients_most))
        SEFL_PASS(tile_clients(out, r, row));
    if (!isnan(t.all.seconds)) {
        svg_number(text, t.all.seconds / (double)t.rounds, "s");
        snprintf(note, sizeof note, "%s per round", text);
        SEFL_PASS(tile(out, "Time", row[7], note));
    }
    if (!isnan(t.all.up_bytes) && t.all.clients > 0) {
        svg_number(text, t.all.up_bytes / t.all.clients, "bytes");
        snprintf(note, sizeof note, "%s per update", text);
        SEFL_PASS(tile(out, "Uploads", row[8], note));
    }
    return wr_fmt(out, "</div>\n");
}

static sefl_status meter(sefl_buf *out, const char *whom, double spent, double budget)
{
    char a[32], b[32];
    double share = budget > 0 ? 100 * spent / budget : 100;
    if (!isfinite(spent))
        return SEFL_OK;
    snprintf(a, sizeof a, "%.4g", report_up(spent, 4));
    svg_number(b, budget, "");
    SEFL_PASS(wr_fmt(out,
                     "<div class=\"meter\"><p>%s: epsilon <b>%s</b> of %s spent (%.0f %%)</p>"
                     "<div class=\"track\" role=\"img\" aria-label=\"%.0f %% of the budget\">"
                     "<div%s style=\"width:%.1f%%\"></div></div></div>\n",
                     whom, a, b, share, share, share > 100 ? " class=\"full\"" : "",
                     share > 100 ? 100 : share));
    return SEFL_OK;
}

static sefl_status budget(sefl_buf *out, const report *r)
{
    run_totals t = run_log_totals(&r->log);
    if (!isfinite(t.all.epsilon_target) || isnan(t.all.epsilon_server))
        return SEFL_OK;
    SEFL_PASS(wr_fmt(out, "<h2>Privacy budget</h2>\n"));
    SEFL_PASS(meter(out, "Against a server", t.all.epsilon_server, t.all.epsilon_target));
    return meter(out, "Against others", t.all.epsilon_others, t.all.epsilon_target);
}

/* ---- the rest of one run --------------------------------------------------------------------- */

static sefl_status sample_of(sefl_buf *out, const report *r, const char *heading)
{
    if (!r->sample)
        return SEFL_OK;
    SEFL_PASS(wr_fmt(out, "<%s>Text generated by the model of round %" PRIu64 "</%s>\n", heading,
                     r->sample_round, heading));
    SEFL_PASS(element(out, "<div class=\"sample\">", r->sample, "</div>\n"));
    if (report_claim_of(r).level != REPORT_GOOD)
        SEFL_PASS(wr_fmt(out, "<p class=\"over\">Without strong differential privacy, a model may "
                              "repeat text that it was trained on.</p>\n"));
    return SEFL_OK;
}

static sefl_status cell(sefl_buf *out, double v, const char *unit)
{
    char text[32] = "";
    if (!isnan(v))
        svg_number(text, v, unit);
    return wr_fmt(out, "<td>%s</td>", text);
}

/* The columns of the table of rounds. */
enum { ROUND_COLUMNS = 7 };
static const char *const round_heads[ROUND_COLUMNS] = { "perplexity", "clients", "lost", "epsilon",
                                                        "seconds",    "2PC",     "up" };

static void round_values(double out[ROUND_COLUMNS], const run_log *log, size_t i)
{
    const run_line *l = &log->at[i];
    double v[ROUND_COLUMNS] = {
        l->perplexity,     l->clients, run_lost(log, i),
        l->epsilon_server, l->seconds, isnan(l->open_seconds) ? l->twopc_seconds : l->open_seconds,
        l->up_bytes
    };
    memcpy(out, v, sizeof v);
}

/* Writes the table without the columns that no round has. */
static sefl_status round_rows(sefl_buf *out, const run_log *log, size_t from)
{
    double v[ROUND_COLUMNS];
    bool has[ROUND_COLUMNS] = { false };
    for (size_t i = from; i < log->n; i++) {
        round_values(v, log, i);
        for (size_t c = 0; c < ROUND_COLUMNS; c++)
            has[c] = has[c] || !isnan(v[c]);
    }
    SEFL_PASS(wr_fmt(out, "<table>\n<thead><tr><th scope=\"col\">round</th>"));
    for (size_t c = 0; c < ROUND_COLUMNS; c++)
        if (has[c])
            SEFL_PASS(wr_fmt(out, "<th scope=\"col\">%s</th>", round_heads[c]));
    SEFL_PASS(wr_fmt(out, "</tr></thead>\n<tbody>\n"));
    for (size_t i = from; i < log->n; i++) {
        const run_line *l = &log->at[i];
        SEFL_PASS(wr_fmt(out, "<tr><th scope=\"row\">%" PRIu64 "%s</th>", l->round,
                         l->skipped   ? " skipped"
                         : l->blocked ? " blocked"
                                      : ""));
        round_values(v, log, i);
        for (size_t c = 0; c < ROUND_COLUMNS; c++)
            if (has[c])
                SEFL_PASS(cell(out, v[c], c == ROUND_COLUMNS - 1 ? "bytes" : ""));
        SEFL_PASS(wr_fmt(out, "</tr>\n"));
    }
    return wr_fmt(out, "</tbody>\n</table>\n");
}

static sefl_status rounds_table(sefl_buf *out, const report *r)
{
    size_t from = r->log.n > ROWS_MAX ? r->log.n - ROWS_MAX : 0;
    SEFL_PASS(wr_fmt(out, "<h2>Rounds</h2>\n"));
    if (from > 0)
        SEFL_PASS(wr_fmt(out, "<p>The last %d of %zu; metrics.jsonl has all rounds.</p>\n",
                         ROWS_MAX, r->log.n));
    SEFL_PASS(wr_fmt(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                          "aria-label=\"Table of rounds\">\n"));
    SEFL_PASS(round_rows(out, &r->log, from));
    return wr_fmt(out, "</div>\n");
}

static sefl_status one_run(sefl_buf *out, const report *r)
{
    SEFL_PASS(wr_fmt(out, "<header>\n<p class=\"over\">Report of a run</p>\n"));
    SEFL_PASS(element(out, "<h1>", report_title(r), "</h1>\n"));
    SEFL_PASS(facts(out, r));
    SEFL_PASS(banner(out, r));
    SEFL_PASS(wr_fmt(out, "</header>\n"));
    SEFL_PASS(tiles(out, r));
    SEFL_PASS(budget(out, r));
    SEFL_PASS(wr_fmt(out, "<div class=\"charts\">\n"));
    SEFL_PASS(charts_of_run(out, r));
    SEFL_PASS(wr_fmt(out, "</div>\n"));
    SEFL_PASS(sample_of(out, r, "h2"));
    SEFL_PASS(rounds_table(out, r));
    if (!r->config)
        return SEFL_OK;
    SEFL_PASS(wr_fmt(out, "<details>\n<summary>Settings (config.yml)</summary>\n"));
    return element(out, "<pre>", r->config, "</pre>\n</details>\n");
}

/* ---- several runs ---------------------------------------------------------------------------- */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Writes the last part of the path, or its end if another run has the same last part. */
static void make_label(char out[LABEL + 8], const report *r, size_t n, size_t i)
{
    const char *text = last_part(r[i].name);
    for (size_t k = 0; k < n; k++)
        if (k != i && strcmp(last_part(r[k].name), text) == 0) {
            text = r[i].name;
            break;
        }
    size_t len = strlen(text), from = len > LABEL ? len - LABEL : 0;
    while (from > 0 && from < len && ((unsigned char)text[from] & 0xc0) == 0x80)
        from++; /* not inside a UTF-8 sequence */
    snprintf(out, LABEL + 8, "%s%s", from > 0 ? "..." : "", text + from);
}

static sefl_status runs_table(sefl_buf *out, const report *r, const char *const *name, size_t n)
{
    report_row row;
    SEFL_PASS(wr_fmt(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                          "aria-label=\"Table of runs\">\n<table class=\"runs\">\n<thead><tr>"));
    for (size_t c = 0; c < REPORT_COLUMNS; c++)
        SEFL_PASS(wr_fmt(out, "<th scope=\"col\"%s>%s</th>", c < 2 ? " class=\"left\"" : "",
                         report_heads[c]));
    SEFL_PASS(wr_fmt(out, "</tr></thead>\n<tbody>\n"));
    for (size_t i = 0; i < n; i++) {
        report_claim claim = report_claim_of(&r[i]);
        report_fill(row, &r[i]);
        SEFL_PASS(wr_fmt(out, "<tr><th scope=\"row\">"));
        SEFL_PASS(svg_key(out, i));
        SEFL_PASS(element(out, "", name[i], "</th>"));
        SEFL_PASS(wr_fmt(out, "<td class=\"left\"><span class=\"tag %s\">%s</span></td>",
                         levels[claim.level], row[1]));
        for (size_t c = 2; c < REPORT_COLUMNS; c++)
            SEFL_PASS(wr_fmt(out, "<td>%s</td>", row[c]));
        SEFL_PASS(wr_fmt(out, "</tr>\n"));
    }
    return wr_fmt(out, "</tbody>\n</table>\n</div>\n");
}

static sefl_status several_runs(sefl_buf *out, const report *r, size_t n)
{
    char label[REPORT_RUNS_MAX][LABEL + 8];
    const char *names[REPORT_RUNS_MAX];
    for (size_t i = 0; i < n; i++) {
        make_label(label[i], r, n, i);
        names[i] = label[i];
    }
    SEFL_PASS(wr_fmt(out, "<header>\n<h1>Comparison of %zu runs</h1>\n</header>\n", n));
    SEFL_PASS(runs_table(out, r, names, n));
    SEFL_PASS(wr_fmt(out, "<div class=\"charts\">\n"));
    SEFL_PASS(charts_of_runs(out, r, names, n));
    SEFL_PASS(wr_fmt(out, "</div>\n"));
    for (size_t i = 0; i < n; i++) {
        SEFL_PASS(element(out, "<section>\n<h2>", label[i], "</h2>\n"));
        SEFL_PASS(banner(out, &r[i]));
        SEFL_PASS(facts(out, &r[i]));
        SEFL_PASS(sample_of(out, &r[i], "h3"));
        SEFL_PASS(wr_fmt(out, "</section>\n"));
    }
    return SEFL_OK;
}

sefl_status report_html(sefl_buf *out, const report *r, size_t n)
{
    SEFL_NEED(n >= 1 && n <= REPORT_RUNS_MAX, SEFL_EINVAL,
              "a report shows 1 to %d runs, not %zu: pass fewer runs", REPORT_RUNS_MAX, n);
    SEFL_PASS(wr_fmt(out, "%s", head));
    if (n == 1)
        SEFL_PASS(element(out, "", report_title(r), " (SEFL)"));
    else
        SEFL_PASS(wr_fmt(out, "comparison of %zu runs (SEFL)", n));
    SEFL_PASS(wr_fmt(out, "%s", style));
    SEFL_PASS(n == 1 ? one_run(out, r) : several_runs(out, r, n));
    return wr_fmt(out, "</main>\n<footer>Written by sefl report. All numbers are public.</footer>\n"
                       "</body>\n</html>\n");
}
