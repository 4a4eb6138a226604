/* pulse: whether the database of a server answers, and since when it does not.
 *
 *     if (lease_look(j, ...) == SEFL_OK)
 *         pulse_heard(&p, mono);                 // at least once a second
 *     uint64_t since = pulse_away(&p, mono, wall);   // 0: it answers
 *
 * A thread that asks the database may wait for a long time, so others look at the time of the last
 * answer instead. Nobody who shows the state of a server may wait for the database.
 * Threads: any.   Secrets: none. */
#ifndef ROLES_PULSE_H
#define ROLES_PULSE_H

#include "base/clock.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { PULSE_EVERY_MS = 1000, PULSE_AWAY_MS = 3000 };

typedef struct pulse {
    _Atomic uint64_t heard_ms; /* monotonic; 0: this server has no database */
} pulse;

/* The database has just answered. */
void pulse_heard(pulse *p, const sefl_clock *mono);
/* The time of the last answer, in seconds since 1970, if that was PULSE_AWAY_MS ago; or 0. */
uint64_t pulse_away(const pulse *p, const sefl_clock *mono, const sefl_clock *wall);
/* Logs a change; *away is what it logged before. */
void pulse_log(bool *away, uint64_t since, sefl_log *log);

#endif
