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
    as_if.noise = task_mode(t)->noisy ? t->noise : TASK_NOISE_JOINT;
    as_if.amplified = t->sampling == TASK_OPEN && t->enough == 0;
    return as_if;
}

const dp_source *plan_source(const task *t)
{
    const task as_if = plan_as_claimed(t);
    return task_mode(&as_if)->source;
}

double plan_clips(const task *t)
{
    return t->unit == TASK_UNIT_RECORD ? t->records_max : 1;
}

sefl_status plan_need_of(plan_need *out, const task *t, double epsilon, double delta)
{
    task as_if = plan_as_claimed(t);
    *out = (plan_need){ .epsilon = epsilon, .delta = delta, .turns = t->separation };
    as_if.epsilon = epsilon, as_if.delta = delta;
    SEFL_PASS(task_budget_z(&out->z, &as_if));
    double each = out->z * sqrt((double)t->values) / plan_clips(t);
    if (t->filter.b > 0) /* correlated: what the last model contains counts */
        each *= task_model_z(t) / t->grid.z;
    out->clients = (uint64_t)ceil(each / PLAN_RATIO_GOOD);
    out->no_larger = (uint64_t)ceil(each / PLAN_RATIO_BAD);
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
