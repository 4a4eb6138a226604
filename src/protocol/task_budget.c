#include "protocol/task_budget.h"

dp_event task_event_server(const task *t, uint64_t rounds)
{
    dp_event ev = task_event(t, rounds);
    if (t->claim && !t->secret_draw)
        ev.rate = 1;
    if (t->claim && t->max_rounds_per_client > 0 && t->max_rounds_per_client < rounds)
        ev.count = t->max_rounds_per_client;
    return ev;
}

sefl_status task_budget_rounds(uint64_t *rounds, const task *t)
{
    uint64_t low = 0, high = t->rounds + 1; /* epsilon grows with each round */
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        const dp_event ev = task_event_server(t, middle);
        dp_claim c;
        SEFL_PASS(dp_epsilon(&c, &ev, 1, &(dp_question){ .delta = t->delta }));
        if (c.claimed && c.epsilon <= t->epsilon)
            low = middle;
        else
            high = middle;
    }
    *rounds = low;
    return SEFL_OK;
}

sefl_status task_budget_z(double *z, const task *t)
{
    const dp_event ev = task_event_server(t, t->rounds);
    return dp_find_z(z, &ev, t->epsilon, &(dp_question){ .delta = t->delta });
}
