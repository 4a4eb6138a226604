#include "simulate/simulate.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "fed/hook.h"
#include "fed/step.h"
#include "model/file/model_file.h"
#include "protocol/task_model.h"
#include "simulate/helper.h"
#include "simulate/servers.h"
#include "simulate/simulate_warn.h"
#include "simulate/work.h"
#include "sum/release_check.h"
#include "sum/terms.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SYNC_SECONDS 5.0

typedef struct sim {
    const simulate_config *c;
    const ranks *ranks;
    experiment e;
    run_folder folder;
    run_state state;
    federation *federation;
    const task *t;
    pool *pool;
    work *work;
    population *population;
    servers *servers;
    sefl_clock wall;
    sefl_log log;
    int log_fd;
    enum { SYNC_UNDECIDED, SYNC_NOW, SYNC_SKIP } sync; /* of this round's files */
    uint64_t synced_ns;
    uint64_t opened_at, deadline, began_ns, link_before;
    double cpu_before;
    uint64_t clip; /* of the next round, in billionths; 0: fixed */
    float *theta;
    double *average;
    step_state step;
    sefl_span header;     /* header of the current round, signed by both servers */
    const double *floats; /* protection none: average of the current round */
    sefl_status failed;   /* failure in a callback that returns nothing */
    run_line r;
    uint64_t model_bytes;
    uint64_t last_model; /* round of the model that this round started from */
    simulate_result *out;
} sim;

static void hash_model(const sim *s, uint8_t out[SHA256_BYTES])
{
    sha256_of(out, span_of(s->theta, s->t->params * sizeof *s->theta));
}

/* ---- ledgers --------------------------------------------------------------------------------- */

/* Rebuilds a ledger from the rounds, so that a run that was interrupted between two charges resumes
 * with ledgers that agree. */
static sefl_status make_ledger(const sim *s, const char *path)
{
    sefl_status st = SEFL_OK;
    run_log log = { 0 };
    ledger *l = NULL;
    ledger_terms terms = terms_of_task(s->t);
    if (file_exists(path)) { /* checks that nobody else uses it; a damaged one is rebuilt */
        st = ledger_open(&l, path, s->t->population, NULL);
        ledger_close(l), l = NULL;
        if (st == SEFL_ESTATE || st == SEFL_ENOMEM)
            goto done;
        (void)unlink(path);
    }
    SEFL_TRY(ledger_create(path, s->t->population));
    SEFL_TRY(ledger_open(&l, path, s->t->population, NULL));
    if (s->state.metrics_bytes > 0)
        SEFL_TRY(run_log_read(&log, run_path(&s->folder, "metrics.jsonl")));
    for (size_t i = 0; i < log.n; i++)
        if (!log.at[i].skipped)
            SEFL_TRY(ledger_charge(l, &terms, log.at[i].round, NULL));
done:
    ledger_close(l);
    run_log_clear(&log);
    return st;
}

/* ---- a round --------------------------------------------------------------------------------- */

/* Decides once per round whether its files are synced: at most every SYNC_SECONDS, because a sync
 * takes longer than a short round. After a power failure, a run with short rounds may have to start
 * over: its state may be newer than its model. */
static void choose_sync(sim *s)
{
    if (s->sync == SYNC_UNDECIDED)
        s->sync = clock_since(s->synced_ns) < SYNC_SECONDS ? SYNC_SKIP : SYNC_NOW;
    file_sync_skip(s->sync == SYNC_SKIP);
}

/* Starts a round where the previous one ended. */
static void begin_round(sim *s)
{
    file_sync_skip(false);
    if (s->sync != SYNC_SKIP)
        s->synced_ns = clock_now_ns();
    s->sync = SYNC_UNDECIDED;
    s->began_ns = clock_now_ns();
    s->cpu_before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    s->link_before = servers_bytes(s->servers);
    s->r = run_line_of(0);
    s->r.clients = s->r.diverged = 0;
    s->r.train_seconds = s->r.encrypt_seconds = s->r.sum_seconds = 0;
    s->r.step_seconds = s->r.eval_seconds = 0;
    s->floats = NULL;
}

static sefl_status accept_uploads(void *ctx, const round_header *h, sefl_span both)
{
    sim *s = ctx;
    s->r.round = h->round;
    s->header = both;
    s->opened_at = servers_now_ms(s->servers);
    s->deadline = agg_deadline_ms(servers_agg(s->servers));
    return population_open(s->population, h->round, both, s->opened_at);
}

/* The set is known: its clients train now. */
static sefl_status upload(void *ctx, const round_header *h, work_got *got)
{
    sim *s = ctx;
    const population_member *set;
    SEFL_PASS(population_close(s->population, servers_now_ms(s->servers)));
    uint32_t n = population_set(s->population, &set);
    work_set_clip(s->work, s->clip);
    SEFL_PASS(work_round(s->work, got, h, s->theta, set, n, s->c->progress));
    s->floats = got->average;
    s->r.train_seconds = got->train;
    s->r.encrypt_seconds = got->encrypt;
    s->r.sum_seconds = got->add;
    s->cpu_before -= got->elsewhere;
    s->r.diverged = got->diverged;
    s->r.clients = got->clients;
    return SEFL_OK;
}

static sefl_status next_event(void *ctx, uint64_t *to)
{
    uint64_t next = population_next_ms(((const sim *)ctx)->population);
    *to = next < *to ? next : *to;
    return SEFL_OK;
}

static sefl_status pass_time(void *ctx, uint64_t now_ms)
{
    sim *s = ctx;
    const agg *a = servers_agg(s->servers);
    SEFL_PASS(population_run(s->population, now_ms));
    /* announces an extended round again */
    if (agg_get_phase(a) == AGG_COLLECTING && agg_deadline_ms(a) != s->deadline) {
        s->deadline = agg_deadline_ms(a);
        SEFL_PASS(population_open(s->population, agg_round(a), s->header, now_ms));
    }
    return SEFL_OK;
}

/* ---- a round ends ---------------------------------------------------------------------------- */

static void report(void *ctx, const rounds_report *p)
{
    sim *s = ctx;
    s->r.round = p->round;
    s->r.skipped = p->skipped;
    s->r.blocked = p->blocked;
    s->r.twopc_seconds = p->open_seconds;
    if (p->has_epsilon) {
        s->r.epsilon_server = p->epsilon_server;
        s->r.epsilon_others = p->epsilon_others;
        s->r.epsilon_target = p->epsilon_target;
    }
    if (!p->skipped) {
        s->state.revealed = p->round;
        return;
    }
    s->r.clients = 0;
    s->state.skipped = p->round;
    s->failed = population_close(s->population, servers_now_ms(s->servers));
}

/* Correlated noise: the servers' numbers of the latest b rounds, for a resumed run. A file of a
 * round that was skipped or blocked is empty. */
static sefl_status keep_noise(const sim *s, uint64_t round)
{
    if (s->t->filter.b == 0)
        return SEFL_OK;
    return servers_keep(s->servers, round, run_path(&s->folder, "noise-%" PRIu64, round));
}

static sefl_status read_noise(const sim *s)
{
    const uint64_t b = s->t->filter.b, next = s->state.agg.round;
    for (uint64_t r = next > b ? next - b : 1; r < next; r++)
        SEFL_PASS(servers_kept(s->servers, r, run_path(&s->folder, "noise-%" PRIu64, r)));
    return SEFL_OK;
}

/* Deletes files that no resumed run needs. */
static void forget(const sim *s)
{
    uint64_t keep = s->e.models_keep, round = s->state.model_round;
    /* after the last round the state still names that round: read_noise wants one file more */
    const uint64_t old = (uint64_t)s->t->filter.b + 1;
    if (s->t->filter.b > 0 && s->r.round > old)
        (void)unlink(run_path(&s->folder, "noise-%" PRIu64, s->r.round - old));
    if (s->r.skipped || s->r.blocked)
        return;
    if (s->last_model > 0)
        (void)unlink(run_path(&s->folder, "optimiser-%" PRIu64, s->last_model));
    if (keep > 0 && round > keep)
        (void)unlink(run_model_path(&s->folder, round - keep));
}

/* Writes the round's line and then the state: from here a resumed run starts the next round. */
static sefl_status keep(void *ctx, uint64_t round)
{
    sim *s = ctx;
    const task *t = s->t;
    uint64_t now = servers_now_ms(s->servers);
    population_counts n = population_count(s->population);
    uint64_t body = s->e.protection->two_servers ? task_body_bytes(t) : 4 * t->values;
    choose_sync(s);
    SEFL_PASS(s->failed);
    SEFL_PASS(keep_noise(s, round));
    s->r.asked = n.asked, s->r.late = n.late, s->r.dropped = n.dropped;
    s->r.up_bytes = s->r.clients * (double)body;
    s->r.down_bytes = (double)(n.asked * s->model_bytes);
    if (s->e.full)
        s->r.link_bytes = (double)(servers_bytes(s->servers) - s->link_before);
    s->r.virtual_seconds = 1e-3 * (double)(now - s->opened_at);
    s->r.seconds = clock_since(s->began_ns);
    s->r.cpu_seconds = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - s->cpu_before;
    SEFL_PASS(simulate_log(&s->state.metrics_bytes, run_path(&s->folder, "metrics.jsonl"), &s->r, t,
                           &s->e));
    s->state.agg = agg_remember(servers_agg(s->servers));
    s->state.now_ms = now;
    s->state.clients = s->federation->clients;
    memcpy(s->state.taken, population_taken(s->population),
           s->state.clients * sizeof *s->state.taken);
    SEFL_PASS(run_state_write(&s->state, run_path(&s->folder, "state")));
    forget(s);
    run_totals_add(&s->out->t, &s->r);
    if (s->c->turnout)
        s->c->turnout(s->c->ctx, s->r.round, population_fates(s->population),
                      s->federation->clients);
    if (s->c->round)
        s->c->round(s->c->ctx, &s->r);
    begin_round(s);
    return SEFL_OK;
}

static sefl_status measure_model(sim *s, uint64_t round)
{
    struct stat sb;
    const char *path = run_model_path(&s->folder, round);
    SEFL_NEED(stat(path, &sb) == 0, SEFL_EIO, "%s: %s", path, strerror(errno));
    s->model_bytes = (uint64_t)sb.st_size;
    return SEFL_OK;
}

static sefl_status write_model(sim *s, uint64_t round, uint8_t hash[SHA256_BYTES])
{
    SEFL_PASS(task_model_write(run_model_path(&s->folder, round), s->t, s->theta, s->clip, hash));
    SEFL_PASS(run_folder_link(&s->folder, "last.safetensors", round));
    return measure_model(s, round);
}

/* SEFL_ERANGE: the release check blocks this model. */
static sefl_status evaluate(sim *s, uint64_t round)
{
    double loss;
    uint64_t began = clock_now_ns(), every = s->e.eval_every;
    bool last = round >= s->t->rounds;
    if (!last && (every == 0 || round % every != 0))
        return SEFL_OK;
    SEFL_PASS(work_evaluate(s->work, &loss, s->theta));
    s->r.eval_seconds += clock_since(began);
    if (isnan(loss)) /* no validation text */
        return SEFL_OK;
    SEFL_PASS(release_check_loss(loss));
    s->r.loss = loss;
    s->r.perplexity = exp(loss);
    if (s->t->kind == VOCAB_BPE)
        s->r.word_perplexity = corpus_word_perplexity(&s->federation->valid, loss);
    return SEFL_OK;
}

/* Loads model and optimiser of the latest release. */
static sefl_status load_model(sim *s)
{
    sefl_status st = SEFL_OK;
    float *theta = NULL;
    uint64_t round = s->state.model_round;
    SEFL_TRY(task_model_read_clip(&theta, &s->clip, s->t, run_model_path(&s->folder, round)));
    memcpy(s->theta, theta, s->t->params * sizeof *theta);
    step_clear(&s->step);
    if (round > 0)
        SEFL_TRY(
            step_read(&s->step, run_path(&s->folder, "optimiser-%" PRIu64, round), s->t, round));
    else
        SEFL_TRY(step_new(&s->step, s->t));
done:
    sefl_free(theta);
    return st;
}

/* Computes the next model in memory. SEFL_ERANGE: the release check blocks it. */
static sefl_status advance(sim *s, uint64_t round, const int64_t *w, uint32_t clients,
                           release_numbers *n)
{
    const double *average = s->floats;
    if (!average) {
        SEFL_PASS(release_check_sum(n, s->t, w, clients));
        SEFL_PASS(step_average(s->average, s->t, s->clip, w, clients, s->pool));
        average = s->average;
    }
    SEFL_PASS(step_apply(&s->step, s->t, s->theta, average, s->pool));
    s->clip = task_next_clip(s->t, s->clip, w, clients);
    if (s->clip > 0)
        s->r.clip = 1e-9 * (double)s->clip;
    return evaluate(s, round);
}

typedef struct writing {
    sim *s;
    uint64_t round;
    uint8_t *hash;
} writing;

/* A piece of pool_run: writes the model (0) or the optimiser (1). */
static sefl_status write_one(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const writing *w = ctx;
    sim *s = w->s;
    (void)lane, (void)end;
    file_sync_skip(s->sync == SYNC_SKIP);
    sefl_status st =
        begin == 0 ? write_model(s, w->round, w->hash)
                   : step_write(&s->step, run_path(&s->folder, "optimiser-%" PRIu64, w->round));
    file_sync_skip(false);
    return st;
}

static sefl_status release(void *ctx, const release_from *from, uint64_t round, const int64_t *w,
                           uint32_t clients, release_made *out)
{
    sim *s = ctx;
    uint64_t began = clock_now_ns();
    (void)from;
    sefl_status st = advance(s, round, w, clients, &out->numbers);
    if (st == SEFL_ERANGE) {
        out->blocked = true;
        snprintf(out->why, sizeof out->why, "%s", sefl_last_error());
        return load_model(s);
    }
    SEFL_PASS(st);
    s->step.round = round;
    choose_sync(s);
    SEFL_PASS(pool_run(s->pool, 2, 1, write_one, &(writing){ s, round, out->hash }, NULL));
    s->last_model = s->state.model_round;
    s->state.model_round = round;
    s->r.step_seconds = clock_since(began) - s->r.eval_seconds;
    double best = agg_remember(servers_agg(s->servers)).best_perplexity;
    out->has_perplexity = s->r.perplexity > 0;
    out->perplexity = s->r.perplexity;
    if (out->has_perplexity && (best == 0 || out->perplexity < best)) {
        SEFL_PASS(run_folder_link(&s->folder, "best.safetensors", round));
        s->state.best_round = round;
    }
    return SEFL_OK;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static sefl_status add_up(sim *s)
{
    run_log log;
    SEFL_PASS(run_log_read(&log, run_path(&s->folder, "metrics.jsonl")));
    s->out->t = run_log_totals(&log);
    run_log_clear(&log);
    return SEFL_OK;
}

static sefl_status take_up(sim *s)
{
    uint64_t text = s->federation->digest, init;
    uint8_t hash[SHA256_BYTES];
    hash_model(s, hash); /* theta still has the initial values */
    memcpy(&init, hash, sizeof init);
    SEFL_NEED(s->state.text == 0 || s->state.text == text, SEFL_EEXIST,
              "%s started with other text: data.path has changed since; choose another name, or "
              "remove it",
              s->folder.root);
    SEFL_NEED(s->state.init == 0 || s->state.init == init, SEFL_EEXIST,
              "%s started from another model: the file of model.init has changed since; choose "
              "another name, or remove it",
              s->folder.root);
    s->state.text = text;
    s->state.init = init;
    SEFL_NEED(!*s->state.device || strcmp(s->state.device, s->out->device) == 0, SEFL_EEXIST,
              "%s was trained on %s, but would continue on %s, which gives another model: continue "
              "it with the same device and precision, choose another name, or remove it",
              s->folder.root, s->state.device, s->out->device);
    snprintf(s->state.device, sizeof s->state.device, "%s", s->out->device);
    SEFL_PASS(run_metrics_cut(&s->folder, s->state.metrics_bytes));
    if (s->state.agg.round == 0) { /* a new run */
        if (s->federation->words)
            SEFL_PASS(vocab_write(s->federation->words, run_path(&s->folder, "vocab.txt"), false));
        s->clip = s->t->clip_quantile > 0 ? s->t->clip_nano : 0;
        SEFL_PASS(write_model(s, 0, hash));
        return step_new(&s->step, s->t);
    }
    SEFL_NEED(s->state.clients == s->federation->clients, SEFL_EPROTO,
              "%s has the state of another run", s->folder.root);
    SEFL_PASS(add_up(s));
    SEFL_PASS(load_model(s));
    return measure_model(s, s->state.model_round);
}

static sefl_status make_servers(sim *s)
{
    char ledgers[2][PATH_MAX];
    servers_config c = { .federation = s->federation,
                         .as_ledger = ledgers[0],
                         .csp_ledger = ledgers[1],
                         .pool = s->pool,
                         .log = &s->log,
                         .stop = s->c->stop,
                         .memory = s->state.agg,
                         .model = { .round = s->state.model_round },
                         .revealed = s->state.revealed,
                         .skipped = s->state.skipped,
                         .now_ms = s->state.now_ms,
                         .ctx = s,
                         .accept = accept_uploads,
                         .upload = upload,
                         .release = release,
                         .report = report,
                         .forget = keep,
                         .next = next_event,
                         .at = pass_time };
    hash_model(s, c.model.hash);
    for (int i = 0; i < (s->e.full ? 2 : 1); i++) {
        snprintf(ledgers[i], sizeof ledgers[i], "%s",
                 run_path(&s->folder, "%s", i == 0 ? "ledger" : "csp-ledger"));
        SEFL_PASS(make_ledger(s, ledgers[i]));
    }
    SEFL_PASS(servers_new(&s->servers, &c));
    return read_noise(s);
}

static sefl_status set_up(sim *s)
{
    const task *t;
    SEFL_PASS(helper_pool(&s->pool, s->ranks, s->e.threads));
    SEFL_PASS(federation_new(&s->federation, &(federation_config){ .experiment = &s->e,
                                                                   .settings = s->c->settings,
                                                                   .ranks = s->ranks,
                                                                   .key = s->c->key,
                                                                   .progress = s->c->progress,
                                                                   .stop = s->c->stop }));
    s->t = t = &s->federation->task;
    s->theta = s->federation->theta;
    s->out->claim = t->claim;
    s->out->epsilon_target = t->epsilon;
    s->out->delta = t->delta;
    s->out->unit_record = t->unit == TASK_UNIT_RECORD;
    s->out->z = s->e.protection->quantises ? strtod(t->z, NULL) : 0;
    dp_filter_text(s->out->filter, &t->filter);
    s->out->weight_cap = t->weight_cap;
    s->out->best_possible = s->federation->best_perplexity;
    s->out->threads = pool_threads(s->pool);
    s->out->ranks = s->ranks->size;
    if (s->e.trainer) /* what a killed process left */
        SEFL_PASS(hook_open(&(hook){ .folder = s->folder.root }));
    SEFL_PASS(ranks_agree(
        s->ranks, work_new(&s->work, s->federation, s->pool, NULL, s->c->stop, s->folder.root)));
    SEFL_PASS(work_join(s->work));
    const char *fallback = work_fallback(s->work);
    snprintf(s->out->device, sizeof s->out->device, "%s", work_device(s->work));
    snprintf(s->out->fallback, sizeof s->out->fallback, "%s", fallback ? fallback : "");
    log_info(&s->log, "trains", lf_str("device", s->out->device),
             lf_if(fallback, lf_str("fallback", fallback)));
    if (s->e.protection->quantises)
        SEFL_PASS(sefl_new(&s->average, task_trained(t), sizeof *s->average));
    SEFL_PASS(take_up(s));
    if (!s->state.taken)
        SEFL_PASS(sefl_new(&s->state.taken, s->federation->clients, sizeof *s->state.taken));
    SEFL_PASS(make_servers(s));
    SEFL_PASS(
        population_new(&s->population, s->federation, servers_agg(s->servers), s->state.taken));
    begin_round(s);
    return SEFL_OK;
}

/* Reads the results of a finished run, without its text and keys. */
static sefl_status look_back(sim *s)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(
        run_metrics_cut(&s->folder, s->state.metrics_bytes)); /* SEFL_EPROTO if lines are lost */
    SEFL_TRY(add_up(s));
    SEFL_TRY(model_read_hash(s->out->model, run_path(&s->folder, "model/last.safetensors")));
    s->out->was_there = true;
    s->out->claim = !isnan(s->out->t.all.epsilon_server);
    s->out->why = agg_why_text(s->state.agg.why);
    s->out->first_perplexity = s->state.first_perplexity;
    s->out->test_best = s->state.test_best;
    s->out->test_last = s->state.test_last;
done:
    return st;
}

static sefl_status test_one(sim *s, double *perplexity, const float *theta)
{
    double loss;
    SEFL_PASS(work_test(s->work, &loss, theta));
    *perplexity = isfinite(loss) ? exp(loss) : 0;
    return SEFL_OK;
}

/* Evaluates the last and the best model on the test text. */
static sefl_status test(sim *s)
{
    sefl_status st = SEFL_OK;
    float *theta = NULL;
    SEFL_TRY(test_one(s, &s->state.test_last, s->theta));
    if (s->state.best_round == s->state.model_round) {
        s->state.test_best = s->state.best_round > 0 ? s->state.test_last : 0;
    } else if (s->state.best_round > 0) {
        SEFL_TRY(task_model_read(&theta, s->t, run_path(&s->folder, "model/best.safetensors")));
        SEFL_TRY(test_one(s, &s->state.test_best, theta));
    }
    s->out->test_best = s->state.test_best;
    s->out->test_last = s->state.test_last;
done:
    sefl_free(theta);
    return st;
}

static sefl_status sync_path(const char *path)
{
    int fd = -1;
    uint64_t size;
    SEFL_PASS(file_open(&fd, &size, path, false));
    sefl_status st = file_sync(fd, path);
    close(fd);
    return st;
}

/* Syncs what the last rounds wrote and may not have synced. */
static sefl_status sync_run(const sim *s)
{
    SEFL_PASS(sync_path(run_path(&s->folder, "metrics.jsonl")));
    SEFL_PASS(sync_path(run_model_path(&s->folder, s->state.model_round)));
    if (s->state.best_round > 0)
        SEFL_PASS(sync_path(run_path(&s->folder, "model/best.safetensors")));
    return file_sync_folder(run_path(&s->folder, "model"));
}

static sefl_status simulate_finish(sim *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    struct rusage used = { 0 };
    (void)getrusage(RUSAGE_SELF, &used);
    s->state.agg = agg_remember(servers_agg(s->servers));
    s->out->why = agg_why_text(s->state.agg.why);
    hash_model(s, s->out->model);
    s->out->memory_bytes = (uint64_t)used.ru_maxrss * 1024;
    simulate_warn_late(s->out, s->federation);
    SEFL_TRY(test(s));
    SEFL_TRY(
        plan_classic_of(&s->out->classic, s->federation, s->out->t.rounds - s->out->t.skipped));
    SEFL_TRY(simulate_summary_write(&b, s->out, &s->e));
    SEFL_TRY(wr_u8(&b, '\n'));
    SEFL_TRY(file_write_atomic(run_path(&s->folder, "summary.json"), buf_span(&b), 0666));
    SEFL_TRY(sync_run(s));
    s->state.over = true;
    s->state.clients = s->federation->clients;
    SEFL_TRY(run_state_write(&s->state, run_path(&s->folder, "state")));
    log_info(&s->log, "over", lf_str("why", s->out->why));
done:
    buf_clear(&b);
    return st;
}

static void clear(sim *s)
{
    file_sync_skip(false);
    servers_free(s->servers);
    population_free(s->population);
    work_free(s->work);
    step_clear(&s->step);
    sefl_free(s->average);
    federation_free(s->federation);
    pool_free(s->pool);
    run_state_clear(&s->state);
    if (s->log_fd >= 0)
        close(s->log_fd);
    run_folder_close(&s->folder);
}

/* Opens the run's folder and reads its state. */
static sefl_status open_folder(sim *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf config = { 0 };
    bool fresh;
    SEFL_TRY(experiment_make(&s->e, s->c->settings));
    SEFL_TRY(experiment_write(&config, s->c->settings));
    SEFL_TRY(run_folder_open(&s->folder, s->c->runs, s->e.name, buf_span(&config), &fresh));
    snprintf(s->out->folder, sizeof s->out->folder, "%s", s->folder.root);
    if (!fresh) {
        st = run_state_read(&s->state, run_path(&s->folder, "state"));
        st = st == SEFL_ENOTFOUND ? SEFL_OK : st;
    }
done:
    buf_clear(&config);
    return st;
}

/* Runs from the current state to the end. */
static sefl_status simulate_rounds(sim *s)
{
    s->log_fd = open(run_path(&s->folder, "log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    s->log = s->log_fd >= 0 ? log_open(s->log_fd, LOG_INFO, &s->wall)
                            : (sefl_log){ .level = LOG_OFF, .fd = -1 };
    SEFL_PASS(set_up(s));
    simulate_warn_early(&s->out->warnings, s->federation);
    if (s->c->begin)
        s->c->begin(s->c->ctx, s->federation, s->out);
    if (s->out->t.rounds == 0) {
        double loss;
        SEFL_PASS(work_evaluate(s->work, &loss, s->theta));
        s->state.first_perplexity = isfinite(loss) ? exp(loss) : 0;
    }
    s->out->first_perplexity = s->state.first_perplexity;
    SEFL_PASS(servers_run(s->servers));
    return simulate_finish(s);
}

sefl_status simulate_run(const simulate_config *c, simulate_result *out)
{
    sefl_status st = SEFL_OK;
    sim *s = NULL;
    const ranks *r = c->ranks ? c->ranks : &ranks_one;
    *out = (simulate_result){ .why = "", .t = run_totals_none() };
    if (r->rank > 0)
        return helper_run(c);
    SEFL_TRY(sefl_new(&s, 1, sizeof *s));
    s->c = c;
    s->ranks = r;
    s->out = out;
    s->log_fd = -1;
    s->folder.lock = -1;
    s->wall = clock_wall();
    SEFL_TRY(open_folder(s));
    SEFL_TRY(helper_begin(r, s->folder.root, s->state.over));
    SEFL_TRY(s->state.over ? look_back(s) : simulate_rounds(s));
done:
    if (s)
        clear(s);
    sefl_free(s);
    return ranks_agree(r, st);
}
