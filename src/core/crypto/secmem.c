#include "crypto/secmem.h"

#include "base/fault.h"

#include <sodium.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static atomic_bool must; /* for the whole process, like RLIMIT_CORE: secmem.h */

void secmem_require(bool required)
{
    atomic_store(&must, required);
}

sefl_status secmem_new(void *out, size_t n, bool *locked)
{
    void *p = NULL;
    *(void **)out = NULL;
    if (sodium_init() < 0)
        return sefl_fail(SEFL_ECRYPTO, "libsodium failed to start on this machine");
    /* rounded up, because libsodium aligns the end, not the beginning, to a page */
    if (n <= SIZE_MAX / 2 && !fault_hit(FAULT_ALLOC))
        p = sodium_malloc((n + 7) / 8 * 8 + (n == 0 ? 8 : 0));
    if (!p)
        return sefl_fail(SEFL_ENOMEM, "out of memory: %zu bytes for a secret", n);
    memset(p, 0, n);
    sefl_status st = secmem_lock(p, n, locked);
    if (st == SEFL_OK)
        *(void **)out = p;
    else
        sodium_free(p);
    return st;
}

void secmem_free(void *p)
{
    sodium_free(p);
}

sefl_status secmem_lock(const void *p, size_t n, bool *locked)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)p;
    uintptr_t begin = at / page * page, end = (at + n + page - 1) / page * page;
    struct rlimit limit = { 0 };
    if (n == 0)
        return SEFL_OK;
    (void)madvise((void *)begin, end - begin, MADV_DONTDUMP); /* a hint: failure is harmless */
    if (!fault_hit(FAULT_LOCK) && mlock((const void *)begin, end - begin) == 0)
        return SEFL_OK;
    if (locked)
        *locked = false;
    if (!atomic_load(&must))
        return SEFL_OK;
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    return sefl_fail(SEFL_ENOMEM,
                     "the system cannot lock %zu bytes in memory (RLIMIT_MEMLOCK is %llu kB), so "
                     "a key could be written to swap. Raise the limit (LimitMEMLOCK=64M in the "
                     "unit, ulimit -l 65536 in a shell), or accept the risk with memory_lock: try",
                     (size_t)(end - begin), (unsigned long long)limit.rlim_cur / 1024);
}
