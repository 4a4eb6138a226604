#include "model/corpus/dirichlet.h"

#include <math.h>

static double normal(seeded *g)
{
    double u = 1 - seeded_unit(g); /* in (0, 1] */
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * seeded_unit(g));
}

/* Draws the log of a Gamma(a, 1) variate: the method needs a >= 1, so it draws Gamma(a + 1) and
 * uses Gamma(a) = Gamma(a + 1) * U^(1/a). In logarithms, because U^(1/a) underflows for small a. */
static double log_gamma_variate(seeded *g, double a)
{
    double d = a + 1 - 1.0 / 3, k = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(g), v = 1 + k * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        double u = 1 - seeded_unit(g);
        if (log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d * v) + log(1 - seeded_unit(g)) / a;
    }
}

void dirichlet_draw(double *p, uint32_t n, double alpha, seeded *gen)
{
    double top = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        p[i] = log_gamma_variate(gen, alpha);
        top = fmax(top, p[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        sum += p[i] = exp(p[i] - top);
    for (uint32_t i = 0; i < n; i++)
        p[i] /= sum;
}
