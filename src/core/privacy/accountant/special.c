#include "privacy/accountant/special.h"

#include <math.h>

double log_add(double a, double b)
{
    double hi = a > b ? a : b, lo = a > b ? b : a;
    return lo == -INFINITY ? hi : hi + log1p(exp(lo - hi));
}

double log_sub(double a, double b)
{
    if (b == -INFINITY)
        return a;
    return b >= a ? -INFINITY : a + log(-expm1(b - a));
}

double normal_mass(double a, double b)
{
    if (a >= b)
        return 0;
    if (a > 0)
        return 0.5 * (erfc(a * M_SQRT1_2) - erfc(b * M_SQRT1_2));
    if (b < 0)
        return 0.5 * (erfc(-b * M_SQRT1_2) - erfc(-a * M_SQRT1_2));
    return 0.5 * (erf(b * M_SQRT1_2) - erf(a * M_SQRT1_2));
}

double log_binom(double n, double k)
{
    int sign; /* lgamma() would write the global signgam */
    return lgamma_r(n + 1, &sign) - lgamma_r(k + 1, &sign) - lgamma_r(n - k + 1, &sign);
}
