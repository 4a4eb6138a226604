/* gauss: what is known in closed form about the Gaussian mechanism: its exact trade-off of epsilon
 * and delta, and the classic one-round formula that the paper uses.
 *
 * T adaptive releases with multiplier z and everybody taking part are exactly one release with
 * multiplier z / sqrt(T), so the exact formula also covers composition: the yardstick against
 * which the Renyi and the numerical accountants are tested [BW18].
 *
 * Arguments are not checked here. Threads: any. Secrets: none. */
#ifndef PRIVACY_ACCOUNTANT_GAUSS_H
#define PRIVACY_ACCOUNTANT_GAUSS_H

/* Exact delta of one release: Phi(1/(2z) - eps z) - e^eps Phi(-1/(2z) - eps z). */
double gauss_delta(double z, double epsilon);

/* Exact epsilon of one release, 0 if delta alone covers it. */
double gauss_epsilon(double z, double delta);

/* The classic calibration z = sqrt(2 ln(1.25/delta)) / epsilon [DR14]: for ONE release, and proven
 * for epsilon < 1 only. Whoever prints it prints the true total beside it (accountant.h). */
double classic_z(double epsilon, double delta);
double classic_epsilon(double z, double delta);

#endif
