/* The joint noise: options, the parts that run in memory, and the floor. */
#include "bench/micro/2pc.h"

#if !SEFL_CORE_ONLY

#include "base/alloc.h"
#include "crypto/prg/aes.h"
#include "mpc/garble/garble.h"
#include "mpc/noise/online.h"
#include "mpc/noise/shares_plain.h"

#include <string.h>

typedef struct options {
    bench b;
    shares_params p;
    enum part { ALL, OT, GARBLE, SHARES, ONLINE } part;
    unsigned ot_log; /* p.ot_k is 2^ot_log */
    unsigned lanes;
    bool all_paths;
} options;

/* ---- the floor: AES blocks per coordinate, at the rates of this core ---- */

typedef struct floor_job {
    aes128 key;
    uint8_t *stream;
    gc_label x[2 * GC_LANES], s;
    uint64_t at;
    unsigned per_key;
} floor_job;

static sefl_status ctr(void *ctx)
{
    floor_job *j = ctx;
    aes128_ctr(&j->key, j->stream, 16384, 0, j->at += 1024);
    return SEFL_OK;
}

static sefl_status hashes(void *ctx)
{
    floor_job *j = ctx;
    gc_hash_floor(aes_path_best(), j->x, &j->s, j->at += 4096, 2048, j->per_key);
    return SEFL_OK;
}

/* Measures seconds per AES block of a key stream, per AND garbled, and per AND evaluated. */
static sefl_status aes_rates(bench *b, double *ctr_s, double *garble_s, double *eval_s)
{
    sefl_status st = SEFL_OK;
    floor_job j = { .per_key = 2 };
    bench_timing block, two, one;
    uint8_t key[AES_KEY] = { 1 };
    SEFL_TRY(sefl_new(&j.stream, 16384, 1));
    aes128_init(&j.key, key);
    SEFL_TRY(bench_time(b, &block, ctr, &j));
    SEFL_TRY(bench_time(b, &two, hashes, &j));
    j.per_key = 1;
    SEFL_TRY(bench_time(b, &one, hashes, &j));
    *ctr_s = block.median_s / 1024;
    *garble_s = 4 * two.median_s / (2048 * GC_LANES);
    *eval_s = 2 * one.median_s / (2048 * GC_LANES);
done:
    sefl_free(j.stream);
    return st;
}

/* 29 ANDs, 34 transfers, and 7 rows, each of which costs half an AND. */
static sefl_status shares_floor(bench *b, double *whole_s)
{
    double ctr_s = 0, garble_s = 0, eval_s = 0;
    sefl_status st = aes_rates(b, &ctr_s, &garble_s, &eval_s);
    double g = (29 + 3.5) * garble_s + 34 * 3.75 * ctr_s, e = (29 + 3.5) * eval_s + 34 * 4 * ctr_s;
    *whole_s = g > e ? g : e;
    return st;
}

/* ---- online: two pure functions, the reply is the only message ------------------------------- */

typedef struct online_job {
    noise_params p;
    uint64_t *digit;
    uint8_t *x, *reply;
    int64_t *w;
    size_t bytes;
    noise_taken taken;
    uint8_t *memory; /* correlated noise */
} online_job;

static sefl_status digits(void *ctx, uint64_t *digit, size_t first, size_t n)
{
    const online_job *j = ctx;
    memcpy(digit, j->digit + first, n * sizeof *digit);
    return SEFL_OK;
}

static sefl_status reply_make(void *ctx)
{
    online_job *j = ctx;
    noise_digits d = { digits, j };
    noise_source add = noise_taken_of(&j->taken);
    sefl_rng rng = rng_system();
    return noise_reply_make(j->reply, &j->p, &d, &add, j->memory, NULL, &rng);
}

static sefl_status reply_finish(void *ctx)
{
    static const uint8_t coins[NOISE_COINS] = { 1 };
    online_job *j = ctx;
    noise_digits d = { digits, j };
    noise_source add = noise_taken_of(&j->taken);
    return noise_reply_finish(j->w, &j->p, span_of(j->reply, j->bytes), &d, &add, j->memory, NULL,
                              coins);
}

/* Writes the joint noise over the digits. */
static sefl_status in_the_clear(void *ctx)
{
    online_job *j = ctx;
    sefl_rng rng = rng_system();
    return shares_plain(j->digit, &(shares_params){ .count = j->p.count }, NULL, &rng, &rng);
}

/* The same with a filter of one lag. */
static sefl_status online_filtered(bench *b, online_job *j)
{
    const double n = (double)j->p.count;
    bench_timing make, finish;
    SEFL_PASS(sefl_new(&j->memory, j->p.count, NOISE_KEPT));
    j->p.gamma[0] = 3700, j->p.lags = 1;
    j->taken.bytes = noise_share_bytes(&j->p);
    SEFL_PASS(noise_reply_bytes(&j->bytes, &j->p));
    SEFL_PASS(bench_time(b, &make, reply_make, j));
    SEFL_PASS(bench_time(b, &finish, reply_finish, j));
    bench_row(b, &(bench_result){ .name = "reply, correlated noise (b = 1)",
                                  .value = n / make.median_s,
                                  .unit = "value/s",
                                  .rate = true });
    bench_row(b, &(bench_result){ .name = "result, correlated noise (b = 1)",
                                  .value = n / finish.median_s,
                                  .unit = "value/s",
                                  .rate = true });
    bench_row(b, &(bench_result){ .name = "bytes of such a reply",
                                  .value = (double)j->bytes / n,
                                  .unit = "B/value" });
    bench_row(b, &(bench_result){ .name = "kept by each server (b = 1)",
                                  .value = NOISE_KEPT,
                                  .unit = "B/value" });
    return SEFL_OK;
}

static sefl_status online(bench *b)
{
    sefl_status st = SEFL_OK;
    online_job j = { .p = { .count = 1 << 18, .k = 16, .t = 12, .g = 16, .shape = &noise_joint } };
    const double n = (double)j.p.count;
    bench_timing make, finish, clear;
    SEFL_TRY(noise_reply_bytes(&j.bytes, &j.p));
    SEFL_TRY(sefl_new(&j.digit, j.p.count, sizeof *j.digit));
    SEFL_TRY(sefl_new(&j.x, j.p.count, 4)); /* with a filter a share has 4 bytes */
    SEFL_TRY(sefl_new(&j.w, j.p.count, sizeof *j.w));
    SEFL_TRY(sefl_new(&j.reply, j.bytes, 1));
    j.taken = (noise_taken){ j.x, 2 };
    SEFL_TRY(bench_time(b, &make, reply_make, &j));
    SEFL_TRY(bench_time(b, &finish, reply_finish, &j));
    SEFL_TRY(bench_time(b, &clear, in_the_clear, &j));
    bench_note(b, "online, k = 16: CSP's reply, AS's result; one thread");
    bench_row(b,
              &(bench_result){
                  .name = "reply", .value = n / make.median_s, .unit = "value/s", .rate = true });
    bench_row(
        b, &(bench_result){
               .name = "result", .value = n / finish.median_s, .unit = "value/s", .rate = true });
    bench_row(b, &(bench_result){
                     .name = "bytes of a reply", .value = (double)j.bytes / n, .unit = "B/value" });
    bench_row(b, &(bench_result){ .name = "noise in the clear (simulation)",
                                  .value = n / clear.median_s,
                                  .unit = "value/s",
                                  .rate = true });
    SEFL_TRY(online_filtered(b, &j));
done:
    sefl_free(j.memory);
    sefl_free(j.digit);
    sefl_free(j.x);
    sefl_free(j.w);
    sefl_free(j.reply);
    return st;
}

static bool wants(const options *o, enum part part)
{
    return o->part == ALL || o->part == part;
}

static sefl_status twopc_run(void *ctx)
{
    options *o = ctx;
    bench *b = &o->b;
    double floor;
    SEFL_NEED(b->threads <= 1, SEFL_EINVAL,
              "--threads %u: each lane has one thread per side; use --lanes instead", b->threads);
    SEFL_NEED(o->p.chunk % SHARES_ALIGN == 0, SEFL_EINVAL, "--chunk %u is not a multiple of %d",
              o->p.chunk, SHARES_ALIGN);
    o->p.ot_k = 1u << o->ot_log;
    if (wants(o, OT))
        SEFL_PASS(bench_2pc_ot(b));
    if (wants(o, GARBLE))
        SEFL_PASS(bench_2pc_garble(b, o->all_paths));
    if (wants(o, SHARES)) {
        SEFL_PASS(shares_floor(b, &floor));
        SEFL_PASS(bench_2pc_shares(b, &o->p, o->lanes, floor));
    }
    return wants(o, ONLINE) ? online(b) : SEFL_OK;
}

#define TO(member) SETTING_TO(options, member)
static const setting_def table[] = {
    { "part", SETTING_CHOICE, "all", TO(part), .words = "all ot garble shares online",
      .help = "Part to measure" },
    { "coords", SETTING_U64, "1000000", TO(p.count), .min = 1, .max = SHARES_COUNT_MAX,
      .help = "Number of values in the noise vector" },
    { "ot-k", SETTING_CHOICE, "4", TO(ot_log), .words = "1 2 4 8", .arg = "N",
      .help = "Parameter k of the OT extension" },
    { "chunk", SETTING_U64, "512", TO(p.chunk), .min = SHARES_ALIGN, .max = 8192,
      .help = "Number of values per chunk, a multiple of 128" },
    { "lanes", SETTING_U64, "1", TO(lanes), .min = 1, .max = BENCH_2PC_LANES_MAX,
      .help = "Number of connections that make shares at once" },
    { "all-paths", SETTING_FLAG, TO(all_paths),
      .help = "Garble with every instruction set, not only with the fastest" },
    BENCH_OPTIONS,
    { 0 },
};

const cli_command bench_2pc = {
    .name = "bench 2pc",
    .summary = "oblivious transfer, garbling, and joint noise over TLS",
    .example = "sefl bench 2pc --part ot",
    BENCH_COMMAND(options, table, twopc_run),
};

#endif
