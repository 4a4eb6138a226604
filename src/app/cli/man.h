/* man: the manual pages, made from the tables of commands and settings.
 *
 *     SEFL_TRY(man_write("build/man"));    // sefl.1, sefl-COMMAND.1, sefl-KIND.yml.5
 *
 * Threads: any.   Secrets: none. */
#ifndef CLI_MAN_H
#define CLI_MAN_H

#include "base/status.h"

/* Writes every page into the folder, which it creates if it is missing; replaces older pages. */
sefl_status man_write(const char *folder) SEFL_MUST_CHECK;

#endif
