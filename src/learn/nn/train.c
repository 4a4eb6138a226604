#include "model/train.h"

#include "base/alloc.h"
#include "base/float_mode.h"

#include <math.h>
#include <string.h>

struct train_run {
    lm *m;
    pool *pool;
    train_steps how;
    optim opt;
    size_t rows; /* words in a column */
    train_cursor at;
    uint32_t *input, *target; /* in one block */
    size_t batch_steps;       /* of the gradient that waits for its update */
};

train_layout train_layout_of(const train_steps *s)
{
    const uint32_t columns = s->n / 2 < s->columns ? (uint32_t)(s->n / 2) : s->columns;
    const size_t rows = s->n / columns;
    return (train_layout){ columns, rows, (rows - 1 + s->steps - 1) / s->steps };
}

sefl_status train_steps_fill(train_steps *s, const lm_config *m, const optim_config *o)
{
    SEFL_NEED(s->lr > 0 && isfinite(s->lr), SEFL_EINVAL, "learning rate %g: must be above 0",
              s->lr);
    SEFL_NEED(s->clip >= 0 && isfinite(s->clip), SEFL_EINVAL,
              "gradient clip %g: must be above 0, or 0 for none", s->clip);
    SEFL_NEED(s->lr_decay >= 0 && s->lr_decay <= 1, SEFL_EINVAL,
              "learning rate decay %g: must be above 0 and at most 1", s->lr_decay);
    SEFL_NEED(s->dropout.rate >= 0 && s->dropout.rate < 1, SEFL_EINVAL,
              "dropout %g: must be from 0 to below 1", s->dropout.rate);
    SEFL_NEED(o->weight_decay >= 0 && s->lr * o->weight_decay < 1, SEFL_EINVAL,
              "weight decay %g: must not be negative, and below 1 when multiplied by the learning "
              "rate (%g)",
              o->weight_decay, s->lr);
    SEFL_NEED(s->n >= 2, SEFL_EINVAL, "a text of %zu words: needs at least 2", (size_t)s->n);
    SEFL_NEED(s->columns <= m->batch && s->steps <= m->steps, SEFL_EINVAL,
              "batch of %u x %u words: the model was planned for %u x %u", s->columns, s->steps,
              m->batch, m->steps);
    s->lr_decay = s->lr_decay > 0 ? s->lr_decay : 1;
    s->columns = s->columns ? s->columns : m->batch;
    s->steps = s->steps ? s->steps : m->steps;
    return SEFL_OK;
}

sefl_status train_new(train_run **out, lm *m, pool *p, const optim_config *o, const train_steps *s)
{
    sefl_status st = SEFL_OK;
    train_run *t = NULL;
    train_steps how = *s;
    *out = NULL;
    SEFL_TRY(train_steps_fill(&how, lm_get_config(m), o));
    SEFL_TRY(sefl_new(&t, 1, sizeof *t));
    t->m = m, t->pool = p, t->how = how;
    const train_layout l = train_layout_of(&how);
    t->how.columns = l.columns, t->rows = l.rows;
    SEFL_TRY(sefl_new(&t->input, 2 * (size_t)l.columns * how.steps, sizeof *t->input));
    t->target = t->input + (size_t)l.columns * how.steps;
    SEFL_TRY(optim_init(&t->opt, o, lm_layout(m)));
    SEFL_HAND_OVER(out, t, train_free);
}

void train_free(train_run *t)
{
    if (!t)
        return;
    sefl_free(t->input);
    optim_clear(&t->opt);
    sefl_free(t);
}

train_cursor *train_at(train_run *t)
{
    return &t->at;
}

optim *train_optim(train_run *t)
{
    return &t->opt;
}

sefl_status train_gradient(train_run *t, train_info *info)
{
    const train_steps *how = &t->how;
    const uint32_t columns = how->columns;
    size_t left = t->rows - 1 - t->at.row, steps = left < how->steps ? left : how->steps;
    for (size_t i = 0; i < steps; i++)
        for (size_t c = 0; c < columns; c++) {
            t->input[i * columns + c] = how->words[c * t->rows + t->at.row + i];
            t->target[i * columns + c] = how->words[c * t->rows + t->at.row + i + 1];
        }
    if (t->at.row == 0)
        lm_state_reset(t->m);
    *info = (train_info){ .lr = how->lr * pow(how->lr_decay, (double)t->at.epoch),
                          .words = steps * columns };
    lm_batch b = { t->input, t->target, (uint32_t)steps, columns };
    t->how.dropout.step = t->at.done;
    sefl_status st = lm_gradient(t->m, &b, &how->dropout, &info->loss);
    info->loss /= (double)info->words;
    t->batch_steps = steps;
    return st;
}

sefl_status train_update(train_run *t, train_info *info)
{
    sefl_status st = SEFL_OK;
    size_t n;
    const lm_span *spans = lm_spans(t->m, &n);
    const float_mode was = float_mode_flush();
    SEFL_TRY(optim_norm(&t->opt, t->pool, &info->norm, lm_grad(t->m), spans, n));
    double scale = t->how.clip > 0 && info->norm > t->how.clip ? t->how.clip / info->norm : 1;
    SEFL_TRY(
        optim_step(&t->opt, t->pool, lm_theta(t->m), lm_grad(t->m), spans, n, info->lr, scale));
    t->at.done++;
    t->at.row += t->batch_steps;
    info->epoch_ended = t->at.row + 1 >= t->rows;
    if (info->epoch_ended)
        t->at.row = 0, t->at.epoch++;
done:
    float_mode_set(was);
    return st;
}

sefl_status train_step(train_run *t, train_info *info)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(train_gradient(t, info));
    SEFL_TRY(train_update(t, info));
done:
    return st == SEFL_ERANGE ? sefl_fail_at(st, "step %llu", (unsigned long long)(t->at.done + 1))
                             : st;
}

/* ---- records --------------------------------------------------------------------------------- */

sefl_status train_record(lm *m, double *loss, const uint32_t *words, size_t n, uint32_t before,
                         double dropout, uint64_t seed, uint64_t step)
{
    sefl_status st = SEFL_OK;
    const uint32_t steps = lm_get_config(m)->steps;
    nn_dropout drop = { .rate = dropout, .step = step };
    uint32_t *input = NULL;
    double sum = 0, one;
    SEFL_CHECK(n > 0, SEFL_EINVAL, "the record has no words");
    SEFL_TRY(sefl_new(&input, steps, sizeof *input));
    lm_state_reset(m);
    for (size_t at = 0; at < n && isfinite(sum); at += steps) {
        const size_t len = n - at < steps ? n - at : steps;
        const lm_batch b = { input, words + at, (uint32_t)len, 1, 1 / (double)n, at > 0 };
        lm_dropout_key(drop.key, seed + at); /* other masks for later windows */
        input[0] = at == 0 ? before : words[at - 1];
        memcpy(input + 1, words + at, (len - 1) * sizeof *input);
        st = lm_gradient(m, &b, &drop, &one);
        if (st == SEFL_ERANGE) /* the gradient is zero now */
            one = INFINITY, st = SEFL_OK;
        SEFL_TRY(st);
        sum += one;
    }
    *loss = sum / (double)n;
done:
    sefl_free(input);
    return st;
}
