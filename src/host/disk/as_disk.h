/* as_disk: implements AS's store (sum/as_store.h) in the aggregator's journal.
 *
 *     as_disk d = { .j = journal, .coins = &coins };      // both outlive it
 *     as_store s = as_disk_store(&d);
 *
 * The store encrypts secrets under the round file key, which `wipe` destroys, with the coins
 * "journal shares", "journal mask", "journal reply" and "journal release"; HISTORY under a key of
 * its own, with the coins "journal history". An attempt may store SHARES up to three times, so the
 * coins must be the system's, not replayed ones. SET is a file of the round; every other public
 * record is a fact of the journal.
 * Threads: as in journal.h.   Secrets: SHARES, MASK, REPLY, RELEASE, HISTORY. */
#ifndef STORE_DISK_AS_DISK_H
#define STORE_DISK_AS_DISK_H

#include "store/journal/journal.h"
#include "sum/as_store.h"

typedef struct as_disk {
    journal *j;
    const sefl_coins *coins;
} as_disk;

/* Returns the store, which is valid as long as d is. */
as_store as_disk_store(as_disk *d);

#endif
