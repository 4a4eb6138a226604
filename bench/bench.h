/* bench: the common interface of all benchmarks.
 *
 * A benchmark measures cases and passes each to bench_row(), which prints a row of a table, or with
 * --json one object per line: bench, case, value, unit, per_value, floor, ratio, threads, commit,
 * cpu. The floor is the best that the machine's arithmetic allows for the same work, measured in
 * the same run; ratio is value over floor for times and sizes, floor over value for rates, so 1.0
 * is the floor and larger is worse.
 *
 *     static sefl_status run(bench *b, int argc, char **argv)
 *     {
 *         bench_timing t;
 *         SEFL_TRY(bench_time(b, &t, &job, one_pass));       // warm-up, then repeats
 *         bench_row(b, &(bench_result){ .name = "sha256 64 KiB", .value = 65536 / t.median_s / 1e9,
 *                                       .unit = "GB/s", .rate = true });
 *     }
 *     const bench_def bench_base = { "base", "hash, copy, random bytes", "", run };
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "base/pool.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct bench {
    const char *name;
    FILE *out;
    bool json;
    unsigned threads;   /* --threads; default 1 */
    double min_seconds; /* minimum time to measure each case */
    unsigned rows_printed;
    char head[256]; /* first line of the table, printed with the first row or note, so that refused
                     * options print no table */
} bench;

typedef struct bench_timing {
    double min_s, median_s, p99_s; /* seconds for one call of the measured function */
    unsigned long calls;
} bench_timing;

typedef struct bench_result {
    const char *name;
    double value;
    const char *unit;
    double per_value; /* value per packed or processed number; 0: not applicable */
    double floor;     /* in the unit of value; 0: none known */
    bool rate;        /* larger is better */
    unsigned threads; /* 0: 1 */
} bench_result;

typedef struct bench_def {
    const char *name;
    const char *summary;
    const char *options; /* help lines for its own options, "" if none */
    /* argv[0] is the benchmark's name; common options are already removed */
    sefl_status (*run)(bench *b, int argc, char **argv);
} bench_def;

/* Ends with NULL. */
extern const bench_def *const bench_list[];

/* Times fn: a warm-up call, then at least 5 batches and at least min_seconds. */
sefl_status bench_time(bench *b, bench_timing *out, sefl_status (*fn)(void *ctx),
                       void *ctx) SEFL_MUST_CHECK;

void bench_row(bench *b, const bench_result *r);

/* Prints a comment line in the table; omitted with --json. */
void bench_note(bench *b, const char *fmt, ...) SEFL_PRINTF(2, 3);

#endif
