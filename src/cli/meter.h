/* meter: shows the progress of long work as one line on standard error, which it redraws. Silent if
 * that is no terminal, and for work that ends within half a second.
 *
 *     meter m;
 *     sefl_progress p = meter_start(&m, "reading");
 *     st = corpus_read(&c, v, &file, &p);
 *     meter_stop(&m);                            // erases the line */
#ifndef CLI_METER_H
#define CLI_METER_H

#include "base/progress.h"
#include "base/status.h"

typedef struct meter {
    const char *what;
    uint64_t began_ns, shown_ns;
    bool on, shown;
} meter;

/* Is standard error a terminal that can redraw a line? TERM must be set, and not to "dumb". */
bool meter_terminal(void);
/* Redraws the line, cut to the terminal's width; "" erases it. Only if meter_terminal(). */
void meter_line(const char *fmt, ...) SEFL_PRINTF(1, 2);

sefl_progress meter_start(meter *m, const char *what);
void meter_stop(meter *m);

#endif
