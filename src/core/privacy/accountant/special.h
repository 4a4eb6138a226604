/* special: probability functions that the accountants share. Most return logarithms, so that a tail
 * probability of 1e-300 loses no precision.
 *
 * Threads: any.   Secrets: none. */
#ifndef PRIVACY_ACCOUNTANT_SPECIAL_H
#define PRIVACY_ACCOUNTANT_SPECIAL_H

/* Returns log(e^a + e^b); -INFINITY is log 0. */
double log_add(double a, double b);

/* Returns log(e^a - e^b), a >= b; -INFINITY if they are equal (or round-off made b larger). */
double log_sub(double a, double b);

/* Returns the standard normal mass of (a, b], a <= b, without cancellation in either tail. */
double normal_mass(double a, double b);

/* Returns the log of the binomial coefficient n over k, 0 <= k <= n. */
double log_binom(double n, double k);

#endif
