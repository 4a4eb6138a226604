/* outfile: a file written piece by piece that appears whole or not at all.
 *
 *     outfile o = { 0 };
 *     SEFL_TRY(outfile_open(&o, path, 0644));
 *     SEFL_TRY(outfile_put(&o, bytes, n));               // as often as needed
 *     SEFL_TRY(outfile_commit(&o));                      // durable now
 * done:
 *     outfile_abort(&o);                                 // does nothing after a commit
 *
 * For files too large to build in memory; base/file.h has the call for small ones. Bytes go through
 * a window of 256 KiB to a file without a name (base/file.h, file_tmp); commit syncs, names and
 * renames it, and syncs the folder.
 *
 * Threads: one owner. */
#ifndef MODEL_FILE_OUTFILE_H
#define MODEL_FILE_OUTFILE_H

#include "base/file.h"

typedef struct outfile {
    char *path; /* NULL: not open */
    file_tmp tmp;
    sefl_buf window;
    uint64_t bytes; /* put so far */
} outfile;

sefl_status outfile_open(outfile *o, const char *path, mode_t mode) SEFL_MUST_CHECK;
sefl_status outfile_put(outfile *o, const void *p, size_t n) SEFL_MUST_CHECK;
/* Overwrites bytes that were put before: for a head that is known only at the end. */
sefl_status outfile_patch(outfile *o, uint64_t at, const void *p, size_t n) SEFL_MUST_CHECK;

/* Makes the file appear, whole and durable. */
sefl_status outfile_commit(outfile *o) SEFL_MUST_CHECK;

/* Makes the file appear whole, but a power cut may still lose it. For files that can be made again:
 * syncing thousands of clients' files takes minutes on a slow disk. */
sefl_status outfile_publish(outfile *o) SEFL_MUST_CHECK;

void outfile_abort(outfile *o);

#endif
