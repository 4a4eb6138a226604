/* account: a server's ledger for one task, with its head remembered in the server's journal.
 *
 * account_charge is where a charge of either server becomes durable (through store/ledger.h).
 *
 *     SEFL_TRY(account_open(&a, j, "state/../ledger", &task));
 *     SEFL_TRY(account_charge(a, round));                  // durable; or SEFL_EBUDGET
 *
 * The ledger must exist: `sefl provision` or the operator makes it, because one made silently would
 * be a reset. It must hold the head that the journal remembers; a ledger that was rolled back or
 * replaced is refused. account_charge remembers the new head in the journal before it returns. A
 * crash between the two leaves an older head there, which the ledger holds too. A journal can be an
 * old copy as well, and its own folder cannot show that. So an account compares what the server did
 * with what lies outside that folder: the ledger's charges (account_knows), and the latest step of
 * this task, noted in a small file beside the ledger, PATH.latest (account_note). After a failed
 * write or sync the ledger must be read again. The next call does that, so work goes on once the
 * disk has room again.
 * Threads: one owner.   Secrets: none. */
#ifndef SUM_ACCOUNT_H
#define SUM_ACCOUNT_H

#include "protocol/task.h"
#include "store/journal/journal.h"
#include "store/ledger_port.h"

typedef struct account account;

/* What to do about an old copy; ends a sentence. */
#define ACCOUNT_REMEDY                                                                          \
    "put the newest state of that server in place; if it is lost, end the task and make a new " \
    "one (docs/OPERATING.md, section 11)"

/* Borrows the journal; NULL: a ledger whose owner does not outlive the process (simulator), no head
 * and no step is remembered. Refusals are those of ledger_open. */
sefl_status account_open(account **out, journal *j, const char *ledger_path,
                         const task *t) SEFL_MUST_CHECK;
void account_close(account *a);

/* SEFL_OK: the charge is durable. A round charged before is SEFL_OK and writes nothing. */
sefl_status account_charge(account *a, uint64_t round) SEFL_MUST_CHECK;
sefl_status account_has(account *a, uint64_t round, bool *out) SEFL_MUST_CHECK;
/* SEFL_ESTATE if a round after `last` is charged: the journal that ends there is an old copy. */
sefl_status account_knows(account *a, uint64_t last) SEFL_MUST_CHECK;
/* Notes a step of this task, durably, in place of the one before; and reads the latest one. Steps
 * are the server's own numbers, which only grow. hash NULL: zeros. Step 0: there is no note. */
sefl_status account_note(account *a, uint64_t step,
                         const uint8_t hash[SHA256_BYTES]) SEFL_MUST_CHECK;
sefl_status account_noted(account *a, uint64_t *step, uint8_t hash[SHA256_BYTES]) SEFL_MUST_CHECK;
/* What the population has spent; delta 0: that of its latest task. */
sefl_status account_spent(account *a, double delta, ledger_total *out) SEFL_MUST_CHECK;

/* For csp_store and as_link_config. Valid as long as the account. */
ledger_port account_port(account *a);

#endif
