/* named_coins: a role's coins (base/coins.h) from a seed, each generator by its name, so that a
 * simulation can be repeated, and a test can draw the same ones again and knows which were asked
 * for.
 *
 *     SEFL_TRY(named_coins_new(&n, "CSP", 1));
 *     sefl_coins coins = named_coins_of(n);
 *     ...run the role with &coins...
 *     named_coins_replay(&gen, "CSP", 1, "noise", round, attempt);   // a fresh generator
 *     named_coins_latest(n, "mask", round, &attempt);                   // the highest attempt
 *     assert(named_coins_repeated(n) == 0);                              // none was given twice
 *
 * Everybody who knows the seed knows all of them: no role of the program is ever given such
 * coins.
 * Threads: any number may ask. */
#ifndef SIMULATE_NAMED_COINS_H
#define SIMULATE_NAMED_COINS_H

#include "base/coins.h"
#include "seeded/seeded.h"

#include <stdbool.h>

typedef struct named_coins named_coins;

/* who: at most 63 characters. */
sefl_status named_coins_new(named_coins **out, const char *who, uint64_t seed) SEFL_MUST_CHECK;
void named_coins_free(named_coins *n);
/* Every name asked for is appended to this file, "WHO PURPOSE-WITHOUT-BLANKS ROUND ATTEMPT" a
 * line: what several lives of a process asked for is there together. */
sefl_status named_coins_log(named_coins *n, const char *path) SEFL_MUST_CHECK;
sefl_coins named_coins_of(named_coins *n);

void named_coins_replay(seeded *out, const char *who, uint64_t seed, const char *purpose,
                        uint64_t round, uint64_t attempt);

/* The highest attempt under which this purpose and round was asked for. */
bool named_coins_latest(named_coins *n, const char *purpose, uint64_t round, uint64_t *attempt);

/* How often a name was asked for that had been asked for before. Purposes that need no name of
 * their own (a long poll's jitter) are listed in `except`, separated by spaces. */
unsigned named_coins_repeated(named_coins *n, const char *except);

#endif
