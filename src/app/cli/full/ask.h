/* ask: asks on the terminal for what the options of a command do not say.
 *
 *     SEFL_TRY(ask_option(&a, &w->name, setting_find(options, "name"), NULL, NULL));
 *     SEFL_TRY(ask_yes("Do the digits agree?", "--digits"));
 *
 * Every question is an option too, so that scripts need no terminal: without one, an option that
 * has no default is an error that names it. Questions go to stderr, answers come from stdin.
 * Threads: one.   Secrets: none; passphrases are read by unlock.h. */
#ifndef CLI_FULL_ASK_H
#define CLI_FULL_ASK_H

#include "config/settings.h"

enum { ASK_ANSWERS = 8, ASK_BYTES = 512 };

/* Keeps the answers. */
typedef struct ask {
    char answer[ASK_ANSWERS][ASK_BYTES];
    unsigned n;
} ask;

/* Sets *value to the answer, unless an option has set it. The question is the option's help text.
 * fallback: the answer for an empty line, and without a terminal; NULL: the question has no
 * default. check (may be NULL): a failure asks again. */
sefl_status ask_option(ask *a, const char **value, const setting_def *option, const char *fallback,
                       sefl_status (*check)(const char *answer)) SEFL_MUST_CHECK;

/* SEFL_OK if the answer is yes, else SEFL_ECANCELLED. Without a terminal, SEFL_EINVAL: `instead` is
 * the option to use. */
sefl_status ask_yes(const char *question, const char *instead) SEFL_MUST_CHECK;

#endif
