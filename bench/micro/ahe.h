/* The `ahe` benchmark: options, and one function per scheme. */
#ifndef BENCH_MICRO_AHE_H
#define BENCH_MICRO_AHE_H

#include "bench/bench.h"
#include "crypto/ahe/pack.h"

#include <stddef.h>

typedef struct bench_ahe_options {
    const char *scheme; /* NULL: all */
    unsigned bits;      /* of the Paillier key */
    size_t values;      /* streamed through one whole encryption; 0: leave that out */
    unsigned clients;   /* in the packing */
    pool *pool;         /* of b->threads threads, NULL for one */
} bench_ahe_options;

/* The packing that figures are quoted for: w = 28 (k = 16, t = 12). */
pack bench_ahe_pack(const bench_ahe_options *o);

/* A row named "<label> (<bits>)" or so: a time per ciphertext in us, and per value in ns as a row
 * of its own where values > 0; floor_us 0 for none. */
void bench_ahe_time(bench *b, const char *label, double us, double floor_us, double values,
                    unsigned threads);

sefl_status bench_ahe_paillier(bench *b, const bench_ahe_options *o) SEFL_MUST_CHECK;
sefl_status bench_ahe_pad(bench *b, const bench_ahe_options *o) SEFL_MUST_CHECK;

#endif
