#include "privacy/plan.h"

#include <math.h>

dp_event dp_plan_event(const dp_plan *p, bool against_server)
{
    dp_event ev = { .noise = dp_sources[p->source].law,
                    .z = p->z,
                    .rate = p->rate,
                    .count = p->rounds,
                    .dim = p->dim,
                    .sigma_steps = DP_SIGMA_STEPS };
    /* an observer who knows the number of participants learns about each client's sampling: no
     * amplification */
    if ((against_server && !p->hidden) || p->public_count) {
        ev.rate = 1;
        if (p->max_rounds > 0 && p->max_rounds < p->rounds)
            ev.count = p->max_rounds;
    }
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
    double spread = p->z * sqrt((double)p->dim * dp_sources[p->source].noises);
    p->noise_over_signal = spread / p->cohort;
    p->least_cohort = ceil(spread);
    return SEFL_OK;
}
