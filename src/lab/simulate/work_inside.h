/* work_inside: declarations shared by work.c (clients on threads) and work_device.c (on a GPU). */
#ifndef SIMULATE_WORK_INSIDE_H
#define SIMULATE_WORK_INSIDE_H

#include "crypto/ahe/ahe.h"
#include "fed/hook.h"
#include "model/engine/engine.h"
#include "simulate/named_coins.h"
#include "simulate/work.h"

#include <pthread.h>

/* Buffers and times of one thread. */
typedef struct lane {
    hook hook; /* experiment.trainer, and its port */
    train_port port;
    engine *e; /* unit client, on the CPU */
    lm *m;     /* unit record */
    float *v;
    int64_t *X, *one;
    int64_t *sum;
    uint8_t *body;
    double train, encrypt, add;
} lane;

/* A float as two integers, in multiples of 2^-16 and 2^-58. A sum of 2^20 floats below 2^26 fits.
 */
typedef struct fixed {
    int64_t high, low;
} fixed;
#define FIXED_MAX 67108864.0 /* 2^26 */

/* A client's turn in a round on a GPU. */
typedef struct work_turn {
    uint32_t member; /* index in the set */
    bool diverged;
    uint64_t steps;
} work_turn;

struct work {
    const federation *s;
    const task *t;
    pool *pool;
    const sefl_progress *stop;
    const char *folder; /* of the trainer's files */
    uint64_t *items;    /* each client's number of words, or of the items that its trainer counts */
    uint64_t clip;      /* of the round; 0: privacy.clip */
    lane *lane;
    unsigned lanes;
    engine *judge; /* engine for validation; on a GPU it also trains */
    /* GPU */
    bool device, device_sums; /* device_sums: the GPU adds the updates, in the clear */
    work_turn *turns;
    int64_t *sum;
    double device_seconds;
    /* none */
    double *average;
    fixed *exact;    /* sum of the updates; NULL: the GPU adds floats */
    uint64_t weight; /* sum of the weights, in units of work_weight_unit */
    pthread_mutex_t lock;
    /* crypto full */
    const ahe_enc *enc;
    ahe_enc *own_enc;
    ahe_sum *closed;
    round_entry *entry; /* rank 0: the set, sorted by client */
    uint32_t entries;
    uint8_t *heads; /* rank 0, sealed: heads of the set */
    /* several ranks */
    const ranks *ranks;
    bool serving;            /* the other ranks wait for an order */
    population_member *mine; /* this rank's part of the set */
    float *theta_here;       /* other ranks: the model */
    uint8_t *partial;        /* crypto full: this rank's sum */
    uint8_t *sent;           /* other ranks, crypto full: entry and head of each client */
    uint32_t n_sent;
    double cpu_before;
    /* current round */
    round_header header;
    const float *theta;
    const population_member *set;
    uint32_t added, diverged;
};

double work_thread_seconds(void);

/* Trains client set[begin] and adds its update, as a piece of pool_run. */
sefl_status work_one_client(void *ctx, unsigned lane_number, size_t begin,
                            size_t end) SEFL_MUST_CHECK;
/* Quantises update v into l->X; if the client diverged, sets l->X to zeros. */
sefl_status work_integers(const work *w, lane *l, uint32_t client, const float *v, bool diverged,
                          const sefl_rng *coins) SEFL_MUST_CHECK;
/* Adds the update of client set[piece]; with crypto full, encrypts l->X first. */
sefl_status work_add(work *w, lane *l, size_t piece, bool diverged,
                     const sefl_coins *coins) SEFL_MUST_CHECK;

/* Returns the training of a client in this round. */
train_job work_job(const work *w, uint32_t client);
/* Returns a client's FedAvg weight in units of work_weight_unit; with capped weights a diverged
 * client has weight 0, as in the weight slot. */
uint64_t work_weight(const work *w, uint32_t client, bool diverged);
double work_weight_unit(const work *w);
/* False if an update cannot be added: a value is not finite, or is FIXED_MAX or more and is added
 * as a float. */
bool work_fits(const work *w, const float *v, size_t n);
/* Returns the maximum L2 norm of an update; 0: no limit. */
double work_clip(const work *w);
/* Adds update v with its weight, clipped if there is a limit. */
void work_add_floats(work *w, const float *v, uint32_t client, bool diverged);

/* Several ranks (work_ranks.c): runs a round at rank 0, and tells the other ranks to do so. */
sefl_status work_ranks_round(work *w, work_got *got, const population_member *set, uint32_t n,
                             const sefl_progress *progress) SEFL_MUST_CHECK;
/* Ends work_serve of the other ranks. */
void work_dismiss(work *w);
/* Stores what CSP needs of an encrypted update: its entry and its head. */
void work_place(work *w, const round_entry *e, const uint8_t *sealed);

/* Begins a round with n clients of this rank; all: the whole set, at rank 0. */
sefl_status work_begin(work *w, const population_member *all, uint32_t n_all,
                       uint32_t n) SEFL_MUST_CHECK;
/* Trains and adds this rank's n clients. */
sefl_status work_share(work *w, work_got *got, uint32_t n,
                       const sefl_progress *progress) SEFL_MUST_CHECK;

/* Opens a GPU if the experiment requests one and it is available. */
sefl_status work_device_open(work *w) SEFL_MUST_CHECK;
/* True if the GPU adds the noise of a trusted server to its sum. */
bool work_adds_noise(const work *w);
/* Trains and adds all n clients of w->set. */
sefl_status work_device_round(work *w, uint32_t n, const sefl_progress *progress) SEFL_MUST_CHECK;

#endif
