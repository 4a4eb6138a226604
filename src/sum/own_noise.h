/* own_noise: what each server adds in the mode `own`: the exact discrete Gaussian of the task's grid.
 *
 *     own_noise o;
 *     SEFL_TRY(own_noise_init(&o, task));
 *     o.rng = ...;                                        // secret coins, fresh for this attempt
 *     noise_source noise = own_noise_of(&o);
 *     SEFL_TRY(noise_reply_make(reply, &params, &masked, &noise, &o.rng));
 *
 * Secret: rng and what is drawn. Not constant time (dgauss.h).   Threads: one owner. */
#ifndef PROTOCOL_OWN_NOISE_H
#define PROTOCOL_OWN_NOISE_H

#include "mpc/noise/online.h"
#include "privacy/mechanism/dgauss.h"
#include "protocol/task.h"

typedef struct own_noise {
    dgauss law;
    sefl_rng rng;
} own_noise;

/* The law; the caller sets rng. */
sefl_status own_noise_init(own_noise *o, const task *t) SEFL_MUST_CHECK;
noise_source own_noise_of(own_noise *o);

#endif
