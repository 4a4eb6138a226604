/* Basic rates of the machine, from which other benchmarks derive their floors. */
#include "bench/bench.h"

#include "base/alloc.h"
#include "base/blake3.h"
#include "base/random.h"
#include "base/sha256.h"
#include "seeded/seeded.h"

#include <string.h>

enum { SMALL = 64 << 10, LARGE = 64 << 20 };

typedef struct job {
    uint8_t *a, *b;
    seeded gen;
    uint8_t digest[SHA256_BYTES];
} job;

static sefl_status hash(void *ctx)
{
    job *j = ctx;
    memcpy(j->a, j->digest, sizeof j->digest); /* chained: the compiler cannot skip a pass */
    sha256_of(j->digest, span_of(j->a, SMALL));
    return SEFL_OK;
}

static sefl_status hash_ref(void *ctx)
{
    job *j = ctx;
    uint32_t state[8];
    memcpy(state, j->digest, sizeof state);
    sha256_blocks_ref(state, j->a, SMALL / 64);
    memcpy(j->digest, state, sizeof state);
    return SEFL_OK;
}

static sefl_status hash3(void *ctx)
{
    job *j = ctx;
    memcpy(j->a, j->digest, sizeof j->digest);
    blake3_of(j->digest, span_of(j->a, SMALL));
    return SEFL_OK;
}

static sefl_status hash3_large(void *ctx)
{
    job *j = ctx;
    memcpy(j->a, j->digest, sizeof j->digest);
    blake3_of(j->digest, span_of(j->a, LARGE));
    return SEFL_OK;
}

static sefl_status hash3_ref(void *ctx)
{
    job *j = ctx;
    memcpy(j->a, j->digest, sizeof j->digest);
    blake3_of_ref(j->digest, span_of(j->a, SMALL));
    return SEFL_OK;
}

static sefl_status copy(void *ctx)
{
    job *j = ctx;
    j->a[0]++;
    memcpy(j->b, j->a, LARGE);
    __asm__ __volatile__("" : : "r"(j->b) : "memory");
    return SEFL_OK;
}

static sefl_status stream(void *ctx)
{
    job *j = ctx;
    seeded_fill(&j->gen, j->a, SMALL);
    return SEFL_OK;
}

static sefl_status system_random(void *ctx)
{
    job *j = ctx;
    sefl_rng rng = rng_system();
    return rng_fill(&rng, j->a, SMALL);
}

static sefl_status run(void *options)
{
    static const struct {
        const char *name;
        sefl_status (*fn)(void *);
        double bytes;
    } cases[] = {
        { "sha256, 64 KiB", hash, SMALL },
        { "sha256, plain C", hash_ref, SMALL },
        { "blake3, 64 KiB", hash3, SMALL },
        { "blake3, 64 MiB", hash3_large, LARGE },
        { "blake3, plain C", hash3_ref, SMALL },
        { "memcpy, 64 MiB", copy, LARGE },
        { "seeded generator (ChaCha20)", stream, SMALL },
        { "system randomness (getrandom)", system_random, SMALL },
    };
    sefl_status st = SEFL_OK;
    bench *b = options;
    job j = { 0 };
    SEFL_TRY(sefl_new(&j.a, LARGE, 1));
    SEFL_TRY(sefl_new(&j.b, LARGE, 1));
    seeded_init(&j.gen, 1, "bench");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench_timing t;
        SEFL_TRY(bench_time(b, &t, cases[i].fn, &j));
        bench_row(b, &(bench_result){ .name = cases[i].name,
                                      .value = cases[i].bytes / t.median_s * 1e-9,
                                      .unit = "GB/s",
                                      .rate = true });
    }
done:
    sefl_free(j.a);
    sefl_free(j.b);
    return st;
}

const cli_command bench_base = {
    .name = "bench base",
    .summary = "how fast this machine hashes, copies and draws random bytes",
    .example = "sefl bench base --json",
    BENCH_COMMAND(bench, bench_options, run),
};
