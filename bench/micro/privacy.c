/* Quantising a client's vector, discrete Gaussian noise, accountants and a ledger charge. The floor
 * of the first two is the randomness they must draw, read from the system in the same run. */
#include "bench/bench.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/random.h"
#include "privacy/accountant/pld.h"
#include "privacy/mechanism/dgauss.h"
#include "privacy/mechanism/quantise.h"
#include "store/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { N = 1 << 18 };

typedef struct job {
    float *v;
    int64_t *x, *out;
    uint8_t *bytes;
    dp_grid grid;
    dgauss noise;
    sefl_rng rng;
    ledger *book;
    ledger_terms terms;
    uint64_t round;
} job;

static sefl_status eight_bytes(void *ctx)
{
    job *j = ctx;
    sefl_status st = SEFL_OK;
    for (size_t at = 0; st == SEFL_OK && at < 8 * N; at += 4096)
        st = rng_fill(&j->rng, j->bytes, 4096);
    return st;
}

static sefl_status rounding(void *ctx)
{
    job *j = ctx;
    return dp_quantise(j->x, NULL, &j->grid, j->v, N, NULL, &j->rng);
}

static sefl_status gauss(void *ctx)
{
    job *j = ctx;
    return dgauss_fill_vartime(&j->noise, j->out, N, &j->rng);
}

static sefl_status renyi(void *ctx)
{
    (void)ctx;
    dp_claim c;
    dp_event ev = { .noise = DP_NOISE_JOINT, .z = 1.1, .rate = 0.01, .count = 1000, .dim = N };
    return dp_epsilon(&c, &ev, 1, &(dp_question){ .delta = 1e-6 });
}

static sefl_status numerical(void *ctx)
{
    (void)ctx;
    pld_interval e;
    pld_step s = { .noise = PLD_GAUSS, .z = 1.1, .rate = 0.01, .count = 1000 };
    return pld_epsilon(&e, &s, 1, 1e-6);
}

static sefl_status charge(void *ctx)
{
    job *j = ctx;
    return ledger_charge(j->book, &j->terms, j->round++, NULL);
}

static sefl_status measure(bench *b, job *j)
{
    static const struct {
        const char *name;
        sefl_status (*fn)(void *);
        double per, scale;
        const char *unit;
        bool coins;
    } cases[] = {
        { "clip and quantise, a value", rounding, N, 1e9, "ns", true },
        { "discrete Gaussian, a sample", gauss, N, 1e9, "ns", true },
        { "Renyi epsilon, sampled, joint", renyi, 1, 1e3, "ms", false },
        { "numerical epsilon, sampled", numerical, 1, 1e3, "ms", false },
        { "ledger charge, synced", charge, 1, 1e3, "ms", false },
    };
    bench_timing t;
    SEFL_PASS(bench_time(b, &t, eight_bytes, j));
    double floor_ns = t.median_s / N * 1e9;
    bench_row(b, &(bench_result){
                     .name = "8 random bytes (getrandom)", .value = floor_ns, .unit = "ns" });
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        SEFL_PASS(bench_time(b, &t, cases[i].fn, j));
        bench_row(b, &(bench_result){ .name = cases[i].name,
                                      .value = t.median_s / cases[i].per * cases[i].scale,
                                      .unit = cases[i].unit,
                                      .floor = cases[i].coins ? floor_ns : 0 });
    }
    return SEFL_OK;
}

static sefl_status run(void *options)
{
    sefl_status st = SEFL_OK;
    job j = { .rng = rng_system(),
              .terms = { .noise = DP_NOISE_JOINT,
                         .z = 100,
                         .rate = 1,
                         .dim = N,
                         .epsilon_max = 1e6,
                         .delta = 1e-6 } };
    char dir[256] = "", path[300] = "";
    SEFL_TRY(sefl_new(&j.v, N, sizeof *j.v));
    SEFL_TRY(sefl_new(&j.x, N, sizeof *j.x));
    SEFL_TRY(sefl_new(&j.out, N, sizeof *j.out));
    SEFL_TRY(sefl_new(&j.bytes, 4096, 1));
    for (size_t i = 0; i < N; i++)
        j.v[i] = (float)(i * 7919 % 1000) - 500;
    SEFL_TRY(
        dp_grid_init(&j.grid, &(dp_grid_config){ .z = 1, .clip = 1, .dim = N, .clients = 100 }));
    SEFL_TRY(dgauss_for_grid(&j.noise, &j.grid));
    SEFL_TRY(file_temp_folder(dir, sizeof dir, "sefl-bench"));
    snprintf(path, sizeof path, "%s/ledger", dir);
    SEFL_TRY(ledger_create(path, "bench"));
    SEFL_TRY(ledger_open(&j.book, path, "bench", NULL));
    SEFL_TRY(measure(options, &j));
done:
    ledger_close(j.book);
    if (*path) {
        unlink(path);
        rmdir(dir);
    }
    sefl_free(j.v);
    sefl_free(j.x);
    sefl_free(j.out);
    sefl_free(j.bytes);
    return st;
}

const cli_command bench_privacy = {
    .name = "bench privacy",
    .summary = "quantising, noise, privacy accountants and the ledger",
    .example = "sefl bench privacy",
    BENCH_COMMAND(bench, bench_options, run),
};
