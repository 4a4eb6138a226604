/* tail: follows a metrics.jsonl (report/run_log.h) while a run appends to it.
 *
 *     SEFL_TRY(tail_new(&t, "state/metrics.jsonl"));
 *     SEFL_TRY(tail_look(t, &v));                     // reads what is new; v: what the page shows
 *     SEFL_TRY(tail_rounds(t, &out, 17));             // the rounds after round 17 as JSON
 *
 * tail_look parses each line once and keeps only totals, the last line, and the place of every
 * 256th line, so a run of any length needs little memory, and an answer reads at most
 * TAIL_ROUNDS lines. A missing file is an empty run. If the file has become shorter or a line
 * begins another task, the tail starts again there.
 * Threads: any; calls lock internally.   Secrets: none; the numbers are public. */
#ifndef PAGE_TAIL_H
#define PAGE_TAIL_H

#include "base/buf.h"
#include "report/run_log.h"

enum { TAIL_ROUNDS = 2000 };

typedef struct tail tail;

sefl_status tail_new(tail **out, const char *path) SEFL_MUST_CHECK;
void tail_free(tail *t);

sefl_status tail_look(tail *t, run_view *out) SEFL_MUST_CHECK;
/* Appends {"facts":{...},"rounds":[...]}, with "more":true if there are over TAIL_ROUNDS. */
sefl_status tail_rounds(tail *t, sefl_buf *out, uint64_t after) SEFL_MUST_CHECK;

#endif
