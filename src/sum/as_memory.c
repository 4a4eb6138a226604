#include "sum/as_memory.h"

#include <inttypes.h>

static sefl_status put(void *ctx, as_record what, uint64_t round, uint64_t attempt, sefl_span bytes)
{
    as_memory *m = ctx;
    (void)attempt;
    m->record[what].there = false;
    buf_clear(&m->record[what].bytes);
    SEFL_PASS(wr_raw(&m->record[what].bytes, bytes.p, bytes.n));
    m->record[what].round = round;
    m->record[what].there = true;
    return SEFL_OK;
}

static sefl_status get(void *ctx, as_record what, uint64_t round, sefl_buf *out)
{
    const as_memory *m = ctx;
    if (!m->record[what].there || m->record[what].round != round)
        return sefl_fail(SEFL_ENOTFOUND, "round %" PRIu64 " has no record %d", round, (int)what);
    return wr_raw(out, m->record[what].bytes.p, m->record[what].bytes.n);
}

static sefl_status row_put(void *ctx, const journal_round *row)
{
    ((as_memory *)ctx)->row = *row;
    return SEFL_OK;
}

static sefl_status row_get(void *ctx, uint64_t round, journal_round *out)
{
    const as_memory *m = ctx;
    if (m->row.round != round)
        return sefl_fail(SEFL_ENOTFOUND, "round %" PRIu64 " has no row", round);
    *out = m->row;
    return SEFL_OK;
}

static sefl_status step(void *ctx, const journal_round *row, sefl_span memory, sefl_span model)
{
    SEFL_PASS(put(ctx, AS_MEMORY, 0, 0, memory));
    SEFL_PASS(put(ctx, AS_MODEL, 0, 0, model));
    return row_put(ctx, row);
}

static sefl_status wipe(void *ctx, uint64_t round)
{
    as_memory *m = ctx;
    for (int i = AS_MASK; i < AS_RECORDS; i++)
        if (m->record[i].round == round) {
            buf_clear(&m->record[i].bytes);
            m->record[i].there = false;
        }
    return SEFL_OK;
}

as_store as_memory_store(as_memory *m)
{
    return (as_store){ .ctx = m, .place = "memory", AS_STORE_CALLS };
}

void as_memory_clear(as_memory *m)
{
    for (int i = 0; i < AS_RECORDS; i++)
        buf_clear(&m->record[i].bytes);
    *m = (as_memory){ 0 };
}
