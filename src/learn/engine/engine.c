#include "model/engine/engine.h"

#include "base/alloc.h"
#include "model/engine/engine_inside.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void note(const char *message)
{
    sefl_note("%s", message);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Memory that engine_setup points to during the call. */
typedef struct plan {
    layout params;
    engine_param *out;
    float *positions;
} plan;

static void plan_clear(plan *p)
{
    layout_clear(&p->params);
    sefl_free(p->out);
    sefl_free(p->positions);
}

static sefl_status describe(engine_setup *s, plan *p, const lm_config *m, const optim_config *o)
{
    SEFL_PASS(lm_config_layout(m, &p->params));
    SEFL_PASS(sefl_new(&p->out, p->params.n, sizeof *p->out));
    for (size_t i = 0; i < p->params.n; i++) {
        const layout_tensor *from = &p->params.tensor[i];
        const bhm shape = layout_matrix(from);
        p->out[i] = (engine_param){ .offset = from->offset,
                                    .count = from->count,
                                    .rows = shape.rows,
                                    .cols = shape.cols,
                                    .block = shape.block };
    }
    const lm_body_kind body = lm_body_named(m->body);
    if (lm_body_facts_of(body)->positions) {
        SEFL_PASS(sefl_new(&p->positions, (size_t)m->steps * m->embed, sizeof *p->positions));
        for (size_t i = 0; i < (size_t)m->steps * m->embed; i++)
            p->positions[i] = (float)lm_position(i / m->embed, i % m->embed, m->embed);
    }
    *s = (engine_setup){ .body = body,
                         .vocab = m->vocab,
                         .embed = m->embed,
                         .hidden = m->hidden,
                         .layers = m->layers,
                         .heads = m->heads,
                         .tied = m->tied,
                         .batch = m->batch,
                         .steps = m->steps,
                         .param = p->out,
                         .params = (uint32_t)p->params.n,
                         .count = p->params.count,
                         .optimiser = o->kind,
                         .momentum = o->momentum,
                         .beta1 = o->beta1,
                         .beta2 = o->beta2,
                         .epsilon = o->epsilon,
                         .weight_decay = o->weight_decay,
                         .positions = p->positions,
                         .note = note };
    return SEFL_OK;
}

static sefl_status open_on(engine *e, const engine_ops *ops, const engine_cpu_setup *setup)
{
    void *self = NULL;
    SEFL_PASS(ops->open(&self, &setup->setup, &e->facts));
    e->ops = ops;
    e->self = self;
    return SEFL_OK;
}

static sefl_status open_device(engine *e, const engine_cpu_setup *setup)
{
    const engine_ops *ops;
    SEFL_NEED(!e->model.only || !*e->model.only, SEFL_EUNSUPPORTED,
              "a GPU trains all tensors: with training.only, train on the CPU");
    SEFL_PASS(engine_plugin(&ops));
    return open_on(e, ops, setup);
}

/* Returns the index of a word in a list; -1: it is not there. */
static int index_of(const char *word, const char *list)
{
    size_t n = strlen(word);
    for (int i = 0; n > 0 && *list; i++, list += strcspn(list, " "), list += *list == ' ')
        if (strcspn(list, " ") == n && memcmp(list, word, n) == 0)
            return i;
    return -1;
}

sefl_status engine_new(engine **out, const engine_config *cfg)
{
    const char *device = cfg->device ? cfg->device : "cpu";
    const char *precision = cfg->precision ? cfg->precision : "bf16";
    const int kind = index_of(precision, ENGINE_PRECISIONS);
    engine_cpu_setup setup = { .optim = cfg->optim, .pool = cfg->pool };
    plan p = { 0 };
    SEFL_MAKE(engine, e, out);
    SEFL_CHECK(index_of(device, ENGINE_DEVICES) >= 0, SEFL_EINVAL,
               "device \"%.32s\": must be cpu, cuda or auto", device);
    SEFL_CHECK(kind >= 0, SEFL_EINVAL, "precision \"%.32s\": must be one of: %s", precision,
               ENGINE_PRECISIONS);
    e->model = *cfg->model;
    SEFL_TRY(lm_config_check(&e->model));
    setup.model = &e->model;
    e->optim = cfg->optim;
    optim_config rates = optim_filled(&cfg->optim);
    SEFL_TRY(describe(&setup.setup, &p, &e->model, &rates));
    setup.setup.slots = cfg->slots ? cfg->slots : 1;
    setup.setup.number = cfg->number;
    setup.setup.precision = (uint32_t)kind;
    e->count = setup.setup.count;
    e->state_n = lm_state_count(&e->model);
    e->optim_n = optim_state_count(e->optim.kind, e->count);
    if (strcmp(device, "cpu") != 0) {
        st = open_device(e, &setup);
        if (st != SEFL_OK && strcmp(device, "cuda") == 0)
            SEFL_TRY(sefl_at(st, "device cuda"));
        if (st != SEFL_OK)
            snprintf(e->fallback, sizeof e->fallback, "%s", sefl_last_error());
    }
    if (!e->ops)
        SEFL_TRY(open_on(e, &engine_cpu, &setup));
    SEFL_TRY(sefl_new(&e->limit, e->facts.slots, sizeof *e->limit));
    if (engine_is_device(e))
        snprintf(e->name, sizeof e->name, "%.95s, %s", e->facts.device, precision);
    else
        snprintf(e->name, sizeof e->name, "cpu");
    *out = e, e = NULL;
done:
    plan_clear(&p);
    engine_free(e);
    return st;
}

void engine_free(engine *e)
{
    if (!e)
        return;
    if (e->ops)
        e->ops->close(e->self);
    sefl_free(e->limit);
    sefl_free(e);
}

const engine_facts *engine_get_facts(const engine *e)
{
    return &e->facts;
}

bool engine_is_device(const engine *e)
{
    return e->ops != &engine_cpu;
}

const char *engine_name(const engine *e)
{
    return e->name;
}

const char *engine_fallback(const engine *e)
{
    return *e->fallback ? e->fallback : NULL;
}

size_t engine_count(const engine *e)
{
    return e->count;
}

/* ---- the table ------------------------------------------------------------------------------- */

sefl_status engine_theta(engine *e, const float *theta)
{
    return e->ops->theta(e->self, theta);
}

sefl_status engine_start(engine *e, uint32_t slot, const train_steps *how)
{
    train_steps filled = *how;
    assert(slot < e->facts.slots);
    SEFL_PASS(train_steps_fill(&filled, &e->model, &e->optim));
    e->limit[slot] = how->limit;
    return e->ops->start(e->self, slot, &filled);
}

sefl_status engine_run(engine *e, uint32_t slots, uint64_t steps, engine_progress *out)
{
    assert(slots <= e->facts.slots);
    return e->ops->run(e->self, slots, steps, out);
}

sefl_status engine_read(engine *e, uint32_t slot, uint32_t part, void *out, size_t bytes)
{
    return e->ops->read(e->self, slot, part, out, bytes);
}

sefl_status engine_write(engine *e, uint32_t slot, uint32_t part, const void *in, size_t bytes)
{
    return e->ops->write(e->self, slot, part, in, bytes);
}

sefl_status engine_train(engine *e, uint32_t n, engine_progress *out, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    engine_progress *now = NULL;
    uint64_t done, total = 0, piece = engine_is_device(e) ? ENGINE_PIECE : 1;
    bool more = true;
    SEFL_TRY(sefl_new(&now, n, sizeof *now));
    memset(out, 0, n * sizeof *out);
    for (uint32_t i = 0; i < n; i++)
        total += e->limit[i];
    while (more) {
        SEFL_TRY(engine_run(e, n, piece, now));
        more = false, done = 0;
        for (uint32_t i = 0; i < n; i++) {
            now[i].words += out[i].words;
            now[i].loss += out[i].loss;
            if (now[i].at.done == out[i].at.done) /* made no step: keep the norm of its last step */
                now[i].norm = out[i].norm;
            out[i] = now[i];
            more = more || !(out[i].finished || out[i].diverged);
            done += out[i].at.done;
        }
        SEFL_CHECK(progress_report(progress, done, total), SEFL_ECANCELLED, "stopped");
    }
done:
    sefl_free(now);
    return st;
}

sefl_status engine_evaluate(engine *e, uint32_t slot, const uint32_t *words, size_t n,
                            uint64_t text, double *mean, const sefl_progress *progress)
{
    double loss = 0;
    uint64_t counted = 0;
    SEFL_NEED(n >= 2 * LM_EVAL_BATCH, SEFL_EINVAL,
              "%zu words are too few to evaluate: needs at least %d", n, 2 * LM_EVAL_BATCH);
    if (engine_is_device(e))
        SEFL_PASS(e->ops->evaluate(e->self, slot, words, n, text, &loss, &counted));
    else
        SEFL_PASS(engine_cpu_evaluate(e->self, slot, words, n, &loss, &counted, progress));
    *mean = loss / (double)counted;
    return SEFL_OK;
}

bool engine_can_sum(const engine *e)
{
    return e->ops->sum_begin && e->ops->sum_add && e->ops->sum_noise && e->ops->sum_end;
}

sefl_status engine_sum_begin(engine *e, const engine_sum *how)
{
    return e->ops->sum_begin(e->self, how);
}

sefl_status engine_sum_add(engine *e, const engine_share *share, uint32_t n)
{
    return e->ops->sum_add(e->self, share, n);
}

sefl_status engine_sum_noise(engine *e, const engine_noise *how)
{
    return e->ops->sum_noise(e->self, how);
}

sefl_status engine_sum_end(engine *e, void *out, size_t bytes)
{
    return e->ops->sum_end(e->self, out, bytes);
}

sefl_status engine_times(engine *e, bool on, engine_time *out, uint32_t *n)
{
    if (e->ops->times)
        return e->ops->times(e->self, on, out, n);
    *n = 0;
    return SEFL_OK;
}
