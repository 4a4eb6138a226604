/* interrupt: SIGINT and SIGTERM end long work in good order, not in the middle of a file.
 *
 *     interrupt_catch();
 *     interrupt_progress stop;
 *     sefl_progress p = interrupt_with(&stop, meter_start(&m, "writing"));
 *     st = work(&p);                             // SEFL_ECANCELLED after a signal
 *
 * A second signal of the same kind ends the process at once. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "base/progress.h"

typedef struct interrupt_progress {
    sefl_progress inner;
} interrupt_progress;

/* From now on. A signal that the parent ignored stays ignored. */
void interrupt_catch(void);
bool interrupt_seen(void);

/* Reports to inner, and returns false (stop) once a signal came. */
sefl_progress interrupt_with(interrupt_progress *p, sefl_progress inner);

#endif
