/* Page: how long the data of the web page takes for a large federation, over HTTP on loopback.
 *
 * The benchmark makes the store of a task with `clients` clients and `rounds` rounds, as an
 * aggregator keeps it: a journal with who took part (roles/aggregator/turnout.h) and a
 * metrics.jsonl. Then it starts the page over this store and requests each path as a browser does,
 * with a cookie and a new connection each time. The state has what an aggregator adds, except the
 * link and the lanes, which cost nothing. The limit to compare with is 200 ms. */
#include "bench/bench.h"

#include "base/alloc.h"
#include "base/dir.h"
#include "base/file.h"
#include "net/socket.h"
#include "page/access.h"
#include "page/page.h"
#include "page/state.h"
#include "page/tail.h"
#include "roles/aggregator/turnout.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MAX = 8 << 20, WAIT_MS = 60000 };

typedef struct options {
    bench b;
    size_t clients, rounds;
} options;

typedef struct world {
    char folder[256], metrics[PATH_MAX];
    journal *j;
    task task;
    turnout *turnout;
    tail *tail;
    page *page;
    access_rule access;
    char path[128]; /* to request */
    sefl_buf answer;
} world;

/* ---- the store ------------------------------------------------------------------------------- */

static void client_key(uint8_t out[32], size_t i)
{
    sha256_of(out, span_of(&i, sizeof i));
}

/* Of twenty clients one is late, one drops out, one is refused and one does not take part. */
static void take_part(world *w, uint64_t round, size_t client)
{
    uint8_t key[32];
    char name[32];
    client_key(key, client);
    snprintf(name, sizeof name, "client-%05zu", client);
    const unsigned luck = (unsigned)((client * 7 + round * 13) % 20);
    if (luck == 0)
        return;
    turnout_fetched(w->turnout, round, key, name);
    if (luck > 1)
        turnout_upload(w->turnout, round, key, name,
                       luck == 2   ? INGEST_LATE
                       : luck == 3 ? INGEST_HEAD
                                   : INGEST_TAKEN,
                       "the head is another client's");
}

static sefl_status make_round(world *w, const options *o, uint64_t round, sefl_buf *metrics)
{
    run_facts f = run_facts_none();
    run_line l = run_line_of(round);
    turnout_open(w->turnout, round);
    for (size_t i = 0; i < o->clients; i++)
        take_part(w, round, i);
    turnout_close(w->turnout, round, TURNOUT_RELEASED);
    SEFL_PASS(journal_round_put(w->j, &(journal_round){ .round = round, .opened_ms = 1 }));
    f.rounds = (double)o->rounds, f.enrolled = (double)o->clients;
    l.clients = (double)o->clients, l.seconds = 60, l.time = 1.7e9 + 60 * (double)round;
    l.perplexity = 500 / (double)round + 40, l.open_seconds = 3.5, l.release_seconds = 0.25;
    l.epsilon_server = 0.1 * (double)round, l.epsilon_others = 0.02 * (double)round;
    l.epsilon_target = 200, l.up_bytes = 1e9 + (double)round, l.open_bytes = 123456;
    SEFL_PASS(run_line_write(metrics, &l, round == 1 ? &f : NULL));
    return wr_u8(metrics, '\n');
}

static sefl_status make_store(world *w, const options *o)
{
    sefl_status st = SEFL_OK;
    static const uint8_t id[32] = "sefl bench page";
    sefl_buf metrics = { 0 };
    SEFL_TRY(file_temp_folder(w->folder, sizeof w->folder, "sefl-bench-page"));
    SEFL_TRY(file_path(w->metrics, "%s/metrics.jsonl", w->folder));
    SEFL_TRY(journal_open(&w->j, w->folder, "aggregator", id));
    w->task = (task){ .enrolled = (uint32_t)o->clients };
    SEFL_TRY(turnout_new(&w->turnout, w->j, &w->task, NULL));
    for (uint64_t r = 1; r <= o->rounds; r++)
        SEFL_TRY(make_round(w, o, r, &metrics));
    SEFL_TRY(file_write_atomic(w->metrics, buf_span(&metrics), 0644));
done:
    buf_clear(&metrics);
    return st;
}

/* ---- the page -------------------------------------------------------------------------------- */

static sefl_status state(void *ctx, sefl_buf *out)
{
    world *w = ctx;
    page_state s = page_state_none();
    tail_view v;
    SEFL_PASS(tail_look(w->tail, &v));
    const turnout_counts c = turnout_now(w->turnout, v.last.round);
    s.role = "aggregator", s.phase = "collecting", s.round = v.last.round;
    s.arrived = c.arrived, s.asked = c.asked, s.refused = c.refused, s.late = c.late;
    s.grid = true;
    page_state_tail(&s, &v);
    return page_state_write(out, &s);
}

static sefl_status list_rounds(void *ctx, sefl_buf *out, uint64_t after)
{
    return tail_rounds(((world *)ctx)->tail, out, after);
}

static sefl_status grid(void *ctx, sefl_buf *out, const page_grid_ask *ask)
{
    return turnout_grid(((world *)ctx)->turnout, out, ask);
}

/* Opens the store again, as a restarted aggregator does, and starts the page. */
static sefl_status start(world *w, const options *o)
{
    static const page_source source = { .state = state, .rounds = list_rounds, .grid = grid };
    const sefl_rng rng = rng_system();
    turnout_free(w->turnout);
    w->turnout = NULL;
    SEFL_PASS(turnout_new(&w->turnout, w->j, &w->task, NULL));
    turnout_open(w->turnout, o->rounds);
    SEFL_PASS(tail_new(&w->tail, w->metrics));
    SEFL_PASS(page_start(&w->page, &(page_config){ .local = { .host = "127.0.0.1" },
                                                   .folder = w->folder,
                                                   .source = &source,
                                                   .ctx = w }));
    SEFL_PASS(access_open(&w->access, w->folder, &rng));
    return access_listens(&w->access, "127.0.0.1", page_port(w->page));
}

static sefl_status ask(void *ctx)
{
    world *w = ctx;
    sefl_status st = SEFL_OK;
    const uint64_t until = socket_now_ms() + WAIT_MS;
    char head[512];
    int fd = -1;
    short seen;
    ssize_t n;
    buf_reset(&w->answer);
    SEFL_TRY(socket_dial(&fd, "127.0.0.1", page_port(w->page), until));
    snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nCookie: %s=%s\r\n\r\n",
             w->path, page_port(w->page), w->access.name, w->access.cookie);
    SEFL_CHECK(send(fd, head, strlen(head), MSG_NOSIGNAL) == (ssize_t)strlen(head), SEFL_EIO,
               "cannot send the request");
    do {
        SEFL_TRY(socket_wait(fd, POLLIN, until, &seen));
        SEFL_TRY(buf_reserve(&w->answer, 64 << 10));
        n = recv(fd, w->answer.p + w->answer.n, 64 << 10, 0);
        w->answer.n += n > 0 ? (size_t)n : 0;
    } while (n > 0 && w->answer.n < ANSWER_MAX);
    SEFL_CHECK(w->answer.n > 12 && memcmp(w->answer.p + 9, "200", 3) == 0, SEFL_EPROTO,
               "%s got no 200", w->path);
done:
    if (fd >= 0)
        close(fd);
    return st;
}

static sefl_status measure(options *o, world *w, const char *name, const char *path)
{
    bench_timing t;
    char size[64];
    snprintf(w->path, sizeof w->path, "%s", path);
    sefl_heap_mark();
    const size_t before = sefl_heap_live();
    SEFL_PASS(bench_time(&o->b, &t, ask, w));
    bench_row(&o->b,
              &(bench_result){ .name = name, .value = 1e3 * t.median_s, .unit = "ms", .floor = 0 });
    snprintf(size, sizeof size, "%s, bytes", name);
    bench_row(&o->b,
              &(bench_result){ .name = size, .value = (double)w->answer.n, .unit = "bytes" });
    snprintf(size, sizeof size, "%s, memory", name);
    bench_row(&o->b, &(bench_result){ .name = size,
                                      .value = 1e-6 * (double)(sefl_heap_peak() - before),
                                      .unit = "MB" });
    return SEFL_OK;
}

static sefl_status run(void *ctx)
{
    sefl_status st = SEFL_OK;
    options *o = ctx;
    world *w = NULL;
    const size_t before = sefl_heap_live();
    SEFL_PASS(sefl_new(&w, 1, sizeof *w));
    SEFL_TRY(make_store(w, o));
    SEFL_TRY(start(w, o));
    SEFL_TRY(measure(o, w, "state.json", "/state.json"));
    SEFL_TRY(measure(o, w, "rounds.json", "/rounds.json"));
    SEFL_TRY(measure(o, w, "grid.json", "/grid.json?rounds=100&clients=200"));
    SEFL_TRY(
        measure(o, w, "grid.json, worst first", "/grid.json?rounds=100&clients=200&sort=worst"));
    SEFL_TRY(measure(o, w, "grid.json, 30 by 50", "/grid.json?rounds=30&clients=50"));
    bench_row(&o->b, &(bench_result){ .name = "memory of page and store",
                                      .value = 1e-6 * (double)(sefl_heap_live() - before),
                                      .unit = "MB" });
done:
    page_stop(w->page);
    tail_free(w->tail);
    turnout_free(w->turnout);
    journal_close(w->j);
    if (*w->folder)
        dir_remove(w->folder);
    buf_clear(&w->answer);
    access_clear(&w->access);
    sefl_free(w);
    return st;
}

static const setting_def table[] = {
    { "clients", SETTING_U64, "10000", SETTING_TO(options, clients), .min = 1, .max = 100000,
      .help = "Number of clients in the store" },
    { "rounds", SETTING_U64, "1000", SETTING_TO(options, rounds), .min = 1, .max = 100000,
      .help = "Number of rounds in the store" },
    BENCH_OPTIONS,
    { 0 },
};

const cli_command bench_page = {
    .name = "bench page",
    .summary = "the web page's data for a large federation",
    .example = "sefl bench page --clients 200 --rounds 50 --seconds 0.1",
    BENCH_COMMAND(options, table, run),
};
