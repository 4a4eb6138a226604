/* terms: what a signed task says about privacy, as its ledger keeps it (store/ledger.h).
 *
 * Both servers compute the same terms from the same document, so that their ledgers are equal byte for
 * byte. A task with `claim: none` has noise none, and then
 * nothing else has a meaning: all zero but the task's id.
 * Threads: values.   Secrets: none. */
#ifndef ROLES_TERMS_H
#define ROLES_TERMS_H

#include "protocol/task.h"
#include "store/ledger.h"

ledger_terms terms_of_task(const task *t);

/* For a client's own ledger. Under open sampling it is charged only for rounds that its coin drew it for:
 * given that, nothing is left to chance, and its charges are not amplified. */
ledger_terms terms_of_client(const task *t);

#endif
