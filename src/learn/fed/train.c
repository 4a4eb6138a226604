#include "fed/train.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/float_mode.h"
#include "model/train.h"
#include "privacy/mechanism/quantise.h"
#include "protocol/modes/mode.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

uint64_t client_dropout_seed(const task *t, uint64_t round, const uint8_t client[32])
{
    static const char label[] = "sefl dropout 1";
    uint8_t n[8], digest[SHA256_BYTES];
    store_u64(n, round);
    sha256_join(digest, span_of(label, sizeof label - 1), span_of(t->id, TASK_ID),
                span_of(n, sizeof n), span_of(client, 32));
    return load_u64(digest);
}

/* Names no number of the run: the message may end up in a log. */
static sefl_status diverged(uint64_t round)
{
    return sefl_fail(SEFL_ERANGE,
                     "round %" PRIu64 ": local training diverged (a smaller training.lr or a "
                     "tighter training.gradient_clip may help)",
                     round);
}

static sefl_status tick(const client_train *c, uint64_t done, uint64_t total)
{
    if (!progress_report(c->progress, done, total))
        return sefl_fail(SEFL_ECANCELLED, "round %" PRIu64 ": stopped", c->round);
    return SEFL_OK;
}

/* ---- unit client ----------------------------------------------------------------------------- */

engine_job client_train_job(const client_train *c)
{
    const task *t = c->task;
    engine_job job = { .words = c->text->token,
                       .n = c->text->tokens,
                       .columns = t->model.batch,
                       .steps = t->model.steps,
                       .lr = task_lr(t, c->round),
                       .clip = t->gradient_clip,
                       .dropout = t->dropout };
    const train_layout l = train_layout_of(job.n, job.columns, job.steps);
    job.limit = t->local_epochs ? t->local_epochs * l.steps_per_epoch : t->local_steps;
    lm_dropout_key(job.dropout_key, client_dropout_seed(t, c->round, c->client));
    return job;
}

sefl_status client_train_local(const client_train *c, float *v)
{
    sefl_status st = SEFL_OK;
    const task *t = c->task;
    const engine_job job = client_train_job(c);
    engine_progress how = { 0 };
    const float_mode was = float_mode_flush(); /* the engine's copies and differences, too */
    SEFL_TRY(engine_start(c->e, 0, &job));
    st = engine_train(c->e, 1, &how, c->progress);
    if (st == SEFL_ECANCELLED)
        sefl_note("round %" PRIu64 ": stopped", c->round);
    SEFL_TRY(st);
    bool finite = !how.diverged;
    if (finite)
        SEFL_TRY(engine_read(c->e, 0, ENGINE_DELTA, v, t->params * sizeof *v));
    for (size_t i = 0; finite && i < t->params; i++)
        finite = isfinite(v[i]);
    if (!finite)
        st = diverged(c->round);
done:
    float_mode_set(was);
    if (st == SEFL_ERANGE)
        memset(v, 0, t->params * sizeof *v);
    sefl_wipe(&how, sizeof how);
    return st;
}

sefl_status client_train_round(int64_t *X, const task *t, uint64_t clip, uint64_t items,
                               const float *v, const sefl_rng *coins)
{
    dp_weight slot = { .items = items, .items_cap = t->weight_cap };
    const float_mode was = float_mode_flush();
    if (t->clip_quantile > 0)
        slot.scale = task_clip_scale(t, clip);
    const sefl_status st = task_quantise(X, t, v, task_slots(t) ? &slot : NULL, coins);
    float_mode_set(was);
    return st;
}

/* ---- unit record ----------------------------------------------------------------------------- */

typedef struct records {
    const client_train *c;
    int64_t *X, *one;
    float *v;
    const sefl_rng *coins;
    size_t zeroed;
} records;

/* Computes v = -lr * g, with g limited to gradient_clip; false, and zeros, if that is not
 * finite. */
static bool step_of(float *v, const task *t, double lr, const nn_real *grad, const lm_span *spans,
                    size_t span_count)
{
    double square = 0, scale = lr;
    bool finite = true;
    memset(v, 0, t->params * sizeof *v);
    for (size_t s = 0; s < span_count; s++)
        for (size_t i = 0; i < spans[s].count; i++)
            square += (double)grad[spans[s].offset + i] * (double)grad[spans[s].offset + i];
    double norm = sqrt(square);
    if (t->gradient_clip > 0 && norm > t->gradient_clip)
        scale *= t->gradient_clip / norm;
    for (size_t s = 0; s < span_count; s++)
        for (size_t i = 0; i < spans[s].count; i++) {
            float x = (float)(-scale * (double)grad[spans[s].offset + i]);
            finite = finite && isfinite(x);
            v[spans[s].offset + i] = x;
        }
    if (!isfinite(norm) || !finite)
        memset(v, 0, t->params * sizeof *v);
    return isfinite(norm) && finite;
}

static sefl_status on_record(void *ctx, size_t record, const nn_real *grad, const lm_span *spans,
                             size_t span_count, double loss)
{
    records *r = ctx;
    const task *t = r->c->task;
    (void)record;
    if (!step_of(r->v, t, task_lr(t, r->c->round), grad, spans, span_count) || !isfinite(loss))
        r->zeroed++; /* quantised like the others: it uses its coins */
    layout_select(&t->layout, r->v, r->v);
    SEFL_PASS(task_quantise(r->one, t, r->v, NULL, r->coins));
    return dp_add_record(r->X, r->one, t->values, t->ahe.pack.value_max);
}

/* Trains on one record. Its dropout mask depends on its place in the round. */
static sefl_status one_record(records *r, size_t record, size_t place)
{
    const client_train *c = r->c;
    const corpus *text = c->text;
    const size_t from = text->line[text->doc[record]], end = text->line[text->doc[record + 1]];
    const size_t most = c->task->record_words;
    const size_t border[2] = { from, end - from > most ? from + most : end };
    const train_records_args args = { .dropout = c->task->dropout,
                                      .seed = client_dropout_seed(c->task, c->round, c->client),
                                      .step = place };
    return train_records(c->m, text->token, border, 1, c->eos, &args, on_record, r);
}

sefl_status client_train_records(const client_train *c, int64_t *X, size_t *zeroed,
                                 int64_t *scratch, float *v, const sefl_rng *coins)
{
    sefl_status st = SEFL_OK;
    const size_t n = c->list ? c->list->n : c->text->docs;
    const dp_record_turns turns = task_record_turns(c->task);
    const dp_record_places d = dp_record_round(&turns, n, c->round);
    records r = { .c = c, .X = X, .one = scratch, .v = v, .coins = coins };
    const float_mode was = float_mode_flush();
    for (size_t i = 0; i < d.count; i++) {
        const size_t place = (size_t)dp_record_place(&d, i);
        SEFL_TRY(one_record(&r, c->list ? c->list->record[place] : place, i));
        SEFL_TRY(tick(c, i + 1, d.count));
    }
done:
    float_mode_set(was);
    *zeroed = r.zeroed;
    return st;
}
