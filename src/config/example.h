/* example: a new file of settings, every key with its comment, from a schema table alone.
 *
 *     SEFL_TRY(example_write(&out, "policy.yml", "what the owner agrees to", schema, "a b=3"));
 *
 * Lines "# text" are prose, lines "#key: value" are settings at their default: without the # they are
 * read. A key that is in `active` stands there without the #, with the value behind its "=" if there is
 * one; so does a key without a default, which somebody must change.
 * Threads: pure.   Secrets: none. */
#ifndef CONFIG_EXAMPLE_H
#define CONFIG_EXAMPLE_H

#include "base/buf.h"
#include "config/settings.h"

enum { EXAMPLE_VALUES = 200 };

/* active: "key" or "key=value", separated by spaces. Keys of sweeps are left out. */
sefl_status example_write(sefl_buf *out, const char *file, const char *about,
                          const setting_def *schema, const char *active) SEFL_MUST_CHECK;

/* What may stand there: "a whole number from 1 to 4096", "one of: lstm transformer". */
void example_values(char out[EXAMPLE_VALUES], const setting_def *d);

#endif
