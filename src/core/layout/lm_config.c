/* The settings and tensors of the built-in models. Names and order of the tensors are those of
 * PyTorch's word-language-model example: encoder; body, layer by layer; decoder. */
#include "model/layout.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct list {
    layout *out;
    const lm_config *c;
    sefl_status failed; /* the first failure of `add` */
} list;

typedef struct built_in {
    lm_body_facts facts;
    sefl_status (*check)(const lm_config *cfg); /* may be NULL */
    uint32_t (*width)(const lm_config *cfg);    /* columns of the decoder */
    void (*tensors)(list *l);                   /* adds those between encoder and decoder */
} built_in;

/* ---- tensors --------------------------------------------------------------------------------- */

static SEFL_PRINTF(4, 5) void add(list *l, uint32_t rank, bhm s, const char *fmt, ...)
{
    char name[LAYOUT_NAME_MAX + 1];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    if (l->failed == SEFL_OK)
        l->failed = layout_add(l->out, name, rank, (uint32_t[]){ s.rows, s.cols }, s.block);
}

#define MATRIX(rows, cols, ...) add(l, 2, (bhm){ rows, cols, l->c->block }, __VA_ARGS__)
#define VECTOR(n, ...)          add(l, 1, (bhm){ n, 1, 1 }, __VA_ARGS__)

static uint32_t lstm_width(const lm_config *c)
{
    return c->hidden;
}

static void lstm_tensors(list *l)
{
    const uint32_t h = l->c->hidden;
    for (unsigned i = 0; i < l->c->layers; i++) {
        MATRIX(4 * h, i == 0 ? l->c->embed : h, "rnn.weight_ih_l%u", i);
        MATRIX(4 * h, h, "rnn.weight_hh_l%u", i);
        VECTOR(4 * h, "rnn.bias_ih_l%u", i);
        VECTOR(4 * h, "rnn.bias_hh_l%u", i);
    }
}

static const built_in body_lstm = {
    .facts = { .usual_lr = "20", .hidden = "rnn.weight_hh_l%u", .hidden_columns = true },
    .width = lstm_width,
    .tensors = lstm_tensors,
};

static sefl_status transformer_check(const lm_config *cfg)
{
    SEFL_NEED(cfg->embed % cfg->heads == 0, SEFL_EINVAL,
              "model.heads is %u: must divide model.embed (%u)", cfg->heads, cfg->embed);
    /* BLAS counts in int: the stride between steps of one column must fit */
    SEFL_NEED((uint64_t)lm_columns(cfg) * 3 * cfg->embed <= INT32_MAX, SEFL_EINVAL,
              "model.batch x model.embed is %u x %u: too large for a transformer", cfg->batch,
              cfg->embed);
    return SEFL_OK;
}

static uint32_t transformer_width(const lm_config *c)
{
    return c->embed;
}

static void transformer_tensors(list *l)
{
    static const char *const names[][2] = {
        { "self_attn.in_proj_weight", "self_attn.in_proj_bias" },
        { "self_attn.out_proj.weight", "self_attn.out_proj.bias" },
        { "linear1.weight", "linear1.bias" },
        { "linear2.weight", "linear2.bias" },
    };
    const uint32_t e = l->c->embed, f = l->c->hidden;
    const uint32_t rows[] = { 3 * e, e, f, e }, cols[] = { e, e, e, f };
    for (unsigned i = 0; i < l->c->layers; i++) {
#define AT "transformer_encoder.layers.%u."
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            MATRIX(rows[k], cols[k], AT "%s", i, names[k][0]);
            VECTOR(rows[k], AT "%s", i, names[k][1]);
        }
        VECTOR(e, AT "norm1.weight", i);
        VECTOR(e, AT "norm1.bias", i);
        VECTOR(e, AT "norm2.weight", i);
        VECTOR(e, AT "norm2.bias", i);
#undef AT
    }
}

static const built_in body_transformer = {
    .facts = { .usual_lr = "5",
               .heads = true,
               .positions = true,
               .hidden = "transformer_encoder.layers.%u.linear1.weight" },
    .check = transformer_check,
    .width = transformer_width,
    .tensors = transformer_tensors,
};

#define NAME_OF(NAME, name, ...) #name,
#define BODY_OF(NAME, name)      &body_##name,
static const char *const body_names[] = { LM_BODIES(NAME_OF) };
static const built_in *const bodies[] = { LM_BODIES(BODY_OF) };
static const char *const optim_names[] = { OPTIMISERS(NAME_OF) };

const char *lm_body_name(lm_body_kind kind)
{
    return body_names[kind];
}

lm_body_kind lm_body_named(const char *name)
{
    unsigned i = 0;
    while (i < LM_BODY_KINDS && strcmp(body_names[i], name) != 0)
        i++;
    return (lm_body_kind)i;
}

const lm_body_facts *lm_body_facts_of(lm_body_kind kind)
{
    return &bodies[kind]->facts;
}

sefl_status lm_config_layout(const lm_config *cfg, layout *out)
{
    sefl_status st = SEFL_OK;
    lm_config c = *cfg;
    list all = { .out = out, .c = &c }, *l = &all;
    *out = (layout){ 0 };
    SEFL_TRY(lm_config_check(&c));
    const lm_body_kind kind = lm_body_named(c.body);
    assert(kind < LM_BODY_KINDS); /* checked */
    const built_in *b = bodies[kind];
    add(l, 2, (bhm){ c.vocab, c.embed, c.block_embed }, "encoder.weight");
    b->tensors(l);
    if (!c.tied)
        add(l, 2, (bhm){ c.vocab, b->width(&c), c.block_decoder }, "decoder.weight");
    VECTOR(c.vocab, "decoder.bias");
    SEFL_TRY(l->failed);
    SEFL_TRY(sefl_at(layout_only(out, c.only ? c.only : ""), "training.only"));
done:
    if (st != SEFL_OK)
        layout_clear(out);
    return st;
}

double lm_position(size_t t, size_t j, size_t embed)
{
    double angle = (double)t * exp(-(double)(j - j % 2) * log(10000.0) / (double)embed);
    return j % 2 == 0 ? sin(angle) : cos(angle);
}

/* ---- settings -------------------------------------------------------------------------------- */

sefl_status lm_config_check(lm_config *cfg)
{
    const lm_body_kind kind = cfg->body ? lm_body_named(cfg->body) : (lm_body_kind)0;
    SEFL_NEED(kind < LM_BODY_KINDS, SEFL_EINVAL, "model.body is \"%.32s\": must be one of: %s",
              cfg->body, KIND_WORDS(LM_BODIES));
    const built_in *b = bodies[kind];
    cfg->body = body_names[kind];
    uint32_t *sizes[] = { &cfg->embed, &cfg->hidden, &cfg->layers, &cfg->heads,
                          &cfg->block, &cfg->batch,  &cfg->steps };
    static const uint32_t usual[] = { 200, 200, 2, 2, 1, 20, 35 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (*sizes[i] == 0)
            *sizes[i] = usual[i];
    SEFL_NEED(cfg->vocab >= 2 && cfg->vocab <= BHM_MAX_SIDE, SEFL_EINVAL,
              "model.vocab is %u: must be from 2 to %d", cfg->vocab, BHM_MAX_SIDE);
    SEFL_NEED(cfg->embed <= 65536 && cfg->hidden <= 65536, SEFL_EINVAL,
              "model.embed is %u, model.hidden %u: each must be at most 65536", cfg->embed,
              cfg->hidden);
    SEFL_NEED(cfg->layers <= LM_MAX_LAYERS, SEFL_EINVAL, "model.layers is %u: must be at most %d",
              cfg->layers, LM_MAX_LAYERS);
    uint32_t *blocks[] = { &cfg->block, &cfg->block_embed, &cfg->block_decoder };
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        if (*blocks[i] == 0)
            *blocks[i] = cfg->block;
        SEFL_NEED(*blocks[i] <= BHM_MAX_BLOCK, SEFL_EINVAL, "model.block is %u: must be at most %d",
                  *blocks[i], BHM_MAX_BLOCK);
    }
    SEFL_NEED(!cfg->tied || cfg->block_embed == cfg->block_decoder, SEFL_EINVAL,
              "model.tied: embedding and decoder are one matrix, but model.block_embed is %u and "
              "model.block_decoder is %u",
              cfg->block_embed, cfg->block_decoder);
    SEFL_NEED((uint64_t)cfg->batch * cfg->steps <= LM_MAX_TOKENS, SEFL_EINVAL,
              "model.batch x model.steps is %u x %u: must be at most %d words", cfg->batch,
              cfg->steps, LM_MAX_TOKENS);
    SEFL_NEED(!cfg->tied || b->width(cfg) == cfg->embed, SEFL_EINVAL,
              "model.tied: model.hidden (%u) must equal model.embed (%u)", cfg->hidden, cfg->embed);
    return b->check ? b->check(cfg) : SEFL_OK;
}

uint32_t lm_config_word_block(const lm_config *cfg)
{
    uint32_t a = cfg->block_embed ? cfg->block_embed : cfg->block;
    uint32_t b = cfg->block_decoder ? cfg->block_decoder : cfg->block;
    return a > b ? a : b;
}

const char *optim_kind_name(optim_kind kind)
{
    return optim_names[kind];
}

const char *optim_usual_lr(const char *kind, const char *body)
{
    const lm_body_kind b = lm_body_named(body); /* "external": any, since nothing asks for it */
    return strcmp(kind, optim_names[OPTIM_ADAM]) == 0
               ? "0.001"
               : bodies[b < LM_BODY_KINDS ? b : (lm_body_kind)0]->facts.usual_lr;
}

optim_config optim_filled(const optim_config *cfg)
{
    return (optim_config){ .kind = cfg->kind,
                           .momentum = cfg->momentum != 0 ? cfg->momentum : 0.9,
                           .beta1 = cfg->beta1 != 0 ? cfg->beta1 : 0.9,
                           .beta2 = cfg->beta2 != 0 ? cfg->beta2 : 0.999,
                           .epsilon = cfg->epsilon != 0 ? cfg->epsilon : 1e-8,
                           .weight_decay = cfg->weight_decay };
}

sefl_status optim_config_check(const optim_config *o, const char *group)
{
    SEFL_NEED(o->momentum > 0 && o->momentum < 1 && o->beta1 > 0 && o->beta1 < 1 && o->beta2 > 0 &&
                  o->beta2 < 1 && o->epsilon > 0,
              SEFL_EINVAL, "%s.momentum, beta1, beta2 must be between 0 and 1, epsilon above 0",
              group);
    return SEFL_OK;
}

#define OPTIM_VECTORS(NAME, name, vectors) vectors,
size_t optim_state_count(optim_kind kind, size_t count)
{
    static const size_t vectors[] = { OPTIMISERS(OPTIM_VECTORS) };
    return vectors[kind] * count;
}

static const char *const order_names[] = { "interleaved", "appearance", "frequency" };

sefl_status vocab_order_parse(vocab_order *out, const char *name)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(name, order_names[i]) == 0) {
            *out = (vocab_order)i;
            return SEFL_OK;
        }
    return sefl_fail(SEFL_EINVAL,
                     "vocabulary order \"%.64s\" must be interleaved, appearance or frequency",
                     name);
}

const char *vocab_order_name(vocab_order order)
{
    return order_names[order];
}

const char *vocab_kind_name(vocab_kind kind)
{
    return kind == VOCAB_BPE ? "bpe" : "words";
}
