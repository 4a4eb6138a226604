#include "roles/client/update.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/file.h"
#include "base/outfile.h"
#include "crypto/ahe/ahe.h"
#include "model/file/model_file.h"
#include "protocol/update.h"
#include "roles/client/train.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 1 << 20 };

struct client_update {
    client_update_config c;
    ahe_enc *enc;   /* made in the first round, then kept */
    bool diverged;  /* in the latest round */
    char told[160]; /* the device that the log names last */
};

/* One round's work. */
typedef struct work {
    client_update *u;
    const task *t;
    const client_job *job;
    engine *e;     /* unit client */
    lm *m;         /* unit record */
    float *global; /* the round's theta; then v */
    int64_t *X;    /* t->values */
    int64_t *one;  /* unit record: one record's integers */
    sefl_rng coins;
    uint64_t done, total; /* for progress */
} work;

sefl_status client_body_of(client_body *out, const char *path, size_t head_bytes)
{
    sefl_status st = SEFL_OK;
    uint8_t *window = NULL;
    client_body b = { 0 };
    blake3 h;
    size_t got;
    *out = b;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return sefl_fail(errno == ENOENT ? SEFL_ENOTFOUND : SEFL_EIO, "cannot open %s: %s", path,
                         strerror(errno));
    assert(head_bytes <= WINDOW);
    SEFL_TRY(sefl_new(&window, WINDOW, 1));
    SEFL_TRY(file_read_at(fd, path, 0, window, head_bytes, &got));
    SEFL_CHECK(got == head_bytes, SEFL_EPROTO, "%s is shorter than the head of an update", path);
    sha256_of(b.head, span_of(window, head_bytes));
    b.bytes = head_bytes;
    blake3_init(&h);
    do {
        SEFL_TRY(file_read_at(fd, path, b.bytes, window, WINDOW, &got));
        blake3_add(&h, span_of(window, got));
        b.bytes += got;
    } while (got == WINDOW);
    blake3_end(&h, b.hash);
    *out = b;
done:
    close(fd);
    sefl_free(window);
    return st;
}

bool client_body_same(const client_body *a, const client_body *b)
{
    return a->bytes == b->bytes && memcmp(a->hash, b->hash, sizeof a->hash) == 0 &&
           memcmp(a->head, b->head, sizeof a->head) == 0;
}

static sefl_status tick(work *w, uint64_t n)
{
    w->done += n;
    if (!progress_report(w->job->progress, w->done, w->total))
        return sefl_fail(SEFL_ECANCELLED, "round %" PRIu64 ": stopped", w->job->header->round);
    return SEFL_OK;
}

/* ---- the model of the round ------------------------------------------------------------------ */

static sefl_status open_engine(work *w)
{
    client_update *u = w->u;
    SEFL_PASS(engine_new(&w->e, &(engine_config){ .device = u->c.device,
                                                  .precision = u->c.precision,
                                                  .model = &w->t->model,
                                                  .optim = w->t->optim,
                                                  .pool = u->c.pool }));
    if (strcmp(u->told, engine_name(w->e)) != 0)
        log_info(u->c.log, "trains", lf_str("device", engine_name(w->e)),
                 lf_if(engine_fallback(w->e), lf_str("fallback", engine_fallback(w->e))));
    snprintf(u->told, sizeof u->told, "%s", engine_name(w->e));
    return engine_theta(w->e, w->global);
}

static sefl_status open_model(work *w)
{
    uint8_t hash[SHA256_BYTES];
    model_meta meta;
    size_t count = 0;
    SEFL_PASS(file_sha256(hash, NULL, w->job->model));
    SEFL_NEED(memcmp(hash, w->job->header->model, SHA256_BYTES) == 0, SEFL_EAUTH,
              "the model of round %" PRIu64 " is not the one that the servers signed",
              w->job->header->round);
    SEFL_PASS(model_read(&meta, &w->global, &count, w->job->model));
    if (model_check_shape(&meta, &w->t->model) != SEFL_OK)
        return sefl_fail_at(SEFL_EPROTO, "the round's model does not have the task's shape");
    SEFL_NEED(count == w->t->params, SEFL_EPROTO, "the model has %zu values, the task's model %zu",
              count, w->t->params);
    SEFL_NEED(!meta.has_vocab || memcmp(meta.vocab_hash, w->t->vocab_hash, SHA256_BYTES) == 0,
              SEFL_EPROTO, "the round's model has another vocabulary than the task");
    if (w->job->zeros)
        return SEFL_OK;
    if (w->t->unit == TASK_UNIT_RECORD) {
        const char *device = w->u->c.device;
        if (!w->u->told[0] && device && strcmp(device, "cpu") != 0)
            log_warn(w->u->c.log, "trains on the processor", lf_str("device", device),
                     lf_str("why", "the task's unit is a record: each gradient is needed alone"));
        snprintf(w->u->told, sizeof w->u->told, "cpu");
        SEFL_PASS(lm_new(&w->m, &w->t->model, w->u->c.pool));
        memcpy(lm_theta(w->m), w->global, count * sizeof(nn_real));
        return SEFL_OK;
    }
    return open_engine(w);
}

static void close_model(work *w)
{
    if (w->m) {
        sefl_wipe(lm_theta(w->m), lm_count(w->m) * sizeof(nn_real));
        sefl_wipe(lm_grad(w->m), lm_count(w->m) * sizeof(nn_real));
    }
    lm_free(w->m);
    engine_free(w->e);
    w->m = NULL, w->e = NULL;
}

/* Reports the progress of training; the units follow it. */
static bool on_step(void *self, uint64_t done, uint64_t total)
{
    work *w = self;
    w->done = done;
    w->total = w->t->ahe.units + total;
    return progress_report(w->job->progress, w->done, w->total);
}

static sefl_status train(work *w)
{
    const task *t = w->t;
    const client_update_config *c = &w->u->c;
    sefl_progress progress = { .report = on_step, .self = w };
    client_train job = { .task = t,
                         .text = c->text,
                         .eos = vocab_eos(c->words),
                         .client = c->client,
                         .round = w->job->header->round,
                         .e = w->e,
                         .m = w->m,
                         .progress = &progress };
    if (t->unit == TASK_UNIT_RECORD) {
        SEFL_PASS(sefl_new(&w->X, t->values, sizeof *w->X));
        SEFL_PASS(sefl_new(&w->one, t->params, sizeof *w->one));
        size_t zeroed;
        SEFL_PASS(client_train_records(&job, w->X, &zeroed, w->one, w->global, &w->coins));
        w->u->diverged = zeroed > 0;
        close_model(w);
    } else {
        sefl_status st = client_train_local(&job, w->global);
        w->u->diverged = st == SEFL_ERANGE;
        SEFL_PASS(st == SEFL_ERANGE ? SEFL_OK : st);
        close_model(w);
        SEFL_PASS(sefl_new(&w->X, t->values, sizeof *w->X));
        if (!w->u->diverged)
            SEFL_PASS(client_train_round(w->X, t, c->text, w->global, &w->coins));
    }
    return SEFL_OK;
}

/* ---- from integers to the file --------------------------------------------------------------- */

/* Writes space for the head, then the units, then the head, which contains their hash. */
static sefl_status encrypt(work *w, client_body *out)
{
    sefl_status st = SEFL_OK;
    const ahe_params *p = &w->t->ahe;
    client_update *u = w->u;
    ahe_upload *up = NULL;
    outfile file = { 0 };
    uint8_t *window = NULL, context[AHE_CONTEXT_BYTES], front[HEAD_MAX] = { 0 };
    size_t piece = WINDOW / p->unit_bytes, before = head_bytes(w->t->seal);
    sefl_rng rng;
    blake3 h;
    client_body body;

    piece = piece < 1 ? 1 : piece < p->units ? piece : p->units;
    if (!u->enc)
        SEFL_TRY(ahe_enc_new(&u->enc, w->t->pub, p, u->c.pool, NULL));
    SEFL_TRY(tick(w, 0));
    SEFL_TRY(sefl_new(&window, piece, p->unit_bytes));
    SEFL_TRY(coins_for(u->c.coins, &rng, "encrypt", w->job->header->round, w->job->attempt));
    task_upload_context(context, w->t, w->job->header->round, u->c.client);
    SEFL_TRY(ahe_upload_new(&up, p, u->enc, context, &rng));
    SEFL_TRY(outfile_open(&file, w->job->body, 0600));
    SEFL_TRY(outfile_put(&file, front, before));
    blake3_init(&h);
    for (size_t at = 0; at < p->units; at += piece) {
        size_t n = p->units - at < piece ? p->units - at : piece;
        SEFL_TRY(ahe_upload_units(p, up, window, w->X + at * p->unit_values, n, u->c.pool, NULL));
        blake3_add(&h, span_of(window, n * p->unit_bytes));
        SEFL_TRY(outfile_put(&file, window, n * p->unit_bytes));
        SEFL_TRY(tick(w, n));
    }
    blake3_end(&h, body.hash);
    if (before > 0) {
        SEFL_TRY(update_head(front,
                             &(update_facts){ .task = w->t,
                                              .header = w->job->header,
                                              .client = u->c.client,
                                              .upload_key = u->c.upload_key },
                             up, body.hash, &rng));
        SEFL_TRY(outfile_patch(&file, 0, front, before));
    }
    sha256_of(body.head, span_of(front, before));
    body.bytes = file.bytes;
    SEFL_TRY(outfile_commit(&file));
    *out = body;
done:
    ahe_upload_free(p, up);
    outfile_abort(&file);
    sefl_free(window);
    return st;
}

static void clear_work(work *w)
{
    close_model(w);
    sefl_free_secret(w->global, w->global ? w->t->params * sizeof *w->global : 0);
    sefl_free_secret(w->X, w->X ? w->t->values * sizeof *w->X : 0);
    sefl_free_secret(w->one, w->one ? w->t->params * sizeof *w->one : 0);
}

sefl_status client_update_make(client_update *u, client_body *out, const client_job *job)
{
    sefl_status st = SEFL_OK;
    work w = { .u = u, .t = u->c.task, .job = job, .total = u->c.task->ahe.units };
    client_body made = { 0 };
    *out = made;
    u->diverged = false;
    const uint64_t round = job->header->round;
    SEFL_CHECK(round >= 1, SEFL_EINVAL, "rounds count from 1");
    SEFL_CHECK(!file_exists(job->body), SEFL_EEXIST,
               "round %" PRIu64 " was already encrypted: its bytes are in %s", round, job->body);
    SEFL_TRY(coins_for(u->c.coins, &w.coins, "round", round, job->attempt));
    SEFL_TRY(open_model(&w));
    if (job->zeros)
        SEFL_TRY(sefl_new(&w.X, w.t->values, sizeof *w.X));
    else
        SEFL_TRY(train(&w));
    sefl_free_secret(w.global, w.t->params * sizeof *w.global);
    w.global = NULL;
    if (u->c.observe)
        u->c.observe(u->c.observe_ctx, round, w.X, w.t->values);
    SEFL_TRY(encrypt(&w, &made));
    *out = made;
done:
    clear_work(&w);
    return st;
}

bool client_update_diverged(const client_update *u)
{
    return u->diverged;
}

/* ---- what is kept between rounds ------------------------------------------------------------- */

sefl_status client_update_new(client_update **out, const client_update_config *c)
{
    client_update *u = NULL;
    const task *t = c->task;
    uint8_t hash[SHA256_BYTES];
    *out = NULL;
    vocab_hash(c->words, hash);
    SEFL_NEED(memcmp(hash, t->vocab_hash, SHA256_BYTES) == 0, SEFL_EAUTH,
              "the words are not the task's vocabulary (different SHA-256)");
    SEFL_NEED(vocab_size(c->words) == t->model.vocab, SEFL_EPROTO,
              "the vocabulary has %u words, the task's model %u", vocab_size(c->words),
              t->model.vocab);
    SEFL_NEED(c->text->tokens >= 2 && c->text->docs >= 1, SEFL_EINVAL,
              "the text has fewer than two words: too short to train on");
    bool records = t->unit == TASK_UNIT_RECORD;
    SEFL_NEED(!records || (t->weights == TASK_EQUAL && t->records_max >= 1), SEFL_EINVAL,
              "unit record needs equal weights and records_max");
    SEFL_NEED(records || t->local_epochs || t->local_steps, SEFL_EINVAL,
              "the task sets neither local epochs nor local steps");
    SEFL_NEED(!task_is_sealed(t) || c->upload_key, SEFL_EINVAL,
              "a sealed task needs an upload key");
    SEFL_NEED(t->ahe.values == t->values && t->values == t->params + (t->weights == TASK_CAPPED),
              SEFL_EINVAL, "the task has %zu values for a model of %zu", t->values, t->params);
    SEFL_PASS(sefl_new(&u, 1, sizeof *u));
    u->c = *c;
    *out = u;
    return SEFL_OK;
}

void client_update_free(client_update *u)
{
    if (!u)
        return;
    ahe_enc_free(&u->c.task->ahe, u->enc);
    sefl_free(u);
}
