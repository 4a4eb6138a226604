#include "roles/client/builtin.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "fed/fed_train.h"

#include <stdio.h>
#include <string.h>

struct builtin {
    builtin_config c;
    char told[160]; /* the device that the log names last */
};

static sefl_status open_engine(builtin *b, engine **out, const train_job *job)
{
    SEFL_PASS(engine_new(out, &(engine_config){ .device = b->c.device,
                                                .precision = b->c.precision,
                                                .model = &job->task->model,
                                                .optim = job->task->optim,
                                                .pool = b->c.pool }));
    const char *name = engine_name(*out), *fallback = engine_fallback(*out);
    if (strcmp(b->told, name) != 0)
        log_info(b->c.log, "trains", lf_str("device", name),
                 lf_if(fallback, lf_str("fallback", fallback)));
    snprintf(b->told, sizeof b->told, "%s", name);
    return engine_theta(*out, job->theta);
}

static sefl_status builtin_train(void *self, const train_job *job, float *v, uint64_t *weight)
{
    sefl_status st = SEFL_OK;
    builtin *b = self;
    engine *e = NULL;
    SEFL_TRY(open_engine(b, &e, job));
    *weight = job->text->tokens;
    SEFL_TRY(client_train_local(job, e, v));
done:
    engine_free(e);
    return st;
}

/* The engine has no gradient of a single record, so records train on the processor. */
static sefl_status open_model(builtin *b, lm **out, const train_job *job)
{
    const char *device = b->c.device;
    if (!b->told[0] && device && strcmp(device, "cpu") != 0)
        log_warn(b->c.log, "trains on the processor", lf_str("device", device),
                 lf_str("why", "the task's unit is a record: each gradient is needed alone"));
    snprintf(b->told, sizeof b->told, "cpu");
    SEFL_PASS(lm_new(out, &job->task->model, b->c.pool));
    memcpy(lm_theta(*out), job->theta, job->task->params * sizeof(nn_real));
    return SEFL_OK;
}

static sefl_status records(void *self, const train_job *job, float *v, int64_t *X, size_t *zeroed,
                           const sefl_rng *coins)
{
    sefl_status st = SEFL_OK;
    builtin *b = self;
    size_t params = job->task->params;
    int64_t *one = NULL;
    lm *m = NULL;
    SEFL_TRY(open_model(b, &m, job));
    SEFL_TRY(sefl_new(&one, params, sizeof *one));
    SEFL_TRY(client_train_records(job, m, X, zeroed, one, v, coins));
done:
    lm_free(m); /* wipes its memory */
    sefl_free_secret(one, one ? params * sizeof *one : 0);
    return st;
}

sefl_status builtin_new(builtin **out, const builtin_config *c)
{
    builtin *b = NULL;
    const task *t = c->task;
    uint8_t hash[SHA256_BYTES];
    *out = NULL;
    vocab_hash(c->words, hash);
    SEFL_NEED(memcmp(hash, t->vocab_hash, SHA256_BYTES) == 0, SEFL_EAUTH,
              "the words are not the task's vocabulary (different SHA-256)");
    SEFL_NEED(vocab_size(c->words) == t->model.vocab, SEFL_EPROTO,
              "the vocabulary has %u words, the task's model %u", vocab_size(c->words),
              t->model.vocab);
    SEFL_NEED(c->text->tokens >= 2 && c->text->docs >= 1, SEFL_EINVAL,
              "the text has fewer than two words: too short to train on");
    SEFL_NEED(t->unit == TASK_UNIT_RECORD || t->local_epochs || t->local_steps, SEFL_EINVAL,
              "the task sets neither local epochs nor local steps");
    SEFL_PASS(sefl_new(&b, 1, sizeof *b));
    b->c = *c;
    *out = b;
    return SEFL_OK;
}

void builtin_free(builtin *b)
{
    sefl_free(b);
}

train_port builtin_port(builtin *b)
{
    return (train_port){ .self = b, .train = builtin_train, .records = records };
}
