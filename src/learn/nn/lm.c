/* Design.
 *  1. theta and grad are single vectors; the order of parameters is embedding, body, decoder.
 *  2. The gradient is zero outside the spans of the latest pass. For the embedding only block rows
 *     of words that occurred are touched: with 33,278 dense rows, clearing, clipping and updating
 *     all of them would cost as much as the recurrent layers.
 *  3. A pass that fails zeroes the gradient. */
#include "model/lm.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/float_mode.h"
#include "model/lm_body.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- parameters ------------------------------------------------------------------------------ */

#define BODY(NAME, name) &lm_body_##name,
static const lm_body *const bodies[] = { LM_BODIES(BODY) };

/* Lists the parameters and numbers them in the order of lm_config_layout. */
static sefl_status add_params(lm *m)
{
    const lm_config *c = &m->cfg;
    SEFL_PASS(lm_config_layout(c, &m->params));
    m->enc = 0;
    size_t next = m->body->params(m, m->enc + 1);
    m->dec_w = c->tied ? m->enc : next++;
    m->dec_b = next;
    assert(m->dec_b + 1 == m->params.n);
    m->width_out = lm_shape(m, m->dec_w).cols;
    return SEFL_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void plan(lm *m, nn_plan *p)
{
    size_t n = (size_t)lm_columns(&m->cfg) * m->cfg.steps, e = m->cfg.embed, real = sizeof(nn_real);
    m->theta = nn_take(p, m->params.count, real);
    m->grad = nn_take(p, m->params.count, real);
    m->x = nn_take(p, n * e, real);
    m->dx = nn_take(p, n * e, real);
    m->x_mask = nn_take(p, n * e, real);
    m->out = nn_take(p, n * m->width_out, real);
    m->dout = nn_take(p, n * m->width_out, real);
    m->state_n = m->body->state_size(&m->cfg);
    m->state = nn_take(p, m->state_n, real);
    m->kept_state = nn_take(p, m->state_n, real);
    m->touched = nn_take(p, bhm_rows_of_blocks(lm_shape(m, m->enc)), 1);
    m->span_cap = m->params.n + bhm_rows_of_blocks(lm_shape(m, m->enc));
    m->spans = nn_take(p, m->span_cap, sizeof *m->spans);
    if (lm_body_facts_of(lm_body_named(m->cfg.body))->positions)
        m->positions = nn_take(p, (size_t)m->cfg.steps * e, real);
    m->body->plan(m, p);
    size_t room = 0;
    for (size_t i = 0; i < m->params.n; i++)
        if (m->params.tensor[i].rank == 2 && i != m->enc && i != m->dec_w) {
            size_t own = nn_weight_room(lm_shape(m, i), n);
            room = own > room ? own : room;
        }
    m->work = (nn_work){ .pool = m->pool, .pack = nn_take(p, room, real) };
    nn_head_layout(&m->head, lm_shape(m, m->dec_w), n, pool_threads(m->pool), NULL, false, p);
}

sefl_status lm_new(lm **out, const lm_config *cfg, pool *p)
{
    sefl_status st = SEFL_OK;
    lm *m = NULL;
    nn_plan memory = { 0 };
    SEFL_TRY(sefl_make(out, &m));
    m->cfg = *cfg;
    m->pool = p;
    SEFL_TRY(lm_config_check(&m->cfg));
    m->body = bodies[lm_body_named(m->cfg.body)];
    SEFL_TRY(add_params(m));
    plan(m, &memory);
    SEFL_TRY(nn_plan_get(&memory, &m->memory));
    m->memory_bytes = memory.need;
    plan(m, &memory);
    for (size_t i = 0, e = m->cfg.embed; m->positions && i < m->cfg.steps * e; i++)
        m->positions[i] = (nn_real)lm_position(i / e, i % e, e);
    nn_blas_single_thread();
    SEFL_HAND_OVER(out, m, lm_free);
}

void lm_free(lm *m)
{
    if (!m)
        return;
    sefl_free_secret(m->memory, m->memory_bytes);
    layout_clear(&m->params);
    sefl_free(m);
}

const lm_config *lm_get_config(const lm *m)
{
    return &m->cfg;
}

const layout *lm_layout(const lm *m)
{
    return &m->params;
}

size_t lm_count(const lm *m)
{
    return m->params.count;
}

nn_real *lm_theta(lm *m)
{
    return m->theta;
}

nn_real *lm_grad(lm *m)
{
    return m->grad;
}

const lm_span *lm_spans(const lm *m, size_t *n)
{
    *n = m->span_n;
    return m->spans;
}

lm_times lm_get_times(const lm *m)
{
    return m->times;
}

size_t lm_memory(const lm *m)
{
    return m->memory_bytes;
}

void lm_fill_uniform(lm *m, size_t param, double range, seeded *g)
{
    nn_real *v = lm_at(m, param);
    for (size_t i = 0; i < m->params.tensor[param].count; i++)
        v[i] = (nn_real)(range == 0 ? 0 : (2 * seeded_unit(g) - 1) * range);
}

void lm_init(lm *m, uint64_t seed)
{
    seeded g;
    seeded_init(&g, seed, "model init");
    lm_fill_uniform(m, m->enc, 0.1, &g);
    m->body->init(m, &g);
    if (!m->cfg.tied)
        lm_fill_uniform(m, m->dec_w, 0.1, &g);
    lm_fill_uniform(m, m->dec_b, 0, &g);
}

void lm_state_reset(lm *m)
{
    memset(m->state, 0, m->state_n * sizeof *m->state);
}

size_t lm_state_count(const lm_config *cfg)
{
    return bodies[lm_body_named(cfg->body)]->state_size(cfg);
}

nn_real *lm_state(lm *m, size_t *n)
{
    *n = m->state_n;
    return m->state;
}

void lm_dropout_key(uint32_t key[8], uint64_t seed)
{
    seeded g;
    seeded_init(&g, seed, "dropout");
    memcpy(key, g.key, sizeof g.key);
}

/* ---- one pass -------------------------------------------------------------------------------- */

typedef struct embed_job {
    lm *m;
    const lm_batch *b;
} embed_job;

static sefl_status embed_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const embed_job *j = ctx;
    const lm *m = j->m;
    const size_t e = m->cfg.embed;
    const nn_real *v = m->theta + m->params.tensor[m->enc].offset;
    const nn_real scale = (nn_real)m->body->embed_scale(&m->cfg);
    (void)lane;
    for (size_t i = begin; i < end; i++) {
        nn_real *x = m->x + i * e;
        bhm_expand(lm_shape(m, m->enc), x, e, v, j->b->input[i], 1);
        if (m->positions) {
            const nn_real *at = m->positions + i / j->b->batch * e;
            for (size_t k = 0; k < e; k++)
                x[k] = x[k] * scale + at[k];
        }
    }
    return SEFL_OK;
}

static sefl_status embed(lm *m, const lm_batch *b, lm_pass *pass)
{
    SEFL_PASS(pool_run(m->pool, pass->n, 128, embed_piece, &(embed_job){ m, b }, NULL));
    return nn_dropout_draw(m->pool, &pass->drop, m->x_mask, m->x, pass->n * m->cfg.embed);
}

static void embed_backward(lm *m, const lm_batch *b, const lm_pass *pass)
{
    const bhm s = lm_shape(m, m->enc);
    const size_t e = m->cfg.embed;
    const nn_real scale = (nn_real)m->body->embed_scale(&m->cfg);
    const bool drop = nn_dropout_is_on(&pass->drop);
    nn_real *dv = lm_grad_at(m, m->enc);
    for (size_t i = 0; i < pass->n; i++) {
        nn_real *restrict dx = m->dx + i * e;
        const nn_real *restrict mask = m->x_mask + i * e;
        for (size_t k = 0; k < e; k++)
            dx[k] *= drop ? mask[k] * scale : scale;
        bhm_fold(s, dv, dx, e, b->input[i], 1);
        m->touched[b->input[i] / s.block] = 1;
    }
}

/* Zeroes what the last gradient wrote. The decoder overwrites its own part. */
static void clear_gradient(lm *m)
{
    const layout_tensor *w = &m->params.tensor[m->dec_w];
    for (size_t i = 0; i < m->span_n; i++)
        if (m->spans[i].offset < w->offset || m->spans[i].offset >= w->offset + w->count)
            memset(m->grad + m->spans[i].offset, 0, m->spans[i].count * sizeof *m->grad);
    memset(m->touched, 0, bhm_rows_of_blocks(lm_shape(m, m->enc)));
    m->span_n = 0;
}

/* A tensor that is not trained has no spans, and its gradient is zero. */
static void list_spans(lm *m)
{
    const layout_tensor *t = m->params.tensor;
    m->span_n = 0;
    if (!m->cfg.tied && t[m->enc].trainable) {
        const bhm s = lm_shape(m, m->enc);
        for (uint32_t bi = 0; bi < bhm_rows_of_blocks(s); bi++) {
            if (!m->touched[bi])
                continue;
            lm_span at = { 0 };
            at.offset = t[m->enc].offset + bhm_block_row(s, bi, &at.count);
            lm_span *last = m->span_n ? &m->spans[m->span_n - 1] : NULL;
            if (last && last->offset + last->count == at.offset)
                last->count += at.count;
            else
                m->spans[m->span_n++] = at;
        }
    }
    for (size_t i = m->cfg.tied ? 0 : 1; i < m->params.n; i++)
        if (t[i].trainable)
            m->spans[m->span_n++] = (lm_span){ t[i].offset, t[i].count };
    for (size_t i = m->cfg.tied ? 0 : 1; i < m->params.n; i++) /* pass_through skips the encoder */
        if (!t[i].trainable)
            memset(m->grad + t[i].offset, 0, t[i].count * sizeof *m->grad);
}

static double seconds(void)
{
    sefl_clock c = clock_monotonic();
    return (double)clock_ns(&c) * 1e-9;
}

static sefl_status check_batch(const lm *m, const lm_batch *b)
{
    SEFL_NEED(b->batch >= 1 && b->batch <= lm_columns(&m->cfg) && b->steps >= 1 &&
                  b->steps <= m->cfg.steps,
              SEFL_EINVAL, "batch of %u x %u words: the model was planned for %u x %u", b->batch,
              b->steps, lm_columns(&m->cfg), m->cfg.steps);
    for (size_t i = 0; i < (size_t)b->batch * b->steps; i++)
        SEFL_NEED(b->input[i] < m->cfg.vocab, SEFL_EINVAL, "word %u: the vocabulary has %u",
                  b->input[i], m->cfg.vocab);
    return SEFL_OK;
}

/* dropout NULL: no gradient. */
static sefl_status pass_through(lm *m, const lm_batch *b, const nn_dropout *dropout, double *loss)
{
    sefl_status st = SEFL_OK;
    lm_pass pass = { .steps = b->steps, .batch = b->batch, .n = (size_t)b->steps * b->batch };
    nn_head_job job = { .x = m->out, .n = pass.n, .target = b->target, .loss = loss };
    double t0 = seconds(), t1, t2, t3;
    const float_mode was = float_mode_flush();
    *loss = 0;
    SEFL_TRY(check_batch(m, b));
    if (dropout) {
        SEFL_CHECK(dropout->rate >= 0 && dropout->rate < 1, SEFL_EINVAL,
                   "dropout %g: must be from 0 to below 1", dropout->rate);
        pass.drop = *dropout;
        pass.backward_follows = true;
        if (!b->add)
            clear_gradient(m);
        job.add = b->add && m->span_n > 0;
        job.scale = (nn_real)(b->scale != 0 ? b->scale : 1 / (double)pass.n);
        job.dx = m->dout;
        job.dv = lm_grad_at(m, m->dec_w);
        job.dbias = lm_grad_at(m, m->dec_b);
    }
    job.v = lm_at(m, m->dec_w), job.bias = lm_at(m, m->dec_b);
    SEFL_TRY(embed(m, b, &pass));
    t1 = seconds();
    SEFL_TRY(m->body->forward(m, &pass));
    t2 = seconds();
    SEFL_TRY(nn_head_run(&m->head, m->pool, &job));
    t3 = seconds();
    m->times.embed += t1 - t0;
    m->times.body_forward += t2 - t1;
    m->times.head += t3 - t2;
    if (dropout) {
        SEFL_TRY(m->body->backward(m, &pass));
        t0 = seconds();
        if (m->params.tensor[m->enc].trainable)
            embed_backward(m, b, &pass);
        list_spans(m);
        m->times.body_backward += t0 - t3;
        m->times.embed += seconds() - t0;
    }
    SEFL_CHECK(isfinite(*loss), SEFL_ERANGE,
               "the loss is not a finite number: training has diverged (a smaller learning rate or "
               "a tighter gradient clip may help)");
    SEFL_CHECK(
        *loss < LM_MAX_LOSS * (double)pass.n, SEFL_ERANGE,
        "the loss is %g per word: training has diverged (a smaller learning rate or a tighter "
        "gradient clip may help)",
        *loss / (double)pass.n);
done:
    float_mode_set(was);
    if (st != SEFL_OK && dropout) { /* discard the partial gradient */
        memset(m->grad, 0, m->params.count * sizeof *m->grad);
        memset(m->touched, 0, bhm_rows_of_blocks(lm_shape(m, m->enc)));
        m->span_n = 0;
    }
    return st;
}

sefl_status lm_loss(lm *m, const lm_batch *b, double *loss)
{
    return pass_through(m, b, NULL, loss);
}

sefl_status lm_gradient(lm *m, const lm_batch *b, const nn_dropout *dropout, double *loss)
{
    return pass_through(m, b, dropout, loss);
}

/* ---- evaluation and text --------------------------------------------------------------------- */

static void keep_state(lm *m)
{
    memcpy(m->kept_state, m->state, m->state_n * sizeof *m->state);
    lm_state_reset(m);
}

static void restore_state(lm *m)
{
    memcpy(m->state, m->kept_state, m->state_n * sizeof *m->state);
}

sefl_status lm_evaluate(lm *m, const uint32_t *words, size_t n, double *mean,
                        const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    const size_t columns = LM_EVAL_BATCH, rows = n / columns;
    uint32_t *input = NULL;
    double sum = 0;
    SEFL_CHECK(rows >= 2, SEFL_EINVAL, "%zu words are too few to evaluate: at least %zu", n,
               2 * columns);
    SEFL_TRY(sefl_new(&input, 2 * columns * m->cfg.steps, sizeof *input));
    uint32_t *target = input + columns * m->cfg.steps;
    keep_state(m);
    for (size_t at = 0; at + 1 < rows && st == SEFL_OK; at += m->cfg.steps) {
        size_t steps = rows - 1 - at < m->cfg.steps ? rows - 1 - at : m->cfg.steps;
        double loss;
        for (size_t t = 0; t < steps; t++)
            for (size_t c = 0; c < columns; c++) {
                input[t * columns + c] = words[c * rows + at + t];
                target[t * columns + c] = words[c * rows + at + t + 1];
            }
        st = lm_loss(m, &(lm_batch){ input, target, (uint32_t)steps, (uint32_t)columns }, &loss);
        sum += loss;
        if (st == SEFL_OK && !progress_report(progress, at + steps, rows - 1))
            st = sefl_fail(SEFL_ECANCELLED, "stopped");
    }
    restore_state(m);
    *mean = sum / (double)((rows - 1) * columns);
done:
    sefl_free(input);
    return st;
}

/* Draws from softmax(logits / temperature). */
static uint32_t draw(const nn_real *logits, uint32_t n, double temperature, uint32_t banned,
                     seeded *g)
{
    double top = -INFINITY, sum = 0, u, run = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < n; i++)
        if (i != banned && logits[i] > top)
            top = logits[i];
    for (uint32_t i = 0; i < n; i++)
        sum += i == banned ? 0 : exp((logits[i] - top) / temperature);
    u = seeded_unit(g) * sum;
    for (uint32_t i = 0; i < n; i++) {
        if (i == banned)
            continue;
        last = i;
        run += exp((logits[i] - top) / temperature);
        if (run > u)
            break;
    }
    return last;
}

sefl_status lm_generate(lm *m, uint32_t *out, size_t n, const uint32_t *prompt, size_t prompt_n,
                        double temperature, uint32_t banned, seeded *g)
{
    sefl_status st = SEFL_OK;
    nn_real *logits = NULL;
    uint32_t *words = NULL;
    SEFL_CHECK(prompt_n >= 1, SEFL_EINVAL, "text generation needs at least one word to begin with");
    SEFL_CHECK(temperature > 0 && isfinite(temperature), SEFL_EINVAL,
               "temperature %g: must be above 0 (1: no change)", temperature);
    SEFL_TRY(sefl_new(&logits, m->cfg.vocab, sizeof *logits));
    SEFL_TRY(sefl_new(&words, prompt_n + n, sizeof *words));
    memcpy(words, prompt, prompt_n * sizeof *words);
    keep_state(m);
    /* With a carried state each word is read once; without one, the latest words are read again. */
    size_t read = 0;
    for (size_t have = prompt_n; have < prompt_n + n && st == SEFL_OK; have++) {
        size_t from = m->state_n ? read : have > m->cfg.steps ? have - m->cfg.steps : 0;
        size_t steps = 0;
        for (; from < have && st == SEFL_OK; from += steps) {
            steps = have - from < m->cfg.steps ? have - from : m->cfg.steps;
            lm_batch b = { words + from, NULL, (uint32_t)steps, 1 };
            lm_pass pass = { .steps = b.steps, .batch = 1, .n = steps };
            st = check_batch(m, &b);
            if (st == SEFL_OK)
                st = embed(m, &b, &pass);
            if (st == SEFL_OK)
                st = m->body->forward(m, &pass);
        }
        read = have;
        if (st != SEFL_OK)
            break;
        nn_head_logits(&m->head, logits, m->out + (steps - 1) * m->width_out, lm_at(m, m->dec_w),
                       lm_at(m, m->dec_b));
        words[have] = draw(logits, m->cfg.vocab, temperature, banned, g);
    }
    restore_state(m);
    if (st == SEFL_OK)
        memcpy(out, words + prompt_n, n * sizeof *out);
done:
    sefl_free(logits);
    sefl_free(words);
    return st;
}
