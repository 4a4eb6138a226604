#include "sum/as_memory.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = NOISE_LAGS + 1 };

static sefl_status put(void *ctx, as_record what, uint64_t round, uint64_t attempt, sefl_span bytes)
{
    as_memory *m = ctx;
    (void)attempt;
    if (what == AS_HISTORY) {
        m->history[round % PLACES].round = 0;
        buf_clear(&m->history[round % PLACES].bytes);
        SEFL_PASS(wr_raw(&m->history[round % PLACES].bytes, bytes.p, bytes.n));
        m->history[round % PLACES].round = round;
        return SEFL_OK;
    }
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
    if (what == AS_HISTORY && round > 0 && m->history[round % PLACES].round == round)
        return wr_raw(out, m->history[round % PLACES].bytes.p, m->history[round % PLACES].bytes.n);
    if (!m->record[what].there || m->record[what].round != round)
        return sefl_fail(SEFL_ENOTFOUND, "round %" PRIu64 " has no record %d", round, (int)what);
    return wr_raw(out, m->record[what].bytes.p, m->record[what].bytes.n);
}

static sefl_status row_put(void *ctx, const as_row *row)
{
    ((as_memory *)ctx)->row = *row;
    return SEFL_OK;
}

static sefl_status row_get(void *ctx, uint64_t round, as_row *out)
{
    const as_memory *m = ctx;
    if (m->row.round != round)
        return sefl_fail(SEFL_ENOTFOUND, "round %" PRIu64 " has no row", round);
    *out = m->row;
    return SEFL_OK;
}

static sefl_status step(void *ctx, const as_row *row, sefl_span memory, sefl_span model)
{
    SEFL_PASS(put(ctx, AS_MEMORY, 0, 0, memory));
    SEFL_PASS(put(ctx, AS_MODEL, 0, 0, model));
    return row_put(ctx, row);
}

static sefl_status wipe(void *ctx, uint64_t round)
{
    as_memory *m = ctx;
    for (int i = AS_SHARES; i < AS_RECORDS; i++)
        if (m->record[i].round == round) {
            buf_clear(&m->record[i].bytes);
            m->record[i].there = false;
        }
    return SEFL_OK;
}

static sefl_status history_keep(void *ctx, uint64_t from, uint64_t to)
{
    as_memory *m = ctx;
    for (int i = 0; i < PLACES; i++)
        if (m->history[i].round < from || m->history[i].round > to) {
            buf_clear(&m->history[i].bytes);
            m->history[i].round = 0;
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
    for (int i = 0; i < PLACES; i++)
        buf_clear(&m->history[i].bytes);
    *m = (as_memory){ 0 };
}

/* ---- uploads --------------------------------------------------------------------------------- */

static sefl_status upload_set(void *ctx, uint64_t round, round_entry **out, uint32_t *n)
{
    const as_uploads_memory *m = ctx;
    (void)round;
    *n = m->clients;
    *out = NULL;
    if (!m->set || *n == 0)
        return SEFL_OK;
    SEFL_PASS(sefl_new(out, *n, sizeof **out));
    memcpy(*out, m->set, *n * sizeof **out);
    return SEFL_OK;
}

static bool upload_arrived(void *ctx, uint64_t round, uint32_t i, round_entry *out)
{
    const as_uploads_memory *m = ctx;
    (void)round;
    if (!m->heads || i >= m->clients)
        return false;
    *out = m->set[i];
    return true;
}

static sefl_status upload_head(void *ctx, uint64_t round, const round_entry *e, uint8_t *out)
{
    const as_uploads_memory *m = ctx;
    const round_entry *at = bsearch(e, m->set, m->clients, sizeof *e, round_entry_order);
    SEFL_NEED(at, SEFL_EINVAL, "round %" PRIu64 ": no such upload", round);
    memcpy(out, m->heads + (size_t)(at - m->set) * m->head_bytes, m->head_bytes);
    return SEFL_OK;
}

static sefl_status closed_sum(void *ctx, uint64_t round, ahe_sum **out)
{
    (void)round;
    *out = ((as_uploads_memory *)ctx)->closed;
    return SEFL_OK;
}

static void close_uploads(void *ctx)
{
    (void)ctx;
}

as_uploads as_uploads_memory_calls(as_uploads own)
{
    own.close = close_uploads, own.set = upload_set, own.arrived = upload_arrived;
    own.head = upload_head, own.sum = closed_sum;
    return own;
}
