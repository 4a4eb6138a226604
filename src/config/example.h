/* example: a new file of settings, every key with its comment, from a schema table alone.
 *
 *     SEFL_TRY(example_write(&out, "policy.yml", "what the owner agrees to", schema, "a b=3"));
 *
 * Lines "# text" are prose; lines "#key: value" are settings at their default (or with the schema's
 * example, where there is no default) and become valid settings without the #. Keys in `active`
 * and keys that must be given have no #.
 * Threads: pure.   Secrets: none. */
#ifndef CONFIG_EXAMPLE_H
#define CONFIG_EXAMPLE_H

#include "base/buf.h"
#include "config/settings.h"

enum { EXAMPLE_VALUES = 200 };

/* active: "key" or "key=value", separated by spaces; "-key=value": a comment with that value.
 * Leaves out the keys of sweeps. */
sefl_status example_write(sefl_buf *out, const char *file, const char *about,
                          const setting_def *schema, const char *active) SEFL_MUST_CHECK;

/* A short file: what must be given, with the schema's examples, and what `set` gives ("key=value",
 * separated by spaces; "-key" leaves one out). */
sefl_status example_brief(sefl_buf *out, const char *about, const setting_def *schema,
                          const char *set) SEFL_MUST_CHECK;

/* The values that it may have: "a whole number from 1 to 4096", "one of: lstm transformer". */
void example_values(char out[EXAMPLE_VALUES], const setting_def *d);

#endif
