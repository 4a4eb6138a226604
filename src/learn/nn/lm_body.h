/* lm_body: the internal interface between lm.c and a body (model/lstm.c, model/transformer.c). */
#ifndef MODEL_LM_BODY_H
#define MODEL_LM_BODY_H

#include "model/lm.h"
#include "model/nn/nn.h"
#include "model/nn/nn_head.h"

/* A linear layer: its two parameters, and its weight prepared for the current pass. */
typedef struct lm_linear {
    size_t w, b; /* indices of params */
    nn_weight weight;
} lm_linear;

typedef struct lm_layer_lstm {
    size_t w_ih, w_hh, b_ih, b_hh; /* indices of params */
    nn_weight ih, hh;
    nn_real *pack, *pack_back; /* hh in panels: transposed, and as it is */
    nn_real *gates;            /* (T*B, 4H): before activation, then after it, then its gradient */
    nn_real *c, *h;            /* ((T+1)*B, H): the first B rows are the carried state */
    nn_real *tanh_c;           /* (T*B, H) */
    nn_real *in;               /* (T*B, inputs): input of the layer */
    nn_real *mask;             /* dropout of its output */
    nn_real *bias;             /* b_ih + b_hh */
} lm_layer_lstm;

typedef struct lm_layer_tr {
    lm_linear linear[4]; /* qkv; projection of ctx; the two feed-forward layers */
    size_t n1_w, n1_b, n2_w, n2_b;
    nn_real *x;          /* (N, E): input */
    nn_real *qkv;        /* (N, 3E) */
    nn_real *att;        /* (B, heads, T, T): probabilities */
    nn_real *att_mask;   /* same shape */
    nn_real *ctx, *proj; /* (N, E) */
    nn_real *mask1, *xhat1, *rstd1, *y1;
    nn_real *ff, *ff_mask; /* (N, F) */
    nn_real *out, *mask2, *xhat2, *rstd2;
} lm_layer_tr;

struct lm_body;

struct lm {
    lm_config cfg;
    const struct lm_body *body;
    pool *pool;
    nn_work work;
    uint8_t *memory; /* one block for everything below */
    size_t memory_bytes;
    layout params;
    size_t enc, dec_w, dec_b; /* indices; tied: dec_w == enc */
    nn_real *theta, *grad;
    size_t width_out; /* columns of the decoder */
    nn_head head;
    nn_real *x, *dx;     /* (N, E): embedded words */
    nn_real *x_mask;     /* their dropout mask */
    nn_real *out, *dout; /* (N, H): input of the decoder */
    nn_real *state, *kept_state;
    size_t state_n;
    uint8_t *touched; /* one flag per block row of the embedding */
    lm_span *spans;
    size_t span_n, span_cap;
    lm_times times;
    lm_layer_lstm lstm[LM_MAX_LAYERS];
    lm_layer_tr tr[LM_MAX_LAYERS];
    nn_real *tmp1, *tmp2, *tmp3; /* body scratch */
    nn_real *norm_part;          /* transformer */
    nn_real *positions;          /* transformer: (steps, E) */
};

/* The settings of one pass, shared by embedding and body. */
typedef struct lm_pass {
    uint32_t steps, batch;
    size_t n; /* steps * batch */
    nn_dropout drop;
    bool backward_follows;
} lm_pass;

typedef struct lm_body {
    /* Numbers the parameters of the body from `at` on, in the order of lm_config_layout; returns
     * the next number. */
    size_t (*params)(lm *m, size_t at);
    size_t (*state_size)(const lm_config *cfg);
    void (*plan)(lm *m, nn_plan *p);
    void (*init)(lm *m, seeded *g);
    double (*embed_scale)(const lm_config *cfg);
    sefl_status (*forward)(lm *m, lm_pass *pass);  /* x -> out */
    sefl_status (*backward)(lm *m, lm_pass *pass); /* dout -> dx, gradients */
} lm_body;

extern const lm_body lm_body_lstm, lm_body_transformer;

static inline bhm lm_shape(const lm *m, size_t param)
{
    return layout_matrix(&m->params.tensor[param]);
}
static inline nn_real *lm_at(lm *m, size_t param)
{
    return m->theta + m->params.tensor[param].offset;
}
static inline nn_real *lm_grad_at(lm *m, size_t param)
{
    return m->grad + m->params.tensor[param].offset;
}

/* Fills a parameter with uniform values in [-range, range]. */
void lm_fill_uniform(lm *m, size_t param, double range, seeded *g);

/* Initialises a lm_body with the functions that have these names in the same file. */
#define LM_BODY_FUNCTIONS                                                   \
    .params = params, .state_size = state_size, .plan = plan, .init = init, \
    .embed_scale = embed_scale, .forward = forward, .backward = backward

#endif
