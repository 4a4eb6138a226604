#include "cli/full/fedavg.h"

#include "base/alloc.h"
#include "base/file.h"
#include "fed/fed_train.h"
#include "fed/step.h"
#include "protocol/task_model.h"
#include "roles/client/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct plain {
    task task; /* the caller's, but for what is not clipped here */
    uint32_t clients;
    uint64_t round;
    vocab *words;
    corpus *text, valid;
    float *theta, *v; /* v: each client's update */
    double *average;
    step_state step;
    pool *pool;
    engine **e; /* one for each thread */
} plain;

static sefl_status read_folder(plain *p, const char *folder)
{
    char path[PATH_MAX];
    int width = p->clients < 100 ? 2 : p->clients < 1000 ? 3 : 4;
    SEFL_PASS(file_path(path, "%s/public/vocab.txt", folder));
    SEFL_PASS(vocab_read(&p->words, path,
                         &(vocab_settings){ .order = VOCAB_APPEARANCE, .kind = VOCAB_ANY }));
    SEFL_PASS(file_path(path, "%s/public/valid.txt", folder));
    SEFL_PASS(corpus_read(&p->valid, p->words, &(corpus_file){ .path = path }, NULL));
    SEFL_PASS(file_path(path, "%s/public/init.safetensors", folder));
    SEFL_PASS(task_model_read(&p->theta, &p->task, path));
    SEFL_PASS(sefl_new(&p->text, p->clients, sizeof *p->text));
    for (uint32_t i = 0; i < p->clients; i++) {
        SEFL_PASS(file_path(path, "%s/clients/client-%0*" PRIu32 "/text", folder, width, i + 1));
        SEFL_PASS(client_text_read(&p->text[i], p->words, &(corpus_file){ .path = path }, NULL));
    }
    return SEFL_OK;
}

static sefl_status make(plain *p, const fedavg_config *c)
{
    p->task = *c->task;
    p->task.unit = TASK_UNIT_CLIENT; /* nothing is clipped */
    p->task.claim = false;
    p->clients = c->clients;
    const task *t = &p->task;
    SEFL_PASS(read_folder(p, c->folder));
    SEFL_PASS(pool_new(&p->pool, c->threads));
    SEFL_PASS(sefl_new(&p->e, pool_threads(p->pool), sizeof(engine *)));
    for (unsigned i = 0; i < pool_threads(p->pool); i++)
        SEFL_PASS(engine_new(&p->e[i], &(engine_config){ .model = &t->model, .optim = t->optim }));
    SEFL_PASS(sefl_new(&p->v, p->clients * t->params, sizeof *p->v));
    SEFL_PASS(sefl_new(&p->average, task_trained(t), sizeof *p->average));
    return step_new(&p->step, t);
}

static sefl_status fedavg_train(void *ctx, unsigned lane, size_t begin, size_t end)
{
    plain *p = ctx;
    const task *t = &p->task;
    for (size_t i = begin; i < end; i++) {
        float *v = p->v + i * t->params;
        /* only the seed of dropout depends on the name */
        const uint8_t client[32] = { (uint8_t)i, (uint8_t)(i >> 8) };
        SEFL_PASS(engine_theta(p->e[lane], p->theta));
        sefl_status st = client_train_local(&(train_job){ .task = t,
                                                          .round = p->round,
                                                          .attempt = 1,
                                                          .client = client,
                                                          .theta = p->theta,
                                                          .text = &p->text[i],
                                                          .eos = vocab_eos(p->words) },
                                            p->e[lane], v);
        if (st != SEFL_ERANGE) /* diverged: zeros */
            SEFL_PASS(st);
        layout_select(&t->layout, v, v);
    }
    return SEFL_OK;
}

/* Adds the updates in the clients' order, so that the sum does not depend on the threads. */
static sefl_status run_round(plain *p)
{
    const task *t = &p->task;
    const size_t n = task_trained(t);
    double all = 0;
    SEFL_PASS(pool_run(p->pool, p->clients, 1, fedavg_train, p, NULL));
    memset(p->average, 0, n * sizeof *p->average);
    for (uint32_t i = 0; i < p->clients; i++) {
        const uint64_t words = p->text[i].tokens, cap = t->weight_cap;
        const double w = t->weights != TASK_CAPPED ? 1 : (double)(words < cap ? words : cap);
        all += w;
        for (size_t k = 0; k < n; k++)
            p->average[k] += w * (double)p->v[i * t->params + k];
    }
    for (size_t k = 0; k < n; k++)
        p->average[k] /= all;
    return step_apply(&p->step, t, p->theta, p->average, NULL);
}

static sefl_status evaluate(const plain *p, double *perplexity)
{
    double loss = NAN;
    SEFL_PASS(engine_theta(p->e[0], p->theta));
    SEFL_PASS(engine_evaluate(p->e[0], ENGINE_BASE, p->valid.token, p->valid.tokens, 1 + p->clients,
                              &loss, NULL));
    *perplexity = exp(loss);
    return SEFL_OK;
}

static void clear(plain *p)
{
    for (unsigned i = 0; p->e && i < pool_threads(p->pool); i++)
        engine_free(p->e[i]);
    for (uint32_t i = 0; p->text && i < p->clients; i++)
        corpus_clear(&p->text[i]);
    sefl_free(p->e), sefl_free(p->text), sefl_free(p->theta), sefl_free(p->v);
    sefl_free(p->average);
    corpus_clear(&p->valid);
    vocab_free(p->words);
    step_clear(&p->step);
    pool_free(p->pool);
}

sefl_status fedavg_run(fedavg_result *out, const fedavg_config *c, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    plain p = { 0 };
    SEFL_TRY(make(&p, c));
    SEFL_TRY(evaluate(&p, &out->before));
    for (p.round = 1; p.round <= p.task.rounds; p.round++) {
        SEFL_CHECK(progress_report(progress, p.round - 1, p.task.rounds), SEFL_ECANCELLED,
                   "stopped");
        SEFL_TRY(run_round(&p));
    }
    SEFL_TRY(evaluate(&p, &out->after));
done:
    clear(&p);
    return st;
}
