/* suggest: finds the command, option or setting that a mistyped name probably stands for.
 *
 * Threads: any. Cost: quadratic in the length, per candidate. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

/* Returns the closest name in the NULL-terminated list, or one that begins with `word`; NULL if no
 * name is close. */
const char *suggest_name(const char *word, const char *const *names);

#endif
