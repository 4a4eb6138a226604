/* record_turns: records take turns. Which of a site's records a round uses, and what that costs.
 *
 * A task of R rounds lets a record take part in at most k of them (privacy.record_turns). The
 * records of a site have fixed places 0 .. n-1. Each round uses the next places, cyclically, and
 * everybody who knows n can compute which: no coin, no counter, and nothing to lose in a crash.
 *
 *     dp_record_turns t = { .turns = 10, .rounds = 140, .records_max = 80 };
 *     dp_record_places p = dp_record_round(&t, n, round);
 *     for (uint64_t i = 0; i < p.count; i++)
 *         ...place dp_record_place(&p, i)...
 *     ev.count = dp_record_uses(&t, first, last);      // releases to charge, without amplification
 *
 * The schedule. Let a = min(records_max, k n / R), a rational number. Round r uses the places
 * floor((r-1) a) .. floor(r a) - 1, modulo n. The integers are exact, in 128 bits: in floating
 * point some places would be used twice or not at all.
 *
 * Proof that the charge suffices. The rounds f .. r use floor(r a) - floor((f-1) a) consecutive
 * places, which is less than (r-f+1) a + 1 and an integer, so at most ceil((r-f+1) a). Each place
 * occurs at most once in n consecutive ones, so no record is used in more than
 * ceil(ceil((r-f+1) a) / n) = ceil((r-f+1) a / n) <= ceil((r-f+1) k / R) of them, because
 * a <= k n / R. That is dp_record_uses(f, r). Three special cases:
 *   - over all rounds, a record is used at most k times;
 *   - one round uses at most ceil(a) <= records_max places, and none of them twice, since
 *     a <= n. So a record is never used in more rounds than its client took part in;
 *   - after a use, a record's next one is at least floor(R / k) rounds later: floor(R / k) rounds
 *     in a row use at most ceil(floor(R / k) k n / R) <= n consecutive places.
 * A round that a site misses only lowers these numbers. The bound needs each record to keep its
 * place for the whole task: the text's ledger holds the list (store/record_list.h).
 *
 * With k = R this is the usual turn: each round uses the next records_max records, or all of them.
 *
 * Threads: any.   Secrets: none.   Cost: O(1). */
#ifndef PRIVACY_RECORD_TURNS_H
#define PRIVACY_RECORD_TURNS_H

#include <stdint.h>

typedef struct dp_record_turns {
    uint64_t turns, rounds; /* k and R: 1 <= k <= R < 2^32 */
    uint64_t records_max;   /* maximum number of a site's records in a round: 1 or more */
} dp_record_turns;

/* Places of a round: `count` of them from `from` on, modulo n. */
typedef struct dp_record_places {
    uint64_t from, count, n;
} dp_record_places;

/* Returns the places that this round uses at a site with n >= 1 records; 1 <= round <= R. */
dp_record_places dp_record_round(const dp_record_turns *t, uint64_t n, uint64_t round);

/* Returns place i < p->count of the round. */
uint64_t dp_record_place(const dp_record_places *p, uint64_t i);

/* Returns the maximum number of the rounds first .. last in which one record is used, at any site:
 * ceil((last - first + 1) k / R). Does not use records_max. first <= last. */
uint64_t dp_record_uses(const dp_record_turns *t, uint64_t first, uint64_t last);

/* Returns the smallest records_max with which a site with n records uses each record k times:
 * ceil(k n / R). */
uint64_t dp_record_most(const dp_record_turns *t, uint64_t n);

/* Returns how many of n records no round uses: records_max is too small for so many. */
uint64_t dp_record_unused(const dp_record_turns *t, uint64_t n);

/* Returns how many rounds use no record of a site with n records: it has too few for every round.
 * It uploads zeros in these rounds, and they are charged like the others. */
uint64_t dp_record_empty(const dp_record_turns *t, uint64_t n);

#endif
