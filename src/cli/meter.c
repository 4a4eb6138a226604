#include "cli/meter.h"

#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

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
        fprintf(stderr, "\r%s  %3.0f %%  %.0f s left \033[K", m->what,
                100.0 * (double)done / (double)total,
                seconds * (double)(total - done) / (double)done);
    else
        fprintf(stderr, "\r%s  %.0f s \033[K", m->what, seconds);
    return true;
}

sefl_progress meter_start(meter *m, const char *what)
{
    sefl_clock c = clock_monotonic();
    *m = (meter){ .what = what, .began_ns = clock_ns(&c), .on = isatty(STDERR_FILENO) };
    return (sefl_progress){ .report = report, .self = m };
}

void meter_stop(meter *m)
{
    if (m->shown)
        fprintf(stderr, "\r\033[K");
    *m = (meter){ 0 };
}
