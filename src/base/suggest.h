/* suggest: guesses which name a mistyped word means. For commands, options and settings.
 *
 * Threads: any. Cost: length squared per candidate. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

/* Letters to insert, delete, change or swap with their neighbour to get from a to b (optimal
 * string alignment); 32 if either is longer than 32. */
unsigned suggest_distance(const char *a, const char *b);

/* The closest of the names (ends with NULL), or one that begins with word; NULL if none is near. */
const char *suggest_name(const char *word, const char *const *names);

#endif
