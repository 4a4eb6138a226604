/* dgauss: the discrete Gaussian, sampled exactly with integers.
 *
 * Pr[x] = exp(-x^2 / (2 sigma^2)) / normaliser over all integers x, sigma^2 = num/den rational, by
 * rejection from the discrete Laplace distribution [CKS20, algorithms 1 to 3]. No floating-point
 * number takes part, so the law is exact and there is no rounding for an observer to exploit. (One
 * cut is made, to stay within 128-bit products: an event of probability e^-128 a draw, |x| beyond
 * 128 floor(sigma + 1).)
 *
 *     dgauss g;
 *     SEFL_TRY(dgauss_init(&g, num, den));
 *     SEFL_TRY(dgauss_fill_vartime(&g, noise, n, &rng));
 *
 * Secret: the samples. The number of coins used depends on them: draw all samples of a release
 * before anything is sent, so that timing shows at most the sum over all of them.
 * Threads: a dgauss may be shared.   Cost: about 0.3 us a sample with the system's coins. */
#ifndef PRIVACY_MECHANISM_DGAUSS_H
#define PRIVACY_MECHANISM_DGAUSS_H

#include "base/random.h"
#include "privacy/grid.h"

#include <stddef.h>

typedef struct dgauss {
    uint64_t num, den; /* sigma^2 */
    uint64_t t;        /* scale of the Laplace distribution, floor(sigma) + 1 */
} dgauss;

/* 1/2^16 <= num/den, num <= 2^50, 1 <= den <= 2^16; SEFL_EINVAL otherwise. */
sefl_status dgauss_init(dgauss *g, uint64_t num, uint64_t den) SEFL_MUST_CHECK;

/* The noise that goes with a grid, in its fine steps: the least whole sigma^2 >= (z sqrt(S2))^2. */
sefl_status dgauss_for_grid(dgauss *g, const dp_grid *grid) SEFL_MUST_CHECK;

sefl_status dgauss_fill_vartime(const dgauss *g, int64_t *out, size_t n,
                                const sefl_rng *rng) SEFL_MUST_CHECK;

#endif
