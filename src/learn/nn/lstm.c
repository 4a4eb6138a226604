/* The LSTM body: gates in PyTorch's order i, f, g, o, two biases per layer, dropout between layers
 * and on the output.
 *
 * Design.
 *  1. All steps' input products are one large product; what remains is the recurrence.
 *  2. Columns of the batch are independent in the recurrence, so NN_ROWS columns at a time run all
 *     steps, forward and backward, as one piece of work: no barrier inside. The recurrent matrix
 *     is packed once per step in panels that stay in the second-level cache.
 *  3. Weight gradients are products over all steps afterwards: dW_hh uses h shifted by one step; h
 *     starts with the carried state, so this is the same array from its first row. */
#include "model/lm_body.h"

#include "model/nn/kernels.h"

#include <math.h>
#include <string.h>

static size_t params(lm *m, size_t at)
{
    for (unsigned i = 0; i < m->cfg.layers; i++) {
        lm_layer_lstm *l = &m->lstm[i];
        l->w_ih = at++, l->w_hh = at++;
        l->b_ih = at++, l->b_hh = at++;
    }
    return at;
}

static size_t state_size(const lm_config *cfg)
{
    return 2 * (size_t)lm_columns(cfg) * cfg->hidden * cfg->layers;
}

static double embed_scale(const lm_config *cfg)
{
    (void)cfg;
    return 1;
}

static size_t panels(size_t n)
{
    return (n + NN_PANEL - 1) / NN_PANEL * NN_PANEL;
}

static void plan(lm *m, nn_plan *p)
{
    size_t h = m->cfg.hidden, b = lm_columns(&m->cfg), n = b * m->cfg.steps, real = sizeof(nn_real);
    for (unsigned i = 0; i < m->cfg.layers; i++) {
        lm_layer_lstm *l = &m->lstm[i];
        nn_weight_layout(&l->ih, lm_shape(m, l->w_ih), p);
        nn_weight_layout(&l->hh, lm_shape(m, l->w_hh), p);
        l->pack = nn_take(p, h * panels(4 * h), real);
        l->pack_back = nn_take(p, 4 * h * panels(h), real);
        l->gates = nn_take(p, n * 4 * h, real);
        l->c = nn_take(p, (n + b) * h, real);
        l->h = nn_take(p, (n + b) * h, real);
        l->tanh_c = nn_take(p, n * h, real);
        l->bias = nn_take(p, 4 * h, real);
        l->mask = nn_take(p, n * h, real);
        if (i > 0)
            l->in = nn_take(p, n * h, real);
    }
    m->tmp1 = nn_take(p, n * h, real); /* gradient that enters a layer from above */
    m->tmp2 = nn_take(p, b * h, real); /* dc */
}

static void init(lm *m, seeded *g)
{
    double range = 1 / sqrt(m->cfg.hidden);
    for (unsigned i = 0; i < m->cfg.layers; i++) {
        lm_layer_lstm *l = &m->lstm[i];
        lm_fill_uniform(m, l->w_ih, range, g);
        lm_fill_uniform(m, l->w_hh, range, g);
        lm_fill_uniform(m, l->b_ih, range, g);
        lm_fill_uniform(m, l->b_hh, range, g);
    }
}

typedef struct recurrence {
    lm *m;
    lm_layer_lstm *l;
    const lm_pass *pass;
    nn_real *dh; /* backward: gradient of h from above, (T*B, H) */
} recurrence;

static sefl_status steps_forward(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const recurrence *r = ctx;
    const lm_layer_lstm *l = r->l;
    const nn_kernels *k = nn_kernels_get();
    const size_t b = r->pass->batch, h = r->m->cfg.hidden, rows = end - begin;
    (void)lane;
    for (size_t t = 0; t < r->pass->steps; t++) {
        size_t at = t * b + begin; /* c and h are shifted by b rows: row `at` is the step before */
        k->panel_mul(l->gates + at * 4 * h, 4 * h, l->h + at * h, h, l->pack, (unsigned)rows, h,
                     4 * h);
        for (size_t i = 0; i < rows; i++, at++)
            k->lstm_cell(l->gates + at * 4 * h, l->c + (at + b) * h, l->tanh_c + at * h,
                         l->h + (at + b) * h, l->c + at * h, h);
    }
    return SEFL_OK;
}

static sefl_status steps_backward(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const recurrence *r = ctx;
    const lm_layer_lstm *l = r->l;
    const nn_kernels *k = nn_kernels_get();
    const size_t b = r->pass->batch, h = r->m->cfg.hidden, rows = end - begin;
    nn_real *dc = r->m->tmp2 + begin * h;
    (void)lane;
    memset(dc, 0, rows * h * sizeof *dc);
    for (size_t t = r->pass->steps; t-- > 0;) {
        size_t at = t * b + begin;
        if (t + 1 < r->pass->steps)
            k->panel_mul(r->dh + at * h, h, l->gates + (at + b) * 4 * h, 4 * h, l->pack_back,
                         (unsigned)rows, 4 * h, h);
        for (size_t i = 0; i < rows; i++, at++)
            k->lstm_cell_back(l->gates + at * 4 * h, dc + i * h, r->dh + at * h, l->tanh_c + at * h,
                              l->c + at * h, h);
    }
    return SEFL_OK;
}

/* b (k x n) at (i, j) = w[j*ld + i] or w[i*ld + j], in panels. */
static void pack_panels(nn_real *to, const nn_real *w, size_t ld, size_t k, size_t n,
                        bool transposed)
{
    for (size_t col = 0; col < n; col += NN_PANEL)
        for (size_t i = 0; i < k; i++)
            for (size_t j = col; j < col + NN_PANEL; j++)
                *to++ = j >= n ? 0 : transposed ? w[j * ld + i] : w[i * ld + j];
}

static sefl_status forward(lm *m, lm_pass *pass)
{
    const size_t h = m->cfg.hidden, b = pass->batch, n = pass->n, row = h * sizeof(nn_real);
    const size_t part = lm_columns(&m->cfg) * h; /* of the state, a layer's c or h */
    for (unsigned i = 0; i < m->cfg.layers; i++) {
        lm_layer_lstm *l = &m->lstm[i];
        nn_real *state = m->state + 2 * i * part;
        const nn_real *b1 = lm_at(m, l->b_ih), *b2 = lm_at(m, l->b_hh);
        nn_weight_begin(&l->ih, lm_at(m, l->w_ih), lm_grad_at(m, l->w_ih));
        nn_weight_begin(&l->hh, lm_at(m, l->w_hh), lm_grad_at(m, l->w_hh));
        pack_panels(l->pack, l->hh.w, h, h, 4 * h, true);
        if (pass->backward_follows)
            pack_panels(l->pack_back, l->hh.w, h, 4 * h, h, false);
        for (size_t j = 0; j < 4 * h; j++)
            l->bias[j] = b1[j] + b2[j];
        memcpy(l->h, state, b * row);
        memcpy(l->c, state + part, b * row);
        if (i == 0)
            l->in = m->x;
        SEFL_PASS(nn_linear(&m->work, l->gates, l->in, n, &l->ih, l->bias));
        recurrence r = { .m = m, .l = l, .pass = pass };
        SEFL_PASS(pool_run(m->pool, b, NN_ROWS, steps_forward, &r, NULL));
        memcpy(state, l->h + n * h, b * row);
        memcpy(state + part, l->c + n * h, b * row);
        nn_real *out = i + 1 < m->cfg.layers ? m->lstm[i + 1].in : m->out;
        memcpy(out, l->h + b * h, n * row);
        SEFL_PASS(nn_dropout_draw(m->pool, &pass->drop, l->mask, out, n * h));
    }
    return SEFL_OK;
}

static sefl_status backward(lm *m, lm_pass *pass)
{
    const size_t h = m->cfg.hidden, n = pass->n, row = h * sizeof(nn_real);
    nn_real *dh = m->dout;
    for (unsigned i = m->cfg.layers; i-- > 0;) {
        lm_layer_lstm *l = &m->lstm[i];
        nn_dropout_back(&pass->drop, dh, l->mask, n * h);
        recurrence r = { .m = m, .l = l, .pass = pass, .dh = dh };
        SEFL_PASS(pool_run(m->pool, pass->batch, NN_ROWS, steps_backward, &r, NULL));
        /* gates now hold their gradient; dh is used up and takes the gradient of the input */
        nn_real *din = i > 0 ? (dh == m->dout ? m->tmp1 : m->dout) : m->dx;
        SEFL_PASS(nn_linear_back(&m->work, din, &l->ih, NULL, l->gates, l->in, n));
        memset(l->bias, 0, 4 * row); /* both biases have the same gradient */
        SEFL_PASS(nn_linear_back(&m->work, NULL, &l->hh, l->bias, l->gates, l->h, n));
        nn_kernels_get()->axpy(lm_grad_at(m, l->b_ih), 1, l->bias, 4 * h);
        nn_kernels_get()->axpy(lm_grad_at(m, l->b_hh), 1, l->bias, 4 * h);
        nn_weight_end(&l->ih, lm_grad_at(m, l->w_ih));
        nn_weight_end(&l->hh, lm_grad_at(m, l->w_hh));
        dh = din;
    }
    return SEFL_OK;
}

const lm_body lm_body_lstm = { LM_BODY_FUNCTIONS };
