/* coins: a role's random coins, by what they are for. A role draws every secret coin (of encryption,
 * masking, rounding, OT, garbling, noise, sampling) from a generator that it asks for by purpose,
 * round and attempt, and keeps none for another purpose.
 *
 *     sefl_rng rng;
 *     SEFL_TRY(coins_for(coins, &rng, "mask", round, attempt));
 *
 * coins_system() answers with the system's generator whatever the purpose; aggregator, csp and client
 * have nothing else. A test program that links the roles passes a table of seeded generators, so
 * that every coin of a federation can be replayed by name.
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
