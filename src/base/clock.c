#include "base/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t monotonic_ns(void *self)
{
    (void)self;
    return read_clock(CLOCK_MONOTONIC);
}

static uint64_t wall_ns(void *self)
{
    (void)self;
    return read_clock(CLOCK_REALTIME);
}

sefl_clock clock_monotonic(void)
{
    return (sefl_clock){ .now_ns = monotonic_ns };
}

sefl_clock clock_wall(void)
{
    return (sefl_clock){ .now_ns = wall_ns };
}

uint64_t clock_now_ns(void)
{
    return monotonic_ns(NULL);
}

double clock_lap(uint64_t *t)
{
    double s = clock_since(*t);
    *t = clock_now_ns();
    return s;
}

double clock_since(uint64_t began_ns)
{
    return 1e-9 * (double)(clock_now_ns() - began_ns);
}

void clock_pause_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 }, NULL);
}
