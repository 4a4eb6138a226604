/* text_ledger: the ledger of an owner's text, which covers all populations that train on it.
 *
 *     SEFL_TRY(text_ledger_create("ledger", "text"));           // once, when the client enrols
 *     SEFL_TRY(text_ledger_open(&l, "ledger", "text"));         // then use it as in ledger.h
 *
 * Two populations that train on the same text both spend its privacy budget, so this ledger records
 * the charges of both, and the budget check adds them up. A file beside the text contains the
 * ledger's random name: TEXT/.sefl-ledger for a folder, TEXT.sefl-ledger for a file. The client
 * refuses any other ledger, even a new one at the same path.
 *
 * The ledger does not detect a copy of the text elsewhere, a link to one of its files, a folder and
 * a file inside it used as two texts, an old copy of the ledger, or the deletion of the name file.
 *
 * Threads: as in ledger.h.   Secrets: none. */
#ifndef STORE_TEXT_LEDGER_H
#define STORE_TEXT_LEDGER_H

#include "store/ledger.h"

/* Creates an empty ledger for an existing text. SEFL_EEXIST if the path exists; SEFL_ESTATE if the
 * text already has a ledger. */
sefl_status text_ledger_create(const char *path, const char *text) SEFL_MUST_CHECK;

/* Opens the ledger for charging, as ledger_open does, and binds a text without a ledger to it.
 * SEFL_ESTATE if the text has another ledger, or if this ledger is a server's (it belongs to a
 * population). */
sefl_status text_ledger_open(ledger **out, const char *path, const char *text) SEFL_MUST_CHECK;

/* Checks whether text_ledger_open would succeed. Writes and locks nothing. */
sefl_status text_ledger_check(const char *path, const char *text) SEFL_MUST_CHECK;

#endif
