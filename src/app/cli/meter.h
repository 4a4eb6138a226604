/* meter: shows the progress of long work as one line on standard error, which it redraws. It prints
 * nothing if standard error is not a terminal, or if the work ends within half a second. It also
 * stops the work after a signal (interrupt.h).
 *
 *     meter m;
 *     sefl_progress p = meter_start(&m, "reading");
 *     st = corpus_read(&c, v, &file, &p);        // SEFL_ECANCELLED after a signal
 *     meter_stop(&m);                            // erases the line
 *
 * A command that displays more than a count prints the line itself:
 *
 *     if (meter_due(&m))
 *         meter_line("round %u/%u  %.1f clients/s", ...);
 *     meter_stop(&m);                            // before any other output */
#ifndef CLI_METER_H
#define CLI_METER_H

#include "base/progress.h"
#include "base/status.h"

typedef struct meter {
    const char *what;
    uint64_t began_ns, shown_ns;
    bool on, shown;
} meter;

/* True if standard error is a terminal that can redraw a line: TERM is set and is not "dumb". */
bool meter_terminal(void);
/* Redraws the line, cut to the width of the terminal; "" erases it. Requires meter_terminal(). */
void meter_line(const char *fmt, ...) SEFL_PRINTF(1, 2);

sefl_progress meter_start(meter *m, const char *what);
/* True if the meter is on and the last redraw was at least 250 ms ago; the caller then redraws. */
bool meter_due(meter *m);
/* Erases the line if it is shown. */
void meter_stop(meter *m);

#endif
