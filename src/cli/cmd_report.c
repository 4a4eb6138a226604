#include "cli/options.h"
#include "cli/print.h"

#include "base/buf.h"
#include "base/file.h"
#include "report/report.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct wish {
    const char *run, *out;
    bool json, text;
} wish;

static log_field number(const char *key, double v)
{
    return lf_if(!isnan(v), lf_real(key, v));
}

static sefl_status say_json(const report *r, const char *page)
{
    run_totals t = run_log_totals(&r->log);
    return print_fields(
        lf_str("run", r->name), lf_if(page, lf_str("page", page)), lf_u64("released", t.released),
        lf_u64("skipped", t.skipped), lf_u64("blocked", t.blocked),
        number("perplexity", t.all.perplexity), number("word_perplexity", t.all.word_perplexity),
        number("best_perplexity", t.best), lf_if(t.best_round, lf_u64("best_round", t.best_round)),
        number("first_perplexity", r->first), number("plain_perplexity", r->plain),
        number("best_possible_perplexity", r->best_possible),
        lf_str("claim", isnan(t.all.epsilon_server) ? "none" : "dp"),
        number("epsilon_server", t.all.epsilon_server),
        number("epsilon_others", t.all.epsilon_others),
        number("epsilon_target", t.all.epsilon_target), number("updates", t.all.clients),
        number("seconds", t.all.seconds), number("up_bytes", t.all.up_bytes),
        number("down_bytes", t.all.down_bytes), number("link_bytes", t.all.link_bytes),
        number("ahead_bytes", t.all.ahead_bytes), number("open_bytes", t.all.open_bytes));
}

static sefl_status work(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    const char *page = w->out;
    report r = { 0 };
    sefl_buf html = { 0 }, words = { 0 };
    char usual[PATH_MAX];
    SEFL_TRY(report_open(&r, w->run));
    if (!page && !w->json && !w->text) {
        SEFL_TRY(file_path(usual, "%s/report.html", r.folder));
        page = usual;
    }
    if (page) {
        SEFL_TRY(report_html(&html, &r));
        SEFL_TRY(file_write_atomic(page, buf_span(&html), 0644));
    }
    if (w->json) {
        SEFL_TRY(say_json(&r, page));
        goto done;
    }
    SEFL_TRY(report_text(&words, &r));
    char plain[PATH_MAX];
    printf("run         %s\n%.*s", cli_plain(plain, sizeof plain, r.name), (int)words.n,
           (const char *)words.p);
    if (page)
        printf("page        %s\n", cli_plain(plain, sizeof plain, page));
done:
    buf_clear(&html);
    buf_clear(&words);
    report_close(&r);
    return st;
}

static int run(void *options)
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
    { "out", SETTING_PATH, "", .help = "Write the page to FILE instead of RUN/report.html",
      TO(out) },
    { "text", SETTING_FLAG, .help = "Print the summary, but do not write a page", TO(text) },
    { "json", SETTING_FLAG,
      .help = "Print the summary as JSON; write a page only if --out is given", TO(json) },
    { 0 },
};

const cli_command cmd_report = {
    .name = "report",
    .summary = "summarise a run and write an HTML report",
    .about = "Prints a summary of a run and writes one HTML page with perplexity, loss, epsilon, "
             "participation, and the time and bytes of each part of a round. RUN is the folder of "
             "a run, of an aggregator or of a provisioned federation, or a metrics.jsonl file.",
    .example = "sefl report runs/demo",
    CLI_OPTIONS(wish),
    CLI_RUN(run, "RUN", "a folder such as runs/demo", offsetof(wish, run)),
};
