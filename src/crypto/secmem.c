#include "crypto/secmem.h"

#include "base/fault.h"

#include <sodium.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

sefl_status secmem_new(void *out, size_t n, bool *locked)
{
    void *p = NULL;
    *(void **)out = NULL;
    if (sodium_init() < 0)
        return sefl_fail(SEFL_ECRYPTO, "libsodium does not work on this machine");
    /* rounded up, because libsodium puts the end, not the beginning, at a page border */
    if (n <= SIZE_MAX / 2 && !fault_hit(FAULT_ALLOC))
        p = sodium_malloc((n + 7) / 8 * 8 + (n == 0 ? 8 : 0));
    if (!p)
        return sefl_fail(SEFL_ENOMEM, "out of memory: %zu bytes for a secret", n);
    memset(p, 0, n);
    if (!secmem_lock(p, n) && locked)
        *locked = false;
    *(void **)out = p;
    return SEFL_OK;
}

void secmem_free(void *p)
{
    sodium_free(p);
}

bool secmem_lock(const void *p, size_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)p;
    uintptr_t begin = at / page * page, end = (at + n + page - 1) / page * page;
    if (n == 0)
        return true;
    (void)madvise((void *)begin, end - begin, MADV_DONTDUMP); /* a hint: no harm if refused */
    return mlock((const void *)begin, end - begin) == 0;
}
