/* csp_seen: reads a round's records in CSP's store in memory (sum/csp_memory.h). It allocates
 * nothing, because a test may make any allocation fail. */
#ifndef SUPPORT_CSP_SEEN_H
#define SUPPORT_CSP_SEEN_H

#include "sum/csp_memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct csp_seen {
    csp_round r;
    unsigned reveals, wiped; /* number of reveals; number of wiped keys */
    bool has_key, has_set, forgotten, charged;
    sefl_span statement, output; /* point into the store */
    csp_set set;                 /* `kept` points into the store; `refused` is NULL */
} csp_seen;

static inline csp_seen csp_seen_at(const csp_memory *m, uint64_t round)
{
    const csp_memory_round *at = csp_memory_at(m, round);
    csp_store s = csp_memory_store((csp_memory *)(uintptr_t)m);
    csp_seen v = { .r = { .round = round,
                          .state = (csp_round_state)at->row.state,
                          .signed_ms = at->row.signed_ms },
                   .reveals = at->reveals,
                   .wiped = at->wiped[CSP_KEY],
                   .has_key = at->has[CSP_KEY],
                   .has_set = at->has[CSP_SET],
                   .forgotten = at->row.state == CSP_REVEALED && !at->has[CSP_OUTPUT],
                   .output = buf_span(&at->record[CSP_OUTPUT]) };
    if (s.ledger.has(s.ledger.ctx, round, &v.charged) != SEFL_OK)
        abort();
    if (at->has[CSP_SKIP])
        v.r.skip = load_u32(at->record[CSP_SKIP].p);
    if (v.r.state != CSP_NEW &&
        round_header_read(&v.r.header, buf_span(&at->record[CSP_HEADER])) != SEFL_OK)
        abort();
    const sefl_buf *reveal = &at->record[CSP_REVEAL], *set = &at->record[CSP_SET];
    if (reveal->n > NOISE_ID + SHA256_BYTES)
        v.statement =
            span_of(reveal->p + NOISE_ID + SHA256_BYTES, reveal->n - NOISE_ID - SHA256_BYTES);
    if (v.has_set) {
        memcpy(v.set.digest, set->p, 32);
        memcpy(v.set.root, set->p + 32, 32);
        v.set.clients = load_u32(set->p + 64);
        v.set.kept_n = load_u32(set->p + 68);
        v.set.refused_n = load_u32(set->p + 72);
        v.set.kept = (round_entry *)(void *)at->kept.p;
    }
    return v;
}

#endif
