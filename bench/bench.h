/* bench: the common interface of all benchmarks.
 *
 * A benchmark measures cases and passes each to bench_row(), which prints a row of a table, or with
 * --json one object per line: bench, case, value, unit, per_value, floor, ratio, threads, commit,
 * cpu. The floor is the best that the machine's arithmetic allows for the same work, measured in
 * the same run; ratio is value over floor for times and sizes, floor over value for rates, so 1.0
 * is the floor and larger is worse.
 *
 * A benchmark is a command (cli/options.h) and is listed in list.c. Its options fill a struct that
 * begins with a `bench`:
 *
 *     typedef struct options { bench b; size_t bytes; } options;
 *     static sefl_status run(void *ctx)
 *     {
 *         options *o = ctx;
 *         bench_timing t;
 *         SEFL_TRY(bench_time(&o->b, &t, one_pass, &job));       // warm-up, then repeats
 *         bench_row(&o->b, &(bench_result){ .name = "sha256", .value = o->bytes / t.median_s / 1e9,
 *                                           .unit = "GB/s", .rate = true });
 *     }
 *     static const setting_def table[] = {
 *         { "bytes", SETTING_U64, "65536", SETTING_TO(options, bytes), .min = 1, .max = 1 << 26,
 *           .help = "Bytes to hash" },
 *         BENCH_OPTIONS, { 0 }
 *     };
 *     const cli_command bench_hash = { .name = "bench hash", .summary = "hash functions",
 *                                      .example = "sefl bench hash",
 *                                      BENCH_COMMAND(options, table, run) };
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "cli/options.h"

#include <stdio.h>

typedef struct bench {
    const char *name;
    FILE *out;
    bool json;
    unsigned threads;   /* --threads */
    double min_seconds; /* --seconds: minimum time to measure each case */
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

/* The options of every benchmark. */
/* clang-format off */
#define BENCH_OPTIONS                                                                          \
    { "threads", SETTING_U64, "1", .min = 1, .max = 256, .help = "Number of threads",          \
      SETTING_TO(bench, threads) },                                                            \
    { "seconds", SETTING_REAL, "0.5", .max = 3600, .arg = "S",                                 \
      .help = "Minimum seconds per case", SETTING_TO(bench, min_seconds) },                    \
    { "json", SETTING_FLAG, SETTING_TO(bench, json),                                           \
      .help = "Print each case as one JSON object; the member ratio compares the case with "   \
              "its floor: 1.0 is the best possible, and larger is worse" }
/* clang-format on */
/* For a benchmark without other options: a table of BENCH_OPTIONS. */
extern const setting_def bench_options[];

/* The part of a benchmark's cli_command that follows name, summary and example. */
#define BENCH_COMMAND(type, table, fn) \
    .options = (table), .size = sizeof(type), .prepare = bench_prepare, CLI_WORK(fn, NULL, NULL, 0)

/* Ends with NULL. */
extern const cli_command *const bench_list[];

/* Completes the `bench` at the beginning of the options: name, output, first line. */
sefl_status bench_prepare(const cli_command *c, const cli_action *a, void *options) SEFL_MUST_CHECK;

/* Times fn: a warm-up call, then at least 5 batches and at least min_seconds. */
sefl_status bench_time(bench *b, bench_timing *out, sefl_status (*fn)(void *ctx),
                       void *ctx) SEFL_MUST_CHECK;

void bench_row(bench *b, const bench_result *r);

/* Prints a comment line in the table; omitted with --json. */
void bench_note(bench *b, const char *fmt, ...) SEFL_PRINTF(2, 3);

#endif
