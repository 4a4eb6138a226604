/* metrics: writes the aggregator's lines in metrics.jsonl (report/run_log.h), all of them public.
 * If the task does not publish participation, it omits the numbers of clients and upload bytes.
 *
 *     {"round":3,"skipped":false,"clients":8,"perplexity":107.3,"epsilon_server":0.83,
 *      "epsilon_others":0.31,"epsilon_target":3,"seconds":12.4,"ahead_seconds":0.5,
 *      "open_seconds":0.8,"release_seconds":0.2,"up_bytes":1048576,"ahead_bytes":16000000,
 *      "open_bytes":5000000,"time":1790000000}
 *
 * Threads: one owner.   Secrets: none. */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include "base/status.h"
#include "protocol/task.h"
#include "report/run_log.h"
#include "sefl/sefl.h"
#include "sum/round_report.h"

#define METRICS_WORD(x) #x
#define METRICS_TEXT(x) METRICS_WORD(x)
#define METRICS_VERSION              \
    METRICS_TEXT(SEFL_VERSION_MAJOR) \
    "." METRICS_TEXT(SEFL_VERSION_MINOR) "." METRICS_TEXT(SEFL_VERSION_PATCH) /* of this program */

/* Returns what the task and this program say about a run. The simulator uses it too. */
run_facts metrics_facts(const task *t);
/* Returns the wall clock in whole seconds since 1970, for run_line.time. */
double metrics_time(void);

run_line metrics_line(const rounds_report *r);
sefl_status metrics_append(const char *path, const rounds_report *r, const task *t) SEFL_MUST_CHECK;

#endif
