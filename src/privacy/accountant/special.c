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

double log_erfc(double x)
{
    if (x < 20)
        return log(erfc(x));
    /* asymptotic series in 1/(2 x^2); the first term left out is below 1e-13 at x = 20 */
    double r = 1 / (2 * x * x);
    double s = 1 - r * (1 - 3 * r * (1 - 5 * r * (1 - 7 * r)));
    return -x * x - log(x * sqrt(M_PI)) + log(s);
}

double log_ndtr(double x)
{
    return log(0.5) + log_erfc(-x * M_SQRT1_2);
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
