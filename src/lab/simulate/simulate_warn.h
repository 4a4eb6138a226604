/* simulate_warn: warnings about a run of simulate.h. Threads: any.   Secrets: none. */
#ifndef SIMULATE_SIMULATE_WARN_H
#define SIMULATE_SIMULATE_WARN_H

#include "simulate/simulate.h"

/* Adds warnings that are known before the first round. */
void simulate_warn_early(plan_warnings *w, const federation *f);
/* Warns if training diverged, or if noise or training made the model worse or unusable. */
void simulate_warn_late(simulate_result *r, const federation *f);

#endif
