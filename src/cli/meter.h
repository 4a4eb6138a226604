/* meter: shows the progress of long work as one line on standard error, which it redraws. Silent if
 * that is no terminal, and for work that ends within half a second. Its progress stops the work
 * after a signal (interrupt.h).
 *
 *     meter m;
 *     sefl_progress p = meter_start(&m, "reading");
 *     st = corpus_read(&c, v, &file, &p);        // SEFL_ECANCELLED after a signal
 *     meter_stop(&m);                            // erases the line
 *
 * A command that has more to show writes the line itself:
 *
 *     if (meter_due(&m))
 *         meter_line("round %u/%u  %.1f clients/s", ...);
 *     meter_stop(&m);                            // before it prints anything else */
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
/* Is the meter on, and was the line redrawn 250 ms ago or earlier? Then the caller redraws it. */
bool meter_due(meter *m);
/* Erases the line, if there is one. */
void meter_stop(meter *m);

#endif
