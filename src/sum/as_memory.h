/* as_memory: keeps AS's store (sum/as_store.h) in memory, for simulations, benchmarks and tests.
 *
 *     as_memory m = { 0 };
 *     as_store s = as_memory_store(&m);
 *     as_memory_clear(&m);
 *
 * The store keeps the records of the whole task. Of every other kind it keeps only the latest
 * round's record.
 * Threads: one owner.   Secrets: mask, reply and release; wiped. */
#ifndef SUM_AS_MEMORY_H
#define SUM_AS_MEMORY_H

#include "sum/as_store.h"

typedef struct as_memory {
    struct {
        bool there;
        uint64_t round;
        sefl_buf bytes;
    } record[AS_RECORDS];
    journal_round row;
} as_memory;

/* Returns the store, which is valid as long as m is. */
as_store as_memory_store(as_memory *m);
void as_memory_clear(as_memory *m);

#endif
