/* Design of a checkpoint, little-endian:
 *     "SEFLTRN1" | bytes: settings in words | u64 epoch, row, steps | u64 n, n numbers: theta |
 *     u64 n, n: carried state | u64 optimiser steps | u64 n, n: its state | SHA-256 of everything
 * Numbers are stored as in memory (IEEE 754, little-endian machines only). */
#include "model/train.h"

#include "base/alloc.h"
#include "base/hex.h"
#include "base/sha256.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DESCRIPTION = 1024 }; /* bytes of the settings in words */

struct trainer {
    lm *m;
    pool *pool;
    train_config cfg;
    optim *opt;
    const uint32_t *words;
    size_t rows; /* words in a column */
    uint32_t columns, steps;
    uint64_t epoch, done; /* epochs and steps completed */
    size_t row;           /* next row of this epoch */
    uint32_t *input, *target;
    size_t batch_steps; /* of the gradient that waits for its update */
    char text_hash[17]; /* first digits of the SHA-256 of the words */
};

sefl_status trainer_new(trainer **out, lm *m, pool *p, const train_config *cfg,
                        const uint32_t *words, size_t n)
{
    sefl_status st = SEFL_OK;
    trainer *t = NULL;
    const lm_config *mc = lm_get_config(m);
    *out = NULL;
    SEFL_CHECK(cfg->lr > 0 && isfinite(cfg->lr), SEFL_EINVAL, "learning rate %g: must be above 0",
               cfg->lr);
    SEFL_CHECK(cfg->clip >= 0 && isfinite(cfg->clip), SEFL_EINVAL,
               "gradient clip %g: must be above 0, or 0 for none", cfg->clip);
    SEFL_CHECK(cfg->lr_decay >= 0 && cfg->lr_decay <= 1, SEFL_EINVAL,
               "learning rate decay %g: must be above 0 and at most 1", cfg->lr_decay);
    SEFL_CHECK(cfg->dropout >= 0 && cfg->dropout < 1, SEFL_EINVAL,
               "dropout %g: must be from 0 to below 1", cfg->dropout);
    SEFL_CHECK(n >= 2, SEFL_EINVAL, "a text of %zu words: needs at least 2", n);
    SEFL_TRY(sefl_new(&t, 1, sizeof *t));
    t->m = m, t->pool = p, t->cfg = *cfg, t->words = words;
    t->cfg.lr_decay = cfg->lr_decay > 0 ? cfg->lr_decay : 1;
    t->columns = cfg->batch ? cfg->batch : mc->batch;
    t->steps = cfg->steps ? cfg->steps : mc->steps;
    SEFL_CHECK(t->columns <= mc->batch && t->steps <= mc->steps, SEFL_EINVAL,
               "batch of %u x %u words: the model was planned for %u x %u", t->columns, t->steps,
               mc->batch, mc->steps);
    if (n / 2 < t->columns)
        t->columns = (uint32_t)(n / 2);
    t->rows = n / t->columns;
    uint8_t digest[SHA256_BYTES];
    sha256_of(digest, span_of(words, n * sizeof *words));
    hex_write(t->text_hash, digest, 8);
    SEFL_TRY(sefl_new(&t->input, (size_t)t->columns * t->steps, sizeof *t->input));
    SEFL_TRY(sefl_new(&t->target, (size_t)t->columns * t->steps, sizeof *t->target));
    SEFL_TRY(optim_new(&t->opt, &t->cfg.optim, lm_count(m)));
    SEFL_HAND_OVER(out, t, trainer_free);
}

void trainer_free(trainer *t)
{
    if (!t)
        return;
    sefl_free(t->input);
    sefl_free(t->target);
    optim_free(t->opt);
    sefl_free(t);
}

uint64_t trainer_steps(const trainer *t)
{
    return t->done;
}

uint64_t trainer_epochs(const trainer *t)
{
    return t->epoch;
}

uint64_t trainer_steps_per_epoch(const trainer *t)
{
    return (t->rows - 1 + t->steps - 1) / t->steps;
}

sefl_status trainer_gradient(trainer *t, train_info *info)
{
    size_t left = t->rows - 1 - t->row, steps = left < t->steps ? left : t->steps;
    for (size_t i = 0; i < steps; i++)
        for (size_t c = 0; c < t->columns; c++) {
            t->input[i * t->columns + c] = t->words[c * t->rows + t->row + i];
            t->target[i * t->columns + c] = t->words[c * t->rows + t->row + i + 1];
        }
    if (t->row == 0)
        lm_state_reset(t->m);
    *info = (train_info){ .lr = t->cfg.lr * pow(t->cfg.lr_decay, (double)t->epoch),
                          .words = steps * t->columns };
    lm_batch b = { t->input, t->target, (uint32_t)steps, t->columns };
    sefl_status st = lm_gradient(
        t->m, &b,
        &(lm_gradient_args){ .dropout = t->cfg.dropout, .seed = t->cfg.seed, .step = t->done },
        &info->loss);
    info->loss /= (double)info->words;
    t->batch_steps = steps;
    return st;
}

sefl_status trainer_update(trainer *t, train_info *info)
{
    size_t n;
    const lm_span *spans = lm_spans(t->m, &n);
    SEFL_PASS(optim_norm(t->opt, t->pool, &info->norm, lm_grad(t->m), spans, n));
    double scale = t->cfg.clip > 0 && info->norm > t->cfg.clip ? t->cfg.clip / info->norm : 1;
    SEFL_PASS(
        optim_step(t->opt, t->pool, lm_theta(t->m), lm_grad(t->m), spans, n, info->lr, scale));
    t->done++;
    t->row += t->batch_steps;
    info->epoch_ended = t->row + 1 >= t->rows;
    if (info->epoch_ended)
        t->row = 0, t->epoch++;
    return SEFL_OK;
}

sefl_status trainer_step(trainer *t, train_info *info)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(trainer_gradient(t, info));
    SEFL_TRY(trainer_update(t, info));
done:
    return st == SEFL_ERANGE ? sefl_fail_at(st, "step %llu", (unsigned long long)(t->done + 1))
                             : st;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static void describe(const trainer *t, char out[DESCRIPTION])
{
    const lm_config *c = lm_get_config(t->m);
    snprintf(out, DESCRIPTION,
             "%s vocab %u embed %u hidden %u layers %u heads %u block %u tied %d batch %u steps %u "
             "rows %zu text %s lr %.17g lr_decay %.17g clip %.17g dropout %.17g seed %llu "
             "optimiser %s momentum "
             "%.17g beta1 %.17g beta2 %.17g epsilon %.17g",
             c->body, c->vocab, c->embed, c->hidden, c->layers, c->heads, c->block, c->tied,
             t->columns, t->steps, t->rows, t->text_hash, t->cfg.lr, t->cfg.lr_decay, t->cfg.clip,
             t->cfg.dropout, (unsigned long long)t->cfg.seed, optim_kind_name(t->cfg.optim.kind),
             t->cfg.optim.momentum, t->cfg.optim.beta1, t->cfg.optim.beta2, t->cfg.optim.epsilon);
}

static sefl_status wr_reals(sefl_buf *out, const nn_real *p, size_t n)
{
    SEFL_PASS(wr_u64(out, n));
    return wr_raw(out, p, n * sizeof *p);
}

static sefl_status rd_reals(rd *r, sefl_span *out, size_t n)
{
    uint64_t have;
    SEFL_PASS(rd_u64(r, &have));
    SEFL_NEED(have == n, SEFL_EPROTO, "checkpoint: %llu numbers instead of %zu",
              (unsigned long long)have, n);
    return rd_view(r, out, n * sizeof(nn_real));
}

static const char magic[8] = { 'S', 'E', 'F', 'L', 'T', 'R', 'N', '1' };

sefl_status trainer_save(trainer *t, sefl_buf *out)
{
    char text[DESCRIPTION];
    size_t begin = out->n, n, k;
    uint8_t digest[SHA256_BYTES];
    nn_real *state = lm_state(t->m, &n), *memory = optim_state(t->opt, &k);
    describe(t, text);
    SEFL_PASS(buf_reserve(out, (lm_count(t->m) + n + k) * sizeof *state + 1024));
    SEFL_PASS(wr_raw(out, magic, sizeof magic));
    SEFL_PASS(wr_bytes(out, span_of_str(text)));
    SEFL_PASS(wr_u64(out, t->epoch));
    SEFL_PASS(wr_u64(out, t->row));
    SEFL_PASS(wr_u64(out, t->done));
    SEFL_PASS(wr_reals(out, lm_theta(t->m), lm_count(t->m)));
    SEFL_PASS(wr_reals(out, state, n));
    SEFL_PASS(wr_u64(out, *optim_steps(t->opt)));
    SEFL_PASS(wr_reals(out, memory, k));
    sha256_of(digest, span_of(out->p + begin, out->n - begin));
    return wr_raw(out, digest, sizeof digest);
}

/* Both descriptions are "name value" pairs; the message names the first pair that differs. */
static sefl_status same_settings(sefl_span there, const char *here)
{
    char copy[DESCRIPTION], a[64], b[64], name[64] = "model";
    size_t n = there.n < sizeof copy - 1 ? there.n : sizeof copy - 1;
    const char *p = copy, *q = here;
    int skip_a, skip_b;
    memcpy(copy, there.p, n);
    copy[n] = 0;
    if (there.n == n && strcmp(copy, here) == 0)
        return SEFL_OK;
    while (sscanf(p, " %63s%n", a, &skip_a) == 1 && sscanf(q, " %63s%n", b, &skip_b) == 1) {
        if (strcmp(a, b) != 0)
            return sefl_fail(SEFL_EINVAL,
                             "the checkpoint is from a run with other settings: %s is %s there, %s "
                             "here",
                             name, a, b);
        snprintf(name, sizeof name, "%s", a); /* a name, or a value just before the next name */
        p += skip_a, q += skip_b;
    }
    return sefl_fail(SEFL_EINVAL, "the checkpoint is from a run with other settings");
}

sefl_status trainer_load(trainer *t, sefl_span in)
{
    char text[DESCRIPTION];
    uint8_t digest[SHA256_BYTES];
    sefl_span s, theta, state, memory;
    uint64_t epoch, row, done_steps, opt_steps;
    size_t n, k;
    nn_real *state_at = lm_state(t->m, &n), *memory_at = optim_state(t->opt, &k);
    SEFL_NEED(in.n > SHA256_BYTES + sizeof magic && memcmp(in.p, magic, sizeof magic) == 0,
              SEFL_EPROTO, "not a checkpoint of `sefl train`");
    sha256_of(digest, span_of(in.p, in.n - SHA256_BYTES));
    SEFL_NEED(memcmp(digest, in.p + in.n - SHA256_BYTES, SHA256_BYTES) == 0, SEFL_EPROTO,
              "checkpoint: damaged or cut short (its hash does not match)");
    rd r = rd_over(span_of(in.p + sizeof magic, in.n - SHA256_BYTES - sizeof magic));
    describe(t, text);
    SEFL_PASS(rd_bytes(&r, &s, sizeof text));
    SEFL_PASS(same_settings(s, text));
    SEFL_PASS(rd_u64(&r, &epoch));
    SEFL_PASS(rd_u64(&r, &row));
    SEFL_PASS(rd_u64(&r, &done_steps));
    SEFL_NEED(row < t->rows, SEFL_EPROTO, "checkpoint: row %llu of %zu", (unsigned long long)row,
              t->rows);
    SEFL_PASS(rd_reals(&r, &theta, lm_count(t->m)));
    SEFL_PASS(rd_reals(&r, &state, n));
    SEFL_PASS(rd_u64(&r, &opt_steps));
    SEFL_PASS(rd_reals(&r, &memory, k));
    SEFL_PASS(rd_end(&r));
    memcpy(lm_theta(t->m), theta.p, theta.n);
    memcpy(state_at, state.p, state.n);
    memcpy(memory_at, memory.p, memory.n);
    t->epoch = epoch, t->row = (size_t)row, t->done = done_steps;
    *optim_steps(t->opt) = opt_steps;
    return SEFL_OK;
}

/* ---- records --------------------------------------------------------------------------------- */

sefl_status train_records(lm *m, const uint32_t *words, const size_t *border, size_t records,
                          uint32_t before, const lm_gradient_args *args, train_record_fn *fn,
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
            lm_gradient_args a = *args;
            a.step = args->step + r;
            a.scale = 1 / (double)n;
            a.add = at > 0;
            a.seed = args->seed + at; /* other masks for the later parts of a long record */
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
