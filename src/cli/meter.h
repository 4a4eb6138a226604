/* meter: progress of long work as one line on standard error that renews itself. Silent unless that
 * is a terminal, and for work that ends within half a second.
 *
 *     meter m;
 *     sefl_progress p = meter_start(&m, "reading");
 *     st = corpus_read(&c, v, &file, &p);
 *     meter_stop(&m);                            // takes the line away
 */
#ifndef CLI_METER_H
#define CLI_METER_H

#include "base/progress.h"
#include "base/status.h"

typedef struct meter {
    const char *what;
    uint64_t began_ns, shown_ns;
    bool on, shown;
} meter;

/* Whether standard error is a terminal that can renew a line: TERM is set, and not to "dumb". */
bool meter_terminal(void);
/* Renews the line, cut to the terminal's width so that it stays one; "" takes it away. Only where
 * meter_terminal. */
void meter_line(const char *fmt, ...) SEFL_PRINTF(1, 2);

sefl_progress meter_start(meter *m, const char *what);
void meter_stop(meter *m);

#endif
