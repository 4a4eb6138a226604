#include "privacy/record_turns.h"

#include <assert.h>

typedef unsigned __int128 u128;

/* floor(r a): the number of places that the first r rounds use. r, k and R have 32 bits, so no
 * product exceeds 128. */
static u128 places_until(const dp_record_turns *t, uint64_t n, uint64_t r)
{
    assert(t->turns >= 1 && t->turns <= t->rounds && t->rounds <= UINT32_MAX);
    assert(t->records_max >= 1 && n >= 1 && r <= t->rounds);
    const u128 all = (u128)t->turns * n;
    if ((u128)t->records_max * t->rounds <= all)
        return (u128)r * t->records_max;
    return r * all / t->rounds;
}

dp_record_places dp_record_round(const dp_record_turns *t, uint64_t n, uint64_t round)
{
    assert(round >= 1);
    const u128 from = places_until(t, n, round - 1), to = places_until(t, n, round);
    return (dp_record_places){ (uint64_t)(from % n), (uint64_t)(to - from), n };
}

uint64_t dp_record_place(const dp_record_places *p, uint64_t i)
{
    return i < p->n - p->from ? p->from + i : i - (p->n - p->from);
}

uint64_t dp_record_uses(const dp_record_turns *t, uint64_t first, uint64_t last)
{
    assert(first <= last && t->rounds >= 1 && t->rounds <= UINT32_MAX);
    return (uint64_t)(((u128)(last - first + 1) * t->turns + t->rounds - 1) / t->rounds);
}

uint64_t dp_record_most(const dp_record_turns *t, uint64_t n)
{
    return (uint64_t)(((u128)n * t->turns + t->rounds - 1) / t->rounds);
}

uint64_t dp_record_unused(const dp_record_turns *t, uint64_t n)
{
    const u128 used = places_until(t, n, t->rounds);
    return used < n ? n - (uint64_t)used : 0;
}

uint64_t dp_record_empty(const dp_record_turns *t, uint64_t n)
{
    const u128 used = places_until(t, n, t->rounds);
    return used < t->rounds ? t->rounds - (uint64_t)used : 0;
}
