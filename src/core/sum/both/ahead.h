/* ahead: a server's own noise of a round (mode own), drawn before the round closes.
 *
 * The sampler's time depends on the values that it draws, so it does not run while the round waits
 * for the result; a server that deviates can measure it all the same, as a total over all values
 * (docs/THREATS.md). Each server draws its noise once a round, from a seed that stays the same over
 * all attempts: if an attempt had a seed of its own, the other server could break off attempts
 * until it likes what it sees. AS stores its seed with the mask. CSP's seed is in memory alone, and
 * a restart draws another, because nothing that depends on the seed leaves CSP before the reply is
 * stored. If the store had the seed, a copy of it that somebody puts back would give one noise for
 * two sets of clients, or for two choices of earlier rounds: their difference has no noise of CSP.
 *
 *     SEFL_TRY(ahead_draw(&a, t, round, seed, pool));     // while clients upload
 *     ... .drawn = ahead_of(&a, round, seed) ...          // mode.h; NULL: the mode draws it then
 *     ahead_drop(&a, t);                                  // the round is over
 *
 * Memory: 8 bytes per value.   Secret: the seed and the noise.   Threads: one owner. */
#ifndef SUM_AHEAD_H
#define SUM_AHEAD_H

#include "base/pool.h"
#include "protocol/task.h"

enum { AHEAD_SEED = 32 };

typedef struct noise_ahead {
    uint64_t round; /* 0: none */
    uint8_t seed[AHEAD_SEED];
    int64_t *e; /* t->values, before the filter; NULL: the mode draws it */
} noise_ahead;

/* Draws the noise of a round, in place of an earlier one's. Does nothing if it is there already, or
 * if the task's mode has no noise of a server's own. After a failure round and seed stay. */
sefl_status ahead_draw(noise_ahead *a, const task *t, uint64_t round,
                       const uint8_t seed[AHEAD_SEED], pool *threads) SEFL_MUST_CHECK;
/* Returns the noise of this round and seed; NULL: it is not there. */
const int64_t *ahead_of(const noise_ahead *a, uint64_t round, const uint8_t seed[AHEAD_SEED]);
/* Wipes it. */
void ahead_drop(noise_ahead *a, const task *t);

#endif
