#include "roles/client_update.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/fault.h"
#include "base/file.h"
#include "model/file/model_file.h"
#include "model/file/outfile.h"
#include "model/train.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 1 << 20 };

struct client_update {
    client_update_config c;
    ahe_enc *enc; /* made with the first round, kept */
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

uint64_t client_dropout_seed(const task *t, uint64_t round, const uint8_t client[32])
{
    static const char label[] = "sefl dropout 1";
    uint8_t n[8], digest[SHA256_BYTES];
    sha256 h;
    store_u64(n, round);
    sha256_init(&h);
    sha256_add(&h, span_of(label, sizeof label - 1));
    sha256_add(&h, span_of(t->id, TASK_ID));
    sha256_add(&h, span_of(n, sizeof n));
    sha256_add(&h, span_of(client, 32));
    sha256_end(&h, digest);
    return load_u64(digest);
}

sefl_status client_body_of(client_body *out, const char *path)
{
    sefl_status st = SEFL_OK;
    uint8_t *window = NULL;
    sha256 h;
    uint64_t bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return sefl_fail(errno == ENOENT ? SEFL_ENOTFOUND : SEFL_EIO, "cannot open %s: %s", path,
                         strerror(errno));
    SEFL_TRY(sefl_new(&window, WINDOW, 1));
    sha256_init(&h);
    for (;;) {
        ssize_t got = fault_hit(FAULT_READ) ? (errno = EIO, -1) : read(fd, window, WINDOW);
        if (got < 0 && errno == EINTR)
            continue;
        SEFL_CHECK(got >= 0, SEFL_EIO, "cannot read %s: %s", path, strerror(errno));
        if (got == 0)
            break;
        sha256_add(&h, span_of(window, (size_t)got));
        bytes += (uint64_t)got;
    }
    sha256_end(&h, out->hash);
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
    client_body file;
    model_meta meta;
    size_t count = 0;
    SEFL_TRY(client_body_of(&file, w->job->model));
    SEFL_CHECK(memcmp(file.hash, w->job->model_hash, SHA256_BYTES) == 0, SEFL_EAUTH,
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

/* No number of the run is named: the sentence may end up in a log. */
static sefl_status diverged(const work *w)
{
    return sefl_fail(SEFL_ERANGE,
                     "round %" PRIu64 ": local training diverged; nothing is uploaded in it",
                     w->job->round);
}

/* ---- from text to integers ------------------------------------------------------------------- */

static dp_plain_grid plain_grid(const task *t)
{
    /* q = C / 2^f exactly, so C is q * R */
    const pack *p = &t->ahe.pack;
    int64_t records = t->unit == TASK_UNIT_RECORD && t->records_max > 0 ? t->records_max : 1;
    return (dp_plain_grid){ .clip = p->q * ((double)p->r_2p16 / 65536),
                            .q = p->q,
                            .value_max = p->value_max / records };
}

static sefl_status round_vector(work *w, int64_t *X, const float *v, const dp_weight *weight)
{
    const task *t = w->t;
    if (t->noise == TASK_NOISE_NONE) {
        dp_plain_grid g = plain_grid(t);
        return dp_round_plain(X, &g, v, t->params, weight, &w->coins);
    }
    return dp_round(X, NULL, &t->grid, v, t->params, weight, &w->coins);
}

static sefl_status train_client(work *w)
{
    sefl_status st = SEFL_OK;
    const task *t = w->t;
    const corpus *text = w->u->c.text;
    trainer *tr = NULL;
    train_info info;
    train_config tc = { .lr = t->lr,
                        .clip = t->gradient_clip,
                        .dropout = t->dropout,
                        .seed = client_dropout_seed(t, w->job->round, w->u->c.client),
                        .optim = t->optim };
    SEFL_TRY(trainer_new(&tr, w->m, w->u->c.pool, &tc, text->token, text->tokens));
    uint64_t steps =
        t->local_epochs ? t->local_epochs * trainer_steps_per_epoch(tr) : t->local_steps;
    w->total += steps;
    for (uint64_t i = 0; i < steps; i++) {
        st = trainer_step(tr, &info);
        if (st == SEFL_ERANGE)
            st = diverged(w);
        if (st != SEFL_OK)
            goto done;
        SEFL_TRY(tick(w, 1));
    }
    const nn_real *theta = lm_theta(w->m);
    for (size_t i = 0; i < t->params; i++) {
        w->global[i] = theta[i] - w->global[i];
        if (!isfinite(w->global[i])) {
            st = diverged(w);
            goto done;
        }
    }
    close_model(w);
    dp_weight weight = { .items = text->tokens, .items_cap = t->weight_cap };
    SEFL_TRY(sefl_new(&w->X, t->values, sizeof *w->X));
    SEFL_TRY(round_vector(w, w->X, w->global, t->weights == TASK_CAPPED ? &weight : NULL));
done:
    sefl_wipe(&info, sizeof info);
    trainer_free(tr);
    return st;
}

/* ---- unit record ----------------------------------------------------------------------------- */

static sefl_status on_record(void *ctx, size_t record, const nn_real *grad, const lm_span *spans,
                             size_t span_count, double loss)
{
    work *w = ctx;
    const task *t = w->t;
    sefl_status st = SEFL_OK;
    float *v = w->global; /* theta is in the model */
    double square = 0;
    int64_t most = t->ahe.pack.value_max;
    (void)record, (void)loss;
    for (size_t s = 0; s < span_count; s++)
        for (size_t i = 0; i < spans[s].count; i++)
            square += (double)grad[spans[s].offset + i] * (double)grad[spans[s].offset + i];
    double norm = sqrt(square), scale = t->lr;
    if (!isfinite(norm)) {
        st = diverged(w);
        goto done;
    }
    if (t->gradient_clip > 0 && norm > t->gradient_clip)
        scale *= t->gradient_clip / norm;
    memset(v, 0, t->params * sizeof *v);
    for (size_t s = 0; s < span_count; s++)
        for (size_t i = 0; i < spans[s].count; i++)
            v[spans[s].offset + i] = (float)(-scale * (double)grad[spans[s].offset + i]);
    if (t->noise != TASK_NOISE_NONE) {
        SEFL_TRY(dp_round_add(w->X, w->one, &t->grid, v, t->params, most, &w->coins));
    } else {
        SEFL_TRY(round_vector(w, w->one, v, NULL));
        for (size_t i = 0; i < t->params; i++)
            SEFL_CHECK(w->one[i] <= most - w->X[i] && w->one[i] >= -most - w->X[i], SEFL_ERANGE,
                       "records: coordinate %zu of the sum passes the slot's bound", i);
        for (size_t i = 0; i < t->params; i++)
            w->X[i] += w->one[i];
    }
    SEFL_TRY(tick(w, 1));
done:
    return st;
}

/* Records [from, from + n) of the text, n > 0. */
static sefl_status some_records(work *w, size_t from, size_t n, uint64_t step)
{
    sefl_status st = SEFL_OK;
    const corpus *text = w->u->c.text;
    size_t *border = NULL;
    lm_gradient_args args = { .dropout = w->t->dropout,
                              .seed = client_dropout_seed(w->t, w->job->round, w->u->c.client),
                              .step = step };
    SEFL_TRY(sefl_new(&border, n + 1, sizeof *border));
    for (size_t i = 0; i <= n; i++)
        border[i] = text->line[text->doc[from + i]];
    st = train_records(w->m, text->token, border, n, vocab_eos(w->u->c.words), &args, on_record, w);
    if (st == SEFL_ERANGE)
        st = diverged(w);
done:
    sefl_free(border);
    return st;
}

static sefl_status train_by_record(work *w)
{
    sefl_status st = SEFL_OK;
    const task *t = w->t;
    size_t docs = w->u->c.text->docs, n = docs < t->records_max ? docs : t->records_max;
    unsigned __int128 passed = (unsigned __int128)(w->job->round - 1) * n;
    size_t from = n < docs ? (size_t)(passed % docs) : 0;
    size_t first = docs - from < n ? docs - from : n;
    w->total += n;
    SEFL_TRY(sefl_new(&w->X, t->values, sizeof *w->X));
    SEFL_TRY(sefl_new(&w->one, t->params, sizeof *w->one));
    SEFL_TRY(some_records(w, from, first, 0));
    if (first < n)
        SEFL_TRY(some_records(w, 0, n - first, first));
    close_model(w);
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
    sha256 h;

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
    sha256_init(&h);
    if (p->head_bytes > 0) {
        SEFL_TRY(ahe_upload_head(p, up, window, u->c.pool));
        sha256_add(&h, span_of(window, p->head_bytes));
        SEFL_TRY(outfile_put(&file, window, p->head_bytes));
    }
    for (size_t at = 0; at < p->units; at += piece) {
        size_t n = p->units - at < piece ? p->units - at : piece;
        SEFL_TRY(ahe_upload_units(p, up, window, w->X + at * p->unit_values, n, u->c.pool, NULL));
        sha256_add(&h, span_of(window, n * p->unit_bytes));
        SEFL_TRY(outfile_put(&file, window, n * p->unit_bytes));
        SEFL_TRY(tick(w, n));
    }
    uint64_t bytes = file.bytes;
    SEFL_TRY(outfile_commit(&file));
    sha256_end(&h, out->hash);
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
    SEFL_CHECK(job->round >= 1, SEFL_EINVAL, "rounds count from 1");
    SEFL_CHECK(!file_exists(job->body), SEFL_EEXIST,
               "round %" PRIu64 " was encrypted before: its bytes are in %s", job->round,
               job->body);
    SEFL_TRY(coins_for(u->c.coins, &w.coins, "round", job->round, job->attempt));
    SEFL_TRY(open_model(&w));
    if (job->zeros)
        SEFL_TRY(sefl_new(&w.X, w.t->values, sizeof *w.X));
    else if (w.t->unit == TASK_UNIT_RECORD)
        SEFL_TRY(train_by_record(&w));
    else
        SEFL_TRY(train_client(&w));
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
