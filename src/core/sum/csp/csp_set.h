/* csp_set: CSP's state for one sealed round on one stream: the round key, the seeds from EARLY, the
 * running sum of their pads, and the verdict on the SET. Internal to sum/csp*.c.
 *
 *     csp_on_early                while clients upload       seeds and pads into memory
 *     csp_on_set, csp_on_heads    once                       check all heads, store set; VERDICT
 *     gather_verdict, gather_dec                             for REVEAL
 *     gather_drop                 when stream or round ends  wipes everything
 *
 * This state ends with the stream; on the next one AS sends the heads again. The store keeps only
 * the 32 bytes of the round key, and the set. */
#ifndef SUM_CSP_SET_H
#define SUM_CSP_SET_H

#include "protocol/head.h"
#include "sum/csp_internal.h"

/* Handlers of questions; the first two are in csp_key.c. */
sefl_status csp_on_key(csp *c, rd *r) SEFL_MUST_CHECK;
sefl_status csp_on_vouch(csp *c, rd *r) SEFL_MUST_CHECK;
sefl_status csp_on_early(csp *c, rd *r) SEFL_MUST_CHECK;
sefl_status csp_on_set(csp *c, rd *r) SEFL_MUST_CHECK;
sefl_status csp_on_heads(csp *c, rd *r) SEFL_MUST_CHECK;
/* Wipes the SET that is being read. */
void csp_reading_drop(csp *c);

/* Derives the round key from the store's bytes. SEFL_ENOTFOUND if the store does not have them, or
 * if CSP now uses another key file, whose root does not yield the key in the signed header. */
sefl_status csp_key_load(const csp *c, seal_key **out, uint64_t round) SEFL_MUST_CHECK;

/* Queues NO unless the header carries the key that CSP issued for its round (in an unsealed task:
 * no key). */
sefl_status csp_header_key(csp *c, const round_header *h) SEFL_MUST_CHECK;

/* Returns this stream's verdict on this round; NULL: there was no SET. */
const csp_set *gather_verdict(const csp *c, uint64_t round);
/* Returns the decryptor, which contains the pads of exactly the kept clients. */
ahe_dec *gather_dec(const csp *c);

/* Wipes all heads and pads. */
void gather_drop(csp *c);

/* Wipes the round key in memory and in the store. Call it once the round's mark is durable. */
sefl_status csp_key_done(csp *c, uint64_t round) SEFL_MUST_CHECK;

#endif
