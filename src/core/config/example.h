/* example: writes a commented settings file from a schema table.
 *
 *     SEFL_TRY(example_write(&out, "policy.yml", "what the owner agrees to", schema, "a b=3"));
 *
 * "# text" is a comment. "#key: value" is a setting with its default value, or with the schema's
 * example if there is no default; deleting the # makes it active. Required keys and the keys in
 * `active` have no #.
 * Threads: any.   Secrets: none. */
#ifndef CONFIG_EXAMPLE_H
#define CONFIG_EXAMPLE_H

#include "base/buf.h"
#include "config/settings.h"

enum { EXAMPLE_VALUES = 200 };

/* Writes every key that is not unlisted. `active` lists "key" or "key=value" entries, separated by
 * spaces; "-key=value" writes an inactive line with that value. */
sefl_status example_write(sefl_buf *out, const char *file, const char *about,
                          const setting_def *schema, const char *active) SEFL_MUST_CHECK;

/* Writes a short file: the required keys, with the schema's examples, and the keys in `set`
 * ("key=value", separated by spaces; "-key" omits a key). */
sefl_status example_brief(sefl_buf *out, const char *about, const setting_def *schema,
                          const char *set) SEFL_MUST_CHECK;

/* Describes the valid values: "a whole number from 1 to 4096", "one of: lstm transformer". */
void example_values(char out[EXAMPLE_VALUES], const setting_def *d);

#endif
