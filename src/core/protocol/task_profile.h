/* task_profile: the settings of a new task that its maker does not give. `sefl task new` takes the
 * defaults of the schema (task_fields.h); every other command has a profile here.
 *
 *     SEFL_TRY(settings_setf(&s, "operator", "rounds.enrolled=%u", sites));
 *     SEFL_TRY(task_profile_fill(&s, TASK_OF_OPERATOR));      // no given value changes
 *     SEFL_TRY(task_make(&document, &s, NULL, &servers));     // finds the noise (task_budget.h)
 *
 * Threads: any, on different settings.   Secrets: none. */
#ifndef PROTOCOL_TASK_PROFILE_H
#define PROTOCOL_TASK_PROFILE_H

#include "config/settings.h"

typedef enum task_profile {
    TASK_OF_OPERATOR,   /* sefl operator task: a claim, half of the sites */
    TASK_OF_REHEARSAL,  /* the same without a claim */
    TASK_OF_PROVISION,  /* sefl provision: a trial */
    TASK_OF_TRY,        /* sefl try and sefl demo: where they differ from provision's, */
    TASK_OF_DEMO,       /* which fills in the rest */
    TASK_OF_EXPERIMENT, /* sefl simulate and sefl plan */
    TASK_PROFILES
} task_profile;

/* A new site's policy.yml accepts a task with at least this many clients in a sum
 * (operator/site.c). */
enum { TASK_POLICY_CLIENTS = 3 };

/* Returns the profile's value for a key; NULL: none, so the default of the schema holds. */
const char *task_profile_value(task_profile p, const char *key);

/* Sets each value of the profile that is not set and that the task's model has, and what follows:
 * rounds.threshold and rounds.enough, from rounds.enrolled. Leaves out a value that another setting
 * decides: z with a claim, without noise or with privacy.classic_epsilon; epochs with steps or
 * records. */
sefl_status task_profile_fill(settings *s, task_profile p) SEFL_MUST_CHECK;

#endif
