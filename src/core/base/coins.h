/* coins: a role's secret random numbers, requested by purpose. For each purpose (encryption,
 * masking, quantising, OT, garbling, noise, sampling), round and attempt, a role requests a
 * generator of its own and uses it for nothing else.
 *
 *     sefl_rng rng;
 *     SEFL_TRY(coins_for(coins, &rng, "mask", round, attempt));
 *
 * coins_system() returns the system's generator for every purpose; the real aggregator, CSP and
 * client use nothing else. A test program passes a table of seeded generators instead, so that it
 * can reproduce every random number of a federation.
 * Threads: coins_system may be shared.   Secret: the output of the generators. */
#ifndef BASE_COINS_H
#define BASE_COINS_H

#include "base/random.h"

typedef struct sefl_coins {
    sefl_status (*get)(void *self, sefl_rng *out, const char *purpose, uint64_t round,
                       uint64_t attempt);
    void *self;
} sefl_coins;

sefl_coins coins_system(void);

sefl_status coins_for(const sefl_coins *c, sefl_rng *out, const char *purpose, uint64_t round,
                      uint64_t attempt) SEFL_MUST_CHECK;

#endif
