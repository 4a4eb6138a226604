/* accountant: the epsilon of a whole history of releases, by rules that are proven for the integers
 * that really travel.
 *
 *     dp_event ev = { .noise = DP_NOISE_JOINT, .z = 1.1, .rate = 0.01, .count = 1000,
 *                     .dim = 945510 };
 *     dp_claim c;
 *     SEFL_TRY(dp_epsilon(&c, &ev, 1, &(dp_question){ .delta = 1e-6 }));
 *     if (c.claimed) printf("epsilon %.3f\n", c.epsilon);         // else: nothing is claimed
 *
 * The rules are those of the laws in law.h.
 *
 * Neighbours: one unit's vector replaced by zeros. DP_REPLACE is its replacement by any other
 * vector (twice the sensitivity): the better of z/2 without sampling and the weak triangle
 * inequality D_a(P,R) <= (a-1/2)/(a-1) D_2a(P,Q) + D_2a-1(Q,R) [Mir17, proposition 11] over the
 * vector of zeros.
 *
 * Threads: any.   Secrets: none.   Cost: below 1 ms an event, a few ms with rate < 1. */
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
    double epsilon;      /* for the delta that was asked */
    double order;        /* the Renyi order that proved it; 0 if there was nothing to prove */
    const char *why_not; /* one clause, when nothing is claimed */
} dp_claim;

/* Refuses what makes no sense, naming the offending value: SEFL_EINVAL. */
sefl_status dp_event_check(const dp_event *ev) SEFL_MUST_CHECK;
sefl_status dp_delta_check(double delta) SEFL_MUST_CHECK;
sefl_status dp_epsilon_check(double epsilon) SEFL_MUST_CHECK;

/* The epsilon of n events together (any adaptive order). n = 0: epsilon 0. */
sefl_status dp_epsilon(dp_claim *out, const dp_event *events, size_t n,
                       const dp_question *q) SEFL_MUST_CHECK;

/* The same history's divergence at one order under these rules, INFINITY where nothing is known. */
double dp_divergence(const dp_event *events, size_t n, dp_neighbours neighbours, double order);

/* The smallest z (to 1e-6, rounded up) for which `ev` with that z keeps `epsilon` at q->delta.
 * ev->z and ev->sigma_steps are ignored: sigma is taken as large as the grid makes it (z times
 * 38662/z steps). SEFL_EBUDGET if no z up to 1e6 will do. Never below the law's z_search_min. */
sefl_status dp_find_z(double *z, const dp_event *ev, double epsilon,
                      const dp_question *q) SEFL_MUST_CHECK;

/* z times epsilon in the classic calibration z = sqrt(2 ln(1.25/delta)) / epsilon [DR14]. It is for
 * one release, and proven for epsilon < 1 only: print the true total beside it. */
double dp_classic(double delta);

/* v with four significant digits, never below it (up) or never above it: what %.4g then prints. An
 * epsilon is shown rounded up. */
double dp_quantised(double v, bool up);

#endif
