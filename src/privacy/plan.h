/* plan: the epsilon of a federation before it begins, or the noise that a target epsilon needs.
 *
 *     dp_plan p = { .source = DP_SOURCE_JOINT, .clients = 3000, .rate = 0.1, .rounds = 100,
 *                   .dim = 945510, .delta = 1e-6, .epsilon = 8 };
 *     SEFL_TRY(dp_plan_compute(&p));                      // p.z, p.server[0].epsilon, ...
 *
 * With unit_record the guarantee is for one record: a client draws each of its `records` records
 * with probability record_rate, and no server sees the draw (docs/PRIVACY.md, section 4). Sampling
 * clients does not amplify it.
 *
 * Threads: any.   Secrets: none. */
#ifndef PRIVACY_PLAN_H
#define PRIVACY_PLAN_H

#include "privacy/accountant/accountant.h"

typedef struct dp_plan {
    /* what is planned */
    unsigned source;                           /* in dp_sources */
    uint64_t clients, rounds, dim, max_rounds; /* max_rounds: per client; 0: no limit */
    double rate, delta;
    double z;       /* noise multiplier; 0: dp_plan_compute finds the smallest for `epsilon` */
    double epsilon; /* target against a server; only if z is 0 */
    bool hidden, public_count;
    bool unit_record;
    uint64_t records;   /* unit_record: records of a client */
    double record_rate; /* unit_record: probability that a client draws a record */
    /* results */
    dp_claim server[2], others[2]; /* zero-out, replacement */
    double cohort;                 /* mean clients per round, with the limit on rounds per client */
    double signals;                /* mean clipped vectors per round: clients, or their records */
    uint64_t records_max;          /* unit_record: smallest bound that overflows rarely */
    double noise_over_signal;      /* norm of the noise over the largest norm of the sum */
    double least_cohort;           /* clients per round for noise no larger than the signal */
} dp_plan;

/* Returns the releases that an observer sees: a server, or anyone else. */
dp_event dp_plan_event(const dp_plan *p, bool against_server);

/* SEFL_EINVAL if a value is out of range; SEFL_EBUDGET if no z suffices. */
sefl_status dp_plan_compute(dp_plan *p) SEFL_MUST_CHECK;

/* A client that draws each of n records with this rate, 0 < rate <= 1, gets more than `most` with a
 * probability of at most `rare` (a Chernoff bound): returns the largest such n, or the smallest
 * such `most`. */
#define DP_RECORDS_RARE 1e-6
uint64_t dp_records_for(uint64_t most, double rate, double rare);
uint64_t dp_records_max(uint64_t n, double rate, double rare);

#endif
