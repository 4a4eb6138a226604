/* coins: a role's random coins, named by purpose. For every secret coin (encryption, masking,
 * quantising, OT, garbling, noise, sampling) a role asks for a generator by purpose, round and
 * attempt, and uses it for that purpose only.
 *
 *     sefl_rng rng;
 *     SEFL_TRY(coins_for(coins, &rng, "mask", round, attempt));
 *
 * coins_system() gives the system's generator for every purpose; aggregator, csp and client use
 * nothing else. A test program that links the roles passes a table of seeded generators, so that it
 * can replay every coin of a federation by name.
 * Threads: coins_system may be shared.   Secrets: what comes out. */
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
