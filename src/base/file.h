/* file: whole files, read with a limit and written so that a crash leaves the old or the new one.
 *
 *     SEFL_TRY(file_read(&buf, path, 1 << 20));
 *     SEFL_TRY(file_write_atomic(path, buf_span(&buf), 0600));
 *
 * file_write_atomic writes an unnamed file, syncs it, names it `path.tmp-PID`, renames it over path
 * and syncs the folder. When it returns SEFL_OK the bytes are durable. A killed process leaves
 * nothing behind, or `path.tmp-PID` where the file system has no unnamed files. It never replaces
 * anything but a regular file: SEFL_EEXIST for a device, a link or a folder. Errors name the path
 * and the system's reason.
 * Threads: any, on different paths. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/buf.h"
#include "base/sha256.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* Opens a file, or a pipe if `pipes`, for reading; *size is 0 for a pipe. SEFL_ENOTFOUND if it is
 * not there, SEFL_EINVAL for a folder or a device. */
sefl_status file_open(int *fd, uint64_t *size, const char *path, bool pipes) SEFL_MUST_CHECK;

/* Appends the file to out; SEFL_ERANGE if it has more than max bytes, SEFL_ENOTFOUND if it is not
 * there. Directories and devices are refused; "-" is not special. */
sefl_status file_read(sefl_buf *out, const char *path, size_t max) SEFL_MUST_CHECK;

sefl_status file_write_atomic(const char *path, sefl_span bytes, mode_t mode) SEFL_MUST_CHECK;

/* Like file_write_atomic, but never replaces: SEFL_EEXIST if path is there. */
sefl_status file_write_new(const char *path, sefl_span bytes, mode_t mode) SEFL_MUST_CHECK;

/* For callers that write a file themselves and want it to appear whole or not at all: open, write
 * to fd, publish. file_tmp_publish renames the file to path, or creates path and never replaces it
 * (SEFL_EEXIST), and clears t; it syncs nothing. file_tmp_clear removes a file that was not
 * published. A zero-filled file_tmp is cleared. */
typedef struct file_tmp {
    char *name; /* NULL: not open */
    int fd;
    bool named;
} file_tmp;
sefl_status file_tmp_open(file_tmp *t, const char *path, mode_t mode) SEFL_MUST_CHECK;
sefl_status file_tmp_publish(file_tmp *t, const char *path, bool replace) SEFL_MUST_CHECK;
void file_tmp_clear(file_tmp *t);

/* Writes all bytes to a descriptor, in as many calls as the kernel needs. */
sefl_status file_write_all(int fd, sefl_span bytes) SEFL_MUST_CHECK;

/* Reads up to n bytes at an offset of an open file; *got is less than n only at its end. */
sefl_status file_read_at(int fd, const char *path, uint64_t offset, void *out, size_t n,
                         size_t *got) SEFL_MUST_CHECK;

bool file_exists(const char *path);

/* SHA-256 and length (may be NULL) of a file, read in pieces; SEFL_ENOTFOUND if it is not there. */
sefl_status file_sha256(uint8_t out[SHA256_BYTES], uint64_t *bytes,
                        const char *path) SEFL_MUST_CHECK;

/* fsync of a descriptor; the path is for the sentence. */
sefl_status file_sync(int fd, const char *path) SEFL_MUST_CHECK;

/* Makes names that were created, renamed or deleted in this folder durable. */
sefl_status file_sync_folder(const char *folder) SEFL_MUST_CHECK;
/* The same for the folder that holds path. */
sefl_status file_sync_parent(const char *path) SEFL_MUST_CHECK;

/* Makes a folder, durably; one that is there already is fine, anything else there is SEFL_EEXIST.
 * Its parent must exist. */
sefl_status file_make_folder(const char *folder, mode_t mode) SEFL_MUST_CHECK;

/* A new folder for this process alone, below $TMPDIR or /tmp: "/tmp/PREFIX-x3Gk1z" in out, which
 * has n bytes. On failure out is "". */
sefl_status file_temp_folder(char *out, size_t n, const char *prefix) SEFL_MUST_CHECK;

/* A path from a format; SEFL_EINVAL if it does not fit. */
sefl_status file_path(char out[PATH_MAX], const char *fmt, ...) SEFL_MUST_CHECK SEFL_PRINTF(2, 3);

#endif
