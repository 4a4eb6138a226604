/* pld: the numerical accountant: epsilon between two bounds, by convolving privacy-loss
 * distributions with the fast Fourier transform.
 *
 * The privacy loss of an outcome x is log(P(x)/Q(x)), its distribution is that of x under P. It
 * adds up over releases, so the distribution of T of them is a T-fold convolution, and
 *
 *     delta(eps) = E (1 - e^{eps - loss})_+ .
 *
 * upper  every cell of outcomes whose loss lies between two grid points is split onto both so that
 *        its mass under P and under Q stays the same: never less distinguishable [DKGKM22];
 * lower  every cell is merged into one outcome (never more distinguishable) and its loss moved
 *        down to a grid that is itself shifted so that the move is of second order.
 * Both errors shrink with the square of the grid step. What falls outside the window of the
 * transform is bounded by Chernoff's inequality and counted against the answer. So is the round-off
 * of transforms and powers in double precision: the worst case in the 2-norm, taken as spread evenly
 * over the frequencies, added to delta for the lower bound and taken from it for the upper. It grows
 * with the number of releases; above 1 % of delta, or if the bounds cross, the question is refused
 * (2000 releases at 1e-9 may be; 10,000 at 1e-12 are), and so is any delta below 1e-12. Not bounded:
 * errors of erfc in the last places of the masses. Both directions (unit there, unit gone) are
 * computed, the larger epsilon counts.
 *
 *     pld_step s = { .noise = PLD_GAUSS, .z = 1, .rate = 0.01, .count = 1000 };
 *     pld_interval eps;
 *     SEFL_TRY(pld_epsilon(&eps, &s, 1, 1e-6));         // eps.lower <= truth <= eps.upper
 *
 * There is no way to describe the circuit's joint noise to this module, on purpose: nothing is
 * proven about its privacy-loss distribution over vectors. dp_pld_epsilon refuses such an event.
 *
 * Threads: any.   Secrets: none.   Cost: 0.1 to a few seconds, up to 300 MB. */
#ifndef PRIVACY_ACCOUNTANT_PLD_H
#define PRIVACY_ACCOUNTANT_PLD_H

#include "privacy/accountant/accountant.h"

typedef enum pld_noise {
    PLD_GAUSS,    /* continuous; multiplier z */
    PLD_DISCRETE, /* one coordinate: discrete Gaussian of deviation sigma, shift a whole number */
} pld_noise;

typedef struct pld_step {
    pld_noise noise;
    double z;       /* PLD_GAUSS */
    double sigma;   /* PLD_DISCRETE: in steps of the integers; at most 1e4 */
    uint32_t shift; /* PLD_DISCRETE: sensitivity, at least 1 */
    double rate;
    uint64_t count;
} pld_step;

typedef struct pld_interval {
    double lower, upper;
} pld_interval;

/* n at most 64. SEFL_EINVAL names a bad value, SEFL_ERANGE: no grid that fits in memory is fine
 * enough, or round-off would reach 1 % of delta. */
sefl_status pld_epsilon(pld_interval *eps, const pld_step *steps, size_t n,
                        double delta) SEFL_MUST_CHECK;

/* For events: gauss and discrete noise, zero-out neighbours. SEFL_EUNSUPPORTED for joint. */
sefl_status dp_pld_epsilon(pld_interval *eps, const dp_event *events, size_t n,
                           double delta) SEFL_MUST_CHECK;

#endif
