/* suggest: finds the name that a mistyped command, option or setting probably means.
 *
 * Threads: any. Cost: quadratic in the length, per candidate. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

/* Returns the closest name in the NULL-terminated list, or one that begins with `word`; NULL if no
 * name is close. */
const char *suggest_name(const char *word, const char *const *names);

#endif
