/* client_proof: in a sealed task, posts the client's voucher and verifies that its updates were
 * counted.
 *
 * Voucher. The site's certificate vouches for the upload key (protocol/voucher.h). The client posts
 * the voucher to AS in the first round of every run, before it fetches the model, and again when AS
 * refuses an update. AS and CSP keep the voucher; posting it again changes nothing.
 *
 * Counted. For each round with a receipt the client requests, once a later round begins, the proof
 * that its update was counted: GET /v1/round/N/counted, u32 n, n bytes of an envelope that CSP
 * signed (SIGN_COUNTED), then the client's path (protocol/counted.h). The client stores the outcome
 * (store.h). An update that was not counted (a miss) causes a warning: AS left it out, or CSP
 * refused its head. Three consecutive misses end the client (SEFL_EAUTH): it would only waste
 * privacy budget.
 *
 * Only AS reports that a round was skipped, so the client compares headers, which CSP signs too: a
 * skipped round leaves the model unchanged. If round N + 1 starts from a different model than round
 * N, round N was released, and the answer "skipped" is a miss. (This check requires the process
 * that took part in N, and the header of N + 1: a later model may come from a round after N.) If AS
 * sends news but never answers requests for proofs, each round from the third on is a miss.
 *
 * Internal to roles/client.   Threads: the client's owner.   Secrets: none. */
#ifndef ROLES_CLIENT_PROOF_H
#define ROLES_CLIENT_PROOF_H

#include "roles/client/client_inside.h"

enum { CLIENT_MISSES_MAX = 3 };

/* Creates and posts the voucher, unless AS already has it from this run. Does nothing unless the
 * task is sealed. */
sefl_status client_vouch(client *c, client_reply *a) SEFL_MUST_CHECK;

/* Requests the proof for each round with an unknown outcome that is earlier than the round in the
 * news (or for all of them, if the task is over). SEFL_EAUTH at the third consecutive miss. If AS
 * does not answer, the client tries again at the next news. */
sefl_status client_ask_counted(client *c, const round_news *n) SEFL_MUST_CHECK;

/* SEFL_EAUTH unless CSP signed that this client's update (its name) is in the sum of
 * this round; SEFL_EPROTO for a malformed answer. */
sefl_status client_counted_check(const task *t, sefl_span answer, uint64_t round,
                                 const uint8_t me[32],
                                 const uint8_t units[BLAKE3_BYTES]) SEFL_MUST_CHECK;

#endif
