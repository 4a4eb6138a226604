/* chi: the chi-square test of counts against a law. Header only. */
#ifndef SUPPORT_CHI_H
#define SUPPORT_CHI_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* Returns a bound on chi-square over df degrees of freedom: five sigma above its mean. */
static inline double chi_bound(double df)
{
    return df + 5 * sqrt(2 * df);
}

/* Returns chi-square of n counts against a law, with its degrees of freedom; rare cells are pooled with their neighbours. */
static inline double chi_square(const uint64_t *seen, const double *law, size_t cells, double n,
                                double *df)
{
    double chi = 0, want = 0, got = 0, left = n, left_seen = n;
    *df = -1;
    for (size_t i = 0; i < cells; i++) {
        want += law[i] * n, got += (double)seen[i];
        if (want < 10 || left - want < 10) /* the last cell takes the rest */
            continue;
        chi += (got - want) * (got - want) / want, *df += 1;
        left -= want, left_seen -= got;
        want = got = 0;
    }
    *df += 1;
    return chi + (left_seen - left) * (left_seen - left) / left;
}

#endif
