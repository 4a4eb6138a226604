/* output: what a command may overwrite. Checked before the work, so that a typing error loses
 * nothing.
 *
 * SEFL_EINVAL if the path is the input itself (the same file under any name) or exists and is not a
 * regular file: these are never overwritten. SEFL_EEXIST if it exists and force is false. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "base/status.h"

#include <stdbool.h>

/* input may be NULL. */
sefl_status output_check(const char *path, const char *input, bool force) SEFL_MUST_CHECK;

/* SEFL_EEXIST if the folder has an entry that begins with prefix; a missing folder has none. */
sefl_status output_check_folder(const char *dir, const char *prefix, bool force) SEFL_MUST_CHECK;

#endif
