#include "cli/full/fedavg.h"

#include "base/alloc.h"
#include "model/corpus/corpus.h"
#include "model/file/model_file.h"
#include "roles/client/text.h"
#include "roles/client/train.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct lane {
    lm *m;
} lane;

typedef struct average {
    const fedavg_config *c;
    const task *t;
    uint64_t round;
    vocab *words;
    corpus valid, *text; /* clients of them */
    lm *judge;
    lane *model; /* one a thread */
    unsigned lanes;
    float *theta;
    float *change; /* clients x params: each one's theta after training, less theta */
    pool *threads;
} average;

static sefl_status path_in(char out[PATH_MAX], const average *a, const char *name)
{
    return snprintf(out, PATH_MAX, "%s/%s", a->c->folder, name) < PATH_MAX
               ? SEFL_OK
               : sefl_fail(SEFL_EINVAL, "%.64s...: the path is too long", a->c->folder);
}

static sefl_status read_text(average *a)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX], name[64];
    int width = a->c->clients < 100 ? 2 : a->c->clients < 1000 ? 3 : 4;
    SEFL_TRY(path_in(path, a, "public/vocab.txt"));
    SEFL_TRY(vocab_read(&a->words, path, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    SEFL_TRY(path_in(path, a, "public/valid.txt"));
    SEFL_TRY(corpus_read(&a->valid, a->words, &(corpus_file){ .path = path }, NULL));
    SEFL_TRY(sefl_new(&a->text, a->c->clients, sizeof *a->text));
    for (uint32_t i = 0; i < a->c->clients; i++) {
        snprintf(name, sizeof name, "clients/client-%0*" PRIu32 "/text", width, i + 1);
        SEFL_TRY(path_in(path, a, name));
        SEFL_TRY(client_text_read(&a->text[i], a->words, &(corpus_file){ .path = path }, NULL));
    }
done:
    return st;
}

static sefl_status open_models(average *a)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX];
    model_meta meta;
    size_t count = 0;
    SEFL_TRY(path_in(path, a, "public/init.safetensors"));
    SEFL_TRY(model_read(&meta, &a->theta, &count, path));
    SEFL_CHECK(count == a->t->params, SEFL_EPROTO, "%s: %zu values, the task says %zu", path, count,
               a->t->params);
    SEFL_TRY(sefl_new(&a->change, a->c->clients * count, sizeof *a->change));
    SEFL_TRY(lm_new(&a->judge, &a->t->model, NULL));
    a->lanes = pool_threads(a->threads);
    SEFL_TRY(sefl_new(&a->model, a->lanes, sizeof *a->model));
    for (unsigned i = 0; i < a->lanes; i++)
        SEFL_TRY(lm_new(&a->model[i].m, &a->t->model, NULL));
done:
    return st;
}

static sefl_status judge(average *a, double *perplexity)
{
    double mean;
    memcpy(lm_theta(a->judge), a->theta, a->t->params * sizeof *a->theta);
    lm_state_reset(a->judge);
    sefl_status st = lm_evaluate(a->judge, a->valid.token, a->valid.tokens, &mean, NULL);
    *perplexity = st == SEFL_OK ? exp(mean) : NAN;
    return st;
}

static sefl_status train_one(average *a, lm *m, size_t who)
{
    const task *t = a->t;
    float *v = a->change + who * t->params;
    uint8_t name[32] = { (uint8_t)who,
                         (uint8_t)(who >> 8) }; /* dropout's seed depends on it, no more */
    client_train c = { .task = t,
                       .text = &a->text[who],
                       .eos = vocab_eos(a->words),
                       .client = name,
                       .round = a->round,
                       .m = m };
    memcpy(v, a->theta, t->params * sizeof *v);
    memcpy(lm_theta(m), a->theta, t->params * sizeof *v);
    lm_state_reset(m);
    sefl_status st = client_train_local(&c, v);
    return st == SEFL_ERANGE ? SEFL_OK : st; /* diverged: v is zeros, as in the federation */
}

static sefl_status train_some(void *ctx, unsigned which, size_t begin, size_t end)
{
    average *a = ctx;
    sefl_status st = SEFL_OK;
    for (size_t i = begin; i < end; i++)
        SEFL_TRY(train_one(a, a->model[which].m, i));
done:
    return st;
}

static void step(average *a)
{
    size_t n = a->t->params;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < a->c->clients; k++)
            sum += (double)a->change[k * n + i];
        a->theta[i] = (float)((double)a->theta[i] + a->t->server_lr * sum / (double)a->c->clients);
    }
}

sefl_status fedavg_run(fedavg_result *out, const fedavg_config *c, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    average a = { .c = c, .t = c->task };
    SEFL_CHECK(c->task->server == TASK_AVERAGE, SEFL_EUNSUPPORTED,
               "plain averaging has no other server step");
    SEFL_TRY(pool_new(&a.threads, c->threads));
    SEFL_TRY(read_text(&a));
    SEFL_TRY(open_models(&a));
    SEFL_TRY(judge(&a, &out->before));
    for (a.round = 1; a.round <= c->task->rounds; a.round++) {
        SEFL_CHECK(progress_report(progress, a.round - 1, c->task->rounds), SEFL_ECANCELLED,
                   "stopped");
        SEFL_TRY(pool_run(a.threads, c->clients, 1, train_some, &a, NULL));
        step(&a);
    }
    SEFL_TRY(judge(&a, &out->after));
done:
    for (uint32_t i = 0; a.text && i < c->clients; i++)
        corpus_clear(&a.text[i]);
    for (unsigned i = 0; a.model && i < a.lanes; i++)
        lm_free(a.model[i].m);
    sefl_free(a.text);
    sefl_free(a.model);
    sefl_free(a.theta);
    sefl_free(a.change);
    lm_free(a.judge);
    corpus_clear(&a.valid);
    vocab_free(a.words);
    pool_free(a.threads);
    return st;
}
