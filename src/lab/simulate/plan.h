/* plan: predicts the cost, privacy and noise of an experiment before it runs.
 *
 *     SEFL_TRY(plan_make(&p, federation, &rates, threads));
 *     p.up_bytes, p.round.train, p.epsilon_server, p.warnings.text[0], ...
 *
 * Bytes follow from the task, seconds from measured rates (simulate/calibrate.h), and epsilon from
 * the accountant. The number of participants is an average over sampling, dropout and stragglers.
 *
 * Noise ratio. The noise norm divided by the largest possible norm of the sum is z * sqrt(d) /
 * clients for any clip.
 * With noise `own` both servers add noise, which multiplies the ratio by sqrt(2). Above 1 the noise
 * is larger than the update; at a third (PLAN_RATIO_GOOD) a run still learns. The plan derives from
 * PLAN_RATIO_GOOD how many clients epsilon 8 needs.
 *
 * Threads: pure functions.   Secrets: none. */
#ifndef SIMULATE_PLAN_H
#define SIMULATE_PLAN_H

#include "base/json.h"
#include "privacy/dp_plan.h"
#include "simulate/calibrate.h"
#include "simulate/plan_need.h"

#define PLAN_DELTA 1e-6 /* used if the task claims nothing and has no classic_epsilon */

enum { PLAN_WARNINGS = 12, PLAN_WARNING_MAX = 400 };

/* Warnings to show with the numbers. */
typedef struct plan_warnings {
    unsigned n;
    char text[PLAN_WARNINGS][PLAN_WARNING_MAX];
} plan_warnings;

void plan_warn(plan_warnings *w, const char *fmt, ...) SEFL_PRINTF(2, 3);
/* Adds a member "warnings" to the open object. */
void plan_warnings_json(json *j, const plan_warnings *w);

/* Durations as in run_line; train, encrypt and sum are CPU seconds. */
typedef struct plan_seconds {
    double train, encrypt, sum, twopc, step, eval, wall;
} plan_seconds;

/* The two epsilons of a number of rounds. */
typedef struct plan_spent {
    bool known;
    double server, others, delta;
    const char *why; /* reason if they are unknown */
} plan_spent;

/* privacy.classic_epsilon, and the epsilons that the rounds really spend. */
typedef struct plan_classic {
    double epsilon; /* of one round alone, at total.delta; 0: the key is not set */
    uint64_t rounds;
    plan_spent total;
} plan_classic;

typedef struct plan {
    const char *protection, *crypto, *scheme;
    uint32_t clients; /* enrolled */
    double per_round; /* mean number of updates in a round */
    double asked;     /* mean number of clients that fetch the model */
    uint64_t rounds;  /* rounds that the budget allows, at most rounds_asked */
    uint64_t rounds_asked;
    size_t values;
    uint64_t words; /* mean number of words that a client trains on in a round */
    unsigned threads;

    uint64_t up_bytes, down_bytes; /* per client and round */
    uint64_t link_bytes;           /* between the servers, per round */
    uint64_t memory_bytes;         /* memory of this process */
    plan_seconds round;            /* one round */
    plan_seconds client;           /* one client in a round: train, encrypt */
    double seconds;                /* all rounds */

    bool noise; /* the mode adds noise */
    bool claim;
    double z, noise_ratio; /* z sqrt(d) / clients */
    bool has_epsilon;      /* epsilon over all rounds is known, even if nothing is claimed */
    double epsilon_server, epsilon_others, delta;
    bool unit_record; /* the epsilons are for a record, not a client */
    const char *why_no_epsilon;
    plan_need need; /* requirements of PLAN_EPSILON; z 0: unknown */
    /* The noise in the last model and the clients that it needs, three ways to keep the target
     * epsilon, or PLAN_EPSILON without a claim: correlated and independent noise with the task's
     * turns, or with those that dp_turns_plan_compute proposes, and everybody in every round. */
    bool has_ways, ways_proposed;
    dp_turns_plan ways;
    plan_classic classic;

    plan_warnings warnings;
} plan;

/* Returns the noise norm divided by the largest norm of a sum of so many clients; 0 if there is no
 * noise. */
double plan_noise_ratio(const federation *s, double clients);

/* Returns how the updates of this experiment could have fewer values, for a warning. */
const char *plan_fewer_values(const federation *s);

/* Computes the epsilons of `rounds` releases, even if the task claims nothing. */
sefl_status plan_spend(plan_spent *out, const federation *s, uint64_t rounds) SEFL_MUST_CHECK;

/* Computes the totals of `rounds` rounds. */
sefl_status plan_classic_of(plan_classic *out, const federation *s,
                            uint64_t rounds) SEFL_MUST_CHECK;

enum { PLAN_CLASSIC_TEXT = 320 };
/* Writes "epsilon 1 for one round alone, at delta 1e-05: not a claim, and not proven for epsilon >=
 * 1; over 50 rounds epsilon 7.37 against a server, 7.37 against others". */
void plan_classic_text(char out[PLAN_CLASSIC_TEXT], const plan_classic *c);
/* If the key is set, adds the members to the open object. */
void plan_classic_json(json *j, const plan_classic *c);

/* Computes the plan. If the federation has texts for only some clients, extrapolates to all. */
sefl_status plan_make(plan *out, const federation *s, const rates *r,
                      unsigned threads) SEFL_MUST_CHECK;

sefl_status plan_json(sefl_buf *out, const plan *p) SEFL_MUST_CHECK;

#endif
