#include "simulate/ranks.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

const ranks ranks_one = { .size = 1, .locals = 1 };

sefl_status ranks_broadcast(const ranks *r, void *bytes, size_t n)
{
    return r->size == 1 ? SEFL_OK : r->ops->broadcast(r->self, bytes, n);
}

sefl_status ranks_send(const ranks *r, const void *bytes, size_t n)
{
    assert(r->rank == 0);
    return ranks_broadcast(r, (void *)(uintptr_t)bytes, n); /* rank 0 only reads them */
}

sefl_status ranks_reduce(const ranks *r, void *items, size_t n, const ranks_how *how)
{
    return r->size == 1 ? SEFL_OK : r->ops->reduce(r->self, items, n, how);
}

static void add_integers(const void *ctx, void *sum, const void *more, size_t items)
{
    uint64_t *a = sum;
    const uint64_t *b = more;
    (void)ctx;
    for (size_t i = 0; i < items; i++)
        a[i] += b[i];
}

sefl_status ranks_sum(const ranks *r, uint64_t *v, size_t n)
{
    return ranks_reduce(r, v, n, &(ranks_how){ .item_bytes = sizeof *v, .add = add_integers });
}

sefl_status ranks_collect(const ranks *r, const void *items, size_t n, size_t item_bytes,
                          ranks_take *take, void *ctx)
{
    return r->size == 1 ? SEFL_OK : r->ops->collect(r->self, items, n, item_bytes, take, ctx);
}

static void lowest(const void *ctx, void *sum, const void *more, size_t items)
{
    uint32_t *a = sum;
    const uint32_t *b = more;
    (void)ctx;
    for (size_t i = 0; i < items; i++)
        a[i] = b[i] < a[i] ? b[i] : a[i];
}

sefl_status ranks_agree(const ranks *r, sefl_status st)
{
    uint32_t failed = st == SEFL_OK ? UINT32_MAX : r->rank;
    if (r->size == 1 || *r->over)
        return r->size == 1 || st != SEFL_OK ? st : sefl_fail(SEFL_ECANCELLED, "stopped");
    sefl_status told =
        ranks_reduce(r, &failed, 1, &(ranks_how){ .item_bytes = sizeof failed, .add = lowest });
    if (told == SEFL_OK)
        told = ranks_broadcast(r, &failed, sizeof failed);
    *r->over = st != SEFL_OK || told != SEFL_OK || failed != UINT32_MAX;
    if (!*r->over || told != SEFL_OK || failed == r->rank)
        return st != SEFL_OK ? st : told;
    return sefl_fail(SEFL_ECANCELLED, "rank %u of %u failed", failed, r->size);
}

sefl_status ranks_same(const ranks *r, const void *bytes, size_t n, const char *what)
{
    sefl_status st = SEFL_OK;
    uint8_t *first = NULL;
    if (r->size == 1)
        return SEFL_OK;
    SEFL_TRY(sefl_new(&first, n, 1));
    memcpy(first, bytes, n);
    SEFL_TRY(ranks_broadcast(r, first, n));
    if (memcmp(first, bytes, n) != 0)
        st = sefl_fail(SEFL_EINVAL,
                       "%s differs between rank 0 and rank %u: every rank needs the same program, "
                       "the same files and the same kind of device",
                       what, r->rank);
    st = ranks_agree(r, st);
done:
    sefl_free(first);
    return st;
}
