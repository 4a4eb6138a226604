#include "privacy/accountant/rdp.h"

#include "privacy/accountant/special.h"

#include <math.h>

double rdp_gauss(double a, double z)
{
    return a / (2 * z * z);
}

/* log(e^x - 1), x >= 0 */
static double log_expm1(double x)
{
    return x > 30 ? x + log1p(-exp(-x)) : log(expm1(x));
}

/* A - 1 = sum_{k >= 2} C(a,k) (1-q)^(a-k) q^k (e^{(k^2-k)/(2 z^2)} - 1): the terms k = 0 and 1 are
 * exactly what the -1 takes away, and what stays is positive. */
double rdp_sampled_sum(unsigned a, double z, double q)
{
    double sum = -INFINITY, lq = log(q), lp = log1p(-q);
    for (unsigned k = 2; k <= a; k++) {
        double e = k * (k - 1.0) / (2 * z * z);
        sum = log_add(sum, log_binom(a, k) + (a - k) * lp + k * lq + log_expm1(e));
    }
    return log_add(0, sum) / (a - 1.0);
}

double rdp_sampled_bound(double a, double z, double q)
{
    if (q >= 1)
        return rdp_gauss(a, z);
    unsigned n = (unsigned)a;
    double f = a - n, c = 1 / (2 * z * z), lq = log(q), lp = log1p(-q), sum = -INFINITY;
    /* sum_k C(n,k) (1-q)^(n-k) q^k (term_k - 1); term_0 <= (1 - q + q)^f = 1 */
    for (unsigned k = 1; k <= n; k++) {
        double m0 = k * (k - 1.0) * c, term = m0;
        if (f > 0) {
            double m1 = (k + 1.0) * k * c;
            double mf = fmax(k + f, 1.01) * (k + f - 1) * c; /* below order 1.01: monotone */
            double jensen = (1 - f) * m0 + f * log_add(lp + m0, lq + m1);
            double parts = log_add(f * lp + m0, f * lq + mf);
            term = fmin(jensen, parts);
        }
        if (term > 0)
            sum = log_add(sum, log_binom(n, k) + (n - k) * lp + k * lq + log_expm1(term));
    }
    return fmin(log_add(0, sum) / (a - 1), rdp_gauss(a, z)); /* sampling never adds */
}

/* log((1+u)^a - 1 - a u) for u = q (e^l - 1): never negative for a > 1 */
static double log_excess(double a, double q, double l)
{
    if (l > 30) { /* u may overflow; the logarithm does not */
        double t = a * (l + log(q) + log1p((1 - q) / q * exp(-l)));
        double lu = log(q) + l; /* log u, up to e^-30 */
        return log_sub(t, log_add(0, log(a) + lu));
    }
    double u = q * expm1(l), t = a * log1p(u);
    if (fabs(u) * a < 0.01 && fabs(u) < 0.01) { /* series: the difference would cancel */
        double term = 1, sum = 0, c = a * (a - 1) / 2 * u * u;
        for (int k = 3; k < 14; k++) {
            sum += term;
            term *= (a - k + 1) / k * u;
        }
        return log(c * sum);
    }
    if (t > 30)
        return t + log1p(-(1 + a * u) * exp(-t));
    double g = expm1(t) - a * u;
    return g > 0 ? log(g) : -INFINITY;
}

double rdp_sampled_integral(double a, double z, double q)
{
    /* step: the Gaussian needs z/4 (error e^-300), the branch point at distance pi z^2 from the
     * axis needs z^2/2 (error e^-39); range: the mass sits between 0 and max(a, 2) */
    double h = fmin(z / 4, z * z / 2), from = -13 * z, to = fmax(a, 2) + 13 * z;
    long steps = (long)ceil((to - from) / h);
    double top = -INFINITY, sum = 1; /* the sum is sum * e^top */
    for (long i = 0; i <= steps; i++) {
        double x = from + (double)i * h;
        double f = -x * x / (2 * z * z) + log_excess(a, q, (2 * x - 1) / (2 * z * z));
        if (f > top) {
            sum = sum * exp(top - f) + 1;
            top = f;
        } else {
            sum += exp(f - top);
        }
    }
    double excess = top + log(sum) + log(h / (z * sqrt(2 * M_PI)));
    return log_add(0, excess) / (a - 1);
}

double rdp_sampled(double a, double z, double q)
{
    if (q >= 1)
        return rdp_gauss(a, z);
    if (a == floor(a) && a >= 2 && a <= 4096)
        return rdp_sampled_sum((unsigned)a, z, q);
    return rdp_sampled_integral(a, z, q);
}

/* log of the factor in front of exp((a-1)(tau-eps)) */
static double log_factor(dp_conversion how, double a)
{
    return how == DP_CONVERT_CKS ? a * log1p(-1 / a) - log(a - 1) : 0;
}

double rdp_to_epsilon(dp_conversion how, double a, double tau, double delta)
{
    double eps = tau + (log_factor(how, a) - log(delta)) / (a - 1);
    return eps > 0 ? eps : 0;
}
