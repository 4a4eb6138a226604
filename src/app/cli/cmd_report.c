#include "cli/options.h"
#include "cli/print.h"
#include "cli/sample.h"

#include "base/buf.h"
#include "base/file.h"
#include "report/report.h"
#include "report/tensorboard.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct wish {
    char **run;
    const char *out, *tensorboard;
    bool json, text;
} wish;

static log_field number(const char *key, double v)
{
    return lf_if(!isnan(v), lf_real(key, v));
}

static sefl_status say_json(const report *r, const char *page)
{
    run_totals t = run_log_totals(&r->log);
    const run_facts *f = &r->log.facts;
    return print_fields(
        lf_str("run", r->name), lf_if(page, lf_str("page", page)),
        lf_if(*f->task, lf_str("task", f->task)), lf_if(*f->name, lf_str("name", f->name)),
        lf_if(*f->version, lf_str("version", f->version)),
        lf_if(*f->noise, lf_str("noise", f->noise)), number("time", t.all.time),
        number("enrolled", f->enrolled), lf_u64("released", t.released),
        lf_u64("skipped", t.skipped), lf_u64("blocked", t.blocked),
        number("perplexity", t.all.perplexity), number("word_perplexity", t.all.word_perplexity),
        number("best_perplexity", t.best), lf_if(t.best_round, lf_u64("best_round", t.best_round)),
        number("first_perplexity", r->first), number("plain_perplexity", r->plain),
        number("best_possible_perplexity", r->best_possible),
        lf_str("claim", report_claimed(r) ? "dp" : "none"),
        number("epsilon_server", t.all.epsilon_server),
        number("epsilon_others", t.all.epsilon_others),
        number("epsilon_target", t.all.epsilon_target), number("updates", t.all.clients),
        number("seconds", t.all.seconds), number("up_bytes", t.all.up_bytes),
        number("down_bytes", t.all.down_bytes), number("link_bytes", t.all.link_bytes),
        number("ahead_bytes", t.all.ahead_bytes), number("open_bytes", t.all.open_bytes));
}

/* Prints lines whose names may contain control characters. */
static void say_lines(const sefl_buf *words)
{
    for (size_t i = 0; i < words->n; i++) {
        uint8_t c = words->p[i];
        putchar(c == '\n' || (c >= 32 && c != 127) ? c : '?');
    }
}

/* Reads the runs and writes the page, unless page is NULL. */
static sefl_status make_page(report *r, size_t n, const char *page)
{
    sefl_status st = SEFL_OK;
    sefl_buf html = { 0 };
    if (!page)
        return SEFL_OK;
    for (size_t i = 0; i < n; i++)
        SEFL_TRY(sample_run(&r[i]));
    SEFL_TRY(report_html(&html, r, n));
    SEFL_TRY(file_write_atomic(page, buf_span(&html), 0644));
done:
    buf_clear(&html);
    return st;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Writes the event files of all runs into one folder each, named after the run's folder. */
static sefl_status make_events(const report *r, size_t n, const wish *w)
{
    char path[PATH_MAX], name[NAME_MAX + 32], plain[PATH_MAX];
    for (size_t i = 0; i < n && w->tensorboard; i++) {
        size_t same = 0;
        const char *own = last_part(r[i].folder);
        for (size_t k = 0; k < i; k++)
            same += strcmp(last_part(r[k].folder), own) == 0;
        if (same > 0)
            snprintf(name, sizeof name, "%.*s-%zu", NAME_MAX, own, same + 1);
        else
            snprintf(name, sizeof name, "%.*s", NAME_MAX, own);
        SEFL_PASS(tensorboard_save(path, w->tensorboard, name, &r[i].log));
        if (!w->json)
            printf("events      %s\n", cli_plain(plain, sizeof plain, path));
    }
    return SEFL_OK;
}

static sefl_status work(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    const char *page = w->out;
    report r[REPORT_RUNS_MAX] = { 0 };
    sefl_buf words = { 0 };
    char usual[PATH_MAX], plain[PATH_MAX];
    size_t n = 0;
    for (; w->run[n]; n++) {
        SEFL_CHECK(n < REPORT_RUNS_MAX, SEFL_EINVAL,
                   "a report shows at most %d runs: pass fewer, or use 'sefl compare'",
                   REPORT_RUNS_MAX);
        SEFL_TRY(report_open(&r[n], w->run[n]));
    }
    if (!page && !w->json && !w->text) {
        SEFL_TRY(file_path(usual, "%s/report.html", n == 1 ? r[0].folder : "."));
        page = usual;
    }
    SEFL_TRY(make_page(r, n, page));
    for (size_t i = 0; i < n && w->json; i++)
        SEFL_TRY(say_json(&r[i], page));
    if (w->json) {
        st = make_events(r, n, w);
        goto done;
    }
    SEFL_TRY(n == 1 ? report_text(&words, r) : report_table(&words, r, n));
    if (n == 1)
        printf("run         %s\n", cli_plain(plain, sizeof plain, r[0].name));
    say_lines(&words);
    if (page)
        printf("page        %s\n", cli_plain(plain, sizeof plain, page));
    SEFL_TRY(make_events(r, n, w));
done:
    buf_clear(&words);
    for (size_t i = 0; i < REPORT_RUNS_MAX; i++)
        report_close(&r[i]);
    return st;
}

static int cmd_report_run(void *options)
{
    const wish *w = options;
    if (w->out && w->text)
        return cli_misuse(&cmd_report, "--out cannot be used with --text, which writes no page");
    sefl_status st = work(options);
    if (st != SEFL_OK)
        cli_failed(&cmd_report, st);
    return st == SEFL_OK ? CLI_DONE : CLI_FAILED;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "out", SETTING_PATH, "",
      .help = "Write the page to FILE; default RUN/report.html, or report.html for several runs",
      TO(out) },
    { "tensorboard", SETTING_PATH, "", .arg = "DIR",
      .help = "Also write event files for TensorBoard to DIR, in one folder per run",
      TO(tensorboard) },
    { "text", SETTING_FLAG, .help = "Print the summary, but do not write a page", TO(text) },
    { "json", SETTING_FLAG,
      .help = "Print the summary as JSON; write a page only if --out is given", TO(json) },
    { 0 },
};

const cli_command cmd_report = {
    .name = "report",
    .about = "Prints a summary of a run and writes one HTML page: what the run claims, perplexity, "
             "epsilon, participation, text that the model generates, and the time and bytes of "
             "each part of a round. Several runs share one table and their charts. RUN is the "
             "folder of a run, of an aggregator or of a provisioned federation, or a metrics.jsonl "
             "file.",
    .example = "sefl report runs/demo",
    CLI_OPTIONS(wish),
    CLI_RUN(cmd_report_run, "RUN...", "run folders such as runs/demo", offsetof(wish, run)),
};
