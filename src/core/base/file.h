/* file: reads whole files with a size limit, and writes them so that a crash leaves either the old
 * or the new file.
 *
 *     SEFL_TRY(file_read(&buf, path, 1 << 20));
 *     SEFL_TRY(file_write_atomic(path, buf_span(&buf), 0600));
 *
 * file_write_atomic writes an unnamed file, syncs it, names it `path.tmp-PID`, renames it over path
 * and syncs the folder. When it returns SEFL_OK, the bytes are durable. A killed process may leave
 * `path.tmp-PID` behind, but only if it dies just before the rename or if the file system has no
 * unnamed files. The call replaces only regular files: SEFL_EEXIST for a device, link or folder.
 * Error messages contain the path and the system's reason.
 * Threads: any, on different paths. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/buf.h"
#include "base/sha256.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* Opens a file (or a pipe, if `pipes` is true) for reading; *size is 0 for a pipe. SEFL_ENOTFOUND
 * if it does not exist, SEFL_EINVAL for a folder or a device. */
sefl_status file_open(int *fd, uint64_t *size, const char *path, bool pipes) SEFL_MUST_CHECK;

/* Appends the file to out. SEFL_ERANGE if it has more than max bytes, SEFL_ENOTFOUND if it does not
 * exist, SEFL_EINVAL for a folder or a device. The path "-" has no special meaning. */
sefl_status file_read(sefl_buf *out, const char *path, size_t max) SEFL_MUST_CHECK;
/* The same, but SEFL_EINVAL for a pipe too, which could make a reader wait forever: for files in a
 * folder that others may have filled. */
sefl_status file_read_plain(sefl_buf *out, const char *path, size_t max) SEFL_MUST_CHECK;

sefl_status file_write_atomic(const char *path, sefl_span bytes, mode_t mode) SEFL_MUST_CHECK;

/* Like file_write_atomic, but never replaces a file: SEFL_EEXIST if path exists. */
sefl_status file_write_new(const char *path, sefl_span bytes, mode_t mode) SEFL_MUST_CHECK;

/* For callers that write a file themselves but need it to appear complete or not at all: open,
 * write to fd, publish. file_tmp_publish renames the file to path and clears t, but syncs nothing;
 * if path exists and `replace` is false, it fails with SEFL_EEXIST. file_tmp_clear removes a file
 * that was not published; a zero-filled file_tmp counts as cleared. */
typedef struct file_tmp {
    char *name; /* NULL: not open */
    int fd;
    bool named;
} file_tmp;
sefl_status file_tmp_open(file_tmp *t, const char *path, mode_t mode) SEFL_MUST_CHECK;
sefl_status file_tmp_publish(file_tmp *t, const char *path, bool replace) SEFL_MUST_CHECK;
void file_tmp_clear(file_tmp *t);

/* Writes all bytes to a descriptor, with as many system calls as needed. */
sefl_status file_write_all(int fd, sefl_span bytes) SEFL_MUST_CHECK;

/* Reads n bytes from an open file at an offset; *got is less than n only at the end of the file. */
sefl_status file_read_at(int fd, const char *path, uint64_t offset, void *out, size_t n,
                         size_t *got) SEFL_MUST_CHECK;

/* For files that only grow, and whose last append a crash may have torn: the caller knows up to
 * where the file is good, cuts the rest off, and appends there.
 *
 * Writes all bytes at an offset. */
sefl_status file_write_at(int fd, const char *path, uint64_t offset,
                          sefl_span bytes) SEFL_MUST_CHECK;
/* Cuts the file off at this size. */
sefl_status file_cut(int fd, const char *path, uint64_t size) SEFL_MUST_CHECK;
/* Sets *size to the size of an open file; SEFL_EINVAL unless it is a regular one. */
sefl_status file_size(uint64_t *size, int fd, const char *path) SEFL_MUST_CHECK;
/* Replaces out with the last complete line among the `window` bytes before *end, without its line
 * feed, and sets *end to the line's end, or to the window's beginning if it has no line. */
sefl_status file_last_line(sefl_buf *out, uint64_t *end, int fd, const char *path,
                           size_t window) SEFL_MUST_CHECK;

bool file_exists(const char *path);
/* Fails as file_read_plain does, unless it is a file that can be opened. */
sefl_status file_need_plain(const char *path) SEFL_MUST_CHECK;

/* Computes the SHA-256 of a file, reading it in pieces, and its length (bytes may be NULL).
 * SEFL_ENOTFOUND if the file does not exist, SEFL_EINVAL for a folder, a device or a pipe. */
sefl_status file_sha256(uint8_t out[SHA256_BYTES], uint64_t *bytes,
                        const char *path) SEFL_MUST_CHECK;

/* Syncs a descriptor with fsync; the path is for the error message. */
sefl_status file_sync(int fd, const char *path) SEFL_MUST_CHECK;

/* While skip is true, this thread's calls to file_sync and to functions that sync skip the sync.
 * For programs whose files can be regenerated, such as the simulator: killing the process loses
 * nothing, but a power failure may. */
void file_sync_skip(bool skip);

/* Syncs a folder, so that a crash does not undo creations, renames and deletions in it. */
sefl_status file_sync_folder(const char *folder) SEFL_MUST_CHECK;
/* Calls file_sync_folder for the parent folder of path. */
sefl_status file_sync_parent(const char *path) SEFL_MUST_CHECK;

/* Creates a folder durably, with this mode; SEFL_EEXIST if path exists. */
sefl_status file_new_folder(const char *folder, mode_t mode) SEFL_MUST_CHECK;

/* Creates a folder durably. An existing folder is fine; SEFL_EEXIST if path is anything else. The
 * parent must exist. */
sefl_status file_make_folder(const char *folder, mode_t mode) SEFL_MUST_CHECK;

/* Creates a private folder below $TMPDIR or /tmp and writes its path ("/tmp/PREFIX-x3Gk1z") to out,
 * which has n bytes. On failure out is "". */
sefl_status file_temp_folder(char *out, size_t n, const char *prefix) SEFL_MUST_CHECK;

/* Formats a path; SEFL_EINVAL if it is too long. */
sefl_status file_path(char out[PATH_MAX], const char *fmt, ...) SEFL_MUST_CHECK SEFL_PRINTF(2, 3);

#endif
