/* rdp: Renyi divergences of Gaussian releases, and their conversion to (epsilon, delta).
 *
 * A release has a noise multiplier z (its standard deviation over its L2 sensitivity) and a rate q,
 * the probability with which each unit is sampled, independently and hidden from the observer. The
 * Renyi divergence of order a > 1 between the releases with and without a unit is
 *
 *     q = 1:   a / (2 z^2)                                                          [Mir17]
 *     q < 1:   log(A_a) / (a - 1),  A_a = E_{x ~ N(0,z^2)} (1 - q + q e^{(2x-1)/(2 z^2)})^a [MTZ19]
 *
 * This A_a is the larger of the two directions [MTZ19, theorem 5]. For whole orders it is a sum of
 * positive terms. For other orders the trapezoid rule integrates a function that is never negative
 * (the part of mean zero is subtracted first), so no digits cancel even if A_a - 1 is 1e-15. The
 * rule converges exponentially because the integrand is analytic in a strip.
 *
 *     double tau = 100 * rdp_sampled(8, 1.1, 0.01);        // 100 rounds add up
 *     double eps = rdp_to_epsilon(DP_CONVERT_CKS, 8, tau, 1e-5);
 *
 * Callers (accountant.h) check the arguments. Threads: any. Secrets: none. */
#ifndef PRIVACY_ACCOUNTANT_RDP_H
#define PRIVACY_ACCOUNTANT_RDP_H

typedef enum dp_conversion {
    /* delta = exp((a-1)(tau-eps)) (1-1/a)^a / (a-1): [CKS20], also Asoodeh et al. 2020; tighter;
     * the default */
    DP_CONVERT_CKS,
    /* delta = exp((a-1)(tau-eps)): Mironov 2017, proposition 3 */
    DP_CONVERT_MIRONOV,
} dp_conversion;

/* Returns the divergence of order a of a Gaussian release without sampling. */
double rdp_gauss(double a, double z);

/* Returns the divergence of order a > 1 of a Poisson-sampled Gaussian release. Whole orders up to
 * 4096 use the sum. */
double rdp_sampled(double a, double z, double q);

/* Returns an upper bound for every noise, of any dimension, whose unsampled divergence is at most
 * the Gaussian's a / (2 z^2) at the orders 2 .. floor(a) + 1 and at whole orders plus a's fraction;
 * no other assumption is needed. Let L be the likelihood ratio, M_s = E L^s <= e^{s(s-1)/(2 z^2)}
 * and a = n + f. The bound follows from
 *     E (1-q+qL)^a = sum_k C(n,k) (1-q)^(n-k) q^k E L^k (1-q+qL)^f,
 *     E L^k (1-q+qL)^f <= M_k^(1-f) ((1-q) M_k + q M_{k+1})^f     (Jensen under L^k-weighting)
 *                      <= (1-q)^f M_k + q^f M_{k+f}               (f <= 1: subadditive)
 * and both right-hand sides increase with every M. At whole orders the bound is the exact formula
 * of the sampled Gaussian; between them it is slightly larger. */
double rdp_sampled_bound(double a, double z, double q);

/* The two methods of rdp_sampled, for tests: a sum (whole a >= 2) and an integral (a > 1). */
double rdp_sampled_sum(unsigned a, double z, double q);
double rdp_sampled_integral(double a, double z, double q);

/* Returns the smallest epsilon >= 0 that order a and divergence tau prove at this delta. */
double rdp_to_epsilon(dp_conversion how, double a, double tau, double delta);

#endif
