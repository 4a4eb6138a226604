/* work_inside: declarations shared by work.c (clients on threads) and work_device.c (on a GPU). */
#ifndef SIMULATE_WORK_INSIDE_H
#define SIMULATE_WORK_INSIDE_H

#include "crypto/ahe/ahe.h"
#include "model/engine/engine.h"
#include "roles/client/hook.h"
#include "simulate/named_coins.h"
#include "simulate/work.h"

#include <pthread.h>

/* Buffers and times of one thread. */
typedef struct lane {
    hook hook; /* experiment.trainer, and its port */
    trainer_port port;
    engine *e; /* unit client, on the CPU */
    lm *m;     /* unit record */
    float *v;
    int64_t *X, *one;
    int64_t *sum;
    uint8_t *body;
    double train, encrypt, add;
} lane;

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
    double weight;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    size_t next; /* next piece that may add its floats */
    /* crypto full */
    const ahe_enc *enc;
    ahe_enc *own_enc;
    ahe_sum *closed;
    round_entry *entry; /* the set, sorted by client */
    uint32_t entries;
    uint8_t *heads; /* sealed: heads of the set */
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

/* Returns a client's FedAvg weight; with capped weights a diverged client has weight 0, as in the
 * weight slot. */
double work_weight(const work *w, uint32_t client, bool diverged);
/* Returns the maximum L2 norm of an update; 0: no limit. */
double work_clip(const work *w);
/* Adds update v with its weight, clipped if there is a limit. */
void work_add_floats(work *w, const float *v, uint32_t client, bool diverged);

/* Opens a GPU if the experiment requests one and it is available. */
sefl_status work_device_open(work *w) SEFL_MUST_CHECK;
/* Trains and adds all n clients of the set. */
sefl_status work_device_round(work *w, uint32_t n, const sefl_progress *progress) SEFL_MUST_CHECK;

#endif
