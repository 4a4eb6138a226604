#include "bench/bench.h"

#include <stddef.h>

extern const bench_def bench_base, bench_train;

const bench_def *const bench_list[] = { &bench_base, &bench_train, NULL };
