/* run_log: what a run wrote down about its rounds: metrics.jsonl, a JSON object a line.
 *
 *     SEFL_TRY(run_log_read(&log, "runs/demo/metrics.jsonl"));
 *     for (size_t i = 0; i < log.n; i++)
 *         use(log.at[i].round, log.at[i].perplexity);        // NAN: this line does not say
 * done:
 *     run_log_clear(&log);
 *
 * Aggregators (roles/aggregator/metrics.h) and the simulator write such files. Members that are not
 * known here are passed over, so that a file of a later version can be read; a line that is no object,
 * or whose round does not follow the one before, is SEFL_EPROTO with its number. What stands behind the
 * last line feed is being written just now: it is left alone.
 * Threads: values.   Secrets: none: numbers that everybody may know. */
#ifndef REPORT_RUN_LOG_H
#define REPORT_RUN_LOG_H

#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>

enum { RUN_LOG_BYTES_MAX = 256 << 20 };

/* Numbers of a line, each a double. */
#define RUN_NUMBERS(X) \
    X(clients)         \
    X(invited)         \
    X(up_bytes)        \
    X(down_bytes)      \
    X(seconds)         \
    X(train_seconds)   \
    X(ahead_seconds)   \
    X(ahead_bytes)     \
    X(open_seconds)    \
    X(open_bytes)      \
    X(release_seconds) \
    X(perplexity)      \
    X(loss)            \
    X(epsilon_server)  \
    X(epsilon_others)  \
    X(epsilon_target)

typedef struct run_round {
    uint64_t round;
    bool skipped;
#define RUN_MEMBER(name) double name;
    RUN_NUMBERS(RUN_MEMBER)
#undef RUN_MEMBER
} run_round;

typedef struct run_log {
    run_round *at;
    size_t n;
} run_log;

sefl_status run_log_read(run_log *out, const char *path) SEFL_MUST_CHECK;
/* The same from memory; name is for sentences. */
sefl_status run_log_read_over(run_log *out, sefl_span bytes, const char *name) SEFL_MUST_CHECK;
void run_log_clear(run_log *l);

#endif
