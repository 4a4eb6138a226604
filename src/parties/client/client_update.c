#include "roles/client/client_update.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/file.h"
#include "base/outfile.h"
#include "crypto/ahe/ahe.h"
#include "fed/fed_train.h"
#include "protocol/task_model.h"
#include "protocol/update.h"

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
    ahe_enc *enc;  /* made in the first round, then kept */
    bool diverged; /* in the latest round */
    char why[256];
};

/* One round's work. */
typedef struct work {
    client_update *u;
    const task *t;
    const char *path;
    const round_header *header;
    train_job job;               /* with theta and our progress */
    const sefl_progress *report; /* the caller's */
    sefl_progress own;
    float *global; /* the round's theta; then v */
    uint64_t clip; /* of the round */
    int64_t *X;    /* t->values */
    sefl_rng coins;
    uint64_t done, total; /* for progress */
} work;

sefl_status client_body_of(client_body *out, const char *path, size_t head_bytes)
{
    sefl_status st = SEFL_OK;
    uint8_t *window = NULL;
    client_body b = { 0 };
    update_name name;
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
    update_name_init(&name);
    do {
        SEFL_TRY(file_read_at(fd, path, b.bytes, window, WINDOW, &got));
        update_name_add(&name, span_of(window, got));
        b.bytes += got;
    } while (got == WINDOW);
    update_name_end(&name, b.hash);
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
    if (!progress_report(w->report, w->done, w->total))
        return sefl_fail(SEFL_ECANCELLED, "round %" PRIu64 ": stopped", w->job.round);
    return SEFL_OK;
}

/* ---- the model of the round ------------------------------------------------------------------ */

static sefl_status open_model(work *w)
{
    uint8_t hash[SHA256_BYTES];
    SEFL_PASS(file_sha256(hash, NULL, w->job.model));
    SEFL_NEED(memcmp(hash, w->header->model, SHA256_BYTES) == 0, SEFL_EAUTH,
              "the model of round %" PRIu64 " is not the one that the servers signed",
              w->job.round);
    return sefl_at(task_model_read_clip(&w->global, &w->clip, w->t, w->job.model),
                   "the round's model");
}

/* ---- training -------------------------------------------------------------------------------- */

/* Reports the progress of training; the units follow it. */
static bool on_step(void *self, uint64_t done, uint64_t total)
{
    work *w = self;
    w->done = done;
    w->total = w->t->ahe.units + total;
    return progress_report(w->report, w->done, w->total);
}

static sefl_status client_update_train(work *w)
{
    const task *t = w->t;
    client_update *u = w->u;
    const train_port *port = &u->c.port;
    w->own = (sefl_progress){ .report = on_step, .self = w };
    w->job.theta = w->global, w->job.progress = &w->own;
    uint64_t weight = t->weight_cap;
    if (t->unit == TASK_UNIT_RECORD) {
        size_t zeroed = 0;
        SEFL_PASS(sefl_new(&w->X, t->values, sizeof *w->X));
        SEFL_PASS(port->records(port->self, &w->job, w->global, w->X, &zeroed, &w->coins));
        u->diverged = zeroed > 0;
        return SEFL_OK;
    }
    sefl_status st = port->train(port->self, &w->job, w->global, &weight);
    /* Zeros: a missing upload would reveal something about the client's data, to everyone who
     * counts uploads; and a server could choose a model that some texts cannot be trained on. */
    u->diverged = st == SEFL_ERANGE;
    if (u->diverged)
        snprintf(u->why, sizeof u->why, "%s", sefl_last_error());
    SEFL_PASS(u->diverged ? SEFL_OK : st);
    SEFL_PASS(sefl_new(&w->X, t->values, sizeof *w->X));
    layout_select(&t->layout, w->global, w->global);
    return u->diverged ? SEFL_OK
                       : client_train_round(w->X, t, w->clip, weight, w->global, &w->coins);
}

/* ---- from integers to the file --------------------------------------------------------------- */

/* Writes space for the head, then salt and units, then the head, which contains their name. */
static sefl_status encrypt(work *w, client_body *out)
{
    sefl_status st = SEFL_OK;
    const ahe_params *p = &w->t->ahe;
    client_update *u = w->u;
    ahe_upload *up = NULL;
    outfile file = { 0 };
    uint8_t *window = NULL, context[AHE_CONTEXT_BYTES], front[HEAD_MAX] = { 0 };
    uint8_t salt[UPDATE_SALT];
    size_t piece = WINDOW / p->unit_bytes, before = head_bytes(w->t->seal);
    sefl_rng rng, salts;
    update_name name;
    client_body body;

    piece = piece < 1 ? 1 : piece < p->units ? piece : p->units;
    if (!u->enc)
        SEFL_TRY(ahe_enc_new(&u->enc, w->t->pub, p, u->c.pool, NULL));
    SEFL_TRY(tick(w, 0));
    SEFL_TRY(sefl_new(&window, piece, p->unit_bytes));
    SEFL_TRY(coins_for(u->c.coins, &rng, "encrypt", w->job.round, w->job.attempt));
    SEFL_TRY(coins_for(u->c.coins, &salts, "salt", w->job.round, w->job.attempt));
    task_upload_context(context, w->t, w->job.round, w->job.client);
    SEFL_TRY(ahe_upload_new(&up, p, u->enc, context, &rng));
    SEFL_TRY(outfile_open(&file, w->path, 0600));
    SEFL_TRY(outfile_put(&file, front, before));
    SEFL_TRY(update_salt(salt, &name, &salts));
    SEFL_TRY(outfile_put(&file, salt, sizeof salt));
    for (size_t at = 0; at < p->units; at += piece) {
        size_t n = p->units - at < piece ? p->units - at : piece;
        SEFL_TRY(ahe_upload_units(p, up, window, w->X + at * p->unit_values, n, u->c.pool, NULL));
        update_name_add(&name, span_of(window, n * p->unit_bytes));
        SEFL_TRY(outfile_put(&file, window, n * p->unit_bytes));
        SEFL_TRY(tick(w, n));
    }
    update_name_end(&name, body.hash);
    if (before > 0) {
        SEFL_TRY(update_head(front,
                             &(update_facts){ .task = w->t,
                                              .header = w->header,
                                              .client = w->job.client,
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
    sefl_free_secret(w->global, w->global ? w->t->params * sizeof *w->global : 0);
    sefl_free_secret(w->X, w->X ? w->t->values * sizeof *w->X : 0);
}

sefl_status client_update_make(client_update *u, client_body *out, const char *path,
                               const round_header *header, const train_job *job)
{
    sefl_status st = SEFL_OK;
    work w = { .u = u,
               .t = u->c.task,
               .path = path,
               .header = header,
               .job = *job,
               .report = job->progress,
               .total = u->c.task->ahe.units };
    client_body made = { 0 };
    *out = made;
    u->diverged = false;
    u->why[0] = 0;
    const uint64_t round = job->round;
    assert(round == header->round);
    SEFL_CHECK(round >= 1, SEFL_EINVAL, "rounds count from 1");
    SEFL_CHECK(!file_exists(path), SEFL_EEXIST,
               "round %" PRIu64 " was already encrypted: its bytes are in %s", round, path);
    SEFL_TRY(coins_for(u->c.coins, &w.coins, "round", round, job->attempt));
    SEFL_TRY(open_model(&w));
    SEFL_TRY(client_update_train(&w));
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

const char *client_update_why(const client_update *u)
{
    return u->why;
}

/* ---- what is kept between rounds ------------------------------------------------------------- */

sefl_status client_update_new(client_update **out, const client_update_config *c)
{
    client_update *u = NULL;
    const task *t = c->task;
    *out = NULL;
    bool records = t->unit == TASK_UNIT_RECORD;
    SEFL_NEED(!records || (t->weights == TASK_EQUAL && t->records_max >= 1), SEFL_EINVAL,
              "unit record needs equal weights and records_max");
    SEFL_NEED(!records || c->port.records, SEFL_EINVAL,
              "the task protects single records: only the built-in training can keep them apart");
    SEFL_NEED(!task_is_sealed(t) || c->upload_key, SEFL_EINVAL,
              "a sealed task needs an upload key");
    SEFL_NEED(t->ahe.values == t->values && t->layout.trained == task_trained(t) &&
                  t->layout.count == t->params,
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
