/* output: checks, before a command starts, which files it may overwrite, so that a mistyped path
 * destroys no file.
 *
 * SEFL_EINVAL if the path is the input (under any name) or exists but is not a regular file: no
 * command overwrites such a path. SEFL_EEXIST if the path exists and force is false. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "base/status.h"

#include <stdbool.h>

/* input may be NULL. */
sefl_status output_check(const char *path, const char *input, bool force) SEFL_MUST_CHECK;

/* SEFL_EEXIST if the folder has an entry that begins with prefix and force is false. A folder that
 * does not exist is fine. */
sefl_status output_check_folder(const char *dir, const char *prefix, bool force) SEFL_MUST_CHECK;

#endif
