/* The joint noise end to end: AS here, CSP in a second process, plain TCP over loopback between
 * them, one core each; and the parts in memory. */
#define _GNU_SOURCE
#include "bench/micro/2pc.h"

#if !SEFL_CORE_ONLY

#include "base/alloc.h"
#include "base/clock.h"
#include "crypto/prg/aes.h"
#include "mpc/garble/garble.h"
#include "mpc/noise/noise.h"
#include "mpc/noise/shares.h"
#include "net/loopback.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 60000 };

typedef struct options {
    noise_params p;
    const char *part;
    bool all_paths;
} options;

/* Seconds and bytes of AS's side, CPU seconds of both. */
typedef struct phases {
    double setup_s, offline_s, online_s, output_s;
    double cpu[2][3]; /* side; setup, offline, online and output */
    uint64_t sent[3], received[3];
    long memory_kb[2];
} phases;

static sefl_status digit(void *ctx, uint64_t *out, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (first + i) * 0x9e3779b97f4a7c15u >> *(const unsigned *)ctx;
    return SEFL_OK;
}

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static long memory_kb(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
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

static sefl_status evaluator(uint16_t port, const noise_params *p, double cpu[3], long *kb)
{
    sefl_status st = SEFL_OK;
    loopback *lb = NULL;
    noise_evaluator *e = NULL;
    sefl_rng rng = rng_system();
    unsigned shift = 64 - (p->k + p->t + p->g);
    noise_digits d = { digit, &shift };
    double t0 = cpu_s(), t1;
    SEFL_TRY(loopback_dial(&lb, "127.0.0.1", port, TIMEOUT_MS));
    channel *ch = loopback_channel(lb);
    SEFL_TRY(noise_evaluator_new(&e, ch, p, &rng));
    cpu[0] = (t1 = cpu_s()) - t0, t0 = t1;
    SEFL_TRY(noise_evaluator_offline(e, ch));
    cpu[1] = (t1 = cpu_s()) - t0, t0 = t1;
    SEFL_TRY(noise_evaluator_online(e, ch, &d, &noise_evaluator_hooks_none));
    SEFL_TRY(noise_evaluator_output(e, ch));
    cpu[2] = cpu_s() - t0;
    *kb = memory_kb();
done:
    noise_evaluator_free(e);
    loopback_close(lb);
    return st;
}

static sefl_status garbler(int fd, const noise_params *p, phases *ph)
{
    sefl_status st = SEFL_OK;
    loopback *lb = NULL;
    noise_garbler *g = NULL;
    int32_t *w = NULL;
    sefl_rng rng = rng_system();
    sefl_clock clock = clock_monotonic();
    unsigned shift = 64 - (p->k + p->t + p->g);
    noise_digits d = { digit, &shift };
    uint64_t t[5];
    double c[4], sum = 0;
    SEFL_TRY(sefl_new(&w, p->count, sizeof *w));
    memset(w, 0xff, p->count * sizeof *w); /* the caller's pages, touched beforehand */
    SEFL_TRY(loopback_accept(&lb, fd, TIMEOUT_MS));
    channel *ch = loopback_channel(lb);
    t[0] = clock_ns(&clock), c[0] = cpu_s();
    SEFL_TRY(noise_garbler_new(&g, ch, p, &rng));
    t[1] = clock_ns(&clock), c[1] = cpu_s();
    ph->sent[0] = ch->sent, ph->received[0] = ch->received;
    SEFL_TRY(noise_garbler_offline(g, ch));
    t[2] = clock_ns(&clock), c[2] = cpu_s();
    ph->sent[1] = ch->sent - ph->sent[0], ph->received[1] = ch->received - ph->received[0];
    SEFL_TRY(noise_garbler_online(g, ch, &d, &noise_garbler_hooks_none));
    t[3] = clock_ns(&clock);
    SEFL_TRY(noise_garbler_output(g, ch, w));
    t[4] = clock_ns(&clock), c[3] = cpu_s();
    ph->sent[2] = ch->sent - ph->sent[0] - ph->sent[1];
    ph->received[2] = ch->received - ph->received[0] - ph->received[1];
    ph->setup_s = 1e-9 * (double)(t[1] - t[0]);
    ph->offline_s = 1e-9 * (double)(t[2] - t[1]);
    ph->online_s = 1e-9 * (double)(t[3] - t[2]);
    ph->output_s = 1e-9 * (double)(t[4] - t[3]);
    for (int i = 0; i < 3; i++)
        ph->cpu[0][i] = c[i + 1] - c[i];
    ph->memory_kb[0] = memory_kb();
    /* both sides have the same digits, so the aggregate is 0 and the results are the noise */
    for (size_t i = 0; i < p->count; i++)
        sum += ((double)w[i] + 0.5) * ((double)w[i] + 0.5);
    double var = sum / (double)p->count, sd = 89.1 * sqrt(2.0 / (double)p->count);
    SEFL_CHECK(fabs(var - 89.1) < 6 * sd + 1, SEFL_ECRYPTO, "variance of the noise %.2f, not 89.1",
               var);
done:
    noise_garbler_free(g);
    loopback_close(lb);
    sefl_free(w);
    return st;
}

static sefl_status two_processes(const noise_params *p, phases *ph)
{
    sefl_status st = SEFL_OK;
    int fd = -1, out[2] = { -1, -1 }, status;
    uint16_t port;
    struct {
        double cpu[3];
        long kb;
    } peer = { { 0 }, 0 };
    pid_t child = -1;
    SEFL_TRY(loopback_listen(&fd, "127.0.0.1", 0, &port));
    SEFL_CHECK(pipe(out) == 0, SEFL_EIO, "pipe: %s", strerror(errno));
    child = fork();
    SEFL_CHECK(child >= 0, SEFL_EIO, "fork: %s", strerror(errno));
    if (child == 0) {
        pin(1);
        st = evaluator(port, p, peer.cpu, &peer.kb);
        if (st != SEFL_OK)
            fprintf(stderr, "CSP: %s\n", sefl_last_error());
        ssize_t n = write(out[1], &peer, sizeof peer);
        _exit(st == SEFL_OK && n == sizeof peer ? 0 : 1);
    }
    pin(0);
    SEFL_TRY(garbler(fd, p, ph));
    SEFL_CHECK(read(out[0], &peer, sizeof peer) == sizeof peer, SEFL_EIO, "no word from CSP");
    memcpy(ph->cpu[1], peer.cpu, sizeof peer.cpu);
    ph->memory_kb[1] = peer.kb;
done:
    if (fd >= 0)
        close(fd);
    if (child > 0 && (waitpid(child, &status, 0) != child || status != 0) && st == SEFL_OK)
        st = sefl_fail(SEFL_EIO, "CSP failed");
    for (int i = 0; i < 2; i++)
        if (out[i] >= 0)
            close(out[i]);
    return st;
}

/* ---- noise in shares ------------------------------------------------------------------------- */

static sefl_status shares_floor(bench *b, double *whole_s);

/* CSP in the child, AS here. */
static sefl_status shares_end(bench *b, const noise_params *np)
{
    sefl_status st = SEFL_OK;
    shares_params p = { .count = np->count < SHARES_COUNT_MAX ? np->count : SHARES_COUNT_MAX,
                        .ot_k = np->ot_k,
                        .chunk = np->chunk };
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

/* Seconds a coordinate of the side with more AES to do, whole and online. Garbling: 4 hashes an
 * AND, evaluating 2; OT: 2^k/k blocks a transfer (less one leaf of 2^k at the garbler), input bits
 * twice. */
static sefl_status aes_floor(bench *b, const noise_params *p, double *whole_s, double *online_s)
{
    sefl_status st = SEFL_OK;
    double ctr_s, garble_s, eval_s;
    unsigned kot = p->ot_k ? p->ot_k : 4;
    SEFL_TRY(aes_rates(b, &ctr_s, &garble_s, &eval_s));
    double leaves = (double)(1 << kot) / kot;
    double ots[2] = { 34 + 2 * p->k, p->k }, ands[2] = { 28 + p->k, p->k - 1 }, out[2];
    for (int i = 0; i < 2; i++) {
        double g = ands[i] * garble_s + ots[i] * (leaves - 1.0 / kot) * ctr_s;
        double e = ands[i] * eval_s + ots[i] * leaves * ctr_s;
        out[i] = g > e ? g : e;
    }
    *whole_s = out[0], *online_s = out[1];
done:
    return st;
}

static sefl_status end_to_end(bench *b, const noise_params *p)
{
    sefl_status st = SEFL_OK;
    phases ph = { 0 };
    double n = (double)p->count, whole_floor, online_floor;
    SEFL_TRY(aes_floor(b, p, &whole_floor, &online_floor));
    SEFL_TRY(two_processes(p, &ph));
    double online = ph.online_s + ph.output_s, whole = ph.setup_s + ph.offline_s + online;
    bench_note(b,
               "joint noise, k = %u, %llu coordinates, two processes over loopback TCP; floor: AES "
               "alone",
               p->k, (unsigned long long)p->count);
    const struct {
        const char *name;
        double value, floor;
        const char *unit;
        bool rate;
    } rows[] = {
        { "end to end", n / whole, 1 / whole_floor, "coord/s", true },
        { "offline part (base OT included)", n / (whole - online), 0, "coord/s", true },
        { "online part (output included)", n / online, 1 / online_floor, "coord/s", true },
        { "whole over online", whole / online, 0, "x", true },
        { "base OT and trees", 1e3 * ph.setup_s, 0, "ms", false },
        { "output: send, check, decode", 1e3 * ph.output_s, 0, "ms", false },
        { "offline bytes AS to CSP", (double)(ph.sent[0] + ph.sent[1]) / n, 0, "B/coord", false },
        { "offline bytes CSP to AS", (double)(ph.received[0] + ph.received[1]) / n, 0, "B/coord",
          false },
        { "online bytes AS to CSP", (double)ph.sent[2] / n, 0, "B/coord", false },
        { "online bytes CSP to AS", (double)ph.received[2] / n, 0, "B/coord", false },
        { "all bytes",
          (double)(ph.sent[0] + ph.sent[1] + ph.sent[2] + ph.received[0] + ph.received[1] +
                   ph.received[2]) /
              n,
          0, "B/coord", false },
        { "CPU AS, offline", 1e9 * ph.cpu[0][1] / n, 0, "ns/coord", false },
        { "CPU AS, online", 1e9 * ph.cpu[0][2] / n, 0, "ns/coord", false },
        { "CPU CSP, offline", 1e9 * ph.cpu[1][1] / n, 0, "ns/coord", false },
        { "CPU CSP, online", 1e9 * ph.cpu[1][2] / n, 0, "ns/coord", false },
        { "peak memory AS, store and result included", (double)ph.memory_kb[0] / 1024, 0, "MiB",
          false },
        { "peak memory CSP, store included", (double)ph.memory_kb[1] / 1024, 0, "MiB", false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        bench_row(b, &(bench_result){ .name = rows[i].name,
                                      .value = rows[i].value,
                                      .floor = rows[i].floor,
                                      .unit = rows[i].unit,
                                      .rate = rows[i].rate });
done:
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
        { "coords", required_argument, NULL, 'n' },
        { "ot-k", required_argument, NULL, 'k' },
        { "chunk", required_argument, NULL, 'c' },
        { "store", required_argument, NULL, 's' },
        { "part", required_argument, NULL, 'p' },
        { "all-paths", no_argument, NULL, 'a' },
        { 0 },
    };
    sefl_status st = SEFL_OK;
    unsigned long long v;
    int opt;
    *o = (options){ .p = { .count = 1000000, .k = 16, .t = 12, .g = 16 }, .part = "all" };
    optind = 1;
    opterr = 0;
    while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (opt) {
        case 'n':
            SEFL_TRY(number(optarg, 1, 100000000, "--coords", &v));
            o->p.count = v;
            break;
        case 'k':
            SEFL_TRY(number(optarg, 1, 8, "--ot-k", &v));
            o->p.ot_k = (unsigned)v;
            break;
        case 'c':
            SEFL_TRY(number(optarg, 128, 65536, "--chunk", &v));
            o->p.chunk = (unsigned)v;
            break;
        case 's':
            o->p.store_dir = optarg;
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
                   strcmp(o->part, "garble") == 0 || strcmp(o->part, "end") == 0 ||
                   strcmp(o->part, "shares") == 0,
               SEFL_EINVAL, "--part wants all, ot, garble, end or shares, not \"%.32s\"", o->part);
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
        SEFL_TRY(bench_2pc_garble(b, o.p.k, o.all_paths));
    if (all || strcmp(o.part, "end") == 0)
        SEFL_TRY(end_to_end(b, &o.p));
    if (all || strcmp(o.part, "shares") == 0)
        SEFL_TRY(shares_end(b, &o.p));
done:
    return st;
}

const bench_def bench_2pc = {
    "2pc", "OT, garbling, the joint noise over loopback",
    "           --coords N (1000000)  --part all|ot|garble|end|shares\n"
    "           --ot-k 1|2|4|8 (4)  --chunk C (1024)  --store DIR (in memory)\n"
    "           --all-paths",
    run
};

#endif
