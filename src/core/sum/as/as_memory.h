/* as_memory: keeps AS's store (sum/as_store.h) and a round's uploads (as_uploads in as_rounds.h) in
 * memory, for simulations, benchmarks and tests.
 *
 *     as_memory m = { 0 };
 *     as_store s = as_memory_store(&m);
 *     as_memory_clear(&m);
 *
 * The store keeps the records of the whole task, and HISTORY of the rounds that a filter needs. Of
 * every other kind it keeps only the latest round's record.
 *
 *     struct me { as_uploads_memory up; ... };       // first, because ctx of the driver is a `me`
 *     calls = as_uploads_memory_calls((as_uploads){ .accept = ..., .freeze = ..., .forget = ... });
 *     me->up = (as_uploads_memory){ .clients = n, .set = set, ... };   // before freeze returns
 *
 * Threads: one owner.   Secrets: mask, reply and release; wiped. */
#ifndef SUM_AS_MEMORY_H
#define SUM_AS_MEMORY_H

#include "sum/as_rounds.h"

typedef struct as_memory {
    struct {
        bool there;
        uint64_t round;
        sefl_buf bytes;
    } record[AS_RECORDS];
    struct {
        uint64_t round; /* 0: none */
        sefl_buf bytes;
    } history[NOISE_LAGS + 1];
    as_row row;
} as_memory;

/* Returns the store, which is valid as long as m is. */
as_store as_memory_store(as_memory *m);
void as_memory_clear(as_memory *m);

/* The uploads of a round as arrays, all borrowed. */
typedef struct as_uploads_memory {
    uint32_t clients;
    const round_entry *set; /* sorted by client; NULL: there is no CSP */
    const uint8_t *heads;   /* sealed tasks: the heads of the set, one after the other; else NULL */
    size_t head_bytes;      /* of one head */
    ahe_sum *closed;        /* the closed sum of the set */
} as_uploads_memory;

/* Returns own with a `close` that does nothing and the calls that read the arrays. */
as_uploads as_uploads_memory_calls(as_uploads own);

#endif
