/* secmem: memory for long-lived secrets: kept out of swap and core dumps, between guard pages, wiped
 * when freed (libsodium).
 *
 *     secmem_require(true);                           // a server: memory that cannot be locked fails
 *     SEFL_TRY(secmem_new(&raw, n, &locked));         // else locked: false is worth a warning
 *     ...
 * done:
 *     secmem_free(raw);
 *
 * Whether the system must lock (mlock, within RLIMIT_MEMLOCK) is decided once for the whole process, as
 * its other limits are (cli/full/confine.h): an error that tells how to raise the limit, or memory that
 * is usable all the same. Without a word of secmem_require it is usable. Threads: any; secmem_require
 * before others start. */
#ifndef CRYPTO_SECMEM_H
#define CRYPTO_SECMEM_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

void secmem_require(bool required);

/* Sets *(void **)out to n zeroed bytes, aligned to 8; NULL on failure (SEFL_ENOMEM). *locked (may
 * be NULL) is set to false if the system did not lock them, else left alone: one flag serves
 * several calls. */
sefl_status secmem_new(void *out, size_t n, bool *locked) SEFL_MUST_CHECK;

/* Wipes and frees; NULL is fine. */
void secmem_free(void *p);

/* Locks memory that belongs to somebody else, until its pages are given back; locked as above. */
sefl_status secmem_lock(const void *p, size_t n, bool *locked) SEFL_MUST_CHECK;

#endif
