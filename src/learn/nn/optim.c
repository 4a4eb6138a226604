/* Design. Spans are cut into chunks of at most CHUNK values; a chunk is one piece of work. Sums are
 * kept per chunk and added in order. */
#include "model/optim.h"

#include "base/alloc.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { CHUNK = 1 << 15 };

typedef struct optim_chunk {
    lm_span span;
    double sum;
} optim_chunk;

sefl_status optim_init(optim *o, const optim_config *cfg, const layout *l)
{
    sefl_status st = SEFL_OK;
    *o = (optim){ .cfg = optim_filled(cfg),
                  .count = l->count,
                  .state_n = optim_state_count(cfg->kind, l->count) };
    SEFL_TRY(sefl_new(&o->state, o->state_n, sizeof *o->state));
    SEFL_TRY(sefl_new(&o->live, l->n, sizeof *o->live));
    for (layout_range r = { 0 }; layout_next(l, &r);)
        o->live[o->lives++] = (lm_span){ r.model, r.n };
done:
    if (st != SEFL_OK)
        optim_clear(o);
    return st;
}

void optim_clear(optim *o)
{
    sefl_free(o->state);
    sefl_free(o->live);
    sefl_free(o->chunk);
    *o = (optim){ 0 };
}

static sefl_status cut(optim *o, const lm_span *spans, size_t n)
{
    size_t need = 0;
    for (size_t i = 0; i < n; i++) {
        assert(spans[i].offset + spans[i].count <= o->count);
        need += (spans[i].count + CHUNK - 1) / CHUNK;
    }
    SEFL_PASS(sefl_room(&o->chunk, &o->cap, need, sizeof *o->chunk));
    o->chunks = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t at = 0; at < spans[i].count; at += CHUNK) {
            size_t left = spans[i].count - at;
            o->chunk[o->chunks++].span =
                (lm_span){ spans[i].offset + at, left < CHUNK ? left : CHUNK };
        }
    return SEFL_OK;
}

typedef struct job {
    optim *o;
    nn_real *theta;
    const nn_real *grad;
    double lr, scale, m_fix, v_fix;
} job;

static sefl_status norm_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const job *j = ctx;
    (void)lane;
    for (size_t c = begin; c < end; c++) {
        const nn_real *g = j->grad + j->o->chunk[c].span.offset;
        size_t n = j->o->chunk[c].span.count, i = 0;
        double total = 0;
        while (i < n) { /* short float sums in lanes, long ones in double */
            nn_real s[16] = { 0 };
            size_t stop = n - i < 1024 ? n : i + 1024;
            for (; i + 16 <= stop; i += 16)
                for (size_t k = 0; k < 16; k++)
                    s[k] += g[i + k] * g[i + k];
            for (; i < stop; i++)
                s[0] += g[i] * g[i];
            for (size_t k = 0; k < 16; k++)
                total += s[k];
        }
        j->o->chunk[c].sum = total;
    }
    return SEFL_OK;
}

sefl_status optim_norm(optim *o, pool *p, double *norm, const nn_real *grad, const lm_span *spans,
                       size_t n)
{
    job j = { .o = o, .grad = grad };
    double sum = 0;
    *norm = 0;
    SEFL_PASS(cut(o, spans, n));
    SEFL_PASS(pool_run(p, o->chunks, 1, norm_piece, &j, NULL));
    for (size_t i = 0; i < o->chunks; i++)
        sum += o->chunk[i].sum;
    SEFL_NEED(isfinite(sum), SEFL_ERANGE,
              "the gradient is not finite: training has diverged (a smaller learning rate or a "
              "tighter gradient clip may help)");
    *norm = sqrt(sum);
    return SEFL_OK;
}

static sefl_status decay_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const job *j = ctx;
    const nn_real part = (nn_real)(j->lr * j->o->cfg.weight_decay);
    (void)lane;
    for (size_t c = begin; c < end; c++) {
        const lm_span s = j->o->chunk[c].span;
        nn_real *t = j->theta + s.offset;
        for (size_t i = 0; i < s.count; i++)
            t[i] -= part * t[i];
    }
    return SEFL_OK;
}

static void sgd(const job *j, size_t at, size_t n)
{
    nn_real *restrict t = j->theta + at;
    const nn_real *restrict g = j->grad + at;
    const nn_real step = (nn_real)(j->lr * j->scale);
    for (size_t i = 0; i < n; i++)
        t[i] -= step * g[i];
}

static void momentum(const job *j, size_t at, size_t n)
{
    nn_real *restrict t = j->theta + at, *restrict m = j->o->state + at;
    const nn_real *restrict g = j->grad + at;
    const nn_real mu = (nn_real)j->o->cfg.momentum, s = (nn_real)j->scale, lr = (nn_real)j->lr;
    for (size_t i = 0; i < n; i++) {
        m[i] = mu * m[i] + s * g[i];
        t[i] -= lr * m[i];
    }
}

static void adam(const job *j, size_t at, size_t n)
{
    nn_real *restrict t = j->theta + at, *restrict m = j->o->state + at;
    nn_real *restrict v = j->o->state + j->o->count + at;
    const nn_real *restrict g = j->grad + at;
    const nn_real b1 = (nn_real)j->o->cfg.beta1, b2 = (nn_real)j->o->cfg.beta2;
    const nn_real step = (nn_real)(j->lr / j->m_fix), root = (nn_real)(1 / sqrt(j->v_fix));
    const nn_real eps = (nn_real)j->o->cfg.epsilon, s = (nn_real)j->scale;
    for (size_t i = 0; i < n; i++) {
        nn_real d = s * g[i];
        m[i] = b1 * m[i] + (1 - b1) * d;
        v[i] = b2 * v[i] + (1 - b2) * d * d;
        t[i] -= step * m[i] / ((nn_real)sqrt((double)v[i]) * root + eps);
    }
}

#define STEP(NAME, name, vectors) name,
static void (*const steps[])(const job *j, size_t at, size_t n) = { OPTIMISERS(STEP) };

static sefl_status step_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const job *j = ctx;
    (void)lane;
    for (size_t c = begin; c < end; c++) {
        const lm_span s = j->o->chunk[c].span;
        steps[j->o->cfg.kind](j, s.offset, s.count);
    }
    return SEFL_OK;
}

sefl_status optim_step(optim *o, pool *p, nn_real *theta, const nn_real *grad, const lm_span *spans,
                       size_t n, double lr, double scale)
{
    job j = { .o = o, .theta = theta, .grad = grad, .lr = lr, .scale = scale };
    if (o->cfg.weight_decay > 0) {
        SEFL_PASS(cut(o, o->live, o->lives));
        SEFL_PASS(pool_run(p, o->chunks, 1, decay_piece, &j, NULL));
    }
    SEFL_PASS(o->state_n == 0 ? cut(o, spans, n) : cut(o, o->live, o->lives));
    o->steps++;
    j.m_fix = 1 - pow(o->cfg.beta1, (double)o->steps);
    j.v_fix = 1 - pow(o->cfg.beta2, (double)o->steps);
    return pool_run(p, o->chunks, 1, step_piece, &j, NULL);
}
