#include "report/report.h"

#include "base/alloc.h"
#include "base/file.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

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

/* Takes this log, if it is the newest. */
static void take_newer(char out[PATH_MAX], time_t *newest, const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode) || (*out && s.st_mtime <= *newest))
        return;
    snprintf(out, PATH_MAX, "%s", path);
    *newest = s.st_mtime;
}

/* A server with a folder of tasks has the log of each one beside its models. */
static void look_at_tasks(char out[PATH_MAX], time_t *newest, const char *models)
{
    char path[PATH_MAX];
    DIR *d = opendir(models);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' &&
            file_path(path, "%s/%s/metrics.jsonl", models, e->d_name) == SEFL_OK)
            take_newer(out, newest, path);
    if (d)
        closedir(d);
}

/* Finds the log of a run; of a server's tasks the latest. "": there is none. */
static void find_log(char out[PATH_MAX], const char *folder)
{
    static const char *const homes[] = { "", "/aggregator", "/federation/aggregator" };
    char path[PATH_MAX];
    time_t newest = 0;
    *out = '\0';
    if (file_path(path, "%s/metrics.jsonl", folder) == SEFL_OK)
        take_newer(out, &newest, path);
    for (size_t i = 0; i < sizeof homes / sizeof *homes && !*out; i++) {
        if (file_path(path, "%s%s/state/metrics.jsonl", folder, homes[i]) == SEFL_OK)
            take_newer(out, &newest, path);
        if (file_path(path, "%s%s/models", folder, homes[i]) == SEFL_OK)
            look_at_tasks(out, &newest, path);
    }
}

sefl_status report_open(report *out, const char *run)
{
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
        find_log(path, r.name);
        SEFL_CHECK(path[0], SEFL_ENOTFOUND, "%s is not a run: it has no " REPORT_PLACES, r.name);
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
    sefl_free(r->sample);
    run_log_clear(&r->log);
    *r = (report){ 0 };
}

/* ---- facts --------------------------------------------------------------------------------- */

const char *report_title(const report *r)
{
    const char *slash = strrchr(r->name, '/');
    return *r->log.facts.name ? r->log.facts.name : slash && slash[1] ? slash + 1 : r->name;
}

/* Formats a time; false if it is unknown or no date. */
static bool format_time(char out[40], double t, const char *format)
{
    struct tm tm;
    if (!(t > 0 && t < 253402300800.0)) /* year 10000 */
        return false;
    time_t whole = (time_t)t;
    return gmtime_r(&whole, &tm) && strftime(out, 40, format, &tm) > 0;
}

void report_date(char out[64], const report *r)
{
    const run_line *first = &r->log.at[0], *last = &r->log.at[r->log.n - 1];
    double began = first->time - (isnan(first->seconds) ? 0 : first->seconds);
    char from[40], day[40], until[40];
    out[0] = '\0';
    if (!format_time(from, began, "%Y-%m-%d %H:%M") ||
        !format_time(until, last->time, "%Y-%m-%d %H:%M"))
        return;
    snprintf(day, sizeof day, "%.10s", from);
    if (strcmp(from, until) == 0)
        snprintf(out, 64, "%.20s UTC", from);
    else
        snprintf(out, 64, "%.20s to %.20s UTC", from,
                 strncmp(day, until, 10) == 0 ? until + 11 : until);
}

static void claim_none(report_claim *c, const run_facts *f)
{
    if (strcmp(f->protection, "none") == 0) {
        c->level = REPORT_BAD;
        snprintf(c->head, sizeof c->head, "No protection");
        snprintf(c->detail, sizeof c->detail, "The server saw the update of every client.");
    } else if (strcmp(f->noise, "none") == 0) {
        c->level = REPORT_BAD;
        snprintf(c->head, sizeof c->head, "No noise, no differential privacy");
        snprintf(c->detail, sizeof c->detail,
                 "The aggregation server learned the exact sum of every round.");
    } else {
        c->level = REPORT_WEAK;
        snprintf(c->head, sizeof c->head, "No differential privacy claimed");
        if (*f->noise)
            snprintf(c->detail, sizeof c->detail,
                     "Every sum has noise (%s, z = %s), but the task claims no epsilon.", f->noise,
                     f->z);
    }
}

double report_up(double epsilon, int digits)
{
    if (!isfinite(epsilon) || !(epsilon > 0))
        return epsilon;
    const double unit = pow(10, floor(log10(epsilon)) + 1 - digits);
    return ceil(epsilon / unit * (1 - 1e-12)) * unit; /* 2.5 stays 2.5 */
}

bool report_claimed(const report *r)
{
    return !isnan(run_log_totals(&r->log).all.epsilon_server) || !isnan(r->log.facts.delta);
}

report_claim report_claim_of(const report *r)
{
    report_claim c = { .level = REPORT_GOOD };
    const run_facts *f = &r->log.facts;
    run_totals t = run_log_totals(&r->log);
    const char *whom = *f->unit ? f->unit : "client";
    double spent = t.all.epsilon_server;
    char delta[40] = "";
    if (!isnan(f->delta))
        snprintf(delta, sizeof delta, ", delta %.3g", f->delta);
    if (!report_claimed(r)) {
        claim_none(&c, f);
    } else if (isnan(spent)) {
        snprintf(c.head, sizeof c.head, "Differential privacy claimed, nothing spent yet");
        snprintf(c.detail, sizeof c.detail, "The claim holds for each %s%s.", whom, delta);
    } else {
        c.level = spent > REPORT_EPSILON_WEAK ? REPORT_WEAK : REPORT_GOOD;
        snprintf(c.head, sizeof c.head, "%s",
                 c.level == REPORT_GOOD
                     ? "(epsilon, delta)-differential privacy claimed"
                     : "Differential privacy claimed, but epsilon is too large to protect anyone");
        snprintf(c.detail, sizeof c.detail,
                 "Epsilon %.4g of %.4g spent against a server, %.4g against others%s, for each %s.",
                 report_up(spent, 4), t.all.epsilon_target, report_up(t.all.epsilon_others, 4),
                 delta, whom);
    }
    size_t n = strlen(c.detail);
    if (f->simulated)
        snprintf(c.detail + n, sizeof c.detail - n,
                 "%sThis was a simulation: it shows what a federation with these settings would "
                 "claim, and protects nobody itself.",
                 n > 0 ? " " : "");
    return c;
}

void report_number(char out[32], double v, const char *unit)
{
    static const char *const prefix[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    unsigned i = 0;
    const char *gap = *unit ? " " : "";
    if (strcmp(unit, "bytes") == 0) {
        for (; v >= 999.5 && i < 5; i++)
            v /= 1000;
        unit = prefix[i];
    }
    if (v != 0 && fabs(v) < 0.001)
        snprintf(out, 32, "%.1e%s%.8s", v, gap, unit);
    else if (fabs(v) >= 1e7)
        snprintf(out, 32, "%.3g%s%.8s", v, gap, unit);
    else if (fabs(v) >= 99.95 || v == floor(v))
        snprintf(out, 32, "%.0f%s%.8s", v, gap, unit);
    else
        snprintf(out, 32,
                 fabs(v) >= 9.995 ? "%.1f%s%.8s"
                 : fabs(v) >= 0.1 ? "%.2f%s%.8s"
                                  : "%.3f%s%.8s",
                 v, gap, unit);
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
    report_number(text, v, unit);
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

static sefl_status words_privacy(sefl_buf *out, const report *r, const run_totals *t)
{
    const run_facts *f = &r->log.facts;
    if (isnan(t->all.epsilon_server)) {
        report_claim c = report_claim_of(r);
        return wr_fmt(out, "privacy     %s%s\n",
                      isnan(f->delta) ? "no differential privacy claimed" : "nothing spent yet",
                      c.level != REPORT_BAD                ? ""
                      : strcmp(f->protection, "none") == 0 ? "; the server saw every update"
                                                           : "; AS learned the exact sums");
    }
    SEFL_PASS(wr_fmt(out, "privacy     epsilon %.4g of %.4g against a server, %.4g against others",
                     report_up(t->all.epsilon_server, 4), t->all.epsilon_target,
                     report_up(t->all.epsilon_others, 4)));
    if (!isnan(f->delta))
        SEFL_PASS(wr_fmt(out, ", delta %.3g", f->delta));
    SEFL_PASS(wr_fmt(out, ", for %s",
                     strcmp(f->unit, "record") == 0 ? "a record, not for a client" : "a client"));
    if (*f->filter)
        SEFL_PASS(wr_fmt(out, "; z %s, filter %s", f->z, f->filter));
    return wr_fmt(out, "\n");
}

/* What the first line of metrics.jsonl says about the run. */
static sefl_status words_facts(sefl_buf *out, const report *r)
{
    const run_facts *f = &r->log.facts;
    char date[64];
    report_date(date, r);
    if (*f->task)
        SEFL_PASS(wr_fmt(out, "task        %.16s, %s\n", f->task, report_title(r)));
    if (*date)
        SEFL_PASS(
            wr_fmt(out, "date        %s%s%s\n", date, *f->version ? ", sefl " : "", f->version));
    if (*f->mode)
        SEFL_PASS(wr_fmt(out, "mode        %s\n", f->mode));
    return SEFL_OK;
}

static sefl_status words_clients(sefl_buf *out, const report *r, const run_totals *t)
{
    double lost = 0;
    size_t rounds = 0;
    if (isnan(t->clients_most))
        return wr_fmt(out, "clients     not published\n");
    for (size_t i = 0; i < r->log.n; i++)
        if (run_lost(&r->log, i) > 0)
            lost += run_lost(&r->log, i), rounds++;
    SEFL_PASS(wr_fmt(out, "clients     %.0f", t->clients_least));
    if (t->clients_least < t->clients_most)
        SEFL_PASS(wr_fmt(out, " to %.0f", t->clients_most));
    if (!isnan(r->log.facts.enrolled))
        SEFL_PASS(wr_fmt(out, " of %.0f", r->log.facts.enrolled));
    SEFL_PASS(wr_fmt(out, " per round, %.0f updates in all", t->all.clients));
    if (rounds > 0)
        SEFL_PASS(wr_fmt(out, "; %.0f lost in %zu round%s", lost, rounds, rounds == 1 ? "" : "s"));
    return wr_fmt(out, "\n");
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
    SEFL_PASS(words_facts(out, r));
    SEFL_PASS(wr_fmt(out, "rounds      %" PRIu64 " released, %" PRIu64 " skipped", t.released,
                     t.skipped));
    if (t.blocked > 0)
        SEFL_PASS(wr_fmt(out, ", %" PRIu64 " blocked by the release check", t.blocked));
    SEFL_PASS(wr_fmt(out, "\n"));
    SEFL_PASS(words_learning(out, r, &t));
    SEFL_PASS(words_privacy(out, r, &t));
    SEFL_PASS(words_clients(out, r, &t));
    SEFL_PASS(words_cost(out, &t, "seconds", "s", "not measured"));
    return words_cost(out, &t, "bytes", "bytes", "not published");
}

/* ---- several runs ---------------------------------------------------------------------------- */

const char *const report_heads[REPORT_COLUMNS] = { "run",      "claim",    "rounds",  "clients",
                                                   "ppl last", "ppl best", "epsilon", "time",
                                                   "up",       "ppl/word" };

static void fill_number(char cell[REPORT_CELL], double v, const char *unit)
{
    if (isnan(v))
        snprintf(cell, REPORT_CELL, "-");
    else
        report_number(cell, v, unit);
}

static void fill_time(char cell[REPORT_CELL], double s)
{
    static const struct {
        double from, unit;
        const char *name;
    } units[] = { { 172800, 86400, "d" }, { 7200, 3600, "h" }, { 120, 60, "min" } };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (s >= units[i].from) {
            report_number(cell, s / units[i].unit, units[i].name);
            return;
        }
    fill_number(cell, s, "s");
}

void report_fill(report_row out, const report *r)
{
    static const char *const claims[] = { "dp", "none", "no protection" };
    run_totals t = run_log_totals(&r->log);
    report_claim c = report_claim_of(r);
    snprintf(out[1], REPORT_CELL, "%s", report_claimed(r) ? claims[0] : claims[c.level]);
    snprintf(out[2], REPORT_CELL, "%" PRIu64 " of %" PRIu64, t.released, t.rounds);
    if (isnan(t.clients_most))
        snprintf(out[3], REPORT_CELL, "-");
    else if (t.clients_least < t.clients_most)
        snprintf(out[3], REPORT_CELL, "%.0f to %.0f", t.clients_least, t.clients_most);
    else
        snprintf(out[3], REPORT_CELL, "%.0f", t.clients_most);
    fill_number(out[4], t.all.perplexity, "");
    fill_number(out[5], t.best, "");
    fill_number(out[6], report_up(t.all.epsilon_server, t.all.epsilon_server < 1 ? 2 : 3), "");
    fill_time(out[7], t.all.seconds);
    fill_number(out[8], t.all.up_bytes, "bytes");
    /* runs with different vocabularies can be compared only by this */
    fill_number(out[9], isnan(t.all.word_perplexity) ? t.all.perplexity : t.all.word_perplexity,
                "");
}

sefl_status report_table(sefl_buf *out, const report *r, size_t n)
{
    report_row row;
    size_t width[REPORT_COLUMNS];
    for (size_t c = 0; c < REPORT_COLUMNS; c++)
        width[c] = strlen(report_heads[c]);
    for (size_t i = 0; i < n; i++) {
        report_fill(row, &r[i]);
        for (size_t c = 0; c < REPORT_COLUMNS; c++) {
            size_t len = strlen(c == 0 ? r[i].name : row[c]);
            width[c] = len > width[c] ? len : width[c];
        }
    }
    for (size_t i = 0; i <= n; i++) {
        if (i > 0)
            report_fill(row, &r[i - 1]);
        for (size_t c = 0; c < REPORT_COLUMNS; c++) {
            const char *text = i == 0 ? report_heads[c] : c == 0 ? r[i - 1].name : row[c];
            SEFL_PASS(wr_fmt(out, c < 2 ? "%-*s" : "%*s", (int)width[c], text));
            SEFL_PASS(wr_fmt(out, c + 1 < REPORT_COLUMNS ? "  " : "\n"));
        }
    }
    return SEFL_OK;
}
