/* Design. Every number here is a sum of terms >= 0, so a relative rounding error never grows by
 * cancellation: with at most 2^17 rounds and 5 operations a term it stays below 1e-10, and the
 * factor 1 + 1e-9 makes each result an upper bound. Admissibility is exact. */
#include "privacy/dp_filter.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define UP (1 + 1e-9)

sefl_status dp_filter_check(const dp_filter *f)
{
    uint64_t sum = 0;
    SEFL_NEED(f->b <= DP_FILTER_LAGS, SEFL_EINVAL, "filter has %u numbers: at most %d", f->b,
              DP_FILTER_LAGS);
    for (unsigned j = 0; j < DP_FILTER_LAGS; j++) {
        SEFL_NEED(j < f->b || f->gamma[j] == 0, SEFL_EINVAL,
                  "filter has a number after its last one");
        sum += f->gamma[j];
    }
    if (f->b == 0)
        return SEFL_OK;
    SEFL_NEED(f->gamma[f->b - 1] > 0, SEFL_EINVAL, "filter ends with 0: leave the last number out");
    SEFL_NEED(sum <= DP_FILTER_ONE, SEFL_EINVAL,
              "filter adds up to %" PRIu64
              ": at most %d, or it takes back more noise than there is",
              sum, DP_FILTER_ONE);
    /* p[m] = 4096^m C_m <= 2^48, exact; C_m = sum of gamma_j / 4096 C_(m-j) */
    uint64_t p[DP_FILTER_LAGS + 1] = { 1 };
    for (unsigned m = 1; m <= f->b; m++) {
        for (unsigned j = 1; j <= m; j++)
            p[m] += (f->gamma[j - 1] * p[m - j]) << (DP_FILTER_BITS * (j - 1));
        SEFL_NEED(p[m] <= p[m - 1] << DP_FILTER_BITS, SEFL_EINVAL,
                  "filter: the effect of a vector rises %u rounds later, from %.6f to %.6f of it: "
                  "lower number %u",
                  m, ldexp((double)p[m - 1], -(int)(DP_FILTER_BITS * (m - 1))),
                  ldexp((double)p[m], -(int)(DP_FILTER_BITS * m)), m);
    }
    return SEFL_OK;
}

const char *dp_filter_text(char out[DP_FILTER_TEXT], const dp_filter *f)
{
    int n = 0;
    out[0] = 0;
    for (unsigned j = 0; j < f->b && j < DP_FILTER_LAGS; j++)
        n += snprintf(out + n, (size_t)(DP_FILTER_TEXT - n), "%s%u", j ? ", " : "",
                      f->gamma[j] % 10000u);
    return out;
}

/* One entry of C times a vector of pulses, from the b entries before it: v = pulse + sum of
 * gamma_j / 4096 old[j - 1]. Moves the history on. */
static double step(double old[DP_FILTER_LAGS], const dp_filter *f, double pulse)
{
    double v = pulse;
    for (unsigned j = 0; j < f->b; j++)
        v += (double)f->gamma[j] / DP_FILTER_ONE * old[j];
    for (unsigned j = DP_FILTER_LAGS - 1; j > 0; j--)
        old[j] = old[j - 1];
    old[0] = v;
    return v;
}

void dp_filter_column(double *c, size_t n, const dp_filter *f)
{
    double old[DP_FILTER_LAGS] = { 0 };
    for (size_t i = 0; i < n; i++)
        c[i] = step(old, f, i == 0);
}

static uint64_t apart(const dp_turns *t)
{
    return t->apart > 1 ? t->apart : 1;
}

uint64_t dp_turns_in(const dp_turns *t, uint64_t n)
{
    const uint64_t s = apart(t), fit = n / s + (n % s != 0);
    return t->most > 0 && t->most < fit ? t->most : fit;
}

uint64_t dp_turns_apart(uint64_t most, uint64_t n)
{
    return most > 0 && most < n ? n / most + (n % most != 0) : 1;
}

double dp_filter_s(const dp_filter *f, uint64_t n, const dp_turns *turns)
{
    double old[DP_FILTER_LAGS] = { 0 }, sum = 0;
    const uint64_t s = apart(turns), turns_in = dp_turns_in(turns, n);
    if (f->b == 0)
        return sqrt((double)turns_in) * (n > 0 ? UP : 0);
    for (uint64_t i = 0; i < n; i++) {
        const double v = step(old, f, i % s == 0 && i / s < turns_in);
        sum += v * v;
    }
    return sqrt(sum) * UP;
}

double dp_filter_s_of(const dp_filter *f, uint64_t n, const uint64_t *rounds, size_t count)
{
    double old[DP_FILTER_LAGS] = { 0 }, sum = 0;
    size_t next = 0;
    for (uint64_t i = 1; i <= n; i++) {
        const bool pulse = next < count && rounds[next] == i;
        next += pulse;
        const double v = step(old, f, pulse);
        sum += v * v;
    }
    return sqrt(sum) * UP;
}

double dp_filter_slack(const dp_filter *f, uint64_t n, uint64_t dim, double z, double units)
{
    double old[DP_FILTER_LAGS] = { 0 }, sum = 0;
    if (f->b == 0)
        return 0;
    for (uint64_t i = 0; i < n; i++)
        sum += step(old, f, i == 0);
    return z / units * sum * sqrt((double)n * (double)dim) * UP;
}

double dp_filter_units(unsigned bits)
{
    return ldexp(DP_FILTER_SIGMA, (int)bits);
}

sefl_status dp_filter_z(double *z, const dp_filter *f, uint64_t n, const dp_turns *turns,
                        uint64_t dim, double units, double one)
{
    const double slack = one * dp_filter_slack(f, n, dim, 1, units);
    SEFL_NEED(slack < 0.5, SEFL_EBUDGET,
              "no noise suffices: the servers would keep it with too few bits for so many rounds "
              "and values");
    *z = ceil(one * dp_filter_s(f, n, turns) / (1 - slack) * 1e6 * UP) / 1e6;
    return SEFL_OK;
}

dp_model_noise dp_filter_models(const dp_filter *f, uint64_t rounds, double momentum)
{
    /* model: what the noise of a round is in the model m rounds later: B, then the momentum, then
     * the sum of all steps. The model after m + 1 rounds has lags 0 .. m. */
    double velocity = 0, model = 0, last = 0, all = 0;
    for (uint64_t m = 0; m < rounds; m++) {
        const double b = m == 0 ? 1 : m <= f->b ? -(double)f->gamma[m - 1] / DP_FILTER_ONE : 0;
        velocity = momentum * velocity + b;
        model += velocity;
        last += model * model;
        all += last;
    }
    return (dp_model_noise){ sqrt(last), rounds ? sqrt(all / (double)rounds) : 0 };
}

/* What a filter is chosen for. */
typedef struct wanted {
    uint64_t rounds;
    const dp_turns *turns;
    double momentum;
} wanted;

/* The noise in the models at a given epsilon, up to a factor. */
static double price(const dp_filter *f, const wanted *w)
{
    return dp_filter_s(f, w->rounds, w->turns) * dp_filter_models(f, w->rounds, w->momentum).mean;
}

/* Every gamma of one lag: the price falls, then rises. */
static dp_filter best_of_one(const wanted *w)
{
    enum { COARSE = 16 };
    dp_filter best = { 0 };
    double least = price(&best, w) * (1 - 1e-6);
    unsigned from = COARSE, to = DP_FILTER_ONE, by = COARSE;
    for (int pass = 0; pass < 2; pass++) {
        for (unsigned g = from; g <= to; g += by) {
            const dp_filter f = { 1, { (uint16_t)g } };
            const double v = price(&f, w);
            if (v < least)
                least = v, best = f;
        }
        const unsigned at = best.b ? best.gamma[0] : 1;
        from = at > COARSE ? at - COARSE : 1;
        to = at + COARSE < DP_FILTER_ONE ? at + COARSE : DP_FILTER_ONE;
        by = 1;
    }
    return best;
}

/* Moves `by` from number j (lags: from nowhere) to number i; false if that is not admissible. */
static bool moved(dp_filter *f, unsigned i, unsigned j, int by, unsigned lags)
{
    int g[DP_FILTER_LAGS + 1] = { 0 };
    for (unsigned n = 0; n < lags; n++)
        g[n] = f->gamma[n];
    g[i] += by, g[j] -= by;
    *f = (dp_filter){ 0 };
    for (unsigned n = 0; n < lags; n++) {
        if (g[n] < 0 || g[n] > DP_FILTER_ONE)
            return false;
        f->gamma[n] = (uint16_t)g[n];
        f->b = g[n] > 0 ? n + 1 : f->b;
    }
    return f->b > 0 && dp_filter_check(f) == SEFL_OK;
}

/* Descends from *best with this many lags: changes one number, or moves from one to another, by
 * 512, then 256, ... */
static void descend(dp_filter *best, double *least, unsigned lags, const wanted *w)
{
    for (int by = 512; by > 0; by /= 2)
        for (bool again = true; again;) {
            again = false;
            for (unsigned way = 0; way < 2 * lags * (lags + 1); way++) {
                const unsigned i = way / 2 % lags, j = way / 2 / lags;
                dp_filter f = *best;
                if (i == j || !moved(&f, i, j, way % 2 ? -by : by, lags))
                    continue;
                const double v = price(&f, w);
                if (v < *least * (1 - 1e-9))
                    *least = v, *best = f, again = true;
            }
        }
}

/* The best filter that a descent finds from the best one of one lag, or from the shape of the
 * inverse square root, which is the best for many rounds without momentum. */
static dp_filter best_of_many(const dp_filter *one, unsigned lags, const wanted *w)
{
    static const double root[DP_FILTER_LAGS] = { 64 / 128.0, 16 / 128.0, 8 / 128.0, 5 / 128.0 };
    dp_filter best = *one, other = { .b = lags };
    double least = price(one, w), sum = 0;
    descend(&best, &least, lags, w);
    for (unsigned j = 0; j < lags; j++)
        sum += root[j];
    for (unsigned j = 0; j < lags; j++)
        other.gamma[j] = (uint16_t)(one->gamma[0] * root[j] / sum);
    if (other.gamma[lags - 1] == 0 || dp_filter_check(&other) != SEFL_OK)
        return best;
    double found = price(&other, w);
    descend(&other, &found, lags, w);
    return found < least ? other : best;
}

dp_filter dp_filter_best(uint64_t rounds, const dp_turns *turns, double momentum)
{
    enum { ROUNDS_MANY = 2000 }; /* a price takes O(rounds): then more lags are not tried */
    static const double worth = 1.03, enough = 1.01;
    const wanted w = { rounds, turns, momentum };
    const dp_filter one = best_of_one(&w);
    dp_filter best[DP_FILTER_LAGS + 1] = { [1] = one };
    double cost[DP_FILTER_LAGS + 1] = { [1] = price(&one, &w) };
    unsigned lags = 2;
    if (one.b == 0 || rounds > ROUNDS_MANY)
        return one;
    for (unsigned j = 2; j <= DP_FILTER_LAGS; j++) {
        best[j] = best_of_many(&one, j, &w);
        cost[j] = price(&best[j], &w);
    }
    if (cost[1] < worth * cost[DP_FILTER_LAGS])
        return one;
    while (cost[lags] > enough * cost[DP_FILTER_LAGS])
        lags++;
    return best[lags];
}

dp_event dp_filter_event(const dp_event *ev, double s, uint64_t n)
{
    dp_event all = *ev;
    all.rate = 1;
    all.count = n > 0;
    if (n > 0) {
        all.z /= s;
        all.dim *= n;
    }
    return all;
}
