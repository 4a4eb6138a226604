#include "crypto/ahe/ahe.h"
#include "simulate/work_inside.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "fed/fed_train.h"
#include "privacy/combinations.h"
#include "privacy/mechanism/quantise.h"
#include "protocol/update.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double cpu_seconds(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double work_thread_seconds(void)
{
    return cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
}

/* ---- making one ------------------------------------------------------------------------------ */

static sefl_status lane_init(work *w, lane *l)
{
    const task *t = w->t;
    const experiment *e = w->s->e;
    if (w->folder && e->trainer) {
        l->hook = (hook){ .command = e->trainer,
                          .runs_in = e->trainer_folder,
                          .folder = w->folder,
                          .text = e->data,
                          .timeout_s = e->trainer_timeout,
                          .memory_mib = e->trainer_memory };
        l->port = hook_port(&l->hook);
    } else if (t->unit == TASK_UNIT_RECORD) {
        SEFL_PASS(lm_new(&l->m, &t->model, NULL));
    } else if (!w->device && !t->external) {
        SEFL_PASS(engine_new(&l->e, &(engine_config){ .model = &t->model, .optim = t->optim }));
    }
    SEFL_PASS(sefl_new(&l->v, t->params, sizeof *l->v));
    if (!w->s->e->protection->quantises || w->device_sums)
        return SEFL_OK;
    SEFL_PASS(sefl_new(&l->X, t->values, sizeof *l->X));
    if (t->unit == TASK_UNIT_RECORD)
        SEFL_PASS(sefl_new(&l->one, t->values, sizeof *l->one));
    return w->s->e->full ? sefl_new(&l->body, task_body_bytes(t), 1)
                         : sefl_new(&l->sum, t->values, sizeof *l->sum);
}

/* Allocates what one rank has once. */
static sefl_status new_sums(work *w, const ahe_enc *enc)
{
    const federation *s = w->s;
    const ranks *r = w->ranks;
    const size_t head_n = head_bytes(w->t->seal);
    const uint32_t mine = (s->clients - 1) / r->size + 1;
    if (!s->e->protection->quantises) {
        SEFL_PASS(sefl_new(&w->average, task_trained(w->t), sizeof *w->average));
        if (!w->device_sums)
            SEFL_PASS(sefl_new(&w->exact, task_trained(w->t), sizeof *w->exact));
    }
    if (s->e->full) {
        if (!enc)
            SEFL_PASS(ahe_enc_new(&w->own_enc, w->t->pub, &w->t->ahe, w->pool, w->stop));
        w->enc = enc ? enc : w->own_enc;
        if (r->rank > 0)
            SEFL_PASS(sefl_new(&w->sent, mine, sizeof *w->entry + head_n));
        else
            SEFL_PASS(sefl_new(&w->entry, s->clients, sizeof *w->entry));
        if (r->rank == 0 && task_is_sealed(w->t))
            SEFL_PASS(sefl_new(&w->heads, s->clients, head_n));
        if (r->size > 1)
            SEFL_PASS(sefl_new(&w->partial, ahe_body_bytes(&w->t->ahe), 1));
    }
    if (r->rank > 0)
        SEFL_PASS(sefl_new(&w->theta_here, w->t->params, sizeof *w->theta_here));
    return r->size > 1 ? sefl_new(&w->mine, mine, sizeof *w->mine) : SEFL_OK;
}

sefl_status work_new(work **out, const federation *s, pool *p, const ahe_enc *enc,
                     const sefl_progress *stop, const char *folder)
{
    SEFL_MAKE(work, w, out);
    w->s = s;
    w->t = &s->task;
    w->pool = p;
    w->stop = stop;
    w->folder = folder;
    pthread_mutex_init(&w->lock, NULL);
    w->ranks = s->ranks ? s->ranks : &ranks_one;
    w->clip = w->t->clip_nano;
    if (w->ranks->size > 1)
        SEFL_TRY(combination_check(task_features(w->t) | FEATURE(RANKS)));
    SEFL_TRY(work_device_open(w));
    SEFL_TRY(sefl_new(&w->items, s->clients, sizeof *w->items));
    for (uint32_t i = 0; i < s->clients; i++)
        w->items[i] = s->text[i].tokens;
    SEFL_TRY(sefl_new(&w->lane, pool_threads(p), sizeof *w->lane));
    for (; w->lanes < pool_threads(p); w->lanes++)
        SEFL_TRY(lane_init(w, &w->lane[w->lanes]));
    SEFL_TRY(new_sums(w, enc));
    *out = w, w = NULL;
done:
    if (w && w->lane && w->lanes < pool_threads(p))
        w->lanes++; /* frees the lane that failed halfway */
    work_free(w);
    return st;
}

void work_free(work *w)
{
    if (!w)
        return;
    work_dismiss(w);
    for (unsigned i = 0; w->lane && i < w->lanes; i++) {
        lane *l = &w->lane[i];
        engine_free(l->e);
        lm_free(l->m);
        sefl_free(l->v);
        sefl_free(l->X);
        sefl_free(l->one);
        sefl_free(l->sum);
        sefl_free(l->body);
    }
    sefl_free(w->lane);
    sefl_free(w->items);
    engine_free(w->judge);
    sefl_free(w->turns);
    sefl_free(w->sum);
    sefl_free(w->average);
    sefl_free(w->exact);
    sefl_free(w->mine);
    sefl_free(w->theta_here);
    sefl_free(w->partial);
    sefl_free(w->sent);
    ahe_enc_free(&w->t->ahe, w->own_enc);
    ahe_sum_free(&w->t->ahe, w->closed);
    sefl_free(w->entry);
    sefl_free(w->heads);
    pthread_mutex_destroy(&w->lock);
    sefl_free(w);
}

/* ---- one client ------------------------------------------------------------------------------ */

sefl_status work_integers(const work *w, lane *l, uint32_t client, const float *v, bool diverged,
                          const sefl_rng *coins)
{
    if (!diverged)
        return client_train_round(l->X, w->t, w->clip, w->items[client], v, coins);
    memset(l->X, 0, w->t->values * sizeof *l->X);
    return SEFL_OK;
}

train_job work_job(const work *w, uint32_t client)
{
    return (train_job){ .task = w->t,
                        .round = w->header.round,
                        .client = w->s->client[client],
                        .attempt = 1,
                        .theta = w->theta,
                        .text = &w->s->text[client],
                        .eos = w->s->words ? vocab_eos(w->s->words) : 0,
                        .progress = w->stop };
}

/* Trains with the owner's command. A failure ends the run: an experiment measures what its command
 * computes, not how often it fails. */
static sefl_status train_hook(const work *w, lane *l, uint32_t client, train_job *job)
{
    char words[PATH_MAX];
    SEFL_PASS(file_path(words, "%s/vocab.txt", w->folder));
    population_who(l->hook.who, client);
    w->items[client] = w->t->weight_cap;
    job->words = w->t->external ? NULL : words;
    uint64_t began = clock_now_ns();
    sefl_status st = l->port.train(l->port.self, job, l->v, &w->items[client]);
    l->train += clock_since(began);
    return st == SEFL_ERANGE ? sefl_fail_at(SEFL_ESTATE, "%s", l->hook.who) : st;
}

/* Trains one client with the engine. SEFL_ERANGE: training diverged. */
static sefl_status train_engine(const work *w, lane *l, const train_job *job)
{
    if (w->t->external) { /* no trainer: sefl plan */
        memset(l->v, 0, w->t->params * sizeof *l->v);
        return SEFL_OK;
    }
    SEFL_PASS(engine_theta(l->e, job->theta));
    return client_train_local(job, l->e, l->v);
}

/* Trains one client. Clipping and quantising count as encryption, because plain training does not
 * need them. Sets *diverged if the result is only zeros. */
static sefl_status work_train(const work *w, lane *l, bool *diverged, const population_member *who,
                              const sefl_coins *coins)
{
    sefl_status st = SEFL_OK;
    double began = work_thread_seconds(), trained = 0;
    const task *t = w->t;
    bool integers = w->s->e->protection->quantises;
    size_t zeroed;
    sefl_rng rng;
    train_job job = work_job(w, who->client);
    SEFL_TRY(coins_for(coins, &rng, "round", job.round, job.attempt));
    if (integers && (who->zeros || t->unit == TASK_UNIT_RECORD))
        memset(l->X, 0, t->values * sizeof *l->X);
    if (who->zeros) {
        memset(l->v, 0, t->params * sizeof *l->v);
        goto done;
    }
    if (t->unit == TASK_UNIT_RECORD) {
        memcpy(lm_theta(l->m), w->theta, t->params * sizeof *w->theta);
        SEFL_TRY(client_train_records(&job, l->m, l->X, &zeroed, l->one, l->v, &rng));
        *diverged = zeroed > 0;
        for (size_t i = 0; *diverged && i < t->values; i++)
            *diverged = l->X[i] == 0;
        goto done;
    }
    st = l->port.train ? train_hook(w, l, who->client, &job) : train_engine(w, l, &job);
    *diverged = st == SEFL_ERANGE;
    SEFL_TRY(*diverged ? SEFL_OK : st);
    layout_select(&t->layout, l->v, l->v);
    if (!integers && !*diverged && !work_fits(w, l->v, task_trained(t))) {
        *diverged = true;
        memset(l->v, 0, task_trained(t) * sizeof *l->v);
    }
    trained = work_thread_seconds();
    if (integers)
        SEFL_TRY(work_integers(w, l, who->client, l->v, *diverged, &rng));
done:
    if (trained == 0)
        trained = work_thread_seconds();
    l->train += trained - began;
    l->encrypt += work_thread_seconds() - trained;
    return st;
}

static sefl_status encrypt(const work *w, lane *l, uint8_t units[32], uint32_t client,
                           const sefl_coins *coins)
{
    sefl_status st = SEFL_OK;
    sign_key *key = NULL;
    sefl_rng rng;
    if (task_is_sealed(w->t))
        SEFL_TRY(federation_upload_key(&key, w->s, client));
    SEFL_TRY(coins_for(coins, &rng, "encrypt", w->header.round, 1));
    SEFL_TRY(update_make(l->body, units,
                         &(update_facts){ .task = w->t,
                                          .header = &w->header,
                                          .enc = w->enc,
                                          .client = w->s->client[client],
                                          .upload_key = key },
                         l->X, NULL, w->stop, &rng));
done:
    sign_key_free(key);
    return st;
}

/* Adds an encrypted body to the sum. The caller holds the lock. */
static sefl_status add_body(work *w, const lane *l, size_t piece, const uint8_t units[32])
{
    const ahe_params *p = &w->t->ahe;
    const size_t front = update_front_bytes(w->t->seal);
    SEFL_PASS(ahe_sum_check_units(p, w->closed, l->body + front, p->units));
    SEFL_PASS(ahe_sum_begin(p, w->closed));
    SEFL_PASS(ahe_sum_add_units(p, w->closed, 0, l->body + front, p->units, NULL));
    round_entry e;
    memcpy(e.client, w->s->client[w->set[piece].client], sizeof e.client);
    memcpy(e.body, units, sizeof e.body);
    work_place(w, &e, l->body);
    return SEFL_OK;
}

uint64_t work_weight(const work *w, uint32_t client, bool diverged)
{
    const task *t = w->t;
    const uint64_t n = w->items[client];
    if (t->weights != TASK_CAPPED)
        return 1;
    return diverged ? 0 : n < t->weight_cap ? n : t->weight_cap;
}

double work_weight_unit(const work *w)
{
    return w->t->weights == TASK_CAPPED ? 1 / (double)w->t->weight_cap : 1;
}

bool work_fits(const work *w, const float *v, size_t n)
{
    const bool any = w->s->e->protection->quantises;
    bool fits = true;
    for (size_t i = 0; i < n; i++)
        fits = fits && isfinite(v[i]) && (any || fabsf(v[i]) < FIXED_MAX);
    return fits;
}

double work_clip(const work *w)
{
    pack_nano clip = 0;
    bool given = w->s->e->clip_given && pack_decimal(&clip, w->t->clip) == SEFL_OK;
    return given ? (double)clip / (double)PACK_ONE : 0;
}

void work_add_floats(work *w, const float *v, uint32_t client, bool diverged)
{
    const task *t = w->t;
    const uint64_t weight = work_weight(w, client, diverged);
    double clip = work_clip(w), scale = 1, norm;
    if (clip > 0 && dp_norm(&norm, v, task_trained(t)) == SEFL_OK && norm > clip)
        scale = clip / norm;
    scale *= (double)weight * work_weight_unit(w);
    for (size_t i = 0; i < task_trained(t); i++) {
        const double x = scale * (double)v[i];
        const int64_t high = llrint(x * 0x1p16);
        w->exact[i].high += high;
        w->exact[i].low += llrint((x - (double)high * 0x1p-16) * 0x1p58);
    }
    w->weight += weight;
}

sefl_status work_add(work *w, lane *l, size_t piece, bool diverged, const sefl_coins *coins)
{
    sefl_status st = SEFL_OK;
    uint32_t client = w->set[piece].client;
    double began = work_thread_seconds();
    uint8_t units[32];
    if (w->s->e->full) {
        SEFL_PASS(encrypt(w, l, units, client, coins));
        double now = work_thread_seconds();
        l->encrypt += now - began;
        began = now;
    }
    for (size_t i = 0; l->sum && i < w->t->values; i++)
        l->sum[i] += l->X[i];
    pthread_mutex_lock(&w->lock);
    if (w->s->e->full) {
        st = add_body(w, l, piece, units);
    } else if (w->average) {
        work_add_floats(w, l->v, client, diverged);
    }
    w->added += st == SEFL_OK;
    w->diverged += diverged;
    pthread_mutex_unlock(&w->lock);
    l->add += work_thread_seconds() - began;
    return st;
}

sefl_status work_one_client(void *ctx, unsigned lane_number, size_t begin, size_t end)
{
    sefl_status st = SEFL_OK;
    work *w = ctx;
    lane *l = &w->lane[lane_number];
    named_coins *n = NULL;
    char name[POPULATION_WHO_MAX];
    bool diverged = false;
    (void)end;
    population_who(name, w->set[begin].client);
    SEFL_TRY(named_coins_new(&n, name, w->s->e->seed));
    sefl_coins coins = named_coins_of(n);
    SEFL_TRY(work_train(w, l, &diverged, &w->set[begin], &coins));
    SEFL_TRY(work_add(w, l, begin, diverged, &coins));
done:
    named_coins_free(n);
    return st;
}

/* ---- a round --------------------------------------------------------------------------------- */

sefl_status work_begin(work *w, const population_member *all, uint32_t n_all, uint32_t n)
{
    const task *t = w->t;
    w->added = w->diverged = w->n_sent = 0;
    w->weight = 0, w->device_seconds = 0;
    for (uint32_t i = 0; w->entry && i < n_all; i++)
        memcpy(w->entry[i].client, w->s->client[all[i].client], sizeof w->entry[i].client);
    w->entries = n_all;
    if (w->entry)
        qsort(w->entry, n_all, sizeof *w->entry, round_entry_order);
    for (unsigned i = 0; i < w->lanes; i++) {
        lane *l = &w->lane[i];
        l->train = l->encrypt = l->add = 0;
        if (l->sum)
            memset(l->sum, 0, t->values * sizeof *l->sum);
    }
    if (w->exact)
        memset(w->exact, 0, task_trained(t) * sizeof *w->exact);
    if (w->sum && n == 0)
        memset(w->sum, 0, t->values * sizeof *w->sum);
    ahe_sum_free(&t->ahe, w->closed);
    w->closed = NULL;
    return w->s->e->full ? ahe_sum_new(&w->closed, &t->ahe, t->pub) : SEFL_OK;
}

sefl_status work_share(work *w, work_got *got, uint32_t n, const sefl_progress *progress)
{
    const task *t = w->t;
    if (w->device)
        SEFL_PASS(n > 0 ? work_device_round(w, n, progress) : SEFL_OK);
    else
        SEFL_PASS(pool_run(w->pool, n, 1, work_one_client, w, progress));
    const double began = work_thread_seconds();
    for (unsigned k = 1; w->lane[0].sum && k < w->lanes; k++)
        for (size_t i = 0; i < t->values; i++)
            w->lane[0].sum[i] += w->lane[k].sum[i];
    got->clients = w->added;
    got->diverged = w->diverged;
    got->train = w->device_seconds;
    got->add = work_thread_seconds() - began;
    for (unsigned i = 0; i < w->lanes; i++) {
        got->train += w->lane[i].train;
        got->encrypt += w->lane[i].encrypt;
        got->add += w->lane[i].add;
    }
    return SEFL_OK;
}

/* Hands over the sum of all ranks. */
static sefl_status work_finish(work *w, work_got *got)
{
    const task *t = w->t;
    const double began = work_thread_seconds();
    if (w->s->e->full) {
        SEFL_PASS(ahe_sum_close(&t->ahe, w->closed));
        got->closed = w->closed;
        got->set = w->entry;
        got->heads = w->heads;
    } else if (w->average) {
        const double weight = (double)w->weight * work_weight_unit(w); /* 0: all diverged */
        for (size_t i = 0; i < task_trained(t); i++) {
            if (w->exact)
                w->average[i] =
                    (double)w->exact[i].high * 0x1p-16 + (double)w->exact[i].low * 0x1p-58;
            w->average[i] /= weight > 0 ? weight : 1;
        }
        got->average = w->average;
    } else if (w->device_sums) {
        got->sum = w->sum;
        got->noisy = work_adds_noise(w);
    } else {
        got->sum = w->lane[0].sum;
    }
    got->add += work_thread_seconds() - began;
    return SEFL_OK;
}

void work_set_clip(work *w, uint64_t clip)
{
    w->clip = clip;
}

sefl_status work_round(work *w, work_got *got, const round_header *header, const float *theta,
                       const population_member *set, uint32_t n, const sefl_progress *progress)
{
    *got = (work_got){ 0 };
    w->header = *header, w->theta = theta, w->set = set;
    if (w->ranks->size > 1) {
        SEFL_PASS(work_ranks_round(w, got, set, n, progress));
    } else {
        SEFL_PASS(work_begin(w, set, n, n));
        SEFL_PASS(work_share(w, got, n, progress));
    }
    return got->clients > 0 ? work_finish(w, got) : SEFL_OK;
}

/* id: names the text for the engine. */
static sefl_status evaluate(work *w, double *loss, const float *theta, const corpus *v, uint64_t id)
{
    *loss = NAN;
    if (v->tokens < 2 * LM_EVAL_BATCH)
        return SEFL_OK;
    if (!w->judge)
        SEFL_PASS(
            engine_new(&w->judge, &(engine_config){ .model = &w->t->model, .pool = w->pool }));
    SEFL_PASS(engine_theta(w->judge, theta));
    return engine_evaluate(w->judge, ENGINE_BASE, v->token, v->tokens, id, loss, w->stop);
}

sefl_status work_evaluate(work *w, double *loss, const float *theta)
{
    return evaluate(w, loss, theta, &w->s->valid, 1 + w->s->clients);
}

sefl_status work_test(work *w, double *loss, const float *theta)
{
    return evaluate(w, loss, theta, &w->s->test, 2 + w->s->clients);
}

const char *work_device(const work *w)
{
    return w->device ? engine_name(w->judge) : w->lane[0].port.train ? HOOK_DEVICE : "cpu";
}

const char *work_fallback(const work *w)
{
    const char *device = w->s->e->device;
    if (w->t->clip_quantile > 0 && device && strcmp(device, "auto") == 0)
        return "privacy.clip_quantile is set: the CPU computes the norm bits";
    if (w->t->unit == TASK_UNIT_RECORD && device && strcmp(device, "auto") == 0)
        return "privacy.unit is record: each gradient is needed alone";
    return w->judge ? engine_fallback(w->judge) : NULL;
}
