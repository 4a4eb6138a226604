/* text_ledger: the ledger of an owner's text, whatever populations its tasks belong to.
 *
 *     SEFL_TRY(text_ledger_create("ledger", "text"));           // once, when the client enrols
 *     SEFL_TRY(text_ledger_open(&l, "ledger", "text"));         // then as any ledger (ledger.h)
 *
 * Two populations that train on one text both spend its privacy, so this ledger charges both, and
 * the budget gate adds them up. A file beside the text names its ledger (a random name, drawn when
 * the ledger was made): TEXT/.sefl-ledger for a folder, TEXT.sefl-ledger for a file. A client with
 * another ledger, or a new one in place of the old one, is refused.
 *
 * Not detected: a copy of the text or a link to one of its files elsewhere, a folder and a file
 * inside it used as two texts, an old copy of the ledger put back, or the file deleted by its
 * owner.
 *
 * Threads: as ledger.h.   Secrets: none. */
#ifndef STORE_TEXT_LEDGER_H
#define STORE_TEXT_LEDGER_H

#include "store/ledger.h"

/* Makes an empty ledger for an existing text. SEFL_EEXIST if the path exists; SEFL_ESTATE, and no
 * ledger, if the text has one already. */
sefl_status text_ledger_create(const char *path, const char *text) SEFL_MUST_CHECK;

/* For charging, as ledger_open. A text that has no ledger yet gets this one. SEFL_ESTATE if it has
 * another one, or if the ledger is a population's (a server's). */
sefl_status text_ledger_open(ledger **out, const char *path, const char *text) SEFL_MUST_CHECK;

/* Would text_ledger_open accept them? Writes and locks nothing. */
sefl_status text_ledger_check(const char *path, const char *text) SEFL_MUST_CHECK;

#endif
