/* The report's page is the web page of a server (assets.h) with the runs inside, as JSON. Its style
 * and its script are in the same file, and its policy forbids requests. */
#include "base/json.h"
#include "report/assets.h"
#include "report/report.h"
#include "report/server_view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the data -------------------------------------------------------------------------------- */

static void text(json *j, const char *key, const char *s)
{
    json_key(j, key), json_str(j, s);
}

static void number(json *j, const char *key, double v)
{
    json_key(j, key), json_real(j, v);
}

static void fact(json *j, const char *name, const char *s)
{
    if (!*s)
        return;
    json_open(j, '[');
    json_str(j, name), json_str(j, s);
    json_close(j, ']');
}

static void write_facts(json *j, const report *r)
{
    const run_facts *f = &r->log.facts;
    char date[64];
    report_date(date, r);
    json_key(j, "about"), json_open(j, '[');
    fact(j, "Date", date);
    fact(j, "Task id", f->task);
    fact(j, "Version", f->version);
    fact(j, "Mode", f->mode);
    fact(j, "Noise multiplier z", f->z);
    fact(j, "Correlated noise (filter)", f->filter);
    fact(j, "Kind", !*f->task ? "" : f->simulated ? "simulation" : "federation");
    fact(j, "Folder", r->name);
    json_close(j, ']');
}

static sefl_status write_about(sefl_buf *out, const report *r)
{
    static const char *const levels[] = { "good", "weak", "bad" };
    report_claim c = report_claim_of(r);
    report_row row;
    json j = json_into(out);
    json_open(&j, '{');
    text(&j, "name", r->name);
    text(&j, "level", levels[c.level]), text(&j, "head", c.head), text(&j, "detail", c.detail);
    write_facts(&j, r);
    report_fill(row, r);
    json_key(&j, "row"), json_open(&j, '[');
    for (size_t i = 1; i < REPORT_COLUMNS; i++)
        json_str(&j, row[i]);
    json_close(&j, ']');
    number(&j, "first", r->first), number(&j, "plain", r->plain);
    number(&j, "best_possible", r->best_possible);
    if (r->sample) {
        text(&j, "sample", r->sample);
        json_key(&j, "sample_round"), json_u64(&j, r->sample_round);
    }
    if (r->config)
        text(&j, "config", r->config);
    json_close(&j, '}');
    return json_end(&j);
}

/* Writes what the page of a server would show after the last round. */
static sefl_status write_state(sefl_buf *out, const report *r)
{
    const run_log *l = &r->log;
    server_view v = server_view_none();
    v.role = l->facts.simulated ? "simulation" : "aggregator";
    v.phase = "report";
    v.facts = l->facts;
    v.facts.known = true;
    snprintf(v.facts.name, sizeof v.facts.name, "%.200s", report_title(r));
    v.claimed = view_yes(report_claimed(r));
    server_view_log(&v, &(run_view){ .totals = run_log_totals(l),
                                     .last = l->at[l->n - 1],
                                     .seconds_a_round = NAN });
    return server_view_write(out, &v);
}

static sefl_status write_run(sefl_buf *out, const report *r)
{
    SEFL_PASS(wr_fmt(out, "{\"about\":"));
    SEFL_PASS(write_about(out, r));
    SEFL_PASS(wr_fmt(out, ",\"state\":"));
    SEFL_PASS(write_state(out, r));
    SEFL_PASS(wr_fmt(out, ",\"facts\":"));
    SEFL_PASS(run_facts_write(out, &r->log.facts));
    SEFL_PASS(wr_fmt(out, ",\"rounds\":["));
    for (size_t i = 0; i < r->log.n; i++) {
        SEFL_PASS(wr_fmt(out, "%s", i > 0 ? ",\n" : ""));
        SEFL_PASS(run_line_write(out, &r->log.at[i], NULL));
    }
    return wr_fmt(out, "]}");
}

static sefl_status write_data(sefl_buf *out, const report *r, size_t n)
{
    SEFL_PASS(wr_fmt(out, "{\"heads\":["));
    for (size_t i = 0; i < REPORT_COLUMNS; i++)
        SEFL_PASS(wr_fmt(out, "%s\"%s\"", i > 0 ? "," : "", report_heads[i]));
    SEFL_PASS(wr_fmt(out, "],\"runs\":["));
    for (size_t i = 0; i < n; i++) {
        SEFL_PASS(wr_fmt(out, "%s", i > 0 ? ",\n" : ""));
        SEFL_PASS(write_run(out, &r[i]));
    }
    return wr_fmt(out, "]}");
}

/* ---- the page -------------------------------------------------------------------------------- */

/* JSON has '<' only in strings. Escaped, the data cannot end its element. */
static sefl_status wr_inside(sefl_buf *out, sefl_span data)
{
    for (const uint8_t *at = data.p, *end = data.p + data.n; at < end;) {
        const uint8_t *stop = memchr(at, '<', (size_t)(end - at));
        SEFL_PASS(wr_raw(out, at, (size_t)((stop ? stop : end) - at)));
        if (!stop)
            break;
        SEFL_PASS(wr_fmt(out, "\\u003c"));
        at = stop + 1;
    }
    return SEFL_OK;
}

/* Copies the page up to a mark, which it skips. */
static sefl_status copy_until(sefl_buf *out, const char **at, const char *mark)
{
    const char *stop = strstr(*at, mark);
    SEFL_NEED(stop, SEFL_ESTATE, "page.html has no %s", mark);
    SEFL_PASS(wr_raw(out, *at, (size_t)(stop - *at)));
    *at = stop + strlen(mark);
    return SEFL_OK;
}

static sefl_status wr_asset(sefl_buf *out, const char *begin, const char *path, const char *end)
{
    const page_asset *a = page_asset_of(path);
    SEFL_PASS(wr_fmt(out, "%s\n", begin));
    SEFL_PASS(wr_raw(out, a->bytes, a->n));
    return wr_fmt(out, "%s", end);
}

static const char policy[] =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'\">";

/* Copies page.html with its style and script inside, and without its icon. */
static sefl_status wr_page(sefl_buf *out, sefl_span data)
{
    const char *at = (const char *)page_asset_of("/")->bytes;
    SEFL_PASS(copy_until(out, &at, "<link rel=\"icon\" href=\"icon.svg\" type=\"image/svg+xml\">"));
    SEFL_PASS(wr_fmt(out, "%s", policy));
    SEFL_PASS(copy_until(out, &at, "<link rel=\"stylesheet\" href=\"page.css\">"));
    SEFL_PASS(wr_asset(out, "<style>", "/page.css", "</style>"));
    SEFL_PASS(copy_until(out, &at, "<script type=\"module\" src=\"page.js\"></script>\n"));
    SEFL_PASS(copy_until(out, &at, "<img src=\"icon.svg\" alt=\"\" width=\"28\" height=\"28\">"));
    SEFL_PASS(copy_until(out, &at, "</body>"));
    SEFL_PASS(wr_fmt(out, "<script type=\"application/json\" id=\"data\">"));
    SEFL_PASS(wr_inside(out, data));
    SEFL_PASS(wr_asset(out, "</script>\n<script type=\"module\">", "/page.js", "</script>"));
    return wr_fmt(out, "\n</body>%s", at);
}

sefl_status report_html(sefl_buf *out, const report *r, size_t n)
{
    sefl_status st = SEFL_OK;
    sefl_buf data = { 0 };
    SEFL_CHECK(n >= 1 && n <= REPORT_RUNS_MAX, SEFL_EINVAL,
               "a report shows 1 to %d runs, not %zu: pass fewer runs", REPORT_RUNS_MAX, n);
    SEFL_TRY(write_data(&data, r, n));
    SEFL_TRY(wr_page(out, buf_span(&data)));
done:
    buf_clear(&data);
    return st;
}
