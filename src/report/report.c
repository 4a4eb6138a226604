#include "report/report.h"

#include "base/alloc.h"
#include "base/file.h"
#include "report/svg.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { CONFIG_BYTES_MAX = 1 << 20 };

/* ---- reading ------------------------------------------------------------------------------- */

/* Reads the optional files beside metrics.jsonl. */
static sefl_status read_beside(report *r, const char *folder)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX];
    sefl_buf b = { 0 };
    snprintf(path, sizeof path, "%s/summary.json", folder);
    if (file_exists(path)) {
        SEFL_TRY(file_read(&b, path, CONFIG_BYTES_MAX));
        r->first = run_number(buf_span(&b), "first_perplexity");
        r->plain = run_number(buf_span(&b), "plain_perplexity");
        r->best_possible = run_number(buf_span(&b), "best_possible_perplexity");
        buf_reset(&b);
    }
    snprintf(path, sizeof path, "%s/config.yml", folder);
    if (file_exists(path)) {
        SEFL_TRY(file_read(&b, path, CONFIG_BYTES_MAX));
        SEFL_TRY(wr_u8(&b, 0));
        SEFL_TRY(sefl_strdup(&r->config, (const char *)b.p));
    }
done:
    buf_clear(&b);
    return st;
}

sefl_status report_open(report *out, const char *run)
{
    static const char *const places[] = { "metrics.jsonl", "state/metrics.jsonl",
                                          "aggregator/state/metrics.jsonl",
                                          "federation/aggregator/state/metrics.jsonl" };
    sefl_status st = SEFL_OK;
    report r = { .first = NAN, .plain = NAN, .best_possible = NAN };
    char path[PATH_MAX] = "";
    struct stat sb;
    size_t n = strlen(run);
    *out = (report){ 0 };
    while (n > 1 && run[n - 1] == '/')
        n--;
    SEFL_CHECK(n > 0 && n + 64 < sizeof path, SEFL_EINVAL,
               "the name of the run folder is empty or too long");
    SEFL_TRY(sefl_strdup(&r.name, run));
    r.name[n] = '\0';
    SEFL_CHECK(stat(r.name, &sb) == 0, SEFL_ENOTFOUND, "%s does not exist", r.name);
    if (S_ISDIR(sb.st_mode)) {
        SEFL_TRY(sefl_strdup(&r.folder, r.name));
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            snprintf(path, sizeof path, "%s/%s", r.name, places[i]);
            if (file_exists(path))
                break;
            path[0] = '\0';
        }
        SEFL_CHECK(path[0], SEFL_ENOTFOUND,
                   "%s has no metrics.jsonl, state/metrics.jsonl or "
                   "aggregator/state/metrics.jsonl: is it a run?",
                   r.name);
    } else {
        const char *slash = strrchr(r.name, '/');
        snprintf(path, sizeof path, "%s", r.name);
        SEFL_TRY(sefl_strdup(&r.folder, slash ? r.name : "."));
        if (slash)
            r.folder[slash - r.name] = '\0';
    }
    SEFL_TRY(run_log_read(&r.log, path));
    SEFL_CHECK(r.log.n > 0, SEFL_EPROTO, "%s has no finished round yet", path);
    SEFL_TRY(read_beside(&r, r.folder));
    *out = r, r = (report){ 0 };
done:
    report_close(&r);
    return st;
}

void report_close(report *r)
{
    sefl_free(r->name);
    sefl_free(r->folder);
    sefl_free(r->config);
    run_log_clear(&r->log);
    *r = (report){ 0 };
}

/* ---- sums ---------------------------------------------------------------------------------- */

static const struct sum {
    size_t at; /* offset in run_line */
    const char *name, *unit;
} sums[] = {
#define SUM(member, name, unit)                \
    {                                          \
        offsetof(run_line, member), name, unit \
    }
    SUM(seconds, "all rounds", "s"),
    SUM(ahead_seconds, "noise shares", "s"),
    SUM(open_seconds, "reveal", "s"),
    SUM(release_seconds, "release", "s"),
    SUM(train_seconds, "training", "s"),
    SUM(encrypt_seconds, "encryption", "s"),
    SUM(sum_seconds, "addition", "s"),
    SUM(twopc_seconds, "2PC", "s"),
    SUM(step_seconds, "step", "s"),
    SUM(eval_seconds, "validation", "s"),
    SUM(up_bytes, "up", "bytes"),
    SUM(down_bytes, "down", "bytes"),
    SUM(link_bytes, "between the servers", "bytes"),
    SUM(ahead_bytes, "noise shares", "bytes"),
    SUM(open_bytes, "reveal", "bytes"),
#undef SUM
};

/* ---- words --------------------------------------------------------------------------------- */

/* Appends ", name 1.2 MB"; nothing for NAN. */
static sefl_status part(sefl_buf *out, bool *first, const char *name, double v, const char *unit)
{
    char text[32];
    if (isnan(v))
        return SEFL_OK;
    svg_number(text, v, unit);
    SEFL_PASS(wr_fmt(out, "%s%s %s", *first ? "" : ", ", name, text));
    *first = false;
    return SEFL_OK;
}

static sefl_status words_learning(sefl_buf *out, const report *r, const run_totals *t)
{
    bool first = true;
    if (isnan(t->all.perplexity))
        return wr_fmt(out, "perplexity  not measured\n");
    SEFL_PASS(wr_fmt(out, "perplexity  %.2f after the last round; best %.2f in round %" PRIu64,
                     t->all.perplexity, t->best, t->best_round));
    if (!isnan(r->first))
        SEFL_PASS(wr_fmt(out, "; before: %.1f", r->first));
    if (!isnan(t->all.word_perplexity))
        SEFL_PASS(wr_fmt(out, "\nper word    %.2f after the last round; the others are per token",
                         t->all.word_perplexity));
    SEFL_PASS(wr_fmt(out, "\n"));
    if (!isnan(r->plain) || !isnan(r->best_possible)) {
        SEFL_PASS(wr_fmt(out, "baselines   "));
        SEFL_PASS(part(out, &first, "plain FedAvg", r->plain, ""));
        SEFL_PASS(part(out, &first, "best possible", r->best_possible, ""));
        SEFL_PASS(wr_fmt(out, "\n"));
    }
    return SEFL_OK;
}

static sefl_status words_privacy(sefl_buf *out, const run_totals *t)
{
    if (isnan(t->all.epsilon_server))
        return wr_fmt(out, "privacy     no differential privacy claimed\n");
    return wr_fmt(out, "privacy     epsilon %.4g of %.4g against a server, %.4g against others\n",
                  t->all.epsilon_server, t->all.epsilon_target, t->all.epsilon_others);
}

/* Appends all sums of one unit. */
static sefl_status words_cost(sefl_buf *out, const run_totals *t, const char *title,
                              const char *unit, const char *none)
{
    bool first = true;
    SEFL_PASS(wr_fmt(out, "%-12s", title));
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (strcmp(sums[i].unit, unit) == 0) {
            SEFL_PASS(part(out, &first, sums[i].name, run_number_at(&t->all, sums[i].at), unit));
            if (i == 0) /* the rest of the rounds, spent by the clients */
                SEFL_PASS(part(out, &first, "clients", t->collect, unit));
        }
    return wr_fmt(out, "%s\n", first ? none : "");
}

sefl_status report_text(sefl_buf *out, const report *r)
{
    run_totals t = run_log_totals(&r->log);
    SEFL_PASS(wr_fmt(out, "rounds      %" PRIu64 " released, %" PRIu64 " skipped", t.released,
                     t.skipped));
    if (t.blocked > 0)
        SEFL_PASS(wr_fmt(out, ", %" PRIu64 " blocked by the release check", t.blocked));
    SEFL_PASS(wr_fmt(out, "\n"));
    SEFL_PASS(words_learning(out, r, &t));
    SEFL_PASS(words_privacy(out, &t));
    if (isnan(t.clients_most))
        SEFL_PASS(wr_fmt(out, "clients     not published\n"));
    else
        SEFL_PASS(wr_fmt(out, "clients     %.0f", t.clients_least));
    if (t.clients_least < t.clients_most)
        SEFL_PASS(wr_fmt(out, " to %.0f", t.clients_most));
    if (!isnan(t.clients_most))
        SEFL_PASS(wr_fmt(out, " per round, %.0f updates in all\n", t.all.clients));
    SEFL_PASS(words_cost(out, &t, "seconds", "s", "not measured"));
    return words_cost(out, &t, "bytes", "bytes", "not published");
}
