/* The Transformer body: sinusoidal positions (added in lm.c), post-norm layers with causal
 * multi-head attention and a ReLU feed-forward part, dropout where PyTorch's
 * TransformerEncoderLayer has it: on attention weights, on both branches, inside the feed-forward.
 *
 *     y1 = norm1(x + drop(attention(x)))      y2 = norm2(y1 + drop(linear2(drop(relu(linear1
 * y1)))))
 *
 * Attention of one column and head is one piece of work. */
#include "model/lm_body.h"

#include "model/nn/kernels.h"

#include <math.h>
#include <string.h>

enum { QKV, PROJ, FF1, FF2, LINEARS };

static size_t params(lm *m, size_t at)
{
    for (unsigned i = 0; i < m->cfg.layers; i++) {
        lm_layer_tr *l = &m->tr[i];
        for (int k = 0; k < LINEARS; k++)
            l->linear[k].w = at++, l->linear[k].b = at++;
        l->n1_w = at++, l->n1_b = at++;
        l->n2_w = at++, l->n2_b = at++;
    }
    return at;
}

static size_t state_size(const lm_config *cfg)
{
    (void)cfg;
    return 0;
}

static double embed_scale(const lm_config *cfg)
{
    return sqrt(cfg->embed);
}

static void plan(lm *m, nn_plan *p)
{
    size_t e = m->cfg.embed, f = m->cfg.hidden, t = m->cfg.steps, real = sizeof(nn_real);
    size_t b = lm_columns(&m->cfg), n = b * t;
    size_t att = b * m->cfg.heads * t * t;
    for (unsigned i = 0; i < m->cfg.layers; i++) {
        lm_layer_tr *l = &m->tr[i];
        for (int k = 0; k < LINEARS; k++)
            nn_weight_layout(&l->linear[k].weight, lm_shape(m, l->linear[k].w), p);
        l->qkv = nn_take(p, n * 3 * e, real);
        l->att = nn_take(p, att, real);
        l->att_mask = nn_take(p, att, real);
        nn_real **wide[] = { &l->x,  &l->ctx, &l->proj,  &l->mask1, &l->xhat1,
                             &l->y1, &l->out, &l->mask2, &l->xhat2 };
        for (size_t k = 0; k < sizeof wide / sizeof wide[0]; k++)
            *wide[k] = nn_take(p, n * e, real);
        l->rstd1 = nn_take(p, n, real);
        l->rstd2 = nn_take(p, n, real);
        l->ff = nn_take(p, n * f, real);
        l->ff_mask = nn_take(p, n * f, real);
    }
    m->tmp1 = nn_take(p, n * (3 * e > f ? 3 * e : f), real);
    m->tmp2 = nn_take(p, n * e, real);
    m->tmp3 = nn_take(p, n * e + att, real);
    m->norm_part = nn_take(p, nn_norm_scratch(n, e), real);
}

static void init(lm *m, seeded *g)
{
    const double e = m->cfg.embed, f = m->cfg.hidden;
    const double range[LINEARS] = { [QKV] = sqrt(6 / (4 * e)), /* Xavier: fan in e, out 3e */
                                    [PROJ] = 1 / sqrt(e),
                                    [FF1] = 1 / sqrt(e),
                                    [FF2] = 1 / sqrt(f) };
    for (unsigned i = 0; i < m->cfg.layers; i++) {
        lm_layer_tr *l = &m->tr[i];
        for (int k = 0; k < LINEARS; k++) {
            lm_fill_uniform(m, l->linear[k].w, range[k], g);
            lm_fill_uniform(m, l->linear[k].b, k < FF1 ? 0 : range[k], g);
        }
        lm_fill_uniform(m, l->n1_b, 0, g);
        lm_fill_uniform(m, l->n2_b, 0, g);
        for (size_t j = 0; j < m->cfg.embed; j++)
            lm_at(m, l->n1_w)[j] = lm_at(m, l->n2_w)[j] = 1;
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct attention {
    lm *m;
    lm_layer_tr *l;
    const lm_pass *pass;
    nn_real *dqkv, *datt; /* backward */
    const nn_real *dctx;
} attention;

/* Pieces are (column, head). */
static sefl_status attend(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const attention *a = ctx;
    const lm_layer_tr *l = a->l;
    const nn_kernels *k = nn_kernels_get();
    const size_t e = a->m->cfg.embed, heads = a->m->cfg.heads, dim = e / heads;
    const size_t batch = a->pass->batch, steps = a->pass->steps, ld = batch * 3 * e;
    const nn_real scale = (nn_real)(1 / sqrt((double)dim));
    (void)lane;
    for (size_t piece = begin; piece < end; piece++) {
        size_t b = piece / heads, head = piece % heads;
        const nn_real *q = l->qkv + b * 3 * e + head * dim, *key = q + e, *v = q + 2 * e;
        nn_real *att = l->att + piece * steps * steps;
        nn_gemm_1(&(nn_gemm_args){ steps, steps, dim, { q, ld }, { key, ld, true }, att, steps });
        for (size_t t = 0; t < steps; t++) {
            nn_real *row = att + t * steps, max, sum;
            for (size_t j = 0; j <= t; j++)
                row[j] *= scale;
            k->softmax_row(row, NULL, t + 1, &max, &sum);
            for (size_t j = 0; j <= t; j++)
                row[j] /= sum;
            memset(row + t + 1, 0, (steps - t - 1) * sizeof *row);
        }
        const nn_real *used = att;
        if (nn_dropout_is_on(
                &a->pass->drop)) { /* the probabilities themselves are needed for backward */
            nn_real *mask = l->att_mask + piece * steps * steps;
            nn_real *tmp = a->datt + piece * steps * steps;
            for (size_t j = 0; j < steps * steps; j++)
                tmp[j] = att[j] * mask[j];
            used = tmp;
        }
        nn_real *to = l->ctx + b * e + head * dim;
        nn_gemm_1(&(nn_gemm_args){ steps, dim, steps, { used, steps }, { v, ld }, to, batch * e });
    }
    return SEFL_OK;
}

/* d: gradient of the dropped-out probabilities p (steps, steps), becomes that of the scores. p then
 * holds what dropout left of it, which dv needs. mask NULL: no dropout. */
static void softmax_back(nn_real *d, nn_real *p, const nn_real *mask, size_t steps, nn_real scale)
{
    for (size_t t = 0; t < steps; t++, d += steps, p += steps) {
        double dot = 0;
        for (size_t j = 0; j <= t; j++) {
            if (mask)
                d[j] *= mask[t * steps + j];
            dot += (double)p[j] * d[j];
        }
        for (size_t j = 0; j <= t; j++) {
            d[j] = p[j] * (d[j] - (nn_real)dot) * scale;
            if (mask)
                p[j] *= mask[t * steps + j];
        }
        memset(d + t + 1, 0, (steps - t - 1) * sizeof *d);
    }
}

static sefl_status attend_back(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const attention *a = ctx;
    const lm_layer_tr *l = a->l;
    const size_t e = a->m->cfg.embed, heads = a->m->cfg.heads, dim = e / heads;
    const size_t batch = a->pass->batch, steps = a->pass->steps, ld = batch * 3 * e;
    const nn_real scale = (nn_real)(1 / sqrt((double)dim));
    const bool drop = nn_dropout_is_on(&a->pass->drop);
    (void)lane;
    for (size_t piece = begin; piece < end; piece++) {
        size_t b = piece / heads, head = piece % heads, at = b * 3 * e + head * dim;
        nn_real *att = l->att + piece * steps * steps;
        nn_real *datt = a->datt + piece * steps * steps;
        const nn_mat dout = { a->dctx + b * e + head * dim, batch * e };
        const nn_real *q = l->qkv + at;
        nn_real *dq = a->dqkv + at;
        /* datt = dctx v^T, through the dropout; dv = (att * mask)^T dctx */
        nn_gemm_1(&(nn_gemm_args){ steps, steps, dim, dout, { q + 2 * e, ld, true }, datt, steps });
        softmax_back(datt, att, drop ? l->att_mask + piece * steps * steps : NULL, steps, scale);
        nn_gemm_1(&(nn_gemm_args){ steps, dim, steps, { att, steps, true }, dout, dq + 2 * e, ld });
        /* dk = datt^T q; dq = datt k */
        nn_gemm_1(
            &(nn_gemm_args){ steps, dim, steps, { datt, steps, true }, { q, ld }, dq + e, ld });
        nn_gemm_1(&(nn_gemm_args){ steps, dim, steps, { datt, steps }, { q + e, ld }, dq, ld });
    }
    return SEFL_OK;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static nn_norm norm_of(lm *m, const lm_pass *pass, size_t gain, size_t shift, nn_real *xhat,
                       nn_real *rstd)
{
    return (nn_norm){ .n = pass->n,
                      .cols = m->cfg.embed,
                      .gain = lm_at(m, gain),
                      .shift = lm_at(m, shift),
                      .dgain = lm_grad_at(m, gain),
                      .dshift = lm_grad_at(m, shift),
                      .xhat = xhat,
                      .rstd = rstd,
                      .part = m->norm_part };
}

static sefl_status linear(lm *m, nn_real *y, const nn_real *x, size_t n, const lm_linear *l)
{
    return nn_linear(&m->work, y, x, n, &l->weight, lm_at(m, l->b));
}

static sefl_status linear_back(lm *m, nn_real *dx, lm_linear *l, const nn_real *dy,
                               const nn_real *x, size_t n)
{
    return nn_linear_back(&m->work, dx, &l->weight, lm_grad_at(m, l->b), dy, x, n);
}

static sefl_status layer_forward(lm *m, lm_layer_tr *l, lm_pass *pass, nn_real *out)
{
    const size_t e = m->cfg.embed, f = m->cfg.hidden, n = pass->n;
    const size_t att = (size_t)pass->batch * m->cfg.heads * pass->steps * pass->steps;
    nn_norm n1 = norm_of(m, pass, l->n1_w, l->n1_b, l->xhat1, l->rstd1);
    nn_norm n2 = norm_of(m, pass, l->n2_w, l->n2_b, l->xhat2, l->rstd2);
    n1.y = l->y1, n1.x = l->proj, n1.branch = l->x;
    n2.y = out, n2.x = l->out, n2.branch = l->y1;
    for (int k = 0; k < LINEARS; k++) {
        size_t w = l->linear[k].w;
        nn_weight_begin(&l->linear[k].weight, lm_at(m, w), lm_grad_at(m, w));
    }

    SEFL_PASS(nn_dropout_draw(m->pool, &pass->drop, l->att_mask, NULL, att));
    SEFL_PASS(linear(m, l->qkv, l->x, n, &l->linear[QKV]));
    attention a = { .m = m, .l = l, .pass = pass, .datt = m->tmp3 };
    SEFL_PASS(pool_run(m->pool, (size_t)pass->batch * m->cfg.heads, 1, attend, &a, NULL));
    SEFL_PASS(linear(m, l->proj, l->ctx, n, &l->linear[PROJ]));
    SEFL_PASS(nn_dropout_draw(m->pool, &pass->drop, l->mask1, l->proj, n * e));
    SEFL_PASS(nn_norm_forward(m->pool, &n1));

    SEFL_PASS(linear(m, l->ff, l->y1, n, &l->linear[FF1]));
    SEFL_PASS(nn_relu(m->pool, l->ff, n * f));
    SEFL_PASS(nn_dropout_draw(m->pool, &pass->drop, l->ff_mask, l->ff, n * f));
    SEFL_PASS(linear(m, l->out, l->ff, n, &l->linear[FF2]));
    SEFL_PASS(nn_dropout_draw(m->pool, &pass->drop, l->mask2, l->out, n * e));
    return nn_norm_forward(m->pool, &n2);
}

/* The gradient of the layer's output is d + plus (NULL: d alone), that of its input d + tmp2. */
static sefl_status layer_backward(lm *m, lm_layer_tr *l, lm_pass *pass, nn_real *d,
                                  const nn_real *plus)
{
    const size_t e = m->cfg.embed, f = m->cfg.hidden, n = pass->n;
    const bool drop = nn_dropout_is_on(&pass->drop);
    nn_real *branch = m->tmp2, *wide = m->tmp1, *dctx = m->tmp3;
    nn_norm n1 = norm_of(m, pass, l->n1_w, l->n1_b, l->xhat1, l->rstd1);
    nn_norm n2 = norm_of(m, pass, l->n2_w, l->n2_b, l->xhat2, l->rstd2);
    n2.d = d, n2.plus = plus, n2.dbranch = branch, n2.mask = drop ? l->mask2 : NULL;
    SEFL_PASS(nn_norm_backward(m->pool, &n2));
    SEFL_PASS(linear_back(m, wide, &l->linear[FF2], branch, l->ff, n));
    SEFL_PASS(nn_relu_back(m->pool, wide, l->ff, drop ? l->ff_mask : NULL, n * f));
    SEFL_PASS(linear_back(m, branch, &l->linear[FF1], wide, l->y1, n));

    n1.d = d, n1.plus = branch, n1.dbranch = branch, n1.mask = drop ? l->mask1 : NULL;
    SEFL_PASS(nn_norm_backward(m->pool, &n1));
    SEFL_PASS(linear_back(m, dctx, &l->linear[PROJ], branch, l->ctx, n));
    attention a = {
        .m = m, .l = l, .pass = pass, .dqkv = wide, .datt = m->tmp3 + n * e, .dctx = dctx
    };
    SEFL_PASS(pool_run(m->pool, (size_t)pass->batch * m->cfg.heads, 1, attend_back, &a, NULL));
    SEFL_PASS(linear_back(m, branch, &l->linear[QKV], wide, l->x, n));
    for (int k = 0; k < LINEARS; k++)
        nn_weight_end(&l->linear[k].weight, lm_grad_at(m, l->linear[k].w));
    return SEFL_OK;
}

static sefl_status forward(lm *m, lm_pass *pass)
{
    memcpy(m->tr[0].x, m->x, pass->n * m->cfg.embed * sizeof(nn_real));
    for (unsigned i = 0; i < m->cfg.layers; i++)
        SEFL_PASS(
            layer_forward(m, &m->tr[i], pass, i + 1 < m->cfg.layers ? m->tr[i + 1].x : m->out));
    return SEFL_OK;
}

static sefl_status backward(lm *m, lm_pass *pass)
{
    for (unsigned i = m->cfg.layers; i-- > 0;)
        SEFL_PASS(
            layer_backward(m, &m->tr[i], pass, m->dout, i + 1 < m->cfg.layers ? m->tmp2 : NULL));
    for (size_t i = 0; i < pass->n * m->cfg.embed; i++)
        m->dx[i] = m->dout[i] + m->tmp2[i];
    return SEFL_OK;
}

const lm_body lm_body_transformer = { LM_BODY_FUNCTIONS };
