/* clock: passes the time source as an argument. Code that needs the time takes a `const sefl_clock
 * *`; the simulator passes a clock that it advances itself.
 *
 * Threads: the system clock may be shared. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sefl_clock {
    uint64_t (*now_ns)(void *self);
    void *self;
} sefl_clock;

/* Returns the monotonic clock, for durations and deadlines; it is unrelated to the time of day. */
sefl_clock clock_monotonic(void);

/* Returns the wall clock (nanoseconds since 1970), for log lines and expiry dates. */
sefl_clock clock_wall(void);

/* Returns the time since the machine started, also while it was suspended. Nobody can set it. */
sefl_clock clock_boot(void);

/* Which start of the machine this is: another id after each. False, and zeros, if the system does
 * not tell (/proc is hidden). */
enum { CLOCK_BOOT_ID = 16 };
bool clock_boot_id(uint8_t out[CLOCK_BOOT_ID]);

static inline uint64_t clock_ns(const sefl_clock *c)
{
    return c->now_ns(c->self);
}

static inline uint64_t clock_ms(const sefl_clock *c)
{
    return clock_ns(c) / 1000000;
}

/* Shortcuts for programs that run in real time. */
uint64_t clock_now_ns(void);           /* the monotonic clock */
double clock_since(uint64_t began_ns); /* seconds since a reading of clock_now_ns */
double clock_lap(uint64_t *t);         /* clock_since(*t), and sets *t to now */
void clock_pause_ms(unsigned ms);      /* sleeps for ms milliseconds */

#endif
