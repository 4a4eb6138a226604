#include "simulate/plan_need.h"

#include "privacy/accountant/accountant.h"
#include "protocol/modes/mode.h"
#include "protocol/task_budget.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

task plan_as_claimed(const task *t)
{
    task as_if = *t;
    as_if.claim = true;
    as_if.amplified = t->sampling == TASK_OPEN && t->enough == 0;
    return as_if;
}

const dp_source *plan_source(const task *t)
{
    const dp_source *source = task_mode(t)->source;
    return source ? source : &dp_sources[DP_SOURCE_USUAL];
}

double plan_clips(const task *t)
{
    return t->unit == TASK_UNIT_RECORD ? t->records_max : 1;
}

sefl_status plan_need_of(plan_need *out, const task *t, double epsilon, double delta)
{
    dp_event want = {
        .noise = plan_source(t)->law, .rate = 1, .count = t->rounds, .dim = t->values
    };
    double root = sqrt((double)t->values), z;
    const double each = plan_clips(t);
    *out = (plan_need){ .epsilon = epsilon, .delta = delta };
    out->turns = t->separation;
    if (t->filter.b > 0) { /* correlated: what the last model contains counts */
        task as_if = plan_as_claimed(t);
        as_if.epsilon = epsilon, as_if.delta = delta;
        SEFL_PASS(task_budget_z(&z, &as_if));
        out->z = z;
        z *= task_model_z(t) / t->grid.z;
    } else {
        const task as_if = plan_as_claimed(t);
        want.count = task_event_server(&as_if, t->rounds).count;
        SEFL_PASS(dp_find_z(&z, &want, epsilon, &(dp_question){ .delta = delta }));
        out->z = z;
    }
    out->clients = (uint64_t)ceil(z * root / PLAN_RATIO_GOOD / each);
    out->no_larger = (uint64_t)ceil(z * root / PLAN_RATIO_BAD / each);
    return SEFL_OK;
}

void plan_need_text(char out[PLAN_NEED_TEXT], const plan_need *n)
{
    char in_all[48] = "";
    if (n->turns > 1)
        snprintf(in_all, sizeof in_all, ", %" PRIu64 " in all, since they take turns",
                 n->clients * n->turns);
    if (n->z > 0)
        snprintf(out, PLAN_NEED_TEXT,
                 "over these rounds needs z = %.3f and, by a rule of thumb, about %" PRIu64
                 " client%s per round%s",
                 ceil(n->z * 1000) / 1000, n->clients, n->clients == 1 ? "" : "s", in_all);
    else
        snprintf(out, PLAN_NEED_TEXT, "over these rounds is impossible with any noise");
}
