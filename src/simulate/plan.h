/* plan: predicts the cost, privacy and noise of an experiment before it runs.
 *
 *     SEFL_TRY(plan_make(&p, federation, &rates, threads));
 *     p.up_bytes, p.seconds.train, p.epsilon_server, p.warnings.text[0], ...
 *
 * Bytes follow from the task, seconds from rates (simulate/calibrate.h), epsilon from the
 * accountant. The number of participants is the average under sampling, dropout and stragglers.
 *
 * Noise and size. The noise's norm over the largest possible norm of the sum is
 * z * sqrt(d) / clients for any clip. Under hidden sampling only drawn clients count (the others
 * send zeros). With noise `own` two servers add noise: sqrt(2) times as much. Above 1 the noise
 * drowns the update; a run still learns at a third (PLAN_RATIO_GOOD), which gives the number of
 * clients that epsilon 8 needs.
 *
 * Threads: pure.   Secrets: none. */
#ifndef SIMULATE_PLAN_H
#define SIMULATE_PLAN_H

#include "base/json.h"
#include "simulate/calibrate.h"

#define PLAN_RATIO_BAD  1.0
#define PLAN_RATIO_GOOD (1.0 / 3)
#define PLAN_EPSILON    8.0

enum { PLAN_WARNINGS = 12, PLAN_WARNING_MAX = 400 };

/* What a reader of the numbers must know. */
typedef struct plan_warnings {
    unsigned n;
    char text[PLAN_WARNINGS][PLAN_WARNING_MAX];
} plan_warnings;

void plan_warn(plan_warnings *w, const char *fmt, ...) SEFL_PRINTF(2, 3);
/* A member "warnings" of the open object. */
void plan_warnings_json(json *j, const plan_warnings *w);

/* As in run_line: train, encrypt and sum are processor time. */
typedef struct plan_seconds {
    double train, encrypt, sum, twopc, step, eval, wall;
} plan_seconds;

/* What a claim of epsilon at delta over all rounds of a task needs: joint noise z, and enough
 * clients per round that the noise does not drown their sum. */
typedef struct plan_need {
    double epsilon, delta, z;
    uint64_t clients;   /* noise at PLAN_RATIO_GOOD */
    uint64_t no_larger; /* noise at PLAN_RATIO_BAD */
} plan_need;

typedef struct plan {
    const char *protection, *crypto, *scheme;
    uint32_t clients; /* enrolled */
    double per_round; /* clients whose update counts, on average */
    double drawn;     /* of them: not the zeros of hidden sampling */
    double asked;     /* clients that fetch the model */
    uint64_t rounds;  /* that the budget allows, at most those of the task */
    uint64_t rounds_asked;
    size_t params, values;
    uint64_t words; /* a client trains on in a round, on average */
    unsigned threads;

    uint64_t up_bytes, down_bytes; /* a client and round */
    uint64_t link_bytes;           /* a round */
    uint64_t memory_bytes;         /* of this process */
    plan_seconds round;            /* of one round */
    plan_seconds client;           /* of one client in it: train, encrypt */
    double seconds;                /* of all rounds */

    bool noise; /* there is any */
    bool claim;
    double z, clip, noise_ratio; /* z sqrt(d) / drawn */
    bool has_epsilon;            /* of all rounds, with a claim or without */
    double epsilon_server, epsilon_others, epsilon_target, delta;
    bool unit_record; /* these epsilons are a record's, not a client's */
    const char *why_no_epsilon;
    plan_need need; /* of PLAN_EPSILON; z 0: not known */

    plan_warnings warnings;
} plan;

/* Noise norm over the largest norm of a sum of `drawn` clients; 0 without noise. */
double plan_noise_ratio(const federation *s, double drawn);

/* Fails where no z gives it. */
sefl_status plan_need_of(plan_need *out, const task *t, double epsilon,
                         double delta) SEFL_MUST_CHECK;

enum { PLAN_NEED_TEXT = 128 };
/* "over these rounds needs z = 2.393 and about 1048 clients per round" */
void plan_need_text(char out[PLAN_NEED_TEXT], const plan_need *n);

/* tokens of all clients are those of the federation, scaled up where it has only some of them. */
sefl_status plan_make(plan *out, const federation *s, const rates *r,
                      unsigned threads) SEFL_MUST_CHECK;

sefl_status plan_json(sefl_buf *out, const plan *p) SEFL_MUST_CHECK;

#endif
