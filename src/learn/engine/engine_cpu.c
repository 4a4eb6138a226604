/* The CPU engine: its one slot is a model and its training. */
#include "base/alloc.h"
#include "base/cpu.h"
#include "model/engine/engine_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct cpu {
    pool *pool;
    lm *m;
    float *theta; /* the engine's parameters; the model has the slot's */
    optim_config optim;
    train_run *t; /* NULL: not started */
    uint32_t *words;
    size_t words_cap;
    uint64_t limit;
    bool diverged;
} cpu;

static void cpu_close(void *self)
{
    cpu *c = self;
    if (!c)
        return;
    train_free(c->t);
    sefl_free_secret(c->theta, c->theta ? lm_count(c->m) * sizeof *c->theta : 0);
    sefl_free_secret(c->words, c->words_cap * sizeof *c->words);
    lm_free(c->m);
    sefl_free(c);
}

static sefl_status cpu_open(void **self, const engine_setup *s, engine_facts *facts)
{
    sefl_status st = SEFL_OK;
    cpu *c = NULL;
    const engine_cpu_setup *own = (const void *)s;
    *self = NULL;
    SEFL_TRY(sefl_new(&c, 1, sizeof *c));
    c->pool = own->pool;
    c->optim = own->optim;
    SEFL_TRY(lm_new(&c->m, own->model, c->pool));
    SEFL_TRY(sefl_new(&c->theta, lm_count(c->m), sizeof *c->theta));
    *facts =
        (engine_facts){ .slots = 1, .memory = lm_memory(c->m) + lm_count(c->m) * sizeof *c->theta };
    snprintf(facts->device, sizeof facts->device, "%s", cpu_name());
    *self = c, c = NULL;
done:
    cpu_close(c);
    return st;
}

static sefl_status cpu_theta(void *self, const float *theta)
{
    cpu *c = self;
    memcpy(c->theta, theta, lm_count(c->m) * sizeof *theta);
    return SEFL_OK;
}

static sefl_status cpu_start(void *self, uint32_t slot, const train_steps *how)
{
    cpu *c = self;
    train_steps own = *how;
    (void)slot;
    train_free(c->t);
    c->t = NULL;
    SEFL_PASS(sefl_room(&c->words, &c->words_cap, how->n, sizeof *c->words));
    memcpy(c->words, how->words, how->n * sizeof *c->words);
    own.words = c->words;
    memcpy(lm_theta(c->m), c->theta, lm_count(c->m) * sizeof *c->theta);
    lm_state_reset(c->m);
    SEFL_PASS(train_new(&c->t, c->m, c->pool, &c->optim, &own));
    c->limit = how->limit;
    c->diverged = false;
    return SEFL_OK;
}

static bool finished(const cpu *c)
{
    return c->limit > 0 && train_at(c->t)->done >= c->limit;
}

static engine_cursor cursor(const cpu *c)
{
    const train_cursor *at = train_at(c->t);
    return (engine_cursor){ at->epoch, at->row, at->done, train_optim(c->t)->steps };
}

static sefl_status cpu_run(void *self, uint32_t slots, uint64_t steps, engine_progress *out)
{
    cpu *c = self;
    train_info info;
    if (slots == 0)
        return SEFL_OK;
    *out = (engine_progress){ 0 };
    if (!c->t)
        return SEFL_OK;
    for (uint64_t i = 0; i < steps && !c->diverged && !finished(c); i++) {
        sefl_status st = train_step(c->t, &info);
        c->diverged = st == SEFL_ERANGE;
        if (c->diverged)
            break;
        SEFL_PASS(st);
        out->words += info.words;
        out->loss += info.loss * (double)info.words;
        out->norm = info.norm;
    }
    out->at = cursor(c);
    out->finished = finished(c);
    out->diverged = c->diverged;
    return SEFL_OK;
}

/* Memory of a part. */
typedef struct part {
    void *p;
    size_t bytes;
} part;

static sefl_status part_of(part *out, cpu *c, uint32_t which, size_t bytes)
{
    SEFL_NEED(c->t, SEFL_ESTATE, "engine: the slot has not started");
    const optim *o = train_optim(c->t);
    nn_real *p = lm_theta(c->m);
    size_t n = lm_count(c->m);
    if (which == ENGINE_STATE)
        p = lm_state(c->m, &n);
    else if (which == ENGINE_OPTIM)
        p = o->state, n = o->state_n;
    *out = (part){ p, which == ENGINE_CURSOR ? sizeof(engine_cursor) : n * sizeof *p };
    SEFL_NEED(bytes == out->bytes, SEFL_EINVAL, "engine: part %u has %zu bytes, not %zu", which,
              out->bytes, bytes);
    return SEFL_OK;
}

static sefl_status cpu_read(void *self, uint32_t slot, uint32_t which, void *out, size_t bytes)
{
    cpu *c = self;
    part at;
    (void)slot;
    SEFL_PASS(part_of(&at, c, which, bytes));
    if (which == ENGINE_CURSOR)
        *(engine_cursor *)out = cursor(c);
    else
        memcpy(out, at.p, bytes);
    for (size_t i = 0; which == ENGINE_DELTA && i < lm_count(c->m); i++)
        ((float *)out)[i] -= c->theta[i];
    return SEFL_OK;
}

static sefl_status cpu_write(void *self, uint32_t slot, uint32_t which, const void *in,
                             size_t bytes)
{
    cpu *c = self;
    part at;
    (void)slot;
    SEFL_PASS(part_of(&at, c, which, bytes));
    SEFL_NEED(which != ENGINE_DELTA, SEFL_EINVAL, "engine: a difference cannot be set");
    if (which == ENGINE_CURSOR) {
        const engine_cursor *from = in;
        *train_at(c->t) = (train_cursor){ from->epoch, from->row, from->done };
        train_optim(c->t)->steps = from->optimiser_steps;
    } else {
        memcpy(at.p, in, bytes);
    }
    return SEFL_OK;
}

/* Swaps the engine's and the slot's parameters. */
static void exchange(cpu *c)
{
    nn_real *a = lm_theta(c->m);
    for (size_t i = 0; i < lm_count(c->m); i++) {
        nn_real kept = a[i];
        a[i] = c->theta[i];
        c->theta[i] = kept;
    }
}

sefl_status engine_cpu_evaluate(void *self, uint32_t slot, const uint32_t *words, uint64_t n,
                                double *loss, uint64_t *counted, const sefl_progress *progress)
{
    cpu *c = self;
    double mean = 0;
    SEFL_NEED(c->t || slot == ENGINE_BASE, SEFL_ESTATE, "engine: the slot has not started");
    if (slot == ENGINE_BASE)
        exchange(c);
    sefl_status st = lm_evaluate(c->m, words, n, &mean, progress);
    if (slot == ENGINE_BASE)
        exchange(c);
    SEFL_PASS(st);
    *counted = (n / LM_EVAL_BATCH - 1) * LM_EVAL_BATCH;
    *loss = mean * (double)*counted;
    return SEFL_OK;
}

static sefl_status cpu_evaluate(void *self, uint32_t slot, const uint32_t *words, uint64_t n,
                                uint64_t text, double *loss, uint64_t *counted)
{
    (void)text;
    return engine_cpu_evaluate(self, slot, words, n, loss, counted, NULL);
}

const engine_ops engine_cpu = { .abi = ENGINE_ABI,
                                .size = sizeof(engine_ops),
                                .name = "cpu",
                                .open = cpu_open,
                                .close = cpu_close,
                                .theta = cpu_theta,
                                .start = cpu_start,
                                .run = cpu_run,
                                .read = cpu_read,
                                .write = cpu_write,
                                .evaluate = cpu_evaluate };
