#include "base/random.h"

#include "base/ct.h"
#include "base/fault.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

static sefl_status system_fill(void *self, void *out, size_t n)
{
    (void)self;
    uint8_t *p = out;
    while (n > 0) {
        size_t piece = n < (1u << 20) ? n : (1u << 20);
        ssize_t got = getrandom(p, piece, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return sefl_fail(SEFL_ERANDOM, "getrandom failed: %s", strerror(errno));
        p += got;
        n -= (size_t)got;
    }
    return SEFL_OK;
}

sefl_rng rng_system(void)
{
    return (sefl_rng){ .fill = system_fill };
}

sefl_status rng_fill(const sefl_rng *rng, void *out, size_t n)
{
    sefl_status st = fault_hit(FAULT_RANDOM)
                         ? sefl_fail(SEFL_ERANDOM, "no randomness (injected fault)")
                         : rng->fill(rng->self, out, n);
    if (st != SEFL_OK && n > 0)
        sefl_wipe(out, n);
    return st;
}

sefl_status rng_below(const sefl_rng *rng, uint64_t *out, uint64_t bound)
{
    assert(bound > 0);
    uint64_t x, limit = UINT64_MAX - (UINT64_MAX % bound + 1) % bound; /* end of the full cycles */
    do {
        SEFL_PASS(rng_fill(rng, &x, sizeof x));
    } while (x > limit);
    *out = x % bound;
    return SEFL_OK;
}
