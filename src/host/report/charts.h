/* charts: draws the charts of a report: those of one run, or of several runs in the same axes.
 *
 *     SEFL_TRY(charts_of_run(&out, &run));
 *     SEFL_TRY(charts_of_runs(&out, runs, labels, n));
 *
 * Threads: any.   Secrets: none. */
#ifndef REPORT_CHARTS_H
#define REPORT_CHARTS_H

#include "report/report.h"

enum { CHARTS_KEYS_MAX = 4 }; /* charts of more runs have no legend: the page's table has it */

/* Appends one <figure> per chart that has a value. */
sefl_status charts_of_run(sefl_buf *out, const report *r) SEFL_MUST_CHECK;
/* label[i] names run i; n is at most REPORT_RUNS_MAX. */
sefl_status charts_of_runs(sefl_buf *out, const report *r, const char *const *label,
                           size_t n) SEFL_MUST_CHECK;

#endif
