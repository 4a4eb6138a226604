/* ahe: the options of the benchmark `ahe`, and one function per scheme. */
#ifndef BENCH_MICRO_AHE_H
#define BENCH_MICRO_AHE_H

#include "base/pool.h"
#include "bench/bench.h"
#include "crypto/ahe/pack.h"

typedef struct bench_ahe_options {
    bench b;
    const char *scheme; /* NULL: all */
    unsigned bits;      /* size of the Paillier key */
    size_t values;      /* number of values in a whole encryption; 0: skip that case */
    unsigned clients;   /* number of clients in the packing */
    pool *pool;         /* b->threads threads; NULL: one */
} bench_ahe_options;

/* Returns the packing of published figures: w = 28 (k = 16, t = 12). */
pack bench_ahe_pack(const bench_ahe_options *o);

/* Prints a row with the time per ciphertext in us and, if values > 0, a second row with the time
 * per value in ns. If floor_us is 0, there is no floor. */
void bench_ahe_time(bench *b, const char *label, double us, double floor_us, double values,
                    unsigned threads);

sefl_status bench_ahe_paillier(bench *b, const bench_ahe_options *o) SEFL_MUST_CHECK;
sefl_status bench_ahe_pad(bench *b, const bench_ahe_options *o) SEFL_MUST_CHECK;

#endif
