#include "commands/full/serve.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/sha256.h"
#include "cli/interrupt.h"
#include "cli/sample.h"
#include "page/page.h"
#include "page/tail.h"
#include "report/report.h"
#include "report/server_view.h"
#include "roles/aggregator/turnout.h"
#include "simulate/population.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 100 };

struct serve {
    page *page;
    pthread_mutex_t lock; /* the members below */
    char folder[PATH_MAX];
    tail *tail;
    uint64_t round, done, total;
    bool over, full;
    char scratch[PATH_MAX]; /* the folder of the journal; "": none */
    journal *journal;
    turnout *turnout; /* NULL: who takes part is not known */
    task task;        /* of the turnout: the number of clients alone */
};

/* ---- what the page shows --------------------------------------------------------------------- */

static bool has_file(const serve *s, const char *name)
{
    char path[PATH_MAX];
    return file_path(path, "%s/%s", s->folder, name) == SEFL_OK && file_exists(path);
}

static sefl_status state(void *ctx, sefl_buf *out)
{
    serve *s = ctx;
    sefl_status st = SEFL_OK;
    server_view p = server_view_none();
    run_view v;
    pthread_mutex_lock(&s->lock);
    SEFL_TRY(tail_look(s->tail, &v));
    p.role = "simulation";
    p.phase = s->over ? "done" : "training";
    p.crypto = s->full ? "full" : "clear";
    p.grid = s->turnout != NULL;
    p.healthy = VIEW_YES;
    p.round = s->over ? v.last.round : s->round;
    if (!s->over && s->total > 0)
        p.arrived = (double)s->done, p.most = (double)s->total;
    server_view_log(&p, &v);
    if (s->over)
        p.rounds_left = p.seconds_left = 0;
    p.model = v.released > 0 && has_file(s, "model/last.safetensors");
    p.report = v.totals.rounds > 0;
    p.ledger = has_file(s, "ledger");
    st = server_view_write(out, &p);
done:
    pthread_mutex_unlock(&s->lock);
    return st;
}

static sefl_status list_rounds(void *ctx, sefl_buf *out, uint64_t after)
{
    serve *s = ctx;
    pthread_mutex_lock(&s->lock);
    sefl_status st = tail_rounds(s->tail, out, after);
    pthread_mutex_unlock(&s->lock);
    return st;
}

static sefl_status grid(void *ctx, sefl_buf *out, const page_grid_ask *ask)
{
    serve *s = ctx;
    pthread_mutex_lock(&s->lock);
    sefl_status st = s->turnout ? turnout_grid(s->turnout, out, ask)
                                : sefl_fail(SEFL_ENOTFOUND, "nothing shows who takes part");
    pthread_mutex_unlock(&s->lock);
    return st;
}

static sefl_status make_report(sefl_buf *out, const char *folder)
{
    sefl_status st = SEFL_OK;
    report r = { 0 };
    SEFL_TRY(report_open(&r, folder));
    SEFL_TRY(report_html(out, &r, 1));
done:
    report_close(&r);
    return st;
}

static sefl_status download(void *ctx, page_file *out, page_download what)
{
    static const char *const files[] = {
        [PAGE_MODEL] = "model/last.safetensors", [PAGE_LEDGER] = "ledger"
    };
    serve *s = ctx;
    char folder[PATH_MAX];
    run_view v;
    pthread_mutex_lock(&s->lock);
    sefl_status st = tail_look(s->tail, &v);
    snprintf(folder, sizeof folder, "%s", s->folder);
    pthread_mutex_unlock(&s->lock);
    SEFL_PASS(st);
    const char *slash = strrchr(folder, '/'), *name = slash ? slash + 1 : folder;
    if (what == PAGE_REPORT) {
        page_file_name(out, name, 0, ".html");
        return make_report(&out->bytes, folder);
    }
    page_file_name(out, name, what == PAGE_MODEL ? v.released : 0,
                   what == PAGE_MODEL ? ".safetensors" : ".ledger");
    return file_path(out->path, "%s/%s", folder, files[what]);
}

static sefl_status newest_model(void *ctx, page_model *out)
{
    serve *s = ctx;
    run_view v;
    pthread_mutex_lock(&s->lock);
    sefl_status st = tail_look(s->tail, &v);
    if (st == SEFL_OK && (v.released == 0 || !has_file(s, "vocab.txt")))
        st = sefl_fail(SEFL_ENOTFOUND, "there is no model to sample from");
    out->round = v.released;
    const size_t n = strlen(s->folder), most = sizeof out->task - 1;
    snprintf(out->task, sizeof out->task, "%s", s->folder + (n > most ? n - most : 0));
    if (st == SEFL_OK)
        st = file_path(out->path, "%s/model/last.safetensors", s->folder);
    if (st == SEFL_OK)
        st = file_path(out->words, "%s/vocab.txt", s->folder);
    pthread_mutex_unlock(&s->lock);
    return st;
}

/* ---- begin and end --------------------------------------------------------------------------- */

static void forget_turnout(serve *s)
{
    turnout_free(s->turnout);
    journal_close(s->journal);
    s->turnout = NULL, s->journal = NULL;
}

/* Each run has a task of its own in the journal. The page works without a grid. */
static void open_turnout(serve *s, const serve_run *r)
{
    uint8_t id[SHA256_BYTES];
    forget_turnout(s);
    if (r->clients == 0)
        return;
    s->task = (task){ .enrolled = r->clients };
    sha256_of(id, span_of_str(r->folder));
    if ((!s->scratch[0] &&
         file_temp_folder(s->scratch, sizeof s->scratch, "sefl-page") != SEFL_OK) ||
        journal_open(&s->journal, s->scratch, "aggregator", id) != SEFL_OK ||
        turnout_new(&s->turnout, s->journal, &s->task, NULL) != SEFL_OK) {
        fprintf(stderr, "sefl simulate: no grid of clients: %s\n", sefl_last_error());
        forget_turnout(s);
    }
}

static sefl_status use_folder(serve *s, const serve_run *r)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX];
    tail *t = NULL;
    SEFL_TRY(file_path(path, "%s/metrics.jsonl", r->folder));
    SEFL_TRY(tail_new(&t, path));
    pthread_mutex_lock(&s->lock);
    tail *old = s->tail;
    s->tail = t, t = old;
    snprintf(s->folder, sizeof s->folder, "%s", r->folder);
    s->round = s->done = s->total = 0;
    s->full = r->full;
    open_turnout(s, r);
    pthread_mutex_unlock(&s->lock);
done:
    tail_free(t);
    return st;
}

static sefl_status start(serve **out, const serve_run *r, const char *runs, const host_port *at)
{
    static const page_source source = { .state = state,
                                        .rounds = list_rounds,
                                        .grid = grid,
                                        .download = download,
                                        .model = newest_model };
    char path[PATH_MAX];
    sefl_buf url = { 0 };
    SEFL_MAKE(serve, s, out);
    pthread_mutex_init(&s->lock, NULL);
    SEFL_TRY(use_folder(s, r));
    SEFL_TRY(page_start(
        &s->page,
        &(page_config){
            .local = *at, .folder = runs, .source = &source, .ctx = s, .sample = sample_file }));
    SEFL_TRY(file_path(path, "%s/page.url", runs));
    SEFL_TRY(file_read(&url, path, PATH_MAX));
    fprintf(stderr, "page: %.*s", (int)url.n, (const char *)url.p);
    *out = s, s = NULL;
done:
    buf_clear(&url);
    serve_stop(s);
    return st;
}

void serve_folder(serve **s, const serve_run *r, const char *runs, const host_port *at)
{
    sefl_status st = *s ? use_folder(*s, r) : start(s, r, runs, at);
    if (st != SEFL_OK)
        fprintf(stderr, "sefl simulate: no page: %s\n", sefl_last_error());
}

void serve_turnout(serve *s, uint64_t round, const char *fates, uint32_t clients)
{
    char name[POPULATION_WHO_MAX];
    uint8_t key[SHA256_BYTES];
    if (!s->turnout) /* only its owner, the caller, sets it */
        return;
    turnout_open(s->turnout, round);
    for (uint32_t i = 0; i < clients && i < TURNOUT_CLIENTS; i++) {
        if (fates[i] == '.')
            continue;
        population_who(name, i);
        sha256_of(key, span_of_str(name));
        turnout_fetched(s->turnout, round, key, name);
        if (fates[i] != 'd')
            turnout_upload(s->turnout, round, key, name,
                           fates[i] == 'a'   ? INGEST_TAKEN
                           : fates[i] == 'l' ? INGEST_LATE
                                             : INGEST_LIMIT,
                           fates[i] == 'r' ? ingest_end_name(INGEST_LIMIT) : NULL);
    }
    turnout_close(s->turnout, round, TURNOUT_RELEASED);
}

void serve_progress(serve *s, uint64_t round, uint64_t done, uint64_t total)
{
    pthread_mutex_lock(&s->lock);
    s->round = round, s->done = done, s->total = total;
    pthread_mutex_unlock(&s->lock);
}

void serve_on(serve *s)
{
    pthread_mutex_lock(&s->lock);
    s->over = true;
    pthread_mutex_unlock(&s->lock);
    fprintf(stderr, "the page stays open until you press Ctrl-C\n");
    while (!interrupt_seen())
        clock_pause_ms(LOOK_MS);
}

void serve_stop(serve *s)
{
    if (!s)
        return;
    page_stop(s->page);
    tail_free(s->tail);
    forget_turnout(s);
    if (s->scratch[0])
        dir_remove(s->scratch);
    pthread_mutex_destroy(&s->lock);
    sefl_free(s);
}
