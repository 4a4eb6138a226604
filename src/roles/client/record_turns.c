#include "roles/client/record_turns.h"

#include <assert.h>

record_turns record_turns_of(const task *t, uint64_t round, size_t docs)
{
    record_turns d = { .count = docs < t->records_max ? docs : t->records_max, .docs = docs };
    const unsigned __int128 before = (unsigned __int128)(round - 1) * d.count;
    assert(docs >= 1 && round >= 1);
    d.from = d.count < docs ? (size_t)(before % docs) : 0;
    return d;
}

size_t record_turns_at(const record_turns *d, size_t i)
{
    return i < d->docs - d->from ? d->from + i : i - (d->docs - d->from);
}
