/* plan_need: the noise and the number of clients that a claim needs. `sefl plan` (simulate/plan.h,
 * which explains the noise ratio) and `sefl demo` print them.
 *
 * Threads: pure functions.   Secrets: none. */
#ifndef SIMULATE_PLAN_NEED_H
#define SIMULATE_PLAN_NEED_H

#include "protocol/task_budget.h"

#define PLAN_RATIO_BAD  TASK_RATIO_DROWNS
#define PLAN_RATIO_GOOD TASK_RATIO_SLOW
#define PLAN_EPSILON    8.0

/* The requirements of a claim (epsilon, delta) over all rounds of a task: joint noise with this z,
 * and enough clients per round that their sum exceeds the noise. */
typedef struct plan_need {
    double epsilon, delta, z;
    uint64_t clients;   /* clients for a noise ratio of PLAN_RATIO_GOOD */
    uint64_t turns;     /* rounds.separation: so many times as many clients in all */
    uint64_t no_larger; /* clients for a noise ratio of PLAN_RATIO_BAD */
} plan_need;

/* Computes the requirements of the claim; fails if no z achieves epsilon. */
sefl_status plan_need_of(plan_need *out, const task *t, double epsilon,
                         double delta) SEFL_MUST_CHECK;

enum { PLAN_NEED_TEXT = 160 };
/* Writes "over these rounds needs z = 2.393 and, by a rule of thumb, about 1048 clients per
 * round": then the noise is a third of the largest sum of updates. */
void plan_need_text(char out[PLAN_NEED_TEXT], const plan_need *n);

/* Returns the task as if it claimed something, for the accountant; without noise, as if it had
 * joint noise. */
task plan_as_claimed(const task *t);
/* Returns the noise of the task's mode; for a mode without noise, the usual one. */
const dp_source *plan_source(const task *t);
/* Returns the number of clipped contributions per client: one, or one per record. */
double plan_clips(const task *t);

#endif
