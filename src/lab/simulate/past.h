/* past: correlated noise in a simulation: what each server kept of the latest rounds
 * (mpc/noise/noise_filter.h).
 *
 *     SEFL_TRY(past_new(&p, &task));                    // NULL: the task has no filter
 *     past_use(p, PAST_AS, round, &lags, &memory);      // the rounds before that are there
 *     past_drop(p, round);                              // the round was blocked
 *
 * Memory: 16 bytes per value for each lag of the filter, and for one round more. Threads: one
 * owner.   Secrets: a simulation has none. */
#ifndef SIMULATE_PAST_H
#define SIMULATE_PAST_H

#include "mpc/noise/noise_filter.h"
#include "protocol/task.h"

typedef enum past_side { PAST_AS, PAST_CSP, PAST_SIDES } past_side; /* a trusted server: PAST_AS */

typedef struct past past;

/* Sets *out to NULL if the task has no filter. */
sefl_status past_new(past **out, const task *t) SEFL_MUST_CHECK;
void past_free(past *p);

/* Sets lags to the rounds before `round` that are there and that the filter uses, and memory to H
 * (mpc/noise/noise_filter.h), the place for what the server keeps in this round. It replaces the
 * oldest. p NULL: 0 and NULL. */
void past_use(past *p, past_side side, uint64_t round, uint8_t *lags, uint8_t **memory);
void past_drop(past *p, uint64_t round);

/* Write and read what both servers kept in a round, to resume a run. Writing a round that is not
 * there writes an empty file; reading one leaves the round out. */
sefl_status past_write(const past *p, uint64_t round, const char *path) SEFL_MUST_CHECK;
sefl_status past_read(past *p, uint64_t round, const char *path) SEFL_MUST_CHECK;

#endif
