/* metrics: a line a round in a file that only grows, JSON, for programs: numbers that everybody may
 * know. No count of clients and no bytes where participation is not published.
 *
 *     {"round":3,"skipped":false,"clients":8,"up_bytes":1048576,"seconds":12.4,"ahead_seconds":0.5,
 *      "ahead_bytes":16000000,"open_bytes":5000000,"open_seconds":0.8,"release_seconds":0.2,
 *      "perplexity":107.3,"epsilon_server":0.83,"epsilon_others":0.31,"epsilon_target":3}
 *
 * "blocked":true stands in the line of a round whose sum the release check blocked.
 * A round that is in the last line already is not written again (the process died just behind it).
 * Threads: one owner.   Secrets: none. */
#ifndef ROLES_AGGREGATOR_METRICS_H
#define ROLES_AGGREGATOR_METRICS_H

#include "base/status.h"
#include "sum/round_report.h"

sefl_status metrics_append(const char *path, const rounds_report *r) SEFL_MUST_CHECK;

#endif
