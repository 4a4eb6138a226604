/* client_proof: the voucher that a client of a sealed task shows, and the proof that it was
 * counted.
 *
 * Voucher. The site's certificate vouches for the upload key once (protocol/voucher.h): posted to
 * AS in the first round of every run, before the model is fetched, and again when AS refuses an
 * update. AS and CSP keep it; the same one again changes nothing.
 *
 * Counted. For each round of which it has a receipt the client asks, once a later round is there,
 * for the proof that its update was counted: GET /v1/round/N/counted, u32 n, n bytes of an envelope
 * that CSP signed (SIGN_COUNTED), then the client's path (protocol/counted.h). The outcome is
 * stored (client_store.h). An update that was not counted is a warning: AS left it out, or CSP
 * found its head bad. Three in a row end the client (SEFL_EAUTH): it spends privacy and its text
 * does not count.
 *
 * AS alone says that a round was skipped, so the client looks at the headers, which CSP signs too:
 * a skipped round leaves the model as it was. If round N + 1 starts from another model than round
 * N, round N was released, and "skipped" is a miss. (Only in the process that took part in N, and
 * only where it sees the header of N + 1: a later model may be that of a round in between.) No
 * answer at all, while news comes, is a miss from the third round on.
 *
 * Inside of client.h.   Threads: the client's owner.   Secrets: none. */
#ifndef ROLES_CLIENT_PROOF_H
#define ROLES_CLIENT_PROOF_H

#include "roles/client/inside.h"

enum { CLIENT_MISSES_MAX = 3 };

/* Makes the voucher and posts it, unless AS has it from this run. Only for sealed tasks. */
sefl_status client_vouch(client *c, client_reply *a) SEFL_MUST_CHECK;

/* Asks for all rounds before that of the news (of all, if the task is over) whose outcome is not
 * known. SEFL_EAUTH: the third miss in a row. What cannot be asked now is asked with the
 * next news. */
sefl_status client_ask_counted(client *c, const round_news *n) SEFL_MUST_CHECK;

/* SEFL_EAUTH unless CSP signed that this update (its units' hash) of this client is in the sum of
 * this round; SEFL_EPROTO for what is no such answer. */
sefl_status client_counted_check(const task *t, sefl_span answer, uint64_t round,
                                 const uint8_t me[32],
                                 const uint8_t units[BLAKE3_BYTES]) SEFL_MUST_CHECK;

#endif
