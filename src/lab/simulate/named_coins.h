/* named_coins: derives a role's coins (base/coins.h) from a seed and names, so that a simulation is
 * repeatable and a test can draw the same coins.
 *
 *     SEFL_TRY(named_coins_new(&n, "CSP", 1));
 *     sefl_coins coins = named_coins_of(n);
 *     ...
 *     named_coins_replay(&gen, "CSP", 1, "noise", round, attempt);   // a fresh generator
 *
 * Anyone who knows the seed knows all coins, so no real role uses this module.
 * Threads: any number of threads may draw. */
#ifndef SIMULATE_NAMED_COINS_H
#define SIMULATE_NAMED_COINS_H

#include "base/coins.h"
#include "seeded/seeded.h"

typedef struct named_coins named_coins;

/* who is a name of at most 63 characters. */
sefl_status named_coins_new(named_coins **out, const char *who, uint64_t seed) SEFL_MUST_CHECK;
void named_coins_free(named_coins *n);
sefl_coins named_coins_of(named_coins *n);

/* Initialises a generator that repeats this role's coins for this purpose. */
void named_coins_replay(seeded *out, const char *who, uint64_t seed, const char *purpose,
                        uint64_t round, uint64_t attempt);

#endif
