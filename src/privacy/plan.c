#include "privacy/plan.h"

#include <math.h>

/* Bounds the probability that more than `most` of n records are drawn. */
static double overflow(uint64_t n, double rate, uint64_t most)
{
    const double x = ((double)most + 1) / (double)n;
    if (most >= n)
        return 0;
    if (x <= rate)
        return 1;
    const double rest = x < 1 ? (1 - x) * log((1 - x) / (1 - rate)) : 0;
    return exp(-(double)n * (x * log(x / rate) + rest));
}

uint64_t dp_records_for(uint64_t most, double rate, double rare)
{
    uint64_t low = most, high = (uint64_t)ceil(((double)most + 1) / rate) + 1;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (overflow(middle, rate, most) <= rare)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint64_t dp_records_max(uint64_t n, double rate, double rare)
{
    uint64_t low = 0, high = n; /* low: too small, unless nothing overflows it */
    if (overflow(n, rate, 0) <= rare)
        return 1;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (overflow(n, rate, middle) <= rare)
            high = middle;
        else
            low = middle;
    }
    return high;
}

dp_event dp_plan_event(const dp_plan *p, bool against_server)
{
    const bool seen = !p->unit_record && ((against_server && !p->hidden) || p->public_count);
    dp_event ev = { .noise = dp_sources[p->source].law,
                    .z = p->z,
                    .rate = p->unit_record ? p->record_rate : p->rate,
                    .count = p->rounds,
                    .dim = p->dim,
                    .sigma_steps = DP_SIGMA_STEPS };
    /* an observer who knows the number of participants learns about each client's sampling: no
     * amplification */
    if (seen)
        ev.rate = 1;
    if ((seen || against_server) && p->max_rounds > 0 && p->max_rounds < p->rounds)
        ev.count = p->max_rounds;
    return ev;
}

sefl_status dp_plan_compute(dp_plan *p)
{
    dp_event server = dp_plan_event(p, true), others = dp_plan_event(p, false);
    dp_question q = { .delta = p->delta };
    const double clients = (double)p->clients;
    p->cohort = clients * p->rate;
    if (p->max_rounds > 0) /* no client takes part in more rounds */
        p->cohort = fmin(p->cohort, clients * (double)p->max_rounds / (double)p->rounds);
    if (p->z == 0)
        SEFL_PASS(dp_find_z(&p->z, &server, p->epsilon, &q));
    server.z = others.z = p->z;
    for (int i = 0; i < 2; i++) {
        q.neighbours = i ? DP_REPLACE : DP_ZERO_OUT;
        SEFL_PASS(dp_epsilon(&p->server[i], &server, 1, &q));
        SEFL_PASS(dp_epsilon(&p->others[i], &others, 1, &q));
        if (p->server[i].epsilon < p->others[i].epsilon) /* others see no more than a server does */
            p->others[i] = p->server[i];
    }
    p->signals = p->cohort;
    if (p->unit_record) {
        p->records_max = dp_records_max(p->records, p->record_rate, DP_RECORDS_RARE);
        p->signals *= (double)p->records * p->record_rate;
    }
    double spread = p->z * sqrt((double)p->dim * dp_sources[p->source].noises);
    p->noise_over_signal = spread / p->signals;
    p->least_cohort = ceil(spread / (p->signals / p->cohort));
    return SEFL_OK;
}
