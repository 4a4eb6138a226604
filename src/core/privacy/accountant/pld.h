/* pld: the numerical accountant. It computes a lower and an upper bound on epsilon by convolving
 * privacy-loss distributions with the fast Fourier transform.
 *
 * The privacy loss of an outcome x, drawn from P, is log(P(x)/Q(x)). Losses add up over releases,
 * so the loss distribution of T releases is a T-fold convolution, and
 *
 *     delta(eps) = E (1 - e^{eps - loss})_+ .
 *
 * upper  splits each cell of outcomes whose loss is between two grid points onto both points and
 *        keeps its mass under P and under Q, so P and Q stay as distinguishable or more [DKGKM22];
 * lower  merges each cell into one outcome, so P and Q stay as distinguishable or less, and moves
 *        its loss down to a grid that is shifted so that the resulting error is of second order.
 * Both errors shrink with the square of the grid step. Chernoff's inequality bounds the mass
 * outside the window of the transform, and the result accounts for it. The result also accounts for
 * round-off of transforms and powers in double precision: the worst case in the 2-norm, assumed to
 * be spread evenly over the frequencies, is added to delta for the lower bound and subtracted for
 * the upper. Round-off grows with the number of releases. If it exceeds 1 % of delta, or the bounds
 * cross, pld refuses to answer (2000 releases at 1e-9 may fail; 10,000 at 1e-12 do); it also
 * refuses any delta below 1e-12. Errors of erfc in the last digits of the masses are not bounded.
 * The module computes both directions (unit present, unit absent) and returns the larger epsilon.
 *
 *     pld_step s = { .noise = PLD_GAUSS, .z = 1, .rate = 0.01, .count = 1000 };
 *     pld_interval eps;
 *     SEFL_TRY(pld_epsilon(&eps, &s, 1, 1e-6));         // eps.lower <= truth <= eps.upper
 *
 * This module deliberately does not support the circuit's joint noise: nothing is proven about its
 * privacy-loss distribution over vectors. dp_pld_epsilon refuses such an event.
 *
 * Threads: any.   Secrets: none.   Cost: 0.1 to a few seconds, up to 300 MB. */
#ifndef PRIVACY_ACCOUNTANT_PLD_H
#define PRIVACY_ACCOUNTANT_PLD_H

#include "privacy/accountant/accountant.h"

typedef enum pld_noise {
    PLD_GAUSS,    /* continuous; multiplier z */
    PLD_DISCRETE, /* one coordinate: discrete Gaussian with standard deviation sigma */
} pld_noise;

typedef struct pld_step {
    pld_noise noise;
    double z;       /* PLD_GAUSS */
    double sigma;   /* PLD_DISCRETE: in steps of the integers; at most 1e4 */
    uint32_t shift; /* PLD_DISCRETE: sensitivity in steps, at least 1 */
    double rate;
    uint64_t count;
} pld_step;

typedef struct pld_interval {
    double lower, upper;
} pld_interval;

/* Computes the interval for n <= 64 steps together. SEFL_EINVAL if a value is out of range;
 * SEFL_ERANGE if no grid that fits in memory is fine enough or round-off exceeds 1 % of delta. */
sefl_status pld_epsilon(pld_interval *eps, const pld_step *steps, size_t n,
                        double delta) SEFL_MUST_CHECK;

/* Like pld_epsilon, for events with zero-out neighbours. SEFL_EUNSUPPORTED for joint noise. */
sefl_status dp_pld_epsilon(pld_interval *eps, const dp_event *events, size_t n,
                           double delta) SEFL_MUST_CHECK;

#endif
