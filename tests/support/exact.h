/* exact: closed formulas for Gaussian releases, with which tests compare the accountants.
 *
 * T adaptive releases with multiplier z, without sampling, are equivalent to one release with
 * multiplier z / sqrt(T), so the exact formula also covers composition [BW18].
 *
 * Threads: any.   Secrets: none. */
#ifndef SUPPORT_EXACT_H
#define SUPPORT_EXACT_H

#include "privacy/accountant/rdp.h"
#include "privacy/accountant/special.h"

#include <math.h>

/* Returns log(erfc(x)), even where erfc underflows (x > 26). */
static inline double log_erfc(double x)
{
    if (x < 20)
        return log(erfc(x));
    /* asymptotic series in 1/(2 x^2); the first omitted term is below 1e-13 at x = 20 */
    double r = 1 / (2 * x * x);
    double s = 1 - r * (1 - 3 * r * (1 - 5 * r * (1 - 7 * r)));
    return -x * x - log(x * sqrt(M_PI)) + log(s);
}

/* Returns the log of the standard normal distribution function. */
static inline double log_ndtr(double x)
{
    return log(0.5) + log_erfc(-x * M_SQRT1_2);
}

/* Returns the exact delta of one release: Phi(1/(2z) - eps z) - e^eps Phi(-1/(2z) - eps z). */
static inline double gauss_delta(double z, double epsilon)
{
    double m = 1 / (2 * z), e = epsilon * z;
    return exp(log_sub(log_ndtr(m - e), epsilon + log_ndtr(-m - e)));
}

/* Returns the exact epsilon of one release; 0 if delta alone suffices. */
static inline double gauss_epsilon(double z, double delta)
{
    if (gauss_delta(z, 0) <= delta)
        return 0;
    double lo = 0, hi = 1;
    while (gauss_delta(z, hi) > delta)
        hi *= 2;
    for (int i = 0; i < 200 && lo < hi; i++) {
        double mid = lo + (hi - lo) / 2;
        if (mid <= lo || mid >= hi)
            break;
        if (gauss_delta(z, mid) > delta)
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}

/* Returns the log of the factor before exp((a-1)(tau-eps)). */
static inline double rdp_log_factor(dp_conversion how, double a)
{
    return how == DP_CONVERT_CKS ? a * log1p(-1 / a) - log(a - 1) : 0;
}

/* Returns the delta that order a and divergence tau prove at this epsilon; at most 1. */
static inline double rdp_to_delta(dp_conversion how, double a, double tau, double epsilon)
{
    double d = exp((a - 1) * (tau - epsilon) + rdp_log_factor(how, a));
    return d < 1 ? d : 1;
}

/* rho-zCDP [BS16]: a Gaussian release has rho = 1/(2 z^2). rho adds up over releases and implies
 * the divergence a * rho at every order a. */
static inline double zcdp_gauss(double z)
{
    return 1 / (2 * z * z);
}

/* Returns the smallest epsilon over all orders, converted by DP_CONVERT_CKS. */
static inline double zcdp_to_epsilon(double rho, double delta)
{
    /* golden-section search: the function has one minimum in b = log(a - 1) */
    double lo = -20, hi = 40, g = (sqrt(5) - 1) / 2;
    for (int i = 0; i < 200; i++) {
        double m1 = hi - g * (hi - lo), m2 = lo + g * (hi - lo);
        double a1 = 1 + exp(m1), a2 = 1 + exp(m2);
        double e1 = a1 * rho + (rdp_log_factor(DP_CONVERT_CKS, a1) - log(delta)) / (a1 - 1);
        double e2 = a2 * rho + (rdp_log_factor(DP_CONVERT_CKS, a2) - log(delta)) / (a2 - 1);
        if (e1 < e2)
            hi = m2;
        else
            lo = m1;
    }
    double a = 1 + exp((lo + hi) / 2);
    return rdp_to_epsilon(DP_CONVERT_CKS, a, a * rho, delta);
}

#endif
