/* journal_as: what AS keeps of an opening (sum/as_link.h: as_store), on a disk.
 *
 *     SEFL_TRY(journal_as_new(&ja, j, &coins));                 // j: the aggregator's journal
 *     as_store table = journal_as_table(ja);
 *
 * Two secrets of a round, sealed under its key, gone with journal_round_wipe (after the release is
 * durable, or the round skipped):
 *     mask     attempt u64 | set 32 | seed 32 | coins 32 | slice 32 | shares     before the masked sum leaves
 *     reply    attempt u64 | digest 32                                           before CSP's reply is used
 * A later attempt replaces them: it runs only after CSP's GO, so the older one will never be opened.
 * Checked here: attempts rise, the set of a round never changes under a mask, no seed and no slice is used
 * for two attempts, one attempt has one reply: else SEFL_ESTATE.
 * Threads: one owner.   Secrets: seed, coins, shares. */
#ifndef ROLES_JOURNAL_AS_H
#define ROLES_JOURNAL_AS_H

#include "store/journal/journal.h"
#include "sum/as_link.h"

typedef struct journal_as journal_as;

/* Borrows both. coins: purposes "journal mask", "journal reply". */
sefl_status journal_as_new(journal_as **out, journal *j, const sefl_coins *coins) SEFL_MUST_CHECK;
void journal_as_free(journal_as *ja);

/* Valid as long as ja. */
as_store journal_as_table(journal_as *ja);

#endif
