/* csp_memory: keeps CSP's store (csp_store.h) in memory, for the simulator, the demo and tests.
 *
 *     csp_memory m = { .ledger = account_port(a) };
 *     csp_store s = csp_memory_store(&m);
 *     ...
 *     csp_memory_clear(&m);
 *
 * Threads: one owner.   Secrets: round keys and outputs; wiped. */
#ifndef SUM_CSP_MEMORY_H
#define SUM_CSP_MEMORY_H

#include "sum/client_table.h"
#include "sum/csp_store.h"

typedef struct csp_memory_round {
    csp_row row; /* state CSP_NEW: no row */
    bool has[CSP_RECORDS];
    sefl_buf record[CSP_RECORDS];
    sefl_buf kept;               /* the set's kept clients: round_entry each, sorted by client */
    unsigned reveals;            /* number of reveals, at most 1 */
    unsigned wiped[CSP_RECORDS]; /* how often each record was wiped */
} csp_memory_round;

typedef struct csp_memory {
    ledger_port ledger;
    uint64_t revealed_before, skipped_before; /* highest rounds of a resumed task */
    unsigned fail;                            /* tests: number of the write that fails; 0: none */
    unsigned calls;                           /* number of writes so far */
    csp_memory_round **round;                 /* by number; NULL: no record */
    size_t rounds;
    client_table vouched; /* client -> upload key (instead of the units) */
    client_table keys;    /* upload key -> client */
    uint64_t *serial;     /* serials of the vouchers, in the order of `vouched` */
    size_t serials;       /* capacity of `serial` */
} csp_memory;

csp_store csp_memory_store(csp_memory *m);

/* Returns everything stored about a round, read-only; all zero if there is nothing. */
const csp_memory_round *csp_memory_at(const csp_memory *m, uint64_t round);

/* Wipes and frees all records; keeps ledger, revealed_before and skipped_before. */
void csp_memory_clear(csp_memory *m);

#endif
