/* dp_plan: the epsilon of a federation before it begins, or the noise that a target epsilon needs.
 *
 *     dp_plan p = { .source = DP_SOURCE_JOINT, .clients = 3000, .rate = 0.1, .rounds = 100,
 *                   .dim = 945510, .delta = 1e-6, .epsilon = 8 };
 *     SEFL_TRY(dp_plan_compute(&p));                      // p.z, p.server[0].epsilon, ...
 *
 * With unit_record the guarantee is for one record. Each round uses all `records` of a client, or
 * with record_turns only some of them, and then the charge is smaller (privacy/record_turns.h).
 * Sampling clients does not amplify it.
 *
 * Threads: any.   Secrets: none. */
#ifndef PRIVACY_DP_PLAN_H
#define PRIVACY_DP_PLAN_H

#include "base/buf.h"
#include "base/json.h"
#include "privacy/accountant/accountant.h"
#include "privacy/dp_filter.h"
#include "privacy/record_turns.h"

typedef struct dp_plan {
    /* what is planned */
    unsigned source;                           /* in dp_sources */
    uint64_t clients, rounds, dim, max_rounds; /* max_rounds: per client; 0: no limit */
    double rate, delta;
    double z;       /* noise multiplier; 0: dp_plan_compute finds the smallest for `epsilon` */
    double epsilon; /* target against a server; only if z is 0 */
    bool public_count;
    bool unit_record;
    uint64_t records;      /* unit_record: records of a client */
    uint64_t record_turns; /* unit_record: rounds that use one record; 0: all rounds */
    /* results */
    dp_claim server[2], others[2]; /* zero-out, replacement */
    double cohort;                 /* mean clients per round, with the limit on rounds per client */
    double signals;                /* mean clipped vectors per round: clients, or their records */
    uint64_t records_max;          /* unit_record: the most records of a client in a round */
    double noise_over_signal;      /* norm of the noise over the largest norm of the sum */
    double least_cohort;           /* clients per round for noise no larger than the signal */
} dp_plan;

/* Returns the releases that an observer sees: a server, or anyone else. */
dp_event dp_plan_event(const dp_plan *p, bool against_server);

/* SEFL_EINVAL if a value is out of range; SEFL_EBUDGET if no z suffices. */
sefl_status dp_plan_compute(dp_plan *p) SEFL_MUST_CHECK;

/* Three ways to keep the same epsilon over the same rounds, side by side (privacy/dp_filter.h):
 * clients that take turns, with correlated and with independent noise, and everybody in every
 * round. */
typedef struct dp_way {
    double z;
    uint64_t turns;    /* rounds of a client */
    double cohort;     /* mean clients per round */
    double last, mean; /* noise over signal in the last model, and over all models: the norm of the
                        * noise over that of the largest sum, where z is that of independent noise
                        * that leaves as much in the model */
    double clients;    /* enrolled clients with which `last` is 1 */
} dp_way;

typedef struct dp_turns_plan {
    /* what is planned */
    unsigned source; /* in dp_sources */
    uint64_t clients, rounds, dim;
    double epsilon, delta;
    double momentum; /* of the server's steps; 0: average */
    bool has_filter; /* `filter` is given: it is not chosen */
    dp_turns turns;  /* 0, 0: the fewest turns with which `last` is at most 1, else the turns with
                      * the least noise. One of the two 0: as far apart as the rounds allow, or as
                      * many turns as fit */
    /* results */
    dp_filter filter;
    double s;          /* the rounds are one release with noise z / s */
    dp_claim claim[2]; /* zero-out, replacement; against everybody */
    dp_way correlated, independent, everybody;
} dp_turns_plan;

/* Finds turns, filter and z. SEFL_EINVAL if a value is out of range; SEFL_EBUDGET if no z
 * suffices. */
sefl_status dp_turns_plan_compute(dp_turns_plan *p) SEFL_MUST_CHECK;

/* Appends the three ways as a table with a heading, and sentences that compare them. */
sefl_status dp_ways_text(sefl_buf *out, const dp_turns_plan *p) SEFL_MUST_CHECK;
/* Adds the members correlated, independent and everybody to the open object. */
void dp_ways_json(json *j, const dp_turns_plan *p);

/* Rounds z up to six decimal places, so that a copied number gives at least as much noise. */
double dp_z_shown(double z);

#endif
