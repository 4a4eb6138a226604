/* accountant: computes the epsilon of a whole history of releases. Its bounds are proven for the
 * integers that clients actually send.
 *
 *     dp_event ev = { .noise = DP_NOISE_JOINT, .z = 1.1, .rate = 0.01, .count = 1000,
 *                     .dim = 945510 };
 *     dp_claim c;
 *     SEFL_TRY(dp_epsilon(&c, &ev, 1, &(dp_question){ .delta = 1e-6 }));
 *     if (c.claimed) printf("epsilon %.3f\n", c.epsilon);         // else: nothing is claimed
 *
 * law.h states the bounds for each kind of noise.
 *
 * Neighbours. By default, a neighbour has one unit's vector replaced with zeros. DP_REPLACE
 * replaces it with any other vector, at twice the sensitivity. At each order the divergence is the
 * smaller of two bounds: the divergence for z/2 without sampling, and the weak triangle inequality
 * D_a(P,R) <= (a-1/2)/(a-1) D_2a(P,Q) + D_2a-1(Q,R) [Mir17, proposition 11] (Q: zero vector).
 *
 * Threads: any.   Secrets: none.   Cost: below 1 ms per event, or a few ms if rate < 1. */
#ifndef PRIVACY_ACCOUNTANT_ACCOUNTANT_H
#define PRIVACY_ACCOUNTANT_ACCOUNTANT_H

#include "base/status.h"
#include "privacy/accountant/law.h"
#include "privacy/accountant/rdp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum dp_neighbours { DP_ZERO_OUT, DP_REPLACE } dp_neighbours;

typedef struct dp_question {
    double delta;
    dp_neighbours neighbours;
    dp_conversion conversion;
} dp_question;

typedef struct dp_claim {
    bool claimed;        /* false: nothing is claimed, epsilon is INFINITY */
    double epsilon;      /* at the question's delta */
    double order;        /* Renyi order that gives epsilon; 0: no releases */
    const char *why_not; /* the reason, one clause, if nothing is claimed */
} dp_claim;

/* Return SEFL_EINVAL, with the offending value, if a value is out of range. */
sefl_status dp_event_check(const dp_event *ev) SEFL_MUST_CHECK;
sefl_status dp_delta_check(double delta) SEFL_MUST_CHECK;
sefl_status dp_epsilon_check(double epsilon) SEFL_MUST_CHECK;

/* Computes the epsilon of the (adaptive) composition of n events. Without events, epsilon is 0. */
sefl_status dp_epsilon(dp_claim *out, const dp_event *events, size_t n,
                       const dp_question *q) SEFL_MUST_CHECK;

/* Returns the history's Renyi divergence at one order; INFINITY if nothing is proven there. */
double dp_divergence(const dp_event *events, size_t n, dp_neighbours neighbours, double order);

/* What some noise costs: `price` computes the claim with noise z, which falls with z. */
typedef struct dp_search {
    sefl_status (*price)(void *ctx, double z, dp_claim *out);
    void *ctx;
    double epsilon, least; /* the target; no z below `least` is tried */
} dp_search;

/* Finds the smallest z (to 1e-6, rounded up) whose claim is at most the target. SEFL_EBUDGET if no
 * z up to 1e6 suffices. */
sefl_status dp_search_z(double *z, const dp_search *s) SEFL_MUST_CHECK;

/* Finds the smallest z (to 1e-6, rounded up) for which `ev` stays within `epsilon` at q->delta.
 * Ignores ev->z and ev->sigma_steps: it assumes a sigma of DP_SIGMA_STEPS.
 * SEFL_EBUDGET if no z up to 1e6 suffices. z is never below the law's z_search_min. */
sefl_status dp_find_z(double *z, const dp_event *ev, double epsilon,
                      const dp_question *q) SEFL_MUST_CHECK;

/* Returns sqrt(2 ln(1.25/delta)), which is z times epsilon in the classic calibration [DR14]. It is
 * proven only for one release with epsilon < 1, so always print the true total as well. */
double dp_classic(double delta);

/* Rounds v up or down to the four significant digits that %.4g prints. Always show an epsilon
 * rounded up. */
double dp_four_digits(double v, bool up);

#endif
