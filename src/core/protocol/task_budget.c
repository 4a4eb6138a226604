#include "protocol/task_budget.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

dp_event task_event_server(const task *t, uint64_t rounds)
{
    dp_event ev = task_event(t, rounds);
    if (t->claim && t->filter.b == 0) {
        ev.rate = 1;
        if (!task_limits_records(t)) /* a record's turns are counted in ev already */
            ev.count = dp_turns_in(&(dp_turns){ t->max_rounds_per_client, t->separation }, rounds);
    }
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

/* With a filter the rounds are one release with noise z / S, and S = S_0 + slack: the slack is
 * proportional to z. So z = one (S_0 + slack), one being the z of a single release. */
static sefl_status filter_z(double *z, const task *t, double one)
{
    const double slack =
        dp_filter_slack(&t->filter, t->rounds, t->values, 1, dp_filter_units(t->filter_bits));
    const double s =
        dp_filter_s(&t->filter, t->rounds, &(dp_turns){ t->max_rounds_per_client, t->separation });
    SEFL_NEED(
        one * slack < 0.5, SEFL_EBUDGET,
        "no noise suffices: the servers would keep the noise of %s with too few bits for %llu "
        "rounds of %zu values",
        t->z, (unsigned long long)t->rounds, t->values);
    *z = ceil(one * s / (1 - one * slack) * 1e6 * (1 + 1e-9)) / 1e6;
    return SEFL_OK;
}

sefl_status task_budget_z(double *z, const task *t)
{
    const dp_event ev = task_event_server(t, t->rounds);
    SEFL_PASS(dp_find_z(z, &ev, t->epsilon, &(dp_question){ .delta = t->delta }));
    return t->filter.b > 0 ? filter_z(z, t, *z) : SEFL_OK;
}

bool task_turns_warning(char out[TASK_TURNS_TEXT], const task *t)
{
    const uint64_t most = t->max_rounds_per_client, apart = t->separation;
    const uint64_t enough = (t->rounds + apart - 1) / apart; /* turns until the last round */
    *out = 0;
    if (most == 0 || t->sampling != TASK_ALL || most >= enough)
        return false;
    snprintf(
        out, TASK_TURNS_TEXT,
        "the clients run out: with rounds.max_per_client %" PRIu64 " and rounds.separation %" PRIu64
        ", a client that takes every turn has its last one in round %" PRIu64
        " or before, but the task has %" PRIu64
        " rounds. Later rounds may have too few clients and be skipped: set rounds.separation to "
        "%" PRIu64 ", rounds.max_per_client to %" PRIu64 " or rounds.count to %" PRIu64,
        most, apart, most * apart, t->rounds, dp_turns_apart(most, t->rounds), enough,
        most * apart);
    return true;
}
