/* terms: what a signed task says about privacy, as its ledger keeps it (store/ledger.h).
 *
 * Both servers and every client compute the same terms from the same document, so that the ledgers
 * of two servers are equal byte for byte. A task with `claim: none` has DP_NOISE_NONE, and then
 * nothing else has a meaning: all zero but the task's id.
 * Threads: values.   Secrets: none. */
#ifndef ROLES_TERMS_H
#define ROLES_TERMS_H

#include "protocol/task.h"
#include "store/ledger.h"

ledger_terms terms_of_task(const task *t);

#endif
