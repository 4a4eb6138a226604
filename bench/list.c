#include "bench/bench.h"

#include <stddef.h>

extern const bench_def bench_base;
extern const bench_def bench_privacy;

const bench_def *const bench_list[] = { &bench_base, &bench_privacy, NULL };
