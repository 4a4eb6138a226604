/* progress: how a long call tells its caller how far it is. A NULL progress is silent.
 *
 * `report` may be called from any worker, one call at a time, with done rising; it returns false
 * to stop the work, which then ends with SEFL_ECANCELLED. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sefl_progress {
    bool (*report)(void *self, uint64_t done, uint64_t total);
    void *self;
} sefl_progress;

static inline bool progress_report(const sefl_progress *p, uint64_t done, uint64_t total)
{
    return !p || !p->report || p->report(p->self, done, total);
}

#endif
