/* trainer: the port through which a client gets the result of training in a round.
 *
 * client_update (update.h) and the simulator know no trainer; they call a port:
 *
 *     float *v;                                       // t->params values: trained minus global
 *     uint64_t weight = t->weight_cap;
 *     SEFL_TRY(port->train(port->self, &(trainer_round){ .task = t, .round = 3, .theta = theta,
 *                                                  .client = id, .progress = &p }, v, &weight));
 *
 * There are three trainers:
 *     built-in   builtin.h: the engine, on the client's text. It works on the task's own values
 *                (block-Hankel matrices stay compressed) and can train records separately.
 *     hook       hook.h: the owner's command; tensors travel as safetensors files.
 *     caller     src/app/api/roles/client.c: the program that uses include/sefl/client.h.
 * choose_trainer in client.c selects one of them.
 *
 * The last two know nothing of compression: they see every tensor as a dense row-major matrix, one
 * after the other in the order of the task's layout. Such a trainer implements `dense_trainer`, and
 * trainer_of_dense makes a port of it. The port expands the global model, calls the trainer, checks
 * what comes back, subtracts the global model, and projects the difference of each block-Hankel
 * tensor (bhm_project: the mean over each anti-diagonal). The caller's trainer keeps the dense
 * values itself, and calls these steps one by one.
 *
 *     static sefl_status train(void *self, const dense_round *r, float *out, uint64_t *weight);
 *     dense_trainer mine = { .self = me, .train = train };
 *     trainer_port port = trainer_of_dense(&mine);             // `mine` outlives the port
 *
 * What a trainer returns decides what the client does:
 *     SEFL_OK          the update is clipped, quantised, encrypted and uploaded
 *     SEFL_ECANCELLED  r->progress returned false: the client stops, or the round has closed
 *     SEFL_ERANGE      there is no usable update in this round; the message says why and goes to
 *                      the client's log, so it names tensors and never values. The client does not
 *                      take part in this round; for a port with `always` (the built-in trainer),
 *                      it uploads zeros instead.
 *     SEFL_EIO         the client tries this round again later, with new coins
 *     anything else    the client ends with this status and message
 *
 * Secret: theta is public, everything a trainer writes is secret; the caller wipes v, and
 * trainer_of_dense wipes its copies. Not constant-time: training runs on the owner's machine.
 * Threads: the client calls a port from one thread; a port may use others inside a call. */
#ifndef FED_TRAINER_H
#define FED_TRAINER_H

#include "base/progress.h"
#include "base/random.h"
#include "protocol/task.h"

/* One round, as the port gets it. */
typedef struct trainer_round {
    const task *task;
    uint64_t round;
    const float *theta;            /* the global model: task->params values */
    const uint8_t *client;         /* 32 bytes: fingerprint of the client's certificate */
    const char *words;             /* path of the task's word list; NULL: the task has none */
    uint64_t left_ms;              /* time until the round's deadline */
    const sefl_progress *progress; /* call it at least once a second: it ends training in time */
} trainer_round;

typedef struct trainer_port {
    void *self;
    /* Sets v, task->params values, to the trained values minus theta; v may be theta's array.
     * *weight is the number of items (words, examples) that the update stands for. On entry it is
     * the task's cap, which gives the full weight; tasks with equal weights ignore it. */
    sefl_status (*train)(void *self, const trainer_round *r, float *v, uint64_t *weight);
    /* Unit record: adds the quantised step of each record to X, task->values integers, and counts
     * in *zeroed the records whose training diverged. v is scratch and may be theta's array. NULL:
     * the client refuses such a task. */
    sefl_status (*records)(void *self, const trainer_round *r, float *v, int64_t *X, size_t *zeroed,
                           const sefl_rng *coins);
    bool always; /* SEFL_ERANGE uploads zeros */
} trainer_port;

/* ---- trainers of dense tensors --------------------------------------------------------------- */

/* The same round with dense values. */
typedef struct dense_round {
    const trainer_round *of;
    const float *values; /* every tensor, dense, in the order of the layout */
    size_t count;
} dense_round;

typedef struct dense_trainer {
    void *self;
    /* Sets out, r->count values, to the trained values; on entry it has the global ones. Values of
     * tensors that the task does not train are ignored. */
    sefl_status (*train)(void *self, const dense_round *r, float *out, uint64_t *weight);
} dense_trainer;

/* Returns a port that calls d; d must outlive it. The port refuses values that are not finite
 * (SEFL_ERANGE, with the tensor's name). */
trainer_port trainer_of_dense(dense_trainer *d);

/* The steps of that port, for a trainer that keeps the dense values itself; dense and trained have
 * l->dense values. */
void trainer_expand(float *dense, const layout *l, const float *theta);
/* SEFL_ERANGE, with the tensor's name, if a value of a trained tensor is not finite. */
sefl_status trainer_check(const layout *l, const float *trained) SEFL_MUST_CHECK;
/* Sets v, l->count values, to the change; it is zero in tensors that the task does not train.
 * SEFL_ERANGE, with the tensor's name, if a change is not finite. */
sefl_status trainer_change(float *v, const layout *l, const float *dense,
                           const float *trained) SEFL_MUST_CHECK;

#endif
