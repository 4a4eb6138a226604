/* work_inside: what work.c (clients on threads) and work_device.c (clients on a GPU) share. */
#ifndef SIMULATE_WORK_INSIDE_H
#define SIMULATE_WORK_INSIDE_H

#include "model/engine/engine.h"
#include "simulate/named_coins.h"
#include "simulate/work.h"

#include <pthread.h>

/* A thread's own. */
typedef struct lane {
    engine *e; /* unit client, on the processor */
    lm *m;     /* unit record */
    float *v;
    int64_t *X, *one;
    int64_t *sum;
    uint8_t *body;
    double train, encrypt, add;
} lane;

/* A client's place in the order of a GPU's round. */
typedef struct work_turn {
    uint32_t member; /* of the set */
    bool diverged;
    uint64_t steps;
} work_turn;

struct work {
    const federation *s;
    const task *t;
    pool *pool;
    const sefl_progress *stop;
    lane *lane;
    unsigned lanes;
    engine *judge; /* for validation; device: it trains too */
    /* a GPU */
    bool device, device_sums; /* device_sums: it adds the updates up, in the clear */
    work_turn *turns;
    int64_t *sum;
    double device_seconds;
    /* none */
    double *average;
    double weight;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    size_t next; /* piece that may add its floats */
    /* crypto full */
    const ahe_enc *enc;
    ahe_enc *own_enc;
    ahe_sum *closed;
    round_entry *entry; /* of the set, by rising client, and ... */
    uint32_t entries;
    uint8_t *heads; /* ... sealed: their heads */
    /* of the round under way */
    round_header header;
    const float *theta;
    const population_member *set;
    uint32_t added, diverged;
};

double work_thread_seconds(void);

/* A piece of pool_run: the client set[begin], from text to sum. */
sefl_status work_one_client(void *ctx, unsigned lane_number, size_t begin,
                            size_t end) SEFL_MUST_CHECK;
/* The integers of update v into l->X; zeros of one that diverged. */
sefl_status work_integers(const work *w, lane *l, uint32_t client, const float *v, bool diverged,
                          const sefl_rng *coins) SEFL_MUST_CHECK;
/* Encrypts l->X where that is due and adds client set[piece]. */
sefl_status work_add(work *w, lane *l, size_t piece, bool diverged,
                     const sefl_coins *coins) SEFL_MUST_CHECK;

/* FedAvg: a client's weight (of one that diverged as in the weight slot), the largest norm of an
 * update (0: no limit), and the sum. */
double work_weight(const work *w, uint32_t client, bool diverged);
double work_clip(const work *w);
void work_add_floats(work *w, const float *v, uint32_t client, bool diverged);

/* Opens the experiment's GPU, if it wants one and there is one. */
sefl_status work_device_open(work *w) SEFL_MUST_CHECK;
/* All n clients of the set. */
sefl_status work_device_round(work *w, uint32_t n, const sefl_progress *progress) SEFL_MUST_CHECK;

#endif
