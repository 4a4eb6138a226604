/* run_log: reads what a run recorded about its rounds: metrics.jsonl, one JSON object per line.
 *
 *     SEFL_TRY(run_log_read(&log, "runs/demo/metrics.jsonl"));
 *     for (size_t i = 0; i < log.n; i++)
 *         use(log.at[i].round, log.at[i].perplexity);        // NAN: not in this line
 * done:
 *     run_log_clear(&log);
 *
 * Aggregators (roles/aggregator/metrics.h) and the simulator write such files. Unknown
 * members are skipped, so that files of a later version can be read. A line that is no object, has
 * a negative number, or whose round does not follow the previous one is SEFL_EPROTO with its
 * number. Bytes after the last line feed are still being written and are ignored.
 * Threads: values.   Secrets: none, the numbers are public. */
#ifndef REPORT_RUN_LOG_H
#define REPORT_RUN_LOG_H

#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>

enum { RUN_LOG_BYTES_MAX = 256 << 20 };

/* Numbers of a line: member, each a double, and its name in the file. */
#define RUN_NUMBERS(X)                    \
    X(clients, "clients")                 \
    X(asked, "asked")                     \
    X(up_bytes, "up_bytes")               \
    X(down_bytes, "down_bytes")           \
    X(link_bytes, "link_bytes")           \
    X(ahead_bytes, "ahead_bytes")         \
    X(open_bytes, "open_bytes")           \
    X(seconds, "seconds")                 \
    X(ahead_seconds, "ahead_seconds")     \
    X(open_seconds, "open_seconds")       \
    X(release_seconds, "release_seconds") \
    X(train_seconds, "train_seconds")     \
    X(encrypt_seconds, "encrypt_seconds") \
    X(sum_seconds, "sum_seconds")         \
    X(twopc_seconds, "2pc_seconds")       \
    X(step_seconds, "step_seconds")       \
    X(eval_seconds, "eval_seconds")       \
    X(perplexity, "perplexity")           \
    X(loss, "loss")                       \
    X(epsilon_server, "epsilon_server")   \
    X(epsilon_others, "epsilon_others")   \
    X(epsilon_target, "epsilon_target")

typedef struct run_line {
    uint64_t round;
    bool skipped, blocked; /* blocked: by the release check; the model stayed as it was */
#define RUN_MEMBER(name, key) double name;
    RUN_NUMBERS(RUN_MEMBER)
#undef RUN_MEMBER
} run_line;

typedef struct run_log {
    run_line *at;
    size_t n;
} run_log;

sefl_status run_log_read(run_log *out, const char *path) SEFL_MUST_CHECK;
/* The same from memory; errors begin with name. */
sefl_status run_log_read_over(run_log *out, sefl_span bytes, const char *name) SEFL_MUST_CHECK;
void run_log_clear(run_log *l);

/* A number of the object in `bytes` (summary.json), by its name; NAN if it has none or is no
 * object. */
double run_number(sefl_span bytes, const char *key);

#endif
