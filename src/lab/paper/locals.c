#include "paper/locals.h"

#include "base/alloc.h"
#include "fed/fed_train.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SLOTS_MAX = 64 };

static sefl_status open_federation(locals *l, const locals_size *z, unsigned block)
{
    char text[PATH_MAX];
    settings_init(&l->set, experiment_schema());
    SEFL_PASS(paper_text(text, l->o));
    if (*text) {
        SEFL_PASS(settings_setf(&l->set, "sefl paper", "data.path=%s", text));
        SEFL_PASS(paper_set(&l->set, "data.public=true data.partition=contiguous"));
    }
    SEFL_PASS(paper_set(&l->set, "protection=none seed=%d %s", LOCALS_SEED, z->set));
    if (block > 0)
        SEFL_PASS(paper_set(&l->set, "model.block=%u", block));
    SEFL_PASS(experiment_make(&l->e, &l->set));
    return federation_new(
        &l->f,
        &(federation_config){ .experiment = &l->e, .settings = &l->set, .stop = l->o->stop });
}

sefl_status locals_open(locals *l, const paper_options *o, const locals_size *z, unsigned order,
                        uint32_t block)
{
    sefl_status st = SEFL_OK;
    *l = (locals){ .o = o };
    SEFL_TRY(open_federation(l, z, order));
    l->t = l->f->task;
    l->t.model.block = l->t.model.block_embed = l->t.model.block_decoder = block;
    l->t.layout = (layout){ 0 };
    SEFL_TRY(lm_config_layout(&l->t.model, &l->t.layout));
    l->params = l->t.params = l->t.values = l->t.layout.count;
    SEFL_TRY(pool_new(&l->pool, o->threads));
    SEFL_TRY(
        engine_new(&l->engine,
                   &(engine_config){ .device = o->device,
                                     .model = &l->t.model,
                                     .optim = l->t.optim,
                                     .slots = l->f->clients < SLOTS_MAX ? l->f->clients : SLOTS_MAX,
                                     .pool = l->pool }));
    l->slots = engine_get_facts(l->engine)->slots;
    SEFL_TRY(sefl_new(&l->done, l->slots, sizeof *l->done));
    SEFL_TRY(sefl_new(&l->update, l->params, sizeof *l->update));
done:
    return st;
}

void locals_close(locals *l)
{
    engine_free(l->engine);
    pool_free(l->pool);
    sefl_free(l->done);
    sefl_free(l->update);
    layout_clear(&l->t.layout);
    federation_free(l->f);
    if (l->set.schema)
        settings_clear(&l->set);
    *l = (locals){ 0 };
}

/* Trains clients [first, first + n), n <= slots. */
static sefl_status some_clients(locals *l, uint64_t round, uint32_t first, uint32_t n,
                                locals_fn *each, void *ctx)
{
    for (uint32_t i = 0; i < n; i++) {
        train_steps steps = client_train_steps(&(train_job){ .task = &l->t,
                                                             .round = round,
                                                             .text = &l->f->text[first + i],
                                                             .client = l->f->client[first + i] });
        steps.text = 1 + (uint64_t)first + i;
        SEFL_PASS(engine_start(l->engine, i, &steps));
    }
    memset(l->done, 0, n * sizeof *l->done);
    SEFL_PASS(engine_train(l->engine, n, l->done, l->o->stop));
    for (uint32_t i = 0; i < n; i++) {
        SEFL_NEED(!l->done[i].diverged, SEFL_ERANGE, "round %" PRIu64 ": client %u diverged", round,
                  first + i + 1);
        SEFL_PASS(
            engine_read(l->engine, i, ENGINE_DELTA, l->update, l->params * sizeof *l->update));
        for (size_t k = 0; k < l->params; k++)
            SEFL_NEED(isfinite(l->update[k]), SEFL_ERANGE, "round %" PRIu64 ": client %u diverged",
                      round, first + i + 1);
        SEFL_PASS(each(ctx, first + i, l->update));
    }
    return SEFL_OK;
}

sefl_status locals_round(locals *l, uint64_t round, const float *theta, locals_fn *each, void *ctx)
{
    SEFL_PASS(engine_theta(l->engine, theta));
    for (uint32_t i = 0; i < l->f->clients; i += l->slots) {
        uint32_t left = l->f->clients - i;
        SEFL_PASS(some_clients(l, round, i, left < l->slots ? left : l->slots, each, ctx));
    }
    return SEFL_OK;
}

sefl_status locals_perplexity(locals *l, double *out, const float *theta)
{
    const corpus *v = &l->f->valid;
    double loss;
    SEFL_PASS(engine_theta(l->engine, theta));
    SEFL_PASS(engine_evaluate(l->engine, ENGINE_BASE, v->token, v->tokens,
                              1 + (uint64_t)l->f->clients, &loss, l->o->stop));
    *out = exp(loss);
    return SEFL_OK;
}

void compress_project(const layout *l, float *v, const float *dense)
{
    for (const layout_tensor *t = l->tensor; t < l->tensor + l->n; t++)
        layout_project(t, v + t->offset, dense + t->dense_offset);
}

void compress_fold(const layout *l, float *v, const float *dense)
{
    memset(v, 0, l->count * sizeof *v);
    for (const layout_tensor *t = l->tensor; t < l->tensor + l->n; t++) {
        const bhm s = layout_matrix(t);
        bhm_fold(s, v + t->offset, dense + t->dense_offset, s.cols, 0, s.rows);
    }
}

double compress_norm(const float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    return sqrt(sum);
}

bool locals_has_gpu(const paper_options *o)
{
    const lm_config tiny = {
        .vocab = 16, .embed = 8, .hidden = 8, .layers = 1, .batch = 2, .steps = 2
    };
    engine *e = NULL;
    if (!o->device || strcmp(o->device, "cpu") == 0)
        return false;
    bool gpu = engine_new(&e, &(engine_config){ .device = o->device, .model = &tiny }) == SEFL_OK &&
               engine_is_device(e);
    engine_free(e);
    return gpu;
}
