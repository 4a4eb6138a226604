/* trainer: outside trainers, the owner's command (hook.h) or the program that uses the library
 * (include/sefl/client.h).
 *
 * They know nothing of compression: they see every tensor as a dense row-major matrix, one after
 * the other in the order of the task's layout. Such a trainer implements `dense_trainer`, and
 * trainer_of_dense makes a port of it (train_job.h). The port expands the global model, calls the
 * trainer, checks what comes back, subtracts the global model, and projects the difference of each
 * block-Hankel tensor (bhm_project: the mean over each anti-diagonal). The library's trainer keeps
 * the dense values itself, and calls these steps one by one.
 *
 *     static sefl_status train(void *self, const dense_round *r, float *out, uint64_t *weight);
 *     dense_trainer mine = { .self = me, .train = train };
 *     train_port port = trainer_of_dense(&mine);               // `mine` outlives the port
 *
 * Secret: everything a trainer writes; trainer_of_dense wipes its copies. */
#ifndef FED_TRAINER_H
#define FED_TRAINER_H

#include "fed/train_job.h"

/* A job with dense values. */
typedef struct dense_round {
    const train_job *of;
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
train_port trainer_of_dense(dense_trainer *d);

/* The steps of that port, for a trainer that keeps the dense values itself; dense and trained have
 * l->dense values. */
void trainer_expand(float *dense, const layout *l, const float *theta);
/* Sets v, l->count values, to the change; it is zero in tensors that the task does not train.
 * SEFL_ERANGE, with the tensor's name, if a change is not finite. */
sefl_status trainer_change(float *v, const layout *l, const float *dense,
                           const float *trained) SEFL_MUST_CHECK;

#endif
