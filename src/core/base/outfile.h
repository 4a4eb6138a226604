/* outfile: writes a file piece by piece; the file appears complete or not at all.
 *
 *     outfile o = { 0 };
 *     SEFL_TRY(outfile_open(&o, path, 0644));
 *     SEFL_TRY(outfile_put(&o, bytes, n));               // any number of times
 *     SEFL_TRY(outfile_commit(&o));                      // now durable
 * done:
 *     outfile_abort(&o);                                 // does nothing after a commit
 *
 * Use this module for files too large to build in memory, and file_write_atomic (base/file.h) for
 * small ones. Bytes pass through a 256 KiB buffer into an unnamed file (file_tmp). Commit syncs the
 * file, gives it a name, renames it to its path and syncs the folder.
 *
 * Threads: one owner. */
#ifndef BASE_OUTFILE_H
#define BASE_OUTFILE_H

#include "base/file.h"

typedef struct outfile {
    char *path; /* NULL: not open */
    file_tmp tmp;
    sefl_buf window;
    uint64_t bytes; /* bytes written so far */
} outfile;

sefl_status outfile_open(outfile *o, const char *path, mode_t mode) SEFL_MUST_CHECK;
sefl_status outfile_put(outfile *o, const void *p, size_t n) SEFL_MUST_CHECK;
/* Overwrites bytes written earlier, for a header whose content is known only at the end. */
sefl_status outfile_patch(outfile *o, uint64_t at, const void *p, size_t n) SEFL_MUST_CHECK;

/* Publishes the complete file durably. */
sefl_status outfile_commit(outfile *o) SEFL_MUST_CHECK;

/* Publishes the complete file without a sync, so a power failure may lose it. For files that can be
 * regenerated: syncing the files of thousands of clients takes minutes on a slow disk. */
sefl_status outfile_publish(outfile *o) SEFL_MUST_CHECK;

void outfile_abort(outfile *o);

/* Copies a file; the copy is durable, and has this hash (NULL: any), or does not appear. */
sefl_status outfile_copy(const char *to, const char *from, mode_t mode,
                         const uint8_t hash[SHA256_BYTES]) SEFL_MUST_CHECK;

#endif
