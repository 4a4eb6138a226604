/* lock_file: reads what opens a sealed key (crypto/sealed.h) from a file, into secret memory.
 *
 *     SEFL_TRY(lock_file_read(&lock, &mem, SEALED_BY_KEY_FILE, path, &locked));
 *     SEFL_TRY(keyfile_root_read(root, buf_span(&file), &lock));
 * done:
 *     secmem_free(mem);                                  // lock points into it
 *
 * A key file has at least LOCK_FILE_KEY_MIN bytes; a passphrase is the only line of its file.
 * Threads: any.   Secret: lock, in memory of secmem.h. */
#ifndef CRYPTO_LOCK_FILE_H
#define CRYPTO_LOCK_FILE_H

#include "crypto/sealed.h"

#include <stdbool.h>

enum { LOCK_FILE_KEY_MIN = 32 };

/* *locked as in secmem_new. On failure *mem is NULL. */
sefl_status lock_file_read(sealed_lock *out, uint8_t **mem, sealed_by by, const char *path,
                           bool *locked) SEFL_MUST_CHECK;

#endif
