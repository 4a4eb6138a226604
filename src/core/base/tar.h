/* tar: writes a tar archive (POSIX ustar, no compression) that appears complete or not at all.
 *
 *     tar t = { 0 };
 *     SEFL_TRY(tar_open(&t, "csp.tar", 0600));
 *     SEFL_TRY(tar_put(&t, "csp/README", span_of_str(text), 0644));
 *     SEFL_TRY(tar_copy(&t, "csp/state", "/var/lib/state"));    // a file or a whole folder
 *     SEFL_TRY(tar_commit(&t));
 * done:
 *     tar_abort(&t);                                            // does nothing after a commit
 *
 * Entries keep the permission bits and times of their files and belong to user 0, so that `tar -x`
 * gives them to the user who unpacks. Names are relative, with at most 100 bytes after the last
 * slash that the format splits at, and 255 in all. Links and devices are refused.
 * Threads: one owner.   Secrets: whatever the files contain; choose the mode of the archive. */
#ifndef BASE_TAR_H
#define BASE_TAR_H

#include "base/outfile.h"

typedef struct tar {
    outfile out;
} tar;

sefl_status tar_open(tar *t, const char *path, mode_t mode) SEFL_MUST_CHECK;
/* Adds a file with these bytes, dated now. */
sefl_status tar_put(tar *t, const char *name, sefl_span bytes, mode_t mode) SEFL_MUST_CHECK;
/* Adds the file `path` under this name; for a folder, adds everything below it, sorted by name. */
sefl_status tar_copy(tar *t, const char *name, const char *path) SEFL_MUST_CHECK;
sefl_status tar_commit(tar *t) SEFL_MUST_CHECK;
void tar_abort(tar *t);

#endif
