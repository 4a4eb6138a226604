#include "base/clock.h"

#include "base/hex.h"

#include <stdio.h>
#include <string.h>
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

static uint64_t boot_ns(void *self)
{
    (void)self;
    return read_clock(CLOCK_BOOTTIME);
}

sefl_clock clock_boot(void)
{
    return (sefl_clock){ .now_ns = boot_ns };
}

bool clock_boot_id(uint8_t out[CLOCK_BOOT_ID])
{
    char text[64] = "", hex[2 * CLOCK_BOOT_ID + 1];
    size_t n = 0, got = 0;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    memset(out, 0, CLOCK_BOOT_ID);
    if (f) {
        got = fread(text, 1, sizeof text - 1, f);
        fclose(f);
    }
    for (size_t i = 0; i < got && n < 2 * CLOCK_BOOT_ID; i++)
        if (text[i] != '-')
            hex[n++] = text[i];
    hex[n] = 0;
    return n == 2 * CLOCK_BOOT_ID && hex_read(out, CLOCK_BOOT_ID, hex);
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
