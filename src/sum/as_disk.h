/* as_disk: AS's store (sum/as_store.h) in the aggregator's journal.
 *
 *     as_disk d = { .j = journal, .coins = &coins };      // both outlive it
 *     as_store s = as_disk_store(&d);
 *
 * Secrets are sealed under the round's key, which wipe destroys, with coins "journal mask",
 * "journal reply" and "journal release". SET is a file of the round; every other record is a fact.
 * Threads: as journal.h.   Secrets: none of its own. */
#ifndef SUM_AS_DISK_H
#define SUM_AS_DISK_H

#include "sum/as_store.h"

typedef struct as_disk {
    journal *j;
    const sefl_coins *coins;
} as_disk;

/* Valid as long as d. */
as_store as_disk_store(as_disk *d);

#endif
