#include "cli/meter.h"

#include "base/clock.h"
#include "cli/interrupt.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool meter_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

void meter_line(const char *fmt, ...)
{
    char line[256];
    struct winsize w;
    size_t width = 80;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        width = w.ws_col;
    if (width < sizeof line)
        line[width - 1] = 0; /* keep the last column free: a full line would wrap */
    fprintf(stderr, "\r%s\033[K", line);
}

bool meter_due(meter *m)
{
    const uint64_t now = clock_now_ns();
    if (!m->on || now - m->shown_ns < 250000000u)
        return false;
    m->shown_ns = now;
    return m->shown = true;
}

static bool report(void *self, uint64_t done, uint64_t total)
{
    meter *m = self;
    const double seconds = clock_since(m->began_ns);
    if (seconds < 0.5 || !meter_due(m))
        return !interrupt_seen();
    if (total > 0 && done <= total && done > 0)
        meter_line("%s  %3.0f %%  %.0f s left ", m->what, 100.0 * (double)done / (double)total,
                   seconds * (double)(total - done) / (double)done);
    else
        meter_line("%s  %.0f s ", m->what, seconds);
    return !interrupt_seen();
}

sefl_progress meter_start(meter *m, const char *what)
{
    *m = (meter){ .what = what, .began_ns = clock_now_ns(), .on = meter_terminal() };
    return (sefl_progress){ .report = report, .self = m };
}

void meter_stop(meter *m)
{
    if (m->shown)
        meter_line("%s", "");
    m->shown = false;
}
