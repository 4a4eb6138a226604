/* interrupt: lets long work stop cleanly after SIGINT or SIGTERM, and not in the middle of a file.
 *
 *     interrupt_catch();
 *     while (!interrupt_seen())
 *         work();
 *
 * A second signal of the same kind ends the process at once. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

/* Starts catching both signals. A signal that the parent process ignores stays ignored. */
void interrupt_catch(void);
/* True once a signal has arrived. */
bool interrupt_seen(void);

#endif
