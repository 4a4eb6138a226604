#include "roles/client_update.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/fault.h"
#include "base/file.h"
#include "model/file/model_file.h"
#include "model/file/outfile.h"
#include "roles/client_train.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 1 << 20 };

struct client_update {
    client_update_config c;
    ahe_enc *enc;  /* made with the first round, kept */
    bool diverged; /* in the latest round */
};

/* One round's work. */
typedef struct work {
    client_update *u;
    const task *t;
    const client_job *job;
    lm *m;
    float *global; /* theta of the round; then v */
    int64_t *X;    /* t->values */
    int64_t *one;  /* unit record: one record's integers */
    sefl_rng coins;
    uint64_t done, total; /* for progress */
} work;

sefl_status client_body_of(client_body *out, const char *path)
{
    sefl_status st = SEFL_OK;
    uint8_t *window = NULL;
    blake3 h;
    uint64_t bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return sefl_fail(errno == ENOENT ? SEFL_ENOTFOUND : SEFL_EIO, "cannot open %s: %s", path,
                         strerror(errno));
    SEFL_TRY(sefl_new(&window, WINDOW, 1));
    blake3_init(&h);
    for (;;) {
        ssize_t got = fault_hit(FAULT_READ) ? (errno = EIO, -1) : read(fd, window, WINDOW);
        if (got < 0 && errno == EINTR)
            continue;
        SEFL_CHECK(got >= 0, SEFL_EIO, "cannot read %s: %s", path, strerror(errno));
        if (got == 0)
            break;
        blake3_add(&h, span_of(window, (size_t)got));
        bytes += (uint64_t)got;
    }
    blake3_end(&h, out->hash);
    out->bytes = bytes;
done:
    close(fd);
    sefl_free(window);
    return st;
}

static sefl_status tick(work *w, uint64_t n)
{
    w->done += n;
    if (!progress_report(w->job->progress, w->done, w->total))
        return sefl_fail(SEFL_ECANCELLED, "round %" PRIu64 ": stopped", w->job->round);
    return SEFL_OK;
}

/* ---- the model of the round ------------------------------------------------------------------ */

static sefl_status same_model(const lm_config *file, const lm_config *wanted)
{
    sefl_status st = SEFL_OK;
    lm_config a = *file, b = *wanted;
    SEFL_TRY(lm_config_check(&a));
    SEFL_TRY(lm_config_check(&b));
    bool heads = strcmp(b.body, "transformer") == 0; /* without meaning in the others */
    SEFL_CHECK(strcmp(a.body, b.body) == 0 && a.vocab == b.vocab && a.embed == b.embed &&
                   a.hidden == b.hidden && a.layers == b.layers && a.block == b.block &&
                   a.tied == b.tied && (!heads || a.heads == b.heads),
               SEFL_EPROTO, "the model of the round is not of the task's kind or size");
done:
    return st;
}

static sefl_status open_model(work *w)
{
    sefl_status st = SEFL_OK;
    uint8_t hash[SHA256_BYTES];
    model_meta meta;
    size_t count = 0;
    SEFL_TRY(file_sha256(hash, NULL, w->job->model));
    SEFL_CHECK(memcmp(hash, w->job->model_hash, SHA256_BYTES) == 0, SEFL_EAUTH,
               "the model of round %" PRIu64 " is not the one that the servers signed",
               w->job->round);
    SEFL_TRY(model_read(&meta, &w->global, &count, w->job->model));
    SEFL_TRY(same_model(&meta.cfg, &w->t->model));
    SEFL_CHECK(count == w->t->params, SEFL_EPROTO, "the model has %zu values, the task says %zu",
               count, w->t->params);
    SEFL_CHECK(!meta.has_vocab || memcmp(meta.vocab_hash, w->t->vocab_hash, SHA256_BYTES) == 0,
               SEFL_EPROTO, "the model of the round was made for another vocabulary");
    if (!w->job->zeros) {
        SEFL_TRY(lm_new(&w->m, &w->t->model, w->u->c.pool));
        memcpy(lm_theta(w->m), w->global, count * sizeof(nn_real));
    }
done:
    return st;
}

static void close_model(work *w)
{
    if (w->m) {
        sefl_wipe(lm_theta(w->m), lm_count(w->m) * sizeof(nn_real));
        sefl_wipe(lm_grad(w->m), lm_count(w->m) * sizeof(nn_real));
    }
    lm_free(w->m);
    w->m = NULL;
}

/* Training's part of the progress; the units come behind it. */
static bool on_step(void *self, uint64_t done, uint64_t total)
{
    work *w = self;
    w->done = done;
    w->total = w->t->ahe.units + total;
    return progress_report(w->job->progress, w->done, w->total);
}

static sefl_status train(work *w)
{
    sefl_status st = SEFL_OK;
    const task *t = w->t;
    const client_update_config *c = &w->u->c;
    sefl_progress progress = { .report = on_step, .self = w };
    client_train job = { .task = t,
                         .text = c->text,
                         .eos = vocab_eos(c->words),
                         .client = c->client,
                         .round = w->job->round,
                         .m = w->m,
                         .pool = c->pool,
                         .progress = &progress };
    if (t->unit == TASK_UNIT_RECORD) {
        SEFL_TRY(sefl_new(&w->X, t->values, sizeof *w->X));
        SEFL_TRY(sefl_new(&w->one, t->params, sizeof *w->one));
        size_t zeroed;
        SEFL_TRY(client_train_records(&job, w->X, &zeroed, w->one, w->global, &w->coins));
        w->u->diverged = zeroed > 0;
        close_model(w);
    } else {
        st = client_train_local(&job, w->global);
        w->u->diverged = st == SEFL_ERANGE;
        SEFL_TRY(st == SEFL_ERANGE ? SEFL_OK : st);
        close_model(w);
        SEFL_TRY(sefl_new(&w->X, t->values, sizeof *w->X));
        if (!w->u->diverged)
            SEFL_TRY(client_train_round(w->X, t, c->text, w->global, &w->coins));
    }
done:
    return st;
}

/* ---- from integers to the file --------------------------------------------------------------- */

static sefl_status encrypt(work *w, client_body *out)
{
    sefl_status st = SEFL_OK;
    const ahe_params *p = &w->t->ahe;
    client_update *u = w->u;
    ahe_upload *up = NULL;
    outfile file = { 0 };
    uint8_t *window = NULL, context[AHE_CONTEXT_BYTES];
    size_t piece = WINDOW / p->unit_bytes;
    sefl_rng rng;
    blake3 h;

    piece = piece < 1 ? 1 : piece < p->units ? piece : p->units;
    size_t room = piece * p->unit_bytes < p->head_bytes ? p->head_bytes : piece * p->unit_bytes;
    if (!u->enc)
        SEFL_TRY(ahe_enc_new(&u->enc, w->t->pub, p, u->c.pool, NULL));
    SEFL_TRY(tick(w, 0));
    SEFL_TRY(sefl_new(&window, room, 1));
    SEFL_TRY(coins_for(u->c.coins, &rng, "encrypt", w->job->round, w->job->attempt));
    task_context(context, w->t, w->job->round);
    SEFL_TRY(ahe_upload_new(&up, p, u->enc, context, &rng));
    SEFL_TRY(outfile_open(&file, w->job->body, 0600));
    blake3_init(&h);
    if (p->head_bytes > 0) {
        SEFL_TRY(ahe_upload_head(p, up, window, u->c.pool));
        blake3_add(&h, span_of(window, p->head_bytes));
        SEFL_TRY(outfile_put(&file, window, p->head_bytes));
    }
    for (size_t at = 0; at < p->units; at += piece) {
        size_t n = p->units - at < piece ? p->units - at : piece;
        SEFL_TRY(ahe_upload_units(p, up, window, w->X + at * p->unit_values, n, u->c.pool, NULL));
        blake3_add(&h, span_of(window, n * p->unit_bytes));
        SEFL_TRY(outfile_put(&file, window, n * p->unit_bytes));
        SEFL_TRY(tick(w, n));
    }
    uint64_t bytes = file.bytes;
    SEFL_TRY(outfile_commit(&file));
    blake3_end(&h, out->hash);
    out->bytes = bytes;
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
    SEFL_CHECK(job->round >= 1, SEFL_EINVAL, "rounds count from 1");
    SEFL_CHECK(!file_exists(job->body), SEFL_EEXIST,
               "round %" PRIu64 " was encrypted before: its bytes are in %s", job->round,
               job->body);
    SEFL_TRY(coins_for(u->c.coins, &w.coins, "round", job->round, job->attempt));
    SEFL_TRY(open_model(&w));
    if (job->zeros)
        SEFL_TRY(sefl_new(&w.X, w.t->values, sizeof *w.X));
    else
        SEFL_TRY(train(&w));
    sefl_free_secret(w.global, w.t->params * sizeof *w.global);
    w.global = NULL;
    if (u->c.observe)
        u->c.observe(u->c.observe_ctx, job->round, w.X, w.t->values);
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
    sefl_status st = SEFL_OK;
    client_update *u = NULL;
    const task *t = c->task;
    uint8_t hash[SHA256_BYTES];
    *out = NULL;
    vocab_hash(c->words, hash);
    SEFL_CHECK(memcmp(hash, t->vocab_hash, SHA256_BYTES) == 0, SEFL_EAUTH,
               "the words are not the vocabulary of the task (another SHA-256)");
    SEFL_CHECK(vocab_size(c->words) == t->model.vocab, SEFL_EPROTO,
               "the vocabulary has %u words, the task's model %u", vocab_size(c->words),
               t->model.vocab);
    SEFL_CHECK(c->text->tokens >= 2 && c->text->docs >= 1, SEFL_EINVAL,
               "the text has fewer than two words: nothing to learn from");
    bool records = t->unit == TASK_UNIT_RECORD;
    SEFL_CHECK(!records || (t->weights == TASK_EQUAL && t->records_max >= 1), SEFL_EINVAL,
               "unit record wants equal weights and records_max");
    SEFL_CHECK(records || t->local_epochs || t->local_steps, SEFL_EINVAL,
               "the task says neither local epochs nor local steps");
    SEFL_CHECK(t->ahe.values == t->values && t->values == t->params + (t->weights == TASK_CAPPED),
               SEFL_EINVAL, "the task has %zu values for a model of %zu", t->values, t->params);
    SEFL_TRY(sefl_new(&u, 1, sizeof *u));
    u->c = *c;
    *out = u;
done:
    return st;
}

void client_update_free(client_update *u)
{
    if (!u)
        return;
    ahe_enc_free(&u->c.task->ahe, u->enc);
    sefl_free(u);
}
