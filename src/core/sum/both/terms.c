#include "sum/terms.h"

#include <string.h>

_Static_assert((int)LEDGER_TASK_BYTES == (int)TASK_ID, "one id");

ledger_terms terms_of_task(const task *t)
{
    dp_event ev = task_event(t, 1);
    ledger_terms out = { .noise = ev.noise };
    memcpy(out.task, t->id, sizeof out.task);
    if (!dp_noise_claims(ev.noise))
        return out;
    out.z = ev.z;
    out.rate = ev.rate;
    out.dim = ev.dim;
    out.sigma_steps = ev.sigma_steps;
    out.unit = t->unit == TASK_UNIT_RECORD ? LEDGER_UNIT_RECORD : LEDGER_UNIT_CLIENT;
    out.max_rounds_per_client = t->max_rounds_per_client;
    out.epsilon_max = t->epsilon;
    out.delta = t->delta;
    out.separation = t->separation > 1 ? t->separation : 0;
    if (task_limits_records(t)) {
        out.turns = t->record_turns;
        out.turn_rounds = t->rounds;
        out.max_rounds_per_client = 0; /* it allows every round */
    }
    if (t->filter.b > 0) {
        out.filter = t->filter;
        out.z = t->grid.z; /* not z / S, as in the event */
        out.dim = t->values;
        out.units = dp_filter_units(t->filter_bits);
    }
    return out;
}

ledger_terms terms_of_client(const task *t)
{
    ledger_terms out = terms_of_task(t);
    if (!dp_noise_claims(out.noise))
        return out;
    out.rate = 1;
    /* its charges are the rounds in which it took part: none of them costs nothing */
    out.separation = out.max_rounds_per_client = 0;
    if (out.filter.b > 0)
        out.horizon = t->rounds;
    return out;
}
