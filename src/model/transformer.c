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

static sefl_status check(const lm_config *cfg)
{
    SEFL_NEED(cfg->embed % cfg->heads == 0, SEFL_EINVAL,
              "transformer: %u heads do not divide an embedding of %u", cfg->heads, cfg->embed);
    /* BLAS counts in int: the stride between steps of one column must fit */
    SEFL_NEED(
        (uint64_t)(cfg->batch > LM_EVAL_BATCH ? cfg->batch : LM_EVAL_BATCH) * 3 * cfg->embed <=
            INT32_MAX,
        SEFL_EINVAL, "transformer: batch %u with embedding %u is too wide", cfg->batch, cfg->embed);
    return SEFL_OK;
}

static void params(lm *m)
{
    uint32_t e = m->cfg.embed, f = m->cfg.hidden;
    for (unsigned i = 0; i < m->cfg.layers; i++) {
        lm_layer_tr *l = &m->tr[i];
#define AT "transformer_encoder.layers.%u."
        l->in_w = lm_add_matrix(m, 3 * e, e, AT "self_attn.in_proj_weight", i);
        l->in_b = lm_add_vector(m, 3 * e, AT "self_attn.in_proj_bias", i);
        l->out_w = lm_add_matrix(m, e, e, AT "self_attn.out_proj.weight", i);
        l->out_b = lm_add_vector(m, e, AT "self_attn.out_proj.bias", i);
        l->l1_w = lm_add_matrix(m, f, e, AT "linear1.weight", i);
        l->l1_b = lm_add_vector(m, f, AT "linear1.bias", i);
        l->l2_w = lm_add_matrix(m, e, f, AT "linear2.weight", i);
        l->l2_b = lm_add_vector(m, e, AT "linear2.bias", i);
        l->n1_w = lm_add_vector(m, e, AT "norm1.weight", i);
        l->n1_b = lm_add_vector(m, e, AT "norm1.bias", i);
        l->n2_w = lm_add_vector(m, e, AT "norm2.weight", i);
        l->n2_b = lm_add_vector(m, e, AT "norm2.bias", i);
#undef AT
    }
}

static uint32_t width_out(const lm_config *cfg)
{
    return cfg->embed;
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

static void layout(lm *m, nn_plan *p)
{
    size_t e = m->cfg.embed, f = m->cfg.hidden, t = m->cfg.steps, real = sizeof(nn_real);
    size_t b = m->cfg.batch > LM_EVAL_BATCH ? m->cfg.batch : LM_EVAL_BATCH, n = b * t;
    size_t att = b * m->cfg.heads * t * t;
    for (unsigned i = 0; i < m->cfg.layers; i++) {
        lm_layer_tr *l = &m->tr[i];
        nn_weight_layout(&l->in_proj, m->param[l->in_w].shape, p);
        nn_weight_layout(&l->out_proj, m->param[l->out_w].shape, p);
        nn_weight_layout(&l->linear1, m->param[l->l1_w].shape, p);
        nn_weight_layout(&l->linear2, m->param[l->l2_w].shape, p);
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
    double e = m->cfg.embed, f = m->cfg.hidden;
    for (unsigned i = 0; i < m->cfg.layers; i++) {
        lm_layer_tr *l = &m->tr[i];
        lm_fill_uniform(m, l->in_w, sqrt(6 / (4 * e)), g); /* Xavier: fan in e, out 3e */
        lm_fill_uniform(m, l->in_b, 0, g);
        lm_fill_uniform(m, l->out_w, 1 / sqrt(e), g);
        lm_fill_uniform(m, l->out_b, 0, g);
        lm_fill_uniform(m, l->l1_w, 1 / sqrt(e), g);
        lm_fill_uniform(m, l->l1_b, 1 / sqrt(e), g);
        lm_fill_uniform(m, l->l2_w, 1 / sqrt(f), g);
        lm_fill_uniform(m, l->l2_b, 1 / sqrt(f), g);
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
    const size_t batch = a->pass->batch, steps = a->pass->steps;
    const nn_real scale = (nn_real)(1 / sqrt((double)dim));
    (void)lane;
    for (size_t piece = begin; piece < end; piece++) {
        size_t b = piece / heads, head = piece % heads;
        const nn_real *q = l->qkv + b * 3 * e + head * dim, *key = q + e, *v = q + 2 * e;
        nn_real *att = l->att + piece * steps * steps;
        nn_gemm_1(&(nn_gemm_args){ .tb = true,
                                   .m = steps,
                                   .n = steps,
                                   .k = dim,
                                   .a = q,
                                   .lda = batch * 3 * e,
                                   .b = key,
                                   .ldb = batch * 3 * e,
                                   .c = att,
                                   .ldc = steps });
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
        nn_gemm_1(&(nn_gemm_args){ .m = steps,
                                   .n = dim,
                                   .k = steps,
                                   .a = used,
                                   .lda = steps,
                                   .b = v,
                                   .ldb = batch * 3 * e,
                                   .c = l->ctx + b * e + head * dim,
                                   .ldc = batch * e });
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
        const nn_real *dctx = a->dctx + b * e + head * dim;
        /* datt = dctx v^T, through the dropout; dv = (att * mask)^T dctx */
        nn_gemm_1(&(nn_gemm_args){ .tb = true,
                                   .m = steps,
                                   .n = steps,
                                   .k = dim,
                                   .a = dctx,
                                   .lda = batch * e,
                                   .b = l->qkv + at + 2 * e,
                                   .ldb = ld,
                                   .c = datt,
                                   .ldc = steps });
        softmax_back(datt, att, drop ? l->att_mask + piece * steps * steps : NULL, steps, scale);
        nn_gemm_args g = { .ta = true,
                           .m = steps,
                           .n = dim,
                           .k = steps,
                           .a = att,
                           .lda = steps,
                           .b = dctx,
                           .ldb = batch * e,
                           .c = a->dqkv + at + 2 * e,
                           .ldc = ld };
        nn_gemm_1(&g);
        /* dq = datt k; dk = datt^T q */
        g.a = datt;
        g.b = l->qkv + at, g.ldb = ld;
        g.c = a->dqkv + at + e;
        nn_gemm_1(&g);
        g.ta = false;
        g.b = l->qkv + at + e;
        g.c = a->dqkv + at;
        nn_gemm_1(&g);
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

static sefl_status layer_forward(lm *m, lm_layer_tr *l, lm_pass *pass, nn_real *out)
{
    const size_t e = m->cfg.embed, f = m->cfg.hidden, n = pass->n;
    const size_t att = (size_t)pass->batch * m->cfg.heads * pass->steps * pass->steps;
    nn_norm n1 = norm_of(m, pass, l->n1_w, l->n1_b, l->xhat1, l->rstd1);
    nn_norm n2 = norm_of(m, pass, l->n2_w, l->n2_b, l->xhat2, l->rstd2);
    n1.y = l->y1, n1.x = l->proj, n1.branch = l->x;
    n2.y = out, n2.x = l->out, n2.branch = l->y1;
    nn_weight_begin(&l->in_proj, lm_at(m, l->in_w), lm_grad_at(m, l->in_w));
    nn_weight_begin(&l->out_proj, lm_at(m, l->out_w), lm_grad_at(m, l->out_w));
    nn_weight_begin(&l->linear1, lm_at(m, l->l1_w), lm_grad_at(m, l->l1_w));
    nn_weight_begin(&l->linear2, lm_at(m, l->l2_w), lm_grad_at(m, l->l2_w));

    SEFL_PASS(nn_dropout_draw(m->pool, &pass->drop, l->att_mask, NULL, att));
    SEFL_PASS(nn_linear(&m->work, l->qkv, l->x, n, &l->in_proj, lm_at(m, l->in_b)));
    attention a = { .m = m, .l = l, .pass = pass, .datt = m->tmp3 };
    SEFL_PASS(pool_run(m->pool, (size_t)pass->batch * m->cfg.heads, 1, attend, &a, NULL));
    SEFL_PASS(nn_linear(&m->work, l->proj, l->ctx, n, &l->out_proj, lm_at(m, l->out_b)));
    SEFL_PASS(nn_dropout_draw(m->pool, &pass->drop, l->mask1, l->proj, n * e));
    SEFL_PASS(nn_norm_forward(m->pool, &n1));

    SEFL_PASS(nn_linear(&m->work, l->ff, l->y1, n, &l->linear1, lm_at(m, l->l1_b)));
    SEFL_PASS(nn_relu(m->pool, l->ff, n * f));
    SEFL_PASS(nn_dropout_draw(m->pool, &pass->drop, l->ff_mask, l->ff, n * f));
    SEFL_PASS(nn_linear(&m->work, l->out, l->ff, n, &l->linear2, lm_at(m, l->l2_b)));
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
    SEFL_PASS(
        nn_linear_back(&m->work, wide, &l->linear2, lm_grad_at(m, l->l2_b), branch, l->ff, n));
    SEFL_PASS(nn_relu_back(m->pool, wide, l->ff, drop ? l->ff_mask : NULL, n * f));
    SEFL_PASS(
        nn_linear_back(&m->work, branch, &l->linear1, lm_grad_at(m, l->l1_b), wide, l->y1, n));

    n1.d = d, n1.plus = branch, n1.dbranch = branch, n1.mask = drop ? l->mask1 : NULL;
    SEFL_PASS(nn_norm_backward(m->pool, &n1));
    SEFL_PASS(
        nn_linear_back(&m->work, dctx, &l->out_proj, lm_grad_at(m, l->out_b), branch, l->ctx, n));
    attention a = {
        .m = m, .l = l, .pass = pass, .dqkv = wide, .datt = m->tmp3 + n * e, .dctx = dctx
    };
    SEFL_PASS(pool_run(m->pool, (size_t)pass->batch * m->cfg.heads, 1, attend_back, &a, NULL));
    SEFL_PASS(nn_linear_back(&m->work, branch, &l->in_proj, lm_grad_at(m, l->in_b), wide, l->x, n));
    nn_weight_end(&l->in_proj, lm_grad_at(m, l->in_w));
    nn_weight_end(&l->out_proj, lm_grad_at(m, l->out_w));
    nn_weight_end(&l->linear1, lm_grad_at(m, l->l1_w));
    nn_weight_end(&l->linear2, lm_grad_at(m, l->l2_w));
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

const lm_body lm_body_transformer = { .name = "transformer", .positions = true, LM_BODY_FUNCTIONS };
