/* charges: compares a client's ledger with the rounds that its state folder says it uploaded to.
 *
 *     SEFL_TRY(charges_check(book, "ledger", client_store_receipts(store), "state"));   // at start
 *
 * A client charges a round before the first byte of its update leaves. So every round with a
 * receipt, and every round whose mark says that it is charged (store.h), must be in the ledger.
 * Otherwise the ledger is an old copy, which would charge too little, or another text's.
 * Threads: any.   Secrets: none. */
#ifndef ROLES_CLIENT_CHARGES_H
#define ROLES_CLIENT_CHARGES_H

#include "roles/client/receipts.h"
#include "store/ledger.h"

/* SEFL_ESTATE with the first round that the ledger lacks. path: of the ledger; state: the folder
 * with the marks. */
sefl_status charges_check(const ledger *book, const char *path, const receipts *r,
                          const char *state) SEFL_MUST_CHECK;

/* Calls `each` for each mark in the folder whose round is charged, until one fails. Leaves out what
 * is no mark of this version. */
typedef sefl_status charges_each(void *ctx, const char *mark, const uint8_t of[LEDGER_TASK_BYTES],
                                 uint64_t round);
sefl_status charges_of_marks(const char *state, void *ctx, charges_each *each) SEFL_MUST_CHECK;

#endif
