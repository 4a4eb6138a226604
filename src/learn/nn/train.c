#include "model/train.h"

#include "base/alloc.h"
#include "base/float_mode.h"

#include <math.h>
#include <string.h>

struct trainer {
    lm *m;
    pool *pool;
    train_config cfg;
    optim opt;
    const uint32_t *words;
    size_t rows; /* words in a column */
    uint32_t columns, steps;
    train_cursor at;
    uint32_t *input, *target; /* in one block */
    size_t batch_steps;       /* of the gradient that waits for its update */
};

train_layout train_layout_of(size_t n, uint32_t columns, uint32_t steps)
{
    if (n / 2 < columns)
        columns = (uint32_t)(n / 2);
    size_t rows = n / columns;
    return (train_layout){ columns, rows, (rows - 1 + steps - 1) / steps };
}

sefl_status train_check(const train_config *cfg, const lm_config *m, size_t n)
{
    SEFL_NEED(cfg->lr > 0 && isfinite(cfg->lr), SEFL_EINVAL, "learning rate %g: must be above 0",
              cfg->lr);
    SEFL_NEED(cfg->clip >= 0 && isfinite(cfg->clip), SEFL_EINVAL,
              "gradient clip %g: must be above 0, or 0 for none", cfg->clip);
    SEFL_NEED(cfg->lr_decay >= 0 && cfg->lr_decay <= 1, SEFL_EINVAL,
              "learning rate decay %g: must be above 0 and at most 1", cfg->lr_decay);
    SEFL_NEED(cfg->dropout >= 0 && cfg->dropout < 1, SEFL_EINVAL,
              "dropout %g: must be from 0 to below 1", cfg->dropout);
    SEFL_NEED(cfg->optim.weight_decay >= 0 && cfg->lr * cfg->optim.weight_decay < 1, SEFL_EINVAL,
              "weight decay %g: must not be negative, and below 1 when multiplied by the learning "
              "rate (%g)",
              cfg->optim.weight_decay, cfg->lr);
    SEFL_NEED(n >= 2, SEFL_EINVAL, "a text of %zu words: needs at least 2", n);
    SEFL_NEED(cfg->batch <= m->batch && cfg->steps <= m->steps, SEFL_EINVAL,
              "batch of %u x %u words: the model was planned for %u x %u", cfg->batch, cfg->steps,
              m->batch, m->steps);
    return SEFL_OK;
}

sefl_status trainer_new(trainer **out, lm *m, pool *p, const train_config *cfg,
                        const uint32_t *words, size_t n)
{
    sefl_status st = SEFL_OK;
    trainer *t = NULL;
    const lm_config *mc = lm_get_config(m);
    *out = NULL;
    SEFL_TRY(train_check(cfg, mc, n));
    SEFL_TRY(sefl_new(&t, 1, sizeof *t));
    t->m = m, t->pool = p, t->cfg = *cfg, t->words = words;
    t->cfg.lr_decay = cfg->lr_decay > 0 ? cfg->lr_decay : 1;
    t->columns = cfg->batch ? cfg->batch : mc->batch;
    t->steps = cfg->steps ? cfg->steps : mc->steps;
    train_layout l = train_layout_of(n, t->columns, t->steps);
    t->columns = l.columns, t->rows = l.rows;
    SEFL_TRY(sefl_new(&t->input, 2 * (size_t)t->columns * t->steps, sizeof *t->input));
    t->target = t->input + (size_t)t->columns * t->steps;
    SEFL_TRY(optim_init(&t->opt, &t->cfg.optim, lm_layout(m)));
    SEFL_HAND_OVER(out, t, trainer_free);
}

void trainer_free(trainer *t)
{
    if (!t)
        return;
    sefl_free(t->input);
    optim_clear(&t->opt);
    sefl_free(t);
}

train_cursor *trainer_at(trainer *t)
{
    return &t->at;
}

optim *trainer_optim(trainer *t)
{
    return &t->opt;
}

sefl_status trainer_gradient(trainer *t, train_info *info)
{
    size_t left = t->rows - 1 - t->at.row, steps = left < t->steps ? left : t->steps;
    for (size_t i = 0; i < steps; i++)
        for (size_t c = 0; c < t->columns; c++) {
            t->input[i * t->columns + c] = t->words[c * t->rows + t->at.row + i];
            t->target[i * t->columns + c] = t->words[c * t->rows + t->at.row + i + 1];
        }
    if (t->at.row == 0)
        lm_state_reset(t->m);
    *info = (train_info){ .lr = t->cfg.lr * pow(t->cfg.lr_decay, (double)t->at.epoch),
                          .words = steps * t->columns };
    lm_batch b = { t->input, t->target, (uint32_t)steps, t->columns };
    lm_gradient_args args = { .dropout = t->cfg.dropout, .step = t->at.done };
    memcpy(args.key, t->cfg.key, sizeof args.key);
    sefl_status st = lm_gradient(t->m, &b, &args, &info->loss);
    info->loss /= (double)info->words;
    t->batch_steps = steps;
    return st;
}

sefl_status trainer_update(trainer *t, train_info *info)
{
    sefl_status st = SEFL_OK;
    size_t n;
    const lm_span *spans = lm_spans(t->m, &n);
    const float_mode was = float_mode_flush();
    SEFL_TRY(optim_norm(&t->opt, t->pool, &info->norm, lm_grad(t->m), spans, n));
    double scale = t->cfg.clip > 0 && info->norm > t->cfg.clip ? t->cfg.clip / info->norm : 1;
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

sefl_status trainer_step(trainer *t, train_info *info)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(trainer_gradient(t, info));
    SEFL_TRY(trainer_update(t, info));
done:
    return st == SEFL_ERANGE ? sefl_fail_at(st, "step %llu", (unsigned long long)(t->at.done + 1))
                             : st;
}

/* ---- records --------------------------------------------------------------------------------- */

sefl_status train_records(lm *m, const uint32_t *words, const size_t *border, size_t records,
                          uint32_t before, const train_records_args *args, train_record_fn *fn,
                          void *ctx)
{
    sefl_status st = SEFL_OK;
    const uint32_t steps = lm_get_config(m)->steps;
    uint32_t *input = NULL;
    SEFL_TRY(sefl_new(&input, steps, sizeof *input));
    for (size_t r = 0; r < records; r++) {
        size_t n = border[r + 1] - border[r], span_count;
        const uint32_t *target = words + border[r];
        double sum = 0;
        SEFL_CHECK(border[r + 1] > border[r], SEFL_EINVAL, "record %zu has no words", r);
        lm_state_reset(m);
        for (size_t at = 0; at < n && isfinite(sum); at += steps) {
            size_t len = n - at < steps ? n - at : steps;
            double loss;
            lm_gradient_args a = { .dropout = args->dropout,
                                   .step = args->step + r,
                                   .scale = 1 / (double)n,
                                   .add = at > 0 };
            lm_dropout_key(a.key, args->seed + at); /* other masks for later parts of a record */
            input[0] = at == 0 ? before : target[at - 1];
            memcpy(input + 1, target + at, (len - 1) * sizeof *input);
            st = lm_gradient(m, &(lm_batch){ input, target + at, (uint32_t)len, 1 }, &a, &loss);
            if (st == SEFL_ERANGE) /* the gradient is zero now; continue with the other records */
                loss = INFINITY, st = SEFL_OK;
            SEFL_TRY(st);
            sum += loss;
        }
        const lm_span *spans = lm_spans(m, &span_count);
        SEFL_TRY(fn(ctx, r, lm_grad(m), spans, span_count, sum / (double)n));
    }
done:
    sefl_free(input);
    return st;
}
