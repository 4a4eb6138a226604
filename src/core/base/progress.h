/* progress: how a long call reports its progress. A NULL progress reports nothing.
 *
 * Workers call `report` one at a time, from any thread, with increasing `done`. If `report` returns
 * false, the work stops and fails with SEFL_ECANCELLED. */
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
