/* journal_csp: CSP's journal (protocol/csp.h: csp_journal) on a disk.
 *
 *     SEFL_TRY(journal_open(&j, folder, "csp", task.id));
 *     SEFL_TRY(account_open(&a, j, ledger_path, &task));
 *     SEFL_TRY(journal_csp_new(&jc, j, a, &coins));
 *     csp_journal table = journal_csp_table(jc);
 *
 * A round's row has csp_round_state; its facts are header, statement, id, digest, skip (the reason);
 * its one secret is `output`, sealed under the round's key. An opening is: charged before (checked),
 * output durable, then statement, id, digest and the mark in one transaction: a crash before leaves
 * a file that the next attempt replaces, one after it leaves all. `forget` wipes key and output; the
 * mark stays. What a crash kept from being forgotten is wiped by journal_csp_new.
 * A ledger that has charged rounds which the journal does not know shows that the journal was deleted
 * or an old copy put back: the mark of an opening may be lost with it, so that task is refused for
 * good (SEFL_ESTATE). A copy from after the round's header cannot be told from a crash.
 * The rules are checked here once more: sign only a new round, open and skip only a signed one:
 * anything else is SEFL_ESTATE.
 * Threads: one owner.   Secrets: output. */
#ifndef ROLES_JOURNAL_CSP_H
#define ROLES_JOURNAL_CSP_H

#include "protocol/csp.h"
#include "roles/account.h"
#include "store/journal/journal.h"

typedef struct journal_csp journal_csp;

/* Borrows all three. coins: purpose "journal output". */
sefl_status journal_csp_new(journal_csp **out, journal *j, account *a,
                            const sefl_coins *coins) SEFL_MUST_CHECK;
void journal_csp_free(journal_csp *jc);

/* A secret key serves one task. The first task that comes with a key is remembered for as long as the
 * folder exists; SEFL_ESTATE for another one: AS could add an upload of the old task to a sum of the new
 * one and get a second noisy view of it, and one stolen key would open both. */
sefl_status journal_csp_key(journal_csp *jc, const task *t) SEFL_MUST_CHECK;

/* Valid as long as jc. */
csp_journal journal_csp_table(journal_csp *jc);

#endif
