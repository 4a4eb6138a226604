/* sefl report: what happened in a run, in words and as a page. */
#include "cli/cli.h"
#include "cli/print.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "report/report.h"

#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { O_OUT = 256, O_JSON, O_TEXT };

static const struct option longopts[] = {
    { "out", required_argument, NULL, O_OUT },
    { "json", no_argument, NULL, O_JSON },
    { "text", no_argument, NULL, O_TEXT },
    { 0 },
};

static void number(json *j, const char *key, double v)
{
    if (!isnan(v))
        json_key(j, key), json_real(j, v);
}

static sefl_status say_json(const report *r, const char *page)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    report_totals t = report_add_up(r);
    json j = json_into(&b);
    json_open(&j, '{');
    json_key(&j, "run"), json_str(&j, r->name);
    if (page)
        json_key(&j, "page"), json_str(&j, page);
    json_key(&j, "released"), json_u64(&j, t.released);
    json_key(&j, "skipped"), json_u64(&j, t.skipped);
    json_key(&j, "blocked"), json_u64(&j, t.blocked);
    number(&j, "perplexity", t.last);
    number(&j, "best_perplexity", t.best);
    if (t.best_round)
        json_key(&j, "best_round"), json_u64(&j, t.best_round);
    number(&j, "first_perplexity", r->first);
    number(&j, "plain_perplexity", r->plain);
    number(&j, "best_possible_perplexity", r->best_possible);
    json_key(&j, "claim"), json_str(&j, isnan(t.epsilon_server) ? "none" : "dp");
    number(&j, "epsilon_server", t.epsilon_server);
    number(&j, "epsilon_others", t.epsilon_others);
    number(&j, "epsilon_target", t.epsilon_target);
    number(&j, "updates", t.updates);
    number(&j, "seconds", t.seconds);
    number(&j, "up_bytes", t.up);
    number(&j, "down_bytes", t.down);
    number(&j, "link_bytes", t.link);
    number(&j, "ahead_bytes", t.ahead_bytes);
    number(&j, "open_bytes", t.open_bytes);
    json_close(&j, '}');
    SEFL_TRY(print_json(&j));
done:
    buf_clear(&b);
    return st;
}

static sefl_status work(const char *run, const char *page, bool as_json, bool no_page)
{
    sefl_status st = SEFL_OK;
    report r = { 0 };
    sefl_buf html = { 0 }, words = { 0 };
    char usual[PATH_MAX];
    SEFL_TRY(report_open(&r, run));
    if (!page && !no_page) {
        SEFL_CHECK(snprintf(usual, sizeof usual, "%s/report.html", r.folder) < (int)sizeof usual,
                   SEFL_EINVAL, "the path is too long");
        page = usual;
    }
    if (page) {
        SEFL_TRY(report_html(&html, &r));
        SEFL_TRY(file_write_atomic(page, buf_span(&html), 0644));
    }
    if (as_json) {
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

static int run(int argc, char **argv)
{
    const char *page = NULL;
    bool as_json = false, text_only = false;
    opterr = 0, optind = 1;
    for (int c; (c = getopt_long(argc, argv, ":", longopts, NULL)) != -1;) {
        if (c == O_OUT)
            page = optarg;
        else if (c == O_JSON)
            as_json = true;
        else if (c == O_TEXT)
            text_only = true;
        else
            return cli_bad_option(&cmd_report, argc, argv, c, longopts);
    }
    if (optind == argc)
        return cli_misuse(&cmd_report, "which run? give a folder such as runs/demo");
    if (optind + 1 < argc)
        return cli_misuse(&cmd_report, "one run, not \"%.64s\" too", argv[optind + 1]);
    if (page && text_only)
        return cli_misuse(&cmd_report, "--text writes no page: --out does not go with it");
    sefl_status st = work(argv[optind], page, as_json, as_json || text_only);
    if (st == SEFL_OK)
        return CLI_DONE;
    cli_failed(&cmd_report, st);
    return CLI_FAILED;
}

const cli_command cmd_report = {
    .name = "report",
    .summary = "say what happened in a run, and draw it",
    .usage = "RUN [--out FILE] [--text] [--json]",
    .details = "RUN is a run's folder, an aggregator's, a provisioned federation's, or a\n"
               "metrics.jsonl. Writes one page that needs nothing else (perplexity, loss,\n"
               "epsilon, participation, time and bytes by part) and prints a summary.\n"
               "  --out FILE      the page (RUN/report.html)\n"
               "  --text          no page, the summary alone\n"
               "  --json          the summary as one JSON object; no page without --out",
    .example = "sefl report runs/demo",
    .run = run,
};
