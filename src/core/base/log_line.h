/* log_line: reads a line that base/log.h wrote as JSON, for `sefl logs`.
 *
 *     log_line l = { 0 };
 *     if (log_line_read(&l, line) == SEFL_OK && l.level >= LOG_WARN)
 *         printf("%s  %.*s\n", l.clock, (int)l.text.n, (const char *)l.text.p);
 *     log_line_clear(&l);
 *
 * A line may contain anything that a peer sent: the text has printable ASCII only (log_wr_plain).
 * Threads: one owner.   Secrets: none. */
#ifndef BASE_LOG_LINE_H
#define BASE_LOG_LINE_H

#include "base/buf.h"
#include "base/log.h"

enum { LOG_LINE_MAX = 65536 };

typedef struct log_line {
    uint64_t time_ms; /* Unix time; 0: the line has none */
    log_level level;
    bool has_round;
    uint64_t round;
    sefl_buf text; /* "round closed  round=12 set=4f2a" */
    sefl_buf who;  /* the values of key, client and name, each ended by a line feed */
} log_line;

/* Replaces *out. SEFL_EPROTO if it is not a line of a log, or has more than LOG_LINE_MAX bytes. */
sefl_status log_line_read(log_line *out, sefl_span line) SEFL_MUST_CHECK;
void log_line_clear(log_line *l);

/* Reads "2026-01-01T12:01:07.123Z", also without the fraction; false if it is anything else. */
bool log_time_read(uint64_t *ms, sefl_span text);

/* True if the line names this client: the name, or the first digits (at least 4) of its key. */
bool log_line_names(const log_line *l, const char *client);

#endif
