#include "privacy/accountant/gauss.h"

#include "privacy/accountant/special.h"

#include <math.h>

double gauss_delta(double z, double epsilon)
{
    double m = 1 / (2 * z), e = epsilon * z;
    return exp(log_sub(log_ndtr(m - e), epsilon + log_ndtr(-m - e)));
}

double gauss_epsilon(double z, double delta)
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

double classic_z(double epsilon, double delta)
{
    return sqrt(2 * log(1.25 / delta)) / epsilon;
}

double classic_epsilon(double z, double delta)
{
    return sqrt(2 * log(1.25 / delta)) / z;
}
