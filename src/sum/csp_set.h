/* csp_set: the heads of a sealed round at CSP, on one stream: the round's key, the seeds that EARLY
 * brought, the running sum of their pads, and the verdict on the SET. Internal to sum/csp*.c.
 *
 *     csp_on_early                while clients upload       seeds and pads into memory
 *     csp_on_set, csp_on_heads    once                       judges all heads; set durable; VERDICT
 *     gather_verdict, gather_dec                             for REVEAL
 *     gather_drop                 stream over, round over    wipes everything
 *
 * Nothing in here survives the stream: AS sends the heads again. The store has what is durable: the
 * key's 32 bytes and the set. */
#ifndef SUM_CSP_SET_H
#define SUM_CSP_SET_H

#include "protocol/head.h"
#include "sum/csp_internal.h"

/* The questions; the first two in csp_key.c. */
sefl_status csp_on_key(csp *c, rd *r) SEFL_MUST_CHECK;
sefl_status csp_on_vouch(csp *c, rd *r) SEFL_MUST_CHECK;
sefl_status csp_on_early(csp *c, rd *r) SEFL_MUST_CHECK;
sefl_status csp_on_set(csp *c, rd *r) SEFL_MUST_CHECK;
sefl_status csp_on_heads(csp *c, rd *r) SEFL_MUST_CHECK;
/* Wipes the SET that is being read. */
void csp_reading_drop(csp *c);

/* The key from the store. SEFL_ENOTFOUND: it has none, or the root of another key file is in use,
 * which does not give the key that the header names. */
sefl_status csp_key_load(const csp *c, seal_key **out, uint64_t round) SEFL_MUST_CHECK;

/* NO unless the header carries the key that KEY gave for its round (in a task without a seal:
 * none). */
sefl_status csp_header_key(csp *c, const round_header *h) SEFL_MUST_CHECK;

/* The verdict on this stream about this round; NULL: there was no SET. */
const csp_set *gather_verdict(const csp *c, uint64_t round);
/* The decryptor with the pads of exactly the kept clients. */
ahe_dec *gather_dec(const csp *c);

/* Wipes all. */
void gather_drop(csp *c);

/* The round's mark is durable: wipes its key here and in the store. */
sefl_status csp_key_done(csp *c, uint64_t round) SEFL_MUST_CHECK;

#endif
