/* account_disk: an account (sum/account.h) that remembers its ledger's head in a server's journal.
 * If processes share the journal, the ledger itself is there too, and ledger_path is a copy.
 *
 *     SEFL_TRY(account_disk_open(&a, j, ledger_path, &task));        // free with account_close
 *
 * Threads: one owner.   Secrets: none. */
#ifndef STORE_DISK_ACCOUNT_DISK_H
#define STORE_DISK_ACCOUNT_DISK_H

#include "store/journal/journal.h"
#include "sum/account.h"

/* The journal must outlive the account. Fails as account_open does. */
sefl_status account_disk_open(account **out, journal *j, const char *ledger_path,
                              const task *t) SEFL_MUST_CHECK;
/* For one of several processes that charge a shared ledger in turn: does not read it yet. */
sefl_status account_disk_open_in_turn(account **out, journal *j, const char *ledger_path,
                                      const task *t) SEFL_MUST_CHECK;

#endif
