/* The links of a federation over loopback, between two processes: the stream between AS and CSP
 * beside plain TCP, and the server's cost of an upload beside a bare TLS stream. */
#define _GNU_SOURCE
#include "bench/bench.h"
#include "bench/round/ids.h"
#include "bench/round/loopback.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "net/https_client.h"
#include "net/https_server.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PIECE = 1 << 20,
    PIECES = 1500,
    BODY = 3300000, /* an update of 0.95 M values */
    UPLOADS = 200,
    CONNECTIONS = 16,
    UPLOAD_BYTES = BODY * (UPLOADS / CONNECTIONS * CONNECTIONS),
    TIMEOUT_MS = 30000
};

typedef struct cost {
    double wall_s, send_cpu_s, recv_cpu_s;
} cost;

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static double now_s(void)
{
    sefl_clock c = clock_monotonic();
    return 1e-9 * (double)clock_ns(&c);
}

/* ---- a stream ---------------------------------------------------------------------------- */

/* A child process: forked before this process starts threads, gets the port later, and reports its
 * CPU seconds. */
typedef sefl_status child_fn(const ids *x, uint16_t port, bool secure);

typedef struct child {
    pid_t pid;
    int to, from;
} child;

static sefl_status child_begin(child *c, child_fn *fn, const ids *x, bool secure)
{
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0)
        return sefl_fail(SEFL_EIO, "pipe: %s", strerror(errno));
    c->pid = fork();
    if (c->pid == 0) {
        uint16_t port;
        close(to[1]);
        if (read(to[0], &port, sizeof port) != (ssize_t)sizeof port)
            _exit(1);
        double cpu = cpu_s();
        sefl_status st = fn(x, port, secure);
        cpu = cpu_s() - cpu;
        if (st != SEFL_OK)
            fprintf(stderr, "sefl: %s\n", sefl_last_error());
        _exit(st == SEFL_OK && write(from[1], &cpu, sizeof cpu) == (ssize_t)sizeof cpu ? 0 : 1);
    }
    close(to[0]);
    close(from[1]);
    c->to = to[1];
    c->from = from[0];
    return c->pid > 0 ? SEFL_OK : sefl_fail(SEFL_EIO, "fork: %s", strerror(errno));
}

static sefl_status child_tell(child *c, uint16_t port)
{
    if (write(c->to, &port, sizeof port) != (ssize_t)sizeof port)
        return sefl_fail(SEFL_EIO, "pipe: %s", strerror(errno));
    return SEFL_OK;
}

/* Waits for the child and closes its pipes, even if it failed. */
static sefl_status child_end(child *c, double *cpu)
{
    int status = 1;
    if (c->pid <= 0)
        return SEFL_OK;
    close(c->to);
    ssize_t n = read(c->from, cpu, sizeof *cpu);
    close(c->from);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    c->pid = 0;
    if (status != 0 || n != (ssize_t)sizeof *cpu)
        return sefl_fail(SEFL_EIO, "the other process failed");
    return SEFL_OK;
}

static sefl_status send_all(const ids *x, uint16_t port, bool secure)
{
    sefl_status st = SEFL_OK;
    loopback *lb = NULL;
    tls *t = NULL;
    uint8_t *p = NULL, done;
    SEFL_TRY(sefl_new(&p, PIECE, 1));
    if (secure)
        SEFL_TRY(tls_dial(&t, "127.0.0.1", port, x->as, &(tls_peer){ .role = "csp" }, NULL));
    else
        SEFL_TRY(loopback_dial(&lb, port, TIMEOUT_MS));
    channel *ch = secure ? tls_channel(t) : loopback_channel(lb);
    for (int i = 0; i < PIECES; i++)
        SEFL_TRY(channel_send(ch, p, PIECE));
    SEFL_TRY(channel_recv(ch, &done, 1));
done:
    tls_close(t);
    loopback_close(lb);
    sefl_free(p);
    return st;
}

static sefl_status stream(const ids *x, bool secure, cost *c)
{
    sefl_status st = SEFL_OK;
    loopback *lb = NULL;
    tls *t = NULL;
    uint8_t *p = NULL;
    uint16_t port;
    int fd = -1;
    child other = { 0 };
    SEFL_TRY(sefl_new(&p, PIECE, 1));
    SEFL_TRY(tls_listen(&fd, "127.0.0.1", 0, &port));
    SEFL_TRY(child_begin(&other, send_all, x, secure));
    SEFL_TRY(child_tell(&other, port));
    if (secure)
        SEFL_TRY(tls_accept(&t, fd, x->csp, &(tls_peer){ .role = "aggregator" }, TIMEOUT_MS, NULL));
    else
        SEFL_TRY(loopback_accept(&lb, fd, TIMEOUT_MS));
    channel *ch = secure ? tls_channel(t) : loopback_channel(lb);
    double wall = now_s(), cpu = cpu_s();
    for (int i = 0; i < PIECES; i++)
        SEFL_TRY(channel_recv(ch, p, PIECE));
    c->wall_s = now_s() - wall;
    c->recv_cpu_s = cpu_s() - cpu;
    SEFL_TRY(channel_send(ch, p, 1));
    SEFL_TRY(channel_flush(ch));
    SEFL_TRY(child_end(&other, &c->send_cpu_s));
done:
    tls_close(t);
    loopback_close(lb);
    if (fd >= 0)
        close(fd);
    if (other.pid > 0)
        (void)!child_end(&other, &c->send_cpu_s);
    sefl_free(p);
    return st;
}

/* ---- uploads ----------------------------------------------------------------------------- */

typedef struct sender {
    const ids *x;
    uint16_t port;
    pthread_t thread;
    sefl_status st;
} sender;

static void *put_some(void *arg)
{
    sender *s = arg;
    sefl_status st = SEFL_OK;
    https_client *c = NULL;
    char path[300];
    ids_path(s->x, path, "body", "");
    SEFL_TRY(https_client_new(
        &c, &(https_client_config){
                .host = "127.0.0.1", .port = s->port, .id = s->x->client, .proxy = "" }));
    for (int i = 0; i < UPLOADS / CONNECTIONS; i++) {
        https_reply r;
        st = https_put_file(c, "/", path, 0, NULL, NULL, &r);
        unsigned status = r.status;
        https_reply_clear(&r);
        SEFL_TRY(st);
        SEFL_CHECK(status == 200, SEFL_EPROTO, "status %u", status);
    }
done:
    if (st != SEFL_OK)
        fprintf(stderr, "sefl: %s\n", sefl_last_error());
    https_client_free(c);
    s->st = st;
    return NULL;
}

static sefl_status put_all(const ids *x, uint16_t port, bool secure)
{
    sefl_status st = SEFL_OK;
    sender s[CONNECTIONS];
    unsigned n = 0;
    (void)secure;
    for (; n < CONNECTIONS; n++) {
        s[n] = (sender){ .x = x, .port = port };
        if (pthread_create(&s[n].thread, NULL, put_some, &s[n]) != 0)
            break;
    }
    for (unsigned i = 0; i < n; i++) {
        pthread_join(s[i].thread, NULL);
        if (s[i].st != SEFL_OK)
            st = s[i].st;
    }
    return n == CONNECTIONS ? st : sefl_fail(SEFL_EIO, "no thread");
}

static sefl_status on_body(https_request *r, sefl_span bytes)
{
    _Atomic uint64_t *all = r->server_ctx;
    atomic_fetch_add(all, bytes.n);
    return SEFL_OK;
}

static void on_end(https_request *r, sefl_status st)
{
    https_answer_text(r, st == SEFL_OK ? 200 : 500, "ok");
}

static void on_begin(https_request *r)
{
    r->body = on_body;
    r->end = on_end;
}

static sefl_status uploads(const ids *x, cost *c)
{
    sefl_status st = SEFL_OK;
    https_server *s = NULL;
    _Atomic uint64_t all = 0;
    uint8_t *p = NULL;
    char path[300];
    child other = { 0 };
    ids_path(x, path, "body", "");
    SEFL_TRY(sefl_new(&p, BODY, 1));
    SEFL_TRY(file_write_atomic(path, span_of(p, BODY), 0600));
    SEFL_TRY(child_begin(&other, put_all, x, true));
    SEFL_TRY(https_server_start(&s, &(https_server_config){ .id = x->as,
                                                            .peer_role = "client",
                                                            .body_max = BODY,
                                                            .begin = on_begin,
                                                            .ctx = &all }));
    double wall = now_s(), cpu = cpu_s();
    SEFL_TRY(child_tell(&other, https_server_port(s)));
    SEFL_TRY(child_end(&other, &c->send_cpu_s));
    c->wall_s = now_s() - wall;
    c->recv_cpu_s = cpu_s() - cpu;
    SEFL_CHECK(all == UPLOAD_BYTES, SEFL_EPROTO, "%llu bytes arrived", (unsigned long long)all);
done:
    if (other.pid > 0)
        (void)!child_end(&other, &c->send_cpu_s);
    https_server_stop(s);
    sefl_free(p);
    return st;
}

/* ---- the table --------------------------------------------------------------------------- */

static void row(bench *b, const char *name, double bytes, double s, double floor_bytes,
                double floor_s)
{
    bench_row(b, &(bench_result){ .name = name,
                                  .value = bytes / s * 1e-6,
                                  .unit = "MB/s",
                                  .floor = floor_s > 0 ? floor_bytes / floor_s * 1e-6 : 0,
                                  .rate = true });
}

static sefl_status run(void *options)
{
    sefl_status st = SEFL_OK;
    bench *b = options;
    ids x = { { 0 }, NULL, NULL, NULL };
    cost plain, secure, up;
    const double stream_bytes = (double)PIECE * PIECES, up_bytes = (double)UPLOAD_BYTES;
    SEFL_TRY(ids_make(&x));
    bench_note(b, "two processes over loopback; cpu: bytes for a second of that process' time");
    SEFL_TRY(stream(&x, false, &plain));
    SEFL_TRY(stream(&x, true, &secure));
    SEFL_TRY(uploads(&x, &up));
    row(b, "TCP stream", stream_bytes, plain.wall_s, 0, 0);
    row(b, "TLS stream", stream_bytes, secure.wall_s, stream_bytes, plain.wall_s);
    row(b, "TLS send, cpu", stream_bytes, secure.send_cpu_s, stream_bytes, plain.send_cpu_s);
    row(b, "TLS receive, cpu", stream_bytes, secure.recv_cpu_s, stream_bytes, plain.recv_cpu_s);
    row(b, "HTTPS upload, 16 clients", up_bytes, up.wall_s, stream_bytes, secure.wall_s);
    row(b, "HTTPS receive, server cpu", up_bytes, up.recv_cpu_s, stream_bytes, secure.recv_cpu_s);
done:
    if (x.folder[0])
        ids_remove(&x);
    return st;
}

const cli_command bench_net = {
    .name = "bench net",
    .summary = "a TLS stream and an HTTPS upload over loopback",
    .example = "sefl bench net",
    BENCH_COMMAND(bench, bench_options, run),
};
