/* terms: the privacy terms of a signed task, as its ledger stores them (store/ledger.h).
 *
 * Both servers compute the same terms from the same document, so their ledgers are identical byte
 * for byte. In a task with `claim: none`, the noise is none and every term except the task id is
 * zero.
 * Threads: any.   Secrets: none. */
#ifndef ROLES_TERMS_H
#define ROLES_TERMS_H

#include "protocol/task.h"
#include "store/ledger.h"

ledger_terms terms_of_task(const task *t);

/* Returns the terms for a client's own ledger, without the list of its records, which the client
 * adds if they take turns (store/record_list.h). Under open sampling a client charges only the
 * rounds for which it was selected. In those rounds its participation is certain, so there is no
 * amplification. With correlated noise a client charges each update up to the task's last round.
 * The limits of the task do not appear: every round that the client charges costs something, even
 * if an AS makes it upload more often. Only the turns of its records do: the client keeps them. */
ledger_terms terms_of_client(const task *t);

#endif
