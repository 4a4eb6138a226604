/* secmem: memory for long-lived secrets: kept out of swap and core dumps where the system allows,
 * between guard pages, wiped when freed (libsodium).
 *
 *     SEFL_TRY(secmem_new(&raw, n, &locked));         // locked: false is worth a warning
 *     ...
 * done:
 *     secmem_free(raw);
 *
 * A system that will not lock (RLIMIT_MEMLOCK) is no error: the memory is usable, `locked` says
 * false and the caller warns. Threads: any. */
#ifndef CRYPTO_SECMEM_H
#define CRYPTO_SECMEM_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Sets *(void **)out to n zeroed bytes, aligned to 8; NULL on failure (SEFL_ENOMEM). *locked (may
 * be NULL) is set to false if the system did not lock them, else left alone: one flag serves
 * several calls. */
sefl_status secmem_new(void *out, size_t n, bool *locked) SEFL_MUST_CHECK;

/* Wipes and frees; NULL is fine. */
void secmem_free(void *p);

/* Locks memory that belongs to somebody else, until its pages are given back. True if it could. */
bool secmem_lock(const void *p, size_t n);

#endif
