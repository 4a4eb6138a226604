#include "roles/client/record_draw.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "crypto/prg/prg.h"
#include "privacy/plan.h"

#include <assert.h>
#include <string.h>

size_t record_draw_candidates(const task *t, size_t docs)
{
    const uint64_t most = t->record_rate < 1
                              ? dp_records_for(t->records_max, t->record_rate, DP_RECORDS_RARE)
                              : t->records_max;
    return docs < most ? docs : (size_t)most;
}

double record_draw_mean(const task *t, size_t docs)
{
    return (double)record_draw_candidates(t, docs) * t->record_rate;
}

sefl_status record_draw_flip(record_draw *d, double rate, uint32_t records_max,
                             const uint8_t seed[RECORD_DRAW_SEED])
{
    const uint64_t below = (uint64_t)(rate * 18446744073709551616.0); /* rounded down */
    prg g;
    d->count = 0;
    SEFL_PASS(sefl_new(&d->drawn, d->n / 64 + 1, sizeof *d->drawn));
    prg_init(&g, seed, "record draw");
    for (size_t i = 0; i < d->n; i++) {
        uint8_t coin[8];
        prg_fill(&g, coin, sizeof coin);
        const uint64_t yes = load_u64(coin) < below;
        d->drawn[i / 64] |= yes << (i % 64);
        d->count += yes;
        sefl_wipe(coin, sizeof coin);
    }
    prg_clear(&g);
    if (d->count > records_max) {
        memset(d->drawn, 0, (d->n / 64 + 1) * sizeof *d->drawn);
        d->count = 0;
    }
    return SEFL_OK;
}

sefl_status record_draw_make(record_draw *out, const task *t, uint64_t round, size_t docs,
                             const uint8_t *seed)
{
    record_draw d = { .n = record_draw_candidates(t, docs), .docs = docs };
    const unsigned __int128 before = (unsigned __int128)(round - 1) * d.n;
    assert(docs >= 1 && round >= 1);
    *out = (record_draw){ 0 };
    d.from = d.n < docs ? (size_t)(before % docs) : 0;
    d.count = d.n;
    if (t->record_rate < 1) {
        SEFL_NEED(seed, SEFL_EINVAL, "the task draws records, and there is no seed for it");
        SEFL_PASS(record_draw_flip(&d, t->record_rate, t->records_max, seed));
    }
    *out = d;
    return SEFL_OK;
}

void record_draw_clear(record_draw *d)
{
    sefl_free_secret(d->drawn, d->drawn ? (d->n / 64 + 1) * sizeof *d->drawn : 0);
    sefl_wipe(d, sizeof *d);
}

bool record_draw_has(const record_draw *d, size_t i)
{
    return !d->drawn || (d->drawn[i / 64] >> (i % 64) & 1);
}

size_t record_draw_at(const record_draw *d, size_t i)
{
    return i < d->docs - d->from ? d->from + i : i - (d->docs - d->from);
}
