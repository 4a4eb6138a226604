#include "fed/fed_train.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/float_mode.h"
#include "model/train.h"
#include "privacy/mechanism/quantise.h"
#include "protocol/modes/mode.h"
#include "store/record_list.h"

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

/* ---- unit client ----------------------------------------------------------------------------- */

train_steps client_train_steps(const train_job *job)
{
    const task *t = job->task;
    train_steps s = { .words = job->text->token,
                      .n = job->text->tokens,
                      .columns = t->model.batch,
                      .steps = t->model.steps,
                      .lr = task_lr(t, job->round),
                      .clip = t->gradient_clip,
                      .dropout.rate = t->dropout };
    s.limit =
        t->local_epochs ? t->local_epochs * train_layout_of(&s).steps_per_epoch : t->local_steps;
    lm_dropout_key(s.dropout.key, client_dropout_seed(t, job->round, job->client));
    return s;
}

sefl_status client_train_local(const train_job *job, engine *e, float *v)
{
    sefl_status st = SEFL_OK;
    const task *t = job->task;
    const train_steps steps = client_train_steps(job);
    engine_progress how = { 0 };
    const float_mode was = float_mode_flush(); /* the engine's copies and differences, too */
    SEFL_TRY(engine_start(e, 0, &steps));
    st = engine_train(e, 1, &how, job->progress);
    if (st == SEFL_ECANCELLED)
        sefl_note("round %" PRIu64 ": stopped", job->round);
    SEFL_TRY(st);
    bool finite = !how.diverged;
    if (finite)
        SEFL_TRY(engine_read(e, 0, ENGINE_DELTA, v, t->params * sizeof *v));
    for (size_t i = 0; finite && i < t->params; i++)
        finite = isfinite(v[i]);
    if (!finite)
        st = diverged(job->round);
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

/* Sets v to the step of one record; *ok: false if it is zeros because training diverged. The
 * dropout mask depends on the record's place in the round. */
static sefl_status one_record(float *v, bool *ok, const train_job *job, lm *m, size_t record,
                              size_t place)
{
    const task *t = job->task;
    const corpus *text = job->text;
    const size_t from = text->line[text->doc[record]], end = text->line[text->doc[record + 1]];
    const size_t n = end - from > t->record_words ? t->record_words : end - from;
    size_t span_count;
    double loss;
    SEFL_PASS(train_record(m, &loss, text->token + from, n, job->eos, t->dropout,
                           client_dropout_seed(t, job->round, job->client), place));
    const lm_span *spans = lm_spans(m, &span_count);
    *ok = step_of(v, t, task_lr(t, job->round), lm_grad(m), spans, span_count) && isfinite(loss);
    return SEFL_OK;
}

sefl_status client_train_records(const train_job *job, lm *m, int64_t *X, size_t *zeroed,
                                 int64_t *scratch, float *v, const sefl_rng *coins)
{
    sefl_status st = SEFL_OK;
    const task *t = job->task;
    const dp_record_turns turns = task_record_turns(t);
    const dp_record_places d =
        dp_record_round(&turns, job->list ? job->list->n : job->text->docs, job->round);
    const float_mode was = float_mode_flush();
    *zeroed = 0;
    for (size_t i = 0; i < d.count; i++) {
        const size_t place = (size_t)dp_record_place(&d, i);
        bool ok;
        SEFL_TRY(one_record(v, &ok, job, m, job->list ? job->list->record[place] : place, i));
        *zeroed += !ok;
        layout_select(&t->layout, v, v);
        SEFL_TRY(task_quantise(scratch, t, v, NULL, coins)); /* zeros, too, use their coins */
        SEFL_TRY(dp_add_record(X, scratch, t->values, t->ahe.pack.value_max));
        SEFL_CHECK(progress_report(job->progress, i + 1, d.count), SEFL_ECANCELLED,
                   "round %" PRIu64 ": stopped", job->round);
    }
done:
    float_mode_set(was);
    return st;
}
