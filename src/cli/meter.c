#include "cli/meter.h"

#include "base/clock.h"

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
        line[width - 1] = 0; /* the last column stays free: a full line would wrap */
    fprintf(stderr, "\r%s\033[K", line);
}

static bool report(void *self, uint64_t done, uint64_t total)
{
    meter *m = self;
    sefl_clock c = clock_monotonic();
    uint64_t now = clock_ns(&c);
    if (!m->on || now - m->began_ns < 500000000u || now - m->shown_ns < 100000000u)
        return true;
    m->shown_ns = now;
    m->shown = true;
    double seconds = 1e-9 * (double)(now - m->began_ns);
    if (total > 0 && done <= total && done > 0)
        meter_line("%s  %3.0f %%  %.0f s left ", m->what, 100.0 * (double)done / (double)total,
                   seconds * (double)(total - done) / (double)done);
    else
        meter_line("%s  %.0f s ", m->what, seconds);
    return true;
}

sefl_progress meter_start(meter *m, const char *what)
{
    sefl_clock c = clock_monotonic();
    *m = (meter){ .what = what, .began_ns = clock_ns(&c), .on = meter_terminal() };
    return (sefl_progress){ .report = report, .self = m };
}

void meter_stop(meter *m)
{
    if (m->shown)
        meter_line("%s", "");
    *m = (meter){ 0 };
}
