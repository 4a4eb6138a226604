/* report: shows the results of a run as text and as one HTML page with charts.
 *
 *     SEFL_TRY(report_open(&r, "runs/demo"));          // also an aggregator's folder or a file
 *     SEFL_TRY(report_text(&out, &r));                  // a few lines for a terminal
 *     SEFL_TRY(report_html(&out, &r));                  // one self-contained file
 *     report_close(&r);
 *
 * It reads the first of these files that exists in the folder: metrics.jsonl, state/metrics.jsonl
 * (an aggregator), aggregator/state/metrics.jsonl (a provisioned federation),
 * federation/aggregator/state/metrics.jsonl (a demo). It also reads summary.json
 * (best_possible_perplexity, plain_perplexity, first_perplexity), if there is one, and config.yml,
 * which it shows unchanged.
 *
 * Threads: one owner.   Secrets: none; the numbers are public. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "base/buf.h"
#include "report/run_log.h"

typedef struct report {
    char *name;                         /* the path as given */
    char *folder;                       /* folder for report.html */
    run_log log;                        /* has at least one round */
    char *config;                       /* contents of config.yml; NULL: none */
    double first, plain, best_possible; /* perplexities; NAN: unknown */
} report;

/* Reads a run. SEFL_ENOTFOUND if there is no metrics.jsonl; SEFL_EPROTO if that contains no round
 * or an invalid line. */
sefl_status report_open(report *out, const char *run) SEFL_MUST_CHECK;
void report_close(report *r);

sefl_status report_text(sefl_buf *out, const report *r) SEFL_MUST_CHECK;
sefl_status report_html(sefl_buf *out, const report *r) SEFL_MUST_CHECK;

#endif
