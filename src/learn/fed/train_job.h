/* train_job: one client's local training in a round, from the party down to the model, and the port
 * through which a party has it done.
 *
 * A party (the client, the simulator) fills a job and passes it to a port. A port either trains
 * with the model and the engine, which take a part of the job (model/train_steps.h), or hands the
 * round to an outside trainer:
 *
 *     float *v;                                       // t->params values: trained minus global
 *     uint64_t weight = t->weight_cap;
 *     SEFL_TRY(port->train(port->self, &(train_job){ .task = t, .round = 3, .theta = theta,
 *                                                    .client = id, .progress = &p }, v, &weight));
 *
 * There are three ports:
 *     built-in   builtin.h: the engine, on the client's text. It works on the task's own values
 *                (block-Hankel matrices stay compressed) and can train records separately.
 *     hook       hook.h: a trainer, the owner's command; tensors travel as safetensors files.
 *     caller     src/app/api/roles/api_client.c: the program that uses include/sefl/client.h.
 * choose_port in client.c selects one of them. The last two see dense tensors (trainer.h).
 *
 * What a port returns decides what the client does:
 *     SEFL_OK          the update is clipped, quantised, encrypted and uploaded
 *     SEFL_ECANCELLED  progress returned false: the client stops, or the round has closed
 *     SEFL_ERANGE      there is no usable update in this round: the client uploads zeros, since a
 *                      missing upload would tell both servers something about its text. The
 *                      message goes to the client's log, so it names tensors and never values.
 *     SEFL_EIO         the client tries this round again later, with new coins
 *     anything else    the client ends with this status and message
 *
 * Secret: theta is public, the text and everything that training writes are secret; the caller
 * wipes v. Not constant-time: training runs on the owner's machine.
 * Threads: the client calls a port from one thread; a port may use others inside a call. */
#ifndef FED_TRAIN_JOB_H
#define FED_TRAIN_JOB_H

#include "base/progress.h"
#include "base/random.h"
#include "model/corpus/corpus.h"
#include "protocol/task.h"

struct record_list; /* store/record_list.h */

typedef struct train_job {
    const task *task;
    uint64_t round;
    uint64_t attempt;      /* of this client in this round; each one has its own coins */
    const uint8_t *client; /* 32 bytes: fingerprint of its certificate */
    const char *model;     /* file with the global model, from which client_update reads theta */
    const float *theta;    /* the global model: task->params values */

    /* for the built-in training */
    const corpus *text;
    uint32_t eos;                   /* number of <eos> in the vocabulary */
    const struct record_list *list; /* the places of the records; NULL: their order in the text */

    /* for a trainer */
    const char *words; /* path of the task's word list; NULL: the task has none */
    uint64_t left_ms;  /* time until the round's deadline */

    const sefl_progress *progress; /* called at least once a second: it ends training in time */
} train_job;

typedef struct train_port {
    void *self;
    /* Sets v, task->params values, to the trained values minus theta; v may be theta's array.
     * *weight is the number of items (words, examples) that the update stands for. On entry it is
     * the task's cap, which gives the full weight; tasks with equal weights ignore it. */
    sefl_status (*train)(void *self, const train_job *job, float *v, uint64_t *weight);
    /* Unit record: adds the quantised step of each record to X, task->values integers, and counts
     * in *zeroed the records whose training diverged. v is scratch and may be theta's array. NULL:
     * the client refuses such a task. */
    sefl_status (*records)(void *self, const train_job *job, float *v, int64_t *X, size_t *zeroed,
                           const sefl_rng *coins);
} train_port;

#endif
