#include "simulate/simulate.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "roles/aggregator/step.h"
#include "simulate/clear.h"
#include "simulate/plan.h"
#include "simulate/servers.h"
#include "simulate/work.h"
#include "sum/release_check.h"
#include "sum/terms.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct sim {
    const simulate_config *c;
    experiment e;
    run_folder folder;
    run_state state;
    federation *federation;
    const task *t;
    pool *pool;
    work *work;
    population *population;
    agg *a;
    servers *servers; /* crypto full */
    ledger *as_ledger, *csp_ledger;
    ledger_terms terms;
    sefl_clock mono, wall;
    sefl_log log;
    int log_fd;
    uint64_t now; /* virtual, ms */
    uint64_t opened_at, deadline, began_ns, link_before;
    double cpu_before;
    float *theta;
    int64_t *w;
    double *average;
    step_state step;
    release_signals signals;
    sefl_buf header;        /* both signed it */
    round_header announced; /* what stands in it */
    work_got got;
    run_round r;
    uint64_t model_bytes;
    uint64_t last_model; /* round whose model this one began from */
    simulate_result *out;
} sim;

static double since(const sim *s, uint64_t began_ns)
{
    return 1e-9 * (double)(clock_ns(&s->mono) - began_ns);
}

/* Processor time of all threads. */
static double process_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- ledgers ------------------------------------------------------------------------------------ */

/* A simulation's ledger follows from its rounds: it is written anew, so that a run that was interrupted
 * between two charges goes on with ledgers that agree. */
static sefl_status open_ledger(ledger **out, sim *s, const char *name)
{
    sefl_status st = SEFL_OK;
    run_round *list = NULL;
    size_t n = 0;
    const char *path = run_path(&s->folder, "%s", name);
    if (file_exists(path)) { /* nobody else may be at work on it; a damaged one is no loss */
        st = ledger_open(out, path, s->t->population, NULL);
        ledger_close(*out);
        *out = NULL;
        if (st == SEFL_ESTATE || st == SEFL_ENOMEM)
            goto done;
        (void)unlink(path);
    }
    SEFL_TRY(ledger_create(path, s->t->population));
    SEFL_TRY(ledger_open(out, path, s->t->population, NULL));
    if (s->state.metrics_bytes > 0)
        SEFL_TRY(run_metrics_read(&list, &n, run_path(&s->folder, "metrics.jsonl")));
    for (size_t i = 0; i < n; i++)
        if (!list[i].skipped)
            SEFL_TRY(ledger_charge(*out, &s->terms, list[i].round, NULL));
done:
    sefl_free(list);
    return st;
}

/* ---- orders -------------------------------------------------------------------------------------- */

static sefl_status tell(sim *s, agg_event_kind kind)
{
    return agg_on(s->a, &(agg_event){ .kind = kind, .round = agg_round(s->a) }, s->now);
}

static sefl_status order_sign(sim *s, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    uint8_t bytes[HEADER_MAX];
    round_header h = { .round = o->round, .step_nano = s->t->step_nano };
    s->began_ns = clock_ns(&s->mono);
    s->cpu_before = process_seconds();
    s->link_before = s->servers ? servers_bytes(s->servers) : 0;
    s->r = (run_round){ .round = o->round, .link = s->servers ? 0 : UINT64_MAX };
    memcpy(h.task, s->t->id, sizeof h.task);
    sha256_of(h.model, span_of(s->theta, s->t->params * sizeof *s->theta));
    buf_reset(&s->header);
    if (s->servers) {
        st = servers_header(s->servers, &s->header, &h);
    } else {
        st = ledger_may_charge(s->as_ledger, &s->terms, o->round);
        if (st == SEFL_OK) {
            SEFL_TRY(federation_round_key(s->federation, &h));
            size_t n = round_header_write(bytes, &h);
            envelope env = { .kind = SIGN_HEADER, .content = span_of(bytes, n) };
            SEFL_TRY(envelope_sign(&env, SIGNER_AS, s->federation->as_key));
            SEFL_TRY(envelope_sign(&env, SIGNER_CSP, s->federation->csp_key));
            SEFL_TRY(envelope_write(&s->header, &env));
        }
    }
    if (st == SEFL_EBUDGET) {
        log_info(&s->log, "budget", lf_u64("round", o->round), lf_str("why", sefl_last_error()));
        st = tell(s, AGG_BUDGET);
        goto done;
    }
    SEFL_TRY(st);
    s->announced = h;
    s->opened_at = s->now;
    SEFL_TRY(tell(s, AGG_SIGNED));
    s->deadline = agg_deadline_ms(s->a);
    log_info(&s->log, "round open", lf_u64("round", o->round));
    SEFL_TRY(population_open(s->population, o->round, buf_span(&s->header), s->now));
done:
    return st;
}

/* The set is known: now those in it train. */
static sefl_status order_freeze(sim *s, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    const population_member *set;
    SEFL_TRY(population_close(s->population, s->now));
    uint32_t n = population_set(s->population, &set);
    SEFL_TRY(work_round(s->work, &s->got, &s->announced, s->theta, set, n, s->c->progress));
    s->r.train = s->got.train;
    s->r.encrypt = s->got.encrypt;
    s->r.sum = s->got.add;
    s->r.diverged = s->got.diverged;
    s->r.clients = s->got.clients;
    log_info(&s->log, "round closed", lf_u64("round", o->round), lf_u64("clients", s->got.clients),
             lf_u64("diverged", s->got.diverged));
    agg_event e = { .kind = AGG_FROZEN, .round = o->round, .clients = s->got.clients };
    SEFL_TRY(agg_on(s->a, &e, s->now));
done:
    return st;
}

static sefl_status order_reveal(sim *s, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    uint64_t began = clock_ns(&s->mono);
    const work_got *g = &s->got;
    if (s->servers) {
        st = servers_reveal(s->servers, o->round, o->attempt, g, s->w);
    } else {
        st = ledger_charge(s->as_ledger, &s->terms, o->round, NULL);
        if (st == SEFL_OK && s->e.protection->release)
            st = s->e.protection->release(s->w, s->t, s->e.seed, o->round, o->attempt, g->sum);
    }
    s->r.twopc += since(s, began);
    if (st == SEFL_EBUDGET) {
        st = tell(s, AGG_BUDGET);
        goto done;
    }
    SEFL_TRY(st);
    s->state.opened = o->round;
    SEFL_TRY(tell(s, AGG_REVEALED));
done:
    return st;
}

/* ---- warnings ------------------------------------------------------------------------------------ */

static void warn(sim *s, const char *fmt, ...) SEFL_PRINTF(2, 3);
static void warn(sim *s, const char *fmt, ...)
{
    va_list ap;
    if (s->out->warnings == SIMULATE_WARNINGS)
        return;
    va_start(ap, fmt);
    vsnprintf(s->out->warning[s->out->warnings++], SIMULATE_WARNING_MAX, fmt, ap);
    va_end(ap);
}

/* What is known before the first round. */
static void warn_early(sim *s)
{
    const corpus *v = &s->federation->valid;
    if (v->tokens == 0)
        warn(s,
             "%s has no validation text, so no perplexity is measured: make it a folder with "
             "train.txt and valid.txt",
             s->e.data);
    else if (v->tokens < 2 * LM_EVAL_BATCH)
        warn(s, "the validation text has only %zu words, so no perplexity is measured: it takes %d",
             v->tokens, 2 * LM_EVAL_BATCH);
    else if (s->t->claim && !s->e.data_public)
        warn(s,
             "the validation text decides which model is best.safetensors%s, and no epsilon covers "
             "that choice: use last.safetensors, or set data.public: true if the text is public",
             s->t->patience > 0 ? " and when rounds.patience ends the run" : "");
}

/* Training that diverged; noise or training that left the model worse than it began, or unusable. */
static void warn_late(sim *s)
{
    const simulate_result *r = s->out;
    char what[96];
    bool all = r->diverged > 0 && r->diverged == r->updates;
    if (r->diverged > 0)
        warn(s,
             "local training diverged in %s%" PRIu64 " of %" PRIu64
             " updates, which are zeros%s: try "
             "a smaller training.lr or a tighter training.gradient_clip",
             all ? "all " : "", r->diverged, r->updates, all ? "; nothing was learned" : "");
    if (all)
        return;
    if (r->blocked > 0)
        snprintf(what, sizeof what, "the release check blocked %" PRIu64 " of %" PRIu64 " rounds",
                 r->blocked, r->rounds);
    else if (r->first_perplexity > 0 && r->last_perplexity > r->first_perplexity)
        snprintf(what, sizeof what, "perplexity %.6g at the start, %.6g at the end",
                 r->first_perplexity, r->last_perplexity);
    else
        return;
    double clients = (double)r->updates / (double)(r->rounds - r->skipped);
    double drawn = s->t->sampling == TASK_HIDDEN ? clients * s->t->rate : clients;
    double ratio = plan_noise_ratio(s->federation, drawn);
    if (ratio > PLAN_RATIO_GOOD)
        warn(s,
             "the noise drowned the model: %s. The noise "
             "is %.3g times the largest signal of %.0f clients, and a third is what learning "
             "bears: more clients a round, a larger model.block or a smaller privacy.z ('sefl "
             "plan' computes it)",
             what, ratio, drawn);
    else
        warn(s, "training made the model worse: %s: try a smaller training.lr or server.lr", what);
}

/* ---- a round ends --------------------------------------------------------------------------------- */

static sefl_status spent(sim *s)
{
    sefl_status st = SEFL_OK;
    ledger_total total;
    if (!s->t->claim)
        goto done;
    SEFL_TRY(ledger_spent(s->as_ledger, s->t->delta, &total));
    s->r.has_epsilon = total.server.claimed && total.others.claimed;
    s->r.epsilon_server = total.server.epsilon;
    s->r.epsilon_others = total.others.epsilon;
    s->r.epsilon_target = s->t->epsilon;
done:
    return st;
}

/* Files that nobody goes on from any more. */
static void forget(const sim *s)
{
    uint64_t keep = s->e.models_keep, round = s->state.model_round;
    if (s->r.skipped || s->r.blocked)
        return;
    if (s->last_model > 0)
        (void)unlink(run_path(&s->folder, "optimiser-%" PRIu64, s->last_model));
    if (keep > 0 && round > keep)
        (void)unlink(run_path(&s->folder, "model/round-%" PRIu64 ".safetensors", round - keep));
}

/* The round's line, then the state: from here the next one may begin. */
static sefl_status keep(sim *s)
{
    sefl_status st = SEFL_OK;
    const task *t = s->t;
    population_counts n = population_count(s->population);
    uint64_t body = s->e.protection->two_servers ? task_body_bytes(t) : 4 * t->values;
    s->r.asked = n.asked, s->r.late = n.late, s->r.dropped = n.dropped;
    s->r.up = s->r.clients * body;
    s->r.down = n.asked * s->model_bytes;
    if (s->servers)
        s->r.link = servers_bytes(s->servers) - s->link_before;
    s->r.virtual_seconds = 1e-3 * (double)(s->now - s->opened_at);
    SEFL_TRY(spent(s));
    s->r.seconds = since(s, s->began_ns);
    s->r.cpu = process_seconds() - s->cpu_before;
    SEFL_TRY(run_metrics_append(&s->folder, &s->r, &s->state.metrics_bytes));
    s->state.agg = agg_remember(s->a);
    s->state.now_ms = s->now;
    s->state.clients = s->federation->clients;
    memcpy(s->state.taken, population_taken(s->population),
           s->state.clients * sizeof *s->state.taken);
    SEFL_TRY(run_state_write(&s->state, run_path(&s->folder, "state")));
    forget(s);
    simulate_add(s->out, &s->r);
    if (s->c->round)
        s->c->round(s->c->ctx, &s->r);
done:
    return st;
}

static sefl_status write_model(sim *s, uint64_t round)
{
    sefl_status st = SEFL_OK;
    char name[64];
    struct stat sb;
    snprintf(name, sizeof name, "round-%" PRIu64 ".safetensors", round);
    SEFL_TRY(model_write(run_path(&s->folder, "model/%s", name), &s->federation->meta, s->theta));
    SEFL_TRY(run_folder_link(&s->folder, "last.safetensors", name));
    SEFL_CHECK(stat(run_path(&s->folder, "model/%s", name), &sb) == 0, SEFL_EIO, "%s: gone", name);
    s->model_bytes = (uint64_t)sb.st_size;
done:
    return st;
}

/* SEFL_ERANGE: the release check blocks this model. */
static sefl_status evaluate(sim *s, uint64_t round)
{
    sefl_status st = SEFL_OK;
    double loss;
    uint64_t began = clock_ns(&s->mono), every = s->e.eval_every;
    bool last = round >= s->t->rounds;
    if (!last && (every == 0 || round % every != 0))
        goto done;
    SEFL_TRY(work_evaluate(s->work, &loss, s->theta));
    s->r.eval += since(s, began);
    if (isnan(loss)) /* no text to validate with */
        goto done;
    SEFL_TRY(release_check_loss(loss));
    s->r.loss = loss;
    s->r.perplexity = exp(loss);
done:
    return st;
}

/* Model and optimiser of the latest release, from their files. */
static sefl_status load_model(sim *s)
{
    sefl_status st = SEFL_OK;
    float *theta = NULL;
    size_t count = 0;
    model_meta meta;
    uint64_t round = s->state.model_round;
    SEFL_TRY(model_read(&meta, &theta, &count,
                        run_path(&s->folder, "model/round-%" PRIu64 ".safetensors", round)));
    SEFL_CHECK(count == s->t->params, SEFL_EPROTO, "%s: a model of another run", s->folder.root);
    memcpy(s->theta, theta, count * sizeof *theta);
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

/* The next model, in memory. SEFL_ERANGE: the release check blocks it. */
static sefl_status advance(sim *s, uint64_t round)
{
    sefl_status st = SEFL_OK;
    const double *average = s->got.average;
    release_numbers n = { 0 };
    double median;
    if (!average) {
        SEFL_TRY(release_check_sum(&n, s->t, s->w, s->got.clients));
        log_info(&s->log, "release checked", lf_u64("round", round), lf_real("norm", n.norm),
                 lf_real("bound", n.bound), lf_real("largest", n.largest),
                 lf_real("signal", n.signal));
        SEFL_TRY(step_average(s->average, s->t, s->w, s->got.clients));
        average = s->average;
    }
    SEFL_TRY(step_apply(&s->step, s->t, s->theta, average));
    SEFL_TRY(evaluate(s, round));
    if (!s->got.average && release_signals_add(&s->signals, s->t, round, n.signal, &median))
        log_warn(&s->log, "the sum is much larger than those of the rounds before",
                 lf_u64("round", round), lf_real("signal", n.signal), lf_real("median", median));
done:
    return st;
}

static sefl_status block(sim *s, uint64_t round)
{
    sefl_status st = SEFL_OK;
    log_error(&s->log, "release blocked, the model stays as it was", lf_u64("round", round),
              lf_str("why", sefl_last_error()));
    SEFL_TRY(load_model(s));
    s->r.blocked = true;
    SEFL_TRY(tell(s, AGG_BLOCKED));
    SEFL_TRY(keep(s));
done:
    return st;
}

static sefl_status order_release(sim *s, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    uint64_t began = clock_ns(&s->mono);
    char name[64];
    st = advance(s, o->round);
    if (st == SEFL_ERANGE)
        return block(s, o->round);
    SEFL_TRY(st);
    s->step.round = o->round;
    SEFL_TRY(write_model(s, o->round));
    SEFL_TRY(step_write(&s->step, run_path(&s->folder, "optimiser-%" PRIu64, o->round)));
    s->last_model = s->state.model_round;
    s->state.model_round = o->round;
    s->r.step = since(s, began) - s->r.eval;
    agg_memory before = agg_remember(s->a);
    bool seen = s->r.perplexity > 0;
    if (seen && (before.best_perplexity == 0 || s->r.perplexity < before.best_perplexity)) {
        snprintf(name, sizeof name, "round-%" PRIu64 ".safetensors", o->round);
        SEFL_TRY(run_folder_link(&s->folder, "best.safetensors", name));
        s->state.best_round = o->round;
    }
    SEFL_TRY(agg_on(s->a,
                    &(agg_event){ .kind = AGG_RELEASED,
                                  .round = o->round,
                                  .has_perplexity = seen,
                                  .perplexity = s->r.perplexity },
                    s->now));
    SEFL_TRY(keep(s));
done:
    return st;
}

static sefl_status order_skip(sim *s, const agg_order *o)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(population_close(s->population, s->now));
    if (s->servers)
        SEFL_TRY(servers_skip(s->servers, o->round));
    s->r.skipped = true;
    s->r.clients = 0;
    s->state.skipped = o->round;
    log_info(&s->log, "round skipped", lf_u64("round", o->round));
    SEFL_TRY(tell(s, AGG_SKIPPED));
    SEFL_TRY(keep(s));
done:
    return st;
}

/* Virtual time goes on to whatever happens next. */
static sefl_status wait_for(sim *s, uint64_t until_ms)
{
    sefl_status st = SEFL_OK;
    uint64_t next = population_next_ms(s->population);
    uint64_t to = next < until_ms ? next : until_ms;
    SEFL_CHECK(to != UINT64_MAX, SEFL_ESTATE, "the simulation waits for nothing, in round %" PRIu64,
               agg_round(s->a));
    s->now = to > s->now ? to : s->now;
    SEFL_TRY(population_run(s->population, s->now));
    /* an extended round is announced again */
    if (agg_get_phase(s->a) == AGG_COLLECTING && agg_deadline_ms(s->a) != s->deadline) {
        s->deadline = agg_deadline_ms(s->a);
        SEFL_TRY(population_open(s->population, agg_round(s->a), buf_span(&s->header), s->now));
    }
done:
    return st;
}

static sefl_status run_rounds(sim *s)
{
    sefl_status st = SEFL_OK;
    for (;;) {
        agg_order o = agg_next(s->a, s->now);
        SEFL_CHECK(progress_report(s->c->stop, 0, 0), SEFL_ECANCELLED, "stopped");
        switch (o.kind) {
        case AGG_WAIT:
            SEFL_TRY(wait_for(s, o.until_ms));
            break;
        case AGG_DIAL:
            SEFL_TRY(tell(s, AGG_LINK_UP));
            break;
        case AGG_SIGN:
            SEFL_TRY(order_sign(s, &o));
            break;
        case AGG_FREEZE:
            SEFL_TRY(order_freeze(s, &o));
            break;
        case AGG_REVEAL:
            SEFL_TRY(order_reveal(s, &o));
            break;
        case AGG_RELEASE:
            SEFL_TRY(order_release(s, &o));
            break;
        case AGG_SKIP:
            SEFL_TRY(order_skip(s, &o));
            break;
        case AGG_FINISH:
            s->out->why = agg_why_text(o.why);
            goto done;
        }
    }
done:
    return st;
}

/* ---- beginning and end ----------------------------------------------------------------------------- */

static sefl_status take_up(sim *s)
{
    sefl_status st = SEFL_OK;
    run_round *list = NULL;
    size_t n = 0;
    uint64_t text = federation_text(s->federation);
    SEFL_CHECK(
        s->state.text == 0 || s->state.text == text, SEFL_EEXIST,
        "%s began with other text: data.path has changed since; take another name, or remove it",
        s->folder.root);
    s->state.text = text;
    SEFL_TRY(run_metrics_cut(&s->folder, s->state.metrics_bytes));
    if (s->state.agg.round == 0) { /* a new run */
        SEFL_TRY(vocab_write(s->federation->words, run_path(&s->folder, "vocab.txt"), false));
        SEFL_TRY(write_model(s, 0));
        SEFL_TRY(step_new(&s->step, s->t));
        goto done;
    }
    SEFL_CHECK(s->state.clients == s->federation->clients, SEFL_EPROTO, "%s: state of another run",
               s->folder.root);
    SEFL_TRY(run_metrics_read(&list, &n, run_path(&s->folder, "metrics.jsonl")));
    for (size_t i = 0; i < n; i++)
        simulate_add(s->out, &list[i]);
    SEFL_TRY(load_model(s));
    struct stat sb;
    if (stat(run_path(&s->folder, "model/last.safetensors"), &sb) == 0)
        s->model_bytes = (uint64_t)sb.st_size;
    SEFL_TRY(agg_restore(s->a, &s->state.agg, s->now));
done:
    sefl_free(list);
    return st;
}

static sefl_status set_up(sim *s)
{
    sefl_status st = SEFL_OK;
    const task *t;
    SEFL_TRY(pool_new(&s->pool, s->e.threads));
    SEFL_TRY(federation_new(&s->federation, &(federation_config){ .experiment = &s->e,
                                                                  .settings = s->c->settings,
                                                                  .key = s->c->key,
                                                                  .progress = s->c->progress,
                                                                  .stop = s->c->stop }));
    s->t = t = &s->federation->task;
    s->terms = terms_of_task(t);
    s->theta = s->federation->theta;
    s->out->claim = t->claim;
    s->out->epsilon_target = t->epsilon;
    s->out->delta = t->delta;
    s->out->unit_record = t->unit == TASK_UNIT_RECORD;
    s->out->best_possible = s->federation->best_perplexity;
    s->out->threads = pool_threads(s->pool);
    SEFL_TRY(work_new(&s->work, s->federation, s->pool, s->c->stop));
    if (s->e.protection->quantises) {
        SEFL_TRY(sefl_new(&s->w, t->values, sizeof *s->w));
        SEFL_TRY(sefl_new(&s->average, t->params, sizeof *s->average));
    }
    SEFL_TRY(agg_new(&s->a, t));
    SEFL_TRY(take_up(s));
    if (!s->state.taken)
        SEFL_TRY(sefl_new(&s->state.taken, s->federation->clients, sizeof *s->state.taken));
    s->now = s->state.now_ms;
    SEFL_TRY(population_new(&s->population, s->federation, s->a, s->state.taken));
    SEFL_TRY(open_ledger(&s->as_ledger, s, "ledger"));
    if (s->e.full) {
        SEFL_TRY(open_ledger(&s->csp_ledger, s, "csp-ledger"));
        SEFL_TRY(servers_new(&s->servers, &(servers_config){ .federation = s->federation,
                                                             .as_ledger = s->as_ledger,
                                                             .csp_ledger = s->csp_ledger,
                                                             .pool = s->pool,
                                                             .stop = s->c->stop,
                                                             .opened = s->state.opened,
                                                             .skipped = s->state.skipped }));
    }
done:
    return st;
}

static void announce(sim *s)
{
    simulate_view v = { .e = &s->e,
                        .folder = s->folder.root,
                        .rounds = s->t->rounds,
                        .values = s->t->values,
                        .tokens = s->federation->tokens,
                        .threads = pool_threads(s->pool),
                        .done = s->out->rounds,
                        .r = s->out,
                        .claim = s->t->claim,
                        .epsilon_target = s->t->epsilon };
    if (s->c->begin)
        s->c->begin(s->c->ctx, &v);
}

static uint64_t resident_bytes(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss * 1024 : 0;
}

/* Numbers of a run that ended before, without its text and keys. */
static sefl_status look_back(sim *s)
{
    sefl_status st = SEFL_OK;
    run_round *list = NULL;
    size_t n;
    model_meta meta;
    float *theta = NULL;
    size_t count;
    SEFL_TRY(run_metrics_read(&list, &n, run_path(&s->folder, "metrics.jsonl")));
    for (size_t i = 0; i < n; i++)
        simulate_add(s->out, &list[i]);
    SEFL_TRY(model_read(&meta, &theta, &count, run_path(&s->folder, "model/last.safetensors")));
    sha256_of(s->out->model, span_of(theta, count * sizeof *theta));
    s->out->was_there = true;
    s->out->claim = s->out->has_epsilon;
    s->out->why = agg_why_text(s->state.agg.why);
    s->out->first_perplexity = s->state.first_perplexity;
done:
    sefl_free(list);
    sefl_free(theta);
    return st;
}

static sefl_status finish(sim *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    sha256_of(s->out->model, span_of(s->theta, s->t->params * sizeof *s->theta));
    s->out->memory_bytes = resident_bytes();
    warn_late(s);
    SEFL_TRY(simulate_summary_write(&b, s->out, &s->e));
    SEFL_TRY(wr_u8(&b, '\n'));
    SEFL_TRY(file_write_atomic(run_path(&s->folder, "summary.json"), buf_span(&b), 0666));
    s->state.over = true;
    s->state.agg = agg_remember(s->a);
    s->state.clients = s->federation->clients;
    SEFL_TRY(run_state_write(&s->state, run_path(&s->folder, "state")));
    log_info(&s->log, "over", lf_str("why", s->out->why));
done:
    buf_clear(&b);
    return st;
}

static void clear(sim *s)
{
    servers_free(s->servers);
    ledger_close(s->as_ledger);
    ledger_close(s->csp_ledger);
    population_free(s->population);
    agg_free(s->a);
    work_free(s->work);
    step_clear(&s->step);
    sefl_free(s->w);
    sefl_free(s->average);
    federation_free(s->federation);
    pool_free(s->pool);
    buf_clear(&s->header);
    run_state_clear(&s->state);
    if (s->log_fd >= 0)
        close(s->log_fd);
    run_folder_close(&s->folder);
}

sefl_status simulate_run(const simulate_config *c, simulate_result *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf config = { 0 };
    bool fresh;
    sim *s = NULL;
    *out = (simulate_result){ .why = "" };
    SEFL_TRY(sefl_new(&s, 1, sizeof *s));
    s->c = c;
    s->out = out;
    s->log_fd = -1;
    s->folder.lock = -1;
    s->mono = clock_monotonic();
    s->wall = clock_wall();
    SEFL_TRY(experiment_make(&s->e, c->settings));
    SEFL_TRY(experiment_write(&config, c->settings));
    SEFL_TRY(run_folder_open(&s->folder, c->runs, s->e.name, buf_span(&config), &fresh));
    snprintf(out->folder, sizeof out->folder, "%s", s->folder.root);
    if (!fresh) {
        st = run_state_read(&s->state, run_path(&s->folder, "state"));
        if (st != SEFL_ENOTFOUND)
            SEFL_TRY(st);
        st = SEFL_OK;
        if (s->state.over) {
            SEFL_TRY(look_back(s));
            goto done;
        }
    }
    s->log_fd = open(run_path(&s->folder, "log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    s->log = s->log_fd >= 0 ? log_open(s->log_fd, LOG_INFO, &s->wall)
                            : (sefl_log){ .level = LOG_OFF, .fd = -1 };
    SEFL_TRY(set_up(s));
    warn_early(s);
    announce(s);
    if (out->rounds == 0) {
        double loss;
        SEFL_TRY(work_evaluate(s->work, &loss, s->theta));
        s->state.first_perplexity = isfinite(loss) ? exp(loss) : 0;
    }
    out->first_perplexity = s->state.first_perplexity;
    SEFL_TRY(run_rounds(s));
    SEFL_TRY(finish(s));
done:
    if (s)
        clear(s);
    sefl_free(s);
    buf_clear(&config);
    return st;
}
