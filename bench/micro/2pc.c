/* The joint noise end to end: AS here, CSP in a second process, plain TCP over loopback between
 * them, one core each; and the parts in memory. */
#define _GNU_SOURCE
#include "bench/micro/2pc.h"

#if !SEFL_CORE_ONLY

#include "base/alloc.h"
#include "base/clock.h"
#include "crypto/prg/aes.h"
#include "mpc/garble/garble.h"
#include "mpc/noise/online.h"
#include "mpc/noise/shares.h"
#include "net/loopback.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 60000 };

typedef struct options {
    shares_params p;
    const char *part;
    bool all_paths;
} options;

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* The i-th core this process may use, if there are two; else all of them. */
static void pin(int i)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2)
        return;
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &all) && i-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(c, &one);
            (void)sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

/* ---- noise in shares ------------------------------------------------------------------------- */

static sefl_status shares_floor(bench *b, double *whole_s);

/* CSP in the child, AS here. */
static sefl_status shares_end(bench *b, const shares_params *params)
{
    sefl_status st = SEFL_OK;
    const shares_params p = *params;
    const double n = (double)p.count;
    sefl_rng rng = rng_system();
    sefl_clock clock = clock_monotonic();
    loopback *lb = NULL;
    uint64_t *x = NULL;
    shares_result made;
    uint16_t port;
    double cpu = 0, theirs = 0, floor;
    int fd = -1, out[2] = { -1, -1 }, status;
    pid_t child = -1;
    SEFL_TRY(shares_floor(b, &floor));
    SEFL_TRY(sefl_new(&x, p.count, sizeof *x));
    memset(x, 0xff, p.count * sizeof *x); /* the caller's pages, touched beforehand */
    SEFL_TRY(loopback_listen(&fd, "127.0.0.1", 0, &port));
    SEFL_CHECK(pipe(out) == 0, SEFL_EIO, "pipe: %s", strerror(errno));
    child = fork();
    SEFL_CHECK(child >= 0, SEFL_EIO, "fork: %s", strerror(errno));
    if (child == 0) {
        pin(1);
        cpu = cpu_s();
        st = loopback_dial(&lb, "127.0.0.1", port, TIMEOUT_MS);
        if (st == SEFL_OK)
            st = shares_garble(&made, x, loopback_channel(lb), &p, &rng);
        if (st != SEFL_OK)
            fprintf(stderr, "CSP: %s\n", sefl_last_error());
        cpu = cpu_s() - cpu;
        ssize_t wrote = write(out[1], &cpu, sizeof cpu);
        _exit(st == SEFL_OK && wrote == sizeof cpu ? 0 : 1);
    }
    pin(0);
    SEFL_TRY(loopback_accept(&lb, fd, TIMEOUT_MS));
    channel *ch = loopback_channel(lb);
    uint64_t t0 = clock_ns(&clock);
    cpu = cpu_s();
    SEFL_TRY(shares_evaluate(&made, x, ch, &p, &rng));
    cpu = cpu_s() - cpu;
    double s = 1e-9 * (double)(clock_ns(&clock) - t0);
    SEFL_CHECK(read(out[0], &theirs, sizeof theirs) == sizeof theirs, SEFL_EIO, "no word from CSP");
    bench_note(b, "noise in shares, %llu values, two processes over loopback TCP; floor: AES alone",
               (unsigned long long)p.count);
    bench_row(b, &(bench_result){ .name = "shares made, base OT included",
                                  .value = n / s,
                                  .floor = 1 / floor,
                                  .unit = "value/s",
                                  .rate = true });
    bench_row(b, &(bench_result){ .name = "bytes CSP to AS",
                                  .value = (double)ch->received / n,
                                  .unit = "B/value" });
    bench_row(b, &(bench_result){
                     .name = "bytes AS to CSP", .value = (double)ch->sent / n, .unit = "B/value" });
    bench_row(b, &(bench_result){ .name = "CPU AS", .value = 1e9 * cpu / n, .unit = "ns/value" });
    bench_row(b,
              &(bench_result){ .name = "CPU CSP", .value = 1e9 * theirs / n, .unit = "ns/value" });
done:
    loopback_close(lb);
    if (fd >= 0)
        close(fd);
    if (child > 0 && (waitpid(child, &status, 0) != child || status != 0) && st == SEFL_OK)
        st = sefl_fail(SEFL_EIO, "CSP failed");
    for (int i = 0; i < 2; i++)
        if (out[i] >= 0)
            close(out[i]);
    sefl_free(x);
    return st;
}

/* ---- the floor: AES blocks a coordinate, at the rates this core has ---- */

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

/* Seconds of an AES block of a key stream, of an AND garbled and evaluated. */
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

/* 29 ANDs, 34 transfers, and a row for each of 7 outputs: half a garbled AND, or half an evaluated one. */
static sefl_status shares_floor(bench *b, double *whole_s)
{
    double ctr_s = 0, garble_s = 0, eval_s = 0;
    sefl_status st = aes_rates(b, &ctr_s, &garble_s, &eval_s);
    double g = (29 + 3.5) * garble_s + 34 * 3.75 * ctr_s, e = (29 + 3.5) * eval_s + 34 * 4 * ctr_s;
    *whole_s = g > e ? g : e;
    return st;
}

/* ---- online: two pure functions, no message but the reply ---------------------------------------- */

typedef struct online_job {
    noise_params p;
    uint64_t *digit;
    uint8_t *x, *reply;
    int64_t *w;
    size_t bytes;
    noise_taken taken;
} online_job;

static sefl_status reply_make(void *ctx)
{
    online_job *j = ctx;
    noise_digits d = noise_digits_of(j->digit);
    noise_source add = noise_taken_of(&j->taken);
    sefl_rng rng = rng_system();
    return noise_reply_make(j->reply, &j->p, &d, &add, &rng);
}

static sefl_status reply_finish(void *ctx)
{
    static const uint8_t coins[NOISE_COINS] = { 1 };
    online_job *j = ctx;
    noise_digits d = noise_digits_of(j->digit);
    noise_source add = noise_taken_of(&j->taken);
    return noise_reply_finish(j->w, &j->p, span_of(j->reply, j->bytes), &d, &add, coins);
}

static sefl_status online(bench *b)
{
    sefl_status st = SEFL_OK;
    online_job j = { .p = { .count = 1 << 18, .k = 16, .t = 12, .g = 16 } };
    const double n = (double)j.p.count;
    bench_timing make, finish;
    SEFL_TRY(noise_reply_bytes(&j.bytes, &j.p));
    SEFL_TRY(sefl_new(&j.digit, j.p.count, sizeof *j.digit));
    SEFL_TRY(sefl_new(&j.x, j.p.count, 2));
    SEFL_TRY(sefl_new(&j.w, j.p.count, sizeof *j.w));
    SEFL_TRY(sefl_new(&j.reply, j.bytes, 1));
    j.taken = (noise_taken){ j.x, 2 };
    SEFL_TRY(bench_time(b, &make, reply_make, &j));
    SEFL_TRY(bench_time(b, &finish, reply_finish, &j));
    bench_note(b, "online, k = 16: CSP's reply, AS's result; one thread");
    bench_row(b,
              &(bench_result){
                  .name = "reply", .value = n / make.median_s, .unit = "value/s", .rate = true });
    bench_row(
        b, &(bench_result){
               .name = "result", .value = n / finish.median_s, .unit = "value/s", .rate = true });
    bench_row(b, &(bench_result){
                     .name = "bytes of a reply", .value = (double)j.bytes / n, .unit = "B/value" });
done:
    sefl_free(j.digit);
    sefl_free(j.x);
    sefl_free(j.w);
    sefl_free(j.reply);
    return st;
}

static sefl_status number(const char *text, unsigned long long min, unsigned long long max,
                          const char *what, unsigned long long *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (errno || end == text || *end || *out < min || *out > max)
        return sefl_fail(SEFL_EINVAL, "%s wants %llu to %llu, not \"%.32s\"", what, min, max, text);
    return SEFL_OK;
}

static sefl_status parse(options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        { "coords", required_argument, NULL, 'n' }, { "ot-k", required_argument, NULL, 'k' },
        { "chunk", required_argument, NULL, 'c' },  { "part", required_argument, NULL, 'p' },
        { "all-paths", no_argument, NULL, 'a' },    { 0 },
    };
    sefl_status st = SEFL_OK;
    unsigned long long v;
    int opt;
    *o = (options){ .p = { .count = 1000000 }, .part = "all" };
    optind = 1;
    opterr = 0;
    while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (opt) {
        case 'n':
            SEFL_TRY(number(optarg, 1, SHARES_COUNT_MAX, "--coords", &v));
            o->p.count = v;
            break;
        case 'k':
            SEFL_TRY(number(optarg, 1, 8, "--ot-k", &v));
            o->p.ot_k = (unsigned)v;
            break;
        case 'c':
            SEFL_TRY(number(optarg, 128, 8192, "--chunk", &v));
            o->p.chunk = (unsigned)v;
            break;
        case 'p':
            o->part = optarg;
            break;
        case 'a':
            o->all_paths = true;
            break;
        default:
            SEFL_CHECK(false, SEFL_EINVAL, "bench 2pc: unknown option %s", argv[optind - 1]);
        }
    }
    SEFL_CHECK(optind == argc, SEFL_EINVAL, "bench 2pc takes no argument \"%s\"", argv[optind]);
    SEFL_CHECK(strcmp(o->part, "all") == 0 || strcmp(o->part, "ot") == 0 ||
                   strcmp(o->part, "garble") == 0 || strcmp(o->part, "online") == 0 ||
                   strcmp(o->part, "shares") == 0,
               SEFL_EINVAL, "--part wants all, ot, garble, shares or online, not \"%.32s\"",
               o->part);
done:
    return st;
}

static sefl_status run(bench *b, int argc, char **argv)
{
    sefl_status st = SEFL_OK;
    options o;
    bool all;
    SEFL_TRY(parse(&o, argc, argv));
    SEFL_CHECK(b->threads <= 1, SEFL_EINVAL,
               "bench 2pc: --threads %u: the protocol runs one thread a side, in two processes",
               b->threads);
    all = strcmp(o.part, "all") == 0;
    if (all || strcmp(o.part, "ot") == 0)
        SEFL_TRY(bench_2pc_ot(b));
    if (all || strcmp(o.part, "garble") == 0)
        SEFL_TRY(bench_2pc_garble(b, o.all_paths));
    if (all || strcmp(o.part, "shares") == 0)
        SEFL_TRY(shares_end(b, &o.p));
    if (all || strcmp(o.part, "online") == 0)
        SEFL_TRY(online(b));
done:
    return st;
}

const bench_def bench_2pc = {
    "2pc", "OT, garbling, the joint noise over loopback",
    "           --coords N (1000000)  --part all|ot|garble|shares|online\n"
    "           --ot-k 1|2|4|8 (4)  --chunk C (1024)  --all-paths",
    run
};

#endif
