/* secmem: memory for long-lived secrets: kept out of swap and core dumps, between guard pages,
 * wiped when freed (libsodium).
 *
 *     secmem_require(true);                           // server: memory that cannot be locked is an error
 *     SEFL_TRY(secmem_new(&raw, n, &locked));         // otherwise warn if locked is false
 *     ...
 * done:
 *     secmem_free(raw);
 *
 * secmem_require decides once for the whole process, like its other limits (cli/full/confine.h),
 * whether the system must lock the memory (mlock, within RLIMIT_MEMLOCK). If it must and cannot, the
 * error explains how to raise the limit. By default, memory that cannot be locked is still used.
 * Threads: any; call secmem_require before other threads start. */
#ifndef CRYPTO_SECMEM_H
#define CRYPTO_SECMEM_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

void secmem_require(bool required);

/* Sets *(void **)out to n zeroed bytes, aligned to 8; NULL on failure (SEFL_ENOMEM). *locked (may
 * be NULL) becomes false if the system did not lock them and is otherwise unchanged, so one flag
 * serves several calls. */
sefl_status secmem_new(void *out, size_t n, bool *locked) SEFL_MUST_CHECK;

/* Wipes and frees; NULL is fine. */
void secmem_free(void *p);

/* Locks memory that another module owns, until its pages are unmapped; locked as above. */
sefl_status secmem_lock(const void *p, size_t n, bool *locked) SEFL_MUST_CHECK;

#endif
