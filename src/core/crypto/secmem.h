/* secmem: allocates memory for long-lived secrets (libsodium). The memory stays out of core dumps
 * and, if locked, out of swap. It lies between guard pages and is wiped when it is freed.
 *
 *     secmem_require(true);                           // server: fail if memory cannot be locked
 *     SEFL_TRY(secmem_new(&raw, n, &locked));         // otherwise warn if locked is false
 *     ...
 * done:
 *     secmem_free(raw);
 *
 * secmem_require sets, once for the whole process (as cli/full/confine.h does for other limits),
 * whether the system must lock the memory (mlock, within RLIMIT_MEMLOCK). If locking is required
 * and fails, the error explains how to raise the limit. By default, memory need not be locked.
 * Threads: any; call secmem_require before other threads start. */
#ifndef CRYPTO_SECMEM_H
#define CRYPTO_SECMEM_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

void secmem_require(bool required);

/* Sets *(void **)out to n zeroed bytes, aligned to 8, or to NULL on failure (SEFL_ENOMEM). *locked
 * (may be NULL) becomes false if the system did not lock the bytes; otherwise it is unchanged, so
 * several calls can share one flag. */
sefl_status secmem_new(void *out, size_t n, bool *locked) SEFL_MUST_CHECK;

/* Wipes and frees the memory; p may be NULL. */
void secmem_free(void *p);

/* Locks another module's memory until its pages are unmapped; sets *locked as secmem_new does. */
sefl_status secmem_lock(const void *p, size_t n, bool *locked) SEFL_MUST_CHECK;

#endif
