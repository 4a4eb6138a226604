#include "protocol/task_budget.h"

#include "protocol/modes/mode.h"

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

sefl_status task_budget_z(double *z, const task *t)
{
    const dp_event ev = task_event_server(t, t->rounds);
    SEFL_PASS(dp_find_z(z, &ev, t->epsilon, &(dp_question){ .delta = t->delta }));
    return t->filter.b == 0 ? SEFL_OK
                            : dp_filter_z(z, &t->filter, t->rounds,
                                          &(dp_turns){ t->max_rounds_per_client, t->separation },
                                          t->values, dp_filter_units(t->filter_bits), *z);
}

double task_cohort(const task *t)
{
    const double part = t->sampling == TASK_ALL ? 1 / (double)t->separation : t->rate;
    return fmin(t->clients_max, part * t->enrolled);
}

double task_noise_clients(const task *t)
{
    const double records = t->unit == TASK_UNIT_RECORD ? t->records_max : 1;
    return task_mode(t)->noisy ? task_model_z(t) * sqrt((double)t->values) *
                                     sqrt(task_mode(t)->source->noises) / records
                               : 0;
}

/* Noise over signal if the task had this mode. */
static double ratio_under(const task *t, task_noise noise)
{
    task as_if = *t; /* owns nothing */
    double here, there, more = 1;
    as_if.noise = noise;
    const release_mode *mode = task_mode(&as_if);
    as_if.sigma_steps = 0;
    if (t->claim && mode->noisy && noise != t->noise &&
        (!mode->derive || mode->derive(&as_if) == SEFL_OK) && task_budget_z(&here, t) == SEFL_OK &&
        task_budget_z(&there, &as_if) == SEFL_OK)
        more = there / here; /* the laws need almost the same z */
    return more * task_noise_clients(&as_if) / task_cohort(t);
}

static unsigned harm(double ratio)
{
    return (ratio > TASK_RATIO_SLOW) + (ratio > TASK_RATIO_DROWNS);
}

task_choice task_compare_modes(const task *t)
{
    task_choice c = { .proposed = TASK_NOISE_OWN };
    for (unsigned i = 0; i < RELEASE_MODE_COUNT; i++)
        c.ratio[i] = ratio_under(t, (task_noise)i);
    if (harm(c.ratio[TASK_NOISE_OWN]) > harm(c.ratio[TASK_NOISE_JOINT]))
        c.proposed = TASK_NOISE_JOINT;
    return c;
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
