/* report: shows the results of one or more runs as text and as one HTML page: the web page of a
 * server with the data inside (assets.h).
 *
 *     SEFL_TRY(report_open(&r, "runs/demo"));          // also an aggregator's folder or a file
 *     SEFL_TRY(report_text(&out, &r));                  // a few lines for a terminal
 *     SEFL_TRY(report_html(&out, &r, 1));               // one self-contained file
 *     report_close(&r);
 *
 * It reads the first of these files that exists in the folder: metrics.jsonl, state/metrics.jsonl
 * (an aggregator), aggregator/state/metrics.jsonl (a provisioned federation),
 * federation/aggregator/state/metrics.jsonl (a demo). It also reads summary.json
 * (best_possible_perplexity, plain_perplexity, first_perplexity), if there is one, and config.yml,
 * which it shows unchanged. A caller that can generate text with the run's model sets `sample`.
 *
 * Threads: one owner.   Secrets: none; the numbers are public. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "base/buf.h"
#include "report/run_log.h"

enum { REPORT_RUNS_MAX = 12 };

/* Places of metrics.jsonl in a run folder, for error messages; the last two also in the folder
 * `aggregator` and in `federation/aggregator`. */
#define REPORT_PLACES "metrics.jsonl, state/metrics.jsonl or models/*/metrics.jsonl"

typedef struct report {
    char *name;                         /* the path as given */
    char *folder;                       /* folder for report.html */
    run_log log;                        /* has at least one round */
    char *config;                       /* contents of config.yml; NULL: none */
    double first, plain, best_possible; /* perplexities; NAN: unknown */
    char *sample;                       /* text that the last model generated; owned; NULL: none */
    uint64_t sample_round;              /* the round that released that model */
} report;

/* Reads a run. SEFL_ENOTFOUND if there is no metrics.jsonl; SEFL_EPROTO if that contains no round
 * or an invalid line. */
sefl_status report_open(report *out, const char *run) SEFL_MUST_CHECK;
void report_close(report *r);

/* What a run claims about privacy. */
typedef struct report_claim {
    enum { REPORT_GOOD, REPORT_WEAK, REPORT_BAD } level;
    char head[96];    /* "No differential privacy claimed" */
    char detail[320]; /* one or more sentences */
} report_claim;

/* BAD: the server learned exact sums, or updates. WEAK: no claim, or an epsilon above
 * REPORT_EPSILON_WEAK, which is too large to protect anyone. */
#define REPORT_EPSILON_WEAK 10
report_claim report_claim_of(const report *r);
bool report_claimed(const report *r); /* differential privacy */
/* Rounds an epsilon up to so many significant digits: it is never shown smaller than it is. */
double report_up(double epsilon, int digits);

/* Formats a number to about three digits, such as "1.2 MB" (unit "bytes"), "0.35 s" or "107". */
void report_number(char out[32], double v, const char *unit);

/* Returns the name of the task or the experiment, or else the last part of the path. */
const char *report_title(const report *r);
/* Writes when the run took place, such as "2026-11-17 02:03 to 02:05 UTC"; "": unknown. */
void report_date(char out[64], const report *r);

/* Appends a summary of one run; a table of several runs. */
sefl_status report_text(sefl_buf *out, const report *r) SEFL_MUST_CHECK;
sefl_status report_table(sefl_buf *out, const report *r, size_t n) SEFL_MUST_CHECK;
/* Appends a page. Several runs (at most REPORT_RUNS_MAX) share their charts. */
sefl_status report_html(sefl_buf *out, const report *r, size_t n) SEFL_MUST_CHECK;

/* The columns of a table of runs, for report_table and the page. */
enum { REPORT_COLUMNS = 10, REPORT_CELL = 64 };
typedef char report_row[REPORT_COLUMNS][REPORT_CELL];
extern const char *const report_heads[REPORT_COLUMNS];
/* Fills all columns but the first, the name of the run. */
void report_fill(report_row out, const report *r);

#endif
