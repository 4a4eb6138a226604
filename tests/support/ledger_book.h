/* ledger_book: a ledger_port (store/ledger_port.h) that uses a ledger without an account. */
#ifndef SUPPORT_LEDGER_BOOK_H
#define SUPPORT_LEDGER_BOOK_H

#include "store/ledger_port.h"

/* A ledger and the terms of one task. */
typedef struct ledger_book {
    ledger *ledger;
    ledger_terms terms;
} ledger_book;

static inline sefl_status book_head(void *ctx, ledger_head *out)
{
    ledger_get_head(((ledger_book *)ctx)->ledger, out);
    return SEFL_OK;
}

static inline ledger_order book_compare(void *ctx, const ledger_head *peer)
{
    return ledger_compare(((ledger_book *)ctx)->ledger, peer);
}

static inline sefl_status book_head_after(void *ctx, uint64_t round, ledger_head *out)
{
    const ledger_book *b = ctx;
    return ledger_head_after(b->ledger, &b->terms, round, out);
}

static inline sefl_status book_charge(void *ctx, uint64_t round)
{
    const ledger_book *b = ctx;
    return ledger_charge(b->ledger, &b->terms, round, NULL);
}

static inline sefl_status book_has(void *ctx, uint64_t round, bool *out)
{
    const ledger_book *b = ctx;
    *out = ledger_has(b->ledger, b->terms.task, round);
    return SEFL_OK;
}

static inline ledger_port ledger_port_of(ledger_book *book)
{
    return (ledger_port){ book, book_head, book_compare, book_head_after, book_charge, book_has };
}

#endif
