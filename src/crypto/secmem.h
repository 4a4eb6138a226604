/* secmem: memory for long-lived secrets: kept out of swap and core dumps, between guard pages,
 * wiped when freed (libsodium).
 *
 *     secmem_require(true);                           // a server: unlocked memory is an error
 *     SEFL_TRY(secmem_new(&raw, n, &locked));         // else locked: false is worth a warning
 *     ...
 * done:
 *     secmem_free(raw);
 *
 * secmem_require decides once for the whole process, like its other limits (cli/full/confine.h),
 * whether the system must lock the memory (mlock, within RLIMIT_MEMLOCK). If it must and cannot,
 * the error tells how to raise the limit. By default unlocked memory is usable. Threads: any; call
 * secmem_require before others start. */
#ifndef CRYPTO_SECMEM_H
#define CRYPTO_SECMEM_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

void secmem_require(bool required);

/* Sets *(void **)out to n zeroed bytes, aligned to 8; NULL on failure (SEFL_ENOMEM). *locked (may
 * be NULL) is set to false if the system did not lock them, else not changed: one flag serves
 * several calls. */
sefl_status secmem_new(void *out, size_t n, bool *locked) SEFL_MUST_CHECK;

/* Wipes and frees; NULL is fine. */
void secmem_free(void *p);

/* Locks memory of another owner until its pages are unmapped; locked as above. */
sefl_status secmem_lock(const void *p, size_t n, bool *locked) SEFL_MUST_CHECK;

#endif
