/* interrupt: SIGINT and SIGTERM end long work in good order, not in the middle of a file.
 *
 *     interrupt_catch();
 *     while (!interrupt_seen())
 *         work();
 *
 * A second signal of the same kind ends the process at once. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on. A signal that the parent ignored stays ignored. */
void interrupt_catch(void);
bool interrupt_seen(void);

#endif
