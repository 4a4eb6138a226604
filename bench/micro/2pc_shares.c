/* Noise shares between processes on loopback: each lane is a pair of processes, with a core each if
 * there are enough, over mutual TLS 1.3 as the servers use it. Sessions are signed; none is
 * audited. */
#define _GNU_SOURCE
#include "bench/micro/2pc.h"

#if !SEFL_CORE_ONLY

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/round/ids.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 60000, LANES_MAX = BENCH_2PC_LANES_MAX };

typedef struct plan {
    shares_params p;
    ids x;
    unsigned lanes;
    sign_key *key;
} plan;

/* A process's report; times are from the machine's clock. */
typedef struct report {
    uint64_t from_ns, to_ns, sent, received;
    double cpu_s;
} report;

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Pins this process to its i-th core if it may use `wanted` cores; otherwise does nothing. */
static void pin(unsigned i, unsigned wanted)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || (unsigned)CPU_COUNT(&all) < wanted)
        return;
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &all) && i-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(c, &one);
            (void)sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

static sefl_status side(const plan *pl, bool garbles, int fd, uint16_t port, report *out)
{
    sefl_status st = SEFL_OK;
    shares_params p = pl->p;
    shares_result made;
    sefl_rng rng = rng_system();
    sefl_clock clock = clock_monotonic();
    tls *t = NULL;
    uint64_t *x = NULL;
    SEFL_TRY(sefl_new(&x, p.count, sizeof *x));
    memset(x, 0xff, p.count * sizeof *x); /* touch the caller's pages first */
    p.sign = pl->key;                     /* of both, to save a second one */
    *(garbles ? &p.as : &p.csp) = sign_key_pub(pl->key);
    if (garbles)
        SEFL_TRY(
            tls_accept(&t, fd, pl->x.csp, &(tls_peer){ .role = "aggregator" }, TIMEOUT_MS, NULL));
    else
        SEFL_TRY(tls_dial(&t, "127.0.0.1", port, pl->x.as, &(tls_peer){ .role = "csp" }, NULL));
    channel *ch = tls_channel(t);
    double cpu = cpu_s();
    out->from_ns = clock_ns(&clock);
    SEFL_TRY((garbles ? shares_garble : shares_evaluate)(&made, x, ch, &p, &rng));
    out->to_ns = clock_ns(&clock);
    out->cpu_s = cpu_s() - cpu;
    out->sent = ch->sent, out->received = ch->received;
done:
    tls_close(t);
    sefl_free(x);
    return st;
}

/* Runs one process, which writes its report to `to`. */
static sefl_status begin(const plan *pl, unsigned lane, bool garbles, int fd, uint16_t port, int to)
{
    pid_t child = fork();
    if (child < 0)
        return sefl_fail(SEFL_EIO, "fork: %s", strerror(errno));
    if (child > 0)
        return SEFL_OK;
    report r = { 0 };
    pin(2 * lane + garbles, 2 * pl->lanes);
    sefl_status st = side(pl, garbles, fd, port, &r);
    if (st != SEFL_OK)
        fprintf(stderr, "%s: %s\n", garbles ? "CSP" : "AS", sefl_last_error());
    _exit(st == SEFL_OK && write(to, &r, sizeof r) == (ssize_t)sizeof r ? 0 : 1);
}

static sefl_status lanes_run(const plan *pl, report (*out)[2])
{
    sefl_status st = SEFL_OK;
    int from[LANES_MAX][2][2], fd[LANES_MAX], status;
    uint16_t port;
    unsigned begun = 0;
    memset(from, -1, sizeof from);
    memset(fd, -1, sizeof fd);
    for (unsigned i = 0; i < pl->lanes; i++) {
        SEFL_TRY(tls_listen(&fd[i], "127.0.0.1", 0, &port));
        for (int g = 0; g < 2; g++) {
            SEFL_CHECK(pipe(from[i][g]) == 0, SEFL_EIO, "pipe: %s", strerror(errno));
            SEFL_TRY(begin(pl, i, g, fd[i], port, from[i][g][1]));
            begun++;
            close(from[i][g][1]);
            from[i][g][1] = -1;
        }
    }
    for (unsigned i = 0; i < pl->lanes; i++)
        for (int g = 0; g < 2; g++)
            SEFL_CHECK(read(from[i][g][0], &out[i][g], sizeof(report)) == (ssize_t)sizeof(report),
                       SEFL_EIO, "a process of lane %u failed", i);
done:
    for (unsigned i = 0; i < pl->lanes; i++) {
        if (fd[i] >= 0)
            close(fd[i]);
        for (int g = 0; g < 4; g++)
            if (from[i][g / 2][g % 2] >= 0)
                close(from[i][g / 2][g % 2]);
    }
    while (begun > 0 && (wait(&status) > 0 || errno == EINTR))
        begun--;
    return st;
}

static sefl_status one(bench *b, const plan *pl, double floor_s)
{
    sefl_status st = SEFL_OK;
    report r[LANES_MAX][2] = { 0 };
    const double n = (double)pl->p.count, all = n * pl->lanes;
    uint64_t from = UINT64_MAX, to = 0, sent = 0, received = 0;
    double cpu[2] = { 0 };
    SEFL_TRY(lanes_run(pl, r));
    for (unsigned i = 0; i < pl->lanes; i++) {
        from = r[i][0].from_ns < from ? r[i][0].from_ns : from;
        to = r[i][0].to_ns > to ? r[i][0].to_ns : to;
        sent += r[i][0].sent, received += r[i][0].received;
        for (int g = 0; g < 2; g++)
            cpu[g] += r[i][g].cpu_s;
    }
    bench_row(b, &(bench_result){ .name = "shares made over TLS, base OT included",
                                  .value = all / (1e-9 * (double)(to - from)),
                                  .floor = 1 / floor_s,
                                  .unit = "value/s",
                                  .rate = true });
    bench_row(b,
              &(bench_result){ .name = "CPU AS", .value = 1e9 * cpu[0] / all, .unit = "ns/value" });
    bench_row(
        b, &(bench_result){ .name = "CPU CSP", .value = 1e9 * cpu[1] / all, .unit = "ns/value" });
    bench_row(b, &(bench_result){ .name = "bytes CSP to AS",
                                  .value = (double)received / all,
                                  .unit = "B/value" });
    bench_row(b, &(bench_result){
                     .name = "bytes AS to CSP", .value = (double)sent / all, .unit = "B/value" });
done:
    return st;
}

sefl_status bench_2pc_shares(bench *b, const shares_params *p, unsigned lanes, double floor_s)
{
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    plan pl = { .p = *p, .lanes = lanes };
    SEFL_TRY(sign_key_new(&pl.key, &rng));
    SEFL_TRY(ids_make(&pl.x));
    bench_note(b,
               "noise in shares, %llu values in each of %u lanes, two processes a lane on loopback;"
               " floor: AES alone",
               (unsigned long long)p->count, lanes);
    SEFL_TRY(one(b, &pl, floor_s / lanes));
done:
    sign_key_free(pl.key);
    if (pl.x.folder[0])
        ids_remove(&pl.x);
    return st;
}

#endif
