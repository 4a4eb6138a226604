#include "bench/bench.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/json.h"
#include "build_info.h"

#include <stdarg.h>
#include <stdlib.h>

enum { MAX_BATCHES = 1000 };

const setting_def bench_options[] = { BENCH_OPTIONS, { 0 } };

sefl_status bench_prepare(const cli_command *c, const cli_action *a, void *options)
{
    bench *b = options;
    (void)a;
    SEFL_NEED(b->min_seconds > 0, SEFL_EINVAL, "--seconds must be above 0");
    b->name = c->name + sizeof "bench"; /* after "bench " */
    b->out = stdout;
    snprintf(b->head, sizeof b->head, "sefl %s  commit %s  %s", c->name, SEFL_BUILD_COMMIT,
             cpu_name());
    return SEFL_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

sefl_status bench_time(bench *b, bench_timing *out, sefl_status (*fn)(void *ctx), void *ctx)
{
    static const double batch_seconds =
        0.002; /* long compared with the cost of reading the clock */
    double sample[MAX_BATCHES];
    sefl_clock clock = clock_monotonic();
    sefl_status st = SEFL_OK;
    unsigned long calls_per_batch = 1;
    *out = (bench_timing){ 0 };

    for (;;) { /* the warm-up also determines the calls per batch */
        uint64_t t0 = clock_ns(&clock);
        for (unsigned long i = 0; i < calls_per_batch; i++)
            SEFL_TRY(fn(ctx));
        double s = (double)(clock_ns(&clock) - t0) * 1e-9;
        if (s >= batch_seconds)
            break;
        calls_per_batch *= s > batch_seconds / 10 ? 2 : 8;
    }
    size_t n = 0;
    uint64_t begin = clock_ns(&clock);
    while (n < MAX_BATCHES &&
           (n < 5 || (double)(clock_ns(&clock) - begin) * 1e-9 < b->min_seconds)) {
        uint64_t t0 = clock_ns(&clock);
        for (unsigned long i = 0; i < calls_per_batch; i++)
            SEFL_TRY(fn(ctx));
        sample[n++] = (double)(clock_ns(&clock) - t0) * 1e-9 / (double)calls_per_batch;
    }
    qsort(sample, n, sizeof sample[0], by_value);
    out->min_s = sample[0];
    out->median_s = sample[n / 2];
    out->p99_s = sample[n - 1 - n / 100];
    out->calls = n * calls_per_batch;
done:
    return st;
}

static double ratio_of(const bench_result *r)
{
    if (r->floor <= 0 || r->value <= 0)
        return 0;
    return r->rate ? r->floor / r->value : r->value / r->floor;
}

static void print_json(bench *b, const bench_result *r)
{
    sefl_buf line = { 0 };
    json j = json_into(&line);
    json_open(&j, '{');
    json_key(&j, "bench"), json_str(&j, b->name);
    json_key(&j, "case"), json_str(&j, r->name);
    json_key(&j, "value"), json_real(&j, r->value);
    json_key(&j, "unit"), json_str(&j, r->unit);
    if (r->per_value > 0)
        json_key(&j, "per_value"), json_real(&j, r->per_value);
    if (r->floor > 0) {
        json_key(&j, "floor"), json_real(&j, r->floor);
        json_key(&j, "ratio"), json_real(&j, ratio_of(r));
    }
    json_key(&j, "threads"), json_u64(&j, r->threads ? r->threads : 1);
    json_key(&j, "commit"), json_str(&j, SEFL_BUILD_COMMIT);
    json_key(&j, "cpu"), json_str(&j, cpu_name());
    json_close(&j, '}');
    if (json_end(&j) == SEFL_OK)
        fprintf(b->out, "%.*s\n", (int)line.n, (const char *)line.p);
    buf_clear(&line);
}

static void number(char *out, size_t n, double v)
{
    if (v <= 0)
        snprintf(out, n, "-");
    else
        snprintf(out, n, v >= 1000 ? "%.0f" : v >= 100 ? "%.1f" : v >= 1 ? "%.3g" : "%.3g", v);
}

static void print_head(bench *b)
{
    if (b->head[0] && !b->json)
        fprintf(b->out, "%s\n", b->head);
    b->head[0] = 0;
}

void bench_row(bench *b, const bench_result *r)
{
    print_head(b);
    if (b->json) {
        print_json(b, r);
        fflush(b->out);
        return;
    }
    if (b->rows_printed++ == 0)
        fprintf(b->out, "%-42s %12s %-9s %12s %12s %7s %3s\n", "case", "value", "unit", "per value",
                "floor", "ratio", "thr");
    char value[24], per[24], floor[24], ratio[24];
    number(value, sizeof value, r->value);
    number(per, sizeof per, r->per_value);
    number(floor, sizeof floor, r->floor);
    if (ratio_of(r) > 0)
        snprintf(ratio, sizeof ratio, "%.2f", ratio_of(r));
    else
        snprintf(ratio, sizeof ratio, "-");
    fprintf(b->out, "%-42s %12s %-9s %12s %12s %7s %3u\n", r->name, value, r->unit, per, floor,
            ratio, r->threads ? r->threads : 1);
    fflush(b->out);
}

void bench_note(bench *b, const char *fmt, ...)
{
    if (b->json)
        return;
    print_head(b);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(b->out, fmt, ap);
    va_end(ap);
    fputc('\n', b->out);
    fflush(b->out);
}
