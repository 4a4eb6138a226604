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
