/* The owner's thread and the client's thread meet in one small state, guarded by `lock`:
 *
 *     NONE   no round. The client's thread fills values and tensors, then OFFERED.
 *     OFFERED the client's thread waits in api_client_train(); sefl_client_wait makes it HELD.
 *     HELD   the owner trains. Only the owner leaves this state: submit (GIVEN), skip or wait
 *            (NONE). If the round closes meanwhile, `late` is set, and the client's thread goes on.
 *     GIVEN  `given` has the owner's values. The client quantises, encrypts and uploads; the end of
 *            the round makes it NONE and wakes the owner, who waits in submit.
 *
 * While the state is OFFERED or HELD, the client's thread does not change values and tensors, so
 * the owner's pointers stay valid even after the round has closed. While it is GIVEN, `given`
 * stays, because a full disk makes the client ask for the same round again. */
#include "sefl/client.h"

#include "api/roles/role_file.h"
#include "api/sized.h"
#include "base/alloc.h"
#include "base/cond.h"
#include "base/ct.h"
#include "fed/trainer.h"
#include "roles/client/client.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 250 }; /* how often a waiting trainer looks whether its round is still open */

typedef enum hand { NONE, OFFERED, HELD, GIVEN } hand;

struct sefl_client {
    role_file file;
    client_config cfg;
    sefl_client_options o;
    client *c;
    train_port port;

    pthread_t thread;
    bool started; /* the thread runs, or ran: the owner waits */
    bool ran;     /* sefl_client_run was called */
    atomic_bool stopped;

    pthread_mutex_t lock;
    pthread_cond_t moved;
    hand state;
    bool late;     /* HELD, but the round has closed */
    bool received; /* after GIVEN: the round ended with a receipt */
    char why[256]; /* after GIVEN without a receipt */
    sefl_receipt receipt;
    bool ended; /* client_run returned */
    sefl_status end;
    char message[512]; /* of a failed end */

    /* the round: written by the client's thread in NONE, by the owner in HELD (given, weight) */
    sefl_round round;
    layout layout;        /* of the task, which may be gone before the owner lets go */
    sefl_tensor *tensors; /* layout.n */
    char task[TASK_NAME_MAX + 1];
    char words[4096];
    float *values, *given; /* layout.dense each */
    uint64_t weight;
};

/* ---- the client's thread --------------------------------------------------------------------- */

static void clear_round(sefl_client *c)
{
    sefl_free_secret(c->given, c->layout.dense * sizeof *c->given);
    sefl_free(c->values);
    sefl_free(c->tensors);
    layout_clear(&c->layout);
    c->given = c->values = NULL;
    c->tensors = NULL;
}

static sefl_status new_layout(sefl_client *c, const layout *l)
{
    clear_round(c);
    SEFL_PASS(layout_copy(&c->layout, l));
    SEFL_PASS(sefl_new(&c->tensors, l->n, sizeof *c->tensors));
    SEFL_PASS(sefl_new(&c->values, l->dense, sizeof *c->values));
    SEFL_PASS(sefl_new(&c->given, l->dense, sizeof *c->given));
    for (size_t i = 0; i < l->n; i++) {
        const layout_tensor *x = &c->layout.tensor[i];
        c->tensors[i] = (sefl_tensor){ .name = x->name,
                                       .dims = x->rank,
                                       .offset = x->dense_offset,
                                       .count = x->dense_count,
                                       .trained = x->trainable };
        for (uint32_t k = 0; k < x->rank; k++)
            c->tensors[i].shape[k] = x->shape[k];
    }
    return SEFL_OK;
}

static bool same_layout(const layout *a, const layout *b)
{
    return a->n == b->n && a->dense == b->dense && a->n > 0 &&
           memcmp(a->tensor, b->tensor, a->n * sizeof *a->tensor) == 0;
}

static sefl_status fill_round(sefl_client *c, const train_job *job)
{
    const task *t = job->task;
    if (!same_layout(&c->layout, &t->layout))
        SEFL_PASS(new_layout(c, &t->layout));
    trainer_expand(c->values, &c->layout, job->theta);
    snprintf(c->task, sizeof c->task, "%s", t->name);
    snprintf(c->words, sizeof c->words, "%s", job->words ? job->words : "");
    c->round = (sefl_round){ .number = job->round,
                             .rounds = t->rounds,
                             .values = c->values,
                             .count = c->layout.dense,
                             .tensors = c->tensors,
                             .tensor_count = c->layout.n,
                             .task = c->task,
                             .vocabulary = job->words ? c->words : NULL,
                             .left_ms = job->left_ms,
                             .weight_cap = t->weights == TASK_CAPPED ? t->weight_cap : 0,
                             .claims_privacy = t->claim };
    return SEFL_OK;
}

static sefl_status cancelled(uint64_t round)
{
    return sefl_fail(SEFL_ECANCELLED, "round %" PRIu64 ": stopped", round);
}

/* Waits until `done` holds; SEFL_ECANCELLED once the round has closed. The caller holds the
 * lock. */
static sefl_status until(sefl_client *c, bool (*done)(const sefl_client *c), const train_job *job)
{
    while (!done(c)) {
        cond_wait_ms(&c->moved, &c->lock, LOOK_MS);
        pthread_mutex_unlock(&c->lock);
        bool goes_on = progress_report(job->progress, 0, 1); /* may ask the server */
        pthread_mutex_lock(&c->lock);
        if (!goes_on)
            return cancelled(job->round);
    }
    return SEFL_OK;
}

static bool is_free(const sefl_client *c)
{
    return c->state == NONE;
}

static bool is_answered(const sefl_client *c)
{
    return c->state == NONE || c->state == GIVEN;
}

/* Offers the round to the owner and waits for an answer. The caller holds the lock. */
static sefl_status offer(sefl_client *c, const train_job *job)
{
    SEFL_PASS(until(c, is_free, job)); /* the owner may still hold an earlier round */
    SEFL_PASS(fill_round(c, job));
    c->state = OFFERED;
    c->late = false;
    pthread_cond_broadcast(&c->moved);
    sefl_status st = until(c, is_answered, job);
    if (st != SEFL_OK && c->state == GIVEN) /* it came with the deadline: try */
        st = SEFL_OK;
    if (st != SEFL_OK && c->state == OFFERED)
        c->state = NONE;
    c->late = c->state == HELD;
    SEFL_PASS(st);
    SEFL_NEED(c->state == GIVEN, SEFL_ERANGE, "the program skipped this round");
    return SEFL_OK;
}

static sefl_status api_client_train(void *self, const train_job *job, float *v, uint64_t *weight)
{
    sefl_client *c = self;
    pthread_mutex_lock(&c->lock);
    bool again = c->state == GIVEN && c->round.number == job->round;
    sefl_status st = again ? SEFL_OK : offer(c, job);
    pthread_mutex_unlock(&c->lock);
    SEFL_PASS(st);
    if (c->weight > 0)
        *weight = c->weight;
    return trainer_change(v, &c->layout, c->values, c->given);
}

static void on_end(void *ctx, const client_end *e)
{
    sefl_client *c = ctx;
    pthread_mutex_lock(&c->lock);
    if (c->state == GIVEN) {
        c->received = e->body != NULL;
        c->receipt = (sefl_receipt){ .round = e->round, .ms = e->ms };
        if (e->body) {
            c->receipt.bytes = e->body->bytes;
            memcpy(c->receipt.hash, e->body->hash, sizeof c->receipt.hash);
        }
        snprintf(c->why, sizeof c->why, "%s", e->why ? e->why : "");
        sefl_wipe(c->given, c->layout.dense * sizeof *c->given);
        c->state = NONE;
        pthread_cond_broadcast(&c->moved);
    }
    pthread_mutex_unlock(&c->lock);
}

static void on_show(void *ctx, const client_view *v)
{
    const sefl_client *c = ctx;
    if (c->o.progress)
        c->o.progress(c->o.ctx, &(sefl_client_progress){ .doing = v->doing,
                                                         .round = v->round,
                                                         .rounds = v->rounds,
                                                         .done = v->done,
                                                         .total = v->total,
                                                         .bytes = v->bytes,
                                                         .ms = v->ms,
                                                         .claims_privacy = !v->no_claim });
}

static void on_model(void *ctx, const client_model *m)
{
    const sefl_client *c = ctx;
    if (c->o.model)
        c->o.model(c->o.ctx, &(sefl_client_model){ .round = m->round,
                                                   .final = m->final,
                                                   .path = m->path,
                                                   .vocabulary = m->words,
                                                   .perplexity = m->perplexity,
                                                   .own_words = m->own_words });
}

static void *run_client(void *self)
{
    sefl_client *c = self;
    sefl_status st = client_run(c->c);
    pthread_mutex_lock(&c->lock);
    c->ended = true;
    c->end = st;
    snprintf(c->message, sizeof c->message, "%s", st == SEFL_OK ? "" : sefl_last_error());
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- the owner's thread ---------------------------------------------------------------------- */

sefl_status sefl_client_open(sefl_client **out, const char *path,
                             const sefl_client_options *options)
{
    SEFL_MAKE(sefl_client, c, out);
    pthread_mutex_init(&c->lock, NULL);
    cond_init(&c->moved);
    SEFL_TRY(sized_in(&c->o, sizeof c->o, options));
    SEFL_TRY(role_file_open(&c->file, client_schema, path, c->o.settings));
    SEFL_TRY(role_file_log(&c->file, &(role_log){ .write = c->o.log,
                                                  .ctx = c->o.ctx,
                                                  .fd = c->o.log_fd,
                                                  .level = c->o.log_level }));
    SEFL_TRY(client_config_make(&c->cfg, &c->file.set));
    c->port = (train_port){ .self = c, .train = api_client_train };
    SEFL_TRY(client_new(&c->c, &(client_options){ .config = &c->cfg,
                                                  .log = &c->file.log,
                                                  .once = c->o.once,
                                                  .show = on_show,
                                                  .ended = on_end,
                                                  .model = on_model,
                                                  .show_ctx = c }));
    SEFL_HAND_OVER(out, c, sefl_client_close);
}

void sefl_client_close(sefl_client *c)
{
    if (!c)
        return;
    sefl_client_stop(c);
    if (c->started)
        pthread_join(c->thread, NULL);
    client_free(c->c);
    clear_round(c);
    role_file_close(&c->file);
    pthread_cond_destroy(&c->moved);
    pthread_mutex_destroy(&c->lock);
    sefl_free(c);
}

/* Returns how the client ended, to a caller that waited for something else. Holds the lock. */
static sefl_status end_of(const sefl_client *c)
{
    if (c->end != SEFL_OK)
        return sefl_fail(c->end, "%s", c->message);
    SEFL_NEED(!c->stopped, SEFL_ECANCELLED, "stopped");
    return SEFL_OK;
}

/* Lets go of the round that the owner holds. Holds the lock. */
static void let_go(sefl_client *c)
{
    if (c->state == HELD) {
        c->state = NONE;
        pthread_cond_broadcast(&c->moved);
    }
}

static sefl_status wait_round(sefl_client *c, sefl_round *round, const struct timespec *deadline)
{
    int rc = 0;
    let_go(c);
    while (c->state != OFFERED && !c->ended && rc == 0)
        rc = deadline ? pthread_cond_timedwait(&c->moved, &c->lock, deadline)
                      : pthread_cond_wait(&c->moved, &c->lock);
    SEFL_NEED(c->state == OFFERED || c->ended, SEFL_ETIMEOUT, "no round yet");
    if (c->ended) {
        SEFL_PASS(end_of(c));
        return sized_out(round, &(sefl_round){ .why = client_over(c->c) }, sizeof *round);
    }
    SEFL_PASS(sized_out(round, &c->round, sizeof *round));
    c->state = HELD;
    return SEFL_OK;
}

static sefl_status is_open(const sefl_client *c)
{
    SEFL_NEED(c, SEFL_EINVAL, "the client is NULL");
    return SEFL_OK;
}

static sefl_status start(sefl_client *c)
{
    SEFL_PASS(is_open(c));
    SEFL_NEED(!c->ran, SEFL_ESTATE, "this client runs by itself: sefl_client_run was called");
    if (c->started)
        return SEFL_OK;
    client_use_port(c->c, &c->port);
    SEFL_PASS(thread_start(&c->thread, run_client, c));
    c->started = true;
    return SEFL_OK;
}

static sefl_status wait_until(sefl_client *c, sefl_round *round, const struct timespec *deadline)
{
    SEFL_PASS(start(c));
    pthread_mutex_lock(&c->lock);
    sefl_status st = wait_round(c, round, deadline);
    pthread_mutex_unlock(&c->lock);
    return st;
}

sefl_status sefl_client_wait(sefl_client *c, sefl_round *round)
{
    return wait_until(c, round, NULL);
}

sefl_status sefl_client_wait_ms(sefl_client *c, sefl_round *round, uint64_t timeout_ms)
{
    struct timespec deadline = cond_after(timeout_ms);
    return wait_until(c, round, &deadline);
}

/* The owner's values are in `given`: hands them over and waits for the end of the round. */
static sefl_status hand_over(sefl_client *c, uint64_t weight, sefl_receipt *receipt)
{
    if (c->late) {
        let_go(c);
        return sefl_fail(SEFL_ETIMEOUT, "round %" PRIu64 " closed before its update was ready",
                         c->round.number);
    }
    c->weight = weight;
    c->state = GIVEN;
    pthread_cond_broadcast(&c->moved);
    while (c->state == GIVEN && !c->ended)
        pthread_cond_wait(&c->moved, &c->lock);
    if (c->state == GIVEN) { /* the client ended first */
        c->state = NONE;
        SEFL_PASS(end_of(c));
        return sefl_fail(SEFL_ETIMEOUT, "the task ended before the update was sent");
    }
    SEFL_NEED(c->received, SEFL_ETIMEOUT, "round %" PRIu64 " closed without this update: %s",
              c->receipt.round, c->why);
    return receipt ? sized_out(receipt, &c->receipt, sizeof *receipt) : SEFL_OK;
}

static sefl_status holds(sefl_client *c)
{
    SEFL_PASS(is_open(c));
    pthread_mutex_lock(&c->lock);
    bool held = c->state == HELD;
    pthread_mutex_unlock(&c->lock);
    SEFL_NEED(held, SEFL_ESTATE, "there is no round: call sefl_client_wait first");
    return SEFL_OK;
}

static sefl_status give(sefl_client *c, uint64_t weight, sefl_receipt *receipt)
{
    pthread_mutex_lock(&c->lock);
    sefl_status st = hand_over(c, weight, receipt);
    pthread_mutex_unlock(&c->lock);
    return st;
}

sefl_status sefl_client_submit(sefl_client *c, const float *values, size_t count, uint64_t weight,
                               sefl_receipt *receipt)
{
    SEFL_PASS(holds(c));
    SEFL_NEED(count == c->layout.dense, SEFL_EINVAL, "%zu values, the model has %zu", count,
              c->layout.dense);
    SEFL_NEED(values, SEFL_EINVAL, "the values are NULL");
    memcpy(c->given, values, count * sizeof *values);
    return give(c, weight, receipt);
}

static bool same_shape(const layout_tensor *x, const sefl_named_tensor *given)
{
    bool same = x->rank == given->dims;
    for (uint32_t i = 0; same && i < x->rank; i++)
        same = x->shape[i] == given->shape[i];
    return same;
}

/* Copies the named tensors to their places in c->given; the others keep the global values. */
static sefl_status take_named(sefl_client *c, const sefl_named_tensor *given, size_t n)
{
    sefl_status st = SEFL_OK;
    const layout *l = &c->layout;
    bool *had = NULL;
    SEFL_TRY(sefl_new(&had, l->n, sizeof *had));
    memcpy(c->given, c->values, l->dense * sizeof *c->given);
    for (size_t i = 0; i < n; i++) {
        SEFL_CHECK(given && given[i].name, SEFL_EINVAL, "tensor %zu of %zu has no name", i + 1, n);
        const layout_tensor *x = layout_find(l, given[i].name);
        SEFL_CHECK(x, SEFL_EINVAL, "tensor %.128s: the task has no such tensor", given[i].name);
        SEFL_CHECK(same_shape(x, &given[i]), SEFL_EINVAL,
                   "tensor %s: another shape than in the task", x->name);
        SEFL_CHECK(!had[x - l->tensor], SEFL_EINVAL, "tensor %s is given twice", x->name);
        SEFL_CHECK(given[i].values, SEFL_EINVAL, "tensor %s: the values are NULL", x->name);
        had[x - l->tensor] = true;
        memcpy(c->given + x->dense_offset, given[i].values, x->dense_count * sizeof *c->given);
    }
    for (size_t i = 0; i < l->n; i++)
        SEFL_CHECK(had[i] || !l->tensor[i].trainable, SEFL_EINVAL, "tensor %s is missing",
                   l->tensor[i].name);
done:
    sefl_free(had);
    return st;
}

sefl_status sefl_client_submit_tensors(sefl_client *c, const sefl_named_tensor *tensors,
                                       size_t tensor_count, uint64_t weight, sefl_receipt *receipt)
{
    SEFL_PASS(holds(c));
    SEFL_PASS(take_named(c, tensors, tensor_count));
    return give(c, weight, receipt);
}

sefl_status sefl_client_skip(sefl_client *c)
{
    SEFL_PASS(holds(c));
    pthread_mutex_lock(&c->lock);
    let_go(c);
    pthread_mutex_unlock(&c->lock);
    return SEFL_OK;
}

int sefl_client_wanted(sefl_client *c)
{
    if (!c)
        return 0;
    pthread_mutex_lock(&c->lock);
    bool wanted = c->state == HELD && !c->late && !c->ended && !c->stopped;
    pthread_mutex_unlock(&c->lock);
    return wanted;
}

sefl_status sefl_client_run(sefl_client *c)
{
    SEFL_PASS(is_open(c));
    SEFL_NEED(!c->started && !c->ran, SEFL_ESTATE, "this client already runs or waits");
    c->ran = true;
    return client_run(c->c);
}

void sefl_client_stop(sefl_client *c)
{
    if (!c)
        return;
    c->stopped = true;
    if (c->c)
        client_stop(c->c);
    pthread_mutex_lock(&c->lock);
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
}

void sefl_client_reload(sefl_client *c)
{
    if (!c)
        return;
    role_file_reload(&c->file);
    client_reload(c->c);
}
