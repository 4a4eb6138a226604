/* run_log: reads and writes metrics.jsonl, a run's record of its rounds, with one JSON object per
 * line. An aggregator (metrics/metrics.h) and the simulator write it; reports and
 * comparisons read it. The table below is the only list of its members.
 *
 *     run_line l = run_line_of(3);                             // every number is NAN (unknown)
 *     l.clients = 97, l.seconds = 4.1;
 *     SEFL_TRY(run_log_append(&bytes, "metrics.jsonl", &l, &facts)); // facts may be NULL
 *     SEFL_TRY(run_log_read(&log, "metrics.jsonl"));
 *     t = run_log_totals(&log);                                // t.all.seconds, t.best, ...
 *     run_log_clear(&log);
 *
 *     {"round":3,"skipped":false,"clients":97,"perplexity":41.2,"seconds":4.1}
 *
 * The first line also has what is known before the run, as the member "run" (run_facts). If an
 * aggregator starts another task with the same file, the first line of that task has facts again;
 * readers return the rounds of the last task.
 *
 *     "run":{"task":"5c0e...","name":"north","version":"0.1.0","noise":"joint","enrolled":100}
 *
 * Writers omit unknown numbers, and "blocked" and "dropped_by_operator" unless true. Readers skip
 * unknown members, so they can read files from a later version. SEFL_EPROTO, with the line number,
 * if a line is not an object, has a negative number, or has a round <= the previous one. Bytes
 * after the last line feed are still being written and are ignored.
 * Threads: any; these are plain values.   Secrets: none; the numbers are public. */
#ifndef REPORT_RUN_LOG_H
#define REPORT_RUN_LOG_H

#include "base/buf.h"
#include "base/status.h"

#include <stdbool.h>
#include <string.h>

enum { RUN_LOG_BYTES_MAX = 1 << 30 };

/* The numbers of a line: kind, member, name in the file. The total of a COUNT (a whole number) or a
 * REAL is the sum; the total of a LAST is its latest value.
 *
 * `seconds` is wall time. Only a federation has ahead, open and release, in wall time. Only a
 * simulation has the others: train, encrypt (with clipping and quantising) and sum are the CPU time
 * of all clients together; 2pc, step and eval are wall time; cpu is the CPU time of the whole
 * process. */
#define RUN_NUMBERS(X)                                                            \
    X(COUNT, clients, "clients")   /* clients whose update is in the sum */       \
    X(COUNT, refused, "refused")   /* uploads that CSP refused */                 \
    X(COUNT, asked, "asked")       /* clients that fetched the model */           \
    X(COUNT, late, "late")         /* clients that uploaded too late */           \
    X(COUNT, dropped, "dropped")   /* clients that dropped out of the round */    \
    X(COUNT, diverged, "diverged") /* clients that diverged and uploaded zeros */ \
    X(LAST, perplexity, "perplexity")                                             \
    X(LAST, word_perplexity, "word_perplexity") /* if tokens are not words */     \
    X(LAST, loss, "loss")                                                         \
    X(LAST, epsilon_server, "epsilon_server")                                     \
    X(LAST, epsilon_others, "epsilon_others")                                     \
    X(LAST, epsilon_target, "epsilon_target")                                     \
    X(LAST, clip, "clip") /* of the next round, if the task finds it */           \
    X(REAL, seconds, "seconds")                                                   \
    X(REAL, ahead_seconds, "ahead_seconds") /* noise shares, all lanes */         \
    X(REAL, open_seconds, "open_seconds")                                         \
    X(REAL, release_seconds, "release_seconds")                                   \
    X(REAL, train_seconds, "train_seconds")                                       \
    X(REAL, encrypt_seconds, "encrypt_seconds")                                   \
    X(REAL, sum_seconds, "sum_seconds")                                           \
    X(REAL, twopc_seconds, "2pc_seconds")                                         \
    X(REAL, step_seconds, "step_seconds")                                         \
    X(REAL, eval_seconds, "eval_seconds")                                         \
    X(REAL, cpu_seconds, "cpu_seconds")                                           \
    X(REAL, virtual_seconds, "virtual_seconds")                                   \
    X(LAST, time, "time") /* end of the round, in seconds since 1970 */           \
    X(COUNT, up_bytes, "up_bytes")                                                \
    X(COUNT, down_bytes, "down_bytes")                                            \
    X(COUNT, link_bytes, "link_bytes")   /* simulation: between the servers */    \
    X(COUNT, ahead_bytes, "ahead_bytes") /* federation: for noise shares */       \
    X(COUNT, open_bytes, "open_bytes")   /* federation: to reveal the sum */

typedef struct run_line {
    uint64_t round;
    bool skipped, blocked;    /* blocked: the release check kept the old model */
    bool dropped_by_operator; /* skipped, but not for lack of updates */
#define RUN_MEMBER(kind, name, key) double name;
    RUN_NUMBERS(RUN_MEMBER)
#undef RUN_MEMBER
} run_line;

/* The texts of a run (member, longest length) and its numbers. Empty and NAN: unknown. */
#define RUN_TEXTS(X)                                                                    \
    X(task, 64)       /* the task's id: 64 hex digits */                                \
    X(name, 200)      /* of the task or the experiment */                               \
    X(version, 32)    /* of the program that started the run */                         \
    X(protection, 16) /* sefl; in simulations also none, cdp (simulate/protection.h) */ \
    X(noise, 16)      /* the release mode (protocol/modes/names.h), or central */       \
    X(z, 24)                                                                            \
    X(filter, 24) /* of correlated noise, as in privacy.filter */                       \
    X(mode, 160)  /* which server must be honest, and the mode's price, in words */     \
    X(unit, 16)   /* what the claim protects: client or record */                       \
    X(text, 64)   /* hash of the public validation text */
#define RUN_FACT_NUMBERS(X)                                                  \
    X(rounds)   /* rounds of the task */                                     \
    X(enrolled) /* clients of the population */                              \
    X(expected) /* updates per round if no client is lost; NAN: it varies */ \
    X(delta)    /* of the claim; NAN: the task claims nothing */

typedef struct run_facts {
    bool known; /* false: the file has no facts */
    bool simulated;
#define RUN_TEXT(name, most) char name[(most) + 1];
    RUN_TEXTS(RUN_TEXT)
#undef RUN_TEXT
#define RUN_NUMBER(name) double name;
    RUN_FACT_NUMBERS(RUN_NUMBER)
#undef RUN_NUMBER
} run_facts;

/* Returns the double at this offset (offsetof) in a struct, for tables of numbers. */
static inline double run_number_at(const void *record, size_t offset)
{
    double x;
    memcpy(&x, (const char *)record + offset, sizeof x);
    return x;
}

run_line run_line_of(uint64_t round);
run_facts run_facts_none(void);
/* Appends one object, without a line feed. facts may be NULL. */
sefl_status run_line_write(sefl_buf *out, const run_line *l,
                           const run_facts *facts) SEFL_MUST_CHECK;
/* Appends the facts alone, as the object that the first line has as its member "run". */
sefl_status run_facts_write(sefl_buf *out, const run_facts *f) SEFL_MUST_CHECK;
/* Leaves *facts unchanged unless the line has facts. */
sefl_status run_line_read(run_line *out, run_facts *facts, sefl_span line) SEFL_MUST_CHECK;

/* Appends the line durably, unless the last line is already for this round (the process died right
 * after writing it). Removes an incomplete last line. Sets *bytes to the resulting file length. The
 * first line of a file and of a task gets the facts. */
sefl_status run_log_append(uint64_t *bytes, const char *path, const run_line *l,
                           const run_facts *facts) SEFL_MUST_CHECK;

typedef struct run_log {
    run_line *at;
    size_t n;
    run_facts facts;
} run_log;

sefl_status run_log_read(run_log *out, const char *path) SEFL_MUST_CHECK;
/* Reads bytes in memory instead; error messages begin with `name`. */
sefl_status run_log_read_over(run_log *out, sefl_span bytes, const char *name) SEFL_MUST_CHECK;
void run_log_clear(run_log *l);
/* Returns the number of clients that a round lost: those that dropped out or were late, or else the
 * expected updates that did not arrive. NAN: unknown. */
double run_lost(const run_log *l, size_t i);

/* Totals over all rounds; a total is NAN if no line has the number. */
typedef struct run_totals {
    uint64_t rounds, released, skipped, blocked;
    run_line all;   /* its clients and diverged exclude skipped rounds */
    double best;    /* lowest perplexity */
    double collect; /* all.seconds without the seconds for reveal and release */
    double clients_least, clients_most;
    uint64_t best_round;
} run_totals;

run_totals run_totals_none(void);
void run_totals_add(run_totals *t, const run_line *l);
run_totals run_log_totals(const run_log *l);

/* What a run's log says in all. */
typedef struct run_view {
    run_facts facts; /* known is false until the first round is over */
    run_totals totals;
    run_line last;          /* round 0: none */
    uint64_t released;      /* the last round that released a model; 0: none */
    double seconds_a_round; /* median of the last rounds; NAN: none */
} run_view;

/* Returns the number named `key` in the object `bytes` (summary.json); NAN if there is none, or if
 * the bytes are not an object. */
double run_number(sefl_span bytes, const char *key);

#endif
