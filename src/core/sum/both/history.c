#include "sum/history.h"

#include "base/ct.h"

#include <string.h>

static size_t record_bytes(const task *t)
{
    return NOISE_ID + t->values * NOISE_KEPT;
}

sefl_status history_load(history *h, const task *t, uint64_t round, history_fresh *fresh,
                         history_get *get, void *ctx)
{
    history_clear(h); /* of an earlier call */
    for (unsigned j = 0; j < t->filter.b; j++) {
        sefl_buf *b = &h->past[j];
        sefl_status st = SEFL_OK;
        if (t->filter.gamma[j] == 0 || round <= j + 1)
            continue;
        if (fresh && fresh->round == round - 1 - j && fresh->stored)
            *b = fresh->record, *fresh = (history_fresh){ 0 };
        else
            st = get(ctx, round - 1 - j, b);
        if (st == SEFL_ENOMEM || st == SEFL_EIO || st == SEFL_ETIMEOUT)
            return st; /* the record may be there */
        if (st == SEFL_OK && b->n == record_bytes(t))
            h->lags |= (uint8_t)(1u << j);
        else
            buf_clear(b);
    }
    return SEFL_OK;
}

const uint8_t *history_id(const history *h, unsigned j)
{
    return h->past[j].p;
}

void history_only(history *h, uint8_t lags)
{
    h->lags &= lags;
    for (unsigned j = 0; j < NOISE_LAGS; j++)
        if (!(h->lags >> j & 1))
            buf_clear(&h->past[j]);
}

sefl_status history_begin(history *h, const task *t, const uint8_t id[NOISE_ID])
{
    uint8_t *bytes;
    const uint8_t *past[NOISE_LAGS] = { 0 };
    const unsigned b = t->filter.b;
    if (b == 0 || h->keep.n > 0)
        return SEFL_OK;
    for (unsigned j = 0; j < b; j++)
        past[j] = h->lags >> j & 1 ? h->past[j].p + NOISE_ID : NULL;
    if (past[b - 1])
        h->keep = h->past[b - 1], h->past[b - 1] = (sefl_buf){ 0 };
    else
        SEFL_PASS(buf_extend(&h->keep, &bytes, record_bytes(t)));
    memcpy(h->keep.p, id, NOISE_ID);
    noise_filter_back(h->keep.p + NOISE_ID, t->filter.gamma, h->lags, past, t->values);
    return SEFL_OK;
}

uint8_t *history_memory(const history *h)
{
    return h->keep.n > 0 ? h->keep.p + NOISE_ID : NULL;
}

void history_clear(history *h)
{
    for (unsigned j = 0; j < NOISE_LAGS; j++)
        buf_clear(&h->past[j]);
    buf_clear(&h->keep);
    *h = (history){ 0 };
}

void history_take(history_fresh *f, history *h, uint64_t round, uint64_t attempt)
{
    if (h->keep.n == 0)
        return;
    history_drop(f);
    *f = (history_fresh){ .round = round, .attempt = attempt, .record = h->keep };
    h->keep = (sefl_buf){ 0 };
}

void history_drop(history_fresh *f)
{
    buf_clear(&f->record);
    *f = (history_fresh){ 0 };
}

history_range history_after(const task *t, uint64_t round, bool released)
{
    const uint64_t b = t->filter.b;
    if (b == 0)
        return (history_range){ 1, 0 };
    return (history_range){ round >= b ? round + 1 - b : 1, released ? round : round - 1 };
}

void history_limit(history_fresh *f, history_range keep)
{
    if (f->round < keep.from || f->round > keep.to)
        history_drop(f);
}
