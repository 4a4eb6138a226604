/* What AS's page (page/page.h) shows. Its functions run on the page's threads. They hold task_lock
 * only to copy: no upload and no round waits for it, only the begin and the end of a task. */
#include "roles/aggregator/as_inside.h"

#include "base/file.h"
#include "base/hex.h"
#include "report/report.h"
#include "report/server_view.h"
#include "roles/health.h"
#include "sum/terms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { REPORT_BYTES = 16 << 20 }; /* about 50,000 rounds */

/* ---- what the aggregator tells --------------------------------------------------------------- */

void agg_page_link(aggregator *a, bool up, const char *why)
{
    pthread_mutex_lock(&a->lock);
    if (up || !*why || a->link_since == 0)
        a->link_since = clock_ms(&a->wall) / 1000;
    if (up || *why)
        snprintf(a->link_error, sizeof a->link_error, "%s", why);
    pthread_mutex_unlock(&a->lock);
}

void agg_page_counted_out(void *ctx, uint64_t round, const uint8_t client[32], const char *why)
{
    turnout_counted_out(((aggregator *)ctx)->turnout, round, client, why);
}

/* ---- state ----------------------------------------------------------------------------------- */

static void add_round(aggregator *a, server_view *s)
{
    journal_round row;
    if (!agg_view_round(a, s))
        return;
    if (journal_round_get(a->journal, s->round, &row) == SEFL_OK && row.opened_ms > 0)
        s->opened_at = floor((double)row.opened_ms / 1000);
    if (a->turnout) {
        const turnout_counts c = turnout_now(a->turnout, s->round);
        s->asked = c.asked, s->refused = c.refused, s->late = c.late;
    }
}

static void add_servers(aggregator *a, server_view *s)
{
    s->csp = view_yes(s->peer_is_there);
    pthread_mutex_lock(&a->lock);
    if (a->link_since > 0)
        s->csp_since = (double)a->link_since;
    if (s->csp == VIEW_NO)
        snprintf(s->csp_error, sizeof s->csp_error, "%s",
                 *a->link_error ? a->link_error : a->trouble); /* CSP may answer, and refuse */
    if (a->task.claim && a->budget_at > 0)
        s->rounds_to_target = (double)a->budget_left;
    pthread_mutex_unlock(&a->lock);
    if (!a->shares)
        return;
    const uint64_t have = shares_pool_have(a->shares), one = a->task.values;
    s->rounds_ready = one > 0 ? floor((double)have / (double)one) : 0;
    s->lanes = a->o.settings->lanes;
    s->making = view_yes(s->csp == VIEW_YES && have < 2 * one);
}

/* With rounds. */
static void agg_page_look(aggregator *a, server_view *s)
{
    run_view v;
    const bool away = !isnan(s->database_away);
    const agg_phase phase = away ? AGG_STARTING : rounds_phase(a->rounds, NULL, NULL);
    (void)!tail_look(a->tail, &v); /* v has the lines before one that cannot be read */
    if (!s->facts.known)
        health_task(s, &a->task);
    if (!away) { /* otherwise the rounds and the journal would wait */
        rounds_trouble(a->rounds, a->trouble);
        add_round(a, s);
        add_servers(a, s);
        s->trouble = phase == AGG_REVEALING && *a->trouble ? a->trouble : NULL;
        s->model = rounds_released(a->rounds) > 0;
        s->grid = a->turnout != NULL;
    }
    server_view_log(s, &v);
    s->report = v.totals.rounds > 0;
    s->ledger = true;
    if (away || s->paused == VIEW_YES || s->csp == VIEW_NO)
        s->seconds_left = NAN; /* nobody knows how long that lasts */
    if (phase == AGG_DONE) {
        s->rounds_left = s->seconds_left = 0;
        s->csp = VIEW_UNKNOWN; /* AS needs no link any more */
    }
}

static sefl_status state(void *ctx, sefl_buf *out)
{
    aggregator *a = ctx;
    pthread_mutex_lock(&a->task_lock);
    server_view s = !a->rounds && a->kept.known ? a->kept.state : agg_view(a);
    if (a->rounds)
        agg_page_look(a, &s);
    sefl_status st = server_view_write(out, &s);
    pthread_mutex_unlock(&a->task_lock);
    return st;
}

void agg_page_keep(aggregator *a)
{
    if (!a->rounds || rounds_away(a->rounds) > 0 ||
        rounds_phase(a->rounds, NULL, NULL) != AGG_DONE || !a->tail)
        return;
    a->kept.known = false;
    a->kept.state = agg_view(a);
    agg_page_look(a, &a->kept.state);
    a->kept.state.grid = false; /* its journal is closed */
    a->kept.round = rounds_released(a->rounds);
    *a->kept.vocab = *a->kept.model = 0;
    if ((a->kept.round > 0 && release_path(a->releases, a->kept.model, a->kept.round) != SEFL_OK) ||
        (a->files.vocab && file_path(a->kept.vocab, "%s", a->files.vocab) != SEFL_OK) ||
        file_path(a->kept.metrics, "%s", a->metrics) != SEFL_OK)
        return;
    a->kept.known = true;
}

static sefl_status no_task(void)
{
    return sefl_fail(SEFL_ENOTFOUND, "the server has no task now");
}

static sefl_status list_rounds(void *ctx, sefl_buf *out, uint64_t after)
{
    aggregator *a = ctx;
    pthread_mutex_lock(&a->task_lock);
    sefl_status st =
        a->tail && (a->rounds || a->kept.known) ? tail_rounds(a->tail, out, after) : no_task();
    pthread_mutex_unlock(&a->task_lock);
    return st;
}

static sefl_status grid(void *ctx, sefl_buf *out, const page_grid_ask *ask)
{
    aggregator *a = ctx;
    pthread_mutex_lock(&a->task_lock);
    sefl_status st = no_task();
    if (a->rounds && rounds_away(a->rounds) > 0)
        st = sefl_fail(SEFL_ENOTFOUND, "the database does not answer");
    else if (a->turnout)
        st = turnout_grid(a->turnout, out, ask);
    else if (a->rounds)
        st = sefl_fail(SEFL_ENOTFOUND, "who takes part is not recorded: the record cannot be read "
                                       "(see the server's log)");
    pthread_mutex_unlock(&a->task_lock);
    return st;
}

/* ---- downloads ------------------------------------------------------------------------------- */

static sefl_status make_report(sefl_buf *out, const char *metrics)
{
    sefl_status st = SEFL_OK;
    report r = { 0 };
    uint64_t bytes;
    int fd;
    SEFL_PASS(file_open(&fd, &bytes, metrics, false));
    close(fd);
    SEFL_NEED(bytes <= REPORT_BYTES, SEFL_ENOTFOUND,
              "this run is too long for a report on the page: use sefl report");
    SEFL_TRY(report_open(&r, metrics));
    SEFL_TRY(report_html(out, &r, 1));
done:
    report_close(&r);
    return st;
}

/* The newest model, also of a task that is over. */
static sefl_status model_path(aggregator *a, char out[PATH_MAX], uint64_t *round)
{
    *round = a->rounds ? rounds_released(a->rounds) : a->kept.known ? a->kept.round : 0;
    SEFL_NEED(*round > 0, SEFL_ENOTFOUND, "no model is released yet");
    return a->rounds ? release_path(a->releases, out, *round) : file_path(out, "%s", a->kept.model);
}

static sefl_status download(void *ctx, page_file *out, page_download what)
{
    aggregator *a = ctx;
    sefl_status st = SEFL_OK;
    char metrics[PATH_MAX] = "";
    uint64_t round = 0;
    pthread_mutex_lock(&a->task_lock);
    const char *name = a->rounds ? a->task.name : a->kept.state.facts.name;
    if (!a->rounds && !a->kept.known) {
        st = no_task();
    } else if (what == PAGE_MODEL) {
        st = model_path(a, out->path, &round);
        page_file_name(out, name, round, ".safetensors");
    } else if (what == PAGE_LEDGER) {
        st = file_path(out->path, "%s", a->o.settings->ledger);
        page_file_name(out, name, 0, ".ledger");
    } else {
        st = file_path(metrics, "%s", a->rounds ? a->metrics : a->kept.metrics);
        page_file_name(out, name, 0, ".html");
    }
    pthread_mutex_unlock(&a->task_lock);
    return st == SEFL_OK && *metrics ? make_report(&out->bytes, metrics) : st;
}

static sefl_status newest_model(void *ctx, page_model *out)
{
    aggregator *a = ctx;
    sefl_status st;
    pthread_mutex_lock(&a->task_lock);
    const char *words = a->rounds ? a->files.vocab : a->kept.vocab;
    if (a->rounds)
        hex_write(out->task, a->task.id, sizeof a->task.id);
    else
        snprintf(out->task, sizeof out->task, "%s", a->kept.state.facts.task);
    st = model_path(a, out->path, &out->round);
    if (st == SEFL_OK)
        st = words && *words ? file_path(out->words, "%s", words)
                             : sefl_fail(SEFL_ENOTFOUND, "there is no model to sample from");
    pthread_mutex_unlock(&a->task_lock);
    return st;
}

/* ---- the projected end ----------------------------------------------------------------------- */

/* Counts the rounds that the budget still allows, once after each round: the accountant may need
 * some time. */
static void watched(void *ctx)
{
    aggregator *a = ctx;
    ledger *l = NULL;
    ledger_terms terms = { 0 };
    uint64_t most = 0, at = 0, left;
    run_view v;
    pthread_mutex_lock(&a->task_lock);
    if (a->rounds && a->task.claim && tail_look(a->tail, &v) == SEFL_OK) {
        terms = terms_of_task(&a->task);
        most = a->task.rounds;
        at = v.last.round + 1;
    }
    pthread_mutex_unlock(&a->task_lock);
    pthread_mutex_lock(&a->lock);
    const bool done = a->budget_at == at;
    pthread_mutex_unlock(&a->lock);
    if (at == 0 || done || ledger_open_read(&l, a->o.settings->ledger) != SEFL_OK)
        return;
    if (ledger_rounds_left(l, &terms, most, &left) == SEFL_OK) {
        pthread_mutex_lock(&a->lock);
        a->budget_at = at;
        a->budget_left = left;
        pthread_mutex_unlock(&a->lock);
    }
    ledger_close(l);
}

/* ---- begin and end --------------------------------------------------------------------------- */

static const page_source source = { .state = state,
                                    .rounds = list_rounds,
                                    .grid = grid,
                                    .download = download,
                                    .model = newest_model,
                                    .watched = watched };

sefl_status agg_page_start(aggregator *a)
{
    const aggregator_settings *c = a->o.settings;
    return page_start(&a->page, &(page_config){ .local = c->page,
                                                .tls = c->page_tls,
                                                .viewers = c->page_viewers,
                                                .id = a->id,
                                                .folder = c->state,
                                                .source = &source,
                                                .ctx = a,
                                                .sample = a->o.sample,
                                                .log = a->o.log });
}

/* With several processes each one records whom it has seen itself, in its own folder: the shared
 * journal has one leader, and processes meet the clients in different orders. */
static sefl_status open_sights(aggregator *a)
{
    char path[PATH_MAX];
    if (!a->uploads)
        return SEFL_OK;
    SEFL_PASS(file_path(path, "%s/seen", a->o.settings->state));
    return journal_open(&a->sights, path, "aggregator", a->task.id);
}

sefl_status agg_page_task(aggregator *a)
{
    uint64_t round;
    const agg_phase phase = rounds_phase(a->rounds, &round, NULL);
    a->budget_at = 0;
    a->counts_hidden |= !a->task.publish_count;
    a->kept.known = false;
    tail_free(a->tail);
    a->tail = NULL;
    SEFL_PASS(tail_new(&a->tail, a->metrics));
    if (open_sights(a) != SEFL_OK || turnout_new(&a->turnout, a->sights ? a->sights : a->journal,
                                                 &a->task, a->o.log) != SEFL_OK) {
        log_error(a->o.log, "no grid of clients on the page", lf_str("why", sefl_last_error()));
        return SEFL_OK; /* the federation works without it */
    }
    if (phase >= AGG_COLLECTING && phase < AGG_DONE)
        turnout_open(a->turnout, round);
    return SEFL_OK;
}

void agg_page_task_end(aggregator *a)
{
    turnout_free(a->turnout);
    journal_close(a->sights);
    a->turnout = NULL, a->sights = NULL;
    a->http.turnout = NULL;
}
