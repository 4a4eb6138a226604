/* terms: what a signed task says about privacy, as its ledger keeps it (store/ledger.h).
 *
 * Both servers compute the same terms from the same document, so that their ledgers are equal byte
 * for byte. A task with `claim: none` has noise none; all other terms but the task's id are zero
 * then.
 * Threads: values.   Secrets: none. */
#ifndef ROLES_TERMS_H
#define ROLES_TERMS_H

#include "protocol/task.h"
#include "store/ledger.h"

ledger_terms terms_of_task(const task *t);

/* For a client's own ledger. Under open sampling a client charges only the rounds that its coin
 * selected. Given the selection nothing is random any more, so its charges are not amplified. */
ledger_terms terms_of_client(const task *t);

#endif
