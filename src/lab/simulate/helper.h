/* helper: the part of a simulation that runs at other ranks than 0 (ranks.h). A helper makes the
 * same federation as rank 0, and then trains, encrypts and adds its own clients in every round.
 *
 *     SEFL_TRY(helper_begin(r, folder, finished));     // rank 0
 *     SEFL_TRY(helper_run(&config));                   // others: until the run is over
 *
 * Threads: one owner.   Secrets: none. */
#ifndef SIMULATE_HELPER_H
#define SIMULATE_HELPER_H

#include "simulate/simulate.h"

/* Tells the other ranks where the run's folder is, or that the run has already finished. */
sefl_status helper_begin(const ranks *r, const char *folder, bool finished) SEFL_MUST_CHECK;

/* Starts the pool of a rank: `threads`, or its share of the cores that it may use. */
sefl_status helper_pool(pool **out, const ranks *r, unsigned threads) SEFL_MUST_CHECK;

sefl_status helper_run(const simulate_config *c) SEFL_MUST_CHECK;

#endif
