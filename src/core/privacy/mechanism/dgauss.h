/* dgauss: samples the discrete Gaussian exactly, with integer arithmetic.
 *
 * It draws the integer x with Pr[x] = exp(-x^2 / (2 sigma^2)) / normaliser, sigma^2 = num/den, by
 * rejection from the discrete Laplace distribution [CKS20, algorithms 1 to 3]. It uses no
 * floating-point numbers, so the distribution is exact and an observer has no rounding to exploit.
 * (There is one exception, to keep products within 128 bits: in the Laplace draw u + t*v, v is
 * limited to 128, which it reaches with probability e^-128.)
 *
 *     dgauss g;
 *     SEFL_TRY(dgauss_init(&g, num, den));
 *     SEFL_TRY(dgauss_fill_vartime(&g, noise, n, &rng));
 *
 * Secret: the samples. The number of random bits used depends on the samples, so draw all samples
 * of a release before you send anything: then timing reveals at most the total number of bits.
 * Threads: a dgauss may be shared.   Cost: about 0.3 us per sample with the system's coins. */
#ifndef PRIVACY_MECHANISM_DGAUSS_H
#define PRIVACY_MECHANISM_DGAUSS_H

#include "base/random.h"
#include "privacy/dp_grid.h"

#include <stddef.h>

typedef struct dgauss {
    uint64_t num, den; /* sigma^2 = num/den */
    uint64_t t;        /* scale of the Laplace distribution, floor(sigma) + 1 */
} dgauss;

/* SEFL_EINVAL unless num/den >= 1/2^16, num <= 2^50 and 1 <= den <= 2^16. */
sefl_status dgauss_init(dgauss *g, uint64_t num, uint64_t den) SEFL_MUST_CHECK;

/* Chooses the noise for a grid, in fine steps: sigma^2 is an integer just above (z sqrt(S2))^2. */
sefl_status dgauss_for_grid(dgauss *g, const dp_grid *grid) SEFL_MUST_CHECK;

sefl_status dgauss_fill_vartime(const dgauss *g, int64_t *out, size_t n,
                                const sefl_rng *rng) SEFL_MUST_CHECK;

#endif
