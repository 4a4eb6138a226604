/* signals: handles SIGTERM, SIGINT and SIGHUP for a long-running role in a thread, so that the
 * handler may lock, allocate and print.
 *
 *     SEFL_TRY(signals_start(&s, on_signal, me));
 *     ...
 *     signals_end(s);
 *
 * A second SIGTERM or SIGINT ends the process at once, with exit code 128 + the signal number. A
 * signal that the parent ignores (nohup) stays ignored. */
#ifndef CLI_FULL_SIGNALS_H
#define CLI_FULL_SIGNALS_H

#include "base/status.h"

typedef struct signals signals;
typedef void signals_fn(void *ctx, int sig);

sefl_status signals_start(signals **out, signals_fn *fn, void *ctx) SEFL_MUST_CHECK;
void signals_end(signals *s);

#endif
